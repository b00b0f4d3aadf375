"""The tiles of products with weights of 4 bits, by their sizes."""

from dataclasses import dataclass
from typing import Any

from weft.int4.kernels.layout import DEPTH, ROWS

_SHARED_BYTES = 227 * 1024
_MOST_STAGES, _LEAST_STAGES = 8, 3
_AHEAD = 2
FEW_ROWS = 32
"""Up to so many rows of x, the kernel is that of few rows."""


# Of an H100: microseconds of a launch, what a cluster adds, those of a stage by the rows of x, and bytes of
# weights in a microsecond.
_LAUNCH, _CLUSTER, _STAGE, _BANDWIDTH = 2.3, 1.8, {8: 0.47, 16: 0.56, 32: 0.8, 64: 1.5}, 2.6e6
# Of a pair of K blocks of 64, by the rows of a tile of the kernel for many rows.
_PAIR = {256: 1.44, 128: 0.82, 64: 0.5}


def of_few_rows(m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int) -> dict[str, Any]:
    """The meta-parameters of the kernel for few rows: m of x, n rows and k columns of weights."""
    height = next(each for each in (8, 16, 32, 64) if each >= m)
    choices = [
        Few(height, blocks, halves, parts, splits)
        for blocks, halves, parts in ((2, 2, 2), (2, 1, 4), (1, 2, 2), (1, 1, 4), (1, 2, 1))
        for splits in (1, 2)
    ]
    fitting = [
        each
        for each in choices
        if _divide(each.span, group) and each.stages(group, asymmetric) >= _LEAST_STAGES
    ]
    best = min(fitting, key=lambda each: each.time(n, k, multiprocessors))
    return vars(best) | {"stages": best.stages(group, asymmetric), "ahead": _AHEAD}


@dataclass(frozen=True)
class Few:
    """How CTAs of the kernel for few rows share the work."""

    BM: int
    blocks: int
    halves: int
    parts: int
    splits: int

    @property
    def span(self) -> int:
        """The columns of a stage."""
        return DEPTH * self.blocks * self.parts

    def time(self, n: int, k: int, multiprocessors: int) -> float:
        """Roughly the microseconds of a product."""
        ctas = -(-n // (self.halves * ROWS)) * self.splits
        stages = -(-k // (self.span * self.splits))
        share = self.blocks * self.parts * self.halves / 8  # of the work that the time of a stage is for
        computing = -(-ctas // multiprocessors) * stages * _STAGE[self.BM] * (share + 0.15) / 1.15
        return _LAUNCH + _CLUSTER * (self.splits > 1) + max(computing, n * k / 2 / _BANDWIDTH)

    def stages(self, group: int, asymmetric: bool) -> int:
        """As many stages as fit into shared memory."""
        groups = max(self.span // group, 1) if group else 1
        rows = self.halves * ROWS
        stage = 2 * self.BM * self.span + rows * self.span // 2 + 2 * rows * groups * (1 + asymmetric)
        rest = 4 * self.splits * self.parts * self.BM * rows
        # CTAs of a cluster leave memory for those of the next launch.
        shared = _stages(stage, rest + _SHARED_BYTES // 2) if self.splits > 1 else 0
        return shared if shared >= _LEAST_STAGES else _stages(stage, rest)


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
