"""The offsets of elements, stages and slices of buffers in shared memory."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.dialects.tile_buffers import SliceOp, StageOp, stage_bytes
from weft.layout import Iter, Layout
from weft.mlir import ir
from weft.passes.builders import emit


@dataclass(frozen=True)
class Point:
    """A coordinate as the sum of a run-time part and a constant part, which share no digit."""

    value: ir.Value | int
    constant: int = 0


class SharedTile:
    """A buffer of rank 2 in shared memory: byte offsets of its elements, swizzled."""

    def __init__(self, buffer_type: Any) -> None:
        self._bits = int(buffer_type.element_bits)
        self.bytes = self._bits // 8
        self.groups = buffer_type.groups
        self.swizzle = buffer_type.layout.swizzle

    def offset(self, row: Point, column: Point) -> ir.Value | int:
        """The byte offset of an element: the swizzled run-time digits plus the constant digits that the
        swizzle doesn't change.
        """
        rows, columns = self.groups
        dynamic = emit.add(index_offset(row.value, rows), index_offset(column.value, columns))
        constant = _constant_offset(row.constant, rows) + _constant_offset(column.constant, columns)
        dynamic, constant = self._bytes_of(dynamic), self._bytes_of(constant)
        if self.swizzle is None:
            return emit.add(dynamic, constant)
        period = self.swizzle.period
        low = constant % period
        return emit.add(self._swizzled(emit.add(dynamic, low)), constant - low)

    def _bytes_of(self, elements: ir.Value | int) -> emit.Number:
        """The bytes of a number of elements; whole ones of elements with less than 8 bits."""
        return emit.mul(elements, self.bytes) if self.bytes else emit.div(elements, 8 // self._bits)

    @property
    def linear(self) -> bool:
        """Whether rows and columns have one stride each, so that distances add up."""
        return self.swizzle is None and all(len(group) == 1 for group in self.groups)

    def run_complaint(self, elements: int) -> str | None:
        """Why runs of `elements` in a row aren't contiguous, each at a multiple of its size."""
        inner = Layout(self.groups[1]).canonical().shard
        contiguous = inner and inner[-1].stride == 1 and inner[-1].extent % elements == 0
        rest = [*self.groups[0], *inner[:-1]]
        if elements > 1 and (not contiguous or any(it.stride % elements for it in rest)):
            return f"expects runs of {elements} elements in a row of the buffer to be contiguous and aligned"
        return None

    def _swizzled(self, byte_offset: ir.Value) -> ir.Value:
        swizzle = self.swizzle
        assert swizzle is not None
        mask = ((1 << swizzle.bits) - 1) << swizzle.base
        return emit.xor(byte_offset, emit.bit_and(emit.shift_right(byte_offset, swizzle.shift), mask))


def index_offset(value: ir.Value | int, digits: tuple[Iter, ...]) -> ir.Value | int:
    """The offset of an index: the sum of its digits times their strides. The outermost digit is unbounded."""
    total: ir.Value | int = 0
    for number, digit in reversed(list(enumerate(digits))):
        low = value if number == 0 else emit.rem(value, digit.extent)
        total = emit.add(total, emit.mul(low, digit.stride))
        value = emit.div(value, digit.extent) if number else value
    return total


def view_offset(view: StageOp | SliceOp, unit: int = 1) -> ir.Value | int:
    """The distance of a stage or slice from the start of its buffer, in units of so many bytes, which divide
    it.
    """
    kind = view.buffer.type
    if isinstance(view, StageOp):
        assert stage_bytes(kind) % unit == 0
        return emit.mul(view.index, stage_bytes(kind) // unit)
    rows, columns = kind.groups
    elements = emit.add(index_offset(view.row, rows), index_offset(view.column, columns))
    if kind.element_bits < 8:
        return emit.div(elements, 8 // kind.element_bits * unit)
    return emit.div(emit.mul(elements, kind.element_bits // 8), unit)


def carry_free(digits: tuple[Iter, ...], unit: int) -> bool:
    """Whether a number below `unit` and a multiple of it never share a digit."""
    inner = 1
    for it in reversed(digits):
        inner *= it.extent
        if unit % inner and inner % unit:
            return False
    return True


def split_point(
    value: ir.Value, constant: int, parts: set[int], extent: int, digits: tuple[Iter, ...]
) -> Point:
    """`value + constant` in two parts, or in one where they might carry into each other's digits.

    `value` is a multiple of `extent` plus one of `parts`; with the constant, that remains below `extent`.
    """
    apart = _adds_up(constant, frozenset(parts), digits) and carry_free(digits, extent)
    return Point(value, constant) if apart else Point(emit.add(value, constant))


@lru_cache(maxsize=4096)
def _adds_up(constant: int, parts: frozenset[int], digits: tuple[Iter, ...]) -> bool:
    """Whether the offset of each part plus a constant is the sum of their offsets."""
    at = _constant_offset(constant, digits)
    return all(_constant_offset(p + constant, digits) == _constant_offset(p, digits) + at for p in parts)


def _constant_offset(value: int, digits: tuple[Iter, ...]) -> int:
    total = 0
    for number, digit in reversed(list(enumerate(digits))):
        low = value if number == 0 else value % digit.extent
        total, value = total + low * digit.stride, value // digit.extent
    return total
