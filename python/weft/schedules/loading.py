"""Products of few rows whose A or B has rows that TMA can't copy: a kernel that loads them itself takes less
time than copies to padded rows and a kernel that copies these by TMA. On an H200, 1 x 28671 x 4097 in bf16
takes 65 us from registers, 102 with loaders, 179 with copies; 33 x 4097 x 4095 19, 24 and 29; 128 rows that
begin at odd elements x 8192 x 8192 77 with loaders, 105 with copies. With loaders of B alone on an H100,
65 x 2049 x 8191 takes 27 us, 129 x 5121 x 3585 32, 256 x 7168 x 4096 with rows of 4098 elements 52; with
copies 37, 45 and 72.
"""

from dataclasses import replace

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import AnySchedule, DirectSchedule, WarpgroupSchedule
from weft.dialects.tile_limits import MOST_PARTIES
from weft.schedules import direct, wgmma
from weft.schedules.h200 import FITTED_GPUS, FittedGpu
from weft.target import Target

_LOADERS = 2  # One is slower; three leave too few registers for large tiles.
_ROWS_OF_B = 128  # of a tile
_DEPTH = 128
_DEPTH_OF_PANELS = 64  # where B is MN-major
_MOST_ROWS = 64
_ROWS_FROM_LARGE = 32  # the most that are multiplied from registers where B is large
_MORE_ROWS = 128  # the most where the L2 cache doesn't hold B, whose copies take longest
_LARGE = 60 << 20  # bytes of such a B
_COLUMNS_OF_MORE = 192  # of D, in a tile of so many rows
_MOST_STAGES = 8
_FEW_COLUMNS = 32  # up to which two warpgroups share the rows of B
_ROWS_OF_B_ALONE = 256  # of A, the most in one tile
_TILE_OF_B_ALONE = 64  # rows of B
# Depth, loaders, and at least so many stages: the best that fits comes first.
_KINDS = ((128, 2, 4), (64, 3, 6), (128, 1, 3), (64, 2, 4), (64, 1, 2))
_UNIT, _NARROW = 64, 144  # columns of B of a measured time, and the most rows of A that are few
_CLEARLY_LESS = 0.85


def schedule(
    m: int, n: int, k: int, types: Types, chip: str, members: int = 1
) -> DirectSchedule | WarpgroupSchedule | None:
    """The schedule for `members` products of few rows; None if there are more rows, or if it isn't legal."""
    large = n * k * types.input_bits >= 8 * _LARGE
    if m <= (_ROWS_FROM_LARGE if large else direct.MOST_ROWS):
        s = direct.schedule(m, n, types, chip, members, aligned=False)
        if s is not None:
            return s
    gpu = FITTED_GPUS.get(chip)
    if members > 1 or gpu is None or types.input_bits != 16:
        return None
    return _of_b_alone(m, n, k, types, gpu) or _with_loaders(m, n, k, types, gpu, large)


def _of_b_alone(m: int, n: int, k: int, types: Types, gpu: FittedGpu) -> WarpgroupSchedule | None:
    """With loaders of B alone, which all rows of A share; None for many rows, or where it isn't predicted to
    take clearly less time than copies to padded rows.
    """
    if any(types.transposed) or m > _ROWS_OF_B_ALONE:
        return None
    columns = 8 * ceil_div(m, 8)
    tiles, blocks = ceil_div(n, _TILE_OF_B_ALONE), ceil_div(k, _UNIT)
    slices = max(min(gpu.multiprocessors // tiles, blocks // 8, MOST_PARTIES), 1)
    for depth, loaders, fewest in _KINDS:
        block = _TILE_OF_B_ALONE, columns, depth
        s = WarpgroupSchedule(block, 1, 2, swap=True, loaders=loaders, copies_a=True, global_splits=slices)
        s = _with_stages(s, types, gpu)
        if s.stages >= fewest and s.complaint(types, Target.of(gpu.chip)) is None:
            break
    else:
        return None
    if m <= _MOST_ROWS:
        return s
    waves = ceil_div(tiles * slices, gpu.multiprocessors)
    unit = gpu.loaded_us if columns <= _NARROW else gpu.loaded_wide_us
    loaded = waves * ceil_div(blocks, slices) * unit + gpu.loaded_start_us
    loaded += gpu.loaded_slices_us * (slices > 1)
    copied = 2 * (m + n) * k * types.input_bytes / gpu.padded_copy
    copied += wgmma.microseconds(m, n, k, types, gpu)
    return s if loaded < _CLEARLY_LESS * copied else None


def skewed(chosen: AnySchedule, types: Types, chip: str) -> AnySchedule | None:
    """The chosen schedule for A and B that begin at the same distance from a multiple of 16 bytes, and have
    rows at multiples of 16 bytes from each other; None where it isn't legal.
    """
    if chosen.family != WarpgroupSchedule.family:
        return None
    s = replace(chosen, skewed=True)
    return s if s.complaint(types, Target.of(chip)) is None else None


def _with_loaders(
    m: int, n: int, k: int, types: Types, gpu: FittedGpu, large: bool
) -> WarpgroupSchedule | None:
    """With one CTA for each multiprocessor if there are no more tiles."""
    if m > (_MORE_ROWS if large else _MOST_ROWS):
        return None
    if m > _MOST_ROWS:
        s = WarpgroupSchedule((_MORE_ROWS, _COLUMNS_OF_MORE, _DEPTH_OF_PANELS), 2, 2, loaders=_LOADERS)
        tiles = ceil_div(n, _COLUMNS_OF_MORE)
    else:
        columns = 8 * ceil_div(m, 8)
        depth = _DEPTH_OF_PANELS if types.transposed[1] else _DEPTH
        warpgroups = 2 if columns <= _FEW_COLUMNS else 1
        s = WarpgroupSchedule((_ROWS_OF_B, columns, depth), warpgroups, 2, swap=True, loaders=_LOADERS)
        tiles = ceil_div(n, _ROWS_OF_B)
    slices = min(gpu.multiprocessors // tiles, ceil_div(k, 2 * s.block[2]))
    s = replace(s, global_splits=max(slices, 1))
    s = _with_stages(s, types, gpu)
    return s if s.complaint(types, Target.of(gpu.chip)) is None else None


def _with_stages(s: WarpgroupSchedule, types: Types, gpu: FittedGpu) -> WarpgroupSchedule:
    """With as many stages as fit: at least two for each warpgroup that loads, or one such warpgroup."""
    most = min(s.most_stages(types, gpu.facts.shared_bytes), _MOST_STAGES)
    loaders = s.loaders if most >= 2 * s.loaders else 1
    return replace(s, loaders=loaders, stages=max(most // loaders * loaders, 2))
