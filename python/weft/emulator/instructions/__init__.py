"""The instructions: one small decoder for each opcode, by kind."""

from weft.emulator.decoding.table import Table
from weft.emulator.instructions import (
    atomics,
    bits,
    call,
    cluster,
    compare,
    control,
    convert,
    cp_async,
    cp_async_bulk,
    cp_async_bulk_tensor,
    floating,
    integer,
    matrix_moves,
    mbarrier,
    memory_ops,
    mma,
    move,
    multimem,
    synchronize,
    tcgen05_copy,
    tcgen05_ld_st,
    tcgen05_mma,
    tcgen05_order,
    video,
    warp,
    wgmma,
    wmma,
)

_PARTS = (
    *(move, integer, bits, floating, video, compare, convert, mbarrier, cluster, memory_ops, cp_async_bulk),
    *(multimem, call, atomics, cp_async, control, synchronize, warp, matrix_moves, mma, wgmma, wmma),
    *(tcgen05_order, tcgen05_ld_st, tcgen05_copy, tcgen05_mma, cp_async_bulk_tensor),
)
TABLE = Table(*(part.table for part in _PARTS))
