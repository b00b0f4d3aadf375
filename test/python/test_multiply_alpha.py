"""`weft.matmul` with an alpha in memory: one for all products, one for each, and what is refused."""

import re

import numpy as np
import pytest

import weft
from weft import reference
from weft.errors import WeftError


def small(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(dtype)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ np.swapaxes(b.astype(np.float64), -1, -2)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_one_alpha_of_any_shape(shape: tuple[int, ...]) -> None:
    a, b, c = small(24, 32), small(40, 32), small(24, 40, dtype=np.float32)
    alpha = np.full(shape, -0.5, np.float32)
    epilogue = weft.Epilogue(bias=np.ones(40, np.float32), activation="relu")
    d = weft.matmul(a, b, transpose_b=True, c=c, beta=2.0, alpha=alpha, epilogue=epilogue, out_dtype="f32")
    assert (d == np.maximum(-0.5 * exact(a, b) + 2.0 * c + 1, 0)).all()


@pytest.mark.slow
def test_an_alpha_for_each_product_of_a_batch() -> None:
    a, b = small(3, 24, 32), small(40, 32)
    alpha = np.array([0.5, -2.0, 4.0], np.float32)
    d = weft.matmul(a, b, transpose_b=True, alpha=alpha, out_dtype="f32")
    assert (d == alpha[:, None, None] * exact(a, b)).all()
    d = weft.matmul(a, b, transpose_b=True, alpha=alpha[:1], out_dtype="f32")
    assert (d == 0.5 * exact(a, b)).all()


@pytest.mark.slow
def test_an_alpha_for_each_b_that_groups_select() -> None:
    a, b = small(256, 32), small(3, 40, 32)
    groups, alpha = np.repeat(np.array([2, 0], np.int32), 128), np.array([0.5, -2.0, 4.0], np.float32)
    d = weft.matmul(a, b, transpose_b=True, groups=groups, alpha=alpha, out_dtype="f32")
    want = np.concatenate([4.0 * exact(a[:128], b[2]), 0.5 * exact(a[128:], b[0])])
    assert (d == want).all()


def test_factors_of_nvfp4_in_arrays() -> None:
    a, b = (reference.quantize(small(rows, 64) * 100, "nvfp4") for rows in (24, 40))
    factors = [np.array(each.factor, np.float32) for each in (a, b)]
    d = weft.matmul(
        a.packed,
        b.packed,
        transpose_b=True,
        scales=(a.tiled_scales, b.tiled_scales),
        kind="nvfp4",
        alpha=factors[0] * factors[1],
        out_dtype="f32",
    )
    want = a.values @ b.values.T
    assert np.abs(d - want).max() < 1e-5 * np.abs(want).max()


class Claimed:
    """An array of a protocol that it breaks."""

    def __str__(self) -> str:
        return "claimed"

    @property
    def __dlpack__(self) -> object:
        raise KeyError("dlpack")


@pytest.mark.parametrize(
    ("alpha", "what"),
    [
        (np.ones(2, np.float32), "alpha must be a number or 1 element, got 2"),
        (np.ones((1, 2), np.float32), "alpha must be a number or 1 element, got 1 x 2"),
        (np.ones(0, np.float32), "alpha must be a number or 1 element, got 0"),
        (np.array(1.0), "alpha must be a number or an array of f32, got one of f64"),
        (np.ones(1, np.int32), "alpha must be a number or an array of f32, got one of i32"),
        ([1.0], "alpha must be a real number or an array of f32, got [1.0]"),
        (np.float32, "alpha must be a real number or an array of f32, got"),
        (Claimed(), "alpha: reading __dlpack__ of Claimed failed: KeyError: 'dlpack'"),
    ],
    ids=str,
)
def test_other_arrays_are_refused(alpha: object, what: str) -> None:
    with pytest.raises(WeftError, match=re.escape(what)):
        weft.matmul(small(8, 32), small(8, 32), transpose_b=True, alpha=alpha)


@pytest.mark.parametrize(
    ("alpha", "what"),
    [
        (np.ones(2, np.float32), "alpha must be a number or 1 element or 3, one for each product, got 2"),
        (np.ones((3, 1), np.float32), "1 element or 3, one for each product, got 3 x 1"),
        (np.ones(6, np.float32)[::2], "alpha must have contiguous elements, got strides (2,)"),
    ],
    ids=str,
)
def test_other_arrays_are_refused_for_a_batch(alpha: np.ndarray, what: str) -> None:
    with pytest.raises(WeftError, match=re.escape(what)):
        weft.matmul(small(3, 8, 32), small(8, 32), transpose_b=True, alpha=alpha)


def test_integers_have_none() -> None:
    a = small(32, 32, dtype=np.int8)
    with pytest.raises(WeftError, match="expects alpha 1 where A and B are integers, got an operand 'alpha'"):
        weft.matmul(a, a, transpose_b=True, alpha=np.ones(1, np.float32))
