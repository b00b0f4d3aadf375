"""Atomic updates of single elements in memory: each returns the element's value before it."""

from weft.isa.atomics import BF16_ADD
from weft.language import operators, trace
from weft.language.dtypes import bf16, f32
from weft.language.scalars import dtype_of
from weft.mlir import arith, ir, llvm
from weft.passes.builders import addresses, emit

_RELAXED = llvm.AtomicOrdering.monotonic
_ACQUIRE, _BOTH = llvm.AtomicOrdering.acquire, llvm.AtomicOrdering.acq_rel
_GPU = "device"  # LLVM's name of the scope
_SWAP = "atom.relaxed.gpu.global.cas.b16 $0, [$1], $2, $3;"


def fence(*, shared: bool) -> ir.OpView:
    """A fence between what a thread accesses before and after it, for the threads that can access shared
    memory, or for all of the GPU's.
    """
    cta = "cluster" if trace.current().cluster else "block"  # LLVM's names of these scopes
    return llvm.FenceOp(_BOTH, syncscope=cta if shared else _GPU)


def update(name: str, pointer: ir.Value, number: ir.Value) -> ir.Value:
    """Adds a number to an element ("add"), makes the element the larger or smaller one of both ("max",
    "min"), or combines their bits ("and", "or", "xor").
    """
    if name in ("and", "or", "xor"):
        return _atomic(f"_{name}", pointer, number)
    dtype = dtype_of(number.type)
    if dtype.is_unsigned:
        name = {"max": "umax", "min": "umin"}.get(name, name)
    if name != "add" and dtype == f32:
        return _extreme_of_floats(name, pointer, number)
    if name == "add" and dtype == bf16 and trace.current().chip not in BF16_ADD:
        return _added_by_swaps(pointer, number)
    return _atomic(f"f{name}" if dtype.is_float else name, pointer, number)


def _atomic(name: str, pointer: ir.Value, number: ir.Value) -> ir.Value:
    word = emit.signless(number)
    old = llvm.atomicrmw(llvm.AtomicBinOp[name], pointer, word, _RELAXED, syncscope=_GPU)
    return emit.bits(old, number.type)


def _extreme_of_floats(name: str, pointer: ir.Value, number: ir.Value) -> ir.Value:
    """The bits of floats are ordered as integers: of positive floats as signed ones, and of negative floats,
    which as signed integers are less than those, in the opposite order of unsigned ones.
    """
    bits = arith.bitcast(emit.i32(), number)
    negative = emit.less(bits, 0)
    opposite = {"max": "umin", "min": "umax"}[name]
    (old,) = emit.either(
        negative,
        [bits.type],
        lambda: [_atomic(opposite, pointer, bits)],
        lambda: [_atomic(name, pointer, bits)],
    )
    return arith.bitcast(number.type, old)


def _added_by_swaps(pointer: ir.Value, number: ir.Value) -> ir.Value:
    """Compares and swaps 16 bits in global memory. LLVM would swap a word, of which the other half may be
    outside of the array, and begin with a plain load, which races with the swaps of other threads.
    """
    bits = ir.IntegerType.get_signless(16)

    def swapped(old: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        new = operators.apply("add", arith.bitcast(number.type, old), number)
        operands = [pointer, old, arith.bitcast(bits, new)]
        found = llvm.inline_asm(
            bits, operands, _SWAP, "=h,l,h,h,~{memory}", has_side_effects=True, is_align_stack=False
        )
        return arith.cmpi(arith.CmpIPredicate.ne, found, old), [found]

    first = llvm.load(bits, pointer, alignment=2, ordering=_RELAXED, syncscope=_GPU)
    (old,) = emit.repeat([first], swapped)
    return arith.bitcast(number.type, old)


def exchanged(pointer: ir.Value, number: ir.Value) -> ir.Value:
    """Stores a number to an element. LLVM ignores that an exchange orders other accesses, so fences do."""
    fence(shared=False)
    old = _atomic("xchg", pointer, number)
    fence(shared=False)
    return old


def compared(pointer: ir.Value, expected: ir.Value, number: ir.Value) -> ir.Value:
    """Stores a number to an element that is the expected one."""
    expected, word = emit.signless(expected), emit.signless(number)
    swapped = llvm.cmpxchg(pointer, expected, word, _BOTH, _ACQUIRE, syncscope=_GPU)
    return emit.bits(llvm.extractvalue(word.type, swapped, [0]), number.type)


def of_array(name: str, element: ir.Value, array: ir.Value, at: list[ir.Value]) -> ir.Value:
    """The same, of the element of an array at indices."""
    return update(name, addresses.element(array, at), element)
