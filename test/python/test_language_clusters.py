"""CTAs of a cluster that copy tiles for each other: right in the emulator, without findings."""

import ml_dtypes
import numpy as np
import pytest
from language_kernels import shared_copies

import weft
import weft.language as w

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
