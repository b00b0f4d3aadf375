"""4-bit weights in registers, transposed tiles, clusters and dependent launches, in `weft.language`."""

import contextlib
import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

BF16, F16 = ml_dtypes.bfloat16, np.float16
DTYPES = {"bf16": BF16, "f16": F16}


@w.kernel()
def dequantized(
    words: w.In["g 32", w.i32], scale: w.In["one s"], zero: w.In["p r"], y: w.Out["m n"], *, L=4, parts=1
):
    """The transposed weights of 64 x 16 L, with the vectors of each part of the columns."""
    ring = w.ring(1, q=(4 * L, 32, w.i32), scale=(1, 64 * parts, y.dtype))
    with w.role():
        with ring.take() as stage:
            found, like = w.load_contiguous(stage.q), w.zeros(64, y.dtype)
            scales = [w.load_column(stage.scale.columns(64 * part, 64), like=like) for part in range(parts)]
        zeros = [w.load_column(zero[part, 0], like=like) for part in range(parts)]
        single = parts == 1
        weights = w.dequantize_int4(found, scales[0] if single else scales, zeros[0] if single else zeros)
        w.store(weights.T, y[0, 0])
    with w.role(), w.one_thread():
        ring.fill(q=words[0, 0], scale=scale[0, 0])


def integers(words, count):
    """What the 128 threads hold: 64 x 16 `count`, by the layout of the first operand of `wgmma`."""
    made = np.zeros((64, 16 * count), int)
    words = words.reshape(128, count).view(np.uint32)
    for thread in range(128):
        row, column = 16 * (thread // 32) + thread % 32 // 4, 2 * (thread % 4)
        for number in range(count):
            for register in range(4):
                at = row + 8 * (register % 2), 16 * number + column + 8 * (register // 2)
                word = int(words[thread, number])
                made[at[0], at[1]] = word >> 4 * register & 15
                made[at[0], at[1] + 1] = word >> (16 + 4 * register) & 15
    return made


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype, count, parts", [("bf16", 4, 1), ("f16", 2, 2)])
def test_weights_are_dequantized_exactly(dtype, count, parts):
    rng, kind = np.random.default_rng(0), DTYPES[dtype]
    words = rng.integers(-(2**31), 2**31, (4 * count, 32)).astype(np.int32)
    scale = rng.standard_normal((parts, 64)).astype(kind)
    zero = rng.integers(0, 16, (parts, 64)).astype(kind)
    y = np.zeros((16 * count, 64), kind)
    report = dequantized.emulate(words, scale.reshape(1, -1), zero, y, L=count, parts=parts)
    assert not report.findings, report.findings[0]
    of = np.arange(16 * count) * parts // (16 * count)
    exact = (integers(words, count) - zero.astype(int)[of].T) * scale.astype(float)[of].T
    assert np.array_equal(y, exact.astype(kind).T)


@w.kernel(grid=lambda x, *, N: w.ceil_div(x.rows, N), cluster=lambda *, N: (N,))
def of_next(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, N=2):
    """64 rows of each CTA, from the next one in its cluster."""
    buffer, me = w.shared(64, 32, w.f32), w.cta() * 64
    with w.role():
        w.store(w.load(x[me, 0], (64, 32)), buffer)
        w.cluster_barrier()
        w.store(w.load(buffer.peer((w.cluster_rank() + 1) % N)), y[me, 0])
        w.cluster_barrier()


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64), cluster=2)
def to_next(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    """64 rows of each CTA, stored to the memory of the other one, with a barrier in two halves."""
    buffer, me = w.shared(64, 32, w.f32), w.cta() * 64
    w.cluster_arrive()
    with w.role():
        t = w.load(x[me, 0], (64, 32))
        w.cluster_wait()  # the other has begun
        w.store(t, buffer.peer(1 - w.cluster_rank()))
        w.cluster_barrier()
        w.store(w.load(buffer), y[me, 0])


def test_ctas_of_a_cluster_write_each_others_memory():
    x = np.random.default_rng(0).standard_normal((128, 32)).astype(np.float32)
    y = np.zeros_like(x)
    report = to_next.emulate(x, y)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, np.roll(x, 64, 0))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("ctas", [2, 4])
