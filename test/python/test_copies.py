"""Copies between memories and registers, in the emulator, against the definition of layouts."""

from dataclasses import dataclass

import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.op import build
from weft.dialects.tile import AddressOp, BufferType, FragmentType
from weft.emulator import Fault
from weft.layout import Layout
from weft.mlir import arith, gpu, ir, llvm, nvvm, vector
from weft.passes.builders import (
    addresses,
    emit,
    fragment_moves,
    fragment_registers,
    matrix_moves,
    shared_tiles,
)

A = Layout.parse("S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]")  # [16, 16] of mma.sync m16n8k16
B = Layout.parse("S[(2,4,2,8):(2,1@laneid,1,4@laneid)]")  # [16, 8]
THREE_ROWS = Layout.parse("S[(3,8,2,4,2):(4,4@laneid,2,1@laneid,1)]")  # [24, 16]
FIVE_COLUMNS = Layout.parse("S[(8,5,4,2):(4@laneid,2,1@laneid,1)]")  # [8, 40]
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

    def fits(self, source: np.ndarray, got: np.ndarray) -> bool:
        """Whether the lanes hold, bit for bit, what they must."""
        want = self.wanted(source.view(np.uint16))
        return np.array_equal(got.view(np.uint16)[:, : want.shape[1]], want)

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
    # Panels of 64 columns, rows of 128 bytes, as for an N-major B.
    Load("S[(16,2,64):(64,1024,1)] xor 128B", (16, 128), *fragment(B, (16, 8), (1, 8)), (0, 64)),
    # Rows in two halves whose order is turned round, so that 32 rows aren't 32 steps.
    Load("S[(4,16,64):(1024,64,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(16,4,64):(64,1024,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(4,2,8,64):(512,2048,64,1)]", (64, 64), *fragment(A, (16, 16), (2, 1)), (32, 16)),
    Load("S[(2,4,8,64):(512,1024,64,1)] xor 128B", (64, 64), *fragment(A, (16, 16), (4, 1)), (0, 16)),
    # Registers in other orders: columns outside of rows, and each matrix of its own.
    Load(ROWS, (64, 64), Layout.parse("S[(2,8,2,4,2):(4,4@laneid,2,1@laneid,1)]"), (16, 16), (16, 16)),
    Load(ROWS, (64, 64), Layout.parse("S[(4,8,4,2):(2,4@laneid,1@laneid,1)]"), (32, 8), (32, 24)),
    # Numbers of matrices that are no powers of two, so that groups of them begin and end anywhere.
    Load("S[(16,48):(48,1)]", (16, 48), Layout.parse("S[(2,8,3,4,2):(6,4@laneid,2,1@laneid,1)]"), (16, 24)),
    Load("S[(48,16):(16,1)]", (48, 16), THREE_ROWS, (24, 16), (24, 0)),
    Load("S[(2,3,8,16):(512,128,16,1)]", (48, 16), THREE_ROWS, (24, 16), (24, 0)),
    # Panels of 24 columns under fragments of 40: matrices 2 and 3 lie in different panels.
    Load("S[(8,5,3,8):(24,192,8,1)]", (8, 120), FIVE_COLUMNS, (8, 40), (0, 40)),
]


def kernel_of(loads: list[Load], fill: int = 0, threads: int = 64) -> weft.Module:
    """A kernel that fills buffers, by `tile.copy` or `fill` bytes at a time, and stores what lanes load."""
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        source = ir.MemRefType.get([64, 128], f16)
        most = max(load.fragment.span("m") for load in loads)
        out = ir.MemRefType.get([len(loads), 32, most], f16)
        kernel = module.kernel("k", [source, out], block=(threads, 1, 1), grid=(1, 1, 1), chip="sm_80")
        with kernel as (given, results):
            buffers = {}
            for load in loads:
                kind = BufferType.of(load.shape, f16, load.buffer)
                if kind not in buffers:
                    buffers[kind] = tile.alloc(kind)
                    copy(given, 0, buffers[kind], fill)
            wait()
            for place, load in enumerate(loads):
                buffer = buffers[BufferType.of(load.shape, f16, load.buffer)]
                kind = FragmentType.of(load.extents, f16, load.fragment)
                keep(tile.load(buffer, *map(number, load.at), kind, transpose=load.transpose), results, place)
    return module


def number(n: int):
    return arith.constant(ir.IntegerType.get_signless(32), n)


def index(n: int):
    return arith.constant(ir.IndexType.get(), n)


def copy(source, row: int, buffer, fill: int, column: int = 0) -> None:
    if fill:
        tile.copy_async(source, number(row), number(column), buffer, vector_bytes=fill)
    else:
        tile.copy(source, number(row), number(column), buffer)


def wait() -> None:
    nvvm.cp_async_commit_group()
    nvvm.cp_async_wait_group(0)
    gpu.barrier()


def keep(fragment, results, place: int) -> None:
    """Stores what each lane holds of a fragment."""
    lane = arith.remui(gpu.thread_id(gpu.Dimension.x), index(32))
    vector.store(tile.to_lane(fragment), results, [index(place), lane, index(0)])


