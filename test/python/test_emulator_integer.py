"""Integer and bit instructions against Python's integers."""

import numpy as np
import pytest
from emulator_ptx import run

from weft.isa import illegal

EDGES = {
    16: [0, 1, 2, 7, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0xFFFE, 0x00FF, 0x1234, 0xABCD],
    32: [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFF, 0x12345678, 0xDEADBEEF],
    64: [
        0,
        1,
        63,
        64,
        1 << 31,
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        0x0123456789ABCDEF,
        0xFEDCBA9876543210,
    ],
}
U = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
INTEGERS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def numbers(bits, seed=0, count=96):
    rng = np.random.default_rng(seed)
    values = EDGES[bits] + [
        int(v)
        for v in rng.integers(0, 1 << bits, count - len(EDGES[bits]), np.uint64 if bits == 64 else np.int64)
    ]
    return np.array(values, U[bits])


def pairs(bits, seed=1):
    """Every pair of edge values, then random ones."""
    edges = EDGES[bits]
    x = [a for a in edges for _ in edges]
    y = [b for _ in edges for b in edges]
    more = numbers(bits, seed), numbers(bits, seed + 1)
    a, b = np.array(x + more[0].tolist(), U[bits]), np.array(y + more[1].tolist(), U[bits])
    keep = len(a) // 32 * 32
    return a[:keep], b[:keep]


def value(bits, kind):
    """What a Python integer of unsigned bits means as `kind`."""
    width = int(kind[1:])
    bits = int(bits) & ((1 << width) - 1)
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def check(got, function, *inputs):
    bits = got.dtype.itemsize * 8
    want = [int(function(*(int(v) for v in at))) & ((1 << bits) - 1) for at in zip(*inputs, strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", INTEGERS)
def test_sums_and_products_wrap(kind):
    a, b = pairs(int(kind[1:]))
    for opcode, function in (
        ("add", lambda x, y: x + y),
        ("sub", lambda x, y: x - y),
        ("mul.lo", lambda x, y: x * y),
    ):
        check(run(f"{opcode}.{kind} %d0, %a0, %a1;", a, b, out=a.dtype), function, a, b)
    check(run(f"mad.lo.{kind} %d0, %a0, %a1, %a0;", a, b, out=a.dtype), lambda x, y: x * y + x, a, b)


@pytest.mark.parametrize("kind", INTEGERS)
def test_high_and_wide_products(kind):
    width = int(kind[1:])
    a, b = pairs(width)

    def product(x, y):
        return value(x, kind) * value(y, kind)

    check(run(f"mul.hi.{kind} %d0, %a0, %a1;", a, b, out=a.dtype), lambda x, y: product(x, y) >> width, a, b)
    check(
        run(f"mad.hi.{kind} %d0, %a0, %a1, %a1;", a, b, out=a.dtype),
        lambda x, y: (product(x, y) >> width) + y,
        a,
        b,
    )
    if width < 64:
        wide = U[2 * width]
        check(run(f"mul.wide.{kind} %d0, %a0, %a1;", a, b, out=wide), product, a, b)


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_goes_toward_zero(kind):
    a, b = pairs(int(kind[1:]))
    b = np.where(b == 0, b.dtype.type(3), b)

    def quotient(x, y):
        x, y = value(x, kind), value(y, kind)
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    check(run(f"div.{kind} %d0, %a0, %a1;", a, b, out=a.dtype), quotient, a, b)
    check(
        run(f"rem.{kind} %d0, %a0, %a1;", a, b, out=a.dtype),
        lambda x, y: value(x, kind) - quotient(x, y) * value(y, kind),
        a,
        b,
    )


def test_division_by_zero_gives_all_ones():
    a = numbers(32)
    zero = np.zeros_like(a)
    assert (run("div.u32 %d0, %a0, %a1;", a, zero, out=a.dtype) == 0xFFFFFFFF).all()
    assert (run("rem.u32 %d0, %a0, %a1;", a, zero, out=a.dtype) == 0xFFFFFFFF).all()


@pytest.mark.parametrize("kind", INTEGERS)
def test_order(kind):
    a, b = pairs(int(kind[1:]))
    check(
        run(f"min.{kind} %d0, %a0, %a1;", a, b, out=a.dtype),
        lambda x, y: min(value(x, kind), value(y, kind)),
        a,
        b,
    )
    check(
        run(f"max.{kind} %d0, %a0, %a1;", a, b, out=a.dtype),
        lambda x, y: max(value(x, kind), value(y, kind)),
        a,
        b,
    )
    names = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
    for name, method in names.items():
        got = run(f"setp.{name}.{kind} %d0, %a0, %a1;", a, b, out=bool)
        assert got.tolist() == [
            getattr(value(x, kind), method)(value(y, kind)) for x, y in zip(a, b, strict=True)
        ]
    if kind[0] == "s":
        check(run(f"abs.{kind} %d0, %a0;", a, out=a.dtype), lambda x: abs(value(x, kind)), a)
        check(run(f"neg.{kind} %d0, %a0;", a, out=a.dtype), lambda x: -value(x, kind), a)


def test_setp_combines_and_gives_both_results():
    a, b = pairs(32)
    third = np.arange(len(a)) % 2 == 0
    p, q = run("setp.lt.and.s32 %d0|%d1, %a0, %a1, !%a2;", a, b, third, out=(bool, bool))
    less = a.view(np.int32) < b.view(np.int32)
    assert (p == (less & ~third)).all()
    assert (q == (~less & ~third)).all()
    p, q = run("setp.lo.xor.u32 %d0|%d1, %a0, %a1, %a2;", a, b, third, out=(bool, bool))
    assert (p == ((a < b) ^ third)).all()
    assert (q == (~(a < b) ^ third)).all()


def test_set_selp_slct():
    a, b = pairs(32)
    less = a < b
    got = run("set.lt.u32.u32 %d0, %a0, %a1;", a, b, out=np.uint32)
    assert (got == np.where(less, 0xFFFFFFFF, 0)).all()
    got = run("set.lt.f32.u32 %d0, %a0, %a1;", a, b, out=np.float32)
    assert (got == less).all()
    got = run("setp.lt.u32 %q0, %a0, %a1; selp.b32 %d0, %a0, 7, !%q0;", a, b, out=np.uint32)
    assert (got == np.where(less, 7, a)).all()
    got = run("slct.b32.s32 %d0, 1, 2, %a0;", a, out=np.uint32)
    assert (got == np.where(a.view(np.int32) >= 0, 1, 2)).all()


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64"])
def test_shifts_clamp_their_amount(kind):
    width = int(kind[1:])
    a, _ = pairs(width)
    amounts = np.resize(
        np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xFFFFFFFF], np.uint32), len(a)
    )
    got = run(f"shr.{kind} %d0, %a0, %a1;", a, amounts, out=a.dtype)
    check(got, lambda x, n: value(x, kind if kind[0] == "s" else f"u{width}") >> min(n, 200), a, amounts)
    if kind[0] == "b":
        got = run(f"shl.{kind} %d0, %a0, %a1;", a, amounts, out=a.dtype)
        check(got, lambda x, n: x << n if n < width else 0, a, amounts)


