"""Fragments converted between layouts, and tiles of vectors of rows beside vectors of columns."""

import language_mistakes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.layout import Layout
from weft.passes.builders import registers


@w.kernel()
def converted(x: w.In["m n"], y: w.Out["m n"], z: w.Out["n"], *, M=64, N=64):
    buffer = w.shared(M, N, x.dtype)
    with w.role(warpgroups=1):
        t = w.load(x[0, 0], (M, N))
        w.store(t, buffer)
        w.warpgroup_barrier()
        lanes = w.load_contiguous(buffer)  # some elements of one row in each lane
        there = w.convert(w.convert(t, like=lanes) + lanes, like=t)
        rows = w.max(t, axis=1)
        columns = w.convert(rows, like=w.max(t, axis=0)) if M == N else w.max(t, axis=0)
        w.store(there + columns, y[0, 0])
        w.store_row(columns, z[0])
        assert w.convert(t, like=there) is t


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "dtype, m, n, arch",
    [
        (np.float32, 64, 64, "sm_90a"),
        (np.float16, 128, 32, "sm_90a"),
        pytest.param(np.float16, 64, 64, "sm_100a", marks=pytest.mark.slow),
        pytest.param(np.float32, 128, 128, "sm_100a", marks=pytest.mark.slow),
        pytest.param(np.float32, 128, 128, "sm_80", marks=pytest.mark.slow),
    ],
)
def test_fragments_in_other_layouts(dtype, m, n, arch):
    x = np.random.default_rng(0).standard_normal((m, n)).astype(dtype)
    y, z = np.zeros_like(x), np.zeros(n, dtype)
    report = converted.emulate(x, y, z, M=m, N=n, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    expected = x.max(1) if m == n else x.max(0)
    assert np.array_equal(z, expected)
    assert np.array_equal(y, x + x + expected)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [w.i8, w.f16, w.f32, w.f64])
def test_transposed_fragments_are_converted_to_sums(dtype):
    @w.kernel()
    def transposed(x: w.In["m n", dtype], y: w.Out["n m", dtype]):
        with w.role():
            w.store(w.convert(w.load(x[0, 0], (64, 128)).T), y[0, 0])

    numpy = {w.i8: np.int8, w.f16: np.float16, w.f32: np.float32, w.f64: np.float64}[dtype]
    x = np.random.default_rng(0).integers(-100, 100, (64, 128)).astype(numpy)
    y = np.zeros((128, 64), numpy)
    assert not transposed.emulate(x, y).findings
    assert np.array_equal(y, x.T)


def test_lanes_with_the_same_elements_only_order_registers_anew():
    sums = registers.sums((64, 16))
    other = Layout.parse("S[(4,2,8,2,4,2):(1@warpid,1,4@laneid,2,1@laneid,4)]")
    numbers = registers.reordered(sums, other, (64, 16))
    assert sorted(numbers) == list(range(8)) and numbers != tuple(range(8))
    held, wanted = (registers.registers_of(each, (64, 16)) for each in (sums, other))
    assert tuple(held[number] for number in numbers) == wanted
    lanes = Layout.parse("S[(4,16,2,8):(1@warpid,2@laneid,1@laneid,1)]")
    assert registers.reordered(sums, lanes, (64, 16)) is None


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda t, u: w.convert(3.0, like=t), "w.convert expects a fragment, got 3.0"),
        (lambda t, u: w.convert(t, like=3), "like must be a fragment, got 3"),
        (lambda t, u: w.convert(u, like=t), r"like must have the shape \(64, 32\), got"),
        (
            lambda t, u: w.sum(u, axis=0).T,
            "a vector of columns must have a multiple of 64 elements .* got 32",
        ),
        (lambda t, u: (w.sum(t, axis=1) > 0.0).T, "conditions can't be converted"),
    ],
)
def test_mistakes(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        with w.role():
            body(w.load(x[0, 0], (64, 64)), w.load(x[0, 0], (64, 32)))

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.compile()
    assert caught.value.diagnostics[0].location.file == __file__


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("size", "dtype", "arch"),
    [
        *[(64, dtype, "sm_90a") for dtype in (w.f64, w.bf16, w.i8)],
        *[(64, w.f32, arch) for arch in ("sm_75", "sm_90a", "sm_100a")],
        (128, w.f32, "sm_100a"),
        (192, w.i32, "sm_90a"),
    ],
    ids=str,
)
def test_vectors_are_transposed(size, dtype, arch):
    @w.kernel(arch=arch)
    def kernel(
        x: w.In["m", w.f32], y: w.Out["64 m", w.f32], across: w.Out["m", w.f32], back: w.Out["m", w.f32]
    ):
        with w.role():
            rows = w.load_column(x[0], like=w.zeros(size)).to(dtype)
            columns = rows.T
            w.store_row(columns.to(w.f32), across[0])
            w.store_column(columns.T.to(w.f32), back[0])
            first = w.load_column(x[0], like=w.zeros(64))
            w.store(w.zeros((64, size)) + first - columns.to(w.f32), y[0, 0])

    x = np.random.default_rng(0).integers(-9, 10, size).astype(np.float32)
    y, across, back = np.zeros((64, size), np.float32), np.zeros_like(x), np.zeros_like(x)
    assert not kernel.emulate(x, y, across, back).findings
    assert np.array_equal(across, x) and np.array_equal(back, x)
    assert np.array_equal(y, x[:64, None] - x)


