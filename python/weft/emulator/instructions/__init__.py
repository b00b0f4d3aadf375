"""The instructions: one small decoder for each opcode, by kind."""

from weft.emulator.instructions import (
    async_copy,
    atomics,
    bits,
    compare,
    control,
    convert,
    floating,
    integer,
    memory_ops,
    move,
    synchronise,
    tensor,
    transcendental,
    warp,
)
from weft.emulator.table import Table

_PARTS = (
    move,
    integer,
    bits,
    floating,
    transcendental,
    compare,
    convert,
    memory_ops,
    atomics,
    async_copy,
    control,
    synchronise,
    warp,
    tensor,
)
TABLE = Table(*(part.table for part in _PARTS))
