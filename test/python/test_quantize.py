"""`weft.quantize` in the emulator, against NumPy and ml_dtypes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import WeftError

FP8 = {"f8E4M3FN": (ml_dtypes.float8_e4m3fn, 448), "f8E5M2": (ml_dtypes.float8_e5m2, 57344)}
SOURCES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
SCALES = ("row", "tensor", "column", "group", "block")
SHAPES = [(1, 1), (7, 130), (129, 257)]
LEAST = np.float32(2.0**-100)


def numbers(shape, source="bf16", seed=0):
    rng = np.random.default_rng([seed, *shape])
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * np.exp(rng.standard_normal(shape))).astype(SOURCES[source])


def spread(x, scales):
    """The largest magnitude of the elements that share a scale with each element."""
    down, across = {
        "tensor": x.shape,
        "row": (1, x.shape[1]),
        "column": (x.shape[0], 1),
        "group": (1, 128),
        "block": (128, 128),
    }[scales]
    found = np.zeros(x.shape, np.float32)
    for i, j in itertools.product(range(0, x.shape[0], down), range(0, x.shape[1], across)):
        part = np.abs(x[i : i + down, j : j + across].astype(np.float32))
        found[i : i + down, j : j + across] = np.fmax.reduce(part, axis=None, initial=0)
    return found


def expected(x, dtype="f8E4M3FN", scales="tensor", powers_of_two=False):
    """The matrix in fp8, and the scale of each element."""
    element, most = FP8[dtype]
    largest = spread(x, scales)
    factors = np.maximum(largest / np.float32(most), LEAST)
    if powers_of_two:
        factors = np.exp2(np.ceil(np.log2(factors.astype(np.float64)))).astype(np.float32)
    factors[largest == 0] = 1
    with np.errstate(invalid="ignore"):
        scaled = x.astype(np.float32) * (np.float32(1) / factors)
    return np.clip(scaled, -most, most).astype(element), factors


def every(scales, shape):
    """Scales of a result, one for each element."""
    array = np.asarray(scales)
    if array.shape == (1,):
        return np.broadcast_to(array, shape)
    for axis, size in enumerate(shape):
        if array.shape[axis] not in (1, size):
            array = np.repeat(array, 128, axis)[(slice(None),) * axis + (slice(size),)]
    return np.broadcast_to(array, shape)


def check(x, **options):
    scales = options.get("scales", "tensor")
    found = weft.quantize(x, **options, transposed=True)
    plain = {name: value for name, value in options.items() if name != "arch"}
    values, factors = expected(x, **plain)
    turned, of_turned = expected(x.T, **plain) if scales == "group" else (values.T, factors.T)
    for array, of_array, want, of_want in (
        (found.values, found.scales, values, factors),
        (found.transposed, found.transposed_scales, turned, of_turned),
    ):
        assert array.dtype == want.dtype and array.strides[0] % 16 == 0 and array.strides[1] == 1
        np.testing.assert_array_equal(array.view(np.uint8), want.view(np.uint8))
        np.testing.assert_array_equal(every(of_array, want.shape), of_want)
    return found


@pytest.mark.each_value(1)
@pytest.mark.parametrize("scales", SCALES)
def test_results_equal_numpys(scales):
    check(numbers((129, 257)), scales=scales)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", FP8)
@pytest.mark.parametrize("source", SOURCES)
def test_types_and_sizes(source, dtype, scales, shape):
    x = numbers(shape, source)
    for powers_of_two in (False, True):
        check(x, dtype=dtype, scales=scales, powers_of_two=powers_of_two)


@pytest.mark.slow
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("source", ["f32", "bf16"])
def test_contiguous_columns_and_rows_apart(source, scales):
    x = numbers((300, 64), source)
    check(np.asfortranarray(x), scales=scales)
    check(x[:, :48], scales=scales)
    check(x.T[:, 3:290], scales=scales)


@pytest.mark.slow
@pytest.mark.parametrize("scales", ["tensor", "row", "column"])
def test_many_tiles_of_a_cta(scales):
    check(numbers((128 * 23 + 1, 128 * 24)), scales=scales)


@pytest.mark.slow
@pytest.mark.parametrize("scales", SCALES)
def test_one_of_the_results(scales):
    x = numbers((20, 144))
    both = weft.quantize(x, scales=scales, transposed=True)
    kept, turned = (
        weft.quantize(x, scales=scales),
        weft.quantize(x, scales=scales, values=False, transposed=True),
    )
    assert kept.transposed is kept.transposed_scales is turned.values is turned.scales is None
    for found, want in zip((*kept[:2], *turned[2:]), both, strict=True):
        np.testing.assert_array_equal(found.astype(np.float32), want.astype(np.float32))


@pytest.mark.slow
def test_zeros_nan_infinity_and_the_least_scale():
    x = np.zeros((6, 16), np.float32)
    x[1, 0], x[1, 1], x[2, 0], x[2, 1], x[3, 0], x[4, :] = np.nan, -2, np.inf, 1, 1e-40, 3.4e38
    found = weft.quantize(x, scales="row")
    most = np.float32(3.4e38) / np.float32(448)
    want = [1, np.float32(2) / np.float32(448), np.inf, LEAST, most, 1]
    np.testing.assert_array_equal(found.scales[:, 0], np.array(want, np.float32))
    values = found.values.astype(np.float32)
    assert np.isnan(values[1, 0]) and values[1, 1] == -448
    assert np.isnan(values[2, 0]) and (values[2, 1:] == 0).all()
    assert (values[[0, 3, 5]] == 0).all() and (values[4] == 448).all()


@pytest.mark.each_value(2)
@pytest.mark.parametrize("shape", [(0, 128), (5, 0), (0, 0), (0, 130)])
@pytest.mark.parametrize("scales", SCALES)
def test_matrices_without_elements(scales, shape):
    rows, columns = shape
    x = numbers(shape)
    for each in (x, np.asfortranarray(x)):
        found = weft.quantize(each, scales=scales, transposed=True)
        assert found.values.shape == shape and found.transposed.shape == shape[::-1]
        of_groups = {"group": ((rows, -(-columns // 128)), (columns, -(-rows // 128)))}
        of_blocks = tuple(-(-size // 128) for size in shape)
        both = {"tensor": ((1,),) * 2, "row": ((rows, 1), (1, rows)), "column": ((1, columns), (columns, 1))}
        both |= of_groups | {"block": (of_blocks, of_blocks[::-1])}
        assert (found.scales.shape, found.transposed_scales.shape) == both[scales]
        assert (found.scales == 1).all() and (found.transposed_scales == 1).all()
    w = weft.quantize(numbers((24, columns)), scales={"group": "block"}.get(scales, "tensor"))
    if scales in ("row", "group"):
        given = {"transpose_b": True, "out_dtype": "f32"}
        d = weft.matmul(found.values, w.values, scales=(found.scales, w.scales), **given)
        assert d.shape == (rows, 24) and not d.any()


def test_scales_are_those_of_products():
    x, w = numbers((20, 130)), numbers((24, 130), seed=1)
    groups, blocks = weft.quantize(x, scales="group"), weft.quantize(w, scales="block")
    d = weft.matmul(
        groups.values, blocks.values, transpose_b=True, scales=(groups.scales, blocks.scales), out_dtype="f32"
    )
    want = x.astype(np.float64) @ w.astype(np.float64).T
    assert np.abs(d - want).max() < 0.05 * np.abs(want).max()


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (np.ones((2, 2), np.int8), {}, "x must have elements of f32, bf16, f16, got i8"),
        (np.ones(4, np.float32), {}, "x must be a matrix with sizes in 0..2147483647, got a shape of (4,)"),
        (np.ones((4, 8, 2), np.float32)[:, ::2, 0], {}, "x must have contiguous rows or columns"),
        (np.ones((4, 8), np.float32)[::-1], {}, "pass numpy.ascontiguousarray(x)"),
        ([[1.0]], {}, "x must be an array of PyTorch, CuPy or NumPy, got 'list'"),
        (np.ones((2, 2), np.float32), {"dtype": "f8E4M3"}, "dtype must be one of f8E4M3FN, f8E5M2"),
        (np.ones((2, 2), np.float32), {"scales": "rows"}, "did you mean 'row'?"),
        (np.ones((2, 2), np.float32), {"values": False}, "values or transposed must be True"),
        (np.ones((2, 2), np.float32), {"transposed": 1}, "transposed must be True or False, got 1"),
        (np.ones((2, 2), np.float32), {"arch": "sm_80"}, "must be sm_89 or later, got sm_80"),
        (
            np.ones((2, 2), np.float32),
            {"arch": 90},
            "arch must be the name of a chip, such as 'sm_90a', got 90",
        ),
    ],
)
def test_mistakes_are_named(x, options, message):
    with pytest.raises(WeftError) as error:
        weft.quantize(x, **options)
    assert message in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_100a", "sm_120a"])
def test_other_chips(arch):
    check(numbers((33, 40)), scales="group", arch=arch)
