"""CTAs that wait for others: in clusters, where they copy tiles for each other, and by signals."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from language_kernels import shared_copies

import weft
import weft.language as w
from weft.dialects import tile

BF16 = ml_dtypes.bfloat16
slow = pytest.mark.slow


@pytest.mark.parametrize(
    "arch, cluster, shape",
    [
        ("sm_90a", (2, 1), (100, 72, 264)),
        pytest.param("sm_90a", (1, 2), (77, 200, 136), marks=slow),
        pytest.param("sm_90a", (2, 2), (250, 200, 520), marks=slow),
        pytest.param("sm_90a", (4, 1), (500, 64, 264), marks=slow),
        pytest.param("sm_100a", (2, 2), (250, 200, 264), marks=slow),
        pytest.param("sm_120a", (2, 1), (100, 72, 264), marks=slow),
        pytest.param("sm_80", (2, 1), (100, 72, 264), marks=slow),
    ],
)
def test_tiles_that_ctas_copy_for_each_other(arch, cluster, shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(BF16) for rows in (m, n))
    d = np.zeros((m, n), BF16)
    report = shared_copies.emulate(a, b, d, arch=arch, cluster=cluster)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.allclose(d.astype(float), a.astype(float) @ b.astype(float).T, rtol=2**-7, atol=0.02)
    shared = sum(each > 1 for each in cluster) if arch != "sm_80" else 0
    assert shared_copies.compile(arch=arch, cluster=cluster).ptx.count(".multicast::cluster") == shared


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_120a"])
def test_cluster_barriers_release_nothing(arch):
    """Otherwise, each has a fence for the whole GPU."""
    kernel = shared_copies.compile(arch=arch, cluster=(2, 1))
    arrivals = [line.strip() for line in kernel.ptx.splitlines() if "barrier.cluster.arrive" in line]
    assert arrivals == ["barrier.cluster.arrive.relaxed;"]
    assert kernel.sass.count("MEMBAR.ALL.CTA") == kernel.ptx.count("fence.proxy.async")  # of loads of stages
    assert ".GPU" not in kernel.sass


@w.kernel(grid=lambda a: (w.ceil_div(a.rows, 64) * 2,), cluster=2)
def without_one_thread(a: w.In["m k", w.bf16], d: w.Out["m n", w.bf16]):
    """d = a of 64 columns, twice beside each other: the whole role fills the ring."""
    ring = w.ring(2, a=(64, 64, a.dtype), shared={"a": 0})
    row, half = w.cta(0) // 2 * 64, w.cta(0) % 2
    with w.role():
        for k in w.range(0, a.columns, 64):
            with ring.take() as slot:
                w.store(w.load(slot.a), d[row, half * a.columns + k])
    with w.role():
        for k in w.range(0, a.columns, 64):
            ring.fill(a=a[row, k])


def test_a_role_that_fills_waits_for_peers_at_its_end():
    a = np.random.default_rng(0).standard_normal((128, 320)).astype(BF16)
    d = np.zeros((128, 640), BF16)
    assert not without_one_thread.emulate(a, d, arch="sm_90a").findings
    assert (d == np.concatenate([a, a], axis=1)).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("kernel", [shared_copies, without_one_thread])
def test_a_cta_that_ends_before_its_peers_have_released_its_stages_is_caught(monkeypatch, kernel):
    """Planted: no CTA waits for its peers at the end."""
    monkeypatch.setattr(tile, "drain", lambda *_: None)
    kernel._forget()
    a, d = np.zeros((128, 320), BF16), np.zeros((128, 640), BF16)
    arrays = (a, a, d[:, :128]) if kernel is shared_copies else (a, d)
    report = kernel.emulate(*arrays, arch="sm_90a")
    kernel._forget()
    assert "cluster-exit" in {finding.rule for finding in report.findings}


@pytest.mark.parametrize(
    "shared, cluster, message",
    [
        ({"b": 0}, None, "only CTAs of a cluster can share copies"),
        ({"c": 0}, 2, "shared must name buffers of the ring, a, b, got 'c'"),
        ({"b": 3}, 2, "an axis of shared must be 0, 1 or 2, got 3"),
        ({"a": 0}, 4, "'a' must have a multiple of 32 rows to be shared by 4 CTAs, got 16"),
        (("b",), 2, "shared must be a dictionary"),
    ],
)
def test_mistakes(shared, cluster, message):
    @w.kernel(cluster=cluster)
    def kernel(a: w.In["m k", w.bf16]):
        w.ring(2, a=(16, 64, w.bf16), b=(64, 64, w.bf16), shared=shared)

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.compile()
    assert caught.value.diagnostics[0].location.file == __file__


@w.kernel(grid=lambda x: (w.ceil_div(x.rows, 64), 2), cluster=lambda *, cluster: cluster, persistent=1)
def persistent_copies(x: w.In["m n", w.bf16], y: w.Out["m n", w.bf16], *, cluster=(2, 1)):
    """y = x: CTAs of a cluster have neighboring rows of tiles, and share x for nothing."""
    ring = w.ring(2, x=(64, 64, x.dtype))
    with w.role():
        for row, column in w.tiles():
            with ring.take() as slot:
                w.store(w.load(slot.x), y[64 * row, 64 * column])
    with w.role(), w.one_thread():
        for row, column in w.tiles():
            ring.fill(x=x[64 * row, 64 * column])


@pytest.mark.slow
def test_clusters_divide_the_grid_of_a_persistent_kernel():
    x = np.arange(256 * 128).reshape(256, 128).astype(BF16)
    y = np.zeros_like(x)
    assert not persistent_copies.emulate(x, y).findings
    assert np.array_equal(x, y)
    message = (
        r"grid must be a multiple of cluster \(2, 1, 1\) in each dimension, got \(3, 2, 1\): "
        r"round it up, as by w.ceil_div\(x.rows, 2 \* 64\) \* 2"
    )
    for kernel in (persistent_copies, persistent_copies.compile()):
        with pytest.raises(weft.WeftError, match=message):
            kernel.emulate(x[:192], y[:192])
    persistent_copies.emulate(x[:192], y[:192], arch="sm_80")  # which has no clusters
    with pytest.raises(weft.WeftError, match=r"must be along the grid's first axis, got \(1, 2\): its CTAs"):
        persistent_copies.compile(cluster=(1, 2))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [w.f16, w.f32, w.i8])
def test_tiles_of_peers_are_loaded_and_stored(dtype):
    """ldmatrix and stmatrix, which move tiles of 16 bits, reach the CTA's own shared memory only."""

    @w.kernel(grid=2, cluster=2)
    def exchanged(x: w.In["m n", dtype], y: w.Out["m n", dtype], z: w.Out["m n", dtype]):
        mine, given, row = w.shared(64, 64, dtype), w.shared(64, 64, dtype), w.cta() * 64
        other = 1 - w.cluster_rank()
        with w.role():
            t = w.load(x[row, 0], (64, 64))
            w.store(t, mine)
            w.store(t, given.peer(other))
            w.cluster_barrier()
            w.store(w.load(mine.peer(other)), y[row, 0])
            w.store(w.load(given), z[row, 0])
            w.cluster_barrier()

    numpy = {w.f16: np.float16, w.f32: np.float32, w.i8: np.int8}[dtype]
    x = np.random.default_rng(0).integers(-100, 100, (128, 64)).astype(numpy)
    y, z = np.zeros_like(x), np.zeros_like(x)
    assert not exchanged.emulate(x, y, z).findings
    assert np.array_equal(y, np.roll(x, 64, 0)) and np.array_equal(z, y)


