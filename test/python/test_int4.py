"""Products with 4-bit weights, in the emulator."""

import inspect
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.int4 import tiles
from weft.int4.kernels.few_rows import few_rows
from weft.int4.kernels.many_rows import many_rows
from weft.int4.weights import Int4Weights, quantize_int4

BF16, F16 = ml_dtypes.bfloat16, np.float16
RNG = np.random.default_rng(0)


def weights_of(n, k, group=128, *, asymmetric=True, dtype=BF16):
    """Random integers, and their weights."""
    q = RNG.integers(0, 16, (n, k), dtype=np.uint8)
    groups = -(-k // group) if group else 1
    scales = (RNG.random((n, groups)) / 8 + 0.02).astype(dtype)
    zeros = RNG.integers(0, 16, (n, groups)) if asymmetric else None
    return q, scales, zeros, Int4Weights.pack(q, scales, zeros, group=group)


def unrounded(weights):
    """The weights before they are rounded to 16 bits, as sums of few rows are scaled."""
    q, group = weights.integers().astype(float), weights.group
    if group == 32:
        return weights.dequantize().astype(float)
    of = np.arange(weights.columns) // group if group else np.zeros(weights.columns, int)
    scales, zeros = (
        8.0 if each is None else weights._rows_of(each).astype(float)[:, of]
        for each in (weights.scales, weights.zeros)
    )
    return (q - zeros) * scales


def assert_product(y, x, weights, bias=0.0):
    """Holds a product to float64. The result is rounded once, by at most half a unit in the last place. Each
    of the K / 16 steps of `wgmma` adds products, which are exact, to a sum of f32, and cuts the result: by at
    most 2^-22 of the magnitudes that were added. The same holds for scales, the sums of parts and the bias.
    """
    wide, bias = x.astype(float), np.asarray(bias, float)
    exact = weights.dequantize().astype(float) if len(wide) > tiles.FEW_ROWS else unrounded(weights)
    expected, steps = wide @ exact.T + bias, x.shape[-1] // 16 + 10
    magnitudes = np.abs(wide) @ np.abs(exact).T + np.abs(bias)
    bound = ml_dtypes.finfo(y.dtype).eps / 2 * np.abs(expected) + steps * 2**-22 * magnitudes
    assert (np.abs(y.astype(float) - expected) <= bound).all()


def test_the_kernels_are_short():
    for kernel in (few_rows, many_rows):
        source = Path(inspect.getfile(inspect.unwrap(kernel))).read_text()
        assert len(source.splitlines()) <= 80


@pytest.mark.parametrize("group", [32, 64, 128, 192, 0])
@pytest.mark.parametrize("n, k", [(3, 70), (130, 513), (256, 64)])
def test_weights_are_packed_and_unpacked(n, k, group):
    q, scales, zeros, weights = weights_of(n, k, group)
    assert np.array_equal(weights.integers(), q)
    of = np.arange(k) // group if group else np.zeros(k, int)
    exact = (q.astype(float) - zeros[:, of]) * scales[:, of].astype(float)
    assert np.array_equal(weights.dequantize(), exact.astype(BF16))
    # 16 bytes for each thread of a warpgroup and each 64 x 64.
    assert weights.packed.shape == (-(-n // 64) * -(-k // 64) * 16, 32)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("group", [32, 128, 0])
@pytest.mark.parametrize("dtype", [BF16, F16, np.float32])
def test_quantizing_errs_by_half_a_scale(symmetric, group, dtype):
    exact = (RNG.standard_normal((5, 300)) / 16).astype(dtype)
    exact[1], exact[2, :128] = 0, 0.25  # of one sign
    weights = quantize_int4(exact, group=group, symmetric=symmetric)
    assert weights.dtype == ("f16" if dtype == F16 else "bf16") and (weights.zeros is None) == symmetric
    found, exact = weights.dequantize().astype(float), exact.astype(float)
    for first in range(0, 300, group or 300):
        part = np.s_[:, first : first + (group or 300)]
        # A scale is a seventh of the largest magnitude, or at most two 15ths. An integer is rounded by half a
        # step, and the zero by half a step too; the scale and the weight are rounded to 16 bits.
        step = np.abs(exact[part]).max(1) / (7 if symmetric else 7.5)
        error = np.abs(found[part] - exact[part]).max(1)
        assert (error <= step * (0.55 if symmetric else 1.1)).all()


def case(dtype, m, n, k, group, asymmetric, *, slow=False, **meta):
    name = "-".join(f"{each}" for each in (dtype.__name__, m, n, k, group, *meta.values()))
    marks = [pytest.mark.slow] if slow else []
    return pytest.param(dtype, m, n, k, group, asymmetric, meta, id=name, marks=marks)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "dtype, m, n, k, group, asymmetric, meta",
    [
        case(BF16, 1, 120, 64, 0, False, BM=8, stages=2),
        case(F16, 3, 72, 392, 64, True, BM=8, splits=2, stages=4),
        case(BF16, 5, 100, 392, 64, True, BM=8, halves=1, rows=32, stages=2),
        case(BF16, 20, 200, 328, 32, True, BM=32, stages=4, slow=True),
        case(BF16, 16, 136, 2000, 128, True, BM=16, halves=1, rows=32, splits=2, stages=3, slow=True),
        case(F16, 20, 100, 1000, 32, True, BM=32, rows=32, blocks=4, stages=3, slow=True),
        case(BF16, 3, 100, 1000, 0, False, BM=8, halves=1, rows=32, parts=4, slow=True),
        case(BF16, 3, 100, 800, 192, True, BM=8, halves=1, rows=32, parts=3, slow=True),
        case(BF16, 16, 136, 2000, 128, True, BM=16, splits=4, stages=6, slow=True),
        case(BF16, 5, 136, 2000, 128, True, BM=8, halves=1, parts=4, slow=True),
        case(F16, 16, 136, 2000, 64, True, BM=16, halves=1, parts=4, splits=2, stages=4, slow=True),
        case(BF16, 3, 136, 1000, 192, True, BM=8, blocks=1, parts=1, slow=True),
        case(F16, 9, 130, 264, 128, False, BM=16, slow=True),
        case(F16, 32, 130, 264, 0, True, BM=32, stages=3, slow=True),
        case(BF16, 300, 136, 264, 128, True, BM=256, slow=True),
        case(F16, 300, 136, 520, 0, False, BM=128, slow=True),
        case(BF16, 65, 64, 328, 32, True, BM=128, slow=True),
        case(BF16, 70, 136, 1000, 128, True, BM=64, splits=4, slow=True),
        case(F16, 100, 64, 328, 64, False, BM=128, splits=2, slow=True),
    ],
)
def test_products_agree_with_float64(dtype, m, n, k, group, asymmetric, meta):
    *_, weights = weights_of(n, k, group, asymmetric=asymmetric, dtype=dtype)
    x, bias, y = (RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), n, (m, n)))
    of_weights = weights.packed, weights.scales, weights.zeros if asymmetric else weights.scales
    options = {"group": weights.group, "asymmetric": asymmetric, "biased": True}
    kernel = few_rows if m <= tiles.FEW_ROWS else many_rows
    report = kernel.emulate(x, *of_weights, bias, y, **options, **meta)
    assert not report.findings, report.findings[0]
    assert_product(y, x, weights, bias)


