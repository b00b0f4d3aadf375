"""The shapes that `weft bench` measures: named suites, and shapes as they are written."""

import math
import re
from random import Random
from typing import NamedTuple

from weft.errors import WeftError
from weft.isa.launch_limits import MOST_SIZE
from weft.isa.suggest import did_you_mean


class Shape(NamedTuple):
    """The sizes of a Problem, which describes what `groups`, `most`, `shift` and `gap` are."""

    m: int
    n: int
    k: int
    groups: int | None = None
    most: int | None = None
    shift: int = 0
    gap: int = 0


_SIZE = "([0-9]{1,10})"
_WRITTEN = re.compile(
    f"(?:{_SIZE}@)?{_SIZE}(?:/{_SIZE})?x{_SIZE}x{_SIZE}(?:\\+([0-9]{{1,2}}))?(?:~([0-9]{{1,2}}))?"
)
_MOST_GROUPS = 4096

SUITES: dict[str, tuple[Shape, ...]] = {
    "square": tuple(Shape(size, size, size) for size in (512, 1024, 2048, 4096, 8192, 16384)),
    "llm": (
        *(Shape(8192, 28672, 8192), Shape(4096, 14336, 4096), Shape(8192, 8192, 1024)),
        *(Shape(4096, 4096, 512), Shape(512, 512, 32768), Shape(2048, 7168, 2048)),
        *(
            Shape(rows, n, k)
            for n, k in ((8192, 8192), (7168, 16384), (4096, 14336))
            for rows in (1, 16, 64, 128, 256)
        ),
    ),
    "deepgemm": tuple(
        Shape(rows, n, k)
        for n, k in ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
        for rows in (64, 128, 4096, 8192)
    ),
    # Rows, or matrices, that begin at no multiple of 16 bytes in 16-bit types.
    "odd": (
        *(
            Shape(m, n, k)
            for m, n, k in (
                *((1000, 999, 1001), (3001, 3003, 3005), (4096, 4097, 4096), (4096, 4096, 4100)),
                *((100, 50257, 768), (777, 7777, 555)),
                *((33, 4097, 4095), (65, 2049, 8191), (129, 5121, 3585), (257, 1537, 7169)),
                *((513, 11009, 4097), (1023, 1023, 1023), (2047, 2049, 2051), (2049, 50257, 769)),
                *((8191, 1025, 511), (4095, 4095, 4095), (6143, 3071, 1535), (16, 50257, 1600)),
                *((255, 32001, 4097), (1537, 5121, 2049), (5001, 777, 3333)),
                *((1024, 1024, 1027), (2048, 4098, 2048), (4096, 4096, 4094), (512, 8190, 4096)),
                (3000, 4096, 2050),
            )
        ),
        *(
            Shape(m, n, k, shift=shift)
            for m, n, k, shift in (
                *((1024, 1024, 1024, 1), (4096, 4096, 4096, 1), (512, 7168, 4096, 4)),
                *((2048, 2048, 8192, 2), (128, 8192, 8192, 1)),
            )
        ),
        *(
            Shape(m, n, k, gap=gap)
            for m, n, k, gap in (
                *((1024, 1024, 1024, 1), (4096, 4096, 4096, 3), (256, 7168, 4096, 2)),
                *((2048, 8192, 1024, 1), (1000, 1000, 1000, 5)),
            )
        ),
    ),
    # tests/generators.py of DeepGEMM at its commit 48c741af.
    "deepgemm-grouped": tuple(
        Shape(rows, n, k, groups, most)
        for groups, rows, most in (
            *((4, 8192, None), (8, 4096, None)),
            *((1, 1024, 4096), (2, 512, 4096), (4, 256, 4096)),
        )
        for n, k in ((4096, 7168), (7168, 2048))
    ),
}


RANDOM = "random"
"""The suite that a seed draws."""
_RANDOM_ROWS, _RANDOM_SIDES = (1, 16384), (256, 32768)


def suites(grouped: bool = True) -> list[str]:
    """The names of all suites, or of those without groups."""
    fixed = [name for name, rows in SUITES.items() if grouped or all(row.groups is None for row in rows)]
    return [*fixed, RANDOM]


def random_shapes(
    seed: int, count: int, multiple: int = 8, of_rows: int = 1, of_depth: int | None = None
) -> tuple[Shape, ...]:
    """`count` products with sizes whose logarithms are uniform: M in 1..16384, N and K in 256..32768. N and K
    are rounded to multiples of `multiple`, K to one of `of_depth` if given, M to one of `of_rows`.
    """
    source, of_depth = Random(seed), of_depth or multiple

    def drawn(least: int, most: int, unit: int) -> int:
        size = math.exp(source.uniform(math.log(least), math.log(most)))
        return max(round(size / unit), 1) * unit

    return tuple(
        Shape(drawn(*_RANDOM_ROWS, of_rows), drawn(*_RANDOM_SIDES, multiple), drawn(*_RANDOM_SIDES, of_depth))
        for _ in range(count)
    )


def shapes(text: str, grouped: bool = True) -> tuple[Shape, ...]:
    """The shapes of a suite's name, or that of `MxNxK`, `G@MxNxK` (G groups of about M rows in one A) or
    `G@M/MOSTxNxK` (with room for MOST rows in each of G). Without groups, `+SHIFT` and `~GAP` may follow:
    elements before each matrix, and between its rows. Raises WeftError for any other text; the message
    mentions groups if they are `grouped`.
    """
    if text in SUITES:
        return SUITES[text]
    match = _WRITTEN.fullmatch(text.lower())
    parts = match.groups() if match else [None] * 7
    groups, m, most, n, k, shift, gap = (None if part is None else int(part) for part in parts)
    sizes = [size for size in (m, n, k, most) if size is not None]
    other = groups is None and most is not None and not grouped
    if m is None or n is None or k is None or other or not all(0 < size <= MOST_SIZE for size in sizes):
        of_groups = " 4@8192x4096x7168 for 4 groups of about 8192 rows,"
        of_groups += " 4@256/4096x4096x7168 for as many with room for 4096 rows each,"
        raise WeftError(
            "shape must be MxNxK, three sizes in 1..2**31 - 1 (such as 4096x4096x4096),"
            f"{of_groups if grouped else ''} or one of {', '.join(suites(grouped))}, "
            f"got '{text}'{did_you_mean(text, suites(grouped))}"
        )
    if groups is None and most is not None:
        raise WeftError(f"shape '{text}': groups must precede rows with room, such as 4@{text}")
    if groups is not None and not 0 < groups <= _MOST_GROUPS:
        raise WeftError(f"shape '{text}': groups must be in 1..{_MOST_GROUPS}, got {groups}")
    if most is not None and m > most:
        raise WeftError(f"shape '{text}': the room of a group must be at least its rows, {m}, got {most}")
    if groups is not None and (shift or gap):
        raise WeftError(
            f"shape '{text}': +{shift or 0}~{gap or 0} must be without groups, got {groups} of them"
        )
    return (Shape(m, n, k, groups, most, shift or 0, gap or 0),)
