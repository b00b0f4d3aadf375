"""What compiled code and the interpreter share: the state of a machine, and operations, as numbers."""

from enum import IntEnum, auto

MOST_LOGGED = 256


class Field(IntEnum):
    """The numbers and addresses of a state, 8 bytes each."""

    OP = 0
    """Where to begin; in the end, where the interpreter goes on."""
    BLOCK = auto()
    TICKS = auto()
    INSTRUCTIONS = auto()
    CHANGES = auto()
    STOP = auto()
    READY = auto()
    HOLD = auto()
    ROTATE = auto()
    LOWEST = auto()
    ARRIVED = auto()
    """Whether the group has just reached its block."""
    SCRATCH = auto()
    ROWS = auto()
    MASKS = auto()
    """The warps of the group, and the active lanes of each, 32 bits each."""
    REGISTERS = auto()
    """The address of the registers of each."""
    COUNT = auto()
    WHOLE = auto()
    """Whether all lanes of all of them are active."""
    SAVED = auto()
    """Memory for one row of the file."""
    OCTETS = auto()
    OPS = auto()
    BLOCKS = auto()
    RUNS = auto()
    LIMIT = auto()
    MARKS = auto()
    SEGMENTS = auto()
    SEGMENT_COUNT = auto()
    SHARED = auto()
    SHARED_SIZE = auto()
    STRIDE = auto()
    CLUSTER = auto()
    SHARED_BASE = auto()
    PARAMS = auto()
    PARAMS_SIZE = auto()
    CONST = auto()
    CONST_SIZE = auto()
    GLOBAL_BYTES = auto()
    SHARED_BYTES = auto()
    PARAM_BYTES = auto()
    CONST_BYTES = auto()
    LOCAL_BYTES = auto()
    LOCAL = auto()
    LOCAL_SIZE = auto()
    """The bytes of a thread."""
    FILLED = auto()
    CHECKED = auto()
    """Whether the sanitizer watches."""
    BLOCKED = auto()
    """Whether the interpreter must make all accesses to shared memory."""
    KNOWN = auto()
    KNOWN_WIDTH = auto()
    GRANULE = auto()
    """The binary logarithm of a granule of shared memory."""
    WRITER = auto()
    WRITTEN = auto()
    WRITE_LINE = auto()
    READ_LINE = auto()
    READS = auto()
    READ_BY = auto()
    READERS = auto()
    UNITS = auto()
    UNIT = auto()
    TAKEN = auto()
    GRANULES = auto()
    STAMPS = auto()
    EPOCH = auto()
    WAVE = auto()
    BUSY = auto()
    HELD = auto()
    CHANGED = auto()
    HAS_CHANGED = auto()
    COLUMNS = auto()
    WARPS = auto()
    """What is known of registers that wgmma may use: see `RegisterState`."""
    LOG = auto()
    """Memory for `MOST_LOGGED` blocks that have run, each with the clock after it; 0 if nobody asks."""
    LOGGED = auto()


class Part(IntEnum):
    """What is known of a buffer in global memory, 8 bytes each."""

    BASE = 0
    SIZE = auto()
    DATA = auto()
    WRITABLE = auto()
    BLOCKED = auto()
    """Whether the interpreter must make the accesses."""
    GRANULE = auto()
    OWNER = auto()
    TIME = auto()
    LINE = auto()
    LEVEL = auto()
    GRANULES = auto()
    IS_WRITTEN = auto()
    STAMPS = auto()


class Kind(IntEnum):
    """The operations of a block."""

    INTERPRET = 0
    PIECE = auto()
    LOAD = auto()
    STORE = auto()
    TOUCH = auto()
    COPY = auto()
    EXCHANGE = auto()
    JUMP = auto()
    BRANCH = auto()


class Operand(IntEnum):
    """The parts of an operation, 8 bytes each."""

    KIND = 0
    FUNCTION = auto()
    SAVED = auto()
    """Of a piece: the address of the offsets and bytes of the registers that it writes, as pairs, and..."""
    SAVED_COUNT = auto()
    """... the number of these registers."""
    OFFSETS = auto()
    """The address of the offsets of registers, or of the numbers of those that are announced."""
    READS = auto()
    WRITES = auto()
    """How many of these are read, and then how many are written."""
    TARGET = auto()
    AFTER = auto()
    PREDICATE = auto()
    NEGATED = auto()
    WIDTH = auto()
    """The binary logarithm of the bytes."""
    LINE = auto()
    DISCARDS = auto()
    """Of a load: whether only lanes use it whose predicate is true, or false if `NEGATED`."""
    CONSTANT = auto()
    """Of a load: whether the kernel must not write what it reads."""


class BlockPart(IntEnum):
    """What is known of a block, 8 bytes each."""

    FIRST = 0
    LENGTH = auto()
    RANK = auto()
