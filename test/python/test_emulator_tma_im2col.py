"""im2col copies between tensors and shared memory, against the PTX ISA's description."""

import numpy as np
import pytest
import tma_reference as tma
from tma_reference import Form, Im2col

from weft import emulator

RNG = np.random.default_rng(12)
# Each with starts and offsets: coordinates from the channel on, then one offset for W, H and D.
CASES = {
    "3d": (
        Im2col("UINT16", (16, 7, 3), (-1,), (-1,), 8, 16),
        [((0, -1, 0), (0,)), ((8, 3, 1), (2,)), ((0, 5, 2), (1,)), ((8, 0, 1), (9,))],
    ),
    "4d": (
        Im2col("UINT16", (16, 6, 5, 3), (-1, -1), (-1, -1), 16, 32),
        [((0, -1, -1, 0), (0, 0)), ((0, 3, 2, 1), (2, 1)), ((8, 4, 3, 2), (2, 2)), ((-8, 0, 0, 0), (0, 1))],
    ),
    "5d": (
        Im2col("UINT16", (8, 4, 4, 3, 3), (-1, -1, -1), (-1, -1, -1), 8, 40),
        [((0, -1, -1, -1, 0), (0, 0, 0)), ((0, 1, 1, 1, 1), (1, 2, 0)), ((0, 2, 2, 1, 2), (2, 2, 2))],
    ),
    "offsets reach into the padding": (
        Im2col("FLOAT16", (16, 9, 8, 2), (0, 0), (-2, -2), 8, 24, fill="nan"),
        [((0, 0, 0, 0), (2, 2)), ((8, 5, 4, 0), (2, 0)), ((8, 6, 5, 1), (7, 7))],
    ),
    "the box goes beyond the image": (
        Im2col("BFLOAT16", (8, 4, 3, 2), (-3, -2), (2, 1), 8, 64, fill="nan"),
        [((0, -3, -2, 0), (0, 0)), ((0, 5, 3, 0), (0, 0)), ((0, 1, 1, 1), (0, 0))],
    ),
    "strides": (
        Im2col("UINT16", (16, 8, 9, 4), (-1, -1), (-1, -1), 16, 32, (1, 2, 2, 1)),
        [((0, -1, -1, 0), (0, 0)), ((0, 5, 3, 1), (1, 1)), ((0, 6, 7, 3), (2, 0))],
    ),
    "strides that differ": (
        Im2col("UINT32", (8, 7, 6, 5, 2), (0, -1, 0), (-1, 0, -2), 4, 33, (1, 3, 2, 1, 1)),
        [((0, 0, -1, 0, 0), (0, 0, 0)), ((4, 2, 3, 1, 0), (1, 1, 1))],
    ),
    "channels": (
        Im2col("UINT8", (48, 3, 3, 2), (0, 0), (0, 0), 64, 8, pad=1),
        [((0, 0, 0, 0), (0, 0)), ((32, 2, 1, 0), (0, 0)), ((-16, 1, 2, 1), (1, 0)), ((64, 0, 0, 0), (0, 0))],
    ),
    "images": (
        Im2col("UINT16", (8, 2, 2, 4), (0, 0), (0, 0), 8, 12),
        [((0, 0, 0, 3), (0, 0)), ((0, 1, 1, -1), (0, 0)), ((0, 0, 1, 7), (0, 0))],
    ),
    "one pixel": (
        Im2col("FLOAT64", (8, 5, 4, 2), (-1, -1), (-1, -1), 2, 1),
        [((2, 3, 2, 1), (2, 2)), ((0, -1, -1, 0), (0, 0))],
    ),
}


def load(spec, memory, cases, base=0):
    rank = len(spec.dims)
    form = Form(rank, ".im2col", offsets=rank - 2)
    return tma.load(spec, spec.map(memory), [(*at, *offsets) for at, offsets in cases], form, base)


@pytest.mark.parametrize("name", CASES)
def test_loads(name):
    spec, cases = CASES[name]
    memory = tma.memory_of(RNG, spec)
    for got, (start, offsets) in zip(load(spec, memory, cases), cases, strict=True):
        box = tma.loaded(spec, memory, spec.elements(start, offsets))
        want = tma.in_shared(box, "none", 0, len(got))
        np.testing.assert_array_equal(got, want, err_msg=f"at {start}, {offsets}")


def test_the_examples_of_the_isa():
    """Figures 13 and 14: pixels run along W from the filter's base to the box's end, then H, then N."""
    for lower, upper, offset in ((-1, -1, 0), (0, -2, 2)):
        spec = Im2col("UINT16", (64, 9, 14, 64), (lower, lower), (upper, upper), 8, 64)
        memory = np.arange(64 * 9 * 14 * 64, dtype=np.uint32).astype(np.uint16)
        image = memory.reshape(64, 14, 9, 64)
        base = 7 if offset == 0 else 6
        (got,) = load(spec, memory.view(np.uint8), [((0, base, 7, 4), (offset, offset))])
        pixels = got.view(np.uint16).reshape(-1, 8)
        row = [(w, 7) for w in range(base, 9 + upper)]
        row += [(w, h) for h in range(8, 14 + upper) for w in range(lower, 9 + upper)]
        for pixel, (w, h) in zip(pixels, row, strict=False):
            w, h = w + offset, h + offset
            inside = 0 <= w < 9 and 0 <= h < 14
            np.testing.assert_array_equal(pixel, image[4, h, w, :8] if inside else 0)


