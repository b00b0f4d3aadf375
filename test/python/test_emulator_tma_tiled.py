"""Tiled copies between tensors and shared memory, against the PTX ISA's description."""

from dataclasses import replace

import numpy as np
import pytest
import tma_reference as tma
from tma_reference import Form, Interleaved, Tiled

from weft import emulator
from weft.emulator.memory import tensor_map

RNG = np.random.default_rng(11)
SHAPES = {
    1: Tiled("UINT16", (200,), (48,)),
    2: Tiled("UINT16", (40, 11), (16, 5), pad=1),
    3: Tiled("UINT16", (24, 7, 5), (16, 3, 2), pad=1),
    4: Tiled("UINT16", (24, 5, 4, 3), (8, 3, 2, 2)),
    5: Tiled("UINT16", (16, 4, 3, 3, 3), (8, 2, 2, 2, 2), pad=2),
}


def check_loads(spec, starts, base=0, **form):
    memory = tma.memory_of(RNG, spec)
    out = tma.load(spec, spec.map(memory), starts, Form(len(spec.dims), **form), base)
    for got, start in zip(out, starts, strict=True):
        box = tma.loaded(spec, memory, spec.elements(start))
        want = tma.in_shared(box, spec.swizzle, base, len(got))
        np.testing.assert_array_equal(got, want, err_msg=f"at {start}")


def check_store(spec, start, base=0, **form):
    memory = RNG.integers(0, 256, spec.extent, dtype=np.uint8)
    box = RNG.integers(0, 256, spec.bytes, dtype=np.uint8)
    want = tma.stored(spec, memory, spec.elements(start), box)
    tile = tma.in_shared(box, spec.swizzle, base, tma.region_of(spec.bytes, base))
    tma.store(spec.map(memory), start, tile, Form(len(spec.dims), **form), spec.bytes, base)
    np.testing.assert_array_equal(memory, want, err_msg=f"at {start}")


@pytest.mark.parametrize("fill", ["zero", "nan"])
@pytest.mark.parametrize("rank", SHAPES)
def test_loads_across_every_border(rank, fill):
    spec = SHAPES[rank]
    dtype = "UINT16" if fill == "zero" else "BFLOAT16"
    spec = Tiled(dtype, spec.dims, spec.box, fill=fill, pad=spec.pad)
    check_loads(spec, tma.starts_of(spec))


@pytest.mark.parametrize("rank", SHAPES)
def test_stores_omit_elements_outside_the_tensor(rank):
    spec = SHAPES[rank]
    starts = [start for start in tma.starts_of(spec) if min(start) >= 0]
    assert len(starts) > 3
    for start in starts[:8]:
        check_store(spec, start)


@pytest.mark.each_value(12)
@pytest.mark.parametrize("dtype", tma.SIZES)
def test_every_type(dtype):
    unit = 16 // tma.SIZES[dtype]
    for fill in ("zero", "nan") if "FLOAT" in dtype else ("zero",):
        spec = Tiled(dtype, (5 * unit, 6), (2 * unit, 4), fill=fill)
        check_loads(spec, [(0, 0), (4 * unit, 1), (-unit, 4), (unit, -2)])
    if "FLOAT32_FTZ" not in dtype and "TFLOAT" not in dtype:
        check_store(spec, (unit, 1))
        check_store(spec, (4 * unit, 4))


def test_tf32_is_rounded_to_nearest():
    words = np.array(
        [0x3F801000, 0x3F800FFF, 0x3F801001, 0x3F803000, 0xBF801FFF, 0x3F802000, 0, 1 << 31], np.uint32
    )
    spec = Tiled("TFLOAT32", (8, 1), (8, 1))
    out = tma.load(spec, spec.map(words), [(0, 0)], Form(2)).view(np.uint32)[0, :8]
    assert (out & 0x1FFF == 0).all()
    exact, rounded = words.view(np.float32).astype(np.float64), out.view(np.float32).astype(np.float64)
    assert (np.abs(exact - rounded) <= 2.0**-11).all()
    assert out[:5].tolist() == [0x3F800000, 0x3F800000, 0x3F802000, 0x3F804000, 0xBF802000]  # ties to even


SWIZZLED = [
    ("32B", 32, 128),
    ("64B", 64, 128),
    ("128B", 128, 128),
    ("128B_ATOM_32B", 128, 128),
    ("128B_ATOM_32B_FLIP_8B", 128, 128),
    ("128B_ATOM_64B", 128, 128),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [4, 33])
