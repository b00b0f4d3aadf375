"""`w.cumsum` and `w.associative_scan`: what elements up to each one are combined to."""

import language_mistakes
import numpy as np
import pytest

import weft.language as w

_RNG = np.random.default_rng(0)


def numbers(*shape):
    """Numbers of few bits, whose sums have no rounding in any type."""
    return _RNG.integers(-1, 2, shape).astype(np.float32)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "arch"),
    [
        *[(dtype, 64, 16, "sm_90a") for dtype in (w.f64, w.f32, w.f16, w.bf16, w.i64, w.i32)],
        (w.f32, 64, 8, "sm_75"),
        (w.f32, 192, 24, "sm_90a"),
        (w.f32, 128, 16, "sm_100a"),
        (w.i32, 192, 8, "sm_100a"),
    ],
    ids=str,
)
def test_tiles_and_vectors_are_added_up(dtype, rows, columns, arch):
    @w.kernel(arch=arch)
    def kernel(
        x: w.In["m n", w.f32],
        across: w.Out["m n", w.f32],
        down: w.Out["m n", w.f32],
        of_rows: w.Out["m", w.f32],
        of_columns: w.Out["n", w.f32],
    ):
        with w.role():
            t = w.load(x[0, 0], (rows, columns)).to(dtype)
            w.store(w.cumsum(t, axis=1).to(w.f32), across[0, 0])
            w.store(w.cumsum(t, axis=0).to(w.f32), down[0, 0])
            w.store_column(w.cumsum(w.max(t, axis=1)).to(w.f32), of_rows[0])
            w.store_row(w.cumsum(w.max(t, axis=0), axis=0).to(w.f32), of_columns[0])

    x = numbers(rows, columns)
    across, down = np.zeros_like(x), np.zeros_like(x)
    of_rows, of_columns = np.zeros(rows, np.float32), np.zeros(columns, np.float32)
    assert not kernel.emulate(x, across, down, of_rows, of_columns).findings
    assert np.array_equal(across, x.cumsum(1)) and np.array_equal(down, x.cumsum(0))
    assert np.array_equal(of_rows, x.max(1).cumsum()) and np.array_equal(of_columns, x.max(0).cumsum())


@pytest.mark.each_value(2)
@pytest.mark.parametrize("threads", [32, 96, 128, 1024])
def test_numbers_of_threads_are_added_up(threads):
    @w.kernel(threads=threads)
    def compacted(x: w.In["n", w.f32], y: w.Out["n", w.f32], count: w.Out["1", w.i32]):
        kept = x[w.thread()] > 0.0
        place = w.cumsum(kept.to(w.i32))
        if kept:
            y[place - 1] = x[w.thread()]
        if w.thread() == threads - 1:
            count[0] = place

    x, y = numbers(threads) * np.arange(threads, dtype=np.float32), np.zeros(threads, np.float32)
    count = np.zeros(1, np.int32)
    assert not compacted.emulate(x, y, count).findings
    assert count[0] == (x > 0).sum() and np.array_equal(y[: count[0]], x[x > 0])


def test_each_warpgroup_of_a_role_adds_up_its_own_tile():
    @w.kernel
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m", w.i32]):
        with w.role(warpgroups=2) as me:
            for _ in w.range(2):
                w.store(w.cumsum(w.load(x[64 * me, 0], (64, 16)), axis=0), y[64 * me, 0])
            if w.thread() < 128:
                z[w.thread()] = 0
            w.barrier()
            w.atomic_add(z[w.thread() % 128], w.cumsum(w.thread() // 128))

    x, z = numbers(128, 16), np.zeros(128, np.int32)
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y, z).findings
    assert np.array_equal(y, np.vstack([each.cumsum(0) for each in np.split(x, 2)]))
    assert z.tolist() == list(range(1, 129))


@pytest.mark.slow
def test_one_exchange_is_enough_for_all_columns():
    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            w.store(w.cumsum(w.load(x[0, 0], (64, 128)), axis=0), y[0, 0])

    compiled = kernel.compile()
    assert compiled.ptx.count("bar.sync \t1, 128;") == 2
    assert compiled.resources.spill_stores == 0 and compiled.resources.registers <= 168


@w.inline
def recurrence(a, b, a2, b2):
    """Two steps h = a * h + b as one."""
    return a * a2, b * a2 + b2


def repeated(a, b, axis=0):
    h, value = [], 0
    for decay, added in zip(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0), strict=True):
        value = value * decay + added
        h.append(value)
    return np.moveaxis(np.array(h), 0, axis)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "arch"),
    [
        pytest.param(w.f64, 64, 16, "sm_90a", marks=pytest.mark.slow),
        *[(dtype, 64, 16, "sm_90a") for dtype in (w.f32, w.bf16, w.i32)],
        (w.f32, 64, 8, "sm_75"),
        (w.f32, 192, 24, "sm_90a"),
        (w.f32, 128, 16, "sm_100a"),
    ],
    ids=str,
)
def test_recurrences_of_tiles_and_vectors(dtype, rows, columns, arch):
    @w.kernel(arch=arch)
    def kernel(
        x: w.In["m n", w.f32],
        z: w.In["m n", w.f32],
        across: w.Out["m n", w.f32],
        down: w.Out["m n", w.f32],
        largest: w.Out["m n", w.f32],
        of_rows: w.Out["m", w.f32],
        of_columns: w.Out["n", w.f32],
    ):
        with w.role():
            a, b = (w.load(each[0, 0], (rows, columns)).to(dtype) for each in (x, z))
            w.store(w.associative_scan((a, b), recurrence, axis=1)[1].to(w.f32), across[0, 0])
            w.store(w.associative_scan((a, b), recurrence, axis=0)[1].to(w.f32), down[0, 0])
            w.store(w.associative_scan(b, w.maximum, axis=0).to(w.f32), largest[0, 0])
            pair = w.max(a, axis=1), w.max(b, axis=1)
            w.store_column(w.associative_scan(pair, recurrence)[1].to(w.f32), of_rows[0])
            pair = w.max(a, axis=0), w.max(b, axis=0)
            w.store_row(w.associative_scan(pair, recurrence)[1].to(w.f32), of_columns[0])

    x, z = numbers(rows, columns), numbers(rows, columns)
    x[7::8], x[:, 7::8] = 0, 0  # so that results are small
    across, down, largest = np.zeros((3, rows, columns), np.float32)
    of_rows, of_columns = np.zeros(rows, np.float32), np.zeros(columns, np.float32)
    assert not kernel.emulate(x, z, across, down, largest, of_rows, of_columns).findings
    assert np.array_equal(across, repeated(x, z, 1)) and np.array_equal(down, repeated(x, z))
    assert np.array_equal(largest, np.maximum.accumulate(z, 0))
    assert np.array_equal(of_rows, repeated(x.max(1), z.max(1)))
    assert np.array_equal(of_columns, repeated(x.max(0), z.max(0)))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("threads", [32, 96, 256])
