"""Numbers of lanes, warps and lines in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with runs of them as first and last: 0-3,7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def lanes_in_words(lanes: Any) -> str:
    """The lanes that are True: 'lane 3', 'lanes 0-31'."""
    numbers = np.flatnonzero(lanes).tolist()
    return f"lane{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"
