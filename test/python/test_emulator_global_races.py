"""The order of accesses of different CTAs to global memory, as the sanitizer sees it."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator

# Block 0 writes words; the last block, of another wave, reads them.
HANDED_ON = """
.visible .entry k(.param .u64 p) {{
  .reg .b64 %l<3>; .reg .b32 %r<6>; .reg .pred %p<4>;
  ld.param.u64 %l1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; sub.u32 %r2, %r2, 1;
  .shared .align 16 .b8 s[128]; mov.u32 %r4, s; mov.u32 %r5, %tid.x; setp.eq.u32 %p3, %r5, 0;
  mad.wide.u32 %l2, %r5, 4, %l1;
  setp.eq.u32 %p1, %r1, %r2; @%p1 bra LAST;
  setp.ne.u32 %p1, %r1, 0; @%p1 ret;
  {before} {store} {release} {after} ret;
LAST:
  {acquire} setp.eq.u32 %p2, %r3, 0; @%p2 bra LAST;
  ld.global.u32 %r4, [%l2+128]; st.global.u32 [%l2+512], %r4; ret;
}}"""
PLAIN = {
    "store": "st.global.u32 [%l2+128], 7;",
    "before": "",
    "release": "st.release.gpu.global.u32 [%l1], 1;",
    "after": "",
    "acquire": "ld.acquire.gpu.global.u32 %r3, [%l1];",
}
BULK = """
  mad.lo.u32 %r5, %r5, 4, %r4; st.shared.u32 [%r5], 7; fence.proxy.async.shared::cta; bar.warp.sync -1;
  @%p3 cp.async.bulk.global.shared::cta.bulk_group [%l1+128], [%r4], 128;
  @%p3 cp.async.bulk.commit_group; @%p3 cp.async.bulk.wait_group 0; bar.warp.sync -1;"""
REDUCE = BULK.replace("cp.async.bulk.global", "cp.reduce.async.bulk.global").replace(
    "group [", "group.add.u32 ["
)


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({}, []),
        ({"release": "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%l1], 1;"}, []),
        ({"acquire": "ld.relaxed.gpu.global.u32 %r3, [%l1]; fence.acq_rel.gpu;"}, []),
        # One of many addresses that a warp reads at once.
        ({"acquire": "ld.acquire.gpu.global.u32 %r3, [%l2]; shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;"}, []),
        ({"release": "st.global.u32 [%l1], 1;"}, ["global-race"]),
        ({"acquire": "ld.global.u32 %r3, [%l1];"}, ["global-race"]),
        ({"before": PLAIN["release"], "release": ""}, ["global-race"]),
        ({"store": BULK}, []),
        ({"store": BULK, "before": PLAIN["release"], "release": ""}, ["global-race"]),
        ({"store": REDUCE, "before": PLAIN["release"], "release": ""}, ["global-race"]),
        ({"after": "st.global.u32 [%l2+128], 9;"}, ["global-race"]),
    ],
)
def test_what_was_written_before_a_release_is_there_after_its_acquire(changed, rules):
    words = np.zeros(256, np.uint32)
    text = module(HANDED_ON.format(**PLAIN | changed), "sm_90a")
    findings = text.launch("k", grid=80, block=32, args=[words]).findings
    assert sorted({f.rule for f in findings}) == rules
    assert set(words[128:160].tolist()) <= {7, 9}


LOADED = """
  mov.b64 %l2, bar; @%p3 mbarrier.init.shared.b64 [bar], 1; bar.warp.sync -1; {before}
  @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
  @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%l1+128], 128, [bar];
