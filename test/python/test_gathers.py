"""Copies by TMA of rows that are given by their numbers, in the emulator."""

import numpy as np
import pytest
from layout_places import octets
from tile_bytes import copy_bytes_out

import weft
from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.mlir import gpu, ir
from weft.passes.builders import emit, thread_ids

THREADS = 64
TILES = {
    "one panel": ((64, 64), "S[(64,64):(64,1)] xor 128B"),
    "two panels": ((16, 128), "S[(16,2,64):(64,1024,1)] xor 128B"),
    "narrow rows": ((8, 16), "S[(8,16):(16,1)] xor 32B"),
    "no swizzle": ((512, 16), "S[(512,16):(16,1)]"),
}


def module(shape, layout, first, column, whole_warp):
    """A kernel that gathers one tile, and copies its bytes to an array."""
    with weft.Module() as module:
        matrices = [weft.memref("?x?", "f16"), weft.memref("?", "i32"), weft.memref("?", "i32")]
        sizes = {"block": (THREADS, 1, 1), "grid": (1, 1, 1)}
        with module.kernel("gather", matrices, **sizes) as (matrix, numbers, out):
            kind = BufferType.of(shape, ir.F16Type.get(), layout)
            buffer, map_ = tile.alloc(kind), tile.tensor_map(matrix, kind, indexed=True)
            ring, zero = tile.make_ring(1, consumers=2, emptied_by="warps"), emit.value(0)
            gpu.barrier()
            with tile.role(0, warps=1):
                full = tile.full_barrier(ring, zero)
                with thread_ids.elected():
                    tile.expect(ring, zero, kind.bytes)
                    if not whole_warp:
                        tile.gather_async(map_, numbers, emit.value(first), emit.value(column), buffer, full)
                if whole_warp:
                    tile.gather_async(map_, numbers, emit.value(first), emit.value(column), buffer, full)
            tile.await_(ring, zero, zero)
            copy_bytes_out(buffer, out, THREADS)
    return module


def tile_in(data, shape, layout):
    """The elements of a tile in shared memory."""
    with weft.Module():
        at = octets(BufferType.of(shape, ir.F16Type.get(), layout), 0)
    return data[at].view(np.float16).reshape(shape)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("whole_warp", [True, False], ids=["warp", "thread"])
@pytest.mark.parametrize("name", TILES)
def test_rows_arrive_by_their_numbers(name, whole_warp):
    shape, layout = TILES[name]
    chance = np.random.default_rng(0)
    matrix = chance.integers(1, 1000, (40, 240)).astype(np.float16)
    # Some numbers are those of no row, and the indices end before the tile does.
    indices = chance.integers(-3, 44, shape[0]).astype(np.int32)
    first, column = 2, 80
    out = np.zeros(shape[0] * shape[1] // 2, np.int32)
    kernel = weft.compile(module(shape, layout, first, column, whole_warp), arch="sm_100a")
    report = kernel.emulate(matrix, indices, out)
    assert not report.findings
    wanted = np.zeros(shape, np.float16)
    for row, number in enumerate(indices[first:]):
        if 0 <= number < len(matrix):
            wanted[row] = matrix[number, column : column + shape[1]]
    np.testing.assert_array_equal(tile_in(out.view(np.uint8), shape, layout), wanted)


def test_other_chips_copy_to_their_own_memory():
    kernel = weft.compile(module(*TILES["one panel"], 0, 0, True), arch="sm_120")
    assert ".shared::cta.global.tile::gather4" in kernel.ptx
