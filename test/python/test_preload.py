"""C and the residual that are copied to where D is staged, by TMA during the products or by threads, in the
emulator. A finding of the sanitizer ends a run.
"""

import ml_dtypes
import numpy as np
import pytest
from test_epilogue import Product, of

import weft
from weft import reference

pytestmark = pytest.mark.filterwarnings("error")  # of `weft.matmul`, for what the sanitizer finds

BF16 = ml_dtypes.bfloat16
RESIDUAL, C = (("residual", "bf16"),), (("c", "bf16"),)
BOTH = (*C, *RESIDUAL, ("bias", "f32"))

SCHEDULES = (
    of(64, 64, 64),
    of(128, 64, 64, 2, cluster=(2, 1)),
    of(64, 48, 64, swap=True),
    of(128, 224, 64, 2, 4, cluster=(2, 1), swap=True),  # D in two parts
    of(128, 256, 64, 2, 4),
)


def preloads(kernel: weft.Kernel) -> bool:
    """Whether a kernel has a tensor map in addition to those of A, B and D."""
    return kernel.compiled.ptx.count(".param .align 64 .b8") > 3


@pytest.mark.each_value(1)
@pytest.mark.parametrize("shape", [(200, 144, 136), (129, 264, 72), (8, 8, 8)], ids=str)
@pytest.mark.parametrize("added, beta", [(RESIDUAL, 0.0), (C, 0.5), (BOTH, 0.5), ((), 1.0)], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_what_is_added_comes_by_tma(schedule, added, beta, shape):
    product = Product(d="bf16", added=added, beta=beta, activation="relu" if len(added) == 3 else None)
    kernel = product.compiled(schedule)
    # D that is also C has one map for both.
    assert (preloads(kernel) or not added) and product.ratio(kernel, shape) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [of(64, 48, 64, swap=True), pytest.param(of(64, 256, 64, 1, 5), marks=pytest.mark.slow)],
    ids=str,
)
def test_several_tiles_of_a_cta(schedule):
    """The memory is used again, and the phase of its mbarrier changes."""
    product = Product(d="bf16", added=RESIDUAL)
    kernel = product.compiled(schedule)
    assert product.ratio(kernel, (420, 504, 64)) <= 1.0


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("d, residual", [("bf16", "f16"), ("f32", "f32"), ("bf16", "f32")])
def test_other_types_are_loaded_by_threads(d, residual):
    product = Product(d=d, added=(("residual", residual),))
    kernel = product.compiled(of(64, 64, 64))
    assert not preloads(kernel) and product.ratio(kernel, (72, 88, 64)) <= 1.0


def placed(rows: int, columns: int, start: int, stride: int) -> np.ndarray:
    memory = np.random.default_rng(stride).standard_normal(start + max(rows * stride, columns)).astype(BF16)
    return np.lib.stride_tricks.as_strided(memory[start:], (rows, columns), (2 * stride, 2))


@pytest.mark.each_value(3)
@pytest.mark.parametrize(
    "residual, d",
    [
        ((0, 104), (0, 96)),
        ((1, 96), (0, 96)),  # rows that don't begin at 16 bytes
        ((0, 97), (0, 96)),
        ((0, 0), (0, 96)),  # one row for all
        ((0, 96), (3, 104)),
        ((0, 96), (0, 99)),
    ],
)
def test_rows_lie_anywhere(residual, d):
    rng = np.random.default_rng(1)
    for columns in (96, 93):
        a, b = (rng.integers(-2, 3, (rows, 64)).astype(BF16) for rows in (72, columns))
        added, out = placed(72, columns, *residual), placed(72, columns, *d)
        weft.matmul(
            a, b, transpose_b=True, out=out, epilogue=weft.Epilogue(residual=added), schedule=of(64, 64, 64)
        )
        expected = reference.product(a, b, transpose_b=True, residual=added, dtype=BF16)
        assert expected.compare(out).ratio <= 1.0


@pytest.mark.slow
def test_threads_that_store_d_have_read_the_memory():
    """Rows of D are unaligned, those of the residual aren't; each CTA has several tiles."""
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2, 3, (rows, 64)).astype(BF16) for rows in (420, 504))
    residual, out = placed(420, 504, 0, 504), placed(420, 504, 3, 507)
    epilogue = weft.Epilogue(residual=residual)
    weft.matmul(a, b, transpose_b=True, out=out, epilogue=epilogue, schedule=of(64, 64, 64))
    assert reference.product(a, b, transpose_b=True, residual=residual, dtype=BF16).compare(out).ratio <= 1.0


@pytest.mark.each_value(1)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_threads_copy_what_tma_does_not(schedule):
    """Rows begin at any element, and no tile's size divides the matrix. A part of a tile follows another."""
    rng = np.random.default_rng(3)
    (m, n), k = (201, 333), 64
    a, b = (rng.integers(-2, 3, (rows, k)).astype(BF16) for rows in (m, n))
    residual, out = placed(m, n, 1, 335), placed(m, n, 0, 336)
    epilogue = weft.Epilogue(residual=residual)
    weft.matmul(a, b, transpose_b=True, out=out, epilogue=epilogue, schedule=schedule)
    assert reference.product(a, b, transpose_b=True, residual=residual, dtype=BF16).compare(out).ratio <= 1.0


@pytest.mark.slow
def test_batches():
    """Each matrix has a residual, or all have one."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (3, 72, 64)).astype(BF16) for _ in range(2))
    wanted = a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2)
    each = rng.standard_normal((3, 72, 72)).astype(BF16)
    for residual in (each, each[:1], each[0]):
        d = weft.matmul(a, b, transpose_b=True, epilogue=weft.Epilogue(residual=residual))
        exact = wanted + residual.astype(np.float64)
        assert np.all(np.abs(d.astype(np.float64) - exact) <= 2.0**-8 * np.abs(exact))
