"""Programmatic dependent launches: accesses to global memory before griddepcontrol.wait are findings."""

import numpy as np
import pytest
from sanitizer_kernels import kernel, line_of, run, without

from weft import emulator

WAIT = "griddepcontrol.wait;"
STORE = [WAIT, "st.global.u32 [%d0], 1;"]
LOAD = ["griddepcontrol.launch_dependents;", WAIT, "ld.global.u32 %r3, [%d0];"]
ATOMIC = [WAIT, "red.global.add.u32 [%d0], 1;"]
COPY = [
    WAIT,
    "cvt.u64.u32 %d1, %r1;",
    "add.u64 %d1, %d0, %d1;",
    "add.u32 %r3, %r2, %r1;",
    "cp.async.ca.shared.global [%r3], [%d1], 4;",
    "cp.async.wait_all;",
]
BULK = [
    "setp.ne.u32 %p0, %r0, 0;",
    "@%p0 bra END;",
    WAIT,
    "mbarrier.init.shared.b64 [s], 1;",
    "mbarrier.arrive.expect_tx.shared.b64 %d1, [s], 64;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+128], [%d0], 64, [s];",
    "WAITING:",
    "mbarrier.try_wait.shared.b64 %p1, [s], %d1;",
    "@!%p1 bra WAITING;",
    "END:",
]
OTHERS = [
    "setp.ge.u32 %p0, %r0, 32;",
    "@%p0 bra MEET;",
    WAIT,
    "MEET:",
    "bar.sync 0;",
    "st.global.u32 [%d0], 1;",
]


def found(lines, **more):
    text = kernel(lines)
    report = run(text, dependent=True, **more)
    return text, [(f.rule, f.line) for f in report.findings]


@pytest.mark.parametrize(
    ("lines", "touches"),
    [
        (STORE, "st.global"),
        (LOAD, "ld.global"),
        (ATOMIC, "red"),
        (COPY, "cp.async.ca"),
        (BULK, "cp.async.bulk"),
    ],
    ids=["store", "load", "atomic", "copy", "bulk"],
)
def test_what_is_touched_too_early(lines, touches):
    assert found(lines)[1] == []
    text, rules = found(without(WAIT)(lines))
    assert rules == [("griddepcontrol-wait", line_of(text, touches))]
    assert run(text).findings == ()  # a launch that isn't dependent begins when the one before has ended


EXPECT = "mbarrier.arrive.expect_tx.shared.b64 %d1, [s], 64;"
BYTES = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+128], [%d0], 64, [s];"


@pytest.mark.parametrize(
    ("order", "early"),
    [
        ((WAIT, EXPECT, BYTES), []),
        ((EXPECT, WAIT, BYTES), []),
        ((EXPECT, BYTES, WAIT), ["cp.async.bulk", "st.global"]),
    ],
    ids=["before all", "before the copy", "after it"],
)
def test_who_has_seen_a_copy_comes_after_who_asked_for_it(order, early):
    lines = ["setp.ne.u32 %p0, %r0, 0;", "@%p0 bra MADE;", "mbarrier.init.shared.b64 [s], 1;", "MADE:"]
    lines += ["bar.sync 0;", "@%p0 bra SEE;", *order, "SEE:"]
    lines += ["mbarrier.try_wait.parity.shared.b64 %p1, [s], 0;", "@!%p1 bra SEE;", "st.global.u32 [%d0], 1;"]
    text, rules = found(lines)
    assert rules == [("griddepcontrol-wait", line_of(text, each)) for each in early]


def test_a_finding_counts_lanes_and_names_the_first():
    lines = ["setp.lt.u32 %p0, %r0, 32;", "@!%p0 bra GO;", WAIT, "GO:"]
    lines += ["cvt.u64.u32 %d1, %r1;", "add.u64 %d1, %d0, %d1;", "st.global.u32 [%d1], 1;"]
    (finding,) = run(kernel(lines), block=96, dependent=True).findings
    assert finding.count == 64 and finding.thread.tid == (32, 0, 0)
    assert finding.address % 256 == 4 * 32


def test_one_warp_may_wait_for_others():
    assert found(OTHERS)[1] == []
    text, rules = found(without("bar.sync")(OTHERS))
    assert rules == [("griddepcontrol-wait", line_of(text, "st.global"))]
    (finding,) = run(text, dependent=True).findings
    assert finding.thread.tid == (32, 0, 0) and "is written before griddepcontrol.wait" in finding.message


def test_what_no_launch_before_can_write_may_be_touched_at_once():
    weights = np.ones(64, np.uint32)
    weights.flags.writeable = False
    text = kernel(without(WAIT)(LOAD))
    table = kernel(["mov.u64 %d1, t;", "ld.global.u32 %r3, [%d1];"], declare="").replace(
        ".visible", ".global .u32 t[2] = {1, 2};\n.visible", 1
    )
    assert run(table.replace("mov.u32 %r2, s;", ""), dependent=True).findings == ()
    assert emulator.Module(text).launch("k", block=32, args=[weights], dependent=True).findings == ()
    own = [
        "{ .param .b64 size; .param .b64 place; st.param.b64 [size], 64;",
        "call.uni (place), malloc, (size); ld.param.b64 %d1, [place]; }",
        "st.u32 [%d1], 1;",
        WAIT,
        "st.global.u32 [%d0], 1;",
    ]
    declared = ".extern .func (.param .b64 p) malloc (.param .b64 s);\n.visible"
    text = kernel(own).replace(".visible", declared, 1)
    assert run(text, dependent=True).findings == ()
    assert [f.rule for f in run(text.replace(WAIT, ""), dependent=True).findings] == ["griddepcontrol-wait"]
