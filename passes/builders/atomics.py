"""Atomic operations on elements in global memory that many threads change."""

from weft.mlir import arith, ir, llvm
from weft.passes.builders import emit

RELAXED = llvm.AtomicOrdering.monotonic
GPU = "device"  # LLVM's name of the scope


def update(name: str, pointer: ir.Value, number: ir.Value) -> ir.Value:
    """Combines an element with a number by an operation of LLVM's `atomicrmw`; the element before."""
    word = emit.signless(number)
    old = llvm.atomicrmw(llvm.AtomicBinOp[name], pointer, word, RELAXED, syncscope=GPU)
    return emit.bits(old, number.type)


def extreme_of_floats(name: str, pointer: ir.Value, number: ir.Value) -> ir.Value:
    """Makes an element of f32 the larger ("max") or smaller ("min") one of it and a number.

    The bits of floats are ordered as integers: of positive floats as signed ones, and of negative floats,
    which as signed integers are less than those, in the opposite order of unsigned ones.
    """
    bits = arith.bitcast(emit.i32(), number)
    negative = emit.less(bits, 0)
    opposite = {"max": "umin", "min": "umax"}[name]
    (old,) = emit.either(
        negative,
        [bits.type],
        lambda: [update(opposite, pointer, bits)],
        lambda: [update(name, pointer, bits)],
    )
    return arith.bitcast(number.type, old)