def test_clusters_take_no_tiles_from_a_queue():
    @w.kernel(grid=4, cluster=2, persistent=1)
    def kernel(count: w.Out["n", w.i32]):
        w.tile_queue(count[0])

    with pytest.raises(weft.WeftError, match=r"must be in a kernel without clusters, got"):
        kernel.compile()


@pytest.mark.parametrize(
    "index, legal",
    [
        (lambda: 64 * w.cta(0), False),
        (lambda: w.ctas(1) - (w.cta(0) + 1) * 64, False),
        (lambda: w.cta(0) // 2 * 64, True),
        (lambda: w.cta(1) * 64, True),
    ],
)
def test_ctas_share_a_tile_of_the_same_elements(index, legal):
    @w.kernel(grid=(2, 2), cluster=2)
    def kernel(x: w.In["m n", w.bf16]):
        ring = w.ring(1, x=(64, 64, x.dtype), shared={"x": 0})
        with w.role():
            ring.take().release()
        with w.role(), w.one_thread():
            ring.fill(x=x[index(), 0])  # here

    if legal:
        kernel.module()
        return
    with pytest.raises(
        weft.WeftError, match=r"must fill it from the same elements, .* differ by w.cta.0."
    ) as e:
        kernel.module()
    line = Path(__file__).read_text().splitlines()[e.value.diagnostics[0].location.line - 1]
    assert line.endswith("# here")


def test_ranks_need_a_chip_with_clusters():
    @w.kernel(cluster=2, threads=32)
    def ranks(y: w.Out["n", w.i32]):
        y[w.cta()] = w.cluster_rank()

    with pytest.raises(weft.WeftError, match=r"w.cluster_rank needs sm_90 or later, .* got sm_80"):
        ranks.compile(arch="sm_80")


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def one_after_another(
    x: w.In["m n", w.f32],
    y: w.Out["rows n", w.f32],
    z: w.Out["m n", w.f32],
    done: w.Out["one", w.i32],
    *,
    waits=True,
):
    """TMA adds a tile to y, which a CTA stores in z and clears for the next one."""
    staging = w.shared(64, 32, w.f32)
    with w.role():
        tile, number = w.load(x[w.cta() * 64, 0], (64, 32)), 2 * w.cta()
        if waits:
            w.await_signals(done[0], number)
        w.atomic_add(y[0, 0], tile, via=staging)
        w.signal(done[0])
        w.await_signals(done[0], number + 1)
        w.store(w.load(y[0, 0], like=tile), z[w.cta() * 64, 0])
        w.store(w.zeros((64, 32), like=tile), y[0, 0])
        w.signal(done[0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "arch, waits",
    [
        ("sm_75", True),
        ("sm_80", True),
        ("sm_89", True),
        ("sm_90a", True),
        ("sm_90a", False),
        ("sm_100a", True),
        ("sm_120a", True),
    ],
)
def test_ctas_wait_for_those_before(arch, waits):
    x = np.random.default_rng(0).standard_normal((192, 32)).astype(np.float32)
    y, z, done = np.zeros((64, 32), np.float32), np.zeros_like(x), np.zeros(1, np.int32)
    findings = one_after_another.emulate(x, y, z, done, waits=waits, arch=arch).findings
    if not waits:
        assert "global-race" in {each.rule for each in findings}
        return
    assert not findings, findings[0]
    assert np.array_equal(z, x) and not y.any() and done[0] == 6


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 256))
def added_by_one_thread(
    x: w.In["m n", w.f32], y: w.Out["rows n", w.f32], done: w.Out["one", w.i32], *, waits=True
):
    """Each of two warpgroups writes its own stages, which a thread adds to y, in the order of CTAs."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role(warpgroups=2) as me:
        for i in w.range(2):
            with ring.write(own=True) as stage:
                w.store(w.load(x[w.cta() * 256 + (2 * i + me) * 64, 0], (64, 32)), stage.x)
    with w.role():
        if waits:
            w.await_signals(done[0], w.cta())
        with w.one_thread(warp=1):
            for i in w.range(4):
                with ring.take() as stage:
                    w.atomic_add(y[i * 64, 0], stage.x)
            w.signal(done[0])


def test_one_thread_adds_stages():
    x = np.random.default_rng(0).standard_normal((512, 32)).astype(np.float32)
    y, done = np.zeros((256, 32), np.float32), np.zeros(1, np.int32)
    findings = added_by_one_thread.emulate(x, y, done).findings
    assert not findings, findings[0]
    assert np.array_equal(y, x[:256] + x[256:]) and done[0] == 2


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 128))
def stored_by_the_first(
    x: w.In["m n", w.f32], y: w.Out["rows n", w.f32], done: w.Out["tiles", w.i32], *, waits=True
):
    """A thread of the first CTA stores stages in y, to which others add theirs when they see these."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role():
        for i in w.range(2):
            with ring.write() as stage:
                w.store(w.load(x[w.cta() * 128 + i * 64, 0], (64, 32)), stage.x)
    with w.role(), w.one_thread():
        for i in w.range(2):
            if waits and w.cta() > 0:
                w.await_signals(done[i], 1)
            with ring.take() as stage:
                if w.cta() == 0:
                    w.store(stage.x, y[i * 64, 0])
                else:
                    w.atomic_add(y[i * 64, 0], stage.x)
            if w.cta() == 0:
                w.signal(done[i])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("waits", [True, False])
