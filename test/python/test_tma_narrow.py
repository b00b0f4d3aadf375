"""Tiles of elements of 4 and 6 bits that TMA copies: packed as in memory, or 16 of them in 16 bytes."""

import numpy as np
import pytest
from tile_bytes import copy_bytes_out

import weft
from weft.dialects import tile
from weft.dialects.tile import BufferType, MapType
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.kernel_arguments import packed_copy
from weft.mlir import ir
from weft.passes.builders import emit, thread_ids
from weft.passes.lower_tma import pieces_of

THREADS = 128
# The layout of rows x columns, and the bits of an element in global memory.
TILES = {
    "packed": ("f4E2M1FN", (16, 256), "S[(16,256):(256,1)] xor 128B", 4),
    "packed, half as wide": ("f4E2M1FN", (16, 128), "S[(16,128):(128,1)] xor 64B", 4),
    "packed panels": ("f4E2M1FN", (8, 512), "S[(8,2,256):(256,2048,1)] xor 128B", 4),
    "expanded fp4": ("f4E2M1FN", (16, 128), "S[(16,8,16):(256,32,1)] xor 128B", 4),
    "expanded fp6": ("f6E2M3FN", (16, 128), "S[(16,128):(128,1)] xor 128B", 6),
    "expanded panels": ("f6E3M2FN", (8, 256), "S[(8,2,128):(128,1024,1)] xor 128B", 6),
    "expanded fp4 panels": ("f4E2M1FN", (8, 256), "S[(8,2,8,16):(256,2048,32,1)]", 4),
}


def module(element, shape, layout, landing, row, column, chunk=0, member=None):
    """A kernel that copies one tile to shared memory, and its bytes to an array."""
    with weft.Module() as module:
        rank = 2 if member is None else 3
        strides = (*["?"] * (rank - 1), 1)
        matrices = [weft.memref("x".join("?" * rank), element, strides=strides), weft.memref("?", "i32")]
        with module.kernel("copy", matrices, block=(THREADS, 1, 1), grid=(1, 1, 1)) as (matrix, out):
            kind = BufferType.of(shape, ir.Type.parse(element), layout)
            buffer = tile.alloc(kind)
            map_ = tile.tensor_map(matrix, kind, chunk=chunk)
            if member is not None:
                map_ = tile.member(map_, emit.value(member))
            ring = tile.make_ring(1, consumers=4, emptied_by="warps")
            weft.mlir.gpu.barrier()
            zero = emit.value(0)
            with thread_ids.one_thread():
                tile.expect(ring, zero, landing)
                full = tile.full_barrier(ring, zero)
                tile.copy_async(map_, emit.value(row), emit.value(column), buffer, barrier=full)
            tile.await_(ring, zero, zero)
            copy_bytes_out(buffer, out, THREADS)
    return module


