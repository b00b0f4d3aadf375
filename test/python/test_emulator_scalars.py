"""Scalar instructions that few compilers emit, against their definitions on Python's numbers."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import module, run

from weft import emulator

LOW = 0xFFFFFFFF


def words(seed, count=96):
    values = np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)
    values[:8] = [0, 1, LOW, 1 << 31, 0x7FFFFFFF, 0x80808080, 0x7F80FF01, 0xFFFF0000]
    return values


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def parts(word, bits, kind):
    cut = [word >> i & ((1 << bits) - 1) for i in range(0, 32, bits)]
    return [signed(v, bits) for v in cut] if kind == "s32" else cut


def join(values, bits):
    return sum((v & ((1 << bits) - 1)) << bits * i for i, v in enumerate(values))


# float64 in directed rounding


def exact_ok(got, want, mode):
    """Whether a float64 is an exact number rounded by `mode`."""
    value = Fraction(float(got))
    if mode == "rz":
        mode = "rm" if want > 0 else "rp"
    if mode == "rm":
        return value <= want < Fraction(float(np.nextafter(got, np.inf)))
    return Fraction(float(np.nextafter(got, -np.inf))) < want <= value


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_float64(mode):
    rng = np.random.default_rng(5)
    x, y, z = rng.standard_normal((3, 96)) * 2.0 ** rng.integers(-60, 60, (3, 96))
    inputs = [v.view(np.uint64) for v in (x, y, z)]
    sources = [[Fraction(float(v)) for v in values] for values in (x, y, z)]
    cases = {
        f"add.{mode}.f64 %d0, %a0, %a1;": [p + q for p, q in zip(*sources[:2], strict=True)],
        f"sub.{mode}.f64 %d0, %a0, %a1;": [p - q for p, q in zip(*sources[:2], strict=True)],
        f"mul.{mode}.f64 %d0, %a0, %a1;": [p * q for p, q in zip(*sources[:2], strict=True)],
        f"div.{mode}.f64 %d0, %a0, %a1;": [p / q for p, q in zip(*sources[:2], strict=True)],
        f"rcp.{mode}.f64 %d0, %a0;": [1 / p for p in sources[0]],
        f"fma.{mode}.f64 %d0, %a0, %a1, %a2;": [p * q + r for p, q, r in zip(*sources, strict=True)],
    }
    for body, want in cases.items():
        got = run(body, *inputs, out=np.uint64).view(np.float64)
        assert all(exact_ok(g, w, mode) for g, w in zip(got, want, strict=True)), body
    got = run(f"abs.f64 %a0, %a0; sqrt.{mode}.f64 %d0, %a0;", *inputs, out=np.uint64).view(np.float64)
    toward = -np.inf if mode != "rp" else np.inf
    for g, v in zip(got, sources[0], strict=True):
        other = Fraction(float(np.nextafter(g, -toward)))
        low, high = sorted([Fraction(float(g)), other])
        assert low**2 <= abs(v) <= high**2


@pytest.mark.parametrize(("mode", "zero"), [("rn", 0), ("rz", 0), ("rm", 1 << 63), ("rp", 0)])
def test_canceling_sums_have_the_sign_of_their_rounding(mode, zero):
    x = np.array([1.5, -2.0, 1e300, -1e-300] * 8)
    minus = (-x).view(np.uint64)
    assert (
        run(f"add.{mode}.f64 %d0, %a0, %a1;", x.view(np.uint64), minus, out=np.uint64).tolist() == [zero] * 32
    )
    single = x[:2].astype(np.float32).repeat(16)
    got = run(f"sub.{mode}.f32 %d0, %a0, %a0;", single.view(np.uint32), out=np.uint32)
    assert got.tolist() == [zero >> 32] * 32


def test_overflow_in_directed_rounding():
    x = np.array([1.7e308, -1.7e308] * 16).view(np.uint64)
    most = np.finfo(np.float64).max
    for mode, want in (("rz", [most, -most]), ("rm", [most, -np.inf]), ("rp", [np.inf, -most])):
        got = run(f"add.{mode}.f64 %d0, %a0, %a0;", x, out=np.uint64).view(np.float64)
        assert got.tolist() == want * 16


def test_coarse_float64_functions_keep_the_upper_half():
    x = np.random.default_rng(6).standard_normal(32) ** 2 + 0.01
    for name, want in (("rcp", 1 / x), ("rsqrt", 1 / np.sqrt(x))):
        got = run(f"{name}.approx.ftz.f64 %d0, %a0;", x.view(np.uint64), out=np.uint64)
        assert not (got & np.uint64(LOW)).any()
        np.testing.assert_allclose(got.view(np.float64), want, rtol=2.0**-19)
    tiny = np.full(32, 1e-310).view(np.uint64)
    assert np.isinf(run("rcp.approx.ftz.f64 %d0, %a0;", tiny, out=np.uint64).view(np.float64)).all()


# Mixed precision and other forms of float arithmetic


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_mixed_precision(narrow):
    kind = np.float16 if narrow == "f16" else ml_dtypes.bfloat16
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((2, 64)) * 8).astype(kind)
    c = rng.standard_normal(64).astype(np.float32)
    u16 = [v.view(np.uint16) for v in (a, b)]
    wide = [v.astype(np.float64) for v in (a, b)]
    for body, want in (
        (f"add.f32.{narrow} %d0, %a0, %a2;", wide[0] + c),
        (f"sub.rn.f32.{narrow} %d0, %a0, %a2;", wide[0] - c),
        (f"fma.rn.f32.{narrow} %d0, %a0, %a1, %a2;", wide[0] * wide[1] + c),
        (f"add.rn.sat.f32.{narrow} %d0, %a0, %a2;", np.clip((wide[0] + c).astype(np.float32), 0, 1)),
    ):
        got = run(body, *u16, c.view(np.uint32), out=np.uint32, target="sm_100a").view(np.float32)
        np.testing.assert_array_equal(got, want.astype(np.float32), err_msg=body)


def test_three_operands_and_signs_of_minima():
    rng = np.random.default_rng(8)
    a, b, c = rng.standard_normal((3, 64)).astype(np.float32)
    a[:3], b[:3], c[:3] = [np.nan, np.nan, 1], [2, np.nan, 3], [5, np.nan, -4]
    u32 = [v.view(np.uint32) for v in (a, b, c)]
    fmin, fmax = np.fmin, np.fmax
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    xor = np.where(np.signbit(a) ^ np.signbit(b), -1, 1)
    for body, want in (
        ("min.f32 %d0, %a0, %a1, %a2;", fmin(fmin(a, b), c)),
        ("max.abs.f32 %d0, %a0, %a1, %a2;", fmax(fmax(abs(a), abs(b)), abs(c))),
        ("max.NaN.f32 %d0, %a0, %a1, %a2;", np.where(nan, np.nan, fmax(fmax(a, b), c))),
        ("min.xorsign.abs.f32 %d0, %a0, %a1;", fmin(abs(a), abs(b)) * xor),
        (
            "max.NaN.xorsign.abs.f32 %d0, %a0, %a1;",
            np.where(np.isnan(a) | np.isnan(b), np.nan, fmax(abs(a), abs(b)) * xor),
        ),
    ):
        got = run(body, *u32, out=np.uint32, target="sm_100a")
        np.testing.assert_array_equal(got.view(np.float32), want.astype(np.float32), err_msg=body)
        assert set(got[np.isnan(want)].tolist()) <= {0x7FFFFFFF}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_pairs_of_float32(mode):
    rng = np.random.default_rng(9)
    x, y, z = rng.standard_normal((3, 64, 2)).astype(np.float32)
    inputs = [v.reshape(-1).view(np.uint64) for v in (x, y, z)]
    singles = [v.reshape(-1).view(np.uint32) for v in (x, y, z)]
    for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        if name == "sub" and mode != "rn":
            continue
        operands = ", ".join(f"%a{i}" for i in range(count))
        for ftz in ("", ".ftz"):
            pair = run(f"{name}.{mode}{ftz}.f32x2 %d0, {operands};", *inputs, out=np.uint64, target="sm_100a")
            alone = run(f"{name}.{mode}{ftz}.f32 %d0, {operands};", *singles, out=np.uint32)
            assert pair.view(np.uint32).tolist() == alone.tolist()


# Integers


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
def test_halves_side_by_side(kind):
    a, b = words(1), words(2)
    x, y = (v.view(np.int16 if kind[0] == "s" else np.uint16).astype(int) for v in (a, b))
    cases = {"add": x + y, "min": np.minimum(x, y), "max": np.maximum(x, y)}
    if kind[0] == "s":
        cases["add.sat"] = np.clip(x + y, -32768, 32767)
        cases["max.relu"] = np.maximum(np.maximum(x, y), 0)
    for name, want in cases.items():
        got = run(f"{name}.{kind} %d0, %a0, %a1;", a, b, out=np.uint32, target="sm_120a")
        assert got.view(np.uint16).tolist() == (want & 0xFFFF).tolist(), name


def test_carries_pass_over_instructions_that_keep_none():
    a, b = words(3), words(4)
    body = "add.cc.u32 %r0, %a0, %a1; addc.u32 %r1, %a0, 0; sub.u32 %r2, %r0, %r1; addc.u32 %d0, 0, 0;"
    assert run(body, a, b, out=np.uint32).tolist() == [
        int(x) + int(y) >> 32 for x, y in zip(a, b, strict=True)
    ]
    # A borrow is a carry that is clear.
    body = "sub.cc.u32 %r0, %a0, %a1; addc.u32 %d0, 0, 0;"
    assert run(body, a, b, out=np.uint32).tolist() == (a >= b).astype(int).tolist()


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks_and_extensions(mode):
    rng = np.random.default_rng(10)
    a, b = rng.integers(0, 70, (2, 96), np.uint32)
    x = words(11)

    def amount(n):
        return min(int(n), 32) if mode == "clamp" else int(n) & 31

    got = run(f"bmsk.{mode}.b32 %d0, %a0, %a1;", a, b, out=np.uint32)
    assert got.tolist() == [((1 << amount(q)) - 1) << amount(p) & LOW for p, q in zip(a, b, strict=True)]
    for kind in ("u32", "s32"):
        got = run(f"szext.{mode}.{kind} %d0, %a0, %a1;", x, b, out=np.uint32)
        want = []
        for v, q in zip(x.tolist(), b, strict=True):
            n = amount(q)
            low = v & ((1 << n) - 1)
            want.append((signed(low, n) if kind == "s32" and n else low) & LOW)
        assert got.tolist() == want


@pytest.mark.parametrize("join_by", ["and", "or"])
def test_logic_with_a_predicate(join_by):
    a, b, c = words(12), words(13), words(14)
    b[::2] = a[::2]
    q = np.arange(96) % 3 == 0
    body = f"""lop3.{join_by}.b32 %d0|%d1, %a0, %a1, %a2, 0x3c, !%a3;
    lop3.{join_by}.b32 _|%q0, %a0, %a1, %a2, 0x3c, %a3;"""
    value, held = run(body, a, b, c, q, out=(np.uint32, bool))
    assert value.tolist() == (a ^ b).tolist()
    both = np.logical_and if join_by == "and" else np.logical_or
    assert held.tolist() == both((a ^ b) != 0, ~q).tolist()


VIDEO = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("name", [*VIDEO, "vavrg"])
def test_packed_video(name, lanes):
    a, b, c = words(15), words(16), words(17)
    bits = 32 // lanes
    function = VIDEO.get(name, lambda x, y: (x + y + 1) >> 1)
    mask = ".b20" if lanes == 4 else ".h1"
    for out in ("u32", "s32"):
        for ka, kb in (("u32", "u32"), ("s32", "u32"), ("s32", "s32")):
            types = f"{out}.{ka}.{kb}"
            plain = run(f"{name}{lanes}.{types} %d0, %a0, %a1, %a2;", a, b, c, out=np.uint32)
            some = run(f"{name}{lanes}.{types}.sat %d0{mask}, %a0, %a1, %a2;", a, b, c, out=np.uint32)
            total = run(f"{name}{lanes}.{types}.add %d0, %a0, %a1, %a2;", a, b, c, out=np.uint32)
            low = -(1 << (bits - 1)) if out == "s32" else 0
            high = low + (1 << bits) - 1
            for at, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
                value = [function(p, q) for p, q in zip(parts(x, bits, ka), parts(y, bits, kb), strict=True)]
                assert plain[at] == join(value, bits)
                assert total[at] == (sum(value) + z) & LOW
                kept = parts(z, bits, "u32")
                chosen = (0, 2) if lanes == 4 else (1,)
                clamped = [min(max(v, low), high) if i in chosen else kept[i] for i, v in enumerate(value)]
                assert some[at] == join(clamped, bits)


@pytest.mark.parametrize("name", VIDEO)
def test_scalar_video(name):
    a, b, c = words(18), words(19), words(20)
    body = f"{name}.s32.u32.s32.sat.max %d0, %a0.b2, %a1.h1, %a2;"
    got = run(body, a, b, c, out=np.uint32)
    for at, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        value = VIDEO[name](x >> 16 & 255, signed(y >> 16, 16))
        assert got[at] == max(value, signed(z)) & LOW
    got = run("vmad.s32.s32.u32.shr7 %d0, %a0.h0, %a1.b3, %a2;", a, b, c, out=np.uint32)
    for at, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        assert got[at] == (signed(x, 16) * (y >> 24) + signed(z) >> 7) & LOW


# Text


def test_bytes_of_addresses():
    text = """
