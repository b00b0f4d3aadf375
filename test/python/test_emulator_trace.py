"""The trace's timeline and counters, against counts by hand."""

import itertools
import json

import numpy as np
import pytest
from emulator_ptx import HEAD, module

from weft import emulator
from weft.emulator.machine import Machine
from weft.emulator.watching.observers import Observers, Several
from weft.emulator.watching.trace import bank_wavefronts, instruction_class

ALL = np.ones(32, np.bool_)
LANE = np.arange(32, dtype=np.uint64)


@pytest.mark.parametrize(
    ("address", "width", "passes", "least"),
    [
        (LANE * 4, 4, 1, 1),  # a word for each bank
        (LANE * 8, 4, 2, 1),  # even banks only
        (LANE * 128, 4, 32, 1),  # all in bank 0
        (LANE * 0, 4, 1, 1),  # one word for all
        (LANE * 132, 4, 1, 1),  # rows of 33 words
        (LANE // 2 * 2, 2, 1, 1),  # halves of a word share it
        (LANE * 8, 8, 2, 2),  # half warps
        (LANE * 16, 16, 4, 4),  # quarter warps
        (LANE * 64, 16, 16, 4),  # rows of 64 bytes: four of each eight lanes meet
    ],
)
def test_bank_conflicts(address, width, passes, least):
    assert bank_wavefronts(address, ALL, width) == (passes, least)


def test_inactive_lanes_have_no_conflicts():
    assert bank_wavefronts(LANE * 128, LANE < 2, 4) == (2, 1)
    assert bank_wavefronts(LANE, LANE > 40, 4) == (0, 0)


def test_classes():
    opcodes = ["mma.sync", "tcgen05.mma", "cp.async", "ld", "bar.sync", "shfl.sync", "bra", "fma"]
    classes = ["tensor", "tensor", "async", "memory", "barrier", "exchange", "control", "arithmetic"]
    assert [instruction_class(opcode) for opcode in opcodes] == classes


KERNEL = """
.visible .entry k(.param .u64 x) {
.shared .align 16 .b8 s[1024];
.reg .b32 %r<8>; .reg .pred %p; .reg .b64 %d; .reg .f32 %f<8>;
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 3;
mov.u32 %r2, s;
add.u32 %r1, %r1, %r2;
st.shared.u32 [%r1], %r0;
bar.sync 0;
ld.shared.u32 %r3, [s];
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r3,%r3}, {%r3}, {%f0,%f0,%f0,%f0};
ret;
}"""


def traced(tmp_path, **more):
    path = tmp_path / "trace.json"
    args = [np.zeros(4, np.uint32)]
    report = module(KERNEL).launch("k", grid=2, block=128, args=args, trace=str(path), sanitize=False, **more)
    return report, json.loads(path.read_text())


def test_counters(tmp_path):
    counters = traced(tmp_path)[0].counters
    assert counters["tensor_operations"] == 8
    assert counters["class.tensor"] == 8
    assert counters["class.barrier"] == 8
    assert counters["class.memory"] == 16
    # Stores at a stride of two words conflict twice in each of 8 warps; loads of one word don't.
    assert counters["shared.accesses"] == 16
    assert counters["shared.bank_conflicts"] == 8
    assert counters["shared.wavefronts"] == 24
    by_line = {name: count for name, count in counters.items() if ".line_" in name}
    store = 1 + (HEAD + KERNEL).splitlines().index("st.shared.u32 [%r1], %r0;")
    assert by_line == {f"shared.bank_conflicts.line_{store}": 8}
    assert counters["bytes.shared"] == 2 * 256 * 4


def test_occupancy(tmp_path):
    counters = traced(tmp_path, shared_bytes=0)[0].counters
    # sm_80: 2048 threads and 164 KiB for blocks of 128 threads and 1 KiB.
    assert counters["occupancy.blocks_by_threads"] == 16
    assert counters["occupancy.blocks_by_shared"] == 164
    assert counters["occupancy.blocks"] == 16
    assert counters["occupancy.percent"] == 100


def test_the_file_has_a_track_for_each_warp(tmp_path):
    _, content = traced(tmp_path)
    events = content["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {(cta, warp): f"warp {warp}" for cta in range(2) for warp in range(4)}
    spans = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] > 0 and e["ts"] >= 0 for e in spans)
    for track in names:
        mine = sorted((e for e in spans if (e["pid"], e["tid"]) == track), key=lambda e: e["ts"])
        assert {"tensor", "barrier"} <= {e["name"] for e in mine}
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in itertools.pairwise(mine))
    barriers = [e for e in events if e["ph"] == "i" and e["name"] == "bar.sync"]
    assert len(barriers) == 8


