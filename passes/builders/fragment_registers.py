"""The registers of a fragment as an instruction takes them, and the coordinates of the elements in them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from weft.dialects import tile
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import LANES_OF_ROW, REGISTER_BITS
from weft.layout import Layout, LayoutError
from weft.mlir import arith, ir, llvm, vector
from weft.passes.builders import emit, thread_ids


@lru_cache(maxsize=256)
def lane_elements(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For every lane of the first warp, the coordinates of its elements, in register order.

    Raises LayoutError if lanes hold different numbers of elements, or share one.
    """
    return tuple(tuple(layout.lane_elements(each, shape)) for each in range(LANES))


def coordinates(kind: ir.Type) -> tuple[tuple[int, ...], ...]:
    """The rows and columns of the first lane's elements of a fragment, in register order."""
    return lane_elements(kind.layout, kind.shape)[0]


def elements_of_row(bits: int) -> int:
    """Elements of so many bits in a row of a matrix that ldmatrix moves."""
    return LANES_OF_ROW * REGISTER_BITS // bits


@lru_cache(maxsize=256)
def matrices(
    layout: Layout, shape: tuple[int, ...], pack: int = 2
) -> tuple[tuple[tuple[int, int], ...], bool | None]:
    """The first row and column of the matrix of each register of `pack` elements, as ldmatrix moves it, and
    whether the elements of a register are along the columns of all matrices, or the rows (None if neither).
    """
    lanes = np.array(lane_elements(layout, shape))
    origins = lanes[0, ::pack]
    held = lanes.reshape(LANES, len(origins), pack, -1) - origins[:, None]
    lane, element = np.indices((LANES, pack))
    at = np.stack((lane // LANES_OF_ROW, pack * (lane % LANES_OF_ROW) + element), -1)[:, None]
    along_row, along_column = ((held == each).all((0, 2, 3)) for each in (at, at[..., ::-1]))
    by_column = None
    if along_row.all():
        by_column = False
    elif along_column.all() and not along_row.any():
        by_column = True
    return tuple(map(tuple, origins.tolist())), by_column


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
    """For each dimension, the digits of a lane's number that give the coordinate of its first element. None
    if the other registers of the lane aren't at the same distance from the first in every lane.
    """
    dimensions = []
    for group in layout.group(shape):
        weight, digits = 1, []
        for it in reversed(group):
            if it.axis in ("laneid", "warpid"):
                digits.append(LaneDigit(it.stride, it.extent, weight, it.axis))
            weight *= it.extent
        dimensions.append(tuple(digits))
    elements, lane = np.array(lane_elements(layout, shape)), np.arange(LANES)
    for dimension, own in enumerate(dimensions):
        of_lane = [lane // d.stride % d.extent * d.weight for d in own if d.axis == "laneid"]
        first = sum(of_lane, np.zeros(LANES, int))
        if (elements[..., dimension] != first[:, None] + elements[0, :, dimension]).any():
            return None
    return tuple(dimensions)


def lane_coordinate(digits: tuple[LaneDigit, ...]) -> ir.Value | int:
    """One coordinate of the lane's first element."""
    total: ir.Value | int = 0
    for digit in digits:
        low = thread_ids.digit(digit.axis, digit.stride, digit.extent)
        total = emit.add(total, emit.mul(low, digit.weight))
    return total


@lru_cache(maxsize=256)
def register_map(
    layout: Layout, shape: tuple[int, ...], atom_text: str, atom_shape: tuple[int, ...]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each atom of a fragment (by its coordinates in the grid of atoms), the indices of its registers
    among the lane's elements.

    Raises LayoutError if an element is in another lane than the instruction reads it from, or if its index
    differs between lanes.
    """
    atom = Layout.parse(atom_text)
    required = lane_elements(atom, atom_shape)
    held = lane_elements(layout, shape)
    index_of = [{coordinates: i for i, coordinates in enumerate(elements)} for elements in held]
    indices: dict[tuple[int, ...], tuple[int, ...]] = {}
    grid = [extent // step for extent, step in zip(shape, atom_shape, strict=True)]
    for first in range(grid[0]):
        for second in range(grid[1]):
            start = first * atom_shape[0], second * atom_shape[1]
            in_lanes = set()
            for lane in range(LANES):
                elements = [(start[0] + row, start[1] + column) for row, column in required[lane]]
                missing = [e for e in elements if e not in index_of[lane]]
                if missing:
                    must = f"must have element {missing[0]} in lane {lane}, as in {atom}"
                    raise LayoutError(f"{must}, got {layout}")
                in_lanes.add(tuple(index_of[lane][e] for e in elements))
            if len(in_lanes) > 1:
                raise LayoutError(f"must have its registers in the same order in all lanes, got {layout}")
            indices[first, second] = in_lanes.pop()
    return indices


_PAIR = 2
_HALF = 16


class FragmentRegisters:
    """A fragment as the registers of its atoms."""

    def __init__(self, lane: ir.Value, kind: ir.Type, registers: Registers) -> None:
        self.elements = emit.elements(lane)
        self.map = register_map(kind.layout, kind.shape, registers.layout, registers.shape)
        self.registers = registers
        self.type = ir.Type.parse(registers.type)
        self.pack = REGISTER_BITS // kind.element_type.width
        self.words = words_of(lane) if self._wholewords_of() else None

    def _wholewords_of(self) -> bool:
        """Whether the lane's vector has the elements of each register next to each other, so that it is best
        read as registers: there may be no operations on single elements.
        """
        pack = self.pack
        return (
            pack != _PAIR
            and self.elements[0].type != self.type
            and all(
                each[i : i + pack] == tuple(range(each[i], each[i] + pack)) and each[i] % pack == 0
                for each in self.map.values()
                for i in range(0, len(each), pack)
            )
        )

    def atom(self, first: int, second: int) -> list[ir.Value]:
        """The registers of one atom, in the order of the instruction."""
        indices, pack = self.map[first, second], self.pack
        if self.words is not None:
            words = [self.words[i // pack] for i in indices[::pack]]
        else:
            scalars = [self.elements[i] for i in indices]
            if scalars[0].type == self.type:
                return scalars
            kind = ir.VectorType.get([pack], scalars[0].type)
            runs = (scalars[i : i + pack] for i in range(0, len(scalars), pack))
            packed = [vector.from_elements(kind, run) for run in runs]
            if kind == self.type:
                return packed
            words = [llvm.bitcast(emit.i32(), run) if pack == _PAIR else words_of(run)[0] for run in packed]
        return words

    def put(self, first: int, second: int, registers: list[ir.Value]) -> None:
        """Replaces the elements of one atom."""
        indices = self.map[first, second]
        if len(indices) > len(registers):
            registers = [element for register in registers for element in emit.elements(register)]
        for i, element in zip(indices, registers, strict=True):
            self.elements[i] = element


def words_of_fragment(fragment: ir.Value) -> list[ir.Value]:
    """The registers of a lane's elements, as i32.

    Elements that were just rounded from f32 to 16 bits, for this use alone, are rounded here, in pairs. LLVM
    would take a vector of all of them apart, and ptxas would permute the halves of each register.
    """
    if (numbers := _before_rounding(fragment)) is None:
        return words_of(tile.to_lane(fragment))
    wide = ir.VectorType.get([_PAIR], ir.F32Type.get())
    rounded = ir.VectorType.get([_PAIR], fragment.type.element_type)
    pairs = (
        vector.from_elements(wide, numbers[i : i + _PAIR]) for i in range(0, fragment.type.registers, _PAIR)
    )
    return [llvm.bitcast(emit.i32(), arith.truncf(rounded, pair)) for pair in pairs]


def _before_rounding(fragment: ir.Value) -> list[ir.Value] | None:
    """A lane's f32 that were rounded to the 16-bit elements of a fragment; None for another fragment, or one
    with several uses.
    """
    if (made := _made_by(fragment, tile.FromLaneOp)) is None or fragment.type.element_type.width != _HALF:
        return None
    rounding = _made_by(made.operands[0], arith.TruncFOp)
    if rounding is None or len(rounding.attributes) or fragment.type.registers % _PAIR:
        return None
    if any(len(list(each.uses)) > 1 for each in (fragment, rounding.result)):
        return None
    wide = rounding.operands[0]
    return emit.elements(wide) if wide.type.element_type == ir.F32Type.get() else None


def _made_by(value: ir.Value, kind: type[ir.OpView]) -> ir.OpView | None:
    """The operation of this class that has the value as its result; None if another one has."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != kind.OPERATION_NAME else owner


def words_of(lane: ir.Value) -> list[ir.Value]:
    """A vector's registers, as i32."""
    count = lane.type.shape[0] * lane.type.element_type.width // REGISTER_BITS
    return emit.elements(vector.bitcast(ir.VectorType.get([count], emit.i32()), lane))
