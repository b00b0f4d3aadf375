"""CTAs of a cluster that copy tiles for each other: right in the emulator, without findings."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

BF16 = ml_dtypes.bfloat16
slow = pytest.mark.slow


def _grid(a, b, *, BM, BN, cluster):
    x, y = cluster
    return w.ceil_div(a.rows, BM * x) * x, w.ceil_div(b.rows, BN * y) * y


@w.kernel(grid=_grid, cluster=lambda cluster: cluster)
def gemm(
    a: w.In["m k", w.bf16],
    b: w.In["n k", w.bf16],
    d: w.Out["m n", w.bf16],
    *,
    BM=64,
    BN=64,
    BK=64,
    cluster=(2, 1),
):
    """A tile of a for all CTAs along axis 1, one of b for those along axis 0."""
    ring = w.ring(3, a=(BM, BK, a.dtype), b=(BN, BK, b.dtype), takers=BM // 64, shared={"b": 0, "a": 1})
    row, column = w.cta(0) * BM, w.cta(1) * BN
    with w.role(warpgroups=BM // 64) as me:
        slot = ring.take()
        sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, BK)):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T, sums)
            sums = w.wait(sums, pending=1)
            late.release()
        sums = w.wait(sums)
        slot.release()
        w.store(sums.to(d.dtype), d[row + 64 * me, column])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k])


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
    report = gemm.emulate(a, b, d, arch=arch, cluster=cluster)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.allclose(d.astype(float), a.astype(float) @ b.astype(float).T, rtol=2**-7, atol=0.02)
    shared = sum(each > 1 for each in cluster) if arch != "sm_80" else 0
    assert gemm.compile(arch=arch, cluster=cluster).ptx.count(".multicast::cluster") == shared


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


def test_ranks_need_a_chip_with_clusters():
    @w.kernel(cluster=2, threads=32)
    def ranks(y: w.Out["n", w.i32]):
        y[w.cta()] = w.cluster_rank()

    with pytest.raises(weft.WeftError, match=r"w.cluster_rank needs sm_90 or later, .* got sm_80"):
        ranks.compile(arch="sm_80")
