"""What copies of boxes share with their code: one copy, its wave and its buffer, as numbers of 8 bytes."""

from enum import IntEnum, auto

from weft.isa.tensor_map import GATHERED_ROWS, MAX_RANK

MOST_OWNERS = 16


class Call(IntEnum):
    """One copy."""

    COORDINATES = 0
    ROWS = COORDINATES + MAX_RANK
    """The coordinates of the rows of a gather or scatter."""
    LINE = ROWS + GATHERED_ROWS
    COUNT = auto()
    """The CTAs whose shared memory it accesses."""
    KNOWN = auto()
    FENCED = auto()
    SEEN = auto()
    """What the warp knows: all of it, and what the asynchronous unit sees in shared and in global memory."""
    RANKS = auto()
    SHOWN = auto()
    """What the warp knows of the warps of its cluster, and what of that the asynchronous unit sees."""
    OWNER = auto()
    TIME = auto()
    """Of the access to global memory."""
    AWAITED = auto()
    """Whether the read of global memory is recorded."""
    SLOT = auto()
    """The unit that reads shared memory."""
    TOTAL = auto()
    """The bytes that arrive at each mbarrier."""
    INSIDE = auto()
    """The result: the number of bytes inside the tensor."""
    LEFT = auto()
    """The result: the mbarriers, by bits, whose bytes are left to the interpreter to count."""
    CTAS = auto()
    """What follows: `Cta` of each."""


class Cta(IntEnum):
    """The shared memory of a CTA, by its offset in the wave's, the time of the access there, and the offset
    of the mbarrier that a load signals.
    """

    BEGIN = 0
    END = auto()
    COLUMN = auto()
    TIME = auto()
    MARK = auto()


class Part(IntEnum):
    """A wave: its shared memory, and the sanitizer's shadow of it."""

    SHARED = 0
    SHIFT = auto()
    GRANULES = auto()
    """The size of a granule, as a shift, and their number."""
    WRITER = auto()
    WRITTEN = auto()
    WRITE_LINE = auto()
    READ_LINE = auto()
    READS = auto()
    READERS = auto()
    UNIT = auto()
    TAKEN = auto()
    UNITS = auto()
    READ_BY = auto()
    PROXIES = auto()
    NUMBER = auto()
    WARPS = auto()


class Buffer(IntEnum):
    """A buffer in global memory, and the sanitizer's shadow of it."""

    BASE = 0
    SIZE = auto()
    DATA = auto()
    CHECKED = auto()
    FILLED = auto()
    IS_WRITTEN = auto()
    SHIFT = auto()
    GRANULES = auto()
    OWNER = auto()
    TIME = auto()
    LINE = auto()
    LEVEL = auto()


POINTERS = (
    {Call.KNOWN, Call.FENCED, Call.SEEN, Call.RANKS, Call.SHOWN},
    {Part.SHARED, Part.WRITER, Part.WRITTEN, Part.WRITE_LINE, Part.READ_LINE, Part.READS}
    | {Part.UNIT, Part.TAKEN, Part.READ_BY, Part.PROXIES},
    {Buffer.DATA, Buffer.FILLED, Buffer.OWNER, Buffer.TIME, Buffer.LINE, Buffer.LEVEL},
)
"""The numbers of `Call`, `Part` and `Buffer` that are addresses."""
