"""Values that the warps of a warpgroup, of a role or of a CTA have, exchanged through shared memory."""

from collections.abc import Iterator, Sequence
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.chips import LANES, WARPGROUP
from weft.language import roles, trace
from weft.language.dtypes import f32
from weft.language.mistakes import mistake
from weft.language.scalars import operand
from weft.layout import Layout
from weft.mlir import ir, llvm
from weft.passes.builders import addresses, emit, thread_ids


def group(warps: int) -> tuple[int, ir.Value]:
    """The number of warps that exchange values, and the thread's among them. `warps` is 0 for all of the
    role, or of the CTA. Raises WeftError where that isn't known.
    """
    warps = warps or _count()
    return warps, (roles.thread() // LANES % warps).value


def _count() -> int:
    current = trace.current()
    threads = current.role.threads if current.role is not None else current.threads_without_roles()
    return threads // LANES


def number(x: Any, axis: int | None, expected: str) -> ir.Value:
    """The value of a number of each thread: an SSA value. Raises WeftError for anything else, which isn't
    what is `expected` either, and for a number along an axis.
    """
    found = operand(x, f32)
    if found is None or axis is not None:
        along = "" if axis is None else f", along axis {axis}"
        raise mistake(f"{expected}, or a number of each thread, got {x}{along}")
    return found.value


def of_each(value: ir.Value, warps: int) -> list[ir.Value]:
    """The value that each warp of the group has in its first lane, in their order."""
    (found,) = exchanged([(0, value)], 1, warps, emit.equal(thread_ids.lane(), 0))
    return found


def exchanged(
    values: Sequence[tuple[ir.Value | int, ir.Value]], slots: int, warps: int, stores: ir.Value
) -> Iterator[list[Any]]:
    """For each value, with its slot, those that all warps of the group have in this slot, in their order.
    They are loaded one after the other, as the caller takes them: all of them may need too many registers.

    `stores` is whether the lane stores them: one of those with the same values and slots, an i1.
    """
    given = values[0][1].type
    current, kind = trace.current(), addresses.stored_type(given)
    count, size = _count(), kind.width // 8
    key = "warps", current.role.first if current.role else 0, slots, warps, str(kind)
    if key not in current.scratch:
        with current.at_entry():
            layout = Layout.parse(f"S[({count * slots}):(1)]")
            current.scratch[key] = tile.alloc(BufferType.of((count * slots,), kind, layout))
    base, warp = tile.address(current.scratch[key]), roles.thread() // LANES

    def address(of: ir.Value, slot: ir.Value | int) -> ir.Value:
        number = emit.add(emit.mul(of, slots), slot)
        return addresses.offset(base, emit.value(emit.mul(number, size)))

    meets = roles.warpgroup_barrier if current.role and warps * LANES == WARPGROUP else roles.barrier
    meets()  # others may still read what an earlier exchange stored
    with emit.when(stores):
        for slot, value in values:
            llvm.store(emit.bits(value, kind), address(warp.value, slot), alignment=size)
    meets()
    first = (warp - warp % warps).value
    alone = bool(warps * slots & (warps * slots - 1))  # otherwise LLVM may load one more, to have a vector

    def loaded(number: int, slot: ir.Value | int) -> ir.Value:
        at = addresses.offset(address(first, slot), number * slots * size)
        return emit.bits(llvm.load(kind, at, alignment=size, volatile_=alone), given)

    return ([loaded(number, slot) for number in range(warps)] for slot, _ in values)