def test_conditions_cant_be_converted():
    @w.kernel()
    def kernel(x: w.In["m n", w.f32]):
        buffer = w.shared(64, 64, w.f32)
        with w.role():
            w.convert(w.load_contiguous(buffer) > 0.0, like=w.load(x[0, 0], (64, 64)))

    with pytest.raises(weft.WeftError, match="conditions can't be converted"):
        kernel.compile()


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@w.kernel()
def distances(a: w.In["m", w.f32], b: w.In["n", w.f32], d: w.Out["m n", w.f32], *, M=64, N=40):
    """d[i, j] = |a[i] - b[j]|, with the sign of b[j] where a[i] is larger, by vectors alone."""
    with w.role():
        left, right = w.load_column(a[0], like=w.zeros(M)), w.load_row(b[0], like=w.zeros((1, N)))
        far = w.maximum(left - right, right - left)
        w.store(w.where(left > right, w.where(right < 0.0, -far, far), far), d[0, 0])


@pytest.mark.parametrize(
    "rows, arch", [(64, "sm_90a"), (128, "sm_100a"), pytest.param(128, "sm_80", marks=pytest.mark.slow)]
)
def test_vectors_of_rows_and_of_columns_make_a_tile(rows, arch):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(rows - 5).astype(np.float32), rng.standard_normal(37).astype(np.float32)
    d = np.zeros((rows - 5, 37), np.float32)
    clean(distances.emulate(a, b, d, M=rows, arch=arch))
    far = np.abs(a[:, None] - b)
    assert np.allclose(d, np.where((a[:, None] > b) & (b < 0), -far, far))


def test_a_condition_of_rows_chooses_among_columns():
    @w.kernel()
    def chosen(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 32))
            w.store(w.where(w.sum(t, axis=1) > 0.0, w.max(t, axis=0), -1.0), y[0, 0])

    x = np.random.default_rng(0).integers(-9, 9, (64, 32)).astype(np.float32)
    y = np.zeros_like(x)
    clean(chosen.emulate(x, y))
    assert np.array_equal(y, np.where(x.sum(1)[:, None] > 0, x.max(0), -1))


def test_indices_of_rows_and_of_columns_gather_and_scatter():
    @w.kernel()
    def shuffled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m n", w.f32]):
        with w.role():
            rows = 63 - w.row(w.zeros(64))
            columns = w.argmax(w.where(w.row(w.zeros((64, 32))) == 0, 1.0, 0.0), axis=0) + 3
            columns = columns + w.cumsum(w.full((1, 32), 1, w.i32))
            w.store(w.load(x[rows, columns]), y[rows, columns])
            w.atomic_add(z[rows, columns], 1.0)

    x = np.random.default_rng(0).standard_normal((50, 34)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    clean(shuffled.emulate(x, y, z))
    z[:, 4:] -= 1
    assert np.array_equal(y[:, 4:], x[:, 4:]) and not y[:, :4].any() and not z.any()


@w.kernel()
def summed(x: w.In["m n", w.f32], y: w.Out["n", w.f32], z: w.Out["m", w.f32], *, N=32):
    """y = the sums of columns, and z = those of rows, of any number of rows."""
    with w.role():
        total, like = w.zeros((1, N)), w.zeros((64, N))
        for row in w.range(0, x.rows, 64):
            t = w.load(x[row, 0], (64, N))
            total += w.sum(t, axis=0)
            w.store_column(w.zeros((64, 1), like=like) + w.sum(t, axis=1), z[row])
        w.store_row(total + w.zeros((1, N), like=like), y[0])


def test_sums_of_columns_begin_with_a_vector_of_columns():
    x = np.random.default_rng(0).standard_normal((150, 30)).astype(np.float32)
    y, z = np.zeros(30, np.float32), np.zeros(150, np.float32)
    clean(summed.emulate(x, y, z))
    assert np.allclose(y, x.sum(0), atol=1e-4) and np.allclose(z, x.sum(1), atol=1e-4)


MISTAKES = r"""
# 'total' was a fragment of 64 .* becomes a fragment of 64 x 32 .*: a vector of rows and one of col
with w.role():
    total = w.zeros(64)
    for row in w.range(0, x.rows, 64):  # here
        total += w.sum(w.load(x[row, 0], (64, 32)), axis=0)

# a vector of rows must have a multiple of 4 elements, got \(30,\): use \(32,\), .* columns is \(1, 30\)$
with w.role():
    w.zeros(30)

# like must be a tile with 32 columns, got a fragment of 64 x 16 w\.f32$
with w.role():
    w.zeros((1, 32), like=w.zeros((64, 16)))

# 'peak' was the Python float 0\.0 and becomes .*: begin with w\.full\(\(1, 32\), 0\.0\)$
def kernel(x: w.In["m n", w.f32], y: w.Out["n", w.f32]):
    with w.role():
        peak = 0.0
        for row in w.range(0, x.rows, 64):  # here
            peak = w.max(w.load(x[row, 0], (64, 32)), axis=0)
        w.store_row(peak, y[0])

# shapes must be equal, or one that of a vector, got a fragment of 128 .* and a vector of 24 columns$
with w.role():
    t = w.by_lanes(w.zeros((64, 64)))
    w.sum(t, axis=1) + w.zeros((1, 24))

# or a vector of columns, got a fragment of 64 w\.f32: use w\.load_column for it$
with w.role():
    w.load_row(x[0, 0], like=w.zeros(64))
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes_of_outer(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


def test_tiles_of_vectors_fit_registers():
    @w.kernel()
    def kernel(x: w.In["m", w.f32]):
        with w.role():
            w.by_lanes(w.zeros(64) + w.zeros((1, 512)))

    with pytest.raises(weft.WeftError, match=r"a fragment of 64 x 512 w\.f32 needs 256 registers"):
        kernel.compile()
