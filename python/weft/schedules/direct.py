"""Schedules of `mma.sync` from registers for products of few rows: enough CTAs for a chip's multiprocessors,
and warps along K for the rest.
"""

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import DirectSchedule
from weft.dialects.schedule.direct import LINE_BYTES, ROWS
from weft.target import Target

MOST_ROWS = 48
"""With more, the rows of A take longer than those of B."""
_LINES = 2
_ALIGNED = ((16, 8, 200), (16, 16, 60), (8, 16, 0))
"""Columns of a tile, warps along K, and the fewest such tiles, where rows begin at multiples of 16 bytes: the
first with enough. An A100 has 108 multiprocessors, an H200 132.
"""
_UNALIGNED = ((32, 8, 100), (16, 16, 100), (8, 16, 0))
"""The same for other rows. Tiles of more columns read each line of memory at once, although K blocks begin
inside of lines.
"""
_FEWER_WARPS = 264  # tiles of more than 16 rows from which half the warps along K are faster
_WARPS = (8, 4)
_VERY_FEW_ROWS, _FEW_ROWS, _FEW_COLUMNS = 8, 16, 4096


def choose(m: int | None, n: int | None, types: Types, chip: str, members: int = 1) -> DirectSchedule | None:
    """The schedule for `members` products, as far as M and N are known, where it is faster than stages in
    shared memory. On an H200 with code for sm_80, 1 x 4096 x 14336 in bf16 takes 32 us, 43 with these;
    16 x 8192 x 8192 38 and 35.
    """
    if not m or not n or m > (_FEW_ROWS if n <= _FEW_COLUMNS else _VERY_FEW_ROWS):
        return None
    return schedule(m, n, types, chip, members)


def schedule(
    m: int, n: int, types: Types, chip: str, members: int = 1, *, aligned: bool = True
) -> DirectSchedule | None:
    """The schedule for `members` products of few rows; None for more rows, or where it isn't legal.
    `aligned`: rows begin at multiples of 16 bytes.
    """
    if m > MOST_ROWS:
        return None
    rows = ROWS * ceil_div(m, ROWS)
    shapes = [
        (c, warps, ceil_div(n, c) * members, least) for c, warps, least in (_UNALIGNED, _ALIGNED)[aligned]
    ]
    columns, warps, tiles, _ = next(shape for shape in shapes if shape[2] >= shape[3])
    if rows > ROWS:
        warps = _WARPS[tiles >= _FEWER_WARPS]
    s = DirectSchedule((rows, columns, 8 * _LINES * LINE_BYTES // types.input_bits), (1, warps))
    return s if s.complaint(types, Target.of(chip)) is None else None
