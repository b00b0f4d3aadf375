"""The tiles of products with 4-bit weights, by their sizes."""

from dataclasses import dataclass
from typing import Any

from weft.layout.int4_layout import DEPTH, ROWS

_SHARED_BYTES = 227 * 1024
_MOST_STAGES, _LEAST_STAGES = 8, 3
_AHEAD = 2
_STAGES_OF_SMALL_TILES = 4
FEW_ROWS = 32
"""Up to so many rows of x, the kernel is that of few rows."""


# Of an H100: microseconds of a launch, what a cluster and another round of CTAs add, those of a stage by the
# rows of x, and bytes of weights in a microsecond.
_LAUNCH, _CLUSTER, _ROUND, _STAGE, _BANDWIDTH = 2.3, 2.0, 1.5, {8: 0.47, 16: 0.56, 32: 0.95, 64: 1.5}, 2.6e6
_L2_BANDWIDTH = 1e7  # also of x, which each CTA reads
# Of a pair of K blocks of 64, by the rows of a tile of the kernel for many rows.
_PAIR = {256: 1.44, 128: 0.82, 64: 0.5}


def of_few_rows(m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int) -> dict[str, Any]:
    """The meta-parameters of the kernel for few rows: m of x, n rows and k columns of weights."""
    height = next(each for each in (8, 16, 32, 64) if each >= m)
    choices = [
        Few(height, blocks, halves, rows, parts, splits)
        for blocks, halves, rows, parts in (
            *((2, 2, 64, 2), (2, 1, 64, 4), (1, 2, 64, 2), (1, 1, 64, 4), (1, 2, 64, 1)),
            (2, 1, 32, 4),
        )
        for splits in (1, 2)
    ]
    fitting = [
        each
        for each in choices
        if _divide(each.span, group) and each.stages(group, asymmetric) >= _LEAST_STAGES
    ]
    best = min(fitting, key=lambda each: each.time(n, k, multiprocessors))
    # CTAs of the next launch that fit beside these would only delay their weights.
    ahead = 0 if best.fits_twice(group, asymmetric) else _AHEAD
    return vars(best) | {"stages": best.stages(group, asymmetric), "ahead": ahead}


@dataclass(frozen=True)
class Few:
    """How CTAs of the kernel for few rows share the work."""

    BM: int
    blocks: int
    halves: int
    rows: int
    parts: int
    splits: int

    @property
    def span(self) -> int:
        """The columns of a stage."""
        return DEPTH * self.blocks * self.parts

    def time(self, n: int, k: int, multiprocessors: int) -> float:
        """Roughly the microseconds of a product."""
        ctas = -(-n // (self.halves * self.rows)) * self.splits
        stages = -(-k // (self.span * self.splits))
        # Of the work that the time of a stage is for.
        share = self.blocks * self.parts * self.halves * self.rows / ROWS / 8
        computing = -(-ctas // multiprocessors) * stages * _STAGE[self.BM] * (share + 0.15) / 1.15
        from_memory, of_x = n * k / 2, 2 * ctas * self.BM * k / self.splits
        reading = max(from_memory / _BANDWIDTH, (from_memory + of_x) / _L2_BANDWIDTH)
        at_once = multiprocessors * (2 if self.rows < ROWS and self.BM == 8 else 1)  # CTAs, most of the time
        between = _CLUSTER * (self.splits > 1) + _ROUND * (-(-ctas // at_once) - 1)
        return _LAUNCH + between + max(computing, reading)

    def stages(self, group: int, asymmetric: bool) -> int:
        """As many stages as fit into shared memory, and help."""
        stage, rest = self._bytes(group, asymmetric)
        if self.rows < ROWS:
            return min(_stages(stage, rest), _STAGES_OF_SMALL_TILES)
        # CTAs of a cluster leave memory for those of the next launch.
        shared = _stages(stage, rest + _SHARED_BYTES // 2) if self.splits > 1 else 0
        return shared if shared >= _LEAST_STAGES else _stages(stage, rest)

    def fits_twice(self, group: int, asymmetric: bool) -> bool:
        """Whether two CTAs with tiles of 32 rows fit onto a multiprocessor."""
        stage, rest = self._bytes(group, asymmetric)
        whole = stage * self.stages(group, asymmetric) + rest
        return self.rows < ROWS and 2 * (whole + 2048) <= _SHARED_BYTES

    def _bytes(self, group: int, asymmetric: bool) -> tuple[int, int]:
        """Of a stage, and of the rest."""
        groups = max(self.span // group, 1) if group else 1
        scales = 2 * self.halves * ROWS * groups * (1 + asymmetric)
        stage = 2 * self.BM * self.span + self.halves * self.rows * self.span // 2 + scales
        return stage, 4 * self.splits * self.parts * self.BM * self.halves * ROWS


def _divide(span: int, group: int) -> bool:
    """Whether a stage has whole groups, or is within one."""
    return group == 0 or group % span == 0 or span % group == 0


def of_many_rows(
    m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int
) -> dict[str, Any]:
    """The meta-parameters of the kernel for many rows."""

    def time(height: int, splits: int) -> float:
        tiles = -(-m // height) * -(-n // (2 * ROWS))
        rounds = -(-tiles * splits // multiprocessors) * -(-k // (2 * DEPTH * splits))
        return _LAUNCH + 2 * _CLUSTER * (splits > 1) + rounds * _PAIR[height]

    choices = [(height, 1) for height in _PAIR]
    for height in (128, 64):  # clusters of 4 CTAs don't all fit onto the GPU at once
        if 2 * -(-m // height) * -(-n // (2 * ROWS)) <= multiprocessors:
            choices.append((height, 2))
    height, splits = min(choices, key=lambda each: time(*each))
    groups = max(DEPTH // group, 1) if group else 1
    stage = 2 * height * DEPTH + ROWS * DEPTH + 4 * ROWS * groups * (1 + asymmetric)
    rest = 2 * ROWS * height * (2 if splits == 1 else 4)
    return {"BM": height, "splits": splits, "stages": _stages(stage, rest)}


def _stages(stage: int, rest: int) -> int:
    """As many stages as fit into shared memory."""
    return min((_SHARED_BYTES - rest - 2048) // (stage + 16), _MOST_STAGES)
