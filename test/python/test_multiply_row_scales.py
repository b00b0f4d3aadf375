"""`weft.matmul` with scales of rows, of columns and of whole tensors."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.schedule import WarpgroupSchedule

M, N, K = 40, 72, 272
_CHANCE = np.random.default_rng(3)
A = _CHANCE.integers(-3, 4, (M, K)).astype(ml_dtypes.float8_e4m3fn)
B = _CHANCE.integers(-3, 4, (N, K)).astype(ml_dtypes.float8_e5m2)
ROWS, COLUMNS = (_CHANCE.choice(np.float32([0.25, 0.5, 2, 3]), shape) for shape in ((M, 1), (1, N)))
ONE = np.float32([0.5])


def _expected(scale_a: Any, scale_b: Any, k: int = K) -> Any:
    return A[:, :k].astype(np.float32) @ B[:, :k].astype(np.float32).T * scale_a * scale_b


@pytest.mark.each_value(1)
@pytest.mark.parametrize("promote", [False, True])
@pytest.mark.parametrize(
    "scales",
    [
        (ROWS, COLUMNS),
        (ONE, ONE * 3),
        (ROWS, ONE.reshape(())),
        (ONE.reshape(1, 1), COLUMNS),
        (np.broadcast_to(ONE, (M, 1)), COLUMNS),
    ],
    ids=["rows", "tensors", "row-tensor", "tensor-column", "one-for-all-rows"],
)
@pytest.mark.sampled(5)
def test_sums_are_scaled(scales: tuple[Any, Any], promote: bool) -> None:
    options = {"out_dtype": "f32", "promote": promote}
    d = weft.matmul(A, B, transpose_b=True, scales=scales, arch="sm_90a", **options)
    assert np.array_equal(d, _expected(*scales))


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_89", None),
        ("sm_90a", WarpgroupSchedule((64, 64, 64), 1, 3, swap=True)),
        ("sm_90a", WarpgroupSchedule((64, 64, 64), 1, 3, global_splits=2)),
        ("sm_90a", WarpgroupSchedule((64, 64, 64), 1, 3, stream_k=True)),
        ("sm_100a", None),
        ("sm_120a", None),
    ],
    ids=str,
)
@pytest.mark.parametrize("scales", [(ROWS, COLUMNS), (ROWS, ONE), (ONE, ONE)], ids=["rows", "mixed", "one"])
def test_every_chip_scales(arch: str, schedule: Any, scales: tuple[Any, Any]) -> None:
    alpha = np.float32([0.5])
    bias = np.arange(N, dtype=np.float32)
    d = weft.matmul(
        A,
        B,
        transpose_b=True,
        scales=scales,
        alpha=alpha,
        epilogue=weft.Epilogue(bias, "relu"),
        out_dtype="f32",
        arch=arch,
        schedule=schedule,
    )
    assert np.array_equal(d, np.maximum(_expected(*scales) / 2 + bias, 0))


@pytest.mark.slow
def test_a_single_block_of_k_may_have_either_scales() -> None:
    a, b = A[:, :128], B[:, :128]
    of_blocks = ROWS, np.float32([[0.5]])
    for scales in (of_blocks, (ROWS, COLUMNS), (ROWS, COLUMNS.T), (ONE, ONE)):
        d = weft.matmul(a, b, transpose_b=True, scales=scales, out_dtype="f32")
        assert np.array_equal(d, _expected(scales[0], scales[1].reshape(1, -1), 128))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("scale_a", [ROWS, ONE], ids=["rows", "tensor"])
def test_products_of_a_batch_share_scales(scale_a: Any) -> None:
    a = np.stack([A, -A])
    d = weft.matmul(a, B, transpose_b=True, scales=(scale_a, COLUMNS), out_dtype="f32")
    assert np.array_equal(d, np.stack([_expected(scale_a, COLUMNS), -_expected(scale_a, COLUMNS)]))


def test_elements_of_16_bits_are_scaled() -> None:
    a, b = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
    d = weft.matmul(a, b, transpose_b=True, scales=(ROWS, COLUMNS), out_dtype="f32")
    assert np.array_equal(d, _expected(ROWS, COLUMNS))


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ((ROWS, COLUMNS.T), "scale_b must be 1 x 72 or one element, got 72 x 1 beside scale_a of 40 x 1"),
        ((COLUMNS, ROWS), "scale_a must be 40 x 3, 40 x 1 or one element, got 1 x 72"),
        ((ROWS[:, 0], COLUMNS), "scale_a must be 40 x 3, 40 x 1 or one element, got 40"),
        ((np.tile(ROWS, 3).T.copy().T, COLUMNS), "scale_b must be 1 x 3, got 1 x 72"),
        ((np.tile(ROWS, 2)[:, :1], COLUMNS), r"scale_a must have contiguous elements, got strides \(2, 1\)"),
        ((ROWS.astype(np.float16), COLUMNS), "scale_a must have elements of f32, .*, got f16: convert"),
    ],
    ids=["transposed", "exchanged", "vector", "blocks", "strided", "f16"],
)
def test_other_scales_are_refused(scales: tuple[Any, Any], message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.matmul(A, B, transpose_b=True, scales=scales)


def test_integers_and_groups_have_no_scales_of_rows() -> None:
    a, b = A.astype(np.int8), B.astype(np.int8)
    with pytest.raises(weft.WeftError, match=r"must come with a of f8E4M3FN, .*, got i8"):
        weft.matmul(a, b, transpose_b=True, scales=(ROWS, COLUMNS))
    groups = np.zeros(M, np.int32)
    with pytest.raises(weft.WeftError, match=r"must come without groups: pass scales of M x ceil\(K / 128\)"):
        weft.matmul(A, B[None], transpose_b=True, scales=(ONE, ONE), groups=groups)
