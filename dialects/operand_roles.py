"""The roles of the operands of `tile.matmul` after D: their types and sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects.element_types import FP8_TYPES, INPUT_TYPES, PTX_SCALES
from weft.dialects.product_types import PROMOTED
from weft.isa import block_scales
from weft.isa.block_scales import WORD_BLOCKS

ADDED_TYPES = ("f32", "f16", "bf16", "i32", "f64")
OUTPUT_TYPES = (*ADDED_TYPES, *FP8_TYPES)


@dataclass(frozen=True)
class Role:
    """The legal types of an operand: its element types, and the name of each dimension's size (a size of the
    product, the number of blocks of 128 in one, the bytes of a row of tiles of scales, or the number of
    products). Matrices may come in batches.
    """

    elements: Sequence[str]
    sizes: Sequence[str]

    @property
    def is_added(self) -> bool:
        """Whether it is added to the product, and so has its element types."""
        return set(ADDED_TYPES) <= set(self.elements)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The legal ranks."""
        return (1,) if len(self.sizes) == 1 else (2, 3)


TEAM_ROLES = {
    "gathered": Role(INPUT_TYPES, "MK"),  # the matrices of A of other GPUs
    "gathered_scales": Role(("f32",), ("K/128", "M")),  # their scales
    "arrivals": Role(("i32",), ("groups", "chunks")),  # flags of what has come of them
    "partials": Role(("f32", "f16", "bf16"), ("parts",)),  # sums that other GPUs send
    "signals": Role(("i32",), ("parts",)),  # flags of those that have come
    "peers": Role(("i64",), ("team", "parts")),  # the addresses of all GPUs' sums and flags
    "bands": Role(("i32",), ("team", "parts")),  # counters of the parts that are done in bands of tiles
    "team": Role(("i32",), ("team",)),  # this GPU's rank, the flags' value, and the limit of waits
}
"""Those of the operands of `tile.team`."""
ROLES = {
    "c": Role(OUTPUT_TYPES, "MN"),  # scaled by beta and added
    "alpha": Role(("f32",), ("products",)),  # scales each product, or with one element all of them
    "scale_a": Role(("f32",), ("K/128", "M")),  # scales each row of A, for each block of K
    "scale_b": Role(("f32",), ("N/128", "K/128")),  # scales each block of B
    "groups": Role(("i32",), ("groups",)),  # selects the B of each row of A, or limits the rows of products
    "row_ends": Role(("i32",), ("products",)),  # where the rows of A of each B end
    "k_ends": Role(("i32",), ("products",)),  # where the part of K of each product ends
    "bias": Role(ADDED_TYPES, "N"),  # added to every row
    "residual": Role(ADDED_TYPES, "MN"),  # added to the result of the activation
    "row_factors": Role(("f32",), "M"),  # scale the sums of each row
    "column_factors": Role(("f32",), "N"),  # scale the sums of each column
    **TEAM_ROLES,
}
EPILOGUE, TEAM = "epilogue", "team"
"""The roles of a `tile.epilogue` and a `tile.team`, which are no memrefs."""
GIVEN = (*(role for role in ROLES if role not in TEAM_ROLES), TEAM, EPILOGUE)
"""The operands of `tile.matmul` after D, in order."""
FACTORS = ("row_factors", "column_factors")
"""The roles that scale the sums of each row or column."""
SHORT_FORMS = ("c", "alpha", "bias", "residual", *FACTORS)
"""The operands that are short for an epilogue which loads from them."""
GROUPINGS = ("groups", "row_ends", "k_ends")
"""The roles that make products of different sizes; a product has at most one of them."""
_TILES = {
    scale: f"{block_scales.TILE_BYTES}*K/{block_scales.GROUPS * block_scales.group_of(ptx)}"
    for scale, ptx in PTX_SCALES.items()
}
BLOCK_SCALES = {
    name: {scale: Role((scale,), (f"{extent}/{block_scales.ROWS}", of_k)) for scale, of_k in _TILES.items()}
    for name, extent in (("scale_a", "M"), ("scale_b", "N"))
}
"""Scales of groups of elements along K, in the 128x4 layout (`weft.isa.block_scales`), by role and element.
"""
WORD, SCALE_OF_WORDS = "i32", "f8E8M0FNU"
WORDS = {
    name: {block: Role((WORD,), (f"K/{block_scales.GROUPS * block}", extent)) for block in WORD_BLOCKS}
    for name, extent in (("scale_a", "M"), ("scale_b", "N"))
}
"""Scales that come as words of four, by role and by the elements along K that share one."""
COLUMN_SCALES = Role(("f32",), ("K/128", "N"))
"""The role of `scale_b` of f32 with `scale_columns`: it scales each column of B, for each block of K."""
GATE_RUN = 8
"""Columns of the first kind, and then as many of the second, that follow each other in B."""
GATED_COLUMNS = 32
"""Columns of B of which a tile must have a multiple, so that those of D can be staged."""


def role_of(name: str, element: str, words: int = 0, columns: bool = False) -> Role:
    """The requirements for an operand of this name and type of elements. `words` is how many elements share a
    scale where scales come as words; with `columns` each column of B has scales of its own.
    """
    if columns and name == "scale_b":
        return COLUMN_SCALES
    if element == WORD and name in WORDS:
        return WORDS[name][words]
    return BLOCK_SCALES.get(name, {}).get(element, ROLES[name])


def element_types(name: str) -> list[str]:
    """The element types that an operand with this role may have."""
    words = [WORD] if name in WORDS else []
    return [*ROLES[name].elements, *BLOCK_SCALES.get(name, ()), *words]


def extents(
    m: Any,
    n: Any,
    k: Any,
    groups: Any,
    blocks: Callable[[Any, int], Any],
    products: Any = 1,
    columns_of_b: int = 1,
) -> dict[str, Any]:
    """The sizes by the names in `ROLES` and `BLOCK_SCALES`. `blocks(size, b)` is the number of blocks of `b`
    in a size; it and the sizes may be None, for an unknown size. Blocks of N are those of B, which has
    `columns_of_b` columns for each one of D.
    """
    of_b = n and n * columns_of_b
    of_128 = {f"{name}/128": blocks(size, PROMOTED) for name, size in (("M", m), ("N", of_b), ("K", k))}
    of_words = {f"K/{depth}": blocks(k, depth) for depth in (block_scales.GROUPS * b for b in WORD_BLOCKS)}
    of_tiles: dict[str, Any] = {}
    for scale, name in _TILES.items():
        tiles = blocks(k, block_scales.GROUPS * block_scales.group_of(PTX_SCALES[scale]))
        of_tiles[name] = None if tiles is None else tiles * block_scales.TILE_BYTES
    of_tiles |= dict.fromkeys(("chunks", "parts", "team"))  # any number
    return {"M": m, "N": n, "K": k, "groups": groups, "products": products, **of_128, **of_words, **of_tiles}


def title(role: str) -> str:
    """The name of an operand in messages: C is a letter like A, B and D."""
    return "C" if role == "c" else role