.global .align 4 .u32 value = 99;
.const .align 8 .b8 packed[16] = {1, 2, 0, 0, 0, 0, 0, 0,
  0xFF(generic(value)), 0xFF00(generic(value)), 0XFF0000(generic(value)), 0xFF000000(generic(value)),
  0xFF00000000(generic(value)), 0xFF0000000000(generic(value)), 0xFF000000000000(generic(value)),
  0xFF00000000000000(generic(value))};
.visible .entry k(.param .u64 o) { .reg .b64 %l<3>; .reg .b32 %r;
  ld.const.u64 %l1, [packed+8]; ld.u32 %r, [%l1]; ld.param.u64 %l2, [o]; st.global.u32 [%l2], %r; ret; }"""
    out = np.zeros(1, np.uint32)
    module(text).launch("k", args=[out])
    assert out[0] == 99
    with pytest.raises(emulator.PtxError, match="0xf0 is not a mask of one byte"):
        module(".global .u32 v; .global .b8 x[1] = {0xF0(v)};")


def test_aliases():
    text = """
.func one(.param .b64 p) { .reg .b64 %l; ld.param.u64 %l, [p]; st.global.u32 [%l], 5; ret; }
.alias other, one;
.visible .entry k(.param .u64 o) { .reg .b64 %l; ld.param.u64 %l, [o];
  { .param .b64 a; st.param.b64 [a], %l; call other, (a); } ret; }"""
    out = np.zeros(1, np.uint32)
    module(text).launch("k", args=[out])
    assert out[0] == 5
    with pytest.raises(emulator.PtxError, match="an alias needs a function"):
        module(".alias a, b;")


def test_shared_addresses_wrap_at_32_bits():
    text = """
