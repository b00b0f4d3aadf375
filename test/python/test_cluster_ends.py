"""The CTAs of a cluster that share copies begin and end together, without a fence for the whole GPU."""

import pytest
from test_warpgroup_schedules import Product, of

from weft.dialects import tile
from weft.mlir import gpu
from weft.passes.kernels import wgmma_kernel

SCHEDULES = (
    of(64, 64, 64, 1, 3, cluster=(4, 1)),
    of(128, 64, 64, 2, 2, cluster=(1, 2)),
    of(64, 32, 64, 1, 3, cluster=(2, 2), swap=True),
    of(64, 64, 64, 1, 2, cluster=(2, 1), global_splits=2),
)
SIZES = (300, 264, 328)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_cluster_barriers_release_nothing(schedule):
    kernel = Product().compiled(schedule)
    arrivals = [line.strip() for line in kernel.ptx.splitlines() if "barrier.cluster.arrive" in line]
    assert arrivals == ["barrier.cluster.arrive.relaxed;"]
    assert not Product().wrong(kernel, SIZES)


@pytest.mark.slow
def test_a_cta_that_ends_before_its_peers_have_released_its_stages_is_caught(monkeypatch):
    """Planted: no CTA waits for its peers at the end."""
    monkeypatch.setattr(tile, "drain", lambda *_: None)
    product = Product()
    with pytest.raises(AssertionError, match="cluster-exit"):
        product.wrong(product.compiled(SCHEDULES[0]), SIZES)


@pytest.mark.slow
def test_a_copy_to_a_peer_without_a_ring_is_caught(monkeypatch):
    """Planted: no CTA waits for its peers at the beginning."""
    monkeypatch.setattr(wgmma_kernel, "begin_cluster", gpu.barrier)
    product = Product()
    with pytest.raises(AssertionError, match="mbarrier"):
        product.wrong(product.compiled(SCHEDULES[0]), SIZES)
