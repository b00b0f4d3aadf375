"""What accesses to tensor memory share with their code, as numbers of 8 bytes."""

from enum import IntEnum, auto


class Call(IntEnum):
    """Some accesses that take place at once."""

    ACCESSES = 0
    COUNT = auto()
    LINE = auto()
    KNOWN = auto()
    """What each warp knows, `[warps, WIDTH]`."""
    PASSED = auto()
    """What each warp knows of by fences, if the kernel has `FENCES`."""
    WIDTH = auto()
    FENCES = auto()
    TIMES = auto()
    ORDERS = auto()
    """By the numbers of a later and of an earlier use: whether they take place in order, `[USES, USES]`."""
    USES = auto()


class Access(IntEnum):
    """One access: to the cells of a rectangle, by a column of the clocks for a warp."""

    SHADOW = 0
    STORES = auto()
    LANE = auto()
    LANES = auto()
    COLUMN = auto()
    COLUMNS = auto()
    UNIT = auto()
    ROW = auto()
    USE = auto()


class Part(IntEnum):
    """The shadow of a CTA's tensor memory."""

    GRANULE = 0
    ALLOCATED = auto()
    ENDING = auto()
    FILLED = auto()
    WRITES = auto()
    READS = auto()
    OPERATIONS = auto()
    USED = auto()


POINTERS = (
    {Call.ACCESSES, Call.KNOWN, Call.PASSED, Call.TIMES, Call.ORDERS},
    {Access.SHADOW},
    {*Part} - {Part.GRANULE},
)
"""The numbers of `Call`, `Access` and `Part` that are addresses."""
