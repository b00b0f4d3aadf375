"""Powers of two, by the special function units or by a polynomial."""

from typing import Any

from weft.language.dtypes import f32
from weft.language.fragments import Fragment
from weft.language.maths import special_exp2
from weft.language.mistakes import mistake
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit

_ROUNDS = 1.5 * 2**23  # added to a number, it leaves its nearest integer in the lowest bits
_LEAST = -125.0  # so that the exponent of the result is at least 1
# For f in -1/2 .. 1/2, within 7.5e-5 of 2^f (a minimax fit in float64, weights after Lawson).
_POLYNOMIAL = (0.9999280735395694, 0.6932609854640265, 0.2426111221918073, 0.05517166903960564)


def exp2(x: Any, *, polynomial_every: int = 0) -> Any:
    """2 to the power of x (`ex2.approx.ftz`).

    A multiprocessor computes 16 of these in a cycle. With `polynomial_every=n`, every n-th element of a lane
    is computed by a polynomial, which other units do: within 7.5e-5 of the exact one for x in -125..127, and
    at most 2^-125 for any smaller x.
    """
    if not polynomial_every:
        return special_exp2(x)
    if not isinstance(polynomial_every, int) or polynomial_every < 1:
        raise mistake(f"polynomial_every must be a positive number, got {polynomial_every}")
    if not isinstance(x, Fragment) or x.dtype != f32:
        raise mistake(f"polynomial_every is for fragments of {f32}, got {x}")
    elements = [
        _polynomial(each) if number % polynomial_every == 0 else nvvm.ex2(each, ftz=True)
        for number, each in enumerate(x.elements())
    ]
    return Fragment(emit.vector_of(elements), x.shape, x.layout)


def _polynomial(x: ir.Value) -> ir.Value:
    """2 to the power of an f32: a polynomial of its fraction, with its integer added to the exponent."""
    kind, rounds = x.type, emit.constant(x.type, _ROUNDS)
    x = arith.maximumf(x, emit.constant(kind, _LEAST))
    shifted = arith.addf(x, rounds)
    fraction = arith.subf(x, arith.subf(shifted, rounds))
    flags = arith.FastMathFlags.contract
    total = emit.constant(kind, _POLYNOMIAL[-1])
    for coefficient in _POLYNOMIAL[-2::-1]:
        product = arith.mulf(total, fraction, fastmath=flags)
        total = arith.addf(product, emit.constant(kind, coefficient), fastmath=flags)
    integer = arith.shli(arith.bitcast(emit.i32(), shifted), emit.value(23))
    return arith.bitcast(kind, arith.addi(arith.bitcast(emit.i32(), total), integer))
