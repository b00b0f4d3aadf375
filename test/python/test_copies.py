"""Copies between memories and registers against the layouts' own definition, run by the emulator."""

from dataclasses import dataclass

import numpy as np
import pytest
import weft
from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.layout import Layout
from weft.mlir import arith, gpu, ir, memref, nvvm, vector

A = Layout.parse("S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]")  # [16, 16] of mma.sync m16n8k16
B = Layout.parse("S[(2,4,2,8):(2,1@laneid,1,4@laneid)]")  # [16, 8]
ONE = Layout.parse("S[(8,4,2):(4@laneid,1@laneid,1)]")  # [8, 8]


@dataclass(frozen=True)
class Load:
    """One `tile.load` from a buffer that holds rows and columns of the source from (0, 0) on."""

    buffer: str
    shape: tuple[int, int]
    fragment: Layout
    extents: tuple[int, int]
    at: tuple[int, int] = (0, 0)
    transpose: bool = False

    def wanted(self, source: np.ndarray) -> np.ndarray:
        """What each lane must hold, by the definition of the fragment's layout."""
        row, column = self.at
        found = []
        for lane in range(32):
            places = self.fragment.lane_elements(lane, self.extents)
            if self.transpose:
                places = [place[::-1] for place in places]
            found.append([source[row + r, column + c] for r, c in places])
        return np.array(found)


def fragment(atom: Layout, shape: tuple[int, int], tiles: tuple[int, int]) -> tuple[Layout, tuple[int, int]]:
    whole = shape[0] * tiles[0], shape[1] * tiles[1]
    return atom.tile_to(whole, shape), whole


ROWS = "S[(64,64):(64,1)]"
LOADS = [
    Load(ROWS, (64, 64), A, (16, 16), (16, 32)),
    Load(f"{ROWS} xor 128B", (64, 64), A, (16, 16), (48, 16)),
    Load("S[(64,64):(72,1)]", (64, 64), A, (16, 16), (32, 48)),  # padded rows
    Load("S[(64,32):(32,1)] xor 64B", (64, 32), A, (16, 16), (16, 16)),
    Load("S[(64,16):(16,1)] xor 32B", (64, 16), A, (16, 16), (32, 0)),
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(A, (16, 16), (2, 2)), (32, 32)),
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(A, (16, 16), (4, 1)), (0, 48)),
    Load(f"{ROWS} xor 128B", (64, 64), B, (16, 8), (16, 40)),  # K x N: ldmatrix transposes
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(B, (16, 8), (1, 4)), (48, 32)),
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(B, (16, 8), (4, 1)), (0, 24)),
    Load(f"{ROWS} xor 128B", (64, 64), B, (16, 8), (40, 16), transpose=True),  # N x K
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(B, (16, 8), (1, 4)), (32, 48), transpose=True),
    Load(f"{ROWS} xor 128B", (64, 64), A, (16, 16), (16, 32), transpose=True),
    Load(f"{ROWS} xor 128B", (64, 64), ONE, (8, 8), (40, 56)),
    Load(f"{ROWS} xor 128B", (64, 64), *fragment(ONE, (8, 8), (1, 2)), (8, 16)),
    # Panels of 16 columns, each 128 rows of 32 bytes.
    Load("S[(64,4,16):(16,1024,1)] xor 32B", (64, 64), A, (16, 16), (16, 48)),
    Load("S[(64,4,16):(16,1024,1)]", (64, 64), *fragment(A, (16, 16), (1, 2)), (16, 32)),
    # Panels of 64 columns, rows of 128 bytes, as for B with N inside.
    Load("S[(16,2,64):(64,1024,1)] xor 128B", (16, 128), *fragment(B, (16, 8), (1, 8)), (0, 64)),
    # Rows in two halves whose order is turned round, so that 32 rows aren't 32 steps.
    Load("S[(4,16,64):(1024,64,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(16,4,64):(64,1024,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(4,2,8,64):(512,2048,64,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(2,4,8,64):(512,1024,64,1)] xor 128B", (64, 64), *fragment(A, (16, 16), (4, 1)), (0, 16)),
    # Registers in other orders: columns outside of rows, and each matrix of its own.
    Load(ROWS, (64, 64), Layout.parse("S[(2,8,2,4,2):(4,4@laneid,2,1@laneid,1)]"), (16, 16), (16, 16)),
    Load(ROWS, (64, 64), Layout.parse("S[(4,8,4,2):(2,4@laneid,1@laneid,1)]"), (32, 8), (32, 24)),
    # Three matrices a row, where no four lie on a grid.
    Load("S[(16,48):(48,1)]", (16, 48), Layout.parse("S[(2,8,3,4,2):(6,4@laneid,2,1@laneid,1)]"), (16, 24)),
    Load("S[(48,16):(16,1)]", (48, 16), Layout.parse("S[(3,8,2,4,2):(2,4@laneid,6,1@laneid,1)]"), (24, 16), (24, 0)),
    Load("S[(2,3,8,16):(512,128,16,1)]", (48, 16), Layout.parse("S[(3,8,2,4,2):(4,4@laneid,2,1@laneid,1)]"), (24, 16), (24, 0)),
]


def build(loads: list[Load], chip: str = "sm_80", fill: str = "copy") -> weft.Module:
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        source = ir.MemRefType.get([64, 128], f16)
        most = max(load.fragment.span("m") for load in loads)
        out = ir.MemRefType.get([len(loads), 32, most], f16)
        with module.kernel("k", [source, out], block=(64, 1, 1), grid=(1, 1, 1), chip=chip) as (given, results):
            zero = number(0)
            buffers = {}
            for load in loads:
                if (load.buffer, load.shape) not in buffers:
                    kind = BufferType.of(load.shape, f16, load.buffer)
                    made = buffers[load.buffer, load.shape] = tile.alloc(kind)
                    if fill == "copy":
                        tile.copy(given, zero, zero, made)
                    else:
                        tile.copy_async(given, zero, zero, made, vector_bytes=int(fill))
            nvvm.cp_async_commit_group()
            nvvm.cp_async_wait_group(0)
            gpu.barrier()
            lane = gpu.thread_id(gpu.Dimension.x)
            lane = arith.remui(lane, arith.constant(ir.IndexType.get(), 32))
            for place, load in enumerate(loads):
                kind = FragmentType.of(load.extents, f16, load.fragment)
                row, column = (number(n) for n in load.at)
                held = tile.to_lane(
                    tile.load(buffers[load.buffer, load.shape], row, column, kind, transpose=load.transpose)
                )
                first = arith.constant(ir.IndexType.get(), 0)
                vector.store(held, results, [arith.constant(ir.IndexType.get(), place), lane, first])
    return module


def number(n: int):
    return arith.constant(ir.IntegerType.get_signless(32), n)


def run(loads: list[Load], **options) -> list[str]:
    """The loads whose lanes end up with something else than their layouts say."""
    source = np.arange(64 * 128, dtype=np.uint16).reshape(64, 128).view(np.float16)
    most = max(load.fragment.span("m") for load in loads)
    out = np.zeros((len(loads), 32, most), np.float16)
    weft.compile(build(loads, **options))(source, out, on="emulator")
    wrong = []
    for load, got in zip(loads, out, strict=True):
        want = load.wanted(source.view(np.uint16))
        if not np.array_equal(got.view(np.uint16)[:, : want.shape[1]], want):
            wrong.append(str(load))
    return wrong


def test_fragments_loaded_from_buffers_are_what_their_layouts_say():
    assert run(LOADS) == []
