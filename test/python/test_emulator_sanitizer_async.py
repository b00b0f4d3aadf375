"""The sanitizer's view of asynchronous units, from single events."""

import random
from functools import partial

import numpy as np
import pytest

from weft.emulator.instructions import shared_operand
from weft.emulator.memory.device import Device
from weft.emulator.running.ctas import Grid, Launch, Slots
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer import Findings, Sanitizer
from weft.emulator.watch import UnitAccess
from weft.isa.tcgen05.pipelining import Use

TILE = np.arange(256)
BARRIER = 1024


class Events:
    """Two blocks of two warps, each with 2048 bytes of shared memory; an event takes the line given."""

    def __init__(self, cluster=1):
        launch = Launch((2, 1, 1), (64, 1, 1), 2048, 0, "hardware", (cluster, 1, 1))
        self.wave = Wave(launch, Slots(), Device(), [0, 1], Grid(launch))
        self.found = Findings("")
        self.checker = self.wave.watch = Sanitizer(self.wave, self.found)

    def threads(self, row):
        return np.repeat((np.arange(self.wave.warps) == row)[:, None], 32, axis=1)

    def touch(self, row, kind, line, offset=0):
        """The warp's lanes touch 4 bytes each."""
        lanes = Lanes.of(self.wave, self.threads(row))
        address = np.uint64(offset) + np.arange(32, dtype=np.uint64)[None] * np.uint64(4)
        self.wave.memory.locate(lanes, "shared", address, 4, kind, line)

    def unit(self, row, kind, line, mbarrier=None, proxy="bulk", cta=0):
        tile = TILE[:128]
        access = UnitAccess(kind, proxy, cta, "shared", tile, self.threads(row), line, mbarrier)
        self.checker.async_access(access)

    def phase(self, line=0, cta=0):
        self.checker.mbarrier("phase", cta, BARRIER, None, line)

    def observe(self, row, cta=0):
        self.checker.mbarrier("observe", cta, BARRIER, self.threads(row), 0)

    def arrive(self, row, cta=0):
        self.checker.mbarrier("arrive", cta, BARRIER, self.threads(row), 0)

    def rules(self):
        return [(f.rule, f.line) for f in self.found.all()]


def test_a_load_is_seen_by_those_who_have_waited_for_its_phase():
    events = Events()
    events.unit(0, "store", 10, (0, BARRIER))
    events.phase()
    events.observe(1)
    events.touch(1, "load", 11)
    assert events.rules() == []
    events.touch(0, "load", 12)
    assert events.rules() == [("async-not-awaited", 12)]


@pytest.mark.parametrize("event", ["arrive", "expect_tx", "complete_tx"])
def test_who_only_changes_an_mbarrier_has_not_seen_its_phase(event):
    events = Events()
    events.unit(0, "store", 10, (0, BARRIER))
    events.phase()
    events.checker.mbarrier(event, 0, BARRIER, events.threads(1), 0)
    events.touch(1, "load", 11)
    assert ("async-not-awaited", 11) in events.rules()


def test_a_phase_that_completed_before_the_load_orders_nothing():
    events = Events()
    events.phase()
    events.unit(0, "store", 10, (0, BARRIER))
    events.observe(1)
    events.phase()
    assert events.rules() == []
    events.unit(0, "store", 13, (0, BARRIER))
    events.touch(1, "load", 14)
    assert ("async-not-awaited", 14) in events.rules()


@pytest.mark.parametrize(("fenced", "rules"), [(1, []), (0, []), (None, [("missing-proxy-fence", 12)])])
def test_a_ring_is_refilled_only_after_its_readers_have_arrived(fenced, rules):
    """Either side fences what was read: its readers before they arrive, or who has seen that."""
    events = Events()
    events.unit(0, "store", 10, (0, BARRIER))
    events.phase()
    events.observe(1)
    events.touch(1, "load", 11)
    if fenced == 1:
        events.checker.fence("proxy.async.shared::cta", events.threads(1), 11)
    events.arrive(1)
    events.phase()
    events.observe(0)
    if fenced == 0:
        events.checker.fence("proxy.async.shared::cta", events.threads(0), 11)
    events.unit(0, "store", 12, (0, BARRIER))
    assert events.rules() == rules
    events.phase()
    events.observe(1)
    events.touch(1, "load", 13)
    events.unit(0, "store", 14, (0, BARRIER))
    assert {rule for rule, line in events.rules() if line == 14} >= {"shared-race"}


