"""The sizes and limits of mbarriers in shared memory (PTX ISA, "mbarrier", "mbarrier.init",
"mbarrier.expect_tx").
"""

from weft.isa.chips import since

BYTES = 8
MOST_ARRIVALS = (1 << 20) - 1
"""Arrivals that a phase can wait for."""
MOST_TRANSACTION_BYTES = (1 << 20) - 1
"""Bytes that a phase can wait for."""
TRY_WAIT = since("sm_90")
"""The chips on which the hardware sleeps in a wait (`mbarrier.try_wait`). Others only test (`test_wait`)."""
