"""Tensor memory in the program's hands: tiles, products that one thread starts, and rings between roles."""

import pathlib
import runpy

import ml_dtypes
import numpy as np
import pytest
from language_mistakes import cases, refused

import weft
import weft.language as w
from weft.reference import attention as reference

BF16 = ml_dtypes.bfloat16
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
ATTENTION = runpy.run_path(str(EXAMPLES / "language_attention_sm100.py"))["attention"]


def random(*shape, dtype=BF16, seed=0):
    rng = np.random.default_rng((*shape, seed))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@w.kernel(grid=lambda a, b, M, N: (w.ceil_div(a.rows, M), w.ceil_div(b.rows, N)), persistent=1)
def gemm(a: w.In["m k"], b: w.In["n k"], d: w.Out["m n"], *, M=128, N=64, K=64, stages=2, part=32):
    """A role stores a tile while the thread that multiplies is at the next one."""
    ring = w.ring(stages, a=(M, K, a.dtype), b=(N, K, b.dtype))
    sums = w.ring(2, memory="tensor", d=(M, N, d.dtype))
    with w.role():
        for x, y in w.tiles():
            with sums.take() as done:
                for first in range(0, N, part):
                    w.store(w.load(done.d.columns(first, part)), d[x * M, y * N + first])
    with w.role():
        with w.one_thread():
            for x, y in w.tiles():
                for k in w.range(0, a.columns, K):
                    ring.fill(a=a[x * M, k], b=b[y * N, k])
        with w.one_thread(warp=1):
            for _ in w.tiles():
                with sums.write() as tile:
                    for k in w.range(0, a.columns, K):
                        with ring.take() as stage:
                            w.gemm(stage.a, stage.b.T, tile.d, accumulate=k > 0)


@pytest.mark.parametrize(
    "shape, dtype, options",
    [
        ((200, 72, 136), BF16, {}),
        ((70, 264, 72), np.float16, {"M": 64, "N": 256, "part": 64}),
        pytest.param((130, 40, 80), np.float32, {"K": 32}, marks=pytest.mark.slow),
        pytest.param((130, 40, 144), ml_dtypes.float8_e4m3fn, {"K": 128}, marks=pytest.mark.slow),
        pytest.param((130, 40, 144), np.int8, {"K": 128}, marks=pytest.mark.slow),
    ],
)
def test_roles_load_multiply_and_store(shape, dtype, options):
    m, n, k = shape
    a, b = random(m, k, dtype=dtype), random(n, k, dtype=dtype)
    d = np.zeros((m, n), np.int32 if dtype is np.int8 else np.float32)
    assert not gemm.emulate(a, b, d, arch="sm_100a", **options).findings
    bound = 0.05 if dtype is np.float32 else 1e-3
    assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=bound)


@w.kernel(arch="sm_100a")
def twice(a: w.In["m k", w.bf16], b: w.In["n k", w.bf16], c: w.In["n d", w.bf16], e: w.Out["m d"], *, M=128):
    """Two warpgroups change the sums of a product in place to the left operand of the next one."""
    inputs = w.ring(1, a=(2 * M, 64, a.dtype), b=(64, 64, b.dtype), c=(64, 32, c.dtype))
    sums = w.ring(2, memory="tensor", s=(M, 64, w.f32))
    halves = w.ring(2, memory="tensor", over=sums, p=(M, 64, w.bf16))
    results = w.ring(2, memory="tensor", e=(M, 32, w.f32))
    with w.role(warpgroups=2) as me:
        for _ in range(2):  # the stages are used again
            s = sums.take(own=True)
            with halves.write(s, own=True) as half:
                w.store((w.load(s.s) * 0.5).to(w.bf16), half.p)
        with results.take(own=True) as result:
            w.store(w.load(result.e), e[M * me, 0])
    with w.role():
        with w.one_thread():
            inputs.fill(a=a[0, 0], b=b[0, 0], c=c[0, 0])
        with w.one_thread(warp=3), inputs.take() as given:
            for last in (False, True):
                for tile in range(2):
                    with sums.write() as stage:
                        w.gemm(given.a.rows(M * tile, M), given.b.T, stage.s, accumulate=False)
                for _ in range(2):
                    with halves.take() as stage:
                        if last:
                            with results.write() as result:
                                w.gemm(stage.p, given.c, result.e, accumulate=False)


@pytest.mark.parametrize("rows", [128, 64])
def test_a_product_reads_what_warpgroups_made_of_sums_in_place(rows):
    a, b, c = random(2 * rows, 60), random(50, 60), random(50, 32)
    e = np.zeros((2 * rows, 32), np.float32)
    a, b = (np.pad(each, ((0, 0), (0, 4))) for each in (a, b))
    assert not twice.emulate(a, b, c, e, M=rows).findings
    s = (a.astype(float) @ b.astype(float).T / 2).astype(BF16).astype(float)
    assert np.allclose(e, s @ c.astype(float), atol=0.1)