def test_one_thread_stores_stages_and_waits(waits):
    x = np.random.default_rng(0).standard_normal((384, 32)).astype(np.float32)
    y, done = np.full((128, 32), np.nan, np.float32), np.zeros(2, np.int32)
    findings = stored_by_the_first.emulate(x, y, done, waits=waits).findings
    if not waits:
        assert "global-race" in {each.rule for each in findings}
        return
    assert not findings, findings[0]
    assert np.allclose(y, x.reshape(3, 128, 32).sum(0), atol=1e-6) and done.tolist() == [1, 1]


@w.kernel
def misused(y: w.Out["m n", w.f32], *, how):
    ring = w.ring(3 if how == "own" else 2, x=(64, 32, w.f32), takers=2 if how == "takers" else 1)
    with w.role(warpgroups=2):
        with ring.write(own=how == "own"):
            pass
        if how == "whole":
            w.atomic_add(y[0, 0], ring.ready().x)
        if how == "stored":
            w.store(ring.ready().x, y[0, 0])
        if how == "both":
            ring.take().release()
    with w.role(), w.one_thread(warp=4 if how == "warp" else 1), ring.take() as stage:
        if how == "transposed":
            w.store(stage.x.T, y[0, 0])


@pytest.mark.parametrize(
    "how, message",
    [
        ("own", "with own, a ring must have as many stages as the role has warpgroups, 2, got 3"),
        ("takers", "takers of a ring must be 1 if one thread takes its stages, got 2"),
        ("both", "must be taken either by one thread, or by whole warpgroups"),
        ("whole", "a buffer must be added in w.one_thread"),
        ("stored", "a buffer must be stored in w.one_thread"),
        ("transposed", "a buffer of 32 x 64 w.f32 can't be stored transposed"),
        ("warp", "warp must be in 0..3, got 4"),
    ],
)
def test_misuse_of_rings_of_one_thread_is_refused(how, message):
    with pytest.raises(weft.WeftError, match=message):
        misused.emulate(np.zeros((64, 32), np.float32), how=how)


