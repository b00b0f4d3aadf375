"""Quantization to formats with block scales, the layouts of elements and scales, and their products."""

import ml_dtypes
import numpy as np
import pytest

from weft import reference
from weft.errors import WeftError
from weft.isa import block_scales as layout
from weft.isa.block_scales import FORMATS

ELEMENTS = [(kind, element) for kind, each in FORMATS.items() for element in each.elements]
DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("kind", "element"), ELEMENTS)
@pytest.mark.parametrize("rounding", ["down", "up"])
def test_a_group_differs_from_what_was_quantized_by_half_a_step_of_its_largest(kind, element, rounding):
    x = normal(40, 100) * np.exp2(normal(40, 1, seed=1) * 20)
    q = reference.quantize(x, kind, element=element, rounding=rounding)
    info, group = ml_dtypes.finfo(DTYPES[element]), FORMATS[kind].group
    assert q.elements.dtype == DTYPES[element] and q.elements.shape == x.shape
    assert q.scales.shape == (40, -(-100 // group))
    steps = q.factor * q.scales.astype(np.float64) * float(info.max)
    spread = np.repeat(steps, group, axis=1)[:, :100]
    # A scale that is rounded down lets a group's largest numbers saturate; one of nvfp4 is rounded, too.
    saturates = np.maximum(np.abs(x) - spread, 0)
    error = np.maximum(float(info.eps) / 2 * spread, saturates)
    assert (np.abs(q.values - x) <= error * 1.001).all()
    if kind != "nvfp4" and rounding == "up":
        assert not saturates.any()


def test_an_mx_scale_is_the_power_of_two_of_the_specification():
    def scale(largest, kind="mxfp4", **options):
        return float(reference.quantize(np.full((1, 32), largest), kind, **options).scales[0, 0])

    assert [scale(x) for x in (6.0, 4.0, 3.999999999999, 8.0)] == [1, 1, 0.5, 2]
    assert [scale(x, rounding="up") for x in (6.0, 6.0000001, 3.0, 3.0000001)] == [1, 2, 0.5, 1]
    assert scale(448.0, "mxfp8") == 1 and scale(57344.0, "mxfp8", element="e5m2") == 1
    assert scale(0.0) == 1
    assert np.isnan(scale(np.inf)) and np.isnan(scale(np.nan))
    assert scale(1e-300) == 2.0**-127 and scale(1e300) == 2.0**127


def test_elements_are_rounded_once():
    """A step to one side of a tie, which f32 doesn't have."""
    for element, largest, tie, step in (("e4m3", 256, 1 + 2**-4, 2**-3), ("e2m1", 4, 1.25, 0.5)):
        kind = "mxfp8" if element == "e4m3" else "mxfp4"
        x = np.array([[largest, tie - 2**-40, tie, tie + 2**-40, -tie - 2**-40]])
        found = reference.quantize(x, kind, element=element).elements.astype(np.float64)
        assert found.tolist() == [[largest, 1, 1, 1 + step, -1 - step]]


def test_an_nvfp4_scale_uses_all_of_e4m3():
    x = normal(16, 64)
    q = reference.quantize(x, "nvfp4")
    assert q.scales.dtype == ml_dtypes.float8_e4m3fn and float(q.scales.astype(np.float32).max()) == 448
    assert reference.quantize(x, "nvfp4", factor=0.25).factor == 0.25
    assert reference.quantize(np.zeros((2, 16)), "nvfp4").factor == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_lists_and_matrices_without_rows_are_quantized(kind):
    of_list, empty = (reference.quantize(x, kind) for x in ([[1.0] * 40], np.zeros((0, 40))))
    assert np.array_equal(of_list.values, np.ones((1, 40)))
    assert empty.elements.shape == (0, 40) and empty.scales.shape == (0, -(-40 // FORMATS[kind].group))


def test_a_group_of_nvfp4_with_infinity_has_a_scale_of_nan():
    x = normal(2, 32)
    x[1, 3] = -np.inf
    scales = reference.quantize(x, "nvfp4").scales.astype(np.float32)
    assert np.array_equal(np.isnan(scales), [[False, False], [True, False]])


def test_the_least_numbers_are_quantized_to_nvfp4():
    q = reference.quantize(np.full((1, 16), 5e-324), "nvfp4")
    assert np.isfinite(q.values).all() and q.factor > 0


@pytest.mark.parametrize("element", ["e2m1", "e2m3", "e3m2"])
def test_packed_elements_follow_each_other_from_the_lowest_bit(element):
    dtype = DTYPES[element]
    bits = ml_dtypes.finfo(dtype).bits
    codes = np.random.default_rng(2).integers(0, 1 << bits, (3, 16)).astype(np.uint8)
    packed = reference.pack(codes.view(dtype))
    assert packed.shape == (3, 16 * bits // 8)
    for row, stream in zip(codes, packed, strict=True):
        number = int.from_bytes(stream.tobytes(), "little")
        assert [number >> bits * i & (1 << bits) - 1 for i in range(16)] == row.tolist()
    assert np.array_equal(reference.unpack(packed, element).view(np.uint8), codes)


def test_the_first_of_two_fp4_elements_is_the_low_nibble():
    assert reference.pack(np.array([[1.0, -6.0]]).astype(DTYPES["e2m1"])).tolist() == [[0xF2]]


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (32, 4), (130, 5), (300, 9)])
def test_tiles_of_scales_are_where_the_layout_has_them(rows, groups):
    codes = np.random.default_rng(3).integers(0, 255, (rows, groups)).astype(np.uint8)
    scales = codes.view(ml_dtypes.float8_e8m0fnu)
    tiled = reference.tiled_scales(scales)
    assert tiled.shape == layout.tiles(rows, groups)
    flat = tiled.view(np.uint8).reshape(-1)
    at = [[layout.offset(row, group, groups) for group in range(groups)] for row in range(rows)]
    assert np.array_equal(flat[np.array(at)], codes)
    rest = np.ones(flat.size, np.bool_)
    rest[np.ravel(at)] = False
    assert (flat[rest] == 0x7F).all()  # 1, and no NaN
    for again in (tiled, tiled.reshape(-1), tiled.reshape(-1, 32, 16)):
        assert np.array_equal(reference.plain_scales(again, rows, groups).view(np.uint8), codes)


def test_batches_are_tiled_matrix_by_matrix():
    scales = np.exp2(np.random.default_rng(4).integers(-9, 9, (3, 130, 5))).astype(ml_dtypes.float8_e8m0fnu)
    tiled = reference.tiled_scales(scales)
    assert tiled.shape == (3, *layout.tiles(130, 5))
    assert all(np.array_equal(t, reference.tiled_scales(s)) for t, s in zip(tiled, scales, strict=True))
    assert np.array_equal(reference.plain_scales(tiled, 130, 5), scales)


@pytest.mark.parametrize(("kind", "element"), ELEMENTS)
def test_a_product_of_quantized_matrices_is_that_of_their_values(kind, element):
    a, b = (reference.quantize(normal(m, 96, seed=m), kind, element=element, factor=1.0) for m in (20, 12))
    want = reference.product(
        a.elements, b.elements, scale_a=a.tiled_scales, scale_b=b.tiled_scales, transpose_b=True
    )
    assert np.array_equal(want.values, a.values @ b.values.T)
    assert want.compare(want.values.astype(np.float32)).passed
    assert not want.compare((1 + 2.0**-12) * want.values + 2.0**-10 * np.abs(want.values).max()).passed


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: reference.quantize(normal(1, 32), "mxfp5"),
            "kind must be one of mxfp8, mxfp6",
        ),
        (lambda: reference.quantize(normal(1, 32), "mxfp8", element="e2m1"), "element must be e4m3 or e5m2"),
        (lambda: reference.quantize(normal(1, 32), "mxfp8", rounding="even"), "rounding must be 'down' or"),
        (
            lambda: reference.pack(np.zeros((2, 5), DTYPES["e2m1"])),
            "rows of packed elements of 4 bits must have a mul",
        ),
        (
            lambda: reference.pack(np.zeros((2, 6), DTYPES["e2m3"])),
            "rows of packed elements of 6 bits must have a mul",
        ),
        (lambda: reference.pack(np.zeros((2, 6))), "elements must be of float8_e4m3fn, .*, got float64"),
        (lambda: reference.plain_scales(np.zeros(500), 100, 4), r"must be 1 x 512 in the 128x4 layout"),
        (
            lambda: reference.plain_scales(np.zeros(512), 0, 4),
            "rows and groups must be at least 1, got 0 and 4",
        ),
        (lambda: reference.tiled_scales(np.zeros(4)), r"scales must be a matrix or a batch .* shape \(4,\)"),
        (lambda: reference.quantize(1.0, "mxfp8"), "matrix must be an array of real numbers .*, got 1.0"),
        (lambda: reference.quantize(np.ones(32), "mxfp8"), r"two dimensions, got .* of shape \(32,\)"),
        (lambda: reference.quantize([["a"]], "mxfp8"), "matrix must be an array of real numbers"),
        (lambda: reference.quantize(normal(1, 32) + 1j, "mxfp8"), "real numbers .* an array of complex64"),
        (lambda: reference.quantize(normal(1, 32), "nvfp4", factor=0), "factor must be a positive, finite"),
        (lambda: reference.quantize(normal(1, 32), "nvfp4", factor=np.nan), "factor must be a positive"),
        (lambda: reference.quantize(normal(1, 32), "mxfp8", factor="x"), "finite number, got 'x'"),
    ],
)
def test_what_no_format_has_is_refused(call, said):
    with pytest.raises(WeftError, match=said):
        call()
