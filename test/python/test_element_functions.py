"""Epilogues that are functions of an element, in the emulator: against NumPy in float64, at sizes that
nothing divides. A finding of the sanitizer ends a run.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.errors import WeftError
from weft.multiply import product_kernel

CHIPS = ("sm_90a", "sm_80", "sm_100a", "sm_120a")
M, N, K = 37, 53, 72
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(7)
A, B = RNG.integers(-2, 3, (M, K)).astype(BF16), RNG.integers(-2, 3, (K, N)).astype(BF16)
SUMS = A.astype(np.float64) @ B.astype(np.float64)
ROWS, COLUMNS = np.indices((M, N))
EXTRA = {
    "rows": RNG.standard_normal((M, 1), np.float32),
    "columns": RNG.standard_normal(N).astype(np.float16),
    "matrix": RNG.standard_normal((M, N)).astype(BF16),
    "one": np.array([0.25], np.float32),
}


@w.inline
def branches(x, row, column):
    y = x
    if x > 0 and row != column:
        y = x * 2.0
        if row > 5:
            y += 1.0
    return y


def gelu_by_hand(x, row, column):
    return x * 0.5 * (1.0 + w.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def by_rows_and_columns(x, row, column, rows, columns):
    return x * rows * columns


def of_inputs(names: str) -> dict[str, np.ndarray]:
    return {name: EXTRA[name] for name in names.split()}


def wide(name: str) -> np.ndarray:
    return EXTRA[name].astype(np.float64)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# What a function reads, the function, and what NumPy computes.
FUNCTIONS: dict[str, tuple[str, Any, Any]] = {
    "scales of rows and columns": (
        "rows columns",
        by_rows_and_columns,
        lambda x: x * wide("rows") * wide("columns"),
    ),
    "clamp": ("", lambda x, row, column: w.minimum(w.maximum(x, -3.0), 3), lambda x: np.clip(x, -3, 3)),
    "soft cap": (
        "one",
        lambda x, row, column, one: w.tanh(x * one) / one,
        lambda x: np.tanh(x * 0.25) / 0.25,
    ),
    "gelu by hand": (
        "",
        gelu_by_hand,
        lambda x: x / 2 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    ),
    "gate": (
        "matrix",
        lambda x, row, column, matrix: x * w.sigmoid(x) * matrix,
        lambda x: x * sigmoid(x) * wide("matrix"),
    ),
    "triangle": (
        "",
        lambda x, row, column: w.where(row >= column, x, -w.inf),
        lambda x: np.where(ROWS >= COLUMNS, x, -np.inf),
    ),
    "branches": ("", branches, lambda x: np.where((x > 0) & (ROWS != COLUMNS), 2 * x + (ROWS > 5), x)),
    "integers": (
        "",
        lambda x, row, column: (x.to(w.i32) // 3 + (row & 1)).to(w.f32),
        lambda x: x // 3 + ROWS % 2,
    ),
    "no sum": ("columns", lambda x, row, column, columns: columns, lambda x: wide("columns") + 0 * x),
    "two results": (
        "rows matrix",
        lambda x, row, column, rows, matrix: (x * rows, matrix - x),
        lambda x: (x * wide("rows"), wide("matrix") - x),
    ),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_what_numpy_does(name, chip):
    reads, function, expected = FUNCTIONS[name]
    found = weft.matmul(A, B, epilogue=function, extra=of_inputs(reads), arch=chip, out_dtype="f32")
    want = expected(SUMS)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, want)), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", CHIPS)
def test_a_function_has_the_code_of_the_epilogue_that_weft_has(chip, patch):
    made = []
    found = product_kernel.with_copies
    patch.setattr(product_kernel, "with_copies", lambda operands: made.append(found(operands)) or made[-1])
    bias, residual = EXTRA["columns"], EXTRA["matrix"]
    weft.matmul(A, B, epilogue=weft.Epilogue(bias, "gelu", residual), arch=chip)
    extra = {"bias": bias, "residual": residual}
    weft.matmul(
        A,
        B,
        epilogue=lambda x, row, column, bias, residual: residual + w.gelu(x + bias),
        extra=extra,
        arch=chip,
    )
    one, other = (
        kernel.ptx.replace(".rn.f32", ".f32") for kernel, _ in made
    )  # w's sums may become part of fma
    assert one == other


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", CHIPS)
def test_leading_dimensions_keep_the_rows_of_their_matrix(chip):
    a, b = np.stack([A, A[::-1], -A]), np.stack([B, -B, B])
    rows, matrix = (np.stack([EXTRA[n], 2 * EXTRA[n], -EXTRA[n]]) for n in ("rows", "matrix"))
    each = np.arange(3, dtype=np.float32).reshape(3, 1, 1)
    functions = {  # with the arrays, and what is added
        lambda x, row, column, rows, matrix: x * rows + matrix: ((), 0.0),
        lambda x, row, column, rows, matrix: x * rows + matrix + row.to(w.f32): ((), ROWS),
        lambda x, row, column, rows, matrix, each: x * rows + matrix + each: ((each,), each),
    }
    for right in (B, b):
        products = a.astype(np.float64) @ right.astype(np.float64) * rows + matrix.astype(np.float64)
        for function, (others, added) in functions.items():
            extra = rows, matrix, *others
            found = weft.matmul(a, right, epilogue=function, extra=extra, arch=chip, out_dtype="f32")
            np.testing.assert_allclose(found, products + added, rtol=1e-5, atol=1e-4)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", CHIPS)
def test_groups_have_a_row_of_numbers_each(chip):
    groups = np.repeat([1, -1, 0], 128).astype(np.int32)
    a, b = RNG.integers(-2, 3, (384, 64)).astype(BF16), RNG.integers(-2, 3, (2, 64, 40)).astype(BF16)
    extra = {"bias": RNG.standard_normal((2, 1, 40), np.float32), "row": np.ones((384, 1), np.float32)}
    d = np.zeros((384, 40), np.float32)
    weft.matmul(
        a, b, epilogue=lambda x, i, j, bias, row: x + bias * row, extra=extra, groups=groups, arch=chip, out=d
    )
    for number, rows in ((1, slice(0, 128)), (0, slice(256, None))):
        want = a[rows].astype(np.float32) @ b[number].astype(np.float32) + extra["bias"][number]
        np.testing.assert_allclose(d[rows], want, atol=1e-4)
    assert not d[128:256].any()


@pytest.mark.parametrize(("kind", "sums", "chip"), [(np.int8, "i32", "sm_80"), (np.float64, "f64", "sm_90a")])
def test_sums_of_integers_and_doubles(kind, sums, chip):
    a, b = RNG.integers(-9, 9, (21, 64)).astype(kind), RNG.integers(-9, 9, (64, 24)).astype(kind)
    row = np.arange(24).astype(np.int32 if kind is np.int8 else kind)
    found = weft.matmul(
        a, b, epilogue=lambda x, i, j, row: (w.maximum(x, 0) * 3 + row, -x), extra=(row,), arch=chip
    )
    x = a.astype(np.int64) @ b.astype(np.int64)
    assert (found[0] == np.maximum(x, 0) * 3 + row).all() and (found[1] == -x).all()
    assert {str(each.dtype) for each in found} == {"int32" if sums == "i32" else "float64"}


def test_vectors_an_empty_k_alpha_and_c_and_results_in_place():
    function = lambda x, row, column, of: x * 2.0 + of  # noqa: E731
    of = np.ones(N, np.float32)
    vector = weft.matmul(A[0], B, epilogue=function, extra=(of,), out_dtype="f32")
    assert vector.shape == (N,) and (vector == SUMS[0] * 2 + 1).all()
    column = weft.matmul(A, B[:, 0], epilogue=function, extra=(np.ones(M, np.float32),), out_dtype="f32")
    assert column.shape == (M,) and (column == SUMS[:, 0] * 2 + 1).all()
    empty, other = weft.matmul(A[:, :0], B[:0], epilogue=lambda x, i, j, of: (x + of, of), extra=(of,))
    assert (empty == 1).all() and (other == 1).all()
    out, c = np.ones((M, N), np.float32), np.full((M, N), 5, np.float32)
    options = {"alpha": 2.0, "c": c, "beta": 1.0, "out": out}
    assert weft.matmul(A, B, epilogue=function, extra={"of": out}, **options) is out
    assert (out == (2 * SUMS + 5) * 2 + 1).all()
    scales, factor = (EXTRA["rows"], np.ones((1, N), np.float32)), np.array([2.0], np.float32)
    scaled = weft.matmul(A, B, scales=scales, alpha=factor, epilogue=function, extra=(of,), out_dtype="f32")
    np.testing.assert_allclose(scaled, SUMS * EXTRA["rows"] * 4 + 1, rtol=1e-5, atol=1e-5)
    eights = weft.matmul(A, B, epilogue=lambda x, i, j: (x, x), out_dtype=("f8E4M3FN", "f16"))
    assert [each.dtype.name for each in eights] == ["float8_e4m3fn", "float16"]


def test_defaults_of_a_function_may_change():
    held = {"factor": 2.0}

    def scaled(x, row, column, by=1.0, held=held, *, plus=0.0):
        return x * held["factor"] * by + plus

    changes = (lambda: None, lambda: held.update(factor=3.0), lambda: scaled.__kwdefaults__.update(plus=1.0))
    for change, want in zip(changes, (2 * SUMS, 3 * SUMS, 3 * SUMS + 1), strict=True):
        change()
        assert (weft.matmul(A, B, epilogue=scaled, arch="sm_80", out_dtype="f32") == want).all()
    plain = lambda x, row, column, by=2.0: x * by  # noqa: E731
    for by in (2.0, 3.0):
        plain.__defaults__ = (by,)
        assert (weft.matmul(A, B, epilogue=plain, arch="sm_80", out_dtype="f32") == by * SUMS).all()


MISTAKES = {
    "epilogue must be a weft.Epilogue, or a function of (x, row, column), got 3": (3, {}),
    "epilogue must be a function of (x, row, column) where there is an extra, got None": (
        None,
        {"extra": ()},
    ),
    "extra must be a dictionary of arrays by the function's parameters, or a tuple of arrays, got ndarray": (
        branches,
        {"extra": A},
    ),
    "extra['s'] must be an array, got 2.0: leave it out, or write the number in the function": (
        lambda x, i, j, s: x,
        {"extra": {"s": 2.0}},
    ),
    "error: the epilogue must be a function of (x, row, column): too many positional arguments": (
        lambda x: x,
        {},
    ),
    "extra['s'] must be 37 x 53, with 1 where it is the same for all, got 37: reshape it to M x 1": (
        lambda x, i, j, s: x,
        {"extra": {"s": EXTRA["rows"][:, 0]}},
    ),
    "extra[0] may have elements of i32 only where a and b are integers, got a of bf16: use f32": (
        lambda x, i, j, s: x,
        {"extra": (np.ones(N, np.int32),)},
    ),
    "extra[0] must have contiguous elements, got strides (53,): copy it": (
        lambda x, i, j, s: x,
        {"extra": (EXTRA["matrix"][:, :1],)},
    ),
    "extra[0] must have elements of f32, f16, bf16, i32, f64 unless it is a matrix, got f8E4M3FN: convert": (
        lambda x, i, j, s: x,
        {"extra": (np.ones(N, ml_dtypes.float8_e4m3fn),)},
    ),
    "must return one element, or a tuple of them, in w.f32, the type of its sum, got None": (
        lambda x, i, j: None,
        {},
    ),
    "must return one element, or a tuple of them, in w.f32, the type of its sum, got ()": (
        lambda x, i, j: (),
        {},
    ),
    "the epilogue must be a function of (x, row, column): no signature found for builtin type": (int, {}),
    "got a value of w.i32: return it with .to(w.f32)": (lambda x, i, j: i, {}),
    "operands must have one type, got w.f32 and w.i32: convert one with .to(w.f32)": (
        lambda x, i, j: x * i,
        {},
    ),
    "only the GPU knows this condition: write it in a function with @w.kernel or @w.inline": (
        lambda x, i, j: x if x > 0 else -x,
        {},
    ),
    "np.exp can't be applied to a value of the GPU: use w.exp": (lambda x, i, j: np.exp(x), {}),
    "an epilogue can't have 'gpu.thread_id': it computes numbers of f32, i32, f64, f16, bf16, i1": (
        lambda x, i, j: x + w.thread().to(w.f32),
        {},
    ),
    "out must be a tuple of 2, one for each result of the epilogue, got 1": (
        lambda x, i, j: (x, x),
        {"out": np.empty((M, N), BF16)},
    ),
    "out_dtype must be a tuple of 2, one for each result of the epilogue, got 3": (
        lambda x, i, j: (x, x),
        {"out_dtype": ("f32",) * 3},
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_told_at_its_line(message):
    function, options = MISTAKES[message]
    with pytest.raises(WeftError) as caught:
        weft.matmul(A, B, epilogue=function, arch="sm_90a", **options)
    told = str(caught.value)
    assert message in told and (told.startswith(("weft.matmul: ", "the epilogue")) or f"{__file__}:" in told)