.visible .entry k(.param .u64 o) { .reg .b64 %l; .reg .b32 %r<4>; .shared .align 4 .b8 box[256];
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; neg.s32 %r2, %r2; st.shared.u32 [%r2+124], %r1;
  bar.sync 0; shl.b32 %r2, %r1, 2; ld.shared.u32 %r3, [%r2]; mov.u32 %r1, box;
  ld.param.u64 %l, [o]; mad.wide.u32 %l, %r2, 1, %l; st.global.u32 [%l], %r3; ret; }"""
    out = np.zeros(32, np.uint32)
    module(text).launch("k", block=32, args=[out])
    assert out.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_float_reductions_of_a_warp(name, absolute, nan):
    x = np.random.default_rng(21).standard_normal((3, 32)).astype(np.float32)
    x[1, 7] = np.nan
    x[2] = np.nan
    body = f"redux.sync.{name}{absolute}{nan}.f32 %d0, %a0, 0xffffffff;"
    got = run(body, x.reshape(-1).view(np.uint32), out=np.uint32, target="sm_100a").reshape(3, 32)
    v = np.abs(x) if absolute else x
    plain = getattr(np, name)
    best = [plain(v[0]), np.float32(np.nan) if nan else getattr(np, f"nan{name}")(v[1])]
    assert (got[0] == best[0].view(np.uint32)).all()
    assert (got[1] == (0x7FFFFFFF if nan else best[1].view(np.uint32))).all()
    assert (got[2] == 0x7FFFFFFF).all()


def test_allocations_on_the_stack():
    text = """