@pytest.mark.parametrize("seed", [None, 1])
def test_largest_numbers_of_threads_and_where_they_are(threads, seed):
    @w.kernel(threads=threads)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32], at: w.Out["n", w.i32]):
        def larger(value, index, other, later):
            if other > value:
                return other, later
            return value, index

        i = w.thread()
        for _ in w.range(2):  # the exchange's memory is used again
            y[i], at[i] = w.associative_scan((x[i], i), larger)

    x = np.random.default_rng(0).integers(0, 60, threads).astype(np.float32)
    y, at = np.zeros_like(x), np.zeros(threads, np.int32)
    assert not kernel.emulate(x, y, at, seed=seed).findings
    assert np.array_equal(y, np.maximum.accumulate(x))
    assert at.tolist() == [x[: n + 1].argmax() for n in range(threads)]


MISTAKES = r"""
# axis must be 0 or 1, of a fragment of 64 x 8 w\.f32, got None
w.cumsum(w.load(x[0, 0], (64, 8)))

# axis must be None or 0, of a fragment of 64 w\.f32, got 1
w.cumsum(w.sum(w.load(x[0, 0], (64, 8)), axis=1), axis=1)

# w\.cumsum expects a fragment, or a number of each thread, got the array 'x'
w.cumsum(x)

# conditions have no arithmetic
w.cumsum(x[0, 0] > 0.0)

# must be executed by all threads
with w.role(), w.one_thread():
    w.cumsum(x[0, 0])

# combine must be a function of two numbers, such as w.maximum, got 1
w.associative_scan(x[0, 0], 1)

# combine must return 2 numbers, one of each array, got 1
w.associative_scan((x[0, 0], x[0, 1]), lambda a, b, c, d: a + c)

# combine must return 1 number, got 2
w.associative_scan(x[0, 0], lambda a, b: (a, b))

# combine must take two numbers: too many positional arguments
w.associative_scan(x[0, 0], lambda a: a)

# combine must take 4 numbers, an earlier and a later one of each array: too many
w.associative_scan((x[0, 0], x[0, 1]), w.maximum)

# expects several tiles, vectors or numbers as a tuple, got a list
w.associative_scan([x[0, 0], x[0, 1]], recurrence)

# axis must be 0 or 1, of a fragment of 64 x 8 w\.f32, got 1\.0
w.associative_scan(w.load(x[0, 0], (64, 8)), w.maximum, axis=1.0)

# expects fragments of one shape and layout, got .* in another layout: use w\.convert
tile = w.zeros((64, 64))
pair = w.load_row(x[0, 0], like=tile), w.load_column(x[0, 0], like=tile)
w.associative_scan(pair, recurrence)

# expects a value of w\.f32, got a value of w\.i32: convert it with \.to\(w\.f32\)
w.associative_scan(x[0, 0], lambda a, b: (a + b).to(w.i32))

# w\.associative_scan expects numbers, got conditions: convert them with \.to\(w\.i32\)
w.associative_scan(x[0, 0] > 0.0, lambda a, b: a | b)

# floats of 8 bits have no arithmetic: convert them with \.to\(w\.f32\)
w.associative_scan(x[0, 0].to(w.e5m2), lambda a, b: b)

# w\.associative_scan expects fragments of one shape and layout, got a fragment of 64 x 8 .* 64 x 16
w.associative_scan(tuple(w.load(x[0, 0], (64, n)) for n in (8, 16)), recurrence, axis=1)
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())
