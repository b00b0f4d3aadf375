"""Operations on whole tiles in registers, beside those of `arith` and `math`: reductions, broadcasts of
vectors, coordinates, and changes of the layout.

A tile is a tensor of one or two dimensions. Without a layout, `--assign-layouts` decides on one.
"""

from weft.dialects.effects import Pure
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_epilogue import YieldOp
from weft.dialects.tile_types import Tile, is_fragment, is_tile
from weft.mlir import ext, ir


def _vector_complaint(op: Op, tile: ir.Value, vector: ir.Value) -> str | None:
    """Why a vector isn't one along a dimension of a tile: that which isn't `axis`."""
    if not is_tile(tile) or len(tile.type.shape) != 2:
        return f"expects a tile of two dimensions, got {tile.type}"
    if (axis := op.attribute("axis")) not in (0, 1):
        return f"axis must be 0 or 1, got {axis}"
    extent, element = tile.type.shape[1 - axis], tile.type.element_type
    fits = is_tile(vector) and list(vector.type.shape) == [extent] and vector.type.element_type == element
    if not fits or is_fragment(vector) != is_fragment(tile):
        layout = "" if is_fragment(tile) else "out"
        return f"expects a vector of {extent} {element} with{layout} a layout, got {vector.type}"
    return None


class ReduceOp(Op, dialect=Tile, name="reduce", traits=[Pure]):
    """The reduction of each row (`axis` 1) or each column (`axis` 0) of a tile to one element of a vector.

    The region combines two elements and ends with `tile.yield`. It must be associative and commutative, as
    the order of the elements isn't determined.
    """

    body: ext.Region
    source: Operand
    axis: ir.IntegerAttr
    vector: Result

    def check(self) -> str | None:
        if wrong := _vector_complaint(self, self.source, self.vector):
            return wrong
        element = self.source.type.element_type
        if len(self.body.blocks) != 1 or [a.type for a in self.block.arguments] != [element] * 2:
            return f"expects a region of two arguments of type {element}"
        operations = list(self.block.operations)
        if not operations or not isinstance(operations[-1], YieldOp):
            return "expects its region to end with tile.yield"
        got = operations[-1].element.type
        return None if got == element else f"expects its region to yield {element}, got {got}"

    @property
    def block(self) -> ir.Block:
        """The block of the region."""
        return self.body.blocks[0]


class BroadcastOp(Op, dialect=Tile, name="broadcast", traits=[Pure]):
    """The tile each of whose columns (`axis` 1) or rows (`axis` 0) is a vector."""

    vector: Operand
    axis: ir.IntegerAttr
    fragment: Result

    def check(self) -> str | None:
        return _vector_complaint(self, self.fragment, self.vector)


class CoordinateOp(Op, dialect=Tile, name="coordinate", traits=[Pure]):
    """The number of the row (`axis` 0) or column (`axis` 1) of each element of a tile, in i32."""

    axis: ir.IntegerAttr
    fragment: Result

    def check(self) -> str | None:
        if not is_tile(self.fragment) or str(self.fragment.type.element_type) != "i32":
            return f"expects to return a tile of i32, got {self.fragment.type}"
        rank, axis = len(self.fragment.type.shape), self.attribute("axis")
        return None if axis in range(rank) else f"axis must be in 0..{rank - 1}, got {axis}"


class ConvertLayoutOp(Op, dialect=Tile, name="convert_layout", traits=[Pure]):
    """The same tile in another layout, or in one that isn't decided yet."""

    source: Operand
    fragment: Result

    def check(self) -> str | None:
        kinds = []
        for value in (self.source, self.fragment):
            if not is_tile(value):
                return f"expects tiles, got {value.type}"
            kinds.append((list(value.type.shape), value.type.element_type))
        if kinds[0] != kinds[1]:
            return f"expects equal shapes and elements, got {self.source.type} and {self.fragment.type}"
        return None