def test_ctas_of_a_cluster_read_each_others_memory(ctas):
    x = np.random.default_rng(0).standard_normal((64 * ctas, 32)).astype(np.float32)
    y = np.zeros_like(x)
    report = of_next.emulate(x, y, N=ctas, grid=(ctas, 1, 1))
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, np.roll(x, -64, 0))
    assert of_next.compile(x, y, N=ctas).launch.cluster == (ctas, 1, 1)


@w.kernel()
def filled_in_parts(x: w.In["m n", w.bf16], v: w.In["g n", w.bf16], y: w.Out["m n", w.bf16]):
    """Rows of x that aren't adjacent, with a row of each half, from a stage that is filled in parts."""
    w.prefetch(x[0, 0], 200, 64)
    ring = w.ring(2, x=(64, 64, x.dtype), v=(1, 128, v.dtype), wide=(1, 512, v.dtype))
    with w.role():
        w.prefetch(v[0, 0], 2, w.i32(64))
        with ring.take() as slot:
            t = w.load(slot.x) + w.load_row(slot.v.columns(64, 64), like=w.load(slot.x))
            t = t + w.load_row(slot.wide.columns(256, 64), like=t)
            w.store(t, y[0, 0])
    with w.role(), w.one_thread():
        ring.fill(x=(x[96, 0], x[16, 0]), v=(v[0, 0], v[1, 0]), wide=v[2, 0])


def test_parts_of_a_stage_are_filled_from_several_places():
    rng = np.random.default_rng(0)
    x, v = (rng.integers(-9, 9, shape).astype(BF16) for shape in ((128, 512), (3, 512)))
    y = np.zeros((128, 512), BF16)
    report = filled_in_parts.emulate(x, v, y)
    assert not report.findings, report.findings[0]
    rows = np.r_[96:128, 16:48]
    assert np.array_equal(y[:64, :64], x[rows, :64] + v[1, :64] + v[2, 256:320])
    assert "prefetch.global.L2" in filled_in_parts.compile(x, v, y).ptx


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64), dependent=True)
def products(x: w.In["m k"], b: w.In["n k"], y: w.Out["m n", w.f32], *, N=16):
    """Products by `mma.sync`, of a buffer and of a fragment."""
    ring = w.ring(2, x=(64, 32, x.dtype), b=(N, 32, x.dtype))
    with w.role():
        sums = None
        for _ in range(2):
            with ring.take() as slot:
                sums = w.warp_gemm(slot.x, slot.b.T, sums)
                sums = w.warp_gemm(w.load(slot.x), slot.b.T, sums)
        w.store(sums, y[w.cta() * 64, 0])
    with w.role(), w.one_thread():
        for k in range(2):
            ring.fill(x=x[w.cta() * 64, 32 * k], b=b[0, 32 * k])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_products_of_warps_need_no_wait(dtype):
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-8, 8, (rows, 64)).astype(dtype) for rows in (70, 16))
    y = np.zeros((70, 16), np.float32)
    report = products.emulate(x, b, y)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, 2 * x.astype(np.float32) @ b.astype(np.float32).T)
    ptx = products.compile(x, b, y).ptx
    assert "mma.sync" in ptx and "wgmma.mma_async" not in ptx


def test_a_dependent_kernel_waits_before_its_first_role():
    kernel = products.compile("bf16", "bf16", "f32")
    assert kernel.launch.dependent
    waits, first_copy = kernel.ptx.index("griddepcontrol.wait"), kernel.ptx.index("cp.async.bulk")
    assert kernel.ptx.index("mbarrier.init") < waits < first_copy


@pytest.mark.each_value(2)
@pytest.mark.parametrize("dependent", [True, "early"])
@pytest.mark.parametrize("has_role", [False, True])
def test_the_next_launch_begins_after_the_wait_or_before_it(dependent, has_role):
    @w.kernel(dependent=dependent)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        with w.role() if has_role else contextlib.nullcontext():
            y[w.thread()] = x[w.thread()]

    x = np.arange(128, dtype=np.float32)
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y).findings and np.array_equal(y, x)
    compiled = kernel.compile()
    steps = re.findall(r"griddepcontrol\.(\w+)|(ld)\.global", compiled.ptx)
    begins = ["wait", "launch_dependents"][:: -1 if dependent == "early" else 1]
    assert ["".join(each) for each in steps] == [*begins, "ld"] and compiled.launch.dependent


def test_chips_without_dependent_launches_have_ordinary_ones():
    @w.kernel(threads=32, dependent=True)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        y[w.thread()] = x[w.thread()]

    compiled = kernel.compile(arch="sm_80")
    assert not compiled.launch.dependent and "griddepcontrol" not in compiled.ptx


