"""What is known of a function of the program after it is decoded."""

from collections.abc import Mapping

from weft.emulator.memory.access import LEVELS
from weft.emulator.reading.syntax import Function
from weft.emulator.reading.types import PRED, U64
from weft.emulator.running.slots import Slots

MAX_FRAME = 512 * 1024
"""The most bytes of local memory of a thread."""


class FunctionCode:
    """A function: its registers, its blocks, and the functions that it may call. `scopes` are the levels of
    scopes by their names.
    """

    def __init__(self, function: Function, slots: Slots, scopes: Mapping[str, int] = LEVELS) -> None:
        self.function, self.scopes = function, scopes
        self.slots = slots
        self.base = len(slots.bits)
        """The slot of its first register; `frame` holds the address of its local frame, `carry` the carry."""
        for register in function.scope.registers:
            slots.new(register.type)
        self.frame = slots.new(U64)
        self.carry = slots.new(PRED)
        self.blocks: dict[int, int] = {}
        """The block that begins at a position of the body."""
        self.callees: dict[str, FunctionCode] = {}
        self.pointed: list[FunctionCode] = []
        """The functions whose addresses the program takes."""
        self.entry_block = -1
        self.levels: set[int] = set()
        """The scopes of its accesses and fences that order other accesses."""
        self.fences_inits = False
        """Whether it has a fence.mbarrier_init."""
        self.frame_size = 0
        self.recursive = False
