"""The sanitizer's findings: each mistake is planted in a correct kernel."""

from pathlib import Path

import numpy as np
import pytest
from emulator_ptx import module
from sanitizer_kernels import PRODUCT, check, kernel, line_of, run, without

from weft import emulator
from weft.emulator.sanitizer import RULES

EXCHANGE = [
    "add.u32 %r3, %r2, %r1;",
    "st.shared.u32 [%r3], %r0;",
    "bar.sync 0;",
    "xor.b32 %r4, %r1, 256;",
    "add.u32 %r4, %r2, %r4;",
    "ld.shared.u32 %r5, [%r4];",
    "bar.sync 0;",
    "st.shared.v2.u32 [s], {%r2, %r2};",
]


def test_a_read_without_a_barrier_after_the_write():
    found = check(EXCHANGE, lambda lines: lines[:2] + lines[3:], "shared-race", "ld.shared")
    assert found.thread.tid == (0, 0, 0)
    assert found.address == 256
    assert found.count == 128


def test_a_write_without_a_barrier_after_the_read():
    found = check(EXCHANGE, lambda lines: lines[:6] + lines[7:], "shared-race", "st.shared.v2")
    assert found.thread.tid == (0, 0, 0)


def test_two_warps_that_write_different_values_at_once():
    fault = [line.replace("{%r2, %r2}", "{%r2, %r0}") for line in EXCHANGE]
    check(EXCHANGE, lambda lines: fault, "shared-race", "st.shared.v2")


def test_a_barrier_of_too_few_warps():
    pairs = [
        "shr.u32 %r10, %r0, 6;",
        "add.u32 %r10, %r10, 1;",
        *(line.replace("bar.sync 0;", "bar.sync %r10, 64;") for line in EXCHANGE[:6]),
    ]
    near = [line.replace("%r1, 256", "%r1, 128") for line in pairs]
    check(near, lambda lines: pairs, "shared-race", "ld.shared")


def test_shared_memory_that_nothing_has_written():
    found = check(
        EXCHANGE,
        lambda lines: [line.replace("xor.b32 %r4, %r1, 256", "add.u32 %r4, %r1, 32") for line in lines],
        "uninitialized-shared",
        "ld.shared",
    )
    assert found.thread.tid == (120, 0, 0)
    assert found.address == 512
    assert found.count == 8


def test_bytes_have_a_state_each():
    lines = [
        "add.u32 %r3, %r2, %r0;",
        "st.shared.u8 [%r3], %r0;",
        "bar.sync 0;",
        "ld.shared.u8 %r5, [s+127];",
    ]
    found = check(
        lines, lambda a: [*a[:3], "ld.shared.u8 %r5, [s+128];"], "uninitialized-shared", "ld.shared"
    )
    assert found.address == 128


def test_local_memory_that_its_thread_has_not_written():
    declare = ".local .align 16 .b8 l[16];"
    lines = [declare, "st.local.u32 [l+4], %r0;", "ld.local.u32 %r3, [l+4];"]
    check(lines, lambda a: [*a[:2], "ld.local.u32 %r3, [l+8];"], "uninitialized-local", "ld.local")


FLAG = [
    "shr.u32 %r3, %r0, 5;",
    "setp.ne.u32 %p0, %r3, 0;",
    "@%p0 bra READ;",
    "st.shared.u32 [s], %r3;",
    "fence.acq_rel.cta;",
    "st.release.cta.global.u32 [%d0], 77;",
    "bra END;",
    "READ:",
    "ld.acquire.cta.global.u32 %r4, [%d0];",
    "setp.ne.u32 %p1, %r4, 77;",
    "@%p1 bra READ;",
    "ld.shared.u32 %r5, [s];",
    "END:",
]


def test_a_flag_in_global_memory_orders():
    assert run(kernel(FLAG)).findings == ()
    plain = kernel([line.replace(".release.cta", "").replace(".acquire.cta", "") for line in FLAG])
    assert [(f.rule, f.line) for f in run(plain).findings] == [
        ("global-race", line_of(plain, "ld.global")),
        ("shared-race", line_of(plain, "ld.shared")),
    ]


