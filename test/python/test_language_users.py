"""What users of Triton or NumPy find: the messages and operators that they expect."""

import math  # noqa: F401 (MISTAKES uses it)

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=lambda x, M, N: w.ceil_div(x.rows, M) * w.ceil_div(x.columns, N) * x.matrices)
def doubled(x: w.In["a b m n", w.f32], y: w.Out["a b m n", w.f32], *, M=64, N=16):
    across, down = w.ceil_div(x.columns, N), w.ceil_div(x.rows, M)
    matrix, tile = w.cta() // (across * down), w.cta() % (across * down)
    b = x.size("b")
    at = matrix // b, matrix % b, tile // across * M, tile % across * N
    with w.role():
        w.store(w.load(x[at], (M, N)) * 2.0, y[at])


def test_a_grid_of_one_dimension_is_a_product_of_sizes():
    x = np.random.default_rng(0).standard_normal((2, 3, 70, 36)).astype(np.float32)
    y = np.zeros_like(x)
    assert not doubled.emulate(x, y).findings
    assert np.array_equal(y, x * 2)


@w.kernel
def extremes(
    x: w.In["m n"],
    at: w.Out["4 m", w.i32],
    best: w.Out["4 m"],
    vector: w.Out["4", w.i32],
):
    """Indices and values of extremes along both axes, and of a vector."""
    with w.role():
        t = w.load(x[0, 0], (64, 64))
        w.store_column(w.argmax(t, axis=1), at[0, 0])
        w.store_column(w.argmin(t, axis=1), at[1, 0])
        w.store_row(w.argmax(t, axis=0), at[2, 0])
        w.store_row(w.argmin(t, axis=0), at[3, 0])
        w.store_column(w.max(t, axis=1), best[0, 0])
        w.store_column(w.min(t, axis=1), best[1, 0])
        w.store_row(w.max(t, axis=0), best[2, 0])
        w.store_row(w.min(t, axis=0), best[3, 0])
        v = w.load(x[3, 0], 512)
        vector[0] = w.argmax(v, axis=0)
        vector[1] = w.argmin(v, axis=0)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "dtype, arch",
    [
        (np.float16, "sm_75"),
        (ml_dtypes.bfloat16, "sm_80"),
        (np.float32, "sm_90a"),
        (np.float64, "sm_90a"),
        (np.float16, "sm_120a"),
    ],
)
def test_the_first_nan_is_the_largest_and_the_smallest(dtype, arch):
    x = np.random.default_rng(0).integers(-9, 9, (64, 64)).astype(np.float64)
    x[3, [9, 4, 60]] = np.nan, -np.nan, np.inf
    x[[5, 63], 63], x[9], x[10], x[:, 20] = np.nan, np.nan, -np.inf, np.inf
    given = x.astype(dtype)
    at, best, vector = np.zeros((4, 64), np.int32), np.zeros((4, 64), dtype), np.zeros(4, np.int32)
    assert not extremes.emulate(given, at, best, vector, arch=arch).findings
    assert np.array_equal(at, [x.argmax(1), x.argmin(1), x.argmax(0), x.argmin(0)])
    values = [x.max(1), x.min(1), x.max(0), x.min(0)]
    assert np.array_equal(best.astype(np.float64), values, equal_nan=True)
    assert vector[:2].tolist() == [4, 4]


@w.kernel()
def searched(
    x: w.In["m n", w.f32],
    across: w.Out["m", w.i32],
    down: w.Out["n", w.i32],
    least: w.Out["m", w.i32],
    y: w.Out["m n", w.f32],
):
    with w.role():
        t = w.load(x[0, 0], (64, 24))
        w.store_column(w.argmax(t, axis=1), across[0])
        w.store_row(w.argmax(t, 0), down[0])
        w.store_column(w.argmin(t, 1), least[0])
        outer = ~((w.row(t) > 3) & (w.column(t) > 3))
        w.store(w.where(outer, w.sigmoid(t), (~w.column(t)).to(w.f32)), y[0, 0])


