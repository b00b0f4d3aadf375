"""Several GPUs in one emulator: memory that they share, flags, streams, and what the sanitizer finds."""

import numpy as np
import pytest
from emulator_ptx import module

import weft
from weft import emulator
from weft.emulator import Deadlock, Fault, TimeLimit, World

COUNT = 64
# Every thread writes a word; the first one raises the flag.
PUSH = """
.visible .entry push(.param .u64 flag, .param .u64 to, .param .u32 value) {{
  .reg .b64 %l<4>; .reg .b32 %r<6>; .reg .pred %p<3>;
  .shared .align 16 .b8 s[256];
  ld.param.u64 %l1, [flag]; ld.param.u64 %l2, [to]; ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x; mad.wide.u32 %l3, %r2, 4, %l2; setp.eq.u32 %p1, %r2, 0; add.u32 %r3, %r2, %r1;
  {early} {store} {barrier} {fence} @%p1 {raise_} {late} ret;
}}"""
PUSHED = {
    "early": "",
    "store": "st.global.u32 [%l3], %r3;",
    "barrier": "bar.sync 0;",
    "fence": "",
    "raise_": "st.release.sys.global.u32 [%l1], %r1;",
    "late": "",
}
# Waits until the flag is at least a value, then reads a word in each thread.
PULL = """
.visible .entry pull(.param .u64 flag, .param .u64 from, .param .u64 out, .param .u32 value) {{
  .reg .b64 %l<6>; .reg .b32 %r<9>; .reg .pred %p<4>;
  .shared .align 16 .b8 s[256]; .shared .align 8 .b64 full;
  ld.param.u64 %l1, [flag]; ld.param.u64 %l2, [from]; ld.param.u64 %l3, [out]; ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x; mad.wide.u32 %l4, %r2, 4, %l2; mad.wide.u32 %l5, %r2, 4, %l3;
  mov.u32 %r5, s; mad.lo.u32 %r6, %r2, 4, %r5; setp.eq.u32 %p2, %r2, 0;
  @%p2 mbarrier.init.shared.b64 [full], 1; bar.sync 0;
WAIT:
  {poll} sub.s32 %r3, %r3, %r1; setp.lt.s32 %p1, %r3, 0; @%p1 bra WAIT;
  {fence} {load} st.global.u32 [%l5], %r4; {after} ret;
}}"""
PULLED = {
    "poll": "ld.acquire.sys.global.u32 %r3, [%l1];",
    "fence": "",
    "load": "ld.global.u32 %r4, [%l4];",
    "after": "",
}
BULK_STORE = """
  mov.u32 %r5, s; mad.lo.u32 %r4, %r2, 4, %r5; st.shared.u32 [%r4], %r3;
  fence.proxy.async.shared::cta; bar.sync 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%l2], [%r5], 256; @%p1 cp.async.bulk.commit_group;"""
WAITED = BULK_STORE + "@%p1 cp.async.bulk.wait_group 0;"
BULK_LOAD = """
  @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
  @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%l2], 256, [full];
BULK: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra BULK; ld.shared.u32 %r4, [%r6];"""
RELAXED = "st.relaxed.sys.global.u32 [%l1], %r1;"


def of_push(**changed):
    return module(PUSH.format(**PUSHED | changed), "sm_90a")


def of_pull(**changed):
    return module(PULL.format(**PULLED | changed), "sm_90a")


def exchanged(push, pull, **options):
    """The report of a push from rank 0 to rank 1, and whether the data have arrived."""
    world, inbox, flag = World(2), np.zeros(COUNT, np.uint32), np.zeros(1, np.uint32)
    out = np.zeros(COUNT, np.uint32)
    for array in (inbox, flag):
        world.share(array, 1)
    world.stream(1).launch(pull, "pull", block=COUNT, args=[flag, inbox, out, 1])
    world.stream(0).launch(push, "push", block=COUNT, args=[flag, inbox, 1])
    report = world.run(**options)
    return report, (out == np.arange(COUNT) + 1).all()


def rules(report):
    return sorted({finding.rule for finding in report.findings})


