"""mma.sync and moves of 8x8 matrices: fragments of the PTX ISA, and sums against exact fractions."""

import time
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_gemm import Gemm, to_ptx
from emulator_ptx import module

from weft import emulator

TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
LEAST = {"f16": -14, "bf16": -126, "f32": -126}


# Fragments, from the figures of "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16": lane = 4 * group + t.


def a_fragment(matrix, lane):
    group, t = divmod(lane, 4)
    k = matrix.shape[1]
    return [
        matrix[group + 8 * down, 2 * t + pair + 8 * right]
        for right in range(k // 8)
        for down in range(2)
        for pair in range(2)
    ]


def b_fragment(matrix, lane):
    group, t = divmod(lane, 4)
    return [
        matrix[2 * t + pair + 8 * down, group] for down in range(matrix.shape[0] // 8) for pair in range(2)
    ]


def c_places(lane):
    group, t = divmod(lane, 4)
    return [(group + 8 * down, 2 * t + pair) for down in range(2) for pair in range(2)]


def multiply(a, b, c, name, target="sm_80", **options):
    """d = a @ b + c by one mma.sync per warp; a [warps, 16, k], b [warps, k, 8], c [warps, 16, 8]."""
    warps, _, k = a.shape
    na, nb = k // 4, k // 8
    words = [
        np.array([[fragment(m, lane) for lane in range(32)] for m in matrix]).view(np.uint32)
        for fragment, matrix in ((a_fragment, a), (b_fragment, b))
    ]
    sums = np.array([[[m[at] for at in c_places(lane)] for lane in range(32)] for m in c], np.float32)
    inputs = np.concatenate([*(w.reshape(warps, 32, -1) for w in words), sums.view(np.uint32)], axis=2).copy()
    width = 4 * inputs.shape[2]
    loads = "".join(f"ld.global.b32 %r{i}, [%rd2+{4 * i}];" for i in range(inputs.shape[2]))
    a_regs, b_regs = (", ".join(f"%r{i}" for i in r) for r in (range(na), range(na, na + nb)))
    c_regs = ", ".join(f"%r{i}" for i in range(na + nb, na + nb + 4))
    text = f"""
    .visible .entry k(.param .u64 p, .param .u64 q) {{
      .reg .b32 %r<32>; .reg .b64 %rd<8>;
      ld.param.u64 %rd1, [p]; ld.param.u64 %rd3, [q];
      mov.u32 %r30, %tid.x; mad.wide.u32 %rd2, %r30, {width}, %rd1;
      {loads}
      mma.sync.aligned.m16n8k{k}.row.col.f32.{name}.{name}.f32 {{%r20, %r21, %r22, %r23}},
        {{{a_regs}}}, {{{b_regs}}}, {{{c_regs}}};
      mad.wide.u32 %rd4, %r30, 16, %rd3; st.global.v4.b32 [%rd4], {{%r20, %r21, %r22, %r23}};
      ret;
    }}"""
    out = np.zeros((warps, 32, 4), np.float32)
    module(text, target).launch("k", block=32 * warps, args=[inputs, out], **options)
    d = np.zeros_like(c)
    for lane in range(32):
        for i, at in enumerate(c_places(lane)):
            d[(slice(None), *at)] = out[:, lane, i]
    return d


def exponent(value, name):
    """That of a number's format: subnormal numbers have the least one."""
    if value == 0:
        return LEAST[name]
    size = abs(Fraction(float(value)))
    bits = size.numerator.bit_length() - size.denominator.bit_length()
    bits -= Fraction(2) ** bits > size
    return max(bits, LEAST[name])


def truncated_sum(a, b, c, name, fraction, step):
    """One element by the published rule, over steps of k, in exact arithmetic; finite numbers only."""
    for k in range(0, len(a), step):
        terms = [
            (Fraction(float(x)) * Fraction(float(y)), exponent(x, name) + exponent(y, name))
            for x, y in zip(a[k : k + step], b[k : k + step], strict=True)
        ]
        terms = [(p, e if p else -126) for p, e in terms] + [(Fraction(float(c)), exponent(c, "f32"))]
        unit = Fraction(2) ** (max(e for _, e in terms) - fraction)
        total = sum(int(p / unit) for p, _ in terms) * unit
        e = max(exponent(total, "f32"), -126) if total else 0
        ulp = Fraction(2) ** (e - 23)
        total = int(total / ulp) * ulp
        if abs(total) >= Fraction(2) ** 128:
            return np.float32(np.inf if total > 0 else -np.inf)
        c = np.float32(float(total))
    return c


def operands(name, k, regime, seed, warps=2):
    """Matrices of one of several kinds that tell sums apart."""
    rng = np.random.default_rng(seed)
    kind = TYPES[name]
    a, b = rng.standard_normal((warps, 16, k)), rng.standard_normal((warps, k, 8))
    c = rng.standard_normal((warps, 16, 8))
    if regime == "wide":
        a *= 2.0 ** rng.integers(-12, 12, a.shape)
        b *= 2.0 ** rng.integers(-3, 3, b.shape)
        c *= 2.0 ** rng.integers(-20, 20, c.shape)
    elif regime == "cancel":
        a[:, :, 1::2] = a[:, :, ::2]
        b[:, 1::2] = -b[:, ::2]
        c *= 2.0**-10
    elif regime == "tiny":
        low = -24 if name == "f16" else -133
        a = rng.integers(-3, 4, a.shape) * 2.0**low
        b *= 2.0**-8
        c *= 2.0**-140
    elif regime == "zero":
        a[:, ::2] = 0
        c[:, :, ::2] = 0
    return a.astype(kind), b.astype(kind), c.astype(np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "k"), [("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16)])
@pytest.mark.parametrize("regime", ["plain", "wide", "cancel", "tiny", "zero"])
@pytest.mark.parametrize(("target", "fraction", "step"), [("sm_80", 24, 8), ("sm_90", 25, 16)])
def test_sums_are_the_hardwares(name, k, regime, target, fraction, step):
    a, b, c = operands(name, k, regime, k)
    d = multiply(a, b, c, name, target)
    for warp in range(len(a)):
        for m in range(0, 16, 3):
            for n in range(8):
                want = truncated_sum(a[warp, m], b[warp, :, n], c[warp, m, n], name, fraction, step)
                assert d[warp, m, n].tobytes() == want.tobytes(), (warp, m, n, d[warp, m, n], want)


def test_exact_arithmetic_rounds_once_to_nearest():
    a, b, c = operands("bf16", 16, "wide", 1)
    d = multiply(a, b, c, "bf16", arithmetic="exact")
    want = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)
    assert (d == want).all()


def test_infinities_and_nan():
    a, b, c = operands("f16", 16, "plain", 2)
    a[0, 0, 3] = np.inf
    a[0, 1, 2] = np.nan
    a[0, 2, 0], a[0, 2, 1], b[0, 0], b[0, 1] = np.inf, -np.inf, 1, 1
    c[0, 3] = np.inf
    c[0, 4] = -np.inf
    a[0, 4, 5] = np.inf
    b[0, 5], b[0, 3] = 1, 2
    c[1] = 3e38
    a[1], b[1] = 60000, 60000
    a[1, 0], b[1, 0] = 0, 0
    d = multiply(a, b, c, "f16")
    assert (d[0, 0] == np.inf).all()
    assert (d[0, 1:3].view(np.uint32) == 0x7FFFFFFF).all()
    assert (d[0, 3] == np.inf).all()
    assert (d[0, 4].view(np.uint32) == 0x7FFFFFFF).all()
    assert np.isfinite(d[0, 5:]).all()
    assert (d[1, 0] == np.float32(3e38)).all()


def test_infinity_times_a_large_number_keeps_its_sign():
    a, b, c = operands("bf16", 16, "plain", 3)
    a[0, 0, 0], b[0, 0] = np.inf, 2.0**126
    a[0, 1, 0] = -np.inf
    d = multiply(a, b, c, "bf16", "sm_90")
    assert (d[0, 0] == np.inf).all()
    assert (d[0, 1] == -np.inf).all()


def test_forms_come_from_the_isa_tables():
    for opcode, message in (
        ("mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", "shape must be m16n8k8 or m16n8k16"),
        ("mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32", "layouts must be row.col"),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", "num must be one of 1, 2, 4 on sm_80, got 3"),
    ):
        text = f".visible .entry k() {{ .reg .b32 %r<16>; {opcode} {{%r0}}, [%r1]; }}"
        with pytest.raises(emulator.PtxError, match=message):
            module(text).launch("k")
    text = (
        ".visible .entry k() { .reg .b32 %r<16>; "
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r0}, {%r1}, {%r2}, {%r3}; }"
    )
    with pytest.raises(emulator.PtxError, match="needs sm_80 or later"):
        module(text, "sm_75").launch("k")
    with pytest.raises(emulator.PtxError, match="expects 4 D registers, got 1"):
        module(text).launch("k")


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix(count, trans):
    data = np.random.default_rng(0).integers(0, 1 << 16, (2, 32, 8), np.uint16)
    loaded, back = np.zeros((2, 32, 4), np.uint32), np.zeros((2, 32, 8), np.uint16)
    registers = ", ".join(f"%r{i + 10}" for i in range(count))
    text = f"""
    .visible .entry k(.param .u64 p, .param .u64 q, .param .u64 s) {{
      .reg .b32 %r<32>; .reg .b64 %rd<16>; .shared .align 16 .b8 from[1024]; .shared .align 16 .b8 to[1024];
      ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u64 %rd3, [s];
      mov.u32 %r0, %tid.x; mul.wide.u32 %rd4, %r0, 16; add.u64 %rd1, %rd1, %rd4;
      add.u64 %rd2, %rd2, %rd4; add.u64 %rd3, %rd3, %rd4;
      ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd1];
      shl.b32 %r5, %r0, 4; mov.u32 %r6, from; add.u32 %r6, %r6, %r5; mov.u32 %r7, to; add.u32 %r7, %r7, %r5;
      st.shared.v4.u32 [%r6], {{%r1, %r2, %r3, %r4}};
      bar.sync 0;
      ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r6];
      st.global.v4.u32 [%rd2], {{%r10, %r11, %r12, %r13}};
      stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r7], {{{registers}}};
      bar.sync 0;
      ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r7]; st.global.v4.u32 [%rd3], {{%r1, %r2, %r3, %r4}};
      ret;
    }}"""
    module(text, "sm_90").launch("k", block=64, args=[data, loaded, back])
    halves = loaded.view(np.uint16).reshape(2, 32, 4, 2)
    for warp in range(2):
        for lane in range(32):
            row, column = divmod(lane, 4)
            for i in range(count):
                for half in range(2):
                    r, c = (2 * column + half, row) if trans else (row, 2 * column + half)
                    assert halves[warp, lane, i, half] == data[warp, 8 * i + r, c]
    assert (back[:, : 8 * count] == data[:, : 8 * count]).all()
    assert (back[:, 8 * count :] == 0).all()


def test_movmatrix_transposes():
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    words, out = matrix.view(np.uint32).reshape(32).copy(), np.zeros(32, np.uint32)
    text = """
    .visible .entry k(.param .u64 p, .param .u64 q) {
      .reg .b32 %r<8>; .reg .b64 %rd<8>;
      ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r0, %tid.x;
      mad.wide.u32 %rd1, %r0, 4, %rd1; mad.wide.u32 %rd2, %r0, 4, %rd2;
      ld.global.u32 %r1, [%rd1]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
      st.global.u32 [%rd2], %r2; ret;
    }"""
    module(text).launch("k", block=32, args=[words, out])
    assert (out.view(np.uint16).reshape(8, 8) == matrix.T).all()


def product(gemm, m, n, k, seed=None):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((n, k)).astype(ml_dtypes.bfloat16)
    d = np.full((m, n), np.nan, np.float32)
    grid = n // gemm.tile[1], m // gemm.tile[0]
    ptx = emulator.Module(to_ptx(gemm.ir()))
    begun = time.perf_counter()
    report = ptx.launch(
        "gemm", grid=grid, block=gemm.threads, args=[a, b, d, n, k], shared_bytes=gemm.shared_bytes, seed=seed
    )
    elapsed = time.perf_counter() - begun
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(d - exact).max() < 1e-3
    return report, elapsed, d


def test_a_whole_product():
    report, _, d = product(Gemm((2, 2), (32, 16)), 128, 64, 96)
    assert report.counters["mma"] == 128 * 64 * 96 // (16 * 8 * 16)
    assert report.counters["cp.async"] == (64 + 32) * 32 * 2 // 16 // 32 * 3 * 4
    for seed in (1, 2):
        assert (product(Gemm((2, 2), (32, 16)), 128, 64, 96, seed)[2] == d).all()


@pytest.mark.slow
def test_a_large_product_is_quick_and_its_cost_linear():
    gemm = Gemm((2, 4), (64, 32))
    _, once, _ = product(gemm, 256, 256, 256)
    report, twice, _ = product(gemm, 256, 256, 512)
    assert report.counters["mma"] == 2 * 8192
    assert once < 5
    assert twice < 3 * once + 0.5
