"""Where elements are: addresses in global and shared memory, and the coordinates that a lane's registers
stand for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.dialects.op import refuse
from weft.dialects.tile_buffers import SliceOp, StageOp, stage_bytes
from weft.dialects.tile_types import FP8_TYPES
from weft.isa.chips import LANES, WARPS
from weft.layout import Iter, Layout
from weft.mlir import arith, ir, llvm, memref, nvvm
from weft.passes.builders import emit

# llvm.getelementptr marks a run-time index in its constant list with this.
DYNAMIC = -(2**31)


def threads_of(op: Any) -> int:
    """The threads of the CTA that runs `op`. Raises WeftError outside of a kernel of known block size."""
    kernel = op.operation.parent
    while kernel is not None and kernel.name != "gpu.func":
        kernel = kernel.parent and kernel.parent.operation
    if kernel is None or "known_block_size" not in kernel.attributes:
        raise refuse(op, "expects to stand in a gpu.func with 'known_block_size'")
    x, y, z = kernel.attributes["known_block_size"]
    if y != 1 or z != 1:
        raise refuse(op, f"expects a block of one dimension, got {x} x {y} x {z}")
    return int(x)


def lane() -> Any:
    """The thread's number in its warp."""
    return emit.rem(emit.thread(), LANES)


def warp() -> Any:
    """The warp's number in its warpgroup."""
    return emit.rem(emit.div(emit.thread(), LANES), WARPS)


@contextmanager
def one_thread() -> Iterator[None]:
    """In the block, ops are built for one thread of each warpgroup, always the same: elected, so that ptxas
    knows it for one.
    """
    number = emit.rem(emit.uniform(emit.div(emit.thread(), LANES)), WARPS)
    with emit.when(emit.equal(number, 0)):
        elected = nvvm.ElectSyncOp(results=[emit.i1()]).pred
        with emit.when(elected):
            yield


def pointer(space: int) -> Any:
    """The LLVM pointer type of an address space."""
    return ir.Type.parse(f"!llvm.ptr<{space}>")


def offset(base: Any, bytes_: Any) -> Any:
    """A pointer some bytes further on; a number or an integer value."""
    byte = ir.IntegerType.get_signless(8)
    if isinstance(bytes_, int):
        return base if bytes_ == 0 else llvm.getelementptr(base.type, base, [], [bytes_], byte, 0)
    return llvm.getelementptr(base.type, base, [bytes_], [DYNAMIC], byte, 0)


def stored(element: Any) -> Any:
    """What LLVM loads and stores for elements of a type: it has no floats of 8 bits."""
    return ir.IntegerType.get_signless(8) if str(element) in FP8_TYPES else element


class Matrix:
    """A row-major matrix in global memory, as a kernel reaches it."""

    def __init__(self, value: Any) -> None:
        self.element = stored(value.type.element_type)
        self.bytes = int(self.element.width) // 8
        metadata = memref.extract_strided_metadata(value)
        self._stride = metadata[4]
        start = arith.muli(metadata[1], _index(self.bytes))
        address = arith.addi(memref.extract_aligned_pointer_as_index(value), start)
        wide = arith.index_cast(ir.IntegerType.get_signless(64), address)
        self.base = llvm.inttoptr(pointer(1), wide)
        self.rows, self.columns = emit.as_i32(metadata[2]), emit.as_i32(metadata[3])

    def row(self, row: Any) -> Any:
        """The address of a row's first element."""
        wide = arith.muli(emit.as_index(row), self._stride)
        bytes_ = arith.muli(wide, _index(self.bytes))
        return offset(self.base, arith.index_cast(ir.IntegerType.get_signless(64), bytes_))

    def element_of(self, row_address: Any, column: Any) -> Any:
        """The address of an element of a row."""
        wide = arith.extsi(ir.IntegerType.get_signless(64), emit.value(column))
        scale = arith.constant(wide.type, self.bytes)
        return offset(row_address, arith.muli(wide, scale))

    def misaligned(self, bytes_: int) -> Any:
        """By how much the matrix, or one of its rows, begins beyond a multiple of `bytes_`; an i32, 0 if none
        does.
        """
        address = llvm.ptrtoint(ir.IntegerType.get_signless(64), self.base)
        stride = arith.index_cast(address.type, arith.muli(self._stride, _index(self.bytes)))
        low = arith.trunci(emit.i32(), arith.ori(address, stride))
        return emit.bit_and(low, bytes_ - 1)

    def has_row(self, row: Any) -> Any:
        """Whether the row exists: an i1."""
        return emit.less(row, self.rows)

    def has_column(self, column: Any) -> Any:
        """Whether the column exists: an i1."""
        return emit.less(column, self.columns)


