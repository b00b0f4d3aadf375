"""`weft.matmul` with block scales in words of four, as DeepGEMM has them."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import reference
from weft.dialects.schedule import TensorMemorySchedule
from weft.errors import WeftError

SCHEDULE = TensorMemorySchedule((128, 64, 128), 2, 2)
POWERS = ml_dtypes.float8_e8m0fnu


def operand(*shape: int, block: int = 128) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Elements, the words of their scales as `weft.matmul` takes them, and the exact values."""
    chance = np.random.default_rng(sum(shape))
    *rows, k = shape
    elements = chance.integers(-2, 3, shape).astype(ml_dtypes.float8_e4m3fn)
    exponents = chance.integers(-3, 4, (*rows, -(-k // block)))
    words = reference.packed_scales((exponents + 127).astype(np.uint8).view(POWERS))
    return elements, words, elements.astype(np.float64) * np.exp2(exponents).repeat(block, -1)[..., :k]


def product(a: np.ndarray, b: np.ndarray, scales: object, **options: object) -> np.ndarray:
    given = {"schedule": SCHEDULE, "transpose_b": True, "out_dtype": "f32", **options}
    return weft.matmul(a, b, scales=scales, **given)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("kind", [None, "mxfp8", "mxfp8_e4m3"])
@pytest.mark.parametrize("k", [128, 640])
@pytest.mark.parametrize("block", [128, 32])
def test_words_scale_as_the_values_they_stand_for(block, k, kind):
    (a, words_a, left), (b, words_b, right) = operand(130, k, block=block), operand(72, k, block=block)
    given = (each.view(np.uint8) if kind == "mxfp8_e4m3" else each for each in (a, b))
    found = product(*given, (words_a, words_b), kind=kind, scale_block=block)
    np.testing.assert_array_equal(found, left @ right.T)


def test_rows_of_words_may_begin_anywhere():
    (a, words_a, left), (b, words_b, right) = operand(13, 640), operand(72, 640)
    loose = np.zeros((2, 27), np.int32)
    loose[:, 1:14] = words_a.T
    found = product(a, b, (loose[:, 1:14].T, np.asfortranarray(words_b)), scale_block=np.int32(128))
    np.testing.assert_array_equal(found, left @ right.T)


@pytest.mark.slow
def test_no_schedule_is_needed():
    (a, words_a, left), (b, words_b, right) = operand(40, 640), operand(72, 640)
    found = product(a, b, (words_a, words_b), scale_block=128, schedule=None)
    np.testing.assert_array_equal(found, left @ right.T)


@pytest.mark.slow
def test_batches_have_words_of_their_own_or_share_them():
    (a, words_a, left), (b, words_b, right) = operand(3, 40, 640), operand(72, 640)
    found = product(a, b, (words_a, words_b), scale_block=128)
    np.testing.assert_array_equal(found, left @ right.T)
    found = product(a, b, (words_a[:1], words_b), scale_block=128)
    assert found.shape == (3, 40, 72)
    assert np.array_equal(found[0], left[0] @ right.T) and not np.array_equal(found[1], left[1] @ right.T)


@pytest.mark.slow
def test_groups_have_words_of_their_own():
    (a, words_a, left), (b, words_b, right) = operand(256, 640), operand(3, 72, 640)
    groups = np.repeat([2, 0], 128).astype(np.int32)
    found = product(a, b, (words_a, words_b), scale_block=128, groups=groups)
    wanted = np.concatenate([left[:128] @ right[2].T, left[128:] @ right[0].T])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_products_of_a_batch_may_have_rows_of_their_own():
    (a, words_a, left), (b, words_b, right) = operand(3, 130, 640), operand(3, 72, 640)
    counts = np.array([130, 0, 5], np.int32)
    found = product(a, b, (words_a, words_b), scale_block=128, groups=counts)
    for number, count in enumerate(counts):
        np.testing.assert_array_equal(found[number, :count], left[number, :count] @ right[number].T)


A, WORDS, _ = operand(64, 640)
FP4 = np.zeros((64, 640), ml_dtypes.float4_e2m1fn)
TILES = np.full((1, 512 * 5), 127, np.uint8)


@pytest.mark.parametrize(
    ("a", "scales", "options", "said"),
    [
        (A, (WORDS, WORDS), {}, "scale_block must be given with scale_a of int32: 128 or 32, the elements"),
        (A, (WORDS, WORDS), {"kind": "mxfp8"}, "scale_block must be given with scale_a of int32"),
        (A, (WORDS, WORDS), {"scale_block": 64}, "scale_block must be 128 or 32, got 64"),
        (A, (WORDS, WORDS), {"scale_block": 128.0}, "scale_block must be 128 or 32, got 128.0"),
        (A, (WORDS, WORDS), {"scale_block": True}, "scale_block must be 128 or 32, got True"),
        (A, (WORDS, WORDS), {"scale_block": 32}, "scale_a must be 64 x 5, got 64 x 2"),
        (A, (WORDS[:5], WORDS), {"scale_block": 128}, "scale_a must be 64 x 2, got 5 x 2"),
        (A, (WORDS.copy(), WORDS), {"scale_block": 128}, "scale_a must have contiguous columns, got strides"),
        (A, (WORDS, TILES), {"scale_block": 128, "kind": "mxfp8"}, "int32 only, got scale_b of ui8"),
        (A, None, {"scale_block": 128}, "must be given with scales of int32 only, got no scales"),
        (FP4, (WORDS, WORDS), {"scale_block": 128}, "scale_block must be 32 for A and B of f4E2M1FN"),
        (
            FP4,
            (WORDS, WORDS),
            {"scale_block": 32, "kind": "nvfp4"},
            "scale_a must have elements of float8_e4m3fn or uint8 with kind nvfp4, got i32",
        ),
    ],
)
def test_other_words_are_refused(a, scales, options, said):
    with pytest.raises(WeftError, match=said):
        product(a, a, scales, **options)