@w.kernel(grid=lambda x: x.rows)
def wrong(x: w.In["m n", w.f32], y: w.In["m", w.i32], z: w.Out["m n", w.i32], d: w.Out["m", w.i32], *, what):
    element = {"read": y[0], "tile": z[0, 0], "number": 3}.get(what, d[0])
    if what == "no role":
        w.signal(element)
    with w.role():
        w.signal(element)


@pytest.mark.parametrize(
    "what, message",
    [
        ("read", "w.signal expects an element of a w.Out of w.i32, got"),
        ("tile", "w.signal expects an element of an array of one dimension, got"),
        ("number", "w.signal expects an element of an array of one dimension, got 3"),
        ("no role", "w.signal must be in a role"),
    ],
)
def test_what_is_no_counter_is_refused(what, message):
    shapes = ((64, 64), np.float32), (64, np.int32), ((64, 64), np.int32), (64, np.int32)
    with pytest.raises(weft.WeftError, match=message):
        wrong.emulate(*(np.zeros(*each) for each in shapes), what=what)


@w.kernel(grid=3)
def reset_when_signaled(done: w.Out["one", w.i32]):
    with w.role():
        if w.cta() < 2:
            w.signal(done[0])
        else:
            w.await_signals(done[0], 2)
            w.barrier()
            if w.thread() == 0:
                done[0] = 0


def test_a_counter_is_reset_by_a_store_after_its_signals():
    done = np.zeros(1, np.int32)
    assert reset_when_signaled.emulate(done, arch="sm_90a").findings == ()
    assert done[0] == 0
