"""Special values for which an H200 decides: NaN, what .ftz flushes, and divisors of no use."""

import numpy as np
import pytest
from emulator_ptx import kernel, run

from weft import emulator

F64_NAN = [0x7FF0000000000001, 0xFFF7FFFFFFFFFFFF, 0xFFF8000000000005, 0x7FF9B707D5EC251F]
QUIET = [x | 1 << 51 for x in F64_NAN]
F32_NAN = [0x7F800001, 0x7FBFFFFF, 0x7FC00005, 0x7FC57FC5]
NAN = {
    "cvt.rn.f32.f64 %d0, %a0": (F64_NAN, [0x7FC00000, 0xFFFFFFFF, 0xFFC00000, 0x7FCDB83E]),
    "cvt.rz.f16.f64 %d0, %a0": (F64_NAN, [0x7E00, 0xFFFF, 0xFE00, 0x7E6D]),
    "cvt.f32.bf16 %d0, %a0": ([0x7F81, 0xFFC1], [0x7F810000, 0xFFC10000]),
    "cvt.f32.f32 %d0, %a0": (F32_NAN, F32_NAN),
    "cvt.rzi.f32.f32 %d0, %a0": (F32_NAN, [0x7FFFFFFF] * 4),
    "cvt.f64.f16 %d0, %a0": ([0x7C01], [0x7FF8040000000000]),
    "cvt.ftz.f64.f32 %d0, %a0": (F32_NAN, [0x7FFFFFFFE0000000] * 4),
    "cvt.rn.tf32.f32 %d0, %a0": (F32_NAN, [0x7FFFE000] * 4),
    "cvt.rna.tf32.f32 %d0, %a0": (F32_NAN, [0x7F800000, 0x7FBFE000, 0x7FC00000, 0x7FC56000]),
    "cvt.rna.satfinite.tf32.f32 %d0, %a0": (F32_NAN, [0x7F7FE000, 0x7FBFC000, 0x7FBFE000, 0x7FC54000]),
    "rcp.approx.ftz.f64 %d0, %a0": (F64_NAN[:2], [0, 0x7FFFFFFF00000000]),
    "rsqrt.approx.ftz.f64 %d0, %a0": ([0xB690000000000000], [0x7FFFFFFF00000000]),
    "add.f64 %d0, 0d7FF8000000000000, %a0": (F64_NAN, QUIET),
    "div.rn.f64 %d0, 0d7FF8000000000001, %a0": (F64_NAN, [0x7FF8000000000001] * 4),
    "add.rz.f64 %d0, %a0, 0dFFF8000000000000": (F64_NAN, [0xFFF8000000000000] * 4),
    "sub.rm.f64 %d0, 0d3FF0000000000000, %a0": (F64_NAN, QUIET),
    "fma.rn.f64 %d0, 0d3FF0000000000000, 0d3FF0000000000000, %a0": (F64_NAN, QUIET),
    "fma.rz.f64 %d0, 0d7FF8000000000001, %a0, 0dFFFFFFFFFFFFFFFF": (F64_NAN, QUIET),
    "fma.rz.f64 %d0, %a0, 0d3FF0000000000000, 0d7FF8000000000005": (F64_NAN, [0x7FF8000000000005] * 4),
}


@pytest.mark.parametrize("compiled", [False, True])
def test_nan_is_that_of_a_gpu(compiled):
    """An H200's results; where several operands are NaN, a factor's comes before the addend's."""
    for body, (given, wanted) in NAN.items():
        text = body.partition(" ")[0].split(".")
        kinds = [
            np.uint64 if "f64" in part else np.uint16 if "f16" in part else np.uint32 for part in text[-2:]
        ]
        result = kinds[1] if text[0] != "cvt" else kinds[0]
        a, out = np.array(given, kinds[1]), np.zeros(len(given), result)
        ptx = kernel(f"{body};", [a], [out], target="sm_100a")
        emulator.Module(ptx).launch("k", block=len(a), args=[a, out], compiled=compiled)
        assert out.tolist() == wanted, body


TINY = [0x3F7FFFFF, 0xBF7FFFFF], [0x80800000, 0x00800000]


@pytest.mark.parametrize("compiled", [False, True])
def test_ftz_flushes_what_is_tiny_before_rounding(compiled):
    """Products just below the least normal number, to which they are rounded, are zeros, as on an H200."""
    forms = {
        "mul.ftz.f32 %d0, %a0, %a1": TINY,
        "mul.rn.ftz.f32 %d0, %a0, %a1": TINY,
        "fma.rn.ftz.f32 %d0, %a0, %a1, 0f80000000": TINY,
        "mul.ftz.f16 %d0, %a0, %a1": ([0xBBFF, 0x3BFF], [0x0400, 0x8400]),
    }
    for body, (x, y) in forms.items():
        kind = np.uint16 if "f16" in body else np.uint32
        a, b, out = np.array(x, kind), np.array(y, kind), np.zeros(2, kind)
        ptx = kernel(f"{body};", [a, b], [out], target="sm_90")
        emulator.Module(ptx).launch("k", block=2, args=[a, b, out], compiled=compiled)
        assert out.tolist() == [1 << 8 * kind().itemsize - 1] * 2, body


def test_f16_is_converted_from_subnormal_f32_in_spite_of_ftz():
    x = np.array([1, 0x80000001], np.uint32)
    assert run("cvt.rp.ftz.f16.f32 %d0, %a0;", x, out=np.uint16).tolist() == [1, 0x8000]
    assert run("cvt.rm.ftz.f16.f32 %d0, %a0;", x, out=np.uint16).tolist() == [0, 0x8001]


def test_approximate_quotients_of_large_divisors_are_zero():
    """Beyond 2**126, as PTX defines: their reciprocals are subnormal. Infinity times that is NaN."""
    x, y = np.array([1e38, -1e38, np.inf, 1], np.float32), np.array([1e38, 3e38, 1e38, np.inf], np.float32)
    got = run("div.approx.f32 %d0, %a0, %a1;", x.view(np.uint32), y.view(np.uint32), out=np.uint32)
    assert got.tolist() == [0, 0x80000000, 0x7FFFFFFF, 0]


def test_bf16_is_fused_to_nearest_only():
    with pytest.raises(emulator.PtxError, match=r"must round bf16 with \.rn, got \.rz"):
        run("fma.rz.bf16 %d0, %a0, %a0, %a0;", np.zeros(2, np.uint16), out=np.uint16, target="sm_90")


def test_sums_of_f64_in_global_memory_keep_nan_as_it_is():
    x = np.array([0x7FF0000000000001, 0x3FF0000000000000, 0x7FF8000000000000], np.uint64)
    y = np.array([0x3FF0000000000000, 0xFFF7FFFFFFFFFFFF, 0xFFF0000000000001], np.uint64)
    body = "ld.param.u64 %p, [p_a0]; mad.wide.u32 %p, %i, 8, %p; atom.global.add.f64 %l0, [%p], %a1;"
    got = run(f"{body} ld.global.b64 %d0, [%p];", x.copy(), y, out=np.uint64)
    assert got.tolist() == [int(x[0]), int(y[1]), int(y[2])]


def test_no_set_bit_is_before_a_base_beyond_the_word():
    base, offset = np.array([31, 32, 0x4F800000, 32], np.uint32), np.array([-2, -2, -2, 1], np.int32)
    mask = np.full(4, 0xBFC00001, np.uint32)
    got = run("fns.b32 %d0, %a0, %a1, %a2;", mask, base, offset.view(np.uint32), out=np.uint32)
    assert got.tolist() == [29, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF]
