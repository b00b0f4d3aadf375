"""The registers of a fragment as an instruction takes them."""

from functools import lru_cache
from typing import Any

from weft.dialects import tile
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import Layout, LayoutError
from weft.mlir import arith, ir, llvm, vector
from weft.passes.builders import emit, fragment_coordinates


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
    required = fragment_coordinates.lane_elements(atom, atom_shape)
    held = fragment_coordinates.lane_elements(layout, shape)
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


def _made_by(value: ir.Value, kind: Any) -> ir.OpView | None:
    """The operation of this class that has the value as its result; None if another one has."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != kind.OPERATION_NAME else owner


def words_of(lane: ir.Value) -> list[ir.Value]:
    """A vector's registers, as i32."""
    count = lane.type.shape[0] * lane.type.element_type.width // REGISTER_BITS
    return emit.elements(vector.bitcast(ir.VectorType.get([count], emit.i32()), lane))