class Near:
    """The elements of a matrix at constant distances from one of them. What a row or a column has alone is
    computed once, where it is first asked for.
    """

    def __init__(self, matrix: Matrix, row: Any, column: Any) -> None:
        self._matrix, self._row, self._column = matrix, row, column
        self._rows: dict[int, tuple[Any, Any]] = {}
        self._columns: dict[int, Any] = {}

    def at(self, row: int, column: int) -> tuple[Any, Any]:
        """Whether the element so many rows and columns further on exists, an i1, and its address."""
        if row not in self._rows:
            at = emit.add(self._row, row)
            address = self._matrix.element_of(self._matrix.row(at), self._column)
            self._rows[row] = self._matrix.has_row(at), address
        if column not in self._columns:
            self._columns[column] = self._matrix.has_column(emit.add(self._column, column))
        exists, address = self._rows[row]
        inside = arith.andi(exists, self._columns[column])
        return inside, offset(address, column * self._matrix.bytes)


class Vector:
    """A contiguous vector in global memory, as a kernel reaches it."""

    def __init__(self, value: Any) -> None:
        self.element = stored(value.type.element_type)
        self.bytes = int(self.element.width) // 8
        metadata = memref.extract_strided_metadata(value)
        start = arith.muli(metadata[1], _index(self.bytes))
        address = arith.addi(memref.extract_aligned_pointer_as_index(value), start)
        self.address = arith.index_cast(ir.IntegerType.get_signless(64), address)
        self.base = llvm.inttoptr(pointer(1), self.address)
        self.columns = emit.as_i32(metadata[2])

    def element_of(self, column: Any) -> Any:
        """The address of an element."""
        wide = arith.extsi(self.address.type, emit.value(column))
        return offset(self.base, arith.muli(wide, arith.constant(wide.type, self.bytes)))

    def misaligned(self, bytes_: int) -> Any:
        """By how much the vector begins beyond a multiple of `bytes_`: an i32."""
        return emit.bit_and(arith.trunci(emit.i32(), self.address), bytes_ - 1)

    def has(self, column: Any) -> Any:
        """Whether the element exists: an i1."""
        return emit.less(column, self.columns)


def _index(number: int) -> Any:
    return arith.constant(ir.IndexType.get(), number)


@dataclass(frozen=True)
class Point:
    """A coordinate as the sum of a run-time part and a constant one, of which each digit has at most one."""

    value: Any
    constant: int = 0


class SharedTile:
    """A buffer of rank 2 in shared memory: byte offsets of its elements, swizzled."""

    def __init__(self, buffer_type: Any) -> None:
        layout: Layout = buffer_type.layout
        self.bytes = buffer_type.element_bits // 8
        self.groups = layout.group(buffer_type.shape)
        self.swizzle = layout.swizzle

    def offset(self, row: Point, column: Point) -> Any:
        """The byte offset of an element: run-time digits, swizzled, and then whatever the swizzle leaves
        alone.
        """
        dynamic = emit.add(place_of(row.value, self.groups[0]), place_of(column.value, self.groups[1]))
        constant = _static_place(row.constant, self.groups[0]) + _static_place(
            column.constant, self.groups[1]
        )
        dynamic, constant = emit.mul(dynamic, self.bytes), constant * self.bytes
        if self.swizzle is None:
            return emit.add(dynamic, constant)
        period = self.swizzle.period
        inside = constant % period
        return emit.add(self._swizzled(emit.add(dynamic, inside)), constant - inside)

    @property
    def linear(self) -> bool:
        """Whether elements lie at one stride in rows and one in columns: distances add up."""
        return self.swizzle is None and all(len(group) == 1 for group in self.groups)

    def run_complaint(self, elements: int) -> str | None:
        """Why runs of `elements` in a row don't lie together, each at a multiple of its size."""
        inner = Layout(self.groups[1]).canonical().shard
        together = inner and inner[-1].stride == 1 and inner[-1].extent % elements == 0
        rest = [*self.groups[0], *inner[:-1]]
        if elements > 1 and (not together or any(it.stride % elements for it in rest)):
            return f"expects runs of {elements} elements in a row of the buffer to lie together and aligned"
        return None

    def _swizzled(self, byte_offset: Any) -> Any:
        swizzle = self.swizzle
        assert swizzle is not None
        mask = ((1 << swizzle.bits) - 1) << swizzle.base
        return emit.xor(byte_offset, emit.bit_and(emit.shift_right(byte_offset, swizzle.shift), mask))


def place_of(value: Any, digits: tuple[Iter, ...]) -> Any:
    """Where an index lies, as the sum of its digits' strides; the outermost digit takes what is left."""
    total: Any = 0
    for number, digit in reversed(list(enumerate(digits))):
        low = value if number == 0 else emit.rem(value, digit.extent)
        total = emit.add(total, emit.mul(low, digit.stride))
        value = emit.div(value, digit.extent) if number else value
    return total