FENCED = {"fence": "fence.acq_rel.sys;", "raise_": RELAXED}
ACQUIRED = {"poll": "ld.relaxed.sys.global.u32 %r3, [%l1];", "fence": "fence.acq_rel.sys;"}
VISIBLE = {"load": BULK_LOAD, "fence": "fence.proxy.async.global; bar.sync 0;"}


@pytest.mark.parametrize(
    ("push", "pull"),
    [
        ({}, {}),
        (FENCED, {}),
        ({}, ACQUIRED),
        (FENCED, ACQUIRED),
        ({"raise_": "red.release.sys.global.add.u32 [%l1], 1;"}, {}),
        ({"raise_": "atom.acq_rel.sys.global.exch.b32 %r4, [%l1], 1;"}, {}),
        ({}, {"poll": "atom.acquire.sys.global.or.b32 %r3, [%l1], 0;"}),
        (FENCED | {"raise_": "st.volatile.global.u32 [%l1], %r1;"}, {}),
        ({"store": WAITED}, {}),
        ({}, VISIBLE),
        ({"store": WAITED}, VISIBLE),
    ],
)
@pytest.mark.parametrize("seed", [None, 0])
def test_what_one_gpu_writes_before_a_release_another_reads_after_its_acquire(push, pull, seed):
    report, arrived = exchanged(of_push(**push), of_pull(**pull), seed=seed)
    assert (rules(report), arrived) == ([], True)


@pytest.mark.parametrize(
    ("push", "pull", "found"),
    [
        ({"raise_": RELAXED}, {}, "global-race"),
        ({"raise_": "st.release.gpu.global.u32 [%l1], %r1;"}, {}, "global-race"),
        ({"raise_": "st.global.u32 [%l1], %r1;"}, {}, "global-race"),
        ({"raise_": "red.relaxed.sys.global.add.u32 [%l1], 1;"}, {}, "global-race"),
        ({"raise_": "red.release.gpu.global.add.u32 [%l1], 1;"}, {}, "global-race"),
        (FENCED | {"fence": "fence.acq_rel.gpu;"}, {}, "global-race"),
        (FENCED | {"fence": "fence.acq_rel.cta;"}, {}, "global-race"),
        (FENCED | {"fence": "membar.gl;"}, {}, "global-race"),
        ({"barrier": ""}, {}, "global-race"),
        ({"early": "@%p1 " + PUSHED["raise_"], "raise_": "bar.warp.sync -1;"}, {}, "global-race"),
        ({"late": "st.global.u32 [%l3], 9;"}, {}, "global-race"),
        ({"store": WAITED.replace("wait_group", "wait_group.read")}, {}, "global-race"),
        ({"store": BULK_STORE}, {}, "async-at-exit global-race"),
        ({}, {"poll": "ld.acquire.gpu.global.u32 %r3, [%l1];"}, "global-race"),
        ({}, {"poll": "ld.relaxed.sys.global.u32 %r3, [%l1];"}, "global-race"),
        ({}, {"poll": "ld.global.u32 %r3, [%l1];"}, "global-race"),
        ({}, ACQUIRED | {"fence": "fence.acq_rel.gpu;"}, "global-race"),
        ({}, VISIBLE | {"fence": "bar.sync 0;"}, "missing-proxy-fence"),
        ({}, {"after": "@%p2 st.global.u32 [%l2], 0;"}, ""),
    ],
)
def test_orders_that_do_not_reach_another_gpu_are_found(push, pull, found):
    report, _ = exchanged(of_push(**push), of_pull(**pull))
    assert rules(report) == found.split()


def test_a_finding_names_the_threads_and_the_kernels_of_both_gpus():
    report, _ = exchanged(of_push(raise_=RELAXED), of_pull())
    (found,) = report.findings
    assert str(found).endswith(
        "of kernel 'push' on rank 0; nothing orders the two in thread (0, 0, 0) of block (0, 0, 0) on rank 1"
    )
    assert report.launches[0].findings == (found,) or report.launches[1].findings == (found,)