@pytest.mark.parametrize(("operation", "rules"), [("add", ["uninitialized-global"]), ("exch", [])])
def test_atomic_operations_on_unwritten_arrays(operation, rules):
    text = kernel([f"atom.global.{operation}.b32 %r3, [%d0], 1;".replace("add.b32", "add.u32")])
    array = emulator.Unwritten(np.zeros(8, np.uint32))
    found = emulator.Module(text).launch("k", block=32, args=[array]).findings
    assert [f.rule for f in found] == rules


def test_atomics_are_no_race_and_a_plain_read_of_them_is():
    lines = [
        "setp.ne.u32 %p0, %r0, 0;",
        "@!%p0 st.shared.u32 [s], 0;",
        "bar.sync 0;",
        "atom.shared.add.u32 %r3, [s], 1;",
        "bar.sync 0;",
        "ld.shared.u32 %r4, [s];",
    ]
    fault = [*lines[:4], "shr.u32 %r5, %r0, 5;", "setp.eq.u32 %p1, %r5, 1;", "@%p1 ld.shared.u32 %r4, [s];"]
    assert run(kernel(lines)).findings == ()
    found = run(kernel(fault)).findings
    assert [f.rule for f in found] == ["shared-race"]
    assert found[0].thread.tid == (32, 0, 0)


COPY = [
    "shl.b32 %r3, %r0, 4;",
    "add.u32 %r4, %r2, %r3;",
    "cvt.u64.u32 %d1, %r3;",
    "add.u64 %d1, %d0, %d1;",
    "cp.async.cg.shared.global [%r4], [%d1], 16;",
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "bar.sync 0;",
    "ld.shared.u32 %r5, [s];",
]


def test_a_copy_that_is_not_awaited():
    found = check(COPY, without("cp.async.wait_group"), "async-not-awaited", "ld.shared", target="sm_80")
    assert found.thread.tid == (0, 0, 0)


def test_a_copy_whose_group_is_left_pending():
    def leave_it(lines):
        return [line.replace("wait_group 0", "wait_group 1") for line in lines]

    check(COPY, leave_it, "async-not-awaited", "ld.shared", target="sm_80")


def test_a_copy_over_what_others_read():
    lines = [*COPY, "bar.sync 0;", "cp.async.ca.shared.global [%r4], [%d1], 4;", "cp.async.wait_all;"]
    check(lines, lambda a: a[:9] + a[10:], "shared-race", "cp.async.ca", target="sm_80")


BARRIER = [
    "setp.ne.u32 %p0, %r0, 0;",
    "@!%p0 mbarrier.init.shared.b64 [s+4096], 64;",
    "bar.sync 0;",
    "setp.ge.u32 %p1, %r0, 64;",
    "@%p1 bra WAIT;",
    "add.u32 %r3, %r2, %r1;",
    "st.shared.u32 [%r3], %r0;",
    "mbarrier.arrive.shared.b64 %d2, [s+4096];",
    "bra END;",
    "WAIT:",
    "mbarrier.try_wait.parity.shared.b64 %p2, [s+4096], 0;",
    "@!%p2 bra WAIT;",
    "ld.shared.u32 %r5, [s];",
    "END:",
]


def test_an_mbarrier_orders():
    fault = without("mbarrier.try_wait", "@!%p2 bra")(BARRIER)
    # The read may come first and so find nothing written; whoever comes second is blamed.
    findings = run(kernel(fault)).findings
    assert run(kernel(BARRIER)).findings == ()
    assert {f.rule for f in findings} <= {"shared-race", "uninitialized-shared"}
    assert findings
    for seed in range(5):
        assert run(kernel(BARRIER), seed=seed).findings == ()
        assert run(kernel(fault), seed=seed).findings


def test_an_mbarrier_that_is_initialized_twice():
    again = [*BARRIER, "bar.sync 0;", "@!%p0 mbarrier.inval.shared.b64 [s+4096];"]
    again += ["@!%p0 mbarrier.init.shared.b64 [s+4096], 1;"]
    found = check(again, without("@!%p0 mbarrier.inval"), "mbarrier-init-twice", "@!%p0 mbarrier.init")
    assert found.thread.tid == (0, 0, 0)
    assert found.address == 4096