@pytest.mark.parametrize("base", [0, 384])
@pytest.mark.parametrize(("swizzle", "channels"), [("32B", 16), ("64B", 32), ("128B", 64)])
def test_swizzles(swizzle, channels, base):
    spec = Im2col("FLOAT16", (64, 6, 5, 3), (-1, -1), (-1, -1), channels, 24, swizzle=swizzle)
    memory = tma.memory_of(RNG, spec)
    start, offsets = (0, 2, 1, 0), (1, 2)
    (got,) = load(spec, memory, [(start, offsets)], base)
    box = tma.loaded(spec, memory, spec.elements(start, offsets))
    np.testing.assert_array_equal(got, tma.in_shared(box, swizzle, base, len(got)))


def test_a_convolution():
    """An implicit product over a filter of 3 x 3, one load for each of its places."""
    spec = Im2col("FLOAT16", (8, 6, 5, 2), (-1, -1), (-1, -1), 8, 60)
    image = RNG.integers(-4, 5, (2, 5, 6, 8)).astype(np.float16)
    weights = RNG.integers(-4, 5, (3, 3, 8, 4)).astype(np.float32)
    cases = [((0, -1, -1, 0), (x, y)) for y in range(3) for x in range(3)]
    columns = load(spec, image.view(np.uint8).ravel(), cases)[:, : spec.bytes].view(np.float16)
    columns = columns.reshape(3, 3, 60, 8).astype(np.float32)
    product = sum(columns[y, x] @ weights[y, x] for y in range(3) for x in range(3))
    padded = np.pad(image.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(padded[:, y : y + 5, x : x + 6] @ weights[y, x] for y in range(3) for x in range(3))
    np.testing.assert_array_equal(product.reshape(2, 5, 6, 4), want)


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        (Im2col("UINT16", (16, 7, 3), (0,), (0,), 8, 12), (8, 3, 1)),
        (Im2col("UINT16", (16, 6, 5, 3), (0, 0), (0, 0), 16, 32), (0, 3, 2, 1)),
        (Im2col("UINT16", (16, 6, 5, 3), (1, 2), (-1, 0), 16, 20), (0, 3, 2, 1)),
        (Im2col("UINT16", (8, 4, 4, 3, 3), (0, 0, 0), (0, 0, -1), 8, 30), (0, 1, 2, 1, 2)),
    ],
)
def test_stores(spec, start):
    memory = RNG.integers(0, 256, spec.extent, dtype=np.uint8)
    box = RNG.integers(0, 256, spec.bytes, dtype=np.uint8)
    want = tma.stored(spec, memory, spec.elements(start), box)
    tile = tma.in_shared(box, "none", 0, tma.region_of(spec.bytes))
    tma.store(spec.map(memory), start, tile, Form(len(spec.dims), ".im2col_no_offs"), spec.bytes)
    np.testing.assert_array_equal(memory, want)


def test_a_reduction():
    spec = Im2col("UINT32", (8, 6, 5, 3), (0, 0), (0, 0), 8, 16)
    start = (0, 2, 1, 0)
    memory = RNG.integers(0, 1 << 20, spec.extent // 4, dtype=np.uint32)
    box = RNG.integers(0, 1 << 20, spec.bytes // 4, dtype=np.uint32)
    address, inside = spec.elements(start)
    assert inside.all()
    want = memory.copy()
    want[address // 4] += box
    tile = tma.in_shared(box.view(np.uint8), "none", 0, 1024)
    form = Form(4, ".im2col_no_offs")
    tma.store(spec.map(memory), start, tile, form, spec.bytes, operation=".add")
    np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("start", [(0, -2, 0, 0), (0, 5, 0, 0), (0, 0, 4, 0)])
def test_a_filter_that_begins_outside_the_box_is_a_fault(start):
    spec = Im2col("UINT16", (16, 6, 5, 3), (-1, -1), (-1, -1), 16, 32)
    with pytest.raises(emulator.Fault):
        load(spec, tma.memory_of(RNG, spec), [(start, (0, 0))])


def test_the_map_must_be_of_the_mode():
    tiled = tma.Tiled("UINT16", (16, 6, 5), (16, 2, 1))
    spec = Im2col("UINT16", (16, 6, 5), (0,), (0,), 16, 2)
    memory = tma.memory_of(RNG, spec)
    with pytest.raises(emulator.Fault):
        tma.load(spec, tiled.map(memory), [(0, 0, 0, 0)], Form(3, ".im2col", offsets=1))
    with pytest.raises(emulator.Fault):
        tma.load(tiled, spec.map(memory), [(0, 0, 0)], Form(3))
