"""A call of a kernel in the emulator reports the sanitizer's findings."""

import warnings

import numpy as np
import pytest

import weft

RACE = """gpu.module @m {
  gpu.func @race(%y: memref<64xi32>) workgroup(%s: memref<64xi32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %t = gpu.thread_id x
    %i = arith.index_cast %t : index to i32
    memref.store %i, %s[%t] : memref<64xi32, #gpu.address_space<workgroup>>
    BARRIER
    %last = arith.constant 63 : index
    %other = arith.subi %last, %t : index
    %v = memref.load %s[%other] : memref<64xi32, #gpu.address_space<workgroup>>
    memref.store %v, %y[%t] : memref<64xi32>
    gpu.return
  }
}"""


def kernel(barrier=""):
    return weft.compile(RACE.replace("BARRIER", barrier), arch="sm_80")


def run(made, **options):
    out = np.zeros(64, np.int32)
    made(out, grid=(1, 1, 1), on="emulator", **options)
    assert out[0] == 63 and out[63] == 0


def test_findings_are_a_warning():
    with pytest.warns(
        UserWarning, match=r"kernel race: the emulator found 1 mistake: -:10:10: shared-race: "
    ) as said:
        run(kernel())
    assert said[0].filename == __file__ or said[0].filename.endswith("test_kernel_findings.py")


def test_findings_are_an_error_where_asked():
    with pytest.raises(weft.WeftError, match=r"kernel race: the emulator found 1 mistake: .*shared-race"):
        run(kernel(), findings="error")


@pytest.mark.parametrize(
    ("barrier", "findings"), [("", "ignore"), ("gpu.barrier", "warn"), ("gpu.barrier", "error")]
)
def test_what_is_right_or_ignored_is_silent(barrier, findings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kernel(barrier), findings=findings)


def test_what_becomes_of_findings_is_one_of_three():
    with pytest.raises(weft.WeftError, match="findings must be one of warn, error, ignore, got 'print'"):
        run(kernel(), findings="print")


def test_a_kernel_is_emulated_with_options():
    made, out = kernel(), np.zeros(64, np.int32)
    assert not made.emulate(out, grid=(1, 1, 1), sanitize=False).findings
    made.emulate(out, grid=(1, 1, 1), seed=3, arithmetic="exact", chip="sm_90a", max_instructions=10**6)
    with pytest.raises(weft.WeftError, match="instruction limit of 3"):
        made.emulate(out, grid=(1, 1, 1), max_instructions=3)
    with pytest.raises(weft.WeftError, match="chip must be one that runs PTX for sm_80, got sm_75"):
        made.emulate(out, grid=(1, 1, 1), chip="sm_75")