def test_bytes_that_an_mbarrier_waits_for_at_the_end():
    lines = [*BARRIER, "@!%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [s+4096], 16;"]
    found = run(kernel(lines)).findings
    assert run(kernel(BARRIER)).findings == ()
    assert [(f.rule, f.line) for f in found] == [
        ("mbarrier-transactions", line_of(kernel(lines), "@!%p0 mbarrier.init"))
    ]


def test_too_few_arrivals_for_a_phase():
    """An mbarrier that has completed a phase may have any number of arrivals of the next one."""
    two = ["setp.ne.u32 %p0, %r0, 0;", "@!%p0 mbarrier.init.shared.b64 [s+4096], 2;", "bar.sync 0;"]
    arrive = "@!%p0 mbarrier.arrive.shared.b64 %d2, [s+4096];"
    found = run(kernel([*two, arrive])).findings
    line = line_of(kernel(two), "@!%p0 mbarrier.init")
    assert [(f.rule, f.line) for f in found] == [("mbarrier-arrivals", line)]
    assert "1 of 2 arrivals of the first phase" in str(found[0])
    for count in (0, 2, 3):
        assert run(kernel([*two, *[arrive] * count])).findings == ()


def test_a_thread_that_exits_does_not_arrive():
    """As PTX has it: a wait for this phase would not end, unless the thread dropped itself before."""
    two = ["setp.ne.u32 %p0, %r0, 0;", "@!%p0 mbarrier.init.shared.b64 [s+4096], 2;", "bar.sync 0;"]
    drop, arrive = (f"mbarrier.arrive{each}.shared.b64 %d2, [s+4096];" for each in ("_drop", ""))
    leave = ["setp.ne.u32 %p0, %r0, 32;", "@%p0 exit;", arrive]
    assert [found.rule for found in run(kernel([*two, *leave])).findings] == ["mbarrier-arrivals"]
    assert run(kernel([*two, f"@!%p0 {drop}", *leave])).findings == ()
    wait = "W: mbarrier.test_wait.parity.shared.b64 %p1, [s+4096], 0; @!%p1 bra W;"
    with pytest.raises(emulator.Deadlock):
        run(kernel([*two, *leave, wait]))
    run(kernel([*two, f"@!%p0 {drop}", *leave, wait]))


def test_faults_and_deadlocks_keep_the_findings():
    lines = [*EXCHANGE[:2], *EXCHANGE[3:6], "ld.shared.u32 %r6, [s+8192];"]
    with pytest.raises(emulator.Fault) as caught:
        run(kernel(lines))
    assert [f.rule for f in caught.value.findings] == ["shared-race", "out-of-bounds"]
    assert caught.value.findings[1].address == 8192
    lines = [*EXCHANGE[:2], *EXCHANGE[3:6], "bar.sync 1, 256;"]
    with pytest.raises(emulator.Deadlock) as caught:
        run(kernel(lines))
    assert {f.rule for f in caught.value.findings} == {"shared-race", "deadlock"}


def test_findings_name_the_source_and_can_be_disabled():
    lines = [*EXCHANGE[:2], ".loc 1 42 7", *EXCHANGE[3:6]]
    text = kernel(lines) + '\n.file 1 "kernel.cu"\n'
    (found,) = run(text).findings
    assert found.source == "kernel.cu:42"
    assert "kernel.cu:42" in str(found)
    assert run(text, sanitize=False).findings == ()


def test_every_rule_has_a_sentence():
    assert all(name == name.lower() and " " not in name for name in RULES)
    assert all(sentence.endswith(".") for sentence in RULES.values())


STORE = "st.shared.u32 [s+1024], %r9;"
BRANCH = [
    "setp.lt.u32 %p0, %r0, 40;",
    "@!%p0 bra SKIP;",
    "mov.u32 %r3, 7;",
    "SKIP:",
    "@%p0 add.u32 %r4, %r3, 1;",
    "add.u32 %r5, %r2, %r1;",
    "@%p0 st.shared.u32 [%r5], %r4;",
]