def distance(view: StageOp | SliceOp, unit: int = 1) -> Any:
    """How far a stage or part of a buffer lies from the buffer's start, in units of so many bytes, which
    divide that.
    """
    kind = view.buffer.type
    if isinstance(view, StageOp):
        assert stage_bytes(kind) % unit == 0
        return emit.mul(view.index, stage_bytes(kind) // unit)
    rows, columns = kind.layout.group(kind.shape)
    elements = emit.add(place_of(view.row, rows), place_of(view.column, columns))
    return emit.div(emit.mul(elements, kind.element_bits // 8), unit)


def carry_free(digits: tuple[Iter, ...], unit: int) -> bool:
    """Whether a number below `unit` and a multiple of it never meet in one digit."""
    inner = 1
    for it in reversed(digits):
        inner *= it.extent
        if unit % inner and inner % unit:
            return False
    return True


def point(value: Any, constant: int, parts: set[int], extent: int, digits: tuple[Iter, ...]) -> Point:
    """`value + constant` in two parts, or in one where they might carry into each other's digits.

    `value` is one of `parts` more than a multiple of `extent`; with the constant, the parts stay below it.
    """
    at = _static_place(constant, digits)
    apart = all(_static_place(p + constant, digits) == _static_place(p, digits) + at for p in parts)
    return (
        Point(value, constant) if apart and carry_free(digits, extent) else Point(emit.add(value, constant))
    )


def _static_place(value: int, digits: tuple[Iter, ...]) -> int:
    total = 0
    for number, digit in reversed(list(enumerate(digits))):
        low = value if number == 0 else value % digit.extent
        total, value = total + low * digit.stride, value // digit.extent
    return total


@lru_cache(maxsize=256)
def lane_elements(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For every lane of the first warp, the coordinates of the elements that it holds, in register order.

    Raises LayoutError where lanes hold different numbers of elements, or share one.
    """
    return tuple(tuple(layout.lane_elements(each, shape)) for each in range(LANES))


@lru_cache(maxsize=256)
def matrices(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...], bool | None]:
    """The first row and column of the 8x8 matrix of each register, and whether the lanes' pairs run down the
    columns of all of them; None where they run otherwise.
    """
    lanes = lane_elements(layout, shape)
    found, directions = list[tuple[int, int]](), set[bool | None]()
    for register in range(0, len(lanes[0]), 2):
        row, column = lanes[0][register]
        held = [[lanes[lane][register + i] for i in range(2)] for lane in range(LANES)]
        directions.add(_direction(row, column, held))
        found.append((row, column))
    return tuple(found), directions.pop() if len(directions) == 1 else None


def _direction(row: int, column: int, held: Sequence[Sequence[tuple[int, ...]]]) -> bool | None:
    """Whether the lanes' pairs run down the columns of the matrix at (`row`, `column`); None for neither."""
    for by_column in (False, True):
        wanted = [[_element(row, column, lane, i, by_column) for i in range(2)] for lane in range(LANES)]
        if held == wanted:
            return by_column
    return None


def _element(row: int, column: int, lane: int, i: int, by_column: bool) -> tuple[int, int]:
    """Element `i` of a lane's pair in a matrix at (`row`, `column`), along a row or down a column."""
    outer, inner = lane // 4, 2 * (lane % 4) + i
    return (row + inner, column + outer) if by_column else (row + outer, column + inner)


@dataclass(frozen=True)
class LaneDigit:
    """One digit of a coordinate that depends on the lane, or on the warp in its warpgroup:
    `(number / stride) % extent * weight`.
    """

    stride: int
    extent: int
    weight: int
    axis: str = "laneid"


@lru_cache(maxsize=256)
def lane_digits(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[LaneDigit, ...], ...] | None:
    """For each dimension, how a lane's first element follows from its number; None where digits can't be told
    apart.

    All other registers of the lane are at the same distance from the first in every lane.
    """
    found = []
    for group in layout.group(shape):
        weight, digits = 1, []
        for it in reversed(group):
            if it.axis in ("laneid", "warpid"):
                digits.append(LaneDigit(it.stride, it.extent, weight, it.axis))
            weight *= it.extent
        found.append(tuple(digits))
    elements = lane_elements(layout, shape)
    for each in range(LANES):
        first = tuple(
            sum(each // d.stride % d.extent * d.weight for d in digits if d.axis == "laneid")
            for digits in found
        )
        for here, there in zip(elements[each], elements[0], strict=True):
            if here != tuple(f + t for f, t in zip(first, there, strict=True)):
                return None
    return tuple(found)


def lane_coordinate(digits: tuple[LaneDigit, ...]) -> Any:
    """One coordinate of the lane's first element."""
    total: Any = 0
    for digit in digits:
        number = lane() if digit.axis == "laneid" else warp()
        low = emit.rem(emit.div(number, digit.stride), digit.extent)
        total = emit.add(total, emit.mul(low, digit.weight))
    return total