class Exchange:
    """Two GPUs, an inbox and a flag of rank 1, and a third array of each."""

    def __init__(self):
        self.world = World(2)
        self.outbox = np.arange(1, COUNT + 1, dtype=np.uint32)
        self.inbox, self.out = np.zeros(COUNT, np.uint32), np.zeros(COUNT, np.uint32)
        self.flag, self.one = np.zeros(4, np.uint32), np.ones(4, np.uint32)
        self.world.share(self.inbox, 1)
        self.world.share(self.flag, 1)
        self.here, self.there = self.world.stream(0), self.world.stream(1)

    def pull(self, stream=None, value=1, **changed):
        args = [self.flag, self.inbox, self.out, value]
        (stream or self.there).launch(of_pull(**changed), "pull", block=COUNT, args=args)

    def push(self, stream=None, value=1, **changed):
        args = [self.flag, self.inbox, value]
        (stream or self.here).launch(of_push(**changed), "push", block=COUNT, args=args)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_copies_of_a_stream_come_before_the_flag_that_it_writes(seed):
    for signal in (
        lambda e: e.here.write(e.flag, 1),
        lambda e: e.here.copy(e.flag[:1], e.one[:1]),
        lambda e: e.here.copy(e.flag[:2].view(np.uint64), e.one[:2].view(np.uint64)),
    ):
        e = Exchange()
        e.here.copy(e.inbox, e.outbox)
        signal(e)
        e.pull(**VISIBLE)
        assert rules(e.world.run(seed=seed)) == []
        assert (e.out == e.outbox).all()


def flag_first(e):
    e.here.write(e.flag, 1)
    e.here.copy(e.inbox, e.outbox)
    e.pull()


def flag_of_another_stream(e):
    e.here.copy(e.inbox, e.outbox)
    e.world.stream(0).write(e.flag, 1)
    e.pull()


def flag_by_a_long_copy(e):
    e.here.copy(e.inbox, e.outbox)
    e.here.copy(e.flag, e.one)
    e.pull()


def copy_before_its_source_is_written(e):
    e.world.share(e.out, 0)
    e.push()
    e.world.stream(1).copy(e.out, e.inbox)


def second_push_before_the_first_is_read(e):
    e.push(value=1)
    e.push(value=2)
    e.pull()


def two_gpus_push(e):
    e.push(value=1)
    e.push(e.there, value=2)


def kernel_beside_a_copy_of_its_data(e):
    e.pull(e.there, value=0)
    e.here.copy(e.inbox, e.outbox)


def flag_reset_while_others_wait(e):
    e.push()
    e.pull()
    e.world.stream(0).copy(e.flag, np.zeros(4, np.uint32))


@pytest.mark.parametrize(
    "planted",
    [
        flag_first,
        flag_of_another_stream,
        flag_by_a_long_copy,
        copy_before_its_source_is_written,
        second_push_before_the_first_is_read,
        two_gpus_push,
        kernel_beside_a_copy_of_its_data,
        flag_reset_while_others_wait,
    ],
    ids=lambda each: each.__name__,
)
def test_mistakes_in_the_order_of_streams_are_found(planted):
    e = Exchange()
    planted(e)
    assert rules(e.world.run()) == ["global-race"]


@pytest.mark.parametrize("seed", [None, 0])
def test_events_and_awaited_flags_order_streams(seed):
    e = Exchange()
    e.push()
    event = e.here.record()
    e.there.wait(event)
    e.there.copy(e.out, e.inbox)
    assert rules(e.world.run(seed=seed)) == [] and (e.out == np.arange(COUNT) + 1).all()
    e = Exchange()
    e.push(value=7)
    e.there.wait_value(e.flag, 6)
    e.there.copy(e.out, e.inbox)
    assert rules(e.world.run(seed=seed)) == [] and (e.out == np.arange(COUNT) + 7).all()


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_buffers_are_used_again_after_an_answer(seed):
    e = Exchange()
    answer = np.zeros(1, np.uint32)
    e.world.share(answer, 0)
    for epoch in (1, 2, 3):
        e.here.wait_value(answer, epoch - 1)
        e.push(value=epoch)
        e.pull(value=epoch)
        e.there.write(answer, epoch)
    assert rules(e.world.run(seed=seed)) == [] and (e.out == np.arange(COUNT) + 3).all()