def image(codes, kind, bits, padded):
    """The bytes of the tile as its layout has them, -1 where nothing is written."""
    layout = kind.layout
    digits = np.unravel_index(np.arange(layout.size), [it.extent for it in layout.shard])
    at = sum(digit * it.stride for digit, it in zip(digits, layout.shard, strict=True)) * kind.element_bits
    if padded:  # 16 elements are packed in the low bytes of 16
        at = at // 128 * 128 + np.arange(layout.size) % 16 * bits
    found = np.full(-(-kind.bytes // 16) * 16, -1)
    stream = np.zeros((len(found), 8), np.uint8)
    for bit in range(bits):
        spot = at + bit
        stream[spot // 8, spot % 8] = codes.reshape(-1) >> bit & 1
        found[spot // 8] = 0
    octets = np.packbits(stream, axis=1, bitorder="little")[:, 0]
    found[found == 0] = octets[found == 0]
    if layout.swizzle:
        moved = np.array([layout.swizzle.swizzle_offset(byte) for byte in range(len(found))])
        found = found[np.argsort(moved)]
    return found[: kind.bytes]


@pytest.mark.each_value(2)
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize(("row", "column"), [(0, 0), (8, 256)])
def test_elements_arrive_where_the_layout_has_them(name, row, column):
    element, shape, layout, bits = TILES[name]
    codes = np.random.default_rng(0).integers(0, 1 << bits, (24, 512)).astype(np.uint8)
    with weft.Module():
        kind = BufferType.of(shape, ir.Type.parse(element), layout)
        padded = pieces_of(MapType.of(kind)).padded
        inside = np.zeros(shape, np.uint8)  # TMA writes zeros beyond the matrix
        part = codes[row : row + shape[0], column : column + shape[1]]
        inside[: part.shape[0], : part.shape[1]] = part
        wanted, size = image(inside, kind, bits, padded), kind.bytes
    # The transaction counts packed bytes, even of elements that are expanded.
    landing = shape[0] * shape[1] * bits // 8
    kernel = weft.compile(module(element, shape, layout, landing, row, column), arch="sm_100a")
    matrix = packed_copy(arrays.view(codes.view(arrays.numpy_dtype(element))))
    out = np.full(size // 4, -1, np.int32)
    report = kernel.emulate(matrix, out, ignore=("uninitialized-shared",) if padded else ())
    assert not report.findings
    written = wanted >= 0
    assert np.array_equal(out.view(np.uint8)[written], wanted[written])


@pytest.mark.parametrize(
    ("element", "shape", "layout", "said"),
    [
        (
            "f4E2M1FN",
            (8, 64),
            "S[(8,4,16):(128,32,1)]",
            "rows of 128 elements that TMA expands to bytes, got 64",
        ),
        ("f4E2M1FN", (8, 128), "S[(8,8,16):(512,64,1)]", "16 elements in 16 bytes"),
        ("f6E2M3FN", (8, 256), "S[(8,256):(256,1)]", "rows of 128 elements that TMA expands"),
        ("f6E2M3FN", (8, 128), "S[(8,128):(128,1)] xor 128B_32B", "a swizzle of none or 128B where TMA"),
        ("f4E2M1FN", (8, 512), "S[(8,512):(512,1)]", "a multiple of 16 bytes in 16..128, got 256"),
        ("f4E2M1FN", (8, 128), "S[(8,128):(128,1)] xor 128B", "rows of 128 bytes with swizzle 128B, got 64"),
        ("f4E2M1FN", (8, 16), "S[(8,16):(16,1)]", "a multiple of 16 bytes in 16..128, got 8"),
    ],
)
def test_what_tma_does_not_copy_is_explained(element, shape, layout, said):
    with weft.Module():
        kind = MapType.of(BufferType.of(shape, ir.Type.parse(element), layout))
        found = pieces_of(kind)
    assert isinstance(found, str) and said in found, found


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 1024), (2, 512)])
@pytest.mark.parametrize("member", [None, 1])
def test_rows_of_chunks_may_be_long(row, column, member):
    tiles = np.random.default_rng(1).integers(0, 255, (2, 3, 2048)).astype(np.uint8)
    shape, element = (2, 1536), "f8E8M0FNU"
    given = tiles if member is not None else tiles[0]
    source = module(element, shape, "S[(2,1536):(1536,1)]", 3072, row, column, 512, member)
    out = np.full(3072 // 4, -1, np.int32)
    report = weft.compile(source, arch="sm_100a").emulate(given.view(arrays.numpy_dtype(element)), out)
    wanted = np.zeros(shape, np.uint8)
    part = tiles[member or 0, row : row + 2, column : column + 1536]
    wanted[: part.shape[0], : part.shape[1]] = part
    assert not report.findings
    assert np.array_equal(out.view(np.uint8).reshape(shape), wanted)


def test_a_map_of_chunks_needs_whole_ones():
    source = module("f8E8M0FNU", (1, 512), "S[(1,512):(512,1)]", 512, 0, 0, 512)
    kernel, out = weft.compile(source, arch="sm_100a"), np.zeros(128, np.int32)
    with pytest.raises(WeftError, match="columns must be a multiple of 512, got an array of"):
        kernel.emulate(np.zeros((1, 528), np.uint8).view(arrays.numpy_dtype("f8E8M0FNU")), out)


@pytest.mark.parametrize(
    ("element", "columns", "chunk", "said"),
    [
        ("f16", 512, 512, r"chunk must be a multiple of 16 in 16\.\.512 elements of 8 bits, got 512 of 16"),
        ("i8", 512, 520, "chunk must be a multiple of 16"),
        ("i8", 528, 512, "tiles must have whole chunks of 512 columns, got 528"),
    ],
)
def test_illegal_chunks_are_refused(element, columns, chunk, said):
    with pytest.raises(WeftError, match=said):
        module(element, (1, columns), f"S[(1,{columns}):({columns},1)]", columns, 0, 0, chunk)