@pytest.mark.parametrize("early", [False, True])
def test_the_emulator_reports_reads_before_earlier_work_is_done(early):
    @w.kernel(dependent=True)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        number = x[0] + 0.0 if early else w.f32(1.0)
        with w.role():
            y[w.thread()] = x[w.thread()] + number

    x = np.ones(128, np.float32)
    y = np.zeros_like(x)
    assert bool(kernel.emulate(x, y).findings) == early
    assert np.array_equal(y, 2 * x)


def test_a_dependent_kernel_without_roles_waits_first():
    @w.kernel(threads=32, dependent=True)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        y[w.thread()] = x[w.thread()]

    x = np.arange(32, dtype=np.float32)
    y = np.zeros_like(x)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x) and "griddepcontrol.wait" in kernel.compile().ptx


def refused(body, **options):
    """The message for a kernel with this body in a role, which gets a ring and an array."""

    @w.kernel(**options)
    def kernel(x: w.In["m n", w.bf16]):
        ring, row = w.ring(1, q=(16, 32, w.i32), x=(64, 64, w.bf16)), w.shared(1, 96, w.bf16)
        with w.role():
            body(row if body is of_row else x, ring)

    with pytest.raises(weft.WeftError) as caught:
        kernel.compile()
    return str(caught.value)


def of_row(row, ring):
    w.load_contiguous(row)


def words(ring):
    return w.load_contiguous(ring.take().q)


@w.kernel()
def multiplied(
    packed: w.In["lines 32", w.i32],
    scales: w.In["tiles s"],
    zeros: w.In["tiles z"],
    x: w.In["n k"],
    y: w.Out["m n", w.f32],
    d: w.Out["m n", w.f32],
):
    """The products of 64 x 128 weights, dequantized and by `warp_gemm`."""
    weights = w.int4_weights(packed, scales, zeros, columns=x.columns, group=64, depth=128)
    ring = w.ring(1, x=(16, 128, x.dtype), **weights.buffers)
    with w.role():
        with ring.take() as stage:
            operand = weights.operand(stage)
            sums = operand.warp_gemm(stage.x.T)
            dequantized = w.wait(w.gemm(operand.dequantized(), stage.x.T))
        w.store(sums, y[0, 0])
        w.store(dequantized, d[0, 0])
    with w.role(), w.one_thread():
        ring.fill(x=x[0, 0], **weights.places([0], 0))


def test_packed_weights_are_operands():
    rng = np.random.default_rng(0)
    q, zeros = rng.integers(0, 16, (64, 128)), rng.integers(0, 16, (64, 2))
    scales = (rng.random((64, 2)) + 0.5).astype(BF16)
    weights = weft.Int4Weights.pack(q, scales, zeros, group=64)
    x = rng.integers(-8, 8, (16, 128)).astype(BF16)
    y, d = np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32)
    report = multiplied.emulate(weights.packed, weights.scales, weights.zeros, x, y, d)
    assert not report.findings, report.findings[0]
    exact = ((q - zeros.repeat(64, 1)) * scales.astype(float).repeat(64, 1)) @ x.astype(float).T
    assert np.allclose(y, exact, rtol=1e-6, atol=1e-3)
    assert np.allclose(d, weights.dequantize().astype(float) @ x.astype(float).T, rtol=1e-6, atol=1e-3)


def given(**changed):
    """What makes weights with other arguments in a kernel of x, scales of bf16 and packed words."""

    def body(packed, scales):
        w.int4_weights(packed, scales, **{"columns": 128} | changed)

    return body