@pytest.mark.parametrize("seed", [None, 3])
def test_a_ring_of_five_gpus(seed):
    world, ranks = World(5), range(5)
    boxes, flags = ([np.zeros(n, np.uint32) for _ in ranks] for n in (COUNT, 1))
    for rank in ranks:
        world.share(boxes[rank], rank)
        world.share(flags[rank], rank)
    outs = [np.zeros(COUNT, np.uint32) for _ in ranks]
    for rank in ranks:
        stream, to = world.stream(rank), (rank + 1) % 5
        stream.launch(of_push(), "push", block=COUNT, args=[flags[to], boxes[to], rank + 1])
        value = (rank - 1) % 5 + 1
        args = [flags[rank], boxes[rank], outs[rank], value]
        stream.launch(of_pull(), "pull", block=COUNT, args=args)
    report = world.run(seed=seed)
    assert rules(report) == [] and len(report.launches) == 10
    for rank in ranks:
        assert (outs[rank] == np.arange(COUNT) + (rank - 1) % 5 + 1).all()


def test_waits_that_nobody_ends_are_a_deadlock_of_all_gpus():
    e = Exchange()
    e.pull()
    e.here.wait_value(e.flag[1:], 3)
    e.push(value=9)
    with pytest.raises(Deadlock, match="kernel 'pull' on rank 1:") as caught:
        e.world.run()
    assert "stream 0 of rank 0 waits for the flag at 0x" in str(caught.value)
    assert "to be at least 3; it is 0" in str(caught.value)
    assert [each.rule for each in caught.value.findings] == ["deadlock"]


def test_both_gpus_wait_for_each_other():
    world = World(2)
    boxes, flags = ([np.zeros(n, np.uint32) for _ in range(2)] for n in (COUNT, 1))
    for rank in range(2):
        world.share(boxes[rank], rank)
        world.share(flags[rank], rank)
    for rank in range(2):
        stream, to = world.stream(rank), 1 - rank
        out = np.zeros(COUNT, np.uint32)
        stream.launch(of_pull(), "pull", block=COUNT, args=[flags[rank], boxes[rank], out, 1])
        stream.launch(of_push(), "push", block=COUNT, args=[flags[to], boxes[to], 1])
    with pytest.raises(Deadlock, match=r"(?s)on rank 0:.*on rank 1:"):
        world.run()


def test_an_event_of_a_stream_that_waits_itself():
    e = Exchange()
    e.here.wait_value(e.flag, 1)
    e.there.wait(e.here.record())
    with pytest.raises(Deadlock, match="stream 0 of rank 1 waits for an event of stream 0 of rank 0"):
        e.world.run()


def test_memory_of_one_gpu_is_not_mapped_on_others():
    e = Exchange()
    mine = np.zeros(COUNT, np.uint32)
    e.here.copy(mine, e.outbox)
    with pytest.raises(weft.WeftError, match=r"rank 1 can't access this array of rank 0: share it before"):
        e.there.copy(e.out, mine)
    with pytest.raises(weft.WeftError, match="must be shared before its first use: it is used by rank 0"):
        e.world.share(mine[4:], 1)
    # Its address is of no use there.
    e = Exchange()
    e.here.copy(mine, e.outbox)
    size, key = 8, 0
    where = emulator.Struct(size, {key: mine})
    e.here.launch(module(STORE_ADDRESS, "sm_90a"), "k", args=[where, e.inbox])
    e.there.wait(e.here.record())
    e.there.launch(module(FOLLOW, "sm_90a"), "k", args=[e.inbox])
    with pytest.raises(Fault, match=r"out-of-bounds global access.*on rank 1") as caught:
        e.world.run()
    assert [each.rule for each in caught.value.findings] == ["out-of-bounds"]


