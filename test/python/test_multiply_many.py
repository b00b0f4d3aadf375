"""`weft.matmul` on batches, groups of rows, and fp8 with scales, in the emulator."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.schedule import WarpgroupSchedule

RNG = np.random.default_rng(1)
F8 = ml_dtypes.float8_e4m3fn
SCHEDULE = WarpgroupSchedule((64, 64, 128), 1, 3)


def small(*shape, dtype=np.float16):
    """Integers whose sums are exact."""
    return RNG.integers(-1, 2, shape).astype(dtype)


def doubles(a):
    return a.astype(np.float64)


def scales(*shape):
    """Powers of two, by which sums stay exact."""
    return np.exp2(RNG.integers(-1, 2, shape)).astype(np.float32)


def spread(a, of_rows, of_columns):
    """Each scale for as many rows and columns as it has."""
    return np.repeat(np.repeat(doubles(a), of_rows, -2), of_columns, -1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "shapes", [((3, 16, 32), (3, 32, 24)), ((3, 16, 32), (32, 24)), ((16, 32), (3, 32, 24))]
)
def test_batches_and_what_they_share(shapes):
    a, b = (small(*shape) for shape in shapes)
    found = weft.matmul(a, b)
    assert found.shape == (3, 16, 24) and (found == doubles(a) @ doubles(b)).all()


@pytest.mark.slow
def test_a_batch_of_copies_is_one_matrix():
    a, b = np.broadcast_to(small(16, 32), (3, 16, 32)), small(3, 32, 24)
    c = np.broadcast_to(small(16, 24), (3, 16, 24))
    assert (weft.matmul(a, b, c=c, beta=2.0) == doubles(a) @ doubles(b) + 2 * doubles(c)).all()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 16, 32), (1, 32, 24)),
        ((1, 16, 32), (32, 24)),
        ((16, 32), (1, 32, 24)),
        ((1, 16, 32), (3, 32, 24)),
        ((3, 16, 32), (1, 32, 24)),
    ],
)
def test_the_shape_of_a_batch_of_one_is_that_of_numpy(shapes):
    a, b = (small(*shape) for shape in shapes)
    for each in (a, b), tuple(x[0][None] if x.ndim == 3 and len(x) == 1 else x for x in (a, b)):
        found, want = weft.matmul(*each), doubles(a) @ doubles(b)
        assert found.shape == want.shape and (found == want).all()


@pytest.mark.slow
@pytest.mark.each_value(2)
@pytest.mark.parametrize("of_b", [(32, 24), (1, 32, 24), (3, 32, 24)])
def test_where_a_and_b_are_both_repeated_there_are_as_many_products(of_b):
    a, b = np.broadcast_to(small(16, 32), (3, 16, 32)), small(32, 24)
    b = np.broadcast_to(b, of_b)
    found = weft.matmul(a, b, c=small(1, 16, 24), beta=0)
    assert found.shape == (3, 16, 24) and (found == doubles(a) @ doubles(b)).all()


@pytest.mark.slow
def test_what_is_added_may_be_a_batch_of_one():
    a, b, c, residual = small(3, 16, 32), small(32, 24), small(1, 16, 24), small(16, 24)[None]
    found = weft.matmul(a, b, c=c, beta=2.0, epilogue=weft.Epilogue(residual=residual))
    assert (found == doubles(a) @ doubles(b) + 2 * doubles(c) + doubles(residual)).all()
    with pytest.raises(weft.WeftError, match="c must be 3 x 16 x 24, got 5 x 16 x 24"):
        weft.matmul(a, b, c=np.broadcast_to(c, (5, 16, 24)), beta=1.0)


def test_a_result_whose_elements_share_memory_is_refused():
    out = np.lib.stride_tricks.as_strided(small(16, 24), (3, 16, 24), (0, 48, 2))
    with pytest.raises(weft.WeftError, match="elements of out must not share memory, got strides"):
        weft.matmul(small(3, 16, 32), small(32, 24), out=out)


@pytest.mark.parametrize("strides", [(2, 2), (46, 2), (0, 2)])
def test_a_result_whose_rows_overlap_is_refused(strides):
    out = np.lib.stride_tricks.as_strided(small(16, 24), (16, 24), strides)
    with pytest.raises(weft.WeftError, match="elements of out must not share memory, got strides"):
        weft.matmul(small(16, 32), small(32, 24), out=out)


def test_a_result_whose_batch_lies_between_its_rows_is_written():
    a, b, out = small(3, 16, 32), small(32, 24), np.zeros((16, 3, 24), np.float32)
    weft.matmul(a, b, out=out.transpose(1, 0, 2))
    assert (out.transpose(1, 0, 2) == doubles(a) @ doubles(b)).all()


@pytest.mark.slow
def test_a_batch_with_strides_and_an_epilogue():
    a, b = small(16, 2, 32).transpose(1, 0, 2), small(2, 24, 32).transpose(0, 2, 1)
    out = np.full((2, 16, 32), np.nan, np.float32)[:, :, :24]
    weft.matmul(a, b, out=out, epilogue=weft.Epilogue(bias=small(24, dtype=np.float32), activation="relu"))
    assert np.isfinite(out).all()
    assert (out >= doubles(a) @ doubles(b) - 1).all()


def test_scales_of_blocks():
    a, b = small(72, 400, dtype=F8), small(136, 400, dtype=F8)
    of_a, of_b = scales(4, 72).T, scales(2, 4)
    found = weft.matmul(a, b, transpose_b=True, scales=(of_a, of_b), out_dtype="f32", schedule=SCHEDULE)
    want = (doubles(a) * spread(of_a, 1, 128)[:, :400]) @ (doubles(b) * spread(of_b, 128, 128)[:136, :400]).T
    assert (found == want).all()


@pytest.mark.slow
def test_promoted_sums_are_exact_where_others_are_not():
    a, b = np.ones((64, 512), F8), np.ones((16, 512), F8)
    a[:, 0] = b[:, 0] = 128
    exact = weft.matmul(a, b, transpose_b=True, promote=True, out_dtype="f32", schedule=SCHEDULE)
    fast = weft.matmul(a, b, transpose_b=True, out_dtype="f32", schedule=SCHEDULE)
    assert (exact > 16384 + 383).all() and (fast < exact).all()


def test_rows_of_one_matrix_each_with_one_of_several():
    a, b = small(384, 256, dtype=F8), small(3, 40, 256, dtype=F8)
    of_a, of_b = scales(2, 384).T, scales(3, 1, 2)
    groups = np.repeat([2, -1, 0], 128).astype(np.int32)
    out = np.full((384, 40), 7, np.float32)
    weft.matmul(a, b, transpose_b=True, groups=groups, scales=(of_a, of_b), out=out)
    left = doubles(a) * spread(of_a, 1, 128)
    right = doubles(b) * spread(of_b, 128, 128)[:, :40]
    for start, number in ((0, 2), (256, 0)):
        rows = slice(start, start + 128)
        assert (out[rows] == left[rows] @ right[number].T).all()
    assert (out[128:256] == 7).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schedule", [None, SCHEDULE, WarpgroupSchedule((64, 64, 128), 1, 3, swap=True)])
def test_rows_that_fill_a_group_up_may_have_a_negative_number(schedule):
    a, b = small(384, 256, dtype=F8), small(3, 72, 256, dtype=F8)
    groups = np.repeat([2, 0, 1], 128).astype(np.int32)
    tokens = (50, 1, 128)
    for start, count in zip((0, 128, 256), tokens, strict=True):
        groups[start + count : start + 128] = -1
    found = weft.matmul(a, b, transpose_b=True, groups=groups, out_dtype="f32", schedule=schedule)
    for start, count, number in zip((0, 128, 256), tokens, (2, 0, 1), strict=True):
        rows = slice(start, start + count)
        assert (found[rows] == doubles(a)[rows] @ doubles(b)[number].T).all()


@pytest.mark.slow
def test_products_of_different_sizes():
    a, b, rows = small(3, 96, 64), small(3, 64, 40), np.array([70, 0, 5], np.int32)
    out = np.full((3, 96, 40), np.nan, np.float32)
    weft.matmul(a, b, groups=rows, out=out)
    for number, count in enumerate(rows):
        assert (out[number, :count] == doubles(a[number, :count]) @ doubles(b[number])).all()


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [97, 2**31 - 1])
@pytest.mark.parametrize("schedule", [None, WarpgroupSchedule((64, 64, 64), 1, 3, swap=True)])
def test_more_rows_than_a_product_has_are_all_of_them(monkeypatch, number, schedule):
    """As on a GPU, where nobody reads the numbers first."""
    monkeypatch.setattr("weft.multiply.operands.check_groups", lambda *_: None)
    a, b = small(3, 96, 64), small(3, 64, 40)
    found = weft.matmul(a, b, groups=np.array([0, number, 96], np.int32), schedule=schedule)
    assert (found[1:] == doubles(a)[1:] @ doubles(b)[1:]).all()


@pytest.mark.parametrize(
    ("a", "groups", "said"),
    [
        ((3, 96, 64), [70, 97, 5], "be numbers of rows in 0..96, got 97 at index 1"),
        ((3, 96, 64), [70, 0, -1], "be numbers of rows in 0..96, got -1 at index 2"),
        ((3, 96, 64), [2**31 - 1, 0, 1], "be numbers of rows in 0..96, got 2147483647 at index 0"),
        ((256, 64), [2] * 128 + [3] * 128, "be numbers of matrices below 3, got 3 at index 128"),
        ((256, 64), [2] * 255 + [1], "have one number for the 128 rows from 128 on, got 2 and, at index 25"),
    ],
)
def test_groups_without_a_meaning_are_refused(a, groups, said):
    with pytest.raises(weft.WeftError, match=f"weft.matmul: groups must {said}"):
        weft.matmul(small(*a), small(3, 64, 40), groups=np.array(groups, np.int32))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1, 2])
def test_groups_of_a_repeated_matrix(count):
    a, w = small(128, 64), small(64, 32)
    groups = np.full(128, count - 1, np.int32)
    found = weft.matmul(a, np.broadcast_to(w, (count, 64, 32)), groups=groups)
    assert found.shape == (128, 32) and (found == doubles(a) @ doubles(w)).all()


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("one_b", [True, False])
def test_products_of_different_sizes_of_a_repeated_matrix(count, one_b):
    a, b = np.broadcast_to(small(128, 64), (count, 128, 64)), small(64, 40)
    rows = np.array([70, 0, 128], np.int32)[:count]
    found = weft.matmul(a, b if one_b else np.broadcast_to(b, (count, 64, 40)), groups=rows)
    assert found.shape == (count, 128, 40)
    for number, used in enumerate(rows):
        assert (found[number, :used] == doubles(a[number, :used]) @ doubles(b)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: weft.matmul(small(2, 8, 16), small(3, 16, 8)),
            "leading dimensions of a and b must be equal or 1, got 2 and 3",
        ),
        (
            lambda: weft.matmul(small(8, 16), small(16, 8), groups=small(8, dtype=np.int32)),
            "b, or a and b, must be a batch with groups",
        ),
        (
            lambda: weft.matmul(small(2, 2, 8, 16), small(2, 16, 8), groups=small(2, dtype=np.int32)),
            "a must have at most 3 dimensions with groups, got 4: reshape it",
        ),
        (
            lambda: weft.matmul(small(8, 16), small(2, 16, 8), groups=small(2, dtype=np.int32)),
            "groups must be 8 elements, got 2",
        ),
        (
            lambda: weft.matmul(small(8, 16), small(2, 16, 8), groups=small(8, dtype=np.int64)),
            "groups must have elements of i32",
        ),
        (
            lambda: weft.matmul(small(8, 16), small(16, 8), promote=True),
            "A and B of fp8 where promote is true",
        ),
        (lambda: weft.matmul(small(8, 16), small(16, 8), scales=scales(8, 1)), "scales must be a pair"),
        (
            lambda: weft.matmul(
                small(8, 256, dtype=F8), small(8, 256, dtype=F8), transpose_b=True, scales=(scales(8, 2),) * 2
            ),
            "scale_a must have contiguous columns, got strides \\(2, 1\\)",
        ),
        (
            lambda: weft.matmul(
                small(8, 256, dtype=F8),
                small(8, 256, dtype=F8),
                transpose_b=True,
                scales=(scales(2, 8).T, scales(2, 2)),
            ),
            "scale_b must be 1 x 2, got 2 x 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(weft.WeftError, match=message):
        call()