def test_a_register_that_its_thread_has_not_written():
    found = check(
        BRANCH,
        lambda lines: [line.removeprefix("@%p0 ") for line in lines],
        "uninitialized-register",
        "add.u32 %r4",
    )
    assert found.thread.tid == (40, 0, 0)
    assert found.count == 88


def test_copies_of_an_unwritten_register_are_no_use_of_it():
    lines = ["mov.u32 %r5, %r6;", "mov.u32 %r6, 1;", "add.u32 %r7, %r6, 1;"]
    for use in ("add.u32 %r8, %r5, 1;", "add.u32 %r8, %r7, %r5;"):
        fault = [*lines, use, "mov.u32 %r9, %r8;", STORE]
        check(lines, lambda _, fault=fault: fault, "uninitialized-register", "add.u32 %r8")


def test_only_what_matters_is_a_use_of_an_unwritten_register():
    """Half of a warp adds what the other has not written; it may discard the sum."""
    lines = [
        "setp.lt.u32 %p0, %r0, 16;",
        "@%p0 mov.u32 %r5, 1;",
        "shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;",
        "add.u32 %r7, %r5, %r6;",
        "shfl.sync.bfly.b32 %r8, %r7, 2, 31, -1;",
        "setp.gt.u32 %p1, %r8, 1;",
        "selp.u32 %r9, 1, 2, %p1;",
        "selp.u32 %r9, %r9, 3, %p0;",
        STORE,
        "@%p0 bra END;",
        "mov.u32 %r9, 0;",
        "END:",
        "setp.lt.u32 %p3, %r9, 100;",
        "@%p0 st.shared.u32 [%r2+512], %r8;",
    ]

    def replaced(old, new):
        return lambda _: [line.replace(old, new) for line in lines]

    for old, new, at in (
        ("1, 31, -1", "16, 31, -1", "shfl.sync.bfly.b32 %r6"),
        ("@%p0 st", "st", "add.u32 %r7"),
        ("%r9, 3, %p0", "3, %r9, %p0", "add.u32 %r7"),
        ("@%p0 bra END", "@%p1 bra END", "add.u32 %r7"),
        ("@%p0 st.shared.u32 [%r2+512]", "shl.b32 %r8, %r8, 2; st.shared.u32 [%r8]", "add.u32 %r7"),
    ):
        check(lines, replaced(old, new), "uninitialized-register", at, block=32)


def test_half_of_a_packed_register_may_be_unwritten():
    lines = [
        "mov.u16 %h0, 7;",
        "mov.b32 %r5, {%h1, %h0};",
        "mov.b32 {%h2, %h3}, %r5;",
        "add.u16 %h4, %h3, 1;",
        "st.shared.u16 [s], %h4;",
    ]
    check(lines, lambda a: a[1:], "uninitialized-register", "add.u16 %h4")


def test_a_part_of_a_warp_at_an_aligned_instruction():
    lines = [
        "setp.ge.u32 %p0, %r0, 96;",
        "mov.u32 %r3, 0;",
        "@%p0 bra LAST;",
        "bar.sync 0;",
        "bra END;",
        "LAST:",
        "bar.sync 0;",
        "END:",
    ]
    found = run(kernel([line.replace("96", "112") for line in lines])).findings
    assert run(kernel(lines)).findings == ()
    assert {f.rule for f in found} == {"divergent-aligned"}


def test_a_part_of_a_warp_that_exits_without_an_aligned_barrier():
    lines = ["setp.ge.u32 %p0, %r0, 96;", "@%p0 bra END;", "bar.sync 0;", "END:"]
    (found,) = run(kernel([line.replace("96", "112") for line in lines])).findings
    assert run(kernel(lines)).findings == ()
    assert (found.rule, found.thread.tid) == ("divergent-aligned", (96, 0, 0))


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("mbarrier.arrive.shared.b64 %d2, [s+4104];", "mbarrier-uninitialized"),
        ("mbarrier.arrive.shared.b64 %d2, [s+4096], 65;", "mbarrier-count"),
        ("ld.shared.u32 %r5, [s+8192];", "out-of-bounds"),
        ("ld.shared.u32 %r5, [s+2];", "misaligned"),
        ("st.param.u32 [x], %r0;", "read-only"),
    ],
)
def test_faults_have_their_rules(fault, rule):
    lines = [*BARRIER[:3], "@%p0 bra END;", fault, "END:"]
    with pytest.raises(emulator.Fault) as caught:
        run(kernel(lines), block=32)
    (found,) = caught.value.findings
    assert (found.rule, found.line) == (rule, line_of(kernel(lines), fault))
    assert found.thread == caught.value.thread
    assert found.thread.tid == (0, 0, 0)
    assert found.address is not None