def bits(*shape: int) -> np.ndarray:
    """Elements that are all different, as f16 with these bits."""
    return np.arange(np.prod(shape), dtype=np.uint16).reshape(shape).view(np.float16)


def run(loads: list[Load], **options) -> list[Load]:
    """The loads whose lanes end up with something else than their layouts say."""
    source, most = bits(64, 128), max(load.fragment.span("m") for load in loads)
    out = np.zeros((len(loads), 32, most), np.float16)
    weft.compile(kernel_of(loads, **options))(source, out, on="emulator")
    return [load for load, got in zip(loads, out, strict=True) if not load.fits(source, got)]


@pytest.mark.slow
def test_fragments_loaded_from_buffers_are_what_their_layouts_say():
    assert run(LOADS) == []


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("fill", [4, 8, 16])
def test_buffers_filled_asynchronously_hold_the_same(fill):
    whole = [load for load in LOADS if all(extent & (extent - 1) == 0 for extent in load.shape)]
    assert run(whole, fill=fill) == []


def test_rounds_of_threads_may_end_within_a_layouts_digit():
    """96 threads copy 12 rows at once into rows that lie 8 and 8 together."""
    load = Load("S[(3,8,64):(1024,64,1)]", (24, 64), ONE, (8, 8), (16, 8))
    assert run([load], fill=16, threads=96) == []


def planted(monkeypatch, module, name: str, value, **options) -> bool:
    """Whether the loads above notice a fault."""
    monkeypatch.setattr(module, name, value)
    return bool(run(LOADS, **options))


@pytest.mark.slow
def test_a_carry_between_digits_is_caught(monkeypatch):
    def unsplit(value, constant, *_):
        return shared_tiles.Point(value, constant)

    assert planted(monkeypatch, matrix_moves, "split_point", unsplit)


@pytest.mark.slow
def test_matrices_in_another_order_are_caught(monkeypatch):
    assert planted(monkeypatch, matrix_moves, "_lane_origin", lambda lane, origins: (0, 0))


WIDE = "S[(16,64):(64,1)]"
LAYOUTS = [
    f"{WIDE} xor 128B",
    WIDE,
    "S[(16,64):(72,1)]",
    "S[(16,64):(1,16)]",
    "S[(16,4,16):(16,256,1)] xor 32B",
]


