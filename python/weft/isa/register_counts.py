"""How many registers a kernel can give to the threads of a warpgroup, and on which chips (PTX ISA,
"Miscellaneous Instructions: setmaxnreg").
"""

from weft.isa.chips import CHIPS

COUNTS = range(24, 256 + 1, 8)
"""Registers of a thread that `setmaxnreg` can set."""
SETMAXNREG = frozenset(chip.name for chip in CHIPS.values() if chip.number >= 90 and chip.variant)
"""The chips that have `setmaxnreg`: all since sm_90 by their names with a letter."""