@pytest.mark.parametrize(("kind", "amount", "by"), [
    ("u16", -2147483647, 1), ("s16", 65538, 2), ("b16", -7, 16), ("u32", 4294967297, 1), ("u32", 65537, 32),
    ("u64", 4294967299, 3),
])  # fmt: skip
def test_shifts_by_constants_read_few_bits_of_them(kind, amount, by):
    """As an H200 does. ptxas 12.9 to 13.5 keeps 16 bits of the amounts of shifts of 16 bits, otherwise 32."""
    width = int(kind[1:])
    a, _ = pairs(width)
    got = run(f"shr.{kind} %d0, %a0, {amount};", a, out=a.dtype)
    check(got, lambda x: value(x, kind if kind[0] == "s" else f"u{width}") >> by, a)


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift(mode):
    a, b = pairs(32)
    n = np.resize(np.array([0, 1, 8, 31, 32, 33, 64, 0x80000001], np.uint32), len(a))

    def amount(k):
        return k & 31 if mode == "wrap" else min(k, 32)

    got = run(f"shf.l.{mode}.b32 %d0, %a0, %a1, %a2;", a, b, n, out=np.uint32)
    check(got, lambda x, y, k: ((y << 32 | x) << amount(k)) >> 32, a, b, n)
    got = run(f"shf.r.{mode}.b32 %d0, %a0, %a1, %a2;", a, b, n, out=np.uint32)
    check(got, lambda x, y, k: (y << 32 | x) >> amount(k), a, b, n)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind):
    width = int(kind[1:])
    a, b = pairs(width)
    rng = np.random.default_rng(3)
    start = rng.choice([0, 1, 7, 31, 32, 60, 63, 64, 255, 256 + 3], len(a)).astype(np.uint32)
    size = rng.choice([0, 1, 4, 31, 32, 33, 64, 255, 256 + 5], len(a)).astype(np.uint32)

    def limited(number):
        return min(number, 255) if width == 64 else number & 255

    def extract(x, pos, length):
        # The loop of the ISA's description, "bfe", which takes 8 bits; GPUs take all for 64 bits.
        pos, length = limited(pos), limited(length)
        sign = 0 if kind[0] == "u" or length == 0 else x >> min(pos + length - 1, width - 1) & 1
        d = 0
        for i in range(width):
            bit = x >> (pos + i) & 1 if i < length and pos + i < width else sign
            d |= bit << i
        return d

    def insert(x, y, pos, length):
        pos, length = limited(pos), limited(length)
        for i in range(length):
            if pos + i < width:
                y = y & ~(1 << (pos + i)) | (x >> i & 1) << (pos + i) if i < width else y & ~(1 << (pos + i))
        return y

    got = run(f"bfe.{kind} %d0, %a0, %a1, %a2;", a, start, size, out=a.dtype)
    check(got, extract, a, start, size)
    got = run(f"bfi.b{width} %d0, %a0, %a1, %a2, %a3;", a, b, start, size, out=a.dtype)
    check(got, insert, a, b, start, size)


