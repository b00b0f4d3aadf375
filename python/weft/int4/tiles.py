"""The tiles of products with weights of 4 bits, by their sizes."""

from typing import Any

from weft.int4.kernel import DEPTH, ROWS

_HEIGHTS = (8, 16, 32, 64, 128, 256)
_SHARED_BYTES = 227 * 1024
_MOST_STAGES, _LEAST_STAGES = 12, 3
_MOST_SPLITS = 8
_FEW_ROWS = 64


def chosen(m: int, n: int, k: int, group: int, asymmetric: bool, multiprocessors: int) -> dict[str, Any]:
    """The meta-parameters of the kernel for m rows of x, n rows and k columns of weights."""
    height = _height(m, n, multiprocessors)
    few = height <= _FEW_ROWS
    parts = 2 if few and k > DEPTH and _divide(2 * DEPTH, group) else 1
    found = -(-m // height) * -(-n // ROWS)
    splits = 1
    while few and 2 * splits * found <= multiprocessors and 8 * splits * parts * DEPTH <= k:
        splits *= 2
    splits = min(splits, _MOST_SPLITS)
    return {
        "BM": height,
        "parts": parts,
        "splits": splits,
        "stages": _stages(height, parts, splits, group, asymmetric),
    }


def _height(m: int, n: int, multiprocessors: int) -> int:
    """The rows of a tile: all of x up to 128, otherwise those with which the last tiles end first."""
    if m <= _HEIGHTS[-2]:
        return next(each for each in _HEIGHTS if each >= m)

    def time(height: int) -> float:
        waves = -(-(-(-m // height) * -(-n // ROWS)) // multiprocessors)
        return waves * (height + 16)  # a tile of half the height takes more than half of the time

    return min(_HEIGHTS[:-3:-1], key=time)


def _divide(depth: int, group: int) -> bool:
    """Whether a stage has whole groups, at most 2, or is within one."""
    return group == 0 or group % depth == 0 or (depth % group == 0 and depth // group <= 2)


def _stages(height: int, parts: int, splits: int, group: int, asymmetric: bool) -> int:
    """As many stages as fit into shared memory."""
    depth = parts * DEPTH
    groups = max(depth // group, 1) if group else 1
    stage = 2 * height * depth + ROWS * depth // 2 + 2 * ROWS * groups * (1 + asymmetric)
    rest = 4 * parts * ROWS * height if parts * splits > 1 else 2 * ROWS * height
    return min((_SHARED_BYTES - rest - 2048) // (stage + 16), _MOST_STAGES)
