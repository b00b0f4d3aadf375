"""All `tcgen05` tables: Blackwell's tensor cores and their tensor memory, instruction by instruction."""

from weft.isa.tcgen05 import control as tcgen05_control
from weft.isa.tcgen05 import copy as tcgen05_copy
from weft.isa.tcgen05 import mma_rows as tcgen05_mma

FAMILIES = (*tcgen05_control.FAMILIES, *tcgen05_copy.FAMILIES, *tcgen05_mma.FAMILIES)
UNPUBLISHED = (*tcgen05_control.UNPUBLISHED, *tcgen05_mma.UNPUBLISHED)