@pytest.mark.parametrize(
    ("fence", "rules"),
    [("acq_rel.cta", []), ("acq_rel.cluster", []), ("", [("shared-race", 12)])],
)
def test_a_relaxed_arrival_passes_on_what_a_fence_before_it_released(fence, rules):
    events = Events()
    events.touch(1, "store", 10)
    if fence:
        events.checker.fence(fence, events.threads(1), 11)
    events.checker.mbarrier("arrive_relaxed", 0, BARRIER, events.threads(1), 11)
    events.phase()
    events.observe(0)
    events.touch(0, "load", 12)
    assert events.rules() == rules


@pytest.mark.parametrize(
    ("fence", "rules"),
    [
        ("acquire.cta", []),
        ("acq_rel.cta", []),
        ("acquire.cluster", []),
        ("sc.gpu", []),
        ("release.cta", [("async-not-awaited", 12), ("shared-race", 13)]),
        ("proxy.async", [("async-not-awaited", 12), ("shared-race", 13)]),
        ("", [("async-not-awaited", 12), ("shared-race", 13)]),
    ],
)
def test_a_relaxed_wait_orders_what_comes_after_a_fence(fence, rules):
    events = Events()
    events.touch(1, "store", 9, offset=128)
    events.arrive(1)
    events.unit(1, "store", 10, (0, BARRIER))
    events.phase()
    events.checker.mbarrier("observe_relaxed", 0, BARRIER, events.threads(0), 11)
    if fence:
        events.checker.fence(fence, events.threads(0), 11)
    events.touch(0, "load", 12)
    events.touch(0, "load", 13, offset=128)
    assert events.rules() == rules


@pytest.mark.parametrize(
    ("fence", "rules"), [("acquire.cta", [("shared-race", 12)]), ("acquire.cluster", [])]
)
def test_a_fence_after_a_relaxed_wait_needs_the_scope_of_the_mbarrier(fence, rules):
    events = Events(cluster=2)
    events.touch(1, "store", 9)
    events.checker.mbarrier("arrive", 1, BARRIER, events.threads(1), 10)
    events.checker.mbarrier("phase", 1, BARRIER, None, 10)
    events.checker.mbarrier("observe_relaxed", 1, BARRIER, events.threads(0), 11)
    events.checker.fence(fence, events.threads(0), 11)
    events.touch(0, "load", 12)
    assert events.rules() == rules


def test_what_is_in_a_queue_keeps_its_order_with_every_seed():
    orders = set()
    for seed in range(20):
        wave, done = Events().wave, []
        wave.random = random.Random(seed)
        for number in range(4):
            wave.later(partial(done.append, number), "queue" if number % 2 else None)
        while wave.delayed:
            wave.deliver()
        assert sorted(done) == [0, 1, 2, 3]
        assert done.index(1) < done.index(3)
        orders.add(tuple(done))
    assert len(orders) > 4


def test_a_bulk_store_reads_what_a_fence_has_shown_to_it():
    for fenced in (True, False):
        events = Events()
        events.touch(0, "store", 5)
        if fenced:
            events.checker.fence("proxy.async.shared::cta", events.threads(0), 6)
        events.unit(0, "load", 7)
        assert events.rules() == ([] if fenced else [("missing-proxy-fence", 7)])


@pytest.mark.parametrize(("proxy", "rules"), [("cp.async", []), ("bulk", [("missing-proxy-fence", 7)])])
def test_only_what_writes_through_the_asynchronous_proxy_needs_its_fence(proxy, rules):
    events = Events()
    events.touch(0, "store", 5)
    events.unit(0, "store", 7, proxy=proxy)
    assert events.rules() == rules


def test_a_fence_on_the_writers_side_counts_after_a_barrier():
    events = Events()
    events.touch(0, "store", 5)
    events.checker.fence("proxy.async", events.threads(0), 6)
    both = events.threads(0) | events.threads(1)
    events.checker.barrier("bar.sync", both, both, 7)
    events.unit(1, "load", 8)
    assert events.rules() == []


@pytest.mark.parametrize(("pending", "rules"), [(0, []), (1, [("async-source-overwritten", 20)])])
def test_the_source_of_a_bulk_store_is_kept_until_its_group_was_waited_for(pending, rules):
    events = Events()
    events.touch(0, "store", 5)
    events.checker.fence("proxy.async", events.threads(0), 6)
    events.unit(0, "load", 7)
    events.checker.async_commit("bulk", events.threads(0), 8)
    events.checker.async_done("bulk", events.threads(0), 9, pending)
    events.touch(0, "store", 20)
    assert events.rules() == rules


