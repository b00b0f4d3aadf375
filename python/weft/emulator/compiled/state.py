"""What compiled code and the interpreter share: the state of a machine, and operations, as numbers."""

from enum import IntEnum

from weft.emulator.records import Record

MOST_LOGGED = 256


class Field(Record):
    """The numbers and addresses of a state, 8 bytes each."""

    OP = ""
    """Where to begin; in the end, where the interpreter goes on."""
    BLOCK = TICKS = INSTRUCTIONS = CHANGES = STOP = READY = HOLD = ROTATE = LOWEST = ""
    ARRIVED = ""
    """Whether the group has just reached its block."""
    SCRATCH = "u1"
    ROWS = "i4"
    MASKS = "u4"
    """The warps of the group, and the active lanes of each, 32 bits each."""
    REGISTERS = "i8"
    """The address of the registers of each."""
    COUNT = ""
    WHOLE = ""
    """Whether all lanes of all of them are active."""
    SAVED = "u1"
    """Memory for one row of the file."""
    OCTETS = OPS = BLOCKS = RUNS = "i8"
    LIMIT = ""
    MARKS = "u1"
    SEGMENTS = "i8"
    """`Buffer` of each buffer in global memory."""
    SEGMENT_COUNT = ""
    SHARED = "u1"
    SHARED_SIZE = STRIDE = CLUSTER = ""
    SHARED_BASE = "i8"
    PARAMS = "u1"
    PARAMS_SIZE = ""
    CONST = "u1"
    CONST_SIZE = GLOBAL_BYTES = SHARED_BYTES = PARAM_BYTES = CONST_BYTES = LOCAL_BYTES = ""
    LOCAL = "u1"
    LOCAL_SIZE = ""
    """The bytes of a thread."""
    FILLED = "u1"
    CHECKED = ""
    """Whether the sanitizer watches."""
    BLOCKED = ""
    """Whether the interpreter must make all accesses to shared memory."""
    KNOWN = "i4"
    KNOWN_WIDTH = ""
    PART = "i8"
    """`Part` of the wave's shared memory."""
    STAMPS = "u4"
    EPOCH = WAVE = ""
    BUSY = HELD = "i4"
    CHANGED = HAS_CHANGED = "u1"
    COLUMNS = "i4"
    WARPS = ""
    """What is known of registers that wgmma may use: see `RegisterState`."""
    LOG = "i8"
    """Memory for `MOST_LOGGED` blocks that have run, each with the clock after it; 0 if nobody asks."""
    LOGGED = ""


Kind = IntEnum("Kind", "INTERPRET PIECE LOAD STORE TOUCH COPY EXCHANGE JUMP BRANCH", start=0)
"""The operations of a block."""


class Operand(Record):
    """The parts of an operation, 8 bytes each."""

    KIND = FUNCTION = ""
    SAVED = "i8"
    """Of a piece: the address of the offsets and bytes of the registers that it writes, as pairs, and..."""
    SAVED_COUNT = ""
    """... the number of these registers."""
    OFFSETS = "i8"
    """The address of the offsets of registers, or of the numbers of those that are announced."""
    READS = WRITES = ""
    """How many of these are read, and then how many are written."""
    TARGET = AFTER = PREDICATE = NEGATED = ""
    WIDTH = ""
    """The binary logarithm of the bytes."""
    LINE = ""
    DISCARDS = ""
    """Of a load: whether only lanes use it whose predicate is true, or false if `NEGATED`."""
    CONSTANT = ""
    """Of a load: whether the kernel must not write what it reads."""


class BlockPart(Record):
    """What is known of a block, 8 bytes each."""

    FIRST = LENGTH = RANK = ""
