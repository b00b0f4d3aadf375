"""Code of the host for the bulk unit's copies, as instructions use it. See `compiled`."""

from collections.abc import Sequence
from typing import Protocol

from weft.emulator.memory.boxes import Box

Key = tuple[int, int]
"""A CTA of the wave, and an offset in its shared memory."""


class BoxCopies(Protocol):
    """The copies of one wave, for a thread of warp `row`. Each returns False, and has changed nothing, if the
    interpreter must make it: where a rule may be broken, or the code isn't worth it yet.
    """

    def box(self, address: int, how: tuple[int, str]) -> Box | None:
        """The box of a tensor map among the parameters, at a generic address, for copies of a rank in a mode.
        None if the interpreter must copy.
        """

    def run(self, address: int, size: int) -> Box:
        """Bytes of global memory, a multiple of 16 and at least 16, as a box of one dimension, until the next
        call.
        """

    def load(
        self,
        row: int,
        box: Box,
        where: Sequence[int],
        begin: int,
        marks: Sequence[tuple[int, Key]],
        line: int,
        *,
        awaited: bool,
    ) -> bool:
        """Copies a box at some coordinates into the shared memory of CTAs from byte `begin` on, and signals
        the mbarrier of each. `marks`: the CTAs with their mbarriers. `awaited`: one mbarrier signals all of
        it.
        """

    def store(self, row: int, box: Box, where: Sequence[int], cta: int, begin: int, line: int) -> bool:
        """Copies from the shared memory of a CTA into a box."""
