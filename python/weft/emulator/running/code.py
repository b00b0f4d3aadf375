"""Code of the host for a program, as the machine uses it. See `compiled`."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.running.groups import Group, Key
from weft.emulator.running.wave import Wave

Turn = tuple[int, bool, int, int, int]
"""When code stops for other groups: the clock at which it does, whether other groups are ready, the clock
until which they wait, the clock at which one of them takes its turn, and the lowest rank of their blocks.
"""


class Code(Protocol):
    """Code for one wave. `marks` has the number of groups that are ready at each block."""

    marks: npt.NDArray[np.uint8]
    place: int
    """After `enter`: the step at which the interpreter goes on; negative: the group has just reached its
    block.
    """

    def enter(self, group: Group, step: int, instructions: int, turn: Turn) -> int:
        """Runs code from a step of the group's block, if there is any, until the interpreter must go on, and
        returns the number of instructions so far.
        """

    def tell(self, told: Callable[[int, npt.NDArray[np.intp], int], None]) -> None:
        """Calls `told` with each block that code has run, the warps, and the clock after it."""

    def take_counts(self, runs: list[int]) -> None:
        """Adds to `runs` how often code has run each block, and to the wave's bytes those that it moved."""


class Compiler(Protocol):
    """Compiles a program once the interpreter has run it for a while."""

    @property
    def ready(self) -> bool:
        """Whether new machines begin with code."""

    def fits(self, wave: Wave) -> bool:
        """Whether code can run a wave: nobody watches each instruction, and turns aren't random."""

    def interpreted(self, block: int, steps: int) -> bool:
        """Counts steps of a block that the interpreter has run; returns whether to compile."""

    def code(self, wave: Wave, limit: int) -> Code:
        """Code for a wave; `limit` is in warp instructions."""


class Ready(dict[Key, Group]):
    """Ready groups; `marks` has their number at each block."""

    def __init__(self, marks: npt.NDArray[np.uint8], groups: dict[Key, Group]) -> None:
        super().__init__()
        self._marks = marks
        for key, group in groups.items():
            self[key] = group

    def __setitem__(self, key: Key, group: Group) -> None:
        self._marks[key[0]] += key not in self
        super().__setitem__(key, group)

    def pop(self, key: Key, *default: Any) -> Any:
        self._marks[key[0]] -= key in self
        return super().pop(key, *default)