@pytest.mark.slow
def test_kernels_spill_nothing():
    few = few_rows, {"splits": 4, "stages": 6}
    for kernel, meta in (
        (few[0], few[1] | {"BM": 8}),
        (few[0], few[1] | {"BM": 16}),
        (many_rows, {"BM": 256}),
    ):
        made = kernel.compile("bf16", "i32", *["bf16"] * 4, group=128, asymmetric=True, **meta)
        assert made.resources.spill_stores == made.resources.spill_loads == 0


@pytest.mark.slow
def test_clusters_begin_without_a_fence_for_the_gpu():
    meta = {"splits": 2, "stages": 6, "BM": 8, "group": 128, "asymmetric": True}
    made = few_rows.compile("bf16", "i32", *["bf16"] * 4, **meta)
    arrivals = [line.strip() for line in made.ptx.splitlines() if "barrier.cluster.arrive" in line]
    # At the beginning, and by both roles before the sums are added.
    assert arrivals == ["barrier.cluster.arrive.relaxed;", *["barrier.cluster.arrive;"] * 2]


@pytest.mark.slow
def test_products_of_tensor_cores_overlap():
    """ptxas lets the tensor cores finish each product before the next where it can't keep registers apart."""
    made = many_rows.compile("bf16", "i32", *["bf16"] * 4, group=128, asymmetric=True, BM=256)
    assert made.sass.count("HGMMA") == 16 and made.sass.count("WARPGROUP.DEPBAR") == 4


