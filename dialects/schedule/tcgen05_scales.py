"""What block scales add to a schedule of `tcgen05`: the instruction that applies them, their tiles in shared
memory and their columns of tensor memory.
"""

from dataclasses import dataclass

from weft.dialects.product_types import BITS, Types, ceil_div
from weft.isa import block_scales, tensor_map
from weft.isa.block_scales import BlockScaling
from weft.isa.tcgen05.descriptors import KINDS, LONG_K, BlockScaledDescriptor, steps
from weft.isa.tcgen05.mma_forms import MmaBlockScale
from weft.isa.tcgen05.tensor_layouts import SCALE_COLUMNS
from weft.isa.tensor_map import EXPANDED_ROW

LEAST_ROWS = block_scales.ROWS
"""The least rows of a CTA with block scales."""
_WORD_STAGES = 4  # as many K blocks at least, so that the warp that reads words is ahead


@dataclass(frozen=True)
class ScaleTiles:
    """The scales of a K block that a CTA needs: tiles of 128 rows of the left operand (columns of the right
    one) and of 4 groups of elements along K.
    """

    left: int
    right: int
    deep: int
    stages: int = 0
    """Of a ring of their own, into which a warp writes scales that come as words; 0 where stages of A and B
    have them.
    """

    @classmethod
    def of(cls, rows: int, columns: int, depth: int, types: Types) -> "ScaleTiles | None":
        """Those of a K block of `depth` elements and so many rows and columns; None without block scales."""
        if (scaling := types.block_scaling) is None:
            return None
        deep = ceil_div(depth, block_scales.GROUPS * (types.words or scaling.group))
        if types.words:  # tiles are written where the rows begin
            left, right = ceil_div(rows, block_scales.ROWS), ceil_div(columns, block_scales.ROWS)
            return cls(left, right, deep, _WORD_STAGES)
        return cls(block_scales.spanned(rows), block_scales.spanned(columns), deep)

    @property
    def bytes(self) -> int:
        """Shared memory of the scales of a stage of A and B."""
        return 0 if self.stages else self._bytes

    @property
    def ring_bytes(self) -> int:
        """Shared memory of the stages of their own."""
        return self.stages * self._bytes

    @property
    def _bytes(self) -> int:
        return (self.left + self.right) * self.deep * block_scales.TILE_BYTES

    @property
    def columns(self) -> int:
        """Columns of tensor memory, in which the scales of one K block are."""
        return (self.left + self.right) * self.deep * SCALE_COLUMNS


def form(scaling: BlockScaling, cta_group: int) -> MmaBlockScale:
    """The instruction that multiplies elements with such scales, as every chip spells it."""
    return MmaBlockScale(scaling.kind, cta_group, f"block{scaling.group}")


def column_unit(types: Types) -> int:
    """What block N must be a multiple of, in addition to what the instruction needs. Tensor memory has scales
    of 32 rows in each column, and an instruction reads them from the first lane on, so tiles of D must begin
    at multiples of 32 scales; but words are written from there on where a tile of D begins.
    """
    return block_scales.LANES if types.scale and not types.words else 1


def complaint(block: tuple[int, int, int], cta_rows: int, types: Types) -> str | None:
    """Why tiles of the operands and of their scales can't be copied and used together."""
    scaling, (_, n, k) = types.block_scaling, block
    if types.has_packed_inputs and types.input_bits == 8 and k % EXPANDED_ROW:
        return f"block K must be a multiple of {EXPANDED_ROW}, which TMA expands to bytes, got {k}"
    if scaling is None:
        return None
    rows, unit = block_scales.ROWS, block_scales.GROUPS * scaling.group
    if cta_rows % rows:
        return f"a CTA must have a multiple of {rows} rows of a tile with block scales, got {cta_rows}"
    if n % (columns := column_unit(types)):
        nearest = max(columns, n - n % columns), ceil_div(n, columns) * columns
        legal = " or ".join(map(str, dict.fromkeys(nearest)))
        whose = f"{columns}, whose scales are a column of tensor memory"
        return f"block N must be a multiple of {whose}, with tiles of scales, such as {legal}, got {n}"
    if k % unit:
        return f"block K must be a multiple of {unit}, of which scales are one tile, got {k}"
    if types.words > scaling.group and (deep := block_scales.GROUPS * types.words) % k:
        return f"block K must divide {deep}, which have one word of scales of {types.words}, got {k}"
    return None


def long_share(types: Types, m: int, n: int, k: int, cta_group: int, chip: str | None) -> float:
    """The share of a K block that instructions with a K of 96 multiply. They read the scales of more than
    four groups, so those of four groups must have as many tiles as the instruction's N.
    """
    scaling = types.block_scaling
    if scaling is None or not scaling.packed or chip is None:
        return 0.0
    (element,) = scaling.elements
    spelled = form(scaling, cta_group).scale_vec
    shape = scaling.kind, m, n
    descriptor = BlockScaledDescriptor(*shape, element, element, scaling.scale, cta_group, spelled, k=LONG_K)
    tiles = ScaleTiles.of(m // cta_group, n, k, types)
    if descriptor.complaint(chip) or tiles is None or tiles.right != ceil_div(n, block_scales.ROWS):
        return 0.0
    depths = [depth for _, depth in steps(k, KINDS[scaling.kind].k, long=True)]
    return LONG_K * depths.count(LONG_K) / k


def word_period(k: int, types: Types, splits: int) -> int:
    """How many K blocks of `k` elements have their scales in the same words. With `splits`, the K blocks of a
    slice aren't consecutive, and each brings its own.
    """
    return 1 if splits > 1 else max(block_scales.GROUPS * types.words // k, 1)


def layout_complaint(types: Types) -> str | None:
    """Why elements of 4 or 6 bits can't be read as they are stored."""
    for name, element, mn_major in zip("AB", (types.a, types.b), types.transposed, strict=True):
        if mn_major and BITS.get(element, 8) < 8:
            legal = "transpose_a = false" if name == "A" else "transpose_b = true"
            return f"{name} must be K-major ({legal}) with elements of {element}, got an MN-major one"
    return None


def row_bytes(types: Types, operand: str) -> int:
    """Bytes at whose multiples the rows of A ("a") or B ("b") must begin: twice as many where TMA expands
    their elements.
    """
    element = types.a if operand == "a" else types.b
    expands = BITS.get(element, 8) < 8 and types.input_bits == 8
    return tensor_map.ROW_BYTES * (2 if expands else 1)


def copied_bytes(extents: tuple[int, int], depth: int, types: Types, swap: bool) -> int:
    """Bytes that copies of a K block of the left and the right operand count: those of elements of 4 and 6
    bits are packed, even where they are expanded.
    """
    elements = (types.b, types.a) if swap else (types.a, types.b)
    return sum(extent * depth * BITS[e] // 8 for extent, e in zip(extents, elements, strict=True))