@pytest.mark.parametrize(
    ("bits", "rule"),
    [("0x8000", "descriptor"), ("0x200", "out-of-bounds"), ("0x1fff", "out-of-bounds")],
)
def test_descriptors_that_are_wrong(bits, rule):
    lines = [*PRODUCT[:9], f"or.b64 %d2, %d2, {bits};", *PRODUCT[9:]]
    with pytest.raises(emulator.Fault) as caught:
        run(kernel(lines))
    assert caught.value.findings[-1].rule == rule
    assert caught.value.findings[-1].line == line_of(kernel(lines), "wgmma.mma_async")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("lines", "target"),
    [(EXCHANGE, "sm_80"), (FLAG, "sm_80"), (COPY, "sm_80"), (BARRIER, "sm_90a"), (PRODUCT, "sm_90a")],
    ids=["exchange", "flag", "copy", "barrier", "product"],
)
def test_right_kernels_are_clean_in_any_order(lines, target, seed):
    assert run(kernel(lines, target), seed=seed).findings == ()


ARRIVE = [
    "setp.ge.u32 %p0, %r0, 32;",
    "@%p0 bra WAIT;",
    "st.shared.u32 [s], 7;",
    "bar.arrive 1, 64;",
    "bra END;",
    "WAIT:",
    "bar.sync 1, 64;",
    "ld.shared.u32 %r3, [s];",
    "END:",
]
NEIGHBOR = [
    "mov.u32 %r3, %cluster_ctarank;",
    "xor.b32 %r3, %r3, 1;",
    "add.u32 %r4, %r2, %r1;",
    "mapa.shared::cluster.u32 %r5, %r4, %r3;",
    "st.shared.u32 [%r4], %r0;",
    "barrier.cluster.arrive;",
    "barrier.cluster.wait;",
    "ld.shared::cluster.u32 %r6, [%r5];",
    "barrier.cluster.arrive;",
    "barrier.cluster.wait;",
]


def test_what_is_written_after_an_arrival_is_not_there_for_who_waits():
    check(ARRIVE, lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "shared-race", "ld.shared", 64)


def test_what_is_read_before_the_wait_of_a_cluster_is_not_there():
    swapped = [*NEIGHBOR[:6], NEIGHBOR[7], NEIGHBOR[6], *NEIGHBOR[8:]]
    check(NEIGHBOR, lambda _: swapped, "shared-race", "ld.shared::cluster", 64, grid=2, cluster=2)


def test_warps_may_write_the_same_bits_at_any_time():
    lines = ["mov.b32 %r5, 0x7fffffff;", "st.shared.v4.u32 [s], {%r5, %r5, %r5, %r5};"]
    for seed in (None, 0, 1):
        assert run(kernel(lines), seed=seed).findings == ()
        differ = run(kernel([lines[0], lines[1].replace("%r5}", "%r0}")]), seed=seed).findings
        assert [f.rule for f in differ] == ["shared-race"]


def test_every_rule_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "emulator.md").read_text(encoding="utf-8")
    for rule, what in RULES.items():
        assert f"| `{rule}` | {what} |" in text