STORE_ADDRESS = """
.visible .entry k(.param .u64 address, .param .u64 to) {
  .reg .b64 %l<3>; ld.param.u64 %l1, [address]; ld.param.u64 %l2, [to]; st.global.u64 [%l2], %l1; ret;
}"""
FOLLOW = """
.visible .entry k(.param .u64 from) {
  .reg .b64 %l<3>; .reg .b32 %r<2>; ld.param.u64 %l1, [from]; ld.global.u64 %l2, [%l1];
  ld.global.u32 %r1, [%l2]; ret;
}"""


def test_views_share_the_memory_of_their_array():
    e = Exchange()
    e.here.copy(e.inbox[:32], e.outbox[32:])
    e.here.copy(e.inbox[32:].reshape(2, 16), e.outbox[:32].reshape(2, 16))
    e.there.wait(e.here.record())
    e.pull(value=0)
    assert rules(e.world.run()) == []
    assert (e.out == np.concatenate([e.outbox[32:], e.outbox[:32]])).all()


def test_a_world_runs_again_after_the_host_has_waited():
    e = Exchange()
    e.push()
    e.world.run()
    e.there.copy(e.out, e.inbox)
    assert rules(e.world.run()) == [] and (e.out == np.arange(COUNT) + 1).all()
    assert e.world.run().launches == ()


def test_seeds_are_explored():
    def run(seed, left):
        e = Exchange()
        e.push(raise_=RELAXED)
        e.pull()
        return e.world.run(seed=seed, max_seconds=left)

    explored = emulator.explore(run, [], seeds=2)
    assert explored.seeds == 2 and {each.rule for each in explored.findings} == {"global-race"}


def test_the_first_launch_of_an_exploration_gets_the_whole_time_limit():
    """So its message names the limit as the user gave it."""
    limits = []

    def run(seed, left):
        limits.append(left)
        e = Exchange()
        e.pull()
        return e.world.run(max_seconds=left)

    emulator.explore(run, [np.zeros(1 << 20)], seeds=1, max_seconds=60.0)
    assert limits[0] == 60.0 and limits[1] < 60.0


def test_limits():
    e = Exchange()
    e.pull()
    with pytest.raises(Fault, match="instruction limit of 100"):
        e.world.run(max_instructions=100)
    e.pull()
    with pytest.raises(TimeLimit, match="time limit of 0 s"):
        e.world.run(max_seconds=0)
    assert rules(e.world.run()) == []  # what had not begun is dropped


VARIABLE = """
.global .u32 counter;
.visible .entry k() { .reg .b32 %r<2>; atom.global.add.u32 %r1, [counter], 1; ret; }"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: World(0), "ranks must be at least 1"),
        (lambda e: World(1000), r"ranks must be a whole number in 0\.\.64"),
        (lambda e: e.world.stream(2), r"rank must be a whole number in 0\.\.1, got 2"),
        (lambda e: e.world.share([1], 0), "array must be a NumPy array"),
        (lambda e: e.world.share(e.inbox, 0), "must be shared before its first use: it is shared by rank 1"),
        (lambda e: e.here.copy(e.inbox, e.outbox[1:]), "of the same size, got 252 and 256 bytes"),
        (lambda e: e.here.copy(e.inbox[::2], e.outbox[::2]), "to must be contiguous"),
        (lambda e: e.here.copy(np.broadcast_to(e.inbox, (64,)), e.outbox), "to is read-only"),
        (lambda e: e.here.write(np.zeros(3, np.uint8), 1), "flag must have at least 4 aligned bytes"),
        (lambda e: e.here.write(e.flag, -1), "value must be a whole number"),
        (lambda e: e.here.wait("event"), "event must be what Stream.record returns"),
        (lambda e: e.here.launch("text", "k"), "module must be a Module"),
        (lambda e: e.here.launch(of_push(), "pull"), "the module has no kernel 'pull'"),
        (lambda e: e.here.launch(of_push(), "push", args=[e.flag]), "has 3 parameters, got 1 argument"),
        (lambda e: e.here.launch(module(VARIABLE, "sm_90a"), "k"), "global variable 'counter' can't run"),
        (lambda e: e.world.run(sanitize=1), "sanitize must be True or False"),
        (lambda e: e.world.run(ignore=["race"]), "ignore must name rules of the sanitizer"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(weft.WeftError, match=message):
        call(Exchange())