@pytest.mark.parametrize(
    "message, body",
    [
        (
            "packed must be a matrix of w.i32 that is an argument",
            lambda p, s: w.int4_weights(s, s, columns=1),
        ),
        ("scales must be a matrix of w.bf16 or w.f16", lambda p, s: w.int4_weights(p, p, columns=128)),
        ("depth must be a multiple of 64, got 96", given(depth=96)),
        ("tiles must be a positive number that Python knows, got 0", given(tiles=0)),
        ("rows must be 64, or 32 if depth is a multiple of 128, got 32", given(rows=32)),
        ("group must be 32, a multiple of 64, or 0 for one of each row, got 48", given(group=48)),
        ("whole groups or be within one, got 128 columns, groups of 192", given(group=192, depth=128)),
        (
            "stages have 1 tiles of weights, got 2",
            lambda p, s: w.int4_weights(p, s, columns=128).places([0, 1], 0),
        ),
        (
            "expects a stage of a ring with weights.buffers, got 3",
            lambda p, s: w.int4_weights(p, s, columns=128).operand(3),
        ),
        (
            "blocks must divide the 4 of a stage, and be even, got 1",
            lambda p, s: operand_of(w.int4_weights(p, s, columns=128, depth=256, rows=32), blocks=1),
        ),
        (
            "tiles must have 64 rows to be a fragment, got 32",
            lambda p, s: operand_of(
                w.int4_weights(p, s, columns=128, depth=128, rows=32), lambda operand: operand.dequantized()
            ),
        ),
        (
            "b must be a buffer of 64 x N, got ",
            lambda p, s: operand_of(
                w.int4_weights(p, s, columns=128), lambda operand: operand.warp_gemm(w.zeros((64, 8)))
            ),
        ),
    ],
)
def test_mistakes_with_packed_weights(message, body):
    def kernel(packed: w.In["lines 32", w.i32], scales: w.In["tiles s", w.bf16], y: w.Out["m", w.f32]):
        body(packed, scales)

    with pytest.raises(weft.WeftError) as raised:
        w.kernel()(kernel).compile(arch="sm_90a")
    assert message in str(raised.value)


def operand_of(weights, use=lambda operand: None, **given):
    """Uses the operand of a stage in a role."""
    ring = w.ring(1, **weights.buffers)
    with w.role():
        use(weights.operand(ring.take(), **given))


@pytest.mark.parametrize(
    "message, body",
    [
        ("words must be a fragment of w.i32", lambda x, r: w.dequantize_int4(w.zeros((64, 64)), 1)),
        ("must be different in all 128 threads", lambda x, r: w.dequantize_int4(w.zeros(64, w.i32), 1)),
        (
            "scale must be a vector of 64 rows, of w.bf16 or w.f16",
            lambda x, r: w.dequantize_int4(words(r), 2),
        ),
        (
            "scale must be a vector of the 64 rows of sums",
            lambda x, r: w.dequantize_int4(words(r), w.zeros(128, w.bf16)),
        ),
        (
            "a divisor of the 4 words of a thread, got 3 and 3",
            lambda x, r: w.dequantize_int4(words(r), [w.zeros(64, w.bf16)] * 3),
        ),
        (
            "zero must be an integer in 0..15, or a vector of the rows, got 16",
            lambda x, r: w.dequantize_int4(words(r), w.zeros(64, w.bf16), 16),
        ),
        (
            "zero must have the type of scale, w.bf16",
            lambda x, r: w.dequantize_int4(words(r), w.zeros(64, w.bf16), w.zeros(64, w.f16)),
        ),
        ("expects a buffer that isn't transposed", lambda x, r: w.load_contiguous(r.take().x.T)),
        ("must divide into parts of rows", of_row),
        ("expects a buffer of 1 x 64", lambda x, r: w.load_column(r.take().x, like=w.zeros(64, w.bf16))),
        ("expects an element of a matrix", lambda x, r: w.prefetch(x, 1, 1)),
        ("must divide a buffer, got 3 of 64 x 64 for 'x'", lambda x, r: r.fill(x=(x[0, 0],) * 3, q=x[0, 0])),
        ("w.cluster_rank is for kernels with clusters", lambda x, r: w.cluster_rank()),
        ("a buffer's peer is for kernels with clusters", lambda x, r: r.take().x.peer(0)),
    ],
)
def test_mistakes(message, body):
    assert message in refused(body)


def test_clusters_have_limits():
    def nothing(x, ring):
        with w.one_thread():
            w.cluster_barrier()

    def prefetched(x, ring):
        with w.one_thread():
            w.prefetch(x[0, 0], 8, 8)

    assert "can't be in w.one_thread()" in refused(nothing, cluster=2)
    assert "w.prefetch is for all threads" in refused(prefetched)
    assert "w.cluster_arrive is for kernels with clusters" in refused(lambda x, ring: w.cluster_arrive())
    assert "publishes must be True or False, got 1" in refused(
        lambda x, ring: w.cluster_arrive(publishes=1), cluster=2
    )
    assert "w.cluster_wait is for kernels with clusters" in refused(lambda x, ring: w.cluster_wait())
    assert "cluster must be in 1..16 on x, got 32" in refused(nothing, cluster=32)
