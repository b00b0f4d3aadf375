"""Functions that LLVM compiles for this host compute what their IR says."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from weft.emulator import native

LANES = 8
SIGN = 1 << 63
# An operand of `(x & s) | (y & ~s)` is loaded, a register, or a constant.
KINDS = list(itertools.product(("loaded", "register", "constant"), repeat=3))
NUMBERS = {"x": 12345, "y": 67890, "s": SIGN}
FORMS = {f"{'_'.join(kinds)}_{kept}": (kinds, kept) for kinds in KINDS for kept in "xys"}


def function(name, kinds, kept):
    """Stores bits of x and y in the lanes of a mask, and an operand in the others."""
    lines, operands = [], {}
    for at, (operand, kind) in enumerate(zip("xys", kinds, strict=True)):
        lines += [
            f"%p{operand} = getelementptr i8, ptr %in, i64 {8 * LANES * at}",
            f"%loaded{operand} = load <8 x i64>, ptr %p{operand}, align 8",
        ]
        if kind == "register":
            lines.append(f"%added{operand} = add <8 x i64> %loaded{operand}, splat (i64 5)")
        constant = f"splat (i64 {NUMBERS[operand]})"
        operands[operand] = {
            "loaded": f"%loaded{operand}",
            "register": f"%added{operand}",
            "constant": constant,
        }[kind]
    text = "\n  ".join(lines)
    return f"""
define void @{name}(ptr %in, ptr %mask, ptr %out, ptr %other) nounwind {{
  {text}
  %not = xor <8 x i64> {operands["s"]}, splat (i64 -1)
  %xs = and <8 x i64> {operands["x"]}, {operands["s"]}
  %ys = and <8 x i64> {operands["y"]}, %not
  %bits = or <8 x i64> %xs, %ys
  %bytes = load <8 x i8>, ptr %mask, align 8
  %chosen = icmp ne <8 x i8> %bytes, zeroinitializer
  %result = select <8 x i1> %chosen, <8 x i64> %bits, <8 x i64> {operands[kept]}
  %numbers = load <8 x i32>, ptr %other, align 8
  %twice = add <8 x i32> %numbers, %numbers
  store <8 x i32> %twice, ptr %other, align 1
  store <8 x i64> %result, ptr %out, align 1
  ret void
}}"""


def text():
    return "".join(function(name, *form) for name, form in FORMS.items())


@pytest.mark.parametrize("code", [0, 2])
def test_bits_are_chosen_under_a_mask(code):
    addresses = native.addresses(text(), list(FORMS), code=code)
    given = np.random.default_rng(0).integers(0, 1 << 64, (3, LANES), np.uint64)
    mask, out, other = np.array([1, 0, 0, 1, 1, 0, 1, 0], np.uint8), given[0].copy(), np.ones(8, np.uint32)
    wrong = []
    for name, (kinds, kept) in FORMS.items():
        made = {"loaded": given, "register": given + np.uint64(5)}
        operands = {
            operand: made[kind][at] if kind in made else np.full(LANES, NUMBERS[operand], np.uint64)
            for at, (operand, kind) in enumerate(zip("xys", kinds, strict=True))
        }
        x, y, s = operands.values()
        run = native.function_at(addresses[name], pointers=4, numbers=0)
        run(*(array.ctypes.data for array in (given, mask, out, other)))
        if not np.array_equal(out, np.where(mask, x & s | y & ~s, operands[kept])):
            wrong.append(name)
    assert not wrong


UPPER_HALF = """
define void @upper(ptr %in, ptr %out) nounwind {
  %x = load <8 x TYPE>, ptr %in, align 8
  %minus = xor <8 x TYPE> %x, splat (TYPE -1)
  %all = add <8 x TYPE> %x, %minus
  %zero = add <8 x TYPE> %all, splat (TYPE 1)
  %less = icmp ult <8 x TYPE> %zero, %x
  %same = icmp eq <8 x TYPE> %zero, %x
  %true = and <8 x i1> %same, splat (i1 true)
  %always = or <8 x i1> %less, %true
  %not = xor <8 x TYPE> %zero, splat (TYPE -1)
  %sum = add <8 x TYPE> %zero, %not
  %one = zext <8 x i1> %always to <8 x TYPE>
  %none = add <8 x TYPE> %sum, %one
  %below = icmp ult <8 x TYPE> %none, %zero
  %equal = icmp eq <8 x TYPE> %none, %zero
  %carries = icmp ne <8 x TYPE> %one, splat (TYPE 0)
  %both = and <8 x i1> %equal, %carries
  %carry = or <8 x i1> %below, %both
  %last = zext <8 x i1> %carry to <8 x TYPE>
  %before = add <8 x TYPE> %zero, %none
  %second = add <8 x TYPE> %before, %last
  %wide = zext <8 x TYPE> %second to <8 x WIDE>
  %other = zext <8 x TYPE> %x to <8 x WIDE>
  %product = mul <8 x WIDE> %wide, %other
  %shifted = lshr <8 x WIDE> %product, splat (WIDE BITS)
  %upper = trunc <8 x WIDE> %shifted to <8 x TYPE>
  store <8 x TYPE> %upper, ptr %out, align 1
  ret void
}"""


@pytest.mark.parametrize("bits", [16, 32])
def test_the_upper_half_of_a_product_by_one_is_zero(bits):
    """LLVM finds that `second` is 1 late."""
    ir = UPPER_HALF.replace("TYPE", f"i{bits}").replace("WIDE", f"i{2 * bits}").replace("BITS", str(bits))
    address = native.addresses(ir, ["upper"], code=2)["upper"]
    given = np.arange(LANES, dtype=f"u{bits // 8}")
    out = np.full_like(given, 77)
    native.function_at(address, pointers=2, numbers=0)(given.ctypes.data, out.ctypes.data)
    assert not out.any()


def test_no_code_uses_avx512(monkeypatch):
    from llvmlite import binding

    features = "+avx2,+avx512f,-avx512vl,+avx10.1,+fma"
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: SimpleNamespace(flatten=lambda: features))
    assert native._host()[1] == "+avx2,-avx512f,-avx512vl,-avx10.1,+fma"