@pytest.mark.parametrize("width", [32, 64])
def test_counting_bits(width):
    a, _ = pairs(width)
    check(run(f"clz.b{width} %d0, %a0;", a, out=np.uint32), lambda x: width - x.bit_length(), a)
    check(run(f"popc.b{width} %d0, %a0;", a, out=np.uint32), lambda x: x.bit_count(), a)
    check(run(f"brev.b{width} %d0, %a0;", a, out=a.dtype), lambda x: int(f"{x:0{width}b}"[::-1], 2), a)
    check(run(f"bfind.u{width} %d0, %a0;", a, out=np.uint32), lambda x: x.bit_length() - 1, a)
    check(
        run(f"bfind.s{width} %d0, %a0;", a, out=np.uint32),
        lambda x: (x if value(x, f"s{width}") >= 0 else ~x & ((1 << width) - 1)).bit_length() - 1,
        a,
    )
    check(
        run(f"bfind.shiftamt.u{width} %d0, %a0;", a, out=np.uint32),
        lambda x: width - x.bit_length() if x else -1,
        a,
    )


@pytest.mark.parametrize("truth", [0x00, 0x80, 0x96, 0xE8, 0xCA, 0xF8, 0x1B, 0xFF])
def test_lop3_is_its_truth_table(truth):
    a, b = pairs(32)
    c = np.roll(a, 5)

    def function(x, y, z):
        return sum(
            (truth >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i for i in range(32)
        )

    got = run(f"lop3.b32 %d0, %a0, %a1, %a2, {truth};", a, b, c, out=np.uint32)
    check(got, function, a, b, c)


def test_logic_on_every_width():
    for width in (16, 32, 64):
        a, b = pairs(width)
        check(run(f"and.b{width} %d0, %a0, %a1;", a, b, out=a.dtype), lambda x, y: x & y, a, b)
        check(run(f"or.b{width} %d0, %a0, %a1;", a, b, out=a.dtype), lambda x, y: x | y, a, b)
        check(run(f"xor.b{width} %d0, %a0, %a1;", a, b, out=a.dtype), lambda x, y: x ^ y, a, b)
        check(run(f"not.b{width} %d0, %a0;", a, out=a.dtype), lambda x: ~x, a)
        check(run(f"cnot.b{width} %d0, %a0;", a, out=a.dtype), lambda x: x == 0, a)
    p = np.array([True, False] * 16)
    q = np.array([True, True, False, False] * 8)
    assert (run("xor.pred %d0, %a0, %a1;", p, q, out=bool) == p ^ q).all()
    assert (run("not.pred %d0, %a0;", p, out=bool) == ~p).all()


def permute(x, y, control):
    source = (x | y << 32).to_bytes(8, "little")
    d = 0
    for i in range(4):
        pick = control >> 4 * i & 15
        byte = source[pick & 7]
        d |= (255 * (byte >> 7) if pick & 8 else byte) << 8 * i
    return d


def test_prmt():
    a, b = pairs(32)
    control = np.random.default_rng(5).integers(0, 1 << 16, len(a)).astype(np.uint32)
    check(run("prmt.b32 %d0, %a0, %a1, %a2;", a, b, control, out=np.uint32), permute, a, b, control)
    for fixed in (0x3210, 0x5410, 0x7632, 0x0123, 0x8888, 0x4441):
        got = run(f"prmt.b32 %d0, %a0, %a1, {fixed};", a, b, out=np.uint32)
        check(got, lambda x, y, fixed=fixed: permute(x, y, fixed), a, b)
    # The selector tables of the ISA's description, "prmt".
    tables = {
        "f4e": [0x3210, 0x4321, 0x5432, 0x6543],
        "b4e": [0x5670, 0x6701, 0x7012, 0x0123],
        "rc8": [0x0000, 0x1111, 0x2222, 0x3333],
        "ecl": [0x3210, 0x3211, 0x3222, 0x3333],
        "ecr": [0x0000, 0x1110, 0x2210, 0x3210],
        "rc16": [0x1010, 0x3232, 0x1010, 0x3232],
    }
    for mode, table in tables.items():
        got = run(f"prmt.b32.{mode} %d0, %a0, %a1, %a2;", a, b, control, out=np.uint32)
        check(got, lambda x, y, c, table=table: permute(x, y, table[c & 3]), a, b, control)


def test_carry_chains():
    a, b = pairs(64)
    body = """
    mov.b64 {%r0, %r1}, %a0; mov.b64 {%r2, %r3}, %a1;
    add.cc.u32 %r4, %r0, %r2; addc.cc.u32 %r5, %r1, %r3; addc.u32 %r6, 0, 0;
    mov.b64 %d0, {%r4, %r5}; mov.u32 %d1, %r6;
    sub.cc.u32 %r4, %r0, %r2; subc.u32 %r5, %r1, %r3; mov.b64 %d2, {%r4, %r5};
    """
    total, carry, difference = run(body, a, b, out=(np.uint64, np.uint32, np.uint64))
    check(total, lambda x, y: x + y, a, b)
    check(carry, lambda x, y: x + y >> 64, a, b)
    check(difference, lambda x, y: x - y, a, b)
    body = """
    mov.b64 {%r0, %r1}, %a0; mov.b64 {%r2, %r3}, %a1;
    mad.lo.cc.u32 %r4, %r0, %r2, 5; madc.hi.u32 %r5, %r0, %r2, 0; mov.b64 %d0, {%r4, %r5};
    """
    low = run(body, a, b, out=np.uint64)
    check(low, lambda x, y: (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF) + 5, a, b)


def test_saturating_sums():
    a, b = pairs(32)

    def clamp(x):
        return max(-(1 << 31), min((1 << 31) - 1, x))

    check(
        run("add.sat.s32 %d0, %a0, %a1;", a, b, out=a.dtype),
        lambda x, y: clamp(value(x, "s32") + value(y, "s32")),
        a,
        b,
    )
    check(
        run("sub.sat.s32 %d0, %a0, %a1;", a, b, out=a.dtype),
        lambda x, y: clamp(value(x, "s32") - value(y, "s32")),
        a,
        b,
    )


def test_mul24_sad_dot_products():
    a, b = pairs(32)
    c = np.roll(b, 3)

    def low24(x, kind):
        x &= 0xFFFFFF
        return x - (1 << 24) if kind[0] == "s" and x >> 23 else x

    for kind in ("u32", "s32"):
        got = run(f"mul24.lo.{kind} %d0, %a0, %a1;", a, b, out=np.uint32)
        check(got, lambda x, y, k=kind: low24(x, k) * low24(y, k), a, b)
        got = run(f"mul24.hi.{kind} %d0, %a0, %a1;", a, b, out=np.uint32)
        check(got, lambda x, y, k=kind: low24(x, k) * low24(y, k) >> 16, a, b)
        got = run(f"sad.{kind} %d0, %a0, %a1, %a2;", a, b, c, out=np.uint32)
        check(got, lambda x, y, z, k=kind: abs(value(x, k) - value(y, k)) + z, a, b, c)
        for other in ("u32", "s32"):
            got = run(f"dp4a.{kind}.{other} %d0, %a0, %a1, %a2;", a, b, c, out=np.uint32)

            def dot(x, y, z, k=kind, o=other):
                return z + sum(
                    value(x >> 8 * i, f"{k[0]}8") * value(y >> 8 * i, f"{o[0]}8") for i in range(4)
                )

            check(got, dot, a, b, c)
            got = run(f"dp2a.hi.{kind}.{other} %d0, %a0, %a1, %a2;", a, b, c, out=np.uint32)

            def dot2(x, y, z, k=kind, o=other):
                halves = (
                    value(x >> 16 * i, f"{k[0]}16") * value(y >> (16 + 8 * i), f"{o[0]}8") for i in range(2)
                )
                return z + sum(halves)

            check(got, dot2, a, b, c)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_conversions(source, to):
    width, out = int(source[1:]), int(to[1:])
    a, _ = pairs(max(16, width))
    result = U[max(16, out)]
    low, high = (-(1 << (out - 1)), (1 << (out - 1)) - 1) if to[0] == "s" else (0, (1 << out) - 1)
    check(run(f"cvt.{to}.{source} %d0, %a0;", a, out=result), lambda x: value(value(x, source), to), a)
    saturated = f"cvt.sat.{to}.{source}"
    if illegal.complaint(saturated, 2) is None:
        got = run(f"{saturated} %d0, %a0;", a, out=result)
        check(got, lambda x: max(low, min(high, value(x, source))), a)


def test_packing_and_unpacking():
    a, b = pairs(32)
    got = run("mov.b64 %d0, {%a0, %a1};", a, b, out=np.uint64)
    check(got, lambda x, y: x | y << 32, a, b)
    lo, hi = run(
        "mov.b64 %l0, {%a0, %a1}; mov.b64 {%d0, _}, %l0; mov.b64 {_, %d1}, %l0;",
        a,
        b,
        out=(np.uint32, np.uint32),
    )
    assert (lo == a).all()
    assert (hi == b).all()
    h0, h1 = run("mov.b32 {%d0, %d1}, %a0;", a, out=(np.uint16, np.uint16))
    assert (h0 == (a & 0xFFFF)).all()
    assert (h1 == a >> 16).all()
    got = run("mov.b32 {%h0, %h1}, %a0; mov.b64 %d0, {%h1, %h0, %h1, %h1};", a, out=np.uint64)
    check(got, lambda x: x >> 16 | (x & 0xFFFF) << 16 | (x >> 16) << 32 | (x >> 16) << 48, a)


def test_immediates():
    a = np.arange(32, dtype=np.uint32)
    assert (run("add.s32 %d0, %a0, -5;", a, out=np.int32) == a.astype(int) - 5).all()
    assert (run("or.b32 %d0, %a0, 0xF0;", a, out=np.uint32) == a | 0xF0).all()
    assert (run("add.u32 %d0, %a0, 0b101;", a, out=np.uint32) == a + 5).all()
    assert (run("add.u32 %d0, %a0, 017;", a, out=np.uint32) == a + 15).all()
    assert (run("mov.u32 %d0, 4294967295U;", a, out=np.uint32) == 0xFFFFFFFF).all()
    assert (run("mov.b32 %d0, 0f40490FDB;", a, out=np.float32) == np.float32(np.pi)).all()
    assert (run("mov.f64 %d0, 0d400921FB54442D18;", a, out=np.float64) == np.pi).all()
    assert (run("mov.f64 %d0, 0f40490FDB;", a, out=np.float64) == np.float64(np.float32(np.pi))).all()
    assert (run("mov.f32 %d0, 0d400921FB54442D18;", a, out=np.float32) == np.float32(np.pi)).all()
    assert (run("mov.f32 %d0, 1.5;", a, out=np.float32) == 1.5).all()
    assert (run("add.f32 %d0, %a0, -0.25;", a.astype(np.float32), out=np.float32) == a - 0.25).all()
    assert (run("mov.u32 %d0, WARP_SZ;", a, out=np.uint32) == 32).all()


@pytest.mark.parametrize("kind", ["u8", "s8"])
def test_four_bytes_at_once(kind):
    a, b = pairs(32)
    view = np.int8 if kind == "s8" else np.uint8
    x, y = (v.view(view).astype(int) for v in (a, b))
    limits = np.iinfo(view)
    forms = {
        "add": x + y,
        "sub": x - y,
        "min": np.minimum(x, y),
        "max": np.maximum(x, y),
        "add.sat": np.clip(x + y, limits.min, limits.max),
        "sub.sat": np.clip(x - y, limits.min, limits.max),
        **({"max.relu": np.maximum(np.maximum(x, y), 0), "neg": -x} if kind == "s8" else {}),
    }
    for name, want in forms.items():
        operands = "%a0" if name == "neg" else "%a0, %a1"
        got = run(f"{name}.{kind}x4 %d0, {operands};", a, b, out=np.uint32, target="sm_120a")
        np.testing.assert_array_equal(got.view(np.uint8), want.astype(np.uint8))
