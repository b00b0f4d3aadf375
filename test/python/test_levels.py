"""A kernel is compiled and called from any level: tile ops, instructions, LLVM's dialect."""

import numpy as np
import pytest

import weft
from weft.compiler.launch_record import PointerArgument, ScalarArgument
from weft.compiler.stages import compile_module
from weft.errors import WeftError
from weft.launch.kernel import Kernel

PRODUCT = """
func.func @product(%A: memref<?x?xf16>, %B: memref<?x?xf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    schedule = SCHEDULE} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}
"""
SCHEDULES = {
    "sm_80": "{block = array<i64: 32, 32, 32>, warps = array<i64: 1, 1>, stages = 2 : i64}",
    "sm_90a": "{block = array<i64: 64, 64, 64>, warpgroups = 1 : i64, stages = 2, global_splits = 2}",
}
STAGES = (
    *("expand-matmul", "lower-buffers", "gpu.module(convert-gpu-to-nvvm)", "finalize-memref-to-llvm"),
    "ensure-debug-info-scope-on-llvm-func",
)


@pytest.fixture(scope="module", params=SCHEDULES)
def product(request):
    text = PRODUCT.replace("SCHEDULE", SCHEDULES[request.param])
    return weft.compile(text, arch=request.param)


@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_leaves_is_taken_again(product, stage):
    again = weft.compile(product.ir(stage), arch=product.chip)
    assert again.launch == product.launch
    if stage == STAGES[-1]:
        assert product.ptx.count("mma") == again.ptx.count("mma") > 0
        a, b = np.random.default_rng(0).standard_normal((2, 72, 72)).astype(np.float16)
        d = np.zeros((72, 72), np.float32)
        assert not again.emulate(a, b, d).findings
        np.testing.assert_allclose(d, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_a_lowered_module_is_written_in_the_newest_ptx():
    """Nothing in it says what its intrinsics need."""
    made = compile_module(POINTERS, "sm_80")
    lowered = compile_module(made.ir(made.stages()[-1]), "sm_80")
    assert made.ptx_version == (8, 4) and lowered.ptx_version == (9, 0)


POINTERS = """gpu.module @m {
  gpu.func @twice(%x: !llvm.ptr, %n: i32, %y: !llvm.ptr<1>) kernel attributes {
      known_block_size = array<i32: 32, 1, 1>, weft.grid = affine_map<() -> (1, 1, 1)>,
      weft.writes = array<i32: 2>} {
    %t = gpu.thread_id x
    %i = arith.index_cast %t : index to i32
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %v = llvm.load %from : !llvm.ptr -> i32
    %w = llvm.mul %v, %n : i32
    llvm.store %w, %to : i32, !llvm.ptr<1>
    gpu.return
  }
}"""
LOWERED = """gpu.module @m {
  llvm.func @twice(%x: !llvm.ptr, %n: i32, %y: !llvm.ptr<1>) attributes {nvvm.kernel, BLOCK} {
    %i = nvvm.read.ptx.sreg.tid.x : i32
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
    %v = llvm.load %from : !llvm.ptr -> i32
    %w = llvm.mul %v, %n : i32
    llvm.store %w, %to : i32, !llvm.ptr<1>
    llvm.return
  }
}"""


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (POINTERS, {}),
        (LOWERED.replace("BLOCK", "nvvm.reqntid = array<i32: 32>"), {"grid": (1, 1, 1)}),
        (LOWERED.replace(", BLOCK", ""), {"grid": (1, 1, 1), "block": (32, 1, 1)}),
    ],
)
def test_pointers_take_arrays_of_any_type_and_shape(text, sizes):
    kernel = weft.compile(text, arch="sm_80")
    writes = [0] if text != POINTERS else []
    assert [a.writes for a in kernel.launch.arguments if isinstance(a, PointerArgument)] == [
        bool(writes),
        True,
    ]
    assert kernel.launch.arguments[1] == ScalarArgument("i32")
    x, y = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros(32, np.uint32)
    one_row = np.zeros((2, 40), np.uint32)[:1, :32]  # the distance of a single row doesn't matter
    assert not kernel.emulate(x, 3, one_row, **sizes).findings
    assert not kernel.emulate(x, 3, y, **sizes).findings
    np.testing.assert_array_equal(y, one_row[0])
    np.testing.assert_array_equal(y, 3 * x.ravel())


def test_an_argument_of_a_pointer_must_be_contiguous_and_writable():
    kernel = weft.compile(POINTERS, arch="sm_80")
    x = np.zeros((32, 2), np.int32)
    with pytest.raises(WeftError, match="argument 0: expects a contiguous array, whose address is passed"):
        kernel.emulate(x[:, 0], 1, x)
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises(WeftError, match="argument 2: is written by the kernel, but the array is read-only"):
        kernel.emulate(fixed, 1, fixed)


RECORDS = {
    "3 : i32": "weft.arguments must be an array of types, got 3 : i32",
    "[3 : i32]": "weft.arguments must be an array of types, got [3 : i32]",
    "[memref<?xf32>]": "weft.arguments must be the types of 3 parameters, got [memref<?xf32>]",
}


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_of_arguments_that_does_not_fit_is_refused(record):
    text = LOWERED.replace("BLOCK", f"weft.arguments = {record}")
    with pytest.raises(WeftError) as caught:
        weft.compile(text, arch="sm_80")
    assert RECORDS[record] in str(caught.value) and "-:2:" in str(caught.value)


@pytest.mark.parametrize("given", ["array<i32: 0, 1, 1>", "array<i32: 1, 1, 1, 1>", "3 : i32"])
def test_a_block_that_is_none_is_refused(given):
    with pytest.raises(WeftError, match=r"nvvm.reqntid"):
        weft.compile(LOWERED.replace("BLOCK", f"nvvm.reqntid = {given}"), arch="sm_80")


def test_what_is_kept_of_a_kernel_with_pointers_is_the_same():
    kernel = weft.compile(POINTERS, arch="sm_80")
    record = kernel.launch.record()
    assert type(kernel.launch).of_record(record) == kernel.launch
    assert kernel.launch.parameters == ["argument 0: pointer", "argument 1: i32", "argument 2: pointer"]
    assert isinstance(kernel, Kernel)
