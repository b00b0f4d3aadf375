"""`weft.tiled_scales`: scales of every library and form, in the layout that products take."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import reference
from weft.dialects.schedule import TensorMemorySchedule
from weft.errors import WeftError

SCHEDULES = (
    TensorMemorySchedule((128, 64, 128), 1, 2),
    TensorMemorySchedule((256, 64, 128), 1, 2, cta_group=2),
)
SIZES = [(1, 1), (3, 128), (130, 160), (128, 512), (257, 640)]
POWERS = ml_dtypes.float8_e8m0fnu


def powers(*shape):
    return np.random.default_rng(sum(shape)).integers(120, 134, shape, np.uint8).view(POWERS)


def wanted(scales, k, block=32, group=32):
    """The tiles as `weft.reference` makes them."""
    groups = np.repeat(scales, block // group, axis=-1)[..., : -(-k // group)]
    return reference.tiled_scales(groups).view(np.uint8)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize(("rows", "k"), SIZES)
def test_powers_of_two_are_tiled_from_every_form(rows, k, block, batch):
    scales = powers(*batch, rows, -(-k // block))
    words = reference.packed_scales(scales)
    strided = np.repeat(scales, 2, axis=-1)[..., ::2]
    for given in (scales, scales.view(np.uint8), strided, words, np.ascontiguousarray(words)):
        tiled = weft.tiled_scales(given, k, block=block)
        assert tiled.dtype == np.uint8 and tiled.flags.c_contiguous
        np.testing.assert_array_equal(tiled, wanted(scales, k, block))


def test_scales_of_nvfp4_are_tiled():
    scales = np.random.default_rng(0).uniform(1, 9, (130, 9)).astype(ml_dtypes.float8_e4m3fn)
    for given in (scales, scales.view(np.uint8)):
        np.testing.assert_array_equal(weft.tiled_scales(given, 144, block=16), wanted(scales, 144, 16, 16))


def test_packed_scales_lie_as_deep_gemm_has_them():
    scales = powers(5, 6)
    words = reference.packed_scales(scales)
    assert words.shape == (5, 2) and words.strides == (4, 32) and words.dtype == np.int32
    of_row = [int(each) for each in scales[3].view(np.uint8)]
    assert int(words[3, 0]) % 2**32 == sum(of_row[i] << 8 * i for i in range(4))
    assert words[3, 1] == of_row[4] | of_row[5] << 8


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize(("rows", "k"), SIZES)
def test_pytorchs_tensors_stay_pytorchs(rows, k, block):
    torch = pytest.importorskip("torch")
    scales = powers(rows, -(-k // block))
    words = reference.packed_scales(scales)
    columns = torch.from_numpy(words.base.reshape(-1).copy())  # as DeepGEMM has them, also where rows are few
    of_torch = columns.as_strided(words.shape, (1, -(-rows // 4) * 4))
    plain = torch.from_numpy(scales.view(np.uint8))
    for given in (of_torch, plain, plain.view(torch.float8_e8m0fnu)):
        tiled = weft.tiled_scales(given, k, block=block)
        assert tiled.dtype == torch.uint8 and tiled.is_contiguous()
        np.testing.assert_array_equal(tiled.numpy(), wanted(scales, k, block))


@pytest.mark.parametrize("block", [32, 128])
def test_jaxs_arrays_stay_jaxs(block):
    jax = pytest.importorskip("jax")
    scales = powers(130, -(-640 // block))
    for given in (reference.packed_scales(scales), scales.view(np.uint8), scales):
        array = jax.numpy.asarray(given)
        for tiled in (
            weft.tiled_scales(array, 640, block=block),
            jax.jit(lambda x: weft.tiled_scales(x, 640, block=block))(array),
        ):
            assert isinstance(tiled, jax.Array)
            np.testing.assert_array_equal(tiled, wanted(scales, 640, block))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("block", "rows", "schedule"),
    [(32, (40, 72), SCHEDULES[0]), (128, (40, 72), SCHEDULES[0]), (128, (144, 40), SCHEDULES[1])],
)
def test_weft_matmul_multiplies_with_deep_gemms_scales(block, rows, schedule):
    k = 640
    chance = np.random.default_rng(7)
    elements = [chance.standard_normal((n, k)).astype(ml_dtypes.float8_e4m3fn) for n in rows]
    scales = [powers(n, -(-k // block)) for n in rows]
    tiled = [weft.tiled_scales(reference.packed_scales(each), k, block=block) for each in scales]
    found = weft.matmul(
        *elements,
        transpose_b=True,
        scales=tuple(tiled),
        kind="mxfp8",
        out_dtype="f32",
        schedule=schedule,
    )
    a, b = (reference.dequantized(e, s, block) for e, s in zip(elements, scales, strict=True))
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-5, atol=1e-5 * np.abs(a @ b.T).max())


ONES = np.ones((4, 2), POWERS)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: weft.tiled_scales([1], 32), "must be an array of PyTorch, CuPy, JAX or NumPy, got 'list'"),
        (
            lambda: weft.tiled_scales(np.ones((4, 2)), 64),
            "int32, float8_e8m0fnu, float8_e4m3fn or uint8, got fl",
        ),
        (
            lambda: weft.tiled_scales(ONES, 64, block=16),
            "block must be 32 or 128 for scales of float8_e8m0fnu, got",
        ),
        (
            lambda: weft.tiled_scales(ONES.view(np.uint8), 64, block=8),
            "block must be 16 or 32 or 128 for scales of",
        ),
        (
            lambda: weft.tiled_scales(ONES, 65),
            r"must be rows x 3 or a batch .*\(scales of K 65 in blocks of 32\), got 4 x 2",
        ),
        (
            lambda: weft.tiled_scales(np.ones((4, 2), np.int32), 128),
            r"rows x 1 .*\(words of K 128 in blocks of 32\)",
        ),
        (lambda: weft.tiled_scales(ONES[0], 64), "must be rows x 2 or a batch of such matrices .* got 2$"),
        (lambda: weft.tiled_scales(ONES, 0), "k must be a positive integer, got 0"),
        (lambda: weft.tiled_scales(ONES, 64, block=32.0), "block must be a positive integer, got 32.0"),
        (lambda: weft.tiled_scales(ONES, 1.5), "k must be a positive integer, got 1.5"),
    ],
)
def test_other_scales_are_refused(call, said):
    with pytest.raises(WeftError, match=said):
        call()
