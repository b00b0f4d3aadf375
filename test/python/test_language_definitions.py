"""What definitions of kernels may have: annotations, and grids that are functions of sizes."""

import numpy as np
import pytest

import weft
import weft.language as w


def counted(grid):
    @w.kernel(grid=grid, threads=32)
    def kernel(x: w.In["m n", w.f32], count: w.Out["one", w.i32], *, N=64):
        if w.thread() == 0:
            w.atomic_add(count[0], 1)

    return kernel


@pytest.mark.parametrize(
    "grid, count",
    [(lambda x: -(-x.rows // 64), 2), (lambda x, N: 3 - -x.columns // N, 5), (lambda x: -x.rows + 73, 3)],
)
def test_grids_take_operators_of_integers(grid, count):
    found = np.zeros(1, np.int32)
    assert not counted(grid).emulate(np.zeros((70, 100), np.float32), found).findings
    assert found[0] == count


@pytest.mark.parametrize(
    "grid, message",
    [
        (lambda x: int(x.rows), r"sizes of a grid are integers .*: leave int\(\) out$"),
        (lambda x: range(x.rows)[0], r"sizes of a grid are integers .*: leave int\(\) out$"),
        (
            lambda x: w.maximum(x.rows, 1),
            "a grid has sums and products of sizes, // and w.ceil_div, and no other",
        ),
        (lambda x: max(x.rows, 1), "a grid can't depend on a comparison of sizes"),
    ],
)
def test_grids_have_no_other_functions(grid, message):
    with pytest.raises(weft.WeftError, match=message) as raised:
        counted(grid).compile()
    assert raised.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: w.In["m n", np.float32],
            r"w\.In: the element type must be one of w, got float32: write w\.f32$",
        ),
        (
            lambda: w.Out["m n", "bf16"],
            r"w\.Out: the element type must be one of w, got 'bf16': write w\.bf16$",
        ),
        (lambda: w.In["m n", "b16"], r"must be one of w, got 'b16': there are w\.f64, w\.f32, "),
        (lambda: w.In["m, n", w.f32], "a size must be a name or .*, got 'm,': separate sizes by spaces$"),
        (lambda: w.In["m*n", w.f32], r"a size must be a name or a positive number, got 'm\*n'$"),
    ],
)
def test_annotations_name_types_and_sizes(make, message):
    with pytest.raises(weft.WeftError, match=message):
        make()


def test_types_of_python_lead_to_types_of_the_language():
    def scaled(x: w.In["n", w.f32], by: float):
        x[0] = by

    with pytest.raises(
        weft.WeftError, match=r"'by' must be annotated .*, got float: write w\.f32; meta-para"
    ):
        w.kernel(scaled)
    with pytest.raises(
        AttributeError, match=r"no 'InOut': use w\.Out, whose elements a kernel may read, too"
    ):
        getattr(w, "InOut")  # noqa: B009


def test_axes_count_from_the_last_one():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 32))
            total = w.sum(t, axis=-1) + w.max(t, axis=-2)
            w.store(total + w.argmax(t, -1).to(w.f32) + w.cumsum(t, axis=-1), y[0, 0])

    x = np.random.default_rng(0).permutation(64 * 32).reshape(64, 32).astype(np.float32)
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.sum(1)[:, None] + x.max(0) + x.argmax(1)[:, None] + x.cumsum(1))
