"""What operations on mbarriers share with their code: one operation, its wave, and the sanitizer's clocks."""

from enum import IntEnum, auto


class Field(IntEnum):
    """Numbers and addresses, 8 bytes each."""

    RESULT = 0
    """The active lanes whose phase is complete."""
    PHASES = auto()
    """The number of phases that an arrival has completed."""
    CHANGES = auto()
    """How often it has changed the state of an mbarrier."""
    MULTICASTS = auto()
    """Whether a commit names CTAs."""
    COUNT = auto()
    """The warps that execute the instruction."""
    ROWS = auto()
    MASKS = auto()
    ADDRESSES = auto()
    WINDOW = auto()
    """The first generic address of shared memory, or 0 for addresses in it."""
    LINE = auto()
    ASKED = auto()
    """The state or parity that a wait names, the number of arrivals of each lane, or the CTAs of a commit."""
    BY_PARITY = auto()
    SIZES = auto()
    """The bytes that each lane expects."""
    GIVEN = auto()
    """The results: whether each lane's phase is complete, or its state before its arrival."""
    SHARED = auto()
    SHARED_SIZE = auto()
    STRIDE = auto()
    CLUSTER = auto()
    BASES = auto()
    """The first byte of the cluster of each warp of the wave."""
    OWN = auto()
    """The first byte of the CTA of each warp."""
    PLACES = auto()
    NUMBERS = auto()
    WORDS = auto()
    """Scratch memory: the number and the address of each warp's mbarrier."""
    LEADERS = auto()
    TOTALS = auto()
    BYTES = auto()
    COMPLETED = auto()
    """Scratch memory: the first warp with the same mbarrier, what all of them add, and whose phases ended."""
    TALLY = auto()
    """Scratch memory: what a commit adds to each mbarrier."""
    INIT_FENCES = auto()
    """Whether units need a fence after the init of an mbarrier of their own CTA."""
    TENSOR_FENCES = auto()
    UNITS = auto()
    UNIT_COLUMNS = auto()
    """The columns of the units whose operations a commit ends, `[units, warps that execute it]`, -1 for
    none, and the number of units.
    """
    WATCHED = auto()
    LAYERS = auto()
    WARPS = auto()
    WIDTH = auto()
    KNOWN = auto()
    TIMES = auto()
    BY_LANE = auto()
    LIVE = auto()
    BEFORE = auto()
    HOLDING = auto()
    KNOWING = auto()
    CLOCK = auto()
    PENDING = auto()
    DONE = auto()
    COLUMNS = auto()
    INIT_ROWS = auto()
    INIT_TIMES = auto()
    FENCED_COLUMNS = auto()
    FENCED_TIMES = auto()
    USE_TIMES = auto()
    USE_LINES = auto()
    USE_ORDERS = auto()
    USES = auto()


NUMBERS = {
    *(Field.RESULT, Field.PHASES, Field.CHANGES, Field.COUNT, Field.WINDOW, Field.LINE, Field.BY_PARITY),
    *(Field.MULTICASTS, Field.INIT_FENCES, Field.TENSOR_FENCES, Field.UNITS),
    *(Field.SHARED_SIZE, Field.STRIDE, Field.CLUSTER, Field.WATCHED, Field.LAYERS, Field.WARPS),
    *(Field.WIDTH, Field.BY_LANE),
}
"""Those that are not addresses."""