def test_waits_and_phases_show(tmp_path):
    text = (
        HEAD.format(target="sm_90")
        + """
.visible .entry k(.param .u64 x) {
.shared .align 16 .b8 s[16];
.reg .b32 %r<4>; .reg .pred %p<4>; .reg .b64 %d;
mov.u32 %r0, %tid.x;
setp.ne.u32 %p0, %r0, 0;
@!%p0 mbarrier.init.shared.b64 [s], 32;
bar.sync 0;
setp.ge.u32 %p1, %r0, 32;
@!%p1 mbarrier.arrive.shared.b64 %d, [s];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [s], 0;
@!%p2 bra WAIT;
ret;
}"""
    )
    path = tmp_path / "trace.json"
    args = [np.zeros(4, np.uint32)]
    report = emulator.Module(text).launch("k", block=64, args=args, trace=str(path), seed=3)
    events = json.loads(path.read_text())["traceEvents"]
    assert report.findings == ()
    assert sum(e["name"] == "mbarrier phase" for e in events) == 1
    assert sum(e["name"] == "mbarrier init" for e in events) == 1
    assert any(e["name"] == "wait" for e in events)


LOOPS = """
.visible .entry k(.param .u64 x, .param .u32 n) {
.shared .align 16 .b8 s[1024];
.reg .b32 %r<8>; .reg .pred %p<3>; .reg .b64 %d<3>;
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
cvt.u64.u32 %d1, %r1;
ld.param.u64 %d0, [x];
add.u64 %d1, %d1, %d0;
ld.param.u32 %r5, [n];
mov.u32 %r4, 0;
setp.lt.u32 %p1, %r0, 9;
again:
ld.global.u32 %r3, [%d1];
add.u32 %r3, %r3, %r4;
st.global.u32 [%d1], %r3;
add.u32 %r4, %r4, 1;
setp.lt.u32 %p0, %r4, %r5;
@%p0 bra again;
@%p1 bra low;
mul.lo.u32 %r3, %r3, 3;
low:
setp.ge.u32 %p2, %r0, 64;
@%p2 bra leave;
mov.u32 %r2, s;
mad.lo.u32 %r2, %r0, 8, %r2;
st.shared.u32 [%r2], %r3;
bar.sync 0;
ld.shared.u32 %r3, [%r2];
st.global.u32 [%d1], %r3;
ret;
leave:
mov.u32 %r4, 0;
exit;
}"""


def observe_all(monkeypatch):
    """Lets the interpreter run everything, and the trace observe all of it: the definition."""
    sanitizer, traced = Observers.sanitizer, Observers.trace

    def both(self, wave):
        return Several([each for each in (sanitizer(self, wave), traced(self, wave)[0]) if each is not None])

    monkeypatch.setattr(Observers, "sanitizer", both)
    monkeypatch.setattr(Observers, "trace", lambda self, wave: None)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("sanitize", "times"), [(True, 300), (False, 300), (True, 3)])
def test_a_trace_is_the_same_with_compiled_code(tmp_path, monkeypatch, sanitize, times):
    """Compiled code runs the blocks in which nothing else happens than that they are executed. More blocks
    run than it can note at once. With 3 iterations, warps that exit complete a barrier.
    """
    written, reports, entered = [], [], []
    execute = Machine._execute
    for whole, compiled in ((True, False), (False, False), (False, True)):
        with monkeypatch.context() as patch:
            if whole:
                observe_all(patch)
            patch.setattr(Machine, "_execute", lambda *a: (entered.append(a[1].block), execute(*a))[1])
            del entered[:]
            path, x = tmp_path / "trace.json", np.zeros(96, np.uint32)
            options = {"block": 96, "compiled": compiled, "trace": path, "sanitize": sanitize}
            reports.append((module(LOOPS).launch("k", args=[x, times], **options), x.tolist()))
            written.append(path.read_text())
    assert written[0] == written[1] == written[2]
    assert reports[0] == reports[1] == reports[2]
    assert len(entered) < 50  # of hundreds of blocks that compiled code has run
