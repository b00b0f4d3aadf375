"""What accesses to memory share with their code, as numbers of 8 bytes: the sanitizer's shadows, and for
asynchronous units copies of boxes and reads of operands.
"""

from weft.emulator.records import Record
from weft.isa.tensor_map import GATHERED_ROWS, MAX_RANK

MOST_OWNERS = 16


class Call(Record):
    """One copy."""

    COORDINATES = "", MAX_RANK
    ROWS = "", GATHERED_ROWS
    """The coordinates of the rows of a gather or scatter."""
    LINE = ""
    COUNT = ""
    """The CTAs whose shared memory it accesses."""
    KNOWN = FENCED = SEEN = "i4"
    """What the warp knows: all of it, and what the asynchronous unit sees in shared and in global memory."""
    RANKS = SHOWN = "i4"
    """What the warp knows of the warps of its cluster, and what of that the asynchronous unit sees."""
    OWNER = TIME = ""
    """Of the access to global memory."""
    AWAITED = ""
    """Whether the read of global memory is recorded."""
    SLOT = ""
    """The unit that reads shared memory."""
    TOTAL = ""
    """The bytes that arrive at each mbarrier."""
    INSIDE = ""
    """The result: the number of bytes inside the tensor."""
    LEFT = ""
    """The result: the mbarriers, by bits, whose bytes are left to the interpreter to count."""
    CTAS = "", 0
    """What follows: `Cta` of each."""


class Cta(Record):
    """A CTA's shared memory by offsets in the wave's, the access's time, and the mbarrier's offset."""

    BEGIN = END = COLUMN = TIME = MARK = ""


class Part(Record):
    """A wave: its shared memory, and the sanitizer's shadow of it."""

    SHARED = "u1"
    NUMBER = WARPS = ""
    SHIFT = GRANULES = ""
    """The size of a granule, as a shift, and their number."""
    WRITER = "i8"
    WRITTEN = WRITE_LINE = READ_LINE = READS = "i4"
    READERS = ""
    UNIT = "i8"
    TAKEN = READ_BY = "i4"
    PROXIES = "u1"


class Buffer(Record):
    """A buffer in global memory, and the sanitizer's shadow of it. `BLOCKED`: the interpreter must make the
    accesses of threads. `STAMPS` has numbers of their stores.
    """

    BASE = SIZE = WRITABLE = BLOCKED = ""
    DATA = "u1"
    CHECKED = ""
    FILLED = "u1"
    IS_WRITTEN = ""
    STAMPS = "u4"
    SHIFT = GRANULES = ""
    OWNER = "i8"
    TIME = LINE = "i4"
    LEVEL = "u1"


class Reads(Record):
    """Reads of operands: the lists of chunks, the last byte at which one may begin, and the clocks."""

    LISTS = "i8"
    COUNT = LINE = END = ""
    KNOWN = FENCED = "i4"
    WIDTH = ""


class Listed(Record):
    """A list of chunks that a unit reads. `USED`: the first bytes of each chunk that it reads."""

    FIRST = "i8"
    COUNT = BEGIN = COLUMN = TIME = SLOT = ROW = USED = ""
