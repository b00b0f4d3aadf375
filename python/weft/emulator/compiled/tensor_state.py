"""What accesses to tensor memory share with their code, as numbers of 8 bytes."""

from weft.emulator.records import Record


class Call(Record):
    """Some accesses that take place at once."""

    ACCESSES = "i8"
    COUNT = ""
    LINE = ""
    KNOWN = "i4"
    """What each warp knows, `[warps, WIDTH]`."""
    PASSED = "i4"
    """What each warp knows of by fences, if the kernel has `FENCES`."""
    WIDTH = ""
    FENCES = ""
    TIMES = "i8"
    ORDERS = "u1"
    """By the numbers of a later and of an earlier use: whether they take place in order, `[USES, USES]`."""
    USES = ""


class Part(Record):
    """The shadow of a CTA's tensor memory."""

    GRANULE = ""
    ALLOCATED = "i4"
    ENDING = "i4"
    FILLED = "u1"
    WRITES = "i4"
    READS = "i4"
    OPERATIONS = "i4"
    USED = "i8"


class Access(Record):
    """One access: to the cells of a rectangle, by a column of the clocks for a warp."""

    SHADOW = "i8"
    """`Part` of its CTA."""
    STORES = ""
    LANE = ""
    LANES = ""
    COLUMN = ""
    COLUMNS = ""
    UNIT = ""
    ROW = ""
    USE = ""
