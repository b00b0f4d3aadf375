"""The tiles of products with weights of 4 bits, by their sizes."""

from typing import Any

from weft.int4.kernels.layout import DEPTH, ROWS

_SHARED_BYTES = 227 * 1024
_MOST_STAGES = 8
_MOST_SPLITS = 4
FEW_ROWS = 64
"""Up to so many rows of x, the kernel is that of few rows."""


def of_few_rows(m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int) -> dict[str, Any]:
    """The meta-parameters of the kernel for few rows: m of x, n rows and k columns of weights."""
    height = next(each for each in (8, 16, 32, 64) if each >= m)
    blocks, parts = (2, 2) if _divide(4 * DEPTH, group) else (1, 1)
    span, tiles, splits = DEPTH * blocks * parts, -(-n // ROWS), 1
    while splits < _MOST_SPLITS and 2 * splits * tiles <= multiprocessors and 4 * splits * span <= k:
        splits *= 2
    groups = max(span // group, 1) if group else 1
    stage = 2 * height * span + ROWS * span // 2 + 2 * ROWS * groups * (1 + asymmetric)
    stages = _stages(stage, 4 * parts * ROWS * height)
    return {"BM": height, "blocks": blocks, "parts": parts, "splits": splits, "stages": stages}


def _divide(span: int, group: int) -> bool:
    """Whether a stage has whole groups, or is within one."""
    return group == 0 or group % span == 0 or span % group == 0


def of_many_rows(m: int, n: int, group: int, asymmetric: bool, multiprocessors: int) -> dict[str, Any]:
    """The meta-parameters of the kernel for many rows: the tiles with which the last ones end first."""

    def time(height: int) -> float:
        waves = -(-(-(-m // height) * -(-n // ROWS)) // multiprocessors)
        return waves * (height + 16)  # a tile of half the height takes more than half of the time

    height = min((256, 128), key=time)
    groups = max(DEPTH // group, 1) if group else 1
    stage = 2 * height * DEPTH + ROWS * DEPTH // 2 + 2 * ROWS * groups * (1 + asymmetric)
    return {"BM": height, "stages": _stages(stage, 2 * ROWS * height)}


def _stages(stage: int, rest: int) -> int:
    """As many stages as fit into shared memory."""
    return min((_SHARED_BYTES - rest - 2048) // (stage + 16), _MOST_STAGES)
