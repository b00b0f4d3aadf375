"""All `tcgen05` tables: Blackwell's tensor cores and their tensor memory, instruction by instruction."""

from weft.isa import tcgen05_control, tcgen05_copy, tcgen05_mma

FAMILIES = (*tcgen05_control.FAMILIES, *tcgen05_copy.FAMILIES, *tcgen05_mma.FAMILIES)
NEAR = tcgen05_control.NEAR | tcgen05_copy.NEAR | tcgen05_mma.NEAR
UNPUBLISHED = (*tcgen05_control.UNPUBLISHED, *tcgen05_mma.UNPUBLISHED)