@pytest.mark.slow
def test_indices_of_extremes_and_inverted_conditions():
    x = np.random.default_rng(1).integers(-9, 9, (64, 24)).astype(np.float32)  # with equal ones
    x[7, 3] = np.nan
    across, down, least, y = (np.zeros(n, np.int32) for n in (64, 24, 64, 1))
    y = np.zeros_like(x)
    assert not searched.emulate(x, across, down, least, y).findings
    assert np.array_equal(across, x.argmax(1)) and np.array_equal(down, x.argmax(0))
    assert np.array_equal(least, x.argmin(1))
    column = np.broadcast_to(np.arange(24), x.shape)
    inner = (np.arange(64)[:, None] > 3) & (column > 3)
    expected = np.where(inner, ~column, 1 / (1 + np.exp(-x)))
    assert np.allclose(y, expected, rtol=1e-5, equal_nan=True)


MISTAKES = r"""
# weft.language has no 'program_id': use w.cta.axis.
y[0, 0] = x[w.program_id(0), 0]

# weft.language has no 'silus'; did you mean 'silu'
y[0, 0] = w.silus(x[0, 0])

# a fragment of 64 x 8 w.f32 has no 'max': use w.max.x, …
with w.role():
    w.store(w.load(x[0, 0], (64, 8)).max(axis=1), y[0, 0])

# the array 'x' has no 'stride': use x.row, column.
y[0, 0] = x[x.stride(0), 0]

# w.load got an unexpected keyword argument 'mask': write w.load.*; for mask, use outside=…, a value
with w.role():
    t = w.load(x[0, 0], (64, 8), mask=True)  # here
    w.store(t, y[0, 0])

# 'keepdims': write w.sum.*; for keepdims, use vectors as they are: one of a tile's rows or columns
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.store(t / w.sum(t, axis=1, keepdims=True), y[0, 0])

# a fragment of 64 x 64 w.f32 has no 'reshape': use w.where, to choose parts of a tile
with w.role():
    w.max(w.load(x[0, 0], (64, 64)).reshape(64, 8, 8), axis=2)

# weft.language has no 'dropout': use w.where.w.rand.seed, offset. >= p, t / .1.0 - p., 0.0.
with w.role():
    w.store(w.dropout(w.load(x[0, 0], (64, 8)), 0.5), y[0, 0])

# a fragment of 64 w.f32 can't be subscripted: .* Vectors of rows and of columns apply to a tile
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.store(t - w.max(t, axis=1)[:, None], y[0, 0])

# 'x' has no slices: write its first element, x\[64, 0\]. w.load takes the tile's shape
w.load(x[64:128, :])

# 'y' has no slices: write its first element, y\[…, 8\]
with w.role():
    y[64 * w.cta() : 128, 8] = w.load(x[0, 0], (64, 8))

# a tile needs an array with rows and columns, got 'v': w.load_row and w.load_column load vectors
def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], v: w.In["k", w.f32]):
    with w.role():
        w.load(v[0], (64, 8))

# a tile needs an array with rows and columns, got 'v': w.store_row and w.store_column
def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], v: w.Out["k", w.f32]):
    with w.role():
        w.store(w.load(x[0, 0], (64, 8)), v[0])

# w.atomic_add changes elements of w.f64, w.f32, w.f16, w.bf16, w.i64, w.i32, w.u64, w.u32, got those of w.i8
def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], v: w.Out["k", w.i8]):
    w.atomic_add(v[w.thread()], 1)

# a tile's first index of 'x' must be at least 0, got -64: the last one is x.size.0. - 1
with w.role():
    w.load(x[-64, 0], (64, 8))

# a tile's first index of 'y' must be at least 0, got -8
with w.role():
    w.store(w.load(x[0, 0], (64, 8)), y[0, -8])

# an element of a buffer of 64 x 16 w.f32 is at \[row, column\]: w.load loads
buffer = w.shared(64, 16, w.f32)
with w.role():
    w.store(w.load(buffer[0:32]), y[0, 0])

# 'rows' was a list of 0 and becomes one of 1, in a loop of the GPU: only range of Python, which unrolls
rows = []
for i in w.range(x.rows):  # here
    rows.append(i)
y[0, 0] = w.i32(len(rows)).to(w.f32)

# 'divmod..' can't be applied to a number of the GPU and int: use // and %
divmod(w.thread(), 2)

# floats of 8 bits have no arithmetic: convert them with .to.w.f32.
with w.role():
    t = w.load(x[0, 0], (64, 8)).to(w.e4m3)
    w.store((t * t).to(w.f32), y[0, 0])

# conditions have no arithmetic: convert them with .to.w.i32.
y[0, 0] = ((x[0, 0] > 0.0) + (x[0, 1] > 0.0)).to(w.f32)

# conditions have no arithmetic
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.store(w.maximum(t > 0.0, t < 1.0).to(w.f32), y[0, 0])

# elements have the shape and layout of their indices. To gather rows, .* w.row.w.zeros.64..
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.load(x[w.row(t), 0], (64, 8))

# floats of 8 bits have no arithmetic
with w.role():
    w.max(w.load(x[0, 0], (64, 8)).to(w.e5m2), axis=1)

# b of w.gemm must be a buffer in shared memory, got a fragment of 64 x 64 w.bf16: .*ring.write
a = w.shared(64, 64, w.bf16)
with w.role():
    w.gemm(a, w.load(x[0, 0], (64, 64)).to(w.bf16))

# outside of roles, w.gemm multiplies tiles as w.load.* loads them.* got another b: in a role, store it to
w.gemm(w.load(x[0, 0], (64, 64)).to(w.bf16), w.load(x[0, 0], (64, 64)).T.to(w.bf16).T)

# w.wait expects pending products, got a fragment of 64 x 64 w.f32: leave out w.wait, as
w.wait(w.gemm(w.load(x[0, 0], (64, 64)), w.load(x[0, 0], (64, 64)).T))

# a and b must have one type, got w.bf16 and w.e4m3: load one of them, convert it .*ring.write
a, b = w.shared(64, 64, w.bf16), w.shared(64, 64, w.e4m3)
with w.role():
    w.gemm(a, b)

# a and b must have one type, got w\.f32 and w\.bf16: convert a with \.to\(w\.bf16\)
b = w.shared(64, 64, w.bf16)
with w.role():
    w.gemm(w.load(x[0, 0], (64, 64)), b)

# a of w.gemm must have elements of one of w.f64, w.f16, .*, w.i8, w.u8, got w.i64
a = w.shared(64, 64, w.i64)
with w.role():
    w.gemm(a, a)

# a and b must have one type, got w.i8 and w.e4m3
a, b = w.shared(64, 64, w.i8), w.shared(64, 64, w.e4m3)
with w.role():
    w.gemm(a, b.T)

# a fragment as a of w.gemm must be in the layout of sums, .*: write w.convert.a.
b = w.shared(64, 64, w.bf16)
with w.role():
    w.gemm(w.load(x[0, 0], (64, 64)).to(w.bf16).T, b)

# a buffer of 64 x 64 w.f32 has no 'to': use w.load, whose fragment has .to
b = w.shared(64, 64, w.f32)
with w.role():
    b.to(w.bf16)

# multiple of 512 elements, got 64: use 512, .*; w.load_row and w.load_column load vectors for tiles
with w.role():
    w.load(x[0, 0], (64,))

# w.load_row expects an element .* got the array 'x': write x.0, 0. for its first
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.load_row(x, like=t)

# must be a multiple of 16, got 60: use 64, as copies fill
w.shared(64, 60, w.bf16)

# another role gets it through a buffer, of w.shared or w.ring
with w.role():
    t = w.load(x[0, 0], (64, 8))
with w.role():
    w.store(t, y[0, 0])

# only the GPU knows this number: .* choose among values by w.where, or by an index of an array
y[0, 0] = w.f32([1.0, 2.0][w.thread()])

# combine conditions of elements by &, | and ~
with w.role():
    t = w.load(x[0, 0], (64, 8))
    w.store(w.where(w.row(t) < 3 and w.column(t) < 4, t, 0.0), y[0, 0])

# needs 256 registers of a thread, which has 255: loop over .* at most 504 at once
with w.role():
    w.store(w.load(x[0, 0], (64, 512)), y[0, 0])

# a tile of 64 x 64 that needs 32 registers of a thread, which has 24: loop over parts
with w.role(registers=24):
    w.store(w.load(x[0, 0], (64, 64)), y[0, 0])

# got .64, 100.: use .64, 104., as loads and stores leave out what is outside
with w.role():
    w.store(w.load(x[0, 0], (64, 100)), y[0, 0])

# w.exp expects values of w.f32, got a fragment of 64 x 8 w.i32: convert with .to.w.f32.
with w.role():
    w.store(w.exp(w.zeros((64, 8), w.i32)), y[0, 0])

# 'return' can't leave a loop or branch of the GPU: put what follows under the opposite
with w.role():
    if w.thread() >= x.rows:
        return  # here
    y[w.thread(), 0] = 1.0

# 'peak' was the Python float -inf and becomes a fragment .*: begin with w.full\(64, -w.inf\)$
peak = -w.inf
with w.role():
    for j in w.range(0, x.columns, 64):  # here
        peak = w.maximum(w.max(w.load(x[0, j], (64, 64)), axis=1), peak)

# 't' was a value of w.f16 and becomes a .* w.f16, .*: begin with w.full\(\(64, 64\), 0.5, w.f16\)$
t = w.f16(0.5)
with w.role():
    for j in w.range(0, x.columns, 64):  # here
        t = w.load(x[0, j], (64, 64)).to(w.f16) + t

# 't' was .*: begin with w\.full\(\(1, 64\), …\)$
t = x[0, 0] + 0.5
with w.role():
    for j in w.range(0, x.columns, 64):  # here
        t = w.sum(w.load(x[0, j], (64, 64)), axis=0) + t

# a condition must be one number, got a fragment: .* w.maximum or w.minimum
with w.role():
    max(w.zeros(64), w.full(64, 1.0))

# Python can't make a number of a fragment of 64 w.f32: use the functions of w, as w.tanh for math.tanh
with w.role():
    math.tanh(w.zeros(64))

# shapes must be equal, or one that of a vector, got a vector of 64 rows and a vector of 128 rows
with w.role():
    w.maximum(w.zeros(64), w.zeros(128))

# rows of a buffer of 64 w.bf16 must be a multiple of 8 in a ring, since .*, got 60: use 64
ring = w.ring(3, a=(60, 64, w.bf16), b=(64, 64, w.bf16))  # here
with w.role():
    w.load(ring.take().a)

# rows of a buffer of 32 w.f32 must be a multiple of 8 in a ring, since .*, got 4: use 8
ring = w.ring(3, a=(4, 32, w.f32))  # here
with w.role(), w.one_thread():
    ring.fill(a=x[0, 0])

# ring 'a, b' has 40 stages of 8192 bytes, 328320 .* barriers, .* sm_90a has 232448: use at most 28 stages$
w.ring(40, a=(64, 64, w.e4m3), b=(64, 64, w.e4m3))

# of which other buffers take 229600: use smaller tiles or fewer stages$
made = w.ring(14, a=(64, 64, w.f32))
w.ring(14, b=(64, 64, w.f32), over=made)
w.shared(64, 64, w.f32)

# 'v' was the Python float 1.5 and becomes a value of w.i32, on the other side .*: convert this one with
v = w.thread()
if v < 3:  # here
    v = 1.5
y[0, 0] = v

# the product .line .*that reads this stage may not be finished where the stage is released
def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f32]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role():
        with ring.take() as stage:  # here
            sums = w.gemm(stage.x, stage.x.T)
        w.store(w.wait(sums), y[0, 0])
    with w.role(), w.one_thread():
        ring.fill(x=x[0, 0])

# becomes a pending product of 64 x 64 w.f32, in a loop of the GPU: w.wait for it there
def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f32]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(0, x.columns, 64):  # here
            stage = ring.take()
            sums = w.gemm(stage.x, stage.x.T, sums)
        w.store(w.wait(sums), y[0, 0])
    with w.role(), w.one_thread():
        ring.fill(x=x[0, 0])

# b of w.gemm must be contiguous along K for elements of w.e4m3 .*pass buffer.T; w.transpose makes
def kernel(x: w.In["m n", w.e4m3], y: w.Out["m n", w.f32]):
    ring = w.ring(2, x=(64, 64, w.e4m3))
    with w.role(), ring.take() as stage:
        w.store(w.wait(w.gemm(stage.x, stage.x)), y[0, 0])  # here
    with w.role(), w.one_thread():
        ring.fill(x=x[0, 0])

# parts of 'x' must have a multiple of 8 rows, got 1: load single rows by w.load.x.rows, k.
def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role(), w.one_thread():
        ring.fill(x=tuple(x[w.thread() + i, 0] for i in range(64)))

# ring 'x' is filled in another role already: each role has its own position in a ring
def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role():
        ring.fill(x=x[0, 0])
    with w.role():
        ring.fill(x=x[64, 0])

# w.load must be executed by whole warpgroups, so it can't be in w.one_thread
with w.role(), w.one_thread():
    w.store(w.load(x[0, 0], (64, 64)), y[0, 0])

# w.print takes one tile or vector: print others by calls of their own
w.print("t", w.load(x[0, 0], (64, 8)), w.zeros(64))

# must be a multiple of 8, got 33: use 40, .*; or w\.shared\(1, 1056, w\.f32\), with elements \[row \* 33
w.shared(32, 33, w.f32)
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_a_mistake_names_what_is_legal(code, message, tmp_path):
    assert language_mistakes.refused(tmp_path, code, message, globals()).column > 1


def copied(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    w.store(w.load(x[0, 0], (64, 8)), y[0, 0])


def test_calls_of_triton_and_shapes_that_differ():
    x = np.zeros((64, 8), np.float32)
    with pytest.raises(weft.WeftError, match="copied can't be subscripted by a grid: set it"):
        w.kernel()(copied)[(1,)](x, x)
    with pytest.raises(weft.WeftError, match="don't fit together: 'm' is 64 in 'x' and 32 in 'y'"):
        w.kernel()(copied).compile(x, x[:32].copy())
    with pytest.raises(AttributeError, match=r"no 'bfloat16': use w\.bf16"):
        getattr(w, "bfloat16")  # noqa: B009


def test_tiles_need_warpgroups_and_grids_whole_numbers():
    with pytest.raises(weft.WeftError, match="whole warpgroups, and threads=64 is no multiple of 128"):
        w.kernel(threads=64)(copied).compile()
    with pytest.raises(weft.WeftError, match="divide sizes by // or") as raised:
        w.kernel(grid=lambda x: x.rows / 2)(copied).compile()
    assert raised.value.diagnostics[0].location.file == __file__


def test_as_many_stages_fit_as_the_message_states():
    @w.kernel
    def kernel(x: w.In["m n", w.e4m3], y: w.Out["m n", w.f32]):
        ring = w.ring(28, a=(64, 64, w.e4m3), b=(64, 64, w.e4m3))
        with w.role():
            ring.fill(a=x[0, 0], b=x[0, 0])
        with w.role():
            w.store(w.load(ring.take().a).to(w.f32), y[0, 0])

    kernel.compile(arch="sm_90a")
