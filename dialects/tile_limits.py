"""Limits and sizes of `tile` operations that schedules need. It doesn't import MLIR."""

from weft.isa import mbarriers

MOST_REGISTERS = 1024  # elements in a lane, far more than a thread's 255 registers can hold
MOST_STAGES = 64  # of a ring
MOST_PARTIES = 16  # of a claim: each has a bit of a counter
COUNTER_STRIDE = 8  # of counters in different sectors of L2: none waits for another
STAGE_BARRIER_BYTES = 2 * mbarriers.BYTES
"""Shared memory of a stage's mbarriers: one for full, one for empty."""
