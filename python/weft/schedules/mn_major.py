"""Which schedule of `mma.sync` multiplies MN-major operands that `wgmma` reads K-major only, and how long it
takes: by times that were measured on an H200.
"""

from dataclasses import dataclass

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import TmaMmaSchedule, WarpgroupSchedule
from weft.schedules.chip_models import CHIP_MODELS, chip_model
from weft.target import Target

_LAUNCH_US = 1.8
"""Microseconds of a product in addition to its tiles."""
_UNIT = 1024
"""Bytes along K of a measured time."""
_MEMORY = 4.0e6
"""Bytes of A and B that are read in a microsecond."""


@dataclass(frozen=True)
class _Tile:
    """A tile with 128 bytes of K in a stage, and the microseconds in which a multiprocessor multiplies 1024
    bytes along K: where A, B or both are MN-major. None where the kernel wasn't measured, or can't read A.
    """

    rows: int
    columns: int
    consumers: tuple[int, int]
    stages: int
    us: tuple[float | None, float | None, float | None]

    def schedule(self, types: Types) -> TmaMmaSchedule:
        """Its schedule for some types."""
        depth = 128 // types.input_bytes
        return TmaMmaSchedule((self.rows, self.columns, depth), self.consumers, self.stages)

    def microseconds(self, m: int, n: int, k: int, types: Types, chip: str, members: int) -> float | None:
        """The time of `members` products."""
        if (us := self.us[_layout(types)]) is None:
            return None
        tiles = ceil_div(m, self.rows) * ceil_div(n, self.columns) * members
        read_us = (m + n) * k * types.input_bytes * members / _MEMORY
        return max(_us(us, tiles, k, types, chip), _LAUNCH_US + read_us)


_LARGE = 128, 128, (2, 4), 5
_HALF = 128, 64, (4, 2), 6
_SMALL = 64, 64, (2, 2), 8
_LOW = 16, 64, (1, 4), 8
_LOW_AND_WIDE = 16, 128, (1, 8), 8
_TILES = {  # with A, B and both MN-major
    "i32": (
        _Tile(*_LARGE, (6.5, 5.4, 7.8)),
        _Tile(*_SMALL, (2.1, 2.15, 2.7)),
        _Tile(*_LOW, (None, 1.25, None)),
        _Tile(*_LOW_AND_WIDE, (None, 2.1, None)),
    ),
    "f32": (
        _Tile(*_LARGE, (6.0, 4.9, 7.1)),
        _Tile(*_SMALL, (1.9, 1.9, 2.45)),
        _Tile(*_LOW, (1.15, 1.15, 1.35)),
        _Tile(*_LOW_AND_WIDE, (1.9, 1.9, 2.4)),
    ),
    "fp8": (
        _Tile(*_HALF, (6.0, 5.7, 6.6)),
        _Tile(*_SMALL, (3.3, 3.3, 3.65)),
        _Tile(*_LOW, (None, 1.6, None)),
        _Tile(*_LOW_AND_WIDE, (None, 2.7, None)),
    ),
}
_OTHERS = {"i32": (5.9, 6.2, 7.0), "f32": (6.0, 6.0, 8.7), "fp8": (13.2, 13.2, 15.0)}
"""The same for kernels of `mma.sync` without TMA, in tiles of 128 x 128."""


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> TmaMmaSchedule | None:
    """The schedule of `mma.sync` with TMA for `members` products; None where another kernel is better."""
    if (kind := _kind(types, chip)) is None:
        return None
    best = min(_timed(m, n, k, types, chip, members), default=None, key=_preference)
    return best[1] if best and best[0] <= _other_us(kind, m, n, k, types, chip, members) else None


def ranked(m: int, n: int, k: int, types: Types, chip: str) -> list[TmaMmaSchedule]:
    """The measured schedules, the fastest first."""
    return [s for _, s in sorted(_timed(m, n, k, types, chip, 1), key=_preference)]


def microseconds(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> float | None:
    """The time of `members` products by `mma.sync`; None where `wgmma` reads the operands."""
    if (kind := _kind(types, chip)) is None:
        return None
    other = _other_us(kind, m, n, k, types, chip, members)
    return min([other, *(us for us, _ in _timed(m, n, k, types, chip, members))])


def _timed(
    m: int, n: int, k: int, types: Types, chip: str, members: int
) -> list[tuple[float, TmaMmaSchedule]]:
    """The measured schedules that are legal for a product, and their times."""
    kind, found = _kind(types, chip), list[tuple[float, TmaMmaSchedule]]()
    if kind is None or types.promoted or types.half_sums:
        return found
    for tile in _TILES[kind]:
        us = tile.microseconds(m, n, k, types, chip, members)
        schedule = tile.schedule(types)
        if us is not None and schedule.complaint(types, Target.of(chip)) is None:
            found.append((us, schedule))
    return found


def _preference(timed: tuple[float, TmaMmaSchedule]) -> tuple[float, int]:
    """The time, then the size of the tile: where memory is the limit, small ones hide more of their work."""
    us, schedule = timed
    return us, schedule.block[0] * schedule.block[1]


def _other_us(kind: str, m: int, n: int, k: int, types: Types, chip: str, members: int) -> float:
    """The time of `members` products by `mma.sync` without TMA."""
    tiles = ceil_div(m, 128) * ceil_div(n, 128) * members
    return _us(_OTHERS[kind][_layout(types)], tiles, k, types, chip)


def _us(us: float, tiles: int, k: int, types: Types, chip: str) -> float:
    """The time of some tiles, of which each takes `us` for 1024 bytes along K."""
    waves = ceil_div(tiles, chip_model(chip).multiprocessors)
    return _LAUNCH_US + waves * us * k * types.input_bytes / _UNIT


def _kind(types: Types, chip: str) -> str | None:
    """The row of the tables for some types; None for those that `wgmma` reads, or doesn't multiply."""
    wanted = chip in CHIP_MODELS and chip in WarpgroupSchedule.chips(types)
    if not wanted or WarpgroupSchedule.layout_complaint(types) is None:
        return None
    return types.sums if types.sums == "i32" else types.a if types.a == "f32" else "fp8"


def _layout(types: Types) -> int:
    """Which of three times is for the operands of some types."""
    mn_major_a, mn_major_b = types.transposed
    return 2 if mn_major_a and mn_major_b else int(mn_major_b)