.visible .entry k(.param .u64 o) { .reg .b64 %l<8>; .reg .b32 %r<8>; .reg .pred %p;
  mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 4, 4; cvt.u64.u32 %l1, %r2; mov.u32 %r5, 0;
  stacksave.u64 %l5;
again:
  stackrestore.u64 %l5;
  alloca.u64 %l2, %l1, 64; alloca.u64 %l3, 4; cvta.local.u64 %l4, %l2;
  st.local.u32 [%l3], 1000; mad.wide.u32 %l6, %r1, 4, %l4; st.u32 [%l6], %r1;
  sub.u64 %l6, %l6, %l4; add.u64 %l6, %l6, %l2; ld.local.u32 %r3, [%l6]; ld.local.u32 %r4, [%l3];
  add.u32 %r3, %r3, %r4; and.b64 %l4, %l4, 63; cvt.u32.u64 %r4, %l4; add.u32 %r3, %r3, %r4;
  add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 500; @%p bra again;
  ld.param.u64 %l7, [o]; mad.wide.u32 %l7, %r1, 4, %l7; st.global.u32 [%l7], %r3; ret; }"""
    out = np.zeros(40, np.uint32)
    module(text).launch("k", block=40, args=[out])
    assert out.tolist() == [1000 + i for i in range(40)]
    endless = text.replace("stackrestore.u64 %l5;", "").replace("%r5, 500", "%r5, 50000")
    with pytest.raises(emulator.Fault, match="stack overflow"):
        module(endless).launch("k", block=40, args=[out])
    beyond = text.replace("st.local.u32 [%l3], 1000", "st.local.u32 [%l3+1048576], 1000")
    with pytest.raises(emulator.Fault, match="out-of-bounds local access"):
        module(beyond).launch("k", block=40, args=[out])


def test_pairs_may_be_compared_into_one_predicate():
    """It is that of the low halves, as in ptxas's HSETP2, with and without another predicate."""
    low, high = 0x3C00, 0x4000  # 1.0 and 2.0
    pairs = np.array([a | b << 16 for a in (low, high) for b in (low, high)], np.uint32)
    out = np.zeros((4, 2), np.uint32)
    body = """
      .reg .pred %p<5>; .reg .b32 %r<8>; .reg .b64 %d<4>;
      ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
      mov.u32 %r0, %tid.x;
      setp.ge.u32 %p0, %r0, 4;
      @%p0 bra END;
      mul.wide.u32 %d2, %r0, 4; add.s64 %d2, %d2, %d0; ld.global.u32 %r1, [%d2];
      mov.u32 %r2, 0x40004000;
      setp.ge.f16x2 %p1, %r1, %r2;
      setp.ne.u32 %p2, %r0, 3;
      setp.ge.and.f16x2 %p3, %r1, %r2, %p2;
      selp.u32 %r3, 1, 0, %p1;
      selp.u32 %r4, 1, 0, %p3;
      mul.wide.u32 %d3, %r0, 8; add.s64 %d3, %d3, %d1;
      st.global.v2.u32 [%d3], {%r3, %r4};
    END:
      ret;
    """
    head = ".version 8.0 .target sm_80 .address_size 64 "
    text = f"{head} .visible .entry k(.param .u64 in, .param .u64 out) {{{body}}}"
    emulator.Module(text).launch("k", grid=1, block=33, args=[pairs, out])
    held = [(pair & 0xFFFF) == high for pair in pairs]
    assert out[:, 0].tolist() == held
    assert out[:, 1].tolist() == [each and number != 3 for number, each in enumerate(held)]


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("set.lt.f32.f16x2 %r1, %r2, %r3;", "isn't defined for .f32 of .f16x2"),
        ("set.lt.u16.f16x2 %h1, %r2, %r3;", "isn't defined for .u16 of .f16x2"),
        ("cvt.f16x2.u16x2 %r1, %r2;", "doesn't convert .u16x2 to .f16x2"),
        ("cvt.sat.s32.b128 %r1, %r2;", "doesn't convert 128 bits"),
    ],
)
def test_forms_that_ptx_lacks(instruction, why):
    text = ".visible .entry k() { .reg .b32 %r<4>; .reg .b16 %h<2>; " + instruction + " ret; }"
    with pytest.raises(emulator.PtxError, match=why):
        module(text, "sm_90").launch("k")
