"""Block scales of the operands of products: their tiles in a ring's stages."""

from collections.abc import Iterator
from math import gcd
from typing import Any, NamedTuple

from weft.dialects import tile
from weft.dialects.element_types import PTX_SCALES
from weft.dialects.tile import BufferType
from weft.errors import shown
from weft.isa import block_scales
from weft.isa.chips import describe
from weft.isa.mma import SCALED
from weft.isa.tcgen05.mma_rows import MMA_BLOCK_SCALE
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import mistake
from weft.language.values.buffers import Stage
from weft.language.values.dtypes import DTYPES, DType, bf16, e4m3, i32
from weft.language.values.matrices import TilePlace
from weft.language.values.scalars import as_scalar
from weft.mlir import constant, ir
from weft.passes.builders import emit

CHIPS = MMA_BLOCK_SCALE.chips() | SCALED.chips()
"""The chips whose products have elements of less than 8 bits, and block scales."""
_TYPES = ", ".join(str(DTYPES[name]) for name in PTX_SCALES)


def group_of(dtype: DType) -> int:
    """The elements that share a scale of this type."""
    return block_scales.group_of(PTX_SCALES[dtype.name])


def unit_of(dtype: DType) -> int:
    """The elements of a row that have their scales in one tile."""
    return group_of(dtype) * block_scales.GROUPS


class ScaleKind(NamedTuple):
    """A ring's buffer of scales: as many rows of tiles, and bytes of a row of tiles, and the scales' type."""

    rows: int
    columns: int
    dtype: DType

    def place(self, of: TilePlace, buffer: ir.Type) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The array as TMA copies it to buffers of this type, and the row and column from where on, for the
        scales of an operand's elements from a place on.
        """
        (row, column), unit = of.corner, unit_of(self.dtype)
        if (known := constant(column)) is not None and known % unit:
            raise mistake(f"a column of '{of.matrix.name}' must be a multiple of {unit}, got {known}")
        tiles = emit.mul(emit.div(column, unit), block_scales.TILE_BYTES)
        source = of.map(buffer, block_scales.TILE_BYTES)
        return source, emit.value(emit.div(row, block_scales.ROWS)), emit.value(tiles)

    def types(self, stages: int) -> tuple[ir.Type, ir.Type]:
        """The types of the stages as they are copied, and as rows x groups."""
        each = block_scales.Stages(
            stages, self.rows, self.columns // block_scales.TILE_BYTES, block_scales.TILE_BYTES
        )
        groups = each.deep * block_scales.GROUPS
        shape = stages, self.rows * block_scales.ROWS, groups
        kind = self.dtype.type
        return BufferType.of(each.shape, kind, each.bytes_layout), BufferType.of(
            shape, kind, each.rows_layout
        )


class BlockScales(Carried):
    """The scales of an operand of `w.gemm` in a stage, or those of some of its rows (columns of B)."""

    def __init__(self, value: ir.Value, first: object, count: int, slot: Stage | None) -> None:
        self.value, self.first, self.count, self.slot = value, first, count, slot

    @property
    def dtype(self) -> DType:
        """Their type."""
        return DTYPES[str(self.value.type.element_type)]

    @property
    def groups(self) -> int:
        """The scales of a row."""
        return int(self.value.type.shape[1])

    @property
    def group(self) -> int:
        """The elements that share a scale."""
        return group_of(self.dtype)

    @property
    def ring(self) -> Any:
        """The ring of the stage."""
        return self.slot and self.slot.ring

    def rows(self, first: Any, count: int) -> "BlockScales":
        """Those of `count` rows, a multiple of 32, from `first` on: a multiple of the greatest common divisor
        of `count` and 128.
        """
        if type(count) is not int or not 0 < count <= self.count or count % block_scales.LANES:
            raise mistake(
                f"rows of block scales must be a multiple of {block_scales.LANES} in {block_scales.LANES}.."
                f"{self.count}, got {shown(count)}"
            )
        return BlockScales(self.value, first + self.first, count, self.slot) if count < self.count else self

    def check_full(self) -> None:
        """Raises WeftError for those of a stage that nothing has waited for."""
        if self.slot is not None:
            self.slot.check_full("read")

    def load(self, row: ir.Value | int, kind: ir.Type) -> ir.Value:
        """The fragment of this type of scales from a row on, for a warp."""
        if self.ring is not None:
            self.ring.read_by_lanes()
        row = emit.add(as_scalar(self.first, i32).value, row)
        return tile.load(self.value, emit.value(row), emit.value(0), kind, vector_bytes=block_scales.GROUPS)

    def part(self, buffer: ir.Value) -> ir.Value:
        """Those of these rows in a buffer of tensor memory with all scales of the stage."""
        if self.count == buffer.type.shape[0]:
            return buffer
        first, step = as_scalar(self.first, i32).value, gcd(self.count, block_scales.ROWS)
        return tile.slice_(buffer, first, emit.value(0), (self.count, self.groups), row_step=step)

    # Their address is known where they are used, so that loops and branches carry the scales themselves.

    def parts(self) -> list[ir.Value]:
        return []

    def like(self, parts: Iterator[ir.Value]) -> "BlockScales":
        return self

    def complaint(self, other: "BlockScales") -> str | None:
        same = (self.value, self.first, self.count) == (other.value, other.first, other.count)
        return None if same else f"was {self} and becomes others: choose their rows where they are used"

    def __str__(self) -> str:
        return f"block scales of {self.count} rows, {self.groups} of {self.dtype} each"


def check_chip(subject: str) -> None:
    """Raises WeftError on a chip without products of block-scaled elements."""
    if (chip := trace.current().chip) not in CHIPS:
        raise mistake(
            f"{subject} need {describe(CHIPS)}, got {chip}: convert the elements to {e4m3} or {bf16}"
        )


def block_scales_of(rows: int, depth: int, dtype: DType) -> ScaleKind:
    """The buffer of a ring with the scales of an operand's tile of rows x depth (for B, of columns x depth):
    `w.ring(4, a=(128, 256, w.e2m1), a_scales=w.block_scales(128, 256, w.e4m3), …)`.

    16 elements along K share a scale of `w.e4m3` (nvfp4), 32 one of `w.e8m0` (mxfp8, mxfp6, mxfp4).
    `ring.fill` takes the place of the operand's first element in an array of `w.Scales`: `a=a[row, k],
    a_scales=scales[row, k]`. The stage then has the scales from the last multiple of 128 rows on.
    """
    check_chip("block scales")
    if not isinstance(dtype, DType) or dtype.name not in PTX_SCALES:
        got = dtype if isinstance(dtype, DType) else shown(dtype)
        raise mistake(f"block scales must be of one of {_TYPES}, got {got}")
    unit = unit_of(dtype)
    for name, number, least in (("rows", rows, block_scales.ROWS), ("depth", depth, unit)):
        if type(number) is not int or number < 1 or number % least:
            nearest = f": use {-(-number // least) * least}" if type(number) is int and number > 0 else ""
            raise mistake(
                f"{name} of block scales of {dtype} must be a multiple of {least}, of which a tile has the "
                f"scales, got {shown(number)}{nearest}"
            )
    return ScaleKind(rows // block_scales.ROWS, depth // unit * block_scales.TILE_BYTES, dtype)
