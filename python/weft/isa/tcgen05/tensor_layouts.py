"""The layouts of `tcgen05.mma`'s operands in tensor memory (PTX ISA, "Data Path Layout Organization", "Block
Scaling"), in the notation of `weft.layout`.

A layout maps an element to lanes (`TLane`) and to columns (`TCol`). A step on `TCol` is as wide as an
element: it is a column of 32 bits for elements of 32 bits, half a column for elements of 16 bits. Layouts
are those of one CTA: each CTA of a pair has half of the rows.
"""

from weft.isa.block_scales import ROWS as ROWS_OF_SCALES
from weft.isa.block_scales import TILE_BYTES

LANES = 128
ROWS = (64, 128)
"""The rows that each CTA has of an instruction; weight-stationary ones may have 32 as well."""
COLUMNS = 512
COLUMN_BITS = 32
LANE_SHIFT = 16
"""An address is `lane << 16 | column`."""
PART = 32
"""The lanes that one warp can access: those of warp w of a warpgroup begin at 32 * w."""
SHAPE_LANES = 16
"""The lanes from which on an operand with M = 64 may begin as well, because it uses half of each part."""
SCALES_OF_COLUMN = COLUMN_BITS // 8
SCALE_COLUMNS = TILE_BYTES * 8 // (PART * COLUMN_BITS)
"""Columns of a tile of scales, of which each warp's lanes have a copy."""


def rows_of(m: int, cta_group: int = 1, *, weight_stationary: bool = False) -> int:
    """The rows that each CTA has of an instruction with this M. Raises ValueError for an M that no
    instruction has.
    """
    legal = {group: tuple(rows * group for rows in ROWS) for group in (1, 2)}
    if cta_group not in legal:
        raise ValueError(f"cta_group must be 1 or 2, got {cta_group}")
    if weight_stationary and cta_group == 2:
        raise ValueError("cta_group must be 1 for a weight-stationary product, got 2")
    ms = (32, *legal[1]) if weight_stationary else legal[cta_group]
    if m not in ms:
        where = " of a weight-stationary product" if weight_stationary else f" with cta_group {cta_group}"
        raise ValueError(f"m{where} must be one of {', '.join(map(str, ms))}, got {m}")
    return m // cta_group


def banks_of(m: int, cta_group: int = 1, *, sparse: bool = False, weight_stationary: bool = False) -> int:
    """Into how many parts the columns of D are divided, one for each group of lanes. Each has all of A."""
    rows = rows_of(m, cta_group, weight_stationary=weight_stationary)
    return LANES // rows if weight_stationary or (cta_group == 2 and not sparse) else 1


def accumulator(
    m: int,
    n: int,
    cta_group: int = 1,
    element_bits: int = 32,
    *,
    sparse: bool = False,
    weight_stationary: bool = False,
) -> str:
    """D's layout, of shape (M / `cta_group`, N). Each element has a column, so that 16-bit elements use
    every other half. Raises ValueError for an M or N that D can't have.
    """
    banks = banks_of(m, cta_group, sparse=sparse, weight_stationary=weight_stationary)
    rows = _row_digits(m, cta_group, banks)
    step = COLUMN_BITS // element_bits
    if n < 1 or n % banks:
        raise ValueError(f"n must be a positive multiple of {banks}, got {n}")
    bank = [(banks, LANES // banks, "TLane")] if banks > 1 else []
    return _notation([*rows, *bank, (n // banks, step, "TCol")])


def operand_a(
    m: int,
    k: int,
    cta_group: int = 1,
    *,
    spacing: int = 1,
    sparse: bool = False,
    weight_stationary: bool = False,
) -> str:
    """The layout of A in tensor memory, of shape (M / `cta_group`, K), with a copy for each part of D.

    Elements are packed, or `spacing` elements apart: 2 for 4-bit elements that occupy a byte each.
    """
    banks = banks_of(m, cta_group, sparse=sparse, weight_stationary=weight_stationary)
    copies = [(banks, LANES // banks, "TLane")] if banks > 1 else []
    return _notation([*_row_digits(m, cta_group, banks), (k, spacing, "TCol")], copies)


def scales(rows: int, groups: int) -> str:
    """The layout of the 8-bit scales of a block-scaled product, of shape (`rows`, `groups`): those of A's
    rows in one CTA, or of B's columns. Each warp's lanes have a copy.

    Four consecutive groups of a row are in one column. `rows` must be a multiple of 32: pad it to a multiple
    of 128, which `tcgen05.cp` copies at once.
    """
    return _scales(rows, groups, 1)


def scales_of_b(n: int, groups: int, m: int, cta_group: int = 1) -> str:
    """The layout of the scales of B's columns, of shape (N, `groups`), for a product with this M. Where D has
    two parts, each has the scales of its own columns.
    """
    return _scales(n, groups, banks_of(m, cta_group))


def _scales(rows: int, groups: int, banks: int) -> str:
    if rows < 1 or rows % (PART * banks):
        raise ValueError(f"rows must be a positive multiple of {PART * banks}, got {rows}")
    if groups not in (1, 2) and (groups < 1 or groups % SCALES_OF_COLUMN):
        raise ValueError(f"groups must be 1, 2 or a multiple of {SCALES_OF_COLUMN}, got {groups}")
    each = rows // banks
    tiles = -(-each // ROWS_OF_SCALES)
    of_word = min(groups, SCALES_OF_COLUMN)
    bank = [(banks, LANES // banks, "TLane")] if banks > 1 else []
    column = SCALE_COLUMNS * SCALES_OF_COLUMN * tiles
    digits = [
        *bank,
        (each // PART, SCALES_OF_COLUMN, "TCol"),
        (PART, 1, "TLane"),
        (groups // of_word, column, "TCol"),
        (of_word, 1, "TCol"),
    ]
    return _notation(digits, [(LANES // PART // banks, PART, "TLane")])


Digit = tuple[int, int, str]


def _row_digits(m: int, cta_group: int, banks: int) -> list[Digit]:
    """The lanes of the first bank's rows: consecutive ones, or the first half of each warp's lanes."""
    rows = m // cta_group
    if rows < LANES and banks == 1:
        return [(rows // SHAPE_LANES, PART, "TLane"), (SHAPE_LANES, 1, "TLane")]
    return [(rows, 1, "TLane")]


def _notation(digits: list[Digit], replica: list[Digit] | None = None) -> str:
    def of(each: list[Digit]) -> str:
        extents = ",".join(str(extent) for extent, _, _ in each)
        strides = ",".join(f"{stride}@{axis}" for _, stride, axis in each)
        return f"[({extents}):({strides})]"

    kept = [digit for digit in digits if digit[0] > 1] or digits[:1]
    copies = [digit for digit in replica or [] if digit[0] > 1]
    return f"S{of(kept)}" + (f" + R{of(copies)}" if copies else "")
