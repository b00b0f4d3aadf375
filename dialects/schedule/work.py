"""What a kernel does, as the models of its time see it, whichever family of schedules, or other library, it's
from.
"""

from dataclasses import dataclass, replace

from weft.dialects.element_types import BYTE_TYPES, NARROW_TYPES
from weft.dialects.product_types import BITS, Types
from weft.errors import WeftError


@dataclass(frozen=True)
class Kind:
    """The elements that a product multiplies. Bits of an element in global and in shared memory; `group`: the
    elements along K that have one scale of 8 bits, 0 without scales.
    """

    name: str
    bits: float
    shared_bits: int
    group: int = 0

    def bytes_of(self, elements: float) -> float:
        """Bytes of that many elements in global memory, with their scales."""
        return elements * (self.bits / 8 + (1 / self.group if self.group else 0.0))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("tf32", 32, 32),
        Kind("bf16", 16, 16),
        Kind("f16", 16, 16),
        Kind("fp8", 8, 8),
        Kind("s8", 8, 8),
        Kind("mxfp8", 8, 8, 32),
        Kind("mxfp6", 6, 8, 32),
        Kind("mxfp4", 4, 4, 32),
        Kind("nvfp4", 4, 4, 16),
    )
}
_OF_ELEMENTS = {
    "f32": "tf32",
    "bf16": "bf16",
    "f16": "f16",
    **dict.fromkeys(NARROW_TYPES, "fp8"),
    **dict.fromkeys(BYTE_TYPES, "s8"),
}
"""Without block scales, elements of 4 and 6 bits take as long as those of 8."""


def kind_of(types: Types) -> Kind:
    """The kind of elements that such products multiply. Raises WeftError for one without a model."""
    if (scaling := types.block_scaling) is not None:
        widths = BITS[types.a], BITS[types.b]
        if scaling.packed:
            return KINDS["nvfp4" if scaling.group == 16 else "mxfp4"]
        return replace(KINDS["mxfp8" if max(widths) == 8 else "mxfp6"], bits=sum(widths) / 2)
    if types.scale or not {types.a, types.b} <= set(_OF_ELEMENTS):
        scaled = f" with scales of {types.scale}" if types.scale else ""
        legal = ", ".join(_OF_ELEMENTS)
        raise WeftError(f"types must be of a kind with a model, {legal}, got {types.a} and {types.b}{scaled}")
    kind = KINDS[_OF_ELEMENTS[types.a]]
    return replace(kind, bits=(BITS[types.a] + BITS[types.b]) / 2)


@dataclass(frozen=True)
class Kernel:
    """A kernel whose CTAs, or pairs of them, compute one tile after the other.

    `tile`: rows and columns of D that a CTA, or a pair, computes at a time. `k_block`: elements along K of a
    stage. `parts`: products side by side that compute a tile. `accumulators`: tiles whose sums are kept; with
    two, the epilogue overlaps with the next tile's products; if these share columns, except for the `shared`
    columns that a warpgroup reads first. `epilogues`: warpgroups that finish a tile.
    `early`: the epilogue reads all sums before it stores any. `persistent`: False with a CTA for each tile.
    `resident`: CTAs of a multiprocessor. `warps`: along rows and columns of a tile, with mma.sync. `splits`:
    CTAs, pairs or clusters that compute a K slice of a tile each, and `cluster_splits` the CTAs of a cluster
    that do. `group`: rows of tiles that are computed together. `k_96`: the share of K that instructions with
    a K of 96 multiply. `promoted`: the epilogue adds the sums of each K block.
    """

    tile: tuple[int, int]
    k_block: int
    stages: int
    cta_group: int = 1
    parts: int = 1
    accumulators: int = 1
    shared: int = 0
    epilogues: int = 1
    early: bool = False
    persistent: bool = True
    resident: int = 1
    warps: tuple[int, int] = (0, 0)
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    cluster_splits: int = 1
    group: int = 8
    swap: bool = False
    k_96: float = 0.0
    promoted: bool = False

    @property
    def part(self) -> tuple[int, int]:
        """M and N of one instruction of tcgen05."""
        return self.tile[0] // self.parts, self.tile[1]

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cta_group * self.cluster_splits * self.cluster[0] * self.cluster[1]

    @property
    def slices(self) -> int:
        """K slices of a tile."""
        return self.splits * self.cluster_splits

    def swapped(self, m: int, n: int) -> tuple[int, int]:
        """What the rows and the columns of tiles cover."""
        return (n, m) if self.swap else (m, n)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles down and across that cover a product, in whole clusters."""
        down, across = self.swapped(m, n)
        height, width = self.tile[0] * self.cluster[0], self.tile[1] * self.cluster[1]
        return -(-down // height) * self.cluster[0], -(-across // width) * self.cluster[1]


@dataclass(frozen=True)
class Work:
    """`members` products of M x N x K of elements of a kind. `output_bytes` are those of an element of D."""

    m: int
    n: int
    k: int
    kind: Kind
    output_bytes: int = 2
    members: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.members
