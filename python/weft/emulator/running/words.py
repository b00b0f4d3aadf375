"""Numbers of lanes, warps and lines in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """The first and the last number of each run of ascending numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with runs of them as first and last: 0-3,7."""
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs(numbers))


def lanes_in_words(lanes: Any) -> str:
    """The lanes that are True: 'lane 3', 'lanes 0-31'."""
    numbers = np.flatnonzero(lanes).tolist()
    return f"lane{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"