@w.kernel(arch="sm_100a")
def moved(x: w.In["m n"], y: w.Out["m n"], *, m, n):
    """A tile through tensor memory, in columns of another order."""
    memory = w.tensor_memory(m, n, x.dtype)
    with w.role():
        w.store(w.load(x[0, 0], (m, n)), memory)
        w.store(w.load(memory.columns(n // 2, n // 2)), y[0, 0])
        for i in w.range(2):
            w.store(w.load(memory.columns(i * (n // 4), n // 4)), y[0, n // 2 + i * (n // 4)])


@pytest.mark.parametrize(
    "rows, dtype", [(128, np.float32), (128, BF16), (128, np.int8), (64, np.float32), (64, BF16)]
)
def test_parts_of_tensor_memory_are_stored_and_loaded(rows, dtype):
    x = random(rows, 64, dtype=dtype)
    y = np.zeros_like(x)
    assert not moved.emulate(x, y).findings
    assert np.array_equal(y, np.hstack([x[:, 32:], x[:, :32]]))


@w.kernel(arch="sm_100a")
def signalled(a: w.In["m k", w.f16], d: w.Out["m n", w.f32], *, waits=True):
    """A thread of a warpgroup multiplies, and the whole warpgroup continues with the sums. It adds those of a
    product that it starts as a whole, which are in the same layout.
    """
    left, right = w.shared(128, 64, w.f16), w.shared(32, 64, w.f16)
    sums, done = w.tensor_memory(128, 32, w.f32), w.ring(1, memory="tensor")
    with w.role():
        w.store(w.load(a[0, 0], (128, 64)), left)
        w.store(w.zeros((128, 32)) + 1.0, sums)
        with w.one_thread():
            for i in w.range(32):
                for j in w.range(64):
                    right[i, j] = a[i, j]
        w.fence()
        w.barrier()
        with w.one_thread(), done.write():
            w.gemm(left, right.T, sums)
        if waits:
            done.take().release()
        w.store(w.load(sums) + w.wait(w.gemm(left, right.T)), d[0, 0])
        if not waits:
            done.take().release()


def test_a_ring_without_tiles_signals_that_products_are_complete():
    a, d = random(128, 64, dtype=np.float16), np.zeros((128, 32), np.float32)
    assert not signalled.emulate(a, d).findings
    assert np.allclose(d, 1 + 2 * a.astype(float) @ a[:32].astype(float).T, atol=1e-2)


def test_the_sanitizer_reports_sums_that_are_read_too_early():
    a, d = random(128, 64, dtype=np.float16), np.zeros((128, 32), np.float32)
    findings = signalled.emulate(a, d, waits=False).findings
    assert {each.rule for each in findings} & {"tmem-race", "tmem-unordered"}


@w.kernel(arch="sm_100a")
def scaled(a: w.In["m k", w.f16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32], last: w.Out["one", w.f32]):
    """A warpgroup changes stages in place, and one thread multiplies them; another one reads an element."""
    copies, ring = w.ring(2, a=(128, 64, a.dtype)), w.ring(1, b=(64, 64, b.dtype))
    halves, again = w.ring(2, over=copies, a=(128, 64, a.dtype)), w.ring(1, b=(64, 64, b.dtype))
    sums = w.ring(1, memory="tensor", d=(128, 64, w.f32))
    with w.role():
        for _ in w.range(0, a.columns, 64):
            stage = copies.take()
            with halves.write(stage) as half:
                w.store(w.load(stage.a) * 0.5, half.a)
        with sums.take() as done:
            w.store(w.load(done.d), d[0, 0])
    with w.role():
        with w.one_thread():
            for k in w.range(0, a.columns, 64):
                copies.fill(a=a[0, k])
                ring.fill(b=b[0, k])
                again.fill(b=b[0, k])
        with w.one_thread(warp=1), sums.write() as tile:
            for k in w.range(0, a.columns, 64):
                with halves.take() as half, ring.take() as stage:
                    w.gemm(half.a, stage.b.T, tile.d, accumulate=k > 0)
        with w.one_thread(warp=2):
            for _ in w.range(0, a.columns, 64):
                with again.take() as stage:
                    last[0] = stage.b[1, 7].to(w.f32)


def test_one_thread_multiplies_stages_that_a_warpgroup_changed_in_place():
    a, b = random(128, 320, dtype=np.float16), random(64, 320, dtype=np.float16)
    d, last = np.zeros((128, 64), np.float32), np.zeros(1, np.float32)
    assert not scaled.emulate(a, b, d, last).findings
    assert np.allclose(d, a.astype(float) @ b.astype(float).T / 2, atol=1e-2)
    assert last[0] == b[1, 256 + 7]


@w.kernel(arch="sm_100a")
def halved(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, vote=True):
    """Warps halve their rows until none of their elements is larger than 1."""
    memory = w.tensor_memory(128, 32, w.f32)
    with w.role():
        t = w.load(x[0, 0], (128, 32))
        w.store(t, memory)
        peak = w.max(t, axis=1)
        for _ in w.range(3):
            large = w.warp_any(peak > 1.0) if vote else peak.rows > x[w.thread(), 0]
            if large:
                w.store(w.load(memory) * 0.5, memory)
                peak = peak * 0.5
        w.store(w.load(memory), y[0, 0])


def test_a_warp_may_load_and_store_in_a_branch_that_all_of_its_lanes_take():
    x = np.random.default_rng(0).random((128, 32)).astype(np.float32) / 2
    x[::32, 0] = 1.5 * 2.0 ** np.arange(4) / 2  # the largest of each warp: 0.75, 1.5, 3 and 6
    y = np.zeros_like(x)
    assert not halved.emulate(x, y).findings
    assert np.array_equal(y, x / 2.0 ** (np.arange(128) // 32)[:, None])
    with pytest.raises(weft.WeftError, match="expects all 32 lanes of the warp to reach it together"):
        halved.emulate(x, y, vote=False)


def attended(queries, keys):
    """q, k and v of two heads. Scores differ by more than what the kernel doesn't rescale."""
    return random(2, queries, 128) * BF16(3), random(2, keys, 128), random(2, keys, 128, seed=1)


def is_attention(o, q, k, v, causal):
    wanted = reference.attention(q, k, v, scale=128**-0.5, causal=causal).out
    return np.allclose(o.astype(float), wanted, atol=2**-6)


@pytest.mark.parametrize(
    "queries, keys, causal",
    [
        (130, 300, True),
        (1, 5, False),
        pytest.param(300, 130, True, marks=pytest.mark.slow),
        pytest.param(257, 256, False, marks=pytest.mark.slow),
    ],
)
def test_attention_of_separate_roles(queries, keys, causal):
    q, k, v = attended(queries, keys)
    o = np.zeros_like(q)
    assert not ATTENTION.emulate(q, k, v, o, 128**-0.5, causal=causal).findings
    assert is_attention(o, q, k, v, causal)


def test_attention_of_separate_roles_keeps_its_tiles_in_registers():
    kernel = ATTENTION.compile("bf16", "bf16", "bf16", "bf16", D=128)
    assert kernel.resources.spill_stores < 32  # of the thread that starts products


MISTAKES = """
# 128 x 513 numbers of w.f32 take 513 columns .* has 512: use tiles of at most 512 columns
memory = w.tensor_memory(128, 513, w.f32)

# 2 x 128 x 128 .* take 256 columns .*, of which others have 384: use tiles of at most 64 columns
memory = w.tensor_memory(128, 384, w.f32)
ring = w.ring(2, memory="tensor", s=(128, 128, w.f32))

# a tile of w.f32 in tensor memory must have 64 or 128 rows, got 256
memory = w.tensor_memory(256, 64, w.f32)

# a tile of w.f32 in tensor memory must have 64 or 128 rows, got 128.0
memory = w.tensor_memory(128.0, 64, w.f32)

# a tile of w.i8 in tensor memory must have 128 rows, got 64
memory = w.tensor_memory(64, 64, w.i8)

# must have 8, 16 or 32 bits, got w.f64
memory = w.tensor_memory(128, 64, w.f64)

# columns must be a positive number that Python knows, a multiple of 2 for w.bf16, got 33
memory = w.tensor_memory(128, 33, w.bf16)

# started by one thread, got all threads: write it in 'with w.one_thread\\(\\):', in a role of one warpgroup
a, sums = w.shared(128, 64, w.bf16), w.tensor_memory(128, 128, w.f32)
with w.role():
    w.gemm(a, a.T, sums)

# started by one thread, got a thread of each warpgroup
a, sums = w.shared(128, 64, w.bf16), w.tensor_memory(128, 128, w.f32)
with w.role(warpgroups=2), w.one_thread():
    w.gemm(a, a.T, sums)

# a of a product in tensor memory must be a buffer in shared memory, or tensor memory, got .*: w.store
a, sums = w.shared(128, 128, w.bf16), w.tensor_memory(128, 128, w.f32)
with w.role():
    t = w.zeros((128, 128), w.bf16)
    with w.one_thread():
        w.gemm(t, a, sums)

# sums of a product in tensor memory must be tensor memory, as a is, got None
a, p = w.shared(128, 128, w.bf16), w.tensor_memory(128, 128, w.bf16)
with w.role(), w.one_thread():
    w.gemm(p, a)

# sums of this product must be as w.tensor_memory\\(128, 128, w.f32\\) makes them, got
a, sums = w.shared(128, 64, w.bf16), w.tensor_memory(128, 64, w.f32)
with w.role(), w.one_thread():
    w.gemm(a, a.T, sums)

# each thread has whole rows of fragments with 128 rows, which mma.sync can't multiply
a, memory = w.shared(128, 64, w.bf16), w.tensor_memory(128, 64, w.f32)
with w.role():
    w.warp_gemm(a, a.T)

# w.wait expects pending products, got None: products in tensor memory are complete when the stage
a, sums = w.shared(128, 64, w.bf16), w.tensor_memory(128, 128, w.f32)
with w.role(), w.one_thread():
    w.wait(w.gemm(a, a.T, sums))

# w.store expects a fragment, got tensor memory of 128 x 64 w.f32: w.load it first
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.store(memory, y[0, 0])

# '\\*' can't be applied to a tile in tensor memory and float: load it by w.load
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.store(memory * 2.0, y[0, 0])

# w.gemm with sums in registers must be executed by whole warpgroups, so it can't be in w.one_thread
a = w.shared(128, 64, w.bf16)
with w.role(), w.one_thread():
    w.gemm(a, a.T)

# accumulate is for sums in tensor memory
a = w.shared(64, 64, w.bf16)
with w.role():
    w.gemm(a, a.T, accumulate=False)

# tensor memory of 128 x 64 w.f32 has no single elements, rows or transposed view
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.store(w.load(memory.rows(0, 64)), y[0, 0])

# must divide the 64 columns of tensor memory of 128 x 64 w.f32, got 48
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.load(memory.columns(0, 48))

# w.load of tensor memory must be in a role, executed by whole warpgroups
memory = w.tensor_memory(128, 64, w.f32)
w.load(memory)

# expects tensor memory of the fragment's shape and type, .* 128 x 64 w.bf16, got .*w.f32
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.store(w.zeros((128, 64), w.bf16), memory)

# via must be a buffer, as w.shared makes one, or of a stage, got TensorMemory
memory = w.tensor_memory(128, 64, w.f32)
with w.role():
    w.atomic_add(y[0, 0], w.zeros((128, 64)), via=memory)

# memory of a ring must be 'shared' or 'tensor', got 'tmem'
ring = w.ring(1, memory="tmem", s=(128, 64, w.f32))

# a ring in tensor memory can't be filled, since TMA copies to shared memory only
ring = w.ring(1, memory="tensor", s=(128, 64, w.f32))
with w.role(), w.one_thread():
    ring.fill(s=x[0, 0])

# a product of one thread reads must be taken by that thread, in w.one_thread
ring, sums = w.ring(1, a=(128, 64, w.bf16)), w.tensor_memory(128, 128, w.f32)
with w.role(), ring.take() as stage, w.one_thread():
    w.gemm(stage.a, stage.a.T, sums)

# stages of ring 'a' are read by a product already, so not by lanes of the same thread
ring, sums = w.ring(1, a=(128, 64, w.bf16)), w.tensor_memory(128, 128, w.f32)
with w.role(), w.one_thread(), ring.take() as stage:
    w.gemm(stage.a, stage.a.T, sums)
    y[0, 0] = stage.a[0, 0].to(w.f32)

# stages of ring 's' are taken by warpgroups, as written: .* use a ring in shared memory between warpgroups
ring = w.ring(1, memory="tensor", s=(128, 64, w.f32))
with w.role(), ring.write() as stage:
    w.store(w.zeros((128, 64)), stage.s)
with w.role(), ring.take() as stage:  # here
    w.store(w.load(stage.s), y[0, 0])

# with own, a ring must have as many stages as the role has warpgroups, 1, got 2
ring = w.ring(2, a=(128, 64, w.bf16))
with w.role():
    ring.take(own=True)

# a ring and ring 'a', over which it is, must have the same memory=
ring = w.ring(2, a=(128, 64, w.bf16))
w.ring(2, memory="tensor", over=ring, p=(128, 32, w.bf16))
"""


@pytest.mark.parametrize("code, message", cases(MISTAKES, 'x: w.In["m n", w.bf16], y: w.Out["m n", w.f32]'))
def test_mistakes_are_located(tmp_path, code, message):
    refused(tmp_path, code, message, {"w": w}, arch="sm_100a")


def test_tensor_memory_needs_a_chip_that_has_it(tmp_path):
    code = "def kernel(y: w.Out['m n', w.f32]):\n    w.tensor_memory(128, 64, w.f32)"
    message = "tensor memory needs .*sm_100a.*got sm_90a: use w.shared or w.ring, and products whose sums"
    refused(tmp_path, code, message, {"w": w}, arch="sm_90a")