def test_a_unit_reads_what_nothing_has_written():
    events = Events()
    events.unit(0, "load", 7)
    assert events.rules() == [("uninitialized-shared", 7)]


def test_blocks_have_their_own_shared_memory():
    events = Events()
    events.touch(0, "store", 5)
    events.touch(2, "store", 6)
    events.unit(2, "load", 7, cta=1)
    assert events.rules() == [("missing-proxy-fence", 7)]


def test_a_cluster_barrier_orders_the_blocks_of_a_cluster():
    for ordered in (True, False):
        events = Events(cluster=2)
        events.touch(0, "store", 5, offset=1 << 24)
        everyone = np.ones((4, 32), np.bool_)
        if ordered:
            events.checker.barrier("barrier.cluster", everyone, everyone, 6)
        events.touch(2, "load", 8, offset=1 << 24)
        assert events.rules() == ([] if ordered else [("shared-race", 8)])


def test_tensor_memory():
    events = Events()
    tell, cells = events.checker.tensor_memory, np.arange(32)[:, None] << 16 | np.arange(64, 72)
    reach = lambda *what, use=None: events.checker.async_access(UnitAccess(*what, use=use))  # noqa: E731
    tell("alloc", 0, 64, 32, 10)
    accumulator = Use("mma", (128, 8, 64))
    reach("store", "tcgen05", 0, "tensor", cells, events.threads(0), 11, use=accumulator)
    reach("load", "tcgen05", 0, "tensor", cells, events.threads(0), 12, use=accumulator)
    assert events.rules() == []
    reach("load", "tcgen05", 0, "tensor", cells + 8, events.threads(0), 13)
    assert events.rules() == [("uninitialized-tensor", 13)]
    reach("store", "tcgen05", 0, "tensor", cells + 32, events.threads(0), 14)
    assert events.rules()[1:] == [("tmem-unallocated", 14)]
    tell("relinquish", 0, 0, 0, 15)
    tell("dealloc", 0, 64, 32, 16)
    assert events.rules()[2:] == [("tmem-race", 16)]
    events.checker.done()
    assert len(events.rules()) == 3


def test_tensor_memory_that_is_kept():
    events = Events()
    events.checker.tensor_memory("alloc", 2, 0, 64, 10)
    events.checker.done()
    assert events.rules() == [("tmem-leaked", 10), ("tmem-permit-kept", 10)]
    assert events.found.all()[0].thread.ctaid == (1, 0, 0)


def test_findings_are_few():
    found = Findings("")
    for line in range(1000):
        found.add("shared-race", "", line)
        found.add("shared-race", "", 3, count=2)
    assert len(found.all()) == 100
    assert found.all()[3].count == 2001


@pytest.mark.parametrize(("used", "rules"), [(8, []), (16, [("uninitialized-shared", 6)])])
def test_the_padding_of_packed_operands_is_not_read(used, rules):
    """4-bit elements fill the first 8 of each 16 bytes."""
    events = Events()
    for chunk in range(0, 512, 16):
        lanes = Lanes.of(events.wave, events.threads(0) & (np.arange(32) < 2))
        address = np.uint64(chunk) + np.arange(32, dtype=np.uint64)[None] % np.uint64(2) * np.uint64(4)
        events.wave.memory.locate(lanes, "shared", address, 4, "store", 5)
    events.checker.fence("proxy.async", events.threads(0), 5)
    shared_operand.read(
        Lanes.of(events.wave, events.threads(0)), "tcgen05", 0, np.arange(0, 512, 16).reshape(4, 8), 6, used
    )
    assert events.rules() == rules


@pytest.mark.parametrize(
    ("fence", "orders"),
    [
        ("proxy.async", True),
        ("proxy.async.shared::cta", True),
        ("proxy.async.shared::cluster", True),
        ("proxy.async::generic.release.sync_restrict::shared::cta.cluster", True),
        ("proxy.async.global", False),
        ("proxy.alias", False),
        ("proxy.tensormap::generic.release.gpu", False),
        ("proxy.tensormap::generic.acquire.gpu", False),
        ("acq_rel.gpu", False),
    ],
)
def test_only_fences_of_the_asynchronous_proxy_count_for_its_reads(fence, orders):
    events = Events()
    events.touch(0, "store", 10)
    events.checker.fence(fence, events.threads(0), 11)
    events.unit(0, "load", 12)
    assert events.rules() == ([] if orders else [("missing-proxy-fence", 12)])