@pytest.mark.parametrize("shape", [pytest.param((70,), marks=pytest.mark.slow), (2, 3, 70), (0, 70)])
def test_arrays_of_any_dimensions(shape):
    q = weights_of(33, 70, 64)[3]
    x, bias = RNG.standard_normal(shape).astype(BF16), RNG.standard_normal(33).astype(BF16)
    y = weft.matmul_int4(x, q, bias=bias)
    assert y.shape == (*shape[:-1], 33)
    assert_product(y.reshape(-1, 33), x.reshape(-1, 70), q, bias)


@pytest.mark.slow
def test_rows_of_x_may_be_apart():
    weights = weights_of(64, 96, 64)[3]
    x, out = RNG.standard_normal((9, 200)).astype(BF16)[::2, 3:99], np.empty((5, 64), BF16)
    assert weft.matmul_int4(x, weights, out=out) is out
    assert_product(out, x, weights)


def test_tiles_fit_and_keep_the_gpu_busy():
    for n, k in ((64, 64), (4096, 4096), (28672, 8192)):
        for group in (0, 32, 64, 128, 192):
            for m in (1, 8, 17, 32):
                chosen = tiles.of_few_rows(m, n, k, group, True, 132)
                span = 64 * chosen["blocks"] * chosen["parts"]
                assert chosen["stages"] >= 3 and m <= chosen["BM"]
                assert not group or group % span == 0 or span % group == 0
            for m in (33, 65, 128, 129, 4096):
                assert tiles.of_many_rows(m, n, k, group, True, 132)["stages"] >= 4
    narrow, wide = (tiles.of_few_rows(1, n, 4096, 128, True, 132) for n in (4096, 14336))
    assert (narrow["rows"], narrow["halves"], narrow["parts"], narrow["ahead"]) == (32, 1, 4, 0)
    assert (wide["rows"], wide["halves"], wide["parts"], wide["ahead"]) == (64, 2, 2, 2)
    chosen = [tiles.of_many_rows(m, 4096, 4096, 128, True, 132) for m in (64, 128, 256, 4096)]
    assert [(each["BM"], each["splits"]) for each in chosen] == [(64, 2), (64, 2), (64, 1), (256, 1)]


def bad(message, change):
    return pytest.param(message, change, id=message[:30])


@pytest.mark.parametrize(
    "message, change",
    [
        bad("q must be integers in 0..15, got 0..16", {"q": np.full((4, 128), 16) - np.eye(4, 128, 0) * 16}),
        bad("q must be a matrix with elements", {"q": np.zeros(4)}),
        bad("scales must have shape (4, 1), got (3, 1)", {"scales": np.ones((3, 1), BF16)}),
        bad("scales must have elements of bf16 or f16, got f32", {"scales": np.ones((4, 1), np.float32)}),
        bad("zeros must be integers in 0..15, got 0.5..0.5", {"zeros": np.full((4, 1), 0.5)}),
        bad("group must be 0, 32 or a multiple of 64, got 100: the nearest is 128", {"group": 100}),
        bad("groups of 64 of 128 columns have 2 scales, got 1", {"group": 64}),
        bad("makes 3 of 128 columns", {"scales": np.ones((4, 3), BF16), "group": None}),
    ],
)
def test_arrays_that_cant_be_packed(message, change):
    given = {"q": np.zeros((4, 128), int), "scales": np.ones((4, 1), BF16), "zeros": None, "group": 128}
    with pytest.raises(weft.WeftError) as caught:
        Int4Weights.pack(**{**given, **change})
    assert message in str(caught.value)


