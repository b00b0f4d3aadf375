"""Atomic operations on elements in global memory that many threads change."""

from typing import NamedTuple

from weft.mlir import arith, ir, llvm
from weft.passes.builders import emit
from weft.passes.builders.instructions import LETTERS, assembly

RELAXED = llvm.AtomicOrdering.monotonic
GPU = "device"  # LLVM's name of the scope
_SCOPES = {"cta": "block", "cluster": "cluster", "gpu": GPU, "sys": None}
_SPACES = {"!llvm.ptr<1>": "global", "!llvm.ptr<3>": "shared", "!llvm.ptr<7>": "shared::cluster"}


# PTX's names of LLVM's operations, and of the types that aren't `b`.
_NAMES = {"fadd": "add", "umax": "max", "umin": "min", "xchg": "exch"}
_LETTERS = {"add": "u", "max": "s", "min": "s", "umax": "u", "umin": "u"}


class Order(NamedTuple):
    """How an atomic or a fence orders other accesses, and for whom, by PTX's qualifiers."""

    name: str
    scope: str


BOTH = Order("acq_rel", "gpu")
"""Orders accesses before and after it, for the GPU."""


def fence(order: Order = BOTH) -> ir.OpView:
    """A fence between what a thread accesses before and after it."""
    kind = llvm.AtomicOrdering.seq_cst if order.name == "sc" else llvm.AtomicOrdering.acq_rel
    return llvm.FenceOp(kind, syncscope=_SCOPES[order.scope])


def acquired(pointer: ir.Value, order: Order) -> ir.Value:
    """An i32 that is loaded in an order."""
    kind = RELAXED if order.name == "relaxed" else llvm.AtomicOrdering.acquire
    return llvm.load(emit.i32(), pointer, alignment=4, ordering=kind, syncscope=_SCOPES[order.scope])


def instruction(name: str, kind: str, order: Order, pointer: ir.Value, *operands: ir.Value) -> ir.Value:
    """`atom` with qualifiers, which LLVM leaves out; the element before."""
    words = [emit.signless(each) for each in operands]
    letters = [LETTERS.get(str(word.type), "h") for word in words]
    space = _SPACES[str(pointer.type)]
    sources = ", ".join(f"${number}" for number in range(2, 2 + len(words)))
    text = f"atom.{order.name}.{order.scope}.{space}.{name}.{kind} $0, [$1], {sources};"
    constraints = [f"={letters[0]}", "l", *letters, "~{memory}"]
    (old,) = assembly(text, constraints, [pointer, *words], [str(words[0].type)])
    return emit.bits(old, operands[0].type)


def update(name: str, pointer: ir.Value, number: ir.Value, order: Order | None = None) -> ir.Value:
    """Combines an element with a number by an operation of LLVM's `atomicrmw`; the element before."""
    if order is not None:
        kind, bits = str(number.type), number.type.width
        word = "noftz." * (bits == 16) + kind if name == "fadd" else f"{_LETTERS.get(name, 'b')}{bits}"
        return instruction(_NAMES.get(name, name.strip("_")), word, order, pointer, number)
    word = emit.signless(number)
    old = llvm.atomicrmw(llvm.AtomicBinOp[name], pointer, word, RELAXED, syncscope=GPU)
    return emit.bits(old, number.type)


def extreme_of_floats(name: str, pointer: ir.Value, number: ir.Value, order: Order | None = None) -> ir.Value:
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
        lambda: [update(opposite, pointer, bits, order)],
        lambda: [update(name, pointer, bits, order)],
    )
    return arith.bitcast(number.type, old)