ONE = """
.visible .entry k(.param .u64 p) {{
  .shared .align 4 .b32 s; .reg .pred %p<4>; .reg .b32 %r<6>; .reg .b64 %l1;
  ld.param.u64 %l1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p3, %r1, 8;
  {}
  ret;
}}"""
STORED = "@%p1 st.shared.u32 [s], 0; bar.sync 0;"


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        (f"{STORED} atom.shared.add.u32 %r2, [s], 1;", []),
        ("atom.shared.add.u32 %r2, [s], 1;", ["uninitialized-shared"]),
        ("red.shared.max.u32 [s], 1;", ["uninitialized-shared"]),
        ("atom.shared.cas.b32 %r2, [s], 0, 1;", ["uninitialized-shared"]),
        ("atom.shared.exch.b32 %r2, [s], 1; red.shared.add.u32 [s], 1;", []),
        # A guard is read, too, whatever comes of it.
        ("@%p2 mov.u32 %r2, 1;", ["uninitialized-register"]),
        ("@!%p2 mov.u32 %r2, 1;", ["uninitialized-register"]),
        ("@%p2 bra END; mov.u32 %r2, 1; END:", ["uninitialized-register"]),
        ("@%p3 setp.eq.u32 %p2, %r1, 0; @%p2 mov.u32 %r2, 1;", ["uninitialized-register"]),
        ("@%p3 setp.eq.u32 %p2, %r1, 0; @!%p3 bra END; @%p2 mov.u32 %r2, 1; END:", []),
    ],
)
def test_uninitialized_memory_is_found_in_atomics_and_guards(body, rules):
    found = module(ONE.format(body), "sm_80").launch("k", block=64, args=[np.zeros(1, np.uint32)]).findings
    assert sorted({finding.rule for finding in found}) == rules


# 12 of 16 bytes are written: the others are padding of a structure.
STRUCTURE = """.visible .entry k(.param .u64 x) {{
.shared .align 128 .b8 s[1024]; .local .align 16 .b8 l[16]; .reg .pred %p0; .reg .b32 %r<16>; .reg .b64 %d<8>;
ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 16, %r1;
mov.b64 %d2, l; mul.wide.u32 %d1, %r0, 16; add.u64 %d1, %d0, %d1; setp.eq.u32 %p0, %r0, 0;
st.{space}.u8 [{at}], 1;
st.{space}.u8 [{at}+1], 1;
st.{space}.u32 [{at}+4], 1;
st.{space}.u32 [{at}+12], 1;
fence.proxy.async; bar.warp.sync -1;
{copy}
{use}
ret; }}"""
AT = {"shared": "%r1", "local": "%d2", "global": "%d1"}
LOADED = "ld.{}.v4.u32 {{%r4, %r5, %r6, %r7}}, [{}];"
STORED = "st.global.v4.u32 [%d1+512], {%r4, %r5, %r6, %r7};"
WAIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
BULK = f"@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1+512], [s], 512; {WAIT}"


@pytest.mark.parametrize(
    ("space", "copy", "use", "fine"),
    [
        *((space, LOADED, STORED, True) for space in AT),
        *((space, LOADED.replace("%r6", "_"), "add.u32 %r4, %r5, %r7;", True) for space in AT),
        *((space, LOADED, "add.u32 %r6, %r6, 1;", False) for space in AT),
        *((space, "ld.{}.u32 %r6, [{}+8];", "st.global.u32 [%d1+512], %r6;", False) for space in AT),
        *((space, "ld.{}.v2.u64 {{%d4, %d5}}, [{}];", "mov.b64 {%r4, %r5}, %d5;", True) for space in AT),
        ("shared", BULK, "", True),
        ("shared", BULK.replace("[s]", "[s+512]"), "", False),
        ("global", f"cp.async.cg.shared.global [%r1], [%d1], 16; {WAIT}", "", True),
        ("global", f"cp.async.cg.shared.global [%r1], [%d1+512], 16; {WAIT}", "", False),
        ("global", "cp.async.ca.shared.global [%r1], [%d1+8], 4;", "", False),
    ],
)  # fmt: skip
def test_padding_may_be_copied(space, copy, use, fine):
    copied = copy if "cp." in copy else copy.format(space, AT[space])
    text = STRUCTURE.format(space=space, at=AT[space], copy=copied, use=use)
    words = emulator.Unwritten(np.zeros(1024, np.uint32))
    found = module(text, "sm_90a").launch("k", block=32, args=[words]).findings
    assert [each.rule for each in found] == ([] if fine else [f"uninitialized-{space}"])


def test_a_tensor_map_is_copied_whole():
    copy = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    lines = ["st.shared.v2.u32 [s], {%r0, %r0};", f"{copy} [%d0], [s], 128;"]
    assert run(kernel(lines), block=32).findings == ()