COME:
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra COME;
  mad.lo.u32 %r5, %r5, 4, %r4; ld.shared.u32 %r4, [%r5];"""
FULL = "fence.proxy.async;"


@pytest.mark.parametrize(
    ("written", "loaded", "rules"),
    [
        ("", "", ["missing-proxy-fence"]),
        (FULL, "", []),
        ("", FULL, []),
        ("fence.proxy.async.global;", "", []),
        ("", "fence.proxy.async.global;", []),
        ("fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cta;", ["missing-proxy-fence"]),
        ("fence.proxy.alias;", "fence.proxy.alias;", ["missing-proxy-fence"]),
        (f"{FULL} st.global.u32 [%l2+128], 7;", "", ["missing-proxy-fence"]),
    ],
)
@pytest.mark.parametrize("grid", [2, 80])
def test_bulk_copies_see_what_a_fence_makes_visible_to_them(grid, written, loaded, rules):
    words = np.zeros(256, np.uint32)
    release = f"{written} bar.warp.sync -1; @%p3 {PLAIN['release']}"
    text = HANDED_ON.format(**PLAIN | {"release": release})
    text = text.replace("ld.global.u32 %r4, [%l2+128];", LOADED.format(before=loaded))
    text = text.replace("mov.b64 %l2, bar;", ".shared .align 8 .b64 bar;")
    findings = module(text, "sm_90a").launch("k", grid=grid, block=32, args=[words]).findings
    assert sorted({f.rule for f in findings}) == rules
    assert (words[128:160] == 7).all()


def test_a_host_s_words_need_no_fence():
    text = HANDED_ON.format(**PLAIN | {"store": ""})
    text = text.replace("ld.global.u32 %r4, [%l2+128];", LOADED.format(before=""))
    text = text.replace("mov.b64 %l2, bar;", ".shared .align 8 .b64 bar;")
    assert (
        module(text, "sm_90a").launch("k", grid=2, block=32, args=[np.zeros(256, np.uint32)]).findings == ()
    )


@pytest.mark.parametrize(
    ("store", "load", "cluster", "rules"),
    [
        ("st.release.cluster", "ld.acquire.cluster", 2, []),
        ("st.release.cluster", "ld.acquire.cluster", 1, ["global-race"]),
        ("st.release.cluster", "ld.acquire.gpu", 2, []),
        ("st.release.gpu", "ld.acquire.cluster", 2, []),
        ("st.release.gpu", "ld.acquire.cluster", 1, ["global-race"]),
        ("st.release.cta", "ld.acquire.gpu", 2, ["global-race"]),
        ("st.release.gpu", "ld.acquire.cta", 2, ["global-race"]),
        ("st.release.sys", "ld.acquire.sys", 1, []),
        ("fence.acq_rel.cluster; st.relaxed.gpu", "ld.acquire.gpu", 2, []),
        ("fence.acq_rel.cluster; st.relaxed.gpu", "ld.acquire.gpu", 1, ["global-race"]),
        ("fence.acq_rel.cta; st.relaxed.gpu", "ld.acquire.gpu", 2, ["global-race"]),
        ("fence.release.gpu; st.relaxed.cluster", "ld.acquire.gpu", 2, []),
        ("fence.acquire.gpu; st.relaxed.gpu", "ld.acquire.gpu", 2, ["global-race"]),
        ("st.relaxed.gpu", "ld.acquire.gpu", 1, ["global-race"]),
        ("st.volatile", "ld.acquire.gpu", 1, ["global-race"]),
        ("fence.sc.gpu; st.volatile", "ld.acquire.gpu", 1, []),
        ("st.release.gpu", "ld.relaxed.gpu", 1, ["global-race"]),
    ],
)
def test_what_orders_must_have_the_other_thread_in_its_scope(store, load, cluster, rules):
    words = np.zeros(256, np.uint32)
    changed = {"release": f"{store}.global.u32 [%l1], 1;", "acquire": f"{load}.global.u32 %r3, [%l1];"}
    text = module(HANDED_ON.format(**PLAIN | changed), "sm_90a")
    findings = text.launch("k", grid=2, block=32, cluster=cluster, args=[words]).findings
    assert sorted({f.rule for f in findings}) == rules


@pytest.mark.parametrize(
    ("fence", "load", "rules"),
    [
        ("fence.acquire.gpu;", "ld.global.u32", []),
        ("fence.acq_rel.cluster;", "ld.global.u32", ["global-race"]),
        ("membar.cta;", "ld.global.u32", ["global-race"]),
        ("fence.release.gpu;", "ld.global.u32", ["global-race"]),
        # What comes from no cache of the SM is new, without a fence.
        ("", "ld.volatile.global.u32", []),
        ("bar.sync 0;", "ld.relaxed.gpu.global.u32", []),
        ("bar.sync 0; fence.acquire.gpu;", "ld.global.u32", []),
    ],
)
@pytest.mark.parametrize("grid", [2, 80])
def test_a_relaxed_load_acquires_at_a_fence(grid, fence, load, rules):
    words = np.zeros(256, np.uint32)
    text = HANDED_ON.format(**PLAIN | {"acquire": "ld.relaxed.gpu.global.u32 %r3, [%l1];"})
    text = text.replace("ld.global.u32 %r4,", f"{fence} {load} %r4,")
    findings = module(text, "sm_90a").launch("k", grid=grid, block=32, args=[words]).findings
    assert sorted({f.rule for f in findings}) == rules


COUNTED = """
.visible .entry k(.param .u64 p) {{
  .reg .b64 %l<4>; .reg .b32 %r<8>; .reg .pred %p<3>; .shared .align 4 .b32 last;
  ld.param.u64 %l1, [p]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r0, 0;
  shl.b32 %r2, %r1, 6; add.u32 %r2, %r2, %r0; mul.wide.u32 %l2, %r2, 4; add.u64 %l2, %l2, %l1;
  {before} st.global.u32 [%l2+64], %r2; {stored} bar.sync 0;
  @!%p0 bra COUNTED;
  {count}
  atom.global.add.u32 %r3, [%l1], 1; st.shared.u32 [last], %r3;
COUNTED:
  bar.sync 0; ld.shared.u32 %r3, [last]; setp.ne.u32 %p1, %r3, 1; @%p1 bra DONE;
  {read}
  mul.wide.u32 %l3, %r0, 4; add.u64 %l3, %l3, %l1;
  ld.global.u32 %r4, [%l3+64]; ld.global.u32 %r5, [%l3+320]; add.u32 %r4, %r4, %r5; 
  st.global.u32 [%l3+1024], %r4;
DONE: ret;
}}"""


@pytest.mark.parametrize(
    ("fences", "rules"),
    [
        ({"stored": "membar.gl;", "read": "membar.gl;"}, []),
        ({"count": "membar.gl;", "read": "membar.gl;"}, []),
        ({"read": "membar.gl;"}, ["global-race"]),
        ({"before": "membar.gl;", "read": "membar.gl;"}, ["global-race"]),
        ({"stored": "membar.cta;", "read": "membar.gl;"}, ["global-race"]),
        ({"stored": "membar.gl;"}, ["global-race"]),
    ],
)
def test_a_fence_before_a_barrier_counts_for_threads_after_it(fences, rules):
    text = COUNTED.format(**dict.fromkeys(("before", "stored", "count", "read"), "") | fences)
    words = np.zeros(1024, np.uint32)
    found = module(text, "sm_80").launch("k", grid=2, block=64, args=[words]).findings
    assert sorted({f.rule for f in found}) == rules


@pytest.mark.parametrize(
    ("scope", "cluster", "rules"),
    [("cta", 2, ["global-race"]), ("cluster", 2, []), ("cluster", 1, ["global-race"]), ("gpu", 1, [])],
)
@pytest.mark.parametrize("apart", [False, True])
def test_atomic_operations_meet_within_their_scope(apart, scope, cluster, rules):
    wait = "mov.u32 %r3, %ctaid.x; LATER: setp.ne.u32 %p1, %r3, 0; sub.u32 %r3, %r3, 1; @%p1 bra LATER;"
    text = f"""
    .visible .entry k(.param .u64 p) {{
      .reg .b64 %l1; .reg .b32 %r<4>; .reg .pred %p<2>;
      ld.param.u64 %l1, [p]; {wait if apart else ""}
      red.relaxed.{scope}.global.add.u32 [%l1], 1; ret;
    }}"""
    words = np.zeros(4, np.uint32)
    found = module(text, "sm_90a").launch("k", grid=2, block=64, cluster=cluster, args=[words]).findings
    assert sorted({f.rule for f in found}) == rules
    assert words[0] == 128


@pytest.mark.parametrize(("scope", "rules"), [("cta", ["shared-race"]), ("cluster", []), ("gpu", [])])
def test_atomic_operations_on_another_cta_s_memory_need_the_cluster_s_scope(scope, rules):
    text = f"""
    .visible .entry k(.param .u64 p) {{
      .reg .b64 %l1; .reg .b32 %r<4>; .reg .pred %p<2>; .shared .align 4 .b32 s;
      ld.param.u64 %l1, [p]; st.shared.u32 [s], 0; mov.u32 %r1, s; mapa.shared::cluster.u32 %r1, %r1, 0;
      barrier.cluster.arrive; barrier.cluster.wait;
      red.relaxed.{scope}.shared::cluster.add.u32 [%r1], 1;
      barrier.cluster.arrive; barrier.cluster.wait;
      ld.shared.u32 %r2, [s]; red.global.add.u32 [%l1], %r2; ret;
    }}"""
    words = np.zeros(4, np.uint32)
    found = module(text, "sm_90a").launch("k", grid=2, block=32, cluster=2, args=[words]).findings
    assert sorted({f.rule for f in found}) == rules
    assert words[0] == 32 * 64


@pytest.mark.parametrize(("before", "rules"), [("bar.sync 0;", []), ("", ["global-race"])])
def test_a_release_of_one_warp_does_not_order_another(before, rules):
    words = np.zeros(256, np.uint32)
    release = f"{before} @%p3 {PLAIN['release']}"
    text = module(HANDED_ON.format(**PLAIN | {"release": release}), "sm_90a")
    findings = text.launch("k", grid=80, block=64, args=[words]).findings
    assert sorted({f.rule for f in findings}) == rules


@pytest.mark.parametrize("reader", [0, 31, 32, 63])
def test_a_finding_names_the_thread_that_did_it(reader):
    text = f"""
    .visible .entry k(.param .u64 p) {{
      .reg .b64 %l1; .reg .b32 %r<3>; .reg .pred %p1;
      ld.param.u64 %l1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, {reader};
      @%p1 ld.global.u32 %r2, [%l1]; @%p1 st.global.u32 [%l1+4], %r2; ret;
    }}"""
    (found,) = module(text).launch("k", block=64, args=[emulator.Unwritten(np.zeros(4, np.uint32))]).findings
    assert (found.rule, found.thread.tid) == ("uninitialized-global", (reader, 0, 0))


MASKED = """
.visible .entry k(.param .u64 p) {{
  .reg .b64 %l<4>; .reg .b32 %r<8>; .reg .b16 %h<2>; .reg .pred %p<5>;
  ld.param.u64 %l1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; setp.ne.u64 %p4, %l1, 0;
  mad.wide.u32 %l2, %r2, 4, %l1; setp.eq.u32 %p1, %r1, 1; @%p1 bra SECOND;
  st.global.u32 [%l2], 7; ret;
SECOND:
  setp.ge.u32 %p2, %r2, {lanes}; selp.b64 %l3, %l2, %l1, %p2; @%p2 add.u64 %l3, %l3, 128; mov.u32 %r6, 0;
  {load}
  {use}
  mad.wide.u32 %l2, %r2, 4, %l1; st.global.u32 [%l2+256], %r5; ret;
}}"""
"""Block 0 writes words. Block 1 reads the words behind these; its first `lanes` lanes read the first word."""
LOAD = "ld.global.u32 %r4, [%l3];"
SELECT = "selp.b32 %r5, %r4, 0, %p2;"
BRANCH = "mov.u32 %r6, 0; setp.ne.u32 %p3, %r4, 5; @%p3 bra B;"
KEEP = "mov.u32 %r5, 0; @%p2 mov.u32 %r5, %r6;"
OWN = ".local .u32 m; st.local.u32 [m], 0;" + BRANCH + "st.{}"


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("lanes", [0, 1, 2, 31, 32])
@pytest.mark.parametrize(
    ("load", "use", "discards"),
    [
        (LOAD, SELECT, True),
        (LOAD, "setp.lt.u32 %p3, %r2, 40; @!%p3 bra END;\nEND: " + SELECT, True),
        (LOAD, "mov.u32 %r5, 0; @%p2 mov.u32 %r5, %r4;", True),
        (LOAD, "add.u32 %r5, %r4, 1;", False),
        # The value decides between itself and another one, and the lane uses that or not.
        (
            LOAD,
            "setp.eq.u32 %p3, %r4, 5; selp.b32 %r6, %r4, 7, %p3; mov.u32 %r5, 0; @%p2 mov.u32 %r5, %r6;",
            True,
        ),
        (LOAD, "setp.eq.u32 %p3, %r4, 5; selp.b32 %r6, %r4, 7, %p3; mov.u32 %r5, %r6;", False),
        # A branch on the value decides what the lane uses or not.
        (LOAD, BRANCH + "mov.u32 %r6, 9;\nB: " + KEEP, True),
        (LOAD, BRANCH + "mov.u32 %r6, 9;\nB: mov.u32 %r5, %r6;", False),
        (
            LOAD,
            BRANCH + "mov.u32 %r6, 9;\nB: " + KEEP + "@!%p3 bra C; @%p2 st.global.u32 [%l2+512], %r1;\nC:",
            True,
        ),
        (LOAD, BRANCH + "st.global.u32 [%l2+512], %r1;\nB: " + KEEP, False),
        (LOAD, BRANCH + "bar.sync 0;\nB: " + KEEP, False),
        (
            LOAD,
            f"mov.u32 %r6, 0;\nB: add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, %r4; @%p3 bra B; {KEEP}",
            True,
        ),
        (LOAD, "mov.u32 %r5, 1; setp.ne.u32 %p3, %r4, 5; @%p3 bra B; ret;\nB: ", False),
        (LOAD, OWN.format("local.u32 [m], 1;\nB: ld.local.u32 %r6, [m];") + KEEP, True),
        (LOAD, OWN.format("local.u32 [m], 1;\nB: ld.local.u32 %r5, [m];"), False),
        (
            LOAD,
            OWN.format("shared.u32 [m], 1;\nB: ld.shared.u32 %r6, [m];").replace(".local", ".shared") + KEEP,
            False,
        ),
        (LOAD, SELECT + "add.u32 %r6, %r6, %r4; st.global.u32 [%l2+512], %r6;", False),
        (LOAD, SELECT + "add.u32 %r6, %r6, %r4; @%p2 st.global.u32 [%l2+512], %r6;", True),
        (LOAD, "cvt.u16.u32 %h1, %r4; mov.b32 %r6, {{%h1, %h1}};" + SELECT.replace("%r4", "%r6"), True),
        (LOAD, "and.pred %p3, %p2, %p4; mov.u32 %r5, 0; @%p3 add.u32 %r5, %r4, 1;", True),
        (LOAD, "or.pred %p3, %p2, %p4; mov.u32 %r5, 0; @%p3 add.u32 %r5, %r4, 1;", False),
        (LOAD, "add.cc.u32 %r6, %r4, 1; addc.u32 %r5, 0, 0;", False),
        # This predicate has the value of %p2, and is computed after the load.
        (LOAD, "not.b32 %r7, %r2; setp.le.u32 %p3, %r7, {not_lanes}; selp.b32 %r5, %r4, 0, %p3;", True),
        (LOAD, "ld.global.u32 %r7, [%l1+640]; setp.eq.u32 %p3, %r7, 0; selp.b32 %r5, %r4, 0, %p3;", False),
        (LOAD, "setp.lt.u32 %p2, %r2, 40;" + SELECT, False),
        (LOAD, "setp.lt.u32 %p3, %r2, 40; selp.b32 %r5, %r4, 0, %p3;", False),
        (LOAD, SELECT.replace("%r4, 0", "%r4, %r4"), False),
        (f"L: {LOAD}", "add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 3; @%p4 bra L;" + SELECT, True),
        # The first iteration loads; the others use that with their own predicate.
        (
            "setp.eq.u32 %p3, %r2, 99;\nL: setp.lt.u32 %p2, %r6, 1; @!%p2 bra USE;\n" + LOAD,
            "\nUSE: "
            + SELECT.replace("%r4, 0", "0, %r4")
            + "add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 2; @%p3 bra L;",
            False,
        ),
    ],
)
def test_a_load_counts_in_the_lanes_that_use_its_value(load, use, discards, lanes, compiled):
    text = module(
        MASKED.format(lanes=lanes, load=load, use=use.format(not_lanes=~lanes & 0xFFFFFFFF)), "sm_90a"
    )
    words = np.zeros(256, np.uint32)
    report = text.launch("k", grid=2, block=32, args=[words], compiled=compiled, threads=1)
    assert [f.rule for f in report.findings] == ([] if discards or not lanes else ["global-race"])
    if report.findings:
        assert (report.findings[0].thread.tid, report.findings[0].count) == ((0, 0, 0), lanes)


def test_a_value_that_is_discarded_may_be_unwritten():
    text = module(MASKED.format(lanes=3, load=LOAD, use=SELECT).replace("st.global.u32 [%l2], 7;", ""))
    report = text.launch("k", grid=2, block=32, args=[emulator.Unwritten(np.zeros(256, np.uint32))])
    (found,) = report.findings
    assert (found.rule, found.thread.tid, found.count) == ("uninitialized-global", (3, 0, 0), 29)


def test_lines_with_several_loads_count_in_all_lanes():
    load = f"ld.global.u32 %r7, [%l3]; {LOAD}"
    words = np.zeros(256, np.uint32)
    report = module(MASKED.format(lanes=1, load=load, use=SELECT)).launch("k", grid=2, block=32, args=[words])
    assert [f.rule for f in report.findings] == ["global-race"]


# Warp 0 of each block counts; one of block 0 waits until all have, and one of its warps resets the counter.
RESET = """
.visible .entry k(.param .u64 p) {{
  .reg .b64 %l<3>; .reg .b32 %r<6>; .reg .pred %p<5>; .shared .align 8 .b32 c;
  ld.param.u64 %l1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %tid.x;
  setp.eq.u32 %p1, %r3, 0; setp.eq.u32 %p2, %r3, 32; @%p1 st.shared.u32 [c], 0; bar.sync 0;
  @!%p1 bra COUNTED; fence.acq_rel.gpu; atom.relaxed.gpu.{space}.add.u32 %r4, [{counter}], 1;
COUNTED:
  setp.ne.u32 %p3, %r1, 0; @%p3 ret; @!{waits} bra WAITED;
WAIT:
  ld.acquire.gpu.{space}.u32 %r4, [{counter}]; setp.lt.u32 %p4, %r4, {until}; @%p4 bra WAIT;
WAITED:
  {barrier} @{resets} st.{space}.u32 [{counter}], 9; ret;
}}"""
ORDERED = {"waits": "%p1", "resets": "%p1", "barrier": ""}


@pytest.mark.parametrize("place", [("global", "%l1", 3), ("shared", "c", 1)])
@pytest.mark.parametrize(
    ("changed", "fine"),
    [
        ({}, True),
        ({"resets": "%p2", "barrier": "bar.sync 0;"}, True),
        ({"waits": "%p2", "resets": "%p1", "barrier": "bar.sync 0;"}, True),
        ({"waits": "%p2", "resets": "%p2"}, True),
        ({"resets": "%p2"}, False),
    ],
)
def test_a_counter_may_be_reset_once_it_was_seen(place, changed, fine):
    text = RESET.format(**dict(zip(("space", "counter", "until"), place, strict=True)), **ORDERED | changed)
    found = module(text, "sm_90a").launch("k", grid=3, block=64, args=[np.zeros(4, np.uint32)]).findings
    assert [each.rule for each in found] == ([] if fine else [f"{place[0]}-race"])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("before", "read", "fine"),
    [
        ("st.global.u32 [%l2], %r1;", "ld.global.nc.u32 %r2, [%l2];", False),
        ("st.global.u32 [%l2], %r1;", "ld.global.u32 %r2, [%l2];", True),
        ("st.global.u32 [%l2], %r1;", "ld.global.nc.u32 %r2, [%l2+128];", True),
        ("ld.global.nc.u32 %r2, [%l2];", "st.global.u32 [%l2], %r1;", True),
    ],
)
def test_loads_of_constants_read_nothing_that_the_kernel_has_written(before, read, fine, compiled):
    text = f""".visible .entry k(.param .u64 p) {{
    .reg .b64 %l<3>; .reg .b32 %r<4>;
    ld.param.u64 %l1, [p]; mov.u32 %r1, %tid.x; mad.wide.u32 %l2, %r1, 4, %l1;
    {before}
    {read}
    st.global.u32 [%l2+256], %r2; ret; }}"""
    words = np.zeros(128, np.uint32)
    found = module(text).launch("k", block=32, args=[words], compiled=compiled, threads=1).findings
    assert [each.rule for each in found] == ([] if fine else ["global-race"])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["bulk", "tensor"])
@pytest.mark.parametrize(("source", "rules"), [("%r2", []), ("%r4", ["global-race"])])
def test_bulk_stores_of_the_same_bytes_do_not_race(source, rules, kind, compiled):
    """Each warp stores 128 bytes to the same place, from the same tile or from its own."""
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%d0], [{}], 128;"
    if kind == "tensor":
        copy = "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [m, {{%r5}}], [{}];"
    text = f"""
    .visible .entry k(.param .u64 p, .param .align 64 .b8 m[128]) {{
      .reg .b64 %d<2>; .reg .b32 %r<6>; .reg .pred %p; .shared .align 128 .b8 s[512];
      ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; mov.u32 %r2, s; mov.b32 %r5, 0;
      shl.b32 %r3, %r0, 2; add.u32 %r3, %r2, %r3; st.shared.u32 [%r3], %r0; and.b32 %r4, %r0, 96;
      shl.b32 %r4, %r4, 2; add.u32 %r4, %r2, %r4;
      fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p, %r1, 0; @%p ret;
      {copy.format(source)}
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
    }}"""
    words = np.zeros(32, np.uint32)
    tile = emulator.TensorMap.tiled(words, dtype="UINT32", dims=(32,), strides_bytes=(), box=(32,))
    options = {"grid": 1, "block": 128, "args": [words, tile], "compiled": compiled, "threads": 1}
    found = module(text, "sm_90a").launch("k", **options).findings
    assert [each.rule for each in found] == rules