def test_groups_follow_from_the_scales():
    for k, count, group in ((256, 1, 0), (256, 2, 128), (256, 8, 32), (1000, 4, 256), (600, 3, 256)):
        q = np.zeros((4, k), int)
        assert Int4Weights.pack(q, np.ones((4, count), BF16)).group == group


@pytest.mark.parametrize(
    "message, change",
    [
        ("weights must be Int4Weights, as weft.quantize_int4 makes them", {"weights": np.zeros((4, 4))}),
        ("rows of x must have the weights' 128 elements, got shape (2, 64)", {"x": np.zeros((2, 64), BF16)}),
        (
            "x must have elements of bf16, as the scales have, got f16: con",
            {"x": np.zeros((2, 128), F16)},
        ),
        ("bias must have 4 elements of bf16, got (5,) of bf16", {"bias": np.zeros(5, BF16)}),
        ("bias: expected an array (NumPy", {"bias": "bias"}),
        ("x: expected an array (NumPy", {"x": None}),
        ("out must have shape (2, 4) and elements of bf16", {"out": np.zeros((2, 5), BF16)}),
        ("out must be contiguous, got strides (5, 1)", {"out": np.zeros((2, 5), BF16)[:, :4]}),
        ("out must be writable", {"out": np.broadcast_to(np.zeros((2, 4), BF16), (2, 4))}),
    ],
)
def test_arrays_that_cant_be_multiplied(message, change):
    given = {"x": np.zeros((2, 128), BF16), "weights": weights_of(4, 128)[3]}
    with pytest.raises(weft.WeftError) as caught:
        weft.matmul_int4(**{**given, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("rows", [3, 70])
def test_outputs_dont_overlap_what_is_read(rows):
    weights, memory = weights_of(64, 64)[3], np.zeros((rows + 1, 64), BF16)
    bias = memory[-1]
    for x, name in ((memory[:-1], "x"), (memory[1:], "x"), (np.zeros((rows + 1, 64), BF16), "bias")):
        with pytest.raises(weft.WeftError, match=f"out must not overlap {name}$"):
            weft.matmul_int4(x, weights, bias=bias, out=memory if name == "bias" else memory[:-1])


@pytest.mark.slow
def test_a_strided_bias():
    q, scales, zeros, _ = weights_of(5, 64)
    for n, bias in ((5, np.arange(10, dtype=BF16)[::2]), (1, np.arange(2, dtype=BF16)[1::2])):
        weights = Int4Weights.pack(q[:n], scales[:n], zeros[:n])
        x = np.zeros((2, 64), BF16)
        assert np.array_equal(weft.matmul_int4(x, weights, bias=bias), np.broadcast_to(bias, (2, n)))


@pytest.mark.parametrize(
    "message, values, options",
    [
        ("weights must be a matrix of NumPy or PyTorch, got None", None, {}),
        ("weights must be a matrix of NumPy or PyTorch, got <class 'numpy.ndarray'>", np.ndarray, {}),
        ("weights must be finite", np.full((2, 64), np.inf, np.float32), {}),
        ("scales must be finite in f16", np.full((2, 64), 1e9, np.float32), {"dtype": "f16"}),
        ("weights must have elements of f32, bf16, f16, got i32", np.ones((2, 64), np.int32), {}),
        ("dtype must be 'bf16' or 'f16', got 'f32'", np.ones((2, 64), np.float32), {"dtype": "f32"}),
    ],
)
def test_weights_that_cant_be_quantized(message, values, options):
    with pytest.raises(weft.WeftError) as caught:
        quantize_int4(values, **options)
    assert message in str(caught.value)
