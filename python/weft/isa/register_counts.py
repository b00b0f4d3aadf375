"""Which chips can change the registers of a warpgroup while a kernel runs (PTX ISA, "Miscellaneous
Instructions: setmaxnreg").
"""

from weft.isa.chips import CHIPS

SETMAXNREG = frozenset(chip.name for chip in CHIPS.values() if chip.number >= 90 and chip.variant)
"""The chips that have `setmaxnreg`: all since sm_90 by their names with a letter."""