def memory_of(layout: str, fill: int) -> tuple[np.ndarray, np.ndarray]:
    """16x64 elements, and the shared memory of a buffer that they were copied to, as it lies there."""
    size = Layout.parse(layout).span("m")
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        types = [ir.MemRefType.get([16, 64], f16), ir.MemRefType.get([size // 8, 8], f16)]
        with module.kernel("k", types, block=(64, 1, 1), grid=(1, 1, 1)) as (given, out):
            buffer = tile.alloc(BufferType.of((16, 64), f16, layout))
            copy(given, 0, buffer, fill)
            wait()
            address = build(AddressOp, operands=[buffer], results=[addresses.pointer_type(3)]).address
            run_of_8 = ir.VectorType.get([8], f16)
            for vector_number in range(size // 8):
                loaded = llvm.load(run_of_8, addresses.offset(address, 16 * vector_number))
                vector.store(loaded, out, [index(vector_number), index(0)])
    source, memory = bits(16, 64), np.zeros((size // 8, 8), np.float16)
    weft.compile(module, arch="sm_80")(source, memory, on="emulator")
    return source, memory.reshape(-1)


def misplaced(layout: str, fill: int) -> int:
    """How many elements lie in memory elsewhere than the layout says."""
    source, memory = memory_of(layout, fill)
    at = Layout.parse(layout)
    return sum(
        memory[at.apply(place, (16, 64), 16)["m"]].tobytes() != element.tobytes()
        for place, element in np.ndenumerate(source)
    )


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fill", [0, 16])
def test_elements_are_in_shared_memory_as_the_layout_specifies(layout, fill):
    if fill and Layout.parse(layout).apply((0, 1), (16, 64), 16)["m"] != 1:
        with pytest.raises(weft.WeftError, match=r"runs of 8 elements .* to be contiguous and aligned"):
            misplaced(layout, fill)
    else:
        assert not misplaced(layout, fill)


@pytest.mark.slow
def test_a_swizzle_left_out_is_caught(monkeypatch):
    monkeypatch.setattr(shared_tiles.SharedTile, "_swizzled", lambda self, offset: offset)
    assert misplaced(LAYOUTS[0], 16)


STAGES = ["S[(2,64,64):(4096,64,1)] xor 128B", "S[(2,64,64):(64,128,1)]", "S[(2,64,64):(8192,64,1)]"]


def test_stages_are_as_the_buffers_layout_specifies():
    """One after the other, side by side, and with a gap."""
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        types = [ir.MemRefType.get([128, 64], f16), ir.MemRefType.get([6, 32, 8], f16)]
        with module.kernel("k", types, block=(32, 1, 1), grid=(1, 1, 1)) as (given, results):
            tiles = []
            for layout in STAGES:
                buffer = tile.alloc(BufferType.of((2, 64, 64), f16, layout))
                tiles += [tile.stage(buffer, number(i)) for i in range(2)]
            for place, each in enumerate(tiles):
                copy(given, 64 * (place % 2), each, 16)
            wait()
            for place, each in enumerate(tiles):
                keep(
                    tile.load(each, number(32), number(16), FragmentType.of((16, 16), f16, A)), results, place
                )
    source, out = bits(128, 64), np.zeros((6, 32, 8), np.float16)
    weft.compile(module, arch="sm_80")(source, out, on="emulator")
    for place, got in enumerate(out):
        load = Load("", (), A, (16, 16), (64 * (place % 2) + 32, 16))
        assert load.fits(source, got), STAGES[place // 2]


EDGE = (5, 7)  # rows and columns of a matrix smaller than every tile


@pytest.mark.parametrize("fill", [0, 4])
def test_elements_outside_the_matrix_are_zero_in_a_buffer(fill):
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        matrix = weft.memref(EDGE, "f16", strides=(8, 1))
        results = ir.MemRefType.get([1, 32, 8], f16)
        with module.kernel("k", [matrix, results], block=(32, 1, 1), grid=(1, 1, 1)) as (given, out):
            buffer = tile.alloc(BufferType.of((16, 16), f16, "S[(16,16):(16,1)]"))
            copy(given, 2, buffer, fill, column=4)
            wait()
            keep(tile.load(buffer, number(0), number(0), FragmentType.of((16, 16), f16, A)), out, 0)
    source, got = bits(5, 8)[:, :7], np.ones((1, 32, 8), np.float16)
    weft.compile(module, arch="sm_80")(source, got, on="emulator")
    padded = np.zeros((16, 16), np.float16)
    padded[:3, :3] = source[2:, 4:]
    assert Load("", (), A, (16, 16)).fits(padded, got[0])


@pytest.mark.parametrize("vector_bytes", [0, 4])
def test_a_fragment_goes_from_matrix_to_matrix_within_bounds(vector_bytes):
    """Loaded at (2, 4), zeros outside; stored at (3, 2), where what lies outside stays as it was."""
    accumulator = Layout.parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
    with weft.Module() as module:
        f16 = ir.F16Type.get()
        matrix = weft.memref((5, 6), "f16", strides=(8, 1))
        with module.kernel("k", [matrix, matrix], block=(32, 1, 1), grid=(1, 1, 1)) as (given, out):
            kind = FragmentType.of((16, 8), f16, accumulator)
            held = tile.load(given, number(2), number(4), kind, vector_bytes=vector_bytes)
            tile.store(held, out, number(3), number(2), vector_bytes=vector_bytes)
    source, whole = bits(5, 8), np.full((5, 8), 7, np.float16)
    weft.compile(module, arch="sm_80")(source[:, :6], whole[:, :6], on="emulator")
    wanted = np.full((5, 8), 7, np.float16)
    wanted[3:, 2:6] = 0
    wanted[3:, 2:4] = source[2:4, 4:6]
    assert np.array_equal(whole.view(np.uint16), wanted.view(np.uint16))


def straddled() -> np.ndarray:
    """A 3x7 corner of sentinels, after a fragment came from and went to it two elements at a time."""
    accumulator = Layout.parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
    with weft.Module() as module:
        matrix = weft.memref((3, 7), "f32", strides=(10, 1))
        with module.kernel("k", [matrix, matrix], block=(32, 1, 1), grid=(1, 1, 1)) as (given, out):
            kind = FragmentType.of((16, 8), ir.F32Type.get(), accumulator)
            held = tile.load(given, number(0), number(0), kind, vector_bytes=8)
            tile.store(held, out, number(0), number(0), vector_bytes=8)
    source, whole = np.full((3, 10), 5, np.float32), np.full((3, 10), 7, np.float32)
    source[:, :7] = np.arange(21).reshape(3, 7)
    weft.compile(module, arch="sm_80")(source[:, :7], whole[:, :7], on="emulator")
    return whole


def test_a_run_that_straddles_the_edge_goes_element_by_element():
    wanted = np.full((3, 10), 7, np.float32)
    wanted[:, :7] = np.arange(21).reshape(3, 7)
    assert np.array_equal(straddled(), wanted)


def test_a_run_that_leaves_the_matrix_is_caught(monkeypatch):
    """Planted: no run is taken to straddle the edge."""
    monkeypatch.setattr(fragment_moves, "_whole", lambda *_: emit.equal(0, 0))
    with pytest.raises(Fault, match="out-of-bounds"):
        straddled()


@pytest.mark.parametrize("swap", [False, True])
def test_warps_of_a_warpgroup_begin_at_these_rows(swap, monkeypatch):
    axes = lambda digits: [digit.axis for digit in digits]  # noqa: E731
    monkeypatch.setattr(fragment_registers, "lane_coordinate", axes)
    with weft.Module():
        layout = "S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]"
        kind = FragmentType.of((64, 16), ir.F16Type.get(), layout)
        starts, rows, columns = matrix_moves._warp_parts(kind, swap)
    found = list(zip(starts, (rows, columns), strict=True))
    assert found[:: -1 if swap else 1] == [(["warpid"], {0, 16, 32, 48}), ([], {0})]
