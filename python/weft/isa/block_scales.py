"""Products with block scales: the formats of their operands, what multiplies which pair of them, and how
scales are stored (PTX ISA, "Block Scaling for mma.sync" and "Block Scaling" of tcgen05; cuBLAS, "1D Block
Scaling Factors Layout").

A group of elements along K in a row of A, or in a column of B, shares a scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from weft.isa.tensor_map import EXPANDED_ROW
from weft.isa.types import ELEMENT_TYPES

ROWS = 128
"""Rows of a tile of scales; a matrix of scales has whole tiles."""
GROUPS = 4
"""Groups of a tile of scales."""
TILE_BYTES = ROWS * GROUPS
LANES = 32
"""Rows of 16 bytes in a tile: row r has the scales of rows r, r + 32, r + 64 and r + 96 of the matrix."""
QUARTERS = ROWS // LANES
"""Rows of the matrix that have their scales in one row of a tile."""
LANE_BYTES = QUARTERS * GROUPS
"""Bytes of a row of a tile."""

GROUP_OF_WORDS = 32
"""Elements that share a scale where all four scales of a word are for one K block of 128 elements."""
WORD_BLOCKS = (GROUPS * GROUP_OF_WORDS, GROUP_OF_WORDS)
"""The elements along K that may share a scale where scales of ue8m0 come as words of four (int32), the first
in the lowest bits, with the words of consecutive rows after each other, as DeepGEMM has them.
"""


@dataclass(frozen=True)
class Format:
    """A format of one operand, by the name that users know: its elements, and the type of scale that each
    `group` of them shares.
    """

    name: str
    elements: tuple[str, ...]
    scale: str
    group: int


FORMATS = {
    each.name: each
    for each in (
        Format("mxfp8", ("e4m3", "e5m2"), "ue8m0", 32),
        Format("mxfp6", ("e2m3", "e3m2"), "ue8m0", 32),
        Format("mxfp4", ("e2m1",), "ue8m0", 32),
        Format("nvfp4", ("e2m1",), "ue4m3", 16),
    )
}


@dataclass(frozen=True)
class BlockScaling:
    """How tensor cores multiply a pair of operands with block scales: the `kind` and the `scale_vec` of the
    instructions, and the elements that share a scale.

    `bits` are those of an element in shared memory: kinds that take several widths give each element a byte.
    """

    kind: str
    scale_vec: str
    scale: str
    group: int
    elements: tuple[str, ...]
    bits: int

    @property
    def packed(self) -> bool:
        """Whether two elements share a byte of shared memory."""
        return self.bits < 8


SCALINGS = (
    BlockScaling("mxf4nvf4", "4X", "ue4m3", 16, ("e2m1",), 4),
    BlockScaling("mxf4", "2X", "ue8m0", 32, ("e2m1",), 4),
    BlockScaling("mxf8f6f4", "1X", "ue8m0", 32, ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), 8),
)
"""All of them. The first that has both operands is the fastest."""
SCALE_TYPES = tuple(dict.fromkeys(scaling.scale for scaling in SCALINGS))


def scaling_of(a: str, b: str, scale: str) -> BlockScaling | None:
    """What multiplies A and B of these elements with scales of this type; None where nothing does."""
    return next((s for s in SCALINGS if s.scale == scale and {a, b} <= set(s.elements)), None)


def multiple_of_k(a: str, b: str, scaling: BlockScaling | None) -> int:
    """What K must be a multiple of for A and B of these elements: packed rows are whole bytes, and TMA
    expands elements of 4 and 6 bits to bytes only in rows of whole 128 elements.
    """
    if scaling is not None and scaling.packed:
        return 8 // scaling.bits
    return EXPANDED_ROW if min(ELEMENT_TYPES[a].bits, ELEMENT_TYPES[b].bits) < 8 else 1


def group_of(scale: str) -> int:
    """The elements that share a scale of this type."""
    return next(scaling.group for scaling in SCALINGS if scaling.scale == scale)


def elements_with(scale: str) -> tuple[str, ...]:
    """The elements that scales of this type may have."""
    return tuple(dict.fromkeys(e for s in SCALINGS if s.scale == scale for e in s.elements))


def offset(row: int, group: int, groups: int) -> int:
    """The byte of a scale of a matrix with so many groups in each row: tiles of 128 rows and 4 groups, those
    of the same rows after each other.
    """
    tile = row // ROWS * -(-groups // GROUPS) + group // GROUPS
    lane, quarter = row % LANES, row % ROWS // LANES
    return tile * TILE_BYTES + lane * LANE_BYTES + quarter * GROUPS + group % GROUPS


def spanned(rows: int) -> int:
    """The most tiles of scales that have so many rows, where these begin at a multiple of their number."""
    first = ROWS - gcd(rows, ROWS)  # the last row of a tile at which they may begin
    return -(-(first + rows) // ROWS)


def tiles(rows: int, groups: int) -> tuple[int, int]:
    """The shape of a matrix of scales, in bytes: a row for each 128 rows, with the tiles along K."""
    return -(-rows // ROWS), -(-groups // GROUPS) * TILE_BYTES


def by_rows(down: int, deep: int) -> tuple[int, int, int, int, int]:
    """The shape of `down` x `deep` tiles as rows (the first three extents) x groups (the last two). In the
    order of the bytes, the second and the fourth extent change places.
    """
    return down, QUARTERS, LANES, deep, GROUPS


@dataclass(frozen=True)
class Stages:
    """Shared memory for `stages` times `down` x `deep` tiles. TMA copies `panel` bytes of each row of tiles
    at once, for all rows: these lie after each other. A panel is the whole row, or divides a tile.
    """

    stages: int
    down: int
    deep: int
    panel: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the bytes as they are copied: stages, rows of tiles, and the bytes of one."""
        return self.stages, self.down, self.deep * TILE_BYTES

    @property
    def bytes_layout(self) -> str:
        """The layout of `shape`, in the notation of `weft.layout`."""
        panels = self.deep * TILE_BYTES // self.panel
        digits = (self.stages, self._size), (self.down, self.panel), (panels, self._step), (self.panel, 1)
        return _notation(digits)

    @property
    def rows_layout(self) -> str:
        """The layout of the same bytes as stages x rows x groups."""
        down, quarters, lanes, deep, groups = by_rows(self.down, self.deep)
        panels = max(TILE_BYTES // self.panel, 1)  # of a tile
        tile = TILE_BYTES if self.panel > TILE_BYTES else panels * self._step
        rows = (down, self.panel), (quarters, GROUPS), (panels, self._step), (lanes // panels, LANE_BYTES)
        return _notation(((self.stages, self._size), *rows, (deep, tile), (groups, 1)))

    @property
    def _size(self) -> int:
        """Bytes of a stage."""
        return self.down * self.deep * TILE_BYTES

    @property
    def _step(self) -> int:
        """Bytes from one panel of a row to the next."""
        return self.down * self.panel


def _notation(digits: Sequence[tuple[int, int]]) -> str:
    extents, strides = (",".join(map(str, each)) for each in zip(*digits, strict=True))
    return f"S[({extents}):({strides})]"
