"""Functions that LLVM compiles for this host compute what their IR says."""

import itertools
import platform

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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86's instructions")
def test_code_that_llvm_may_get_wrong_is_made_without_avx512(monkeypatch):
    """On any host: it is compiled, but doesn't run."""
    monkeypatch.setattr(native, "_host", lambda: ("skylake-avx512", "+avx512f,+avx512vl", ""))
    assert not native._has_masked_logic(native._object(text(), 2, whole=False))
    faulty = native._generated(text(), native.machine(2), whole=False)
    assert native._has_masked_logic(faulty)