@pytest.mark.parametrize("base", [0, 1024, 128, 896])
@pytest.mark.parametrize(("swizzle", "width", "align"), SWIZZLED)
def test_swizzles_use_absolute_addresses(swizzle, width, align, base, rows):
    assert base % align == 0
    target = "sm_100a" if "ATOM" in swizzle else "sm_90a"
    spec = Tiled("BFLOAT16", (width // 2 + 16, 40), (width // 2, rows), swizzle=swizzle)
    region = tma.region_of(spec.bytes, base)
    if base % 1024 and (base + spec.bytes) % 1024 > region - base:
        region += 1024
    check_loads(spec, [(0, 0), (16, 9), (0, -3)], base, target=target)


@pytest.mark.parametrize("base", [0, 128, 896])
@pytest.mark.parametrize(("swizzle", "width"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_stores_undo_a_swizzle(swizzle, width, base):
    spec = Tiled("FLOAT16", (width // 2 + 8, 21), (width // 2, 17), swizzle=swizzle)
    check_store(spec, (8, 3), base)


def test_a_128_byte_swizzle_is_wgmmas_layout():
    """K-major, 64 elements of 16 bits a row: chunk c of row r lies in chunk c ^ r % 8."""
    spec = Tiled("FLOAT16", (64, 32), (64, 32), swizzle="128B")
    memory = np.arange(64 * 32, dtype=np.uint16)
    out = tma.load(spec, spec.map(memory), [(0, 0)], Form(2))[0].view(np.uint16).reshape(32, 8, 8)
    for row in range(32):
        for chunk in range(8):
            want = memory.reshape(32, 8, 8)[row, chunk]
            np.testing.assert_array_equal(out[row, chunk ^ row % 8], want)


@pytest.mark.parametrize(("swizzle", "width"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_rows_narrower_than_a_swizzle(swizzle, width):
    """Rows of 16 bytes lie as far apart as the swizzle is wide; only their own bytes count."""
    spec = Tiled("FLOAT16", (24, 12), (8, 10), swizzle=swizzle)
    memory = tma.memory_of(RNG, spec)
    region = tma.region_of(10 * width)
    out = np.zeros((1, region), np.uint8)
    text = tma.load_text(Form(2), 10 * width, 0, expect=spec.bytes)
    tma.run(text, "sm_90a", [spec.map(memory), np.array([[8, 1]], np.int32), out])
    rows = tma.loaded(spec, memory, spec.elements((8, 1))).reshape(10, 16)
    where = tma.places(10 * width, swizzle).reshape(10, width)[:, :16]
    np.testing.assert_array_equal(out[0][where], rows)


@pytest.mark.parametrize("steps", [(1, 2, 1), (1, 1, 3), (1, 2, 3), (1, 8, 1)])
def test_element_strides(steps):
    spec = Tiled("UINT32", (16, 19, 9), (8, 6, 7), steps)
    assert spec.counts == (8, -(-6 // steps[1]), -(-7 // steps[2]))
    check_loads(spec, [(0, 0, 0), (8, 14, 5), (-4, -1, -2), (4, 3, 1)])
    check_store(spec, (4, 3, 1))
    check_store(spec, (8, 16, 6))


INTERLEAVED = [
    (
        (1, 7, 5, 3, 2),
        (1, 3, 2, 1, 2),
        [(0, 0, 0, 0, 0), (0, 1, 1, 2, 0), (0, 5, -1, 1, 1), (0, -2, 4, 3, 0)],
    ),
    ((1, 7, 4, 3), (1, 5, 1, 2), [(0, 0, 0, 0), (0, 4, 3, 1), (0, -1, 1, 2), (0, 1, 4, 0)]),
    ((1, 6, 5), (1, 1, 3), [(0, 0, 0), (0, 5, 2), (0, 2, 4), (0, -1, 0)]),
]


@pytest.mark.parametrize(("slice", "swizzle"), [(16, "none"), (16, "32B"), (32, "none"), (32, "32B")])
@pytest.mark.parametrize(("dims", "box", "starts"), INTERLEAVED)
def test_interleaved_tensors(dims, box, starts, slice, swizzle):
    spec = Interleaved("UINT16", dims, box, swizzle=swizzle, slice=slice)
    check_loads(spec, starts)
    check_store(spec, starts[1])


@pytest.mark.parametrize("mode", ["", ".tile"])
@pytest.mark.parametrize("hint", [False, True])
@pytest.mark.parametrize("state", ["shared::cta", "shared::cluster"])
def test_other_ways_to_write_it(state, hint, mode):
    spec, form = SHAPES[2], {"state": state, "hint": hint, "mode": mode}
    check_loads(spec, [(8, 2)], **form)
    check_store(spec, (8, 2), mode=mode, hint=hint)


@pytest.mark.parametrize("seed", [1, 2])
def test_copies_that_end_late(seed):
    spec = SHAPES[3]
    memory = tma.memory_of(RNG, spec)
    out = tma.load(spec, spec.map(memory), [(8, 1, 2)], Form(3), seed=seed)
    np.testing.assert_array_equal(out[0, : spec.bytes], tma.loaded(spec, memory, spec.elements((8, 1, 2))))


@pytest.mark.parametrize("swizzle", ["none", "64B", "128B_ATOM_32B"])
def test_gather4(swizzle):
    """Four rows of a matrix, in the order given, whichever of them lie outside."""
    box = 64 if swizzle == "128B_ATOM_32B" else 32
    spec = Tiled("BFLOAT16", (80, 30), (box, 1), swizzle=swizzle, fill="nan")
    starts = [(0, 1, 5, 0, 9), (16, 29, 29, 3, 3), (-8, -1, 30, 7, 0), (72, 40, -40, 12, 13)]
    memory = tma.memory_of(RNG, spec)
    form = Form(2, ".tile::gather4", coords=5, target="sm_100a")
    whole = Tiled("BFLOAT16", spec.dims, (box, 4), swizzle=swizzle)
    out = tma.load(whole, spec.map(memory), starts, form)
    for got, start in zip(out, starts, strict=True):
        rows = [tma.loaded(spec, memory, spec.elements((start[0], row))) for row in start[1:]]
        want = tma.in_shared(np.concatenate(rows), swizzle, 0, len(got))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("start", [(0, 1, 5, 0, 9), (16, 29, 2, 30, 3), (72, 4, 3, 2, 1)])
def test_scatter4(start):
    spec = Tiled("BFLOAT16", (80, 30), (32, 1), swizzle="64B")
    memory = RNG.integers(0, 256, spec.extent, dtype=np.uint8)
    box = RNG.integers(0, 256, 4 * spec.bytes, dtype=np.uint8)
    want = memory
    for n, row in enumerate(start[1:]):
        want = tma.stored(spec, want, spec.elements((start[0], row)), box[n * spec.bytes :])
    tile = tma.in_shared(box, "64B", 0, 1024)
    form = Form(2, ".tile::scatter4", coords=5, target="sm_100a")
    tma.store(spec.map(memory), start, tile, form, 4 * spec.bytes)
    np.testing.assert_array_equal(memory, want)


def test_gathered_boxes_have_one_row():
    spec = Tiled("BFLOAT16", (80, 30), (32, 4))
    form = Form(2, ".tile::gather4", coords=5, target="sm_100a")
    with pytest.raises(emulator.Fault):
        tma.load(spec, spec.map(tma.memory_of(RNG, spec)), [(0, 1, 5, 0, 9)], form)


@pytest.mark.parametrize(
    ("dtype", "data", "chunk", "row"),
    [("16U4_ALIGN8B", 8, 8, 64), ("16U4_ALIGN16B", 8, 16, 64), ("16U6_ALIGN16B", 12, 16, 96)],
)
def test_packed_types(dtype, data, chunk, row):
    """Sixteen elements each take 8 or 12 bytes of global memory; their padding's bytes may be anything."""
    memory = RNG.integers(0, 256, (6, 2 * row), dtype=np.uint8)
    box_rows = 4
    tensor = emulator.TensorMap.tiled(
        memory,
        dtype=dtype,
        dims=(256, 6),
        strides_bytes=(2 * row,),
        box=(128, box_rows),
        element_strides=(1, 1),
    )
    starts = np.array([(0, 0), (128, 1), (0, 4)], np.int32)
    count = 128 // 16 * chunk * box_rows
    out = np.zeros((3, tma.region_of(count)), np.uint8)
    text = tma.load_text(Form(2, target="sm_100a"), count, 0, expect=128 // 16 * data * box_rows)
    tma.run(text, "sm_100a", [tensor, starts, out], grid=3)
    for got, (column, first) in zip(out, starts, strict=True):
        chunks = got[:count].reshape(box_rows, 8, chunk)[:, :, :data]
        want = np.zeros((box_rows, row), np.uint8)
        rows = memory[first : first + box_rows, column // 128 * row :][:, :row]
        want[: len(rows)] = rows
        np.testing.assert_array_equal(chunks.reshape(box_rows, row), want)


def test_stores_of_six_bits_drop_the_two_above():
    memory = RNG.integers(0, 256, (6, 192), dtype=np.uint8)
    tensor = emulator.TensorMap.tiled(
        memory,
        dtype="16U6_ALIGN16B",
        dims=(256, 6),
        strides_bytes=(192,),
        box=(128, 4),
        element_strides=(1, 1),
    )
    tile = RNG.integers(0, 256, 1024, dtype=np.uint8)
    want = memory.copy()
    bits = np.unpackbits(tile[: 3 * 128].reshape(3, 128, 1), axis=2, bitorder="little")[:, :, :6]
    want[3:, 96:] = np.packbits(bits.reshape(3, -1), axis=1, bitorder="little")
    tma.store(tensor, (128, 3), tile, Form(2, target="sm_100a"), 512)
    np.testing.assert_array_equal(memory, want)


REDUCTIONS = [
    *(("add", dtype) for dtype in ("UINT32", "INT32", "UINT64", "FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64")),
    *((op, dtype) for op in ("min", "max") for dtype in ("UINT32", "INT32", "UINT64", "INT64")),
    *((op, dtype) for op in ("min", "max") for dtype in ("FLOAT16", "BFLOAT16")),
    ("inc", "UINT32"),
    ("dec", "UINT32"),
    *((op, dtype) for op in ("and", "or", "xor") for dtype in ("UINT32", "UINT64")),
]


@pytest.mark.each_value(11)
@pytest.mark.parametrize(("operation", "dtype"), REDUCTIONS)
def test_reductions(operation, dtype):
    unit = 16 // tma.SIZES[dtype]
    spec = Tiled(dtype, (3 * unit, 7), (2 * unit, 4), swizzle="32B")
    for start in ((unit, 1), (2 * unit, 5)):
        memory = tma.numbers(RNG, dtype, spec.extent // spec.size)
        box = tma.numbers(RNG, dtype, spec.bytes // spec.size)
        box[: len(box) // 4] = memory[: len(box) // 4]
        address, inside = spec.elements(start)
        want = memory.copy()
        at = address[inside] // spec.size
        want[at] = tma.reduced(operation, dtype, memory[at], box[inside])
        tile = tma.in_shared(box.view(np.uint8), "32B", 0, 1024)
        tma.store(spec.map(memory), start, tile, Form(2), spec.bytes, operation=f".{operation}")
        np.testing.assert_array_equal(memory.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_boxes_in_chunks_are_those_of_single_elements(swizzle, monkeypatch):
    """The interpreter moves boxes 16 bytes at a time; the bytes and the counters are the same."""
    monkeypatch.setenv("WEFT_EMULATOR_COMPILED", "0")
    spec = Tiled("UINT16", (192, 9, 3), (64, 4, 2), swizzle=swizzle)
    memory = tma.memory_of(np.random.default_rng(5), spec)
    starts = [(0, 0, 0), (128, 5, 1), (64, 6, 1), (136, 0, 0)]
    quick = tma.load(spec, spec.map(memory), starts, Form(3))
    assert tensor_map.of_box(spec.map(memory).fields, starts[0]).in_chunks
    monkeypatch.setattr(tensor_map, "_has_chunks", lambda map_: False)
    np.testing.assert_array_equal(tma.load(spec, spec.map(memory), starts, Form(3)), quick)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shifts", [False, True])
def test_ragged_maps_name_any_rows_of_a_matrix(shifts, compiled):
    """Triton and quack make one map for all sequences of rows. It has so many rows that a coordinate makes
    any of them the last, and other dimensions move the address by sums that wrap around at 64 bits. Or the
    map begins so many rows before the matrix.
    """
    many, pitch, rows = 1 << 30, 64, 40
    matrix = RNG.integers(0, 1 << 16, (rows, pitch // 2), dtype=np.uint16)
    strides = (pitch, pitch) if shifts else (pitch, (1 << 34) - pitch, pitch)
    dims = (pitch // 2, many, *[(1 << 31) - 1] * (len(strides) - 1))
    box = (pitch // 2, 8, *[1] * (len(strides) - 1))
    made = emulator.TensorMap.tiled(matrix, dtype="UINT16", dims=dims, strides_bytes=strides, box=box)
    if shifts:
        made = emulator.TensorMap(replace(made.fields, address=-many * pitch), matrix)

    def start(first, count):
        return (0, many - count, *[many] * (not shifts), first + count)

    spec, form = Tiled("UINT16", (pitch // 2, 8), (pitch // 2, 8)), Form(len(dims))
    # Sequences inside and at the end of the matrix, the second shorter than the box.
    got = tma.load(spec, made, [start(8, 16), start(35, 5)], form, compiled=compiled)
    got = got[:, : spec.bytes].view(np.uint16).reshape(2, 8, -1)
    np.testing.assert_array_equal(got[0], matrix[8:16])
    np.testing.assert_array_equal(got[1], np.pad(matrix[35:], ((0, 3), (0, 0))))
    tile, want = np.arange(512, dtype=np.uint16), matrix.copy()
    want[10:13] = tile[: 3 * pitch // 2].reshape(3, -1)
    tma.store(made, start(10, 3), tile.view(np.uint8), form, spec.bytes, compiled=compiled)
    np.testing.assert_array_equal(matrix, want)
