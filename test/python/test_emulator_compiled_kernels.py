"""Kernels have the same results, counters, findings and messages in compiled code as in the interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_steps import differences, forms, fresh
from emulator_ptx import module

from weft import emulator
from weft.emulator.compiled import plan, runtime, tiers
from weft.emulator.numerics import emit
from weft.emulator.sanitizer.warp_lanes import WarpLanes
from weft.errors import WeftError

HERE = Path(__file__).resolve().parent
START = """.visible .entry k(.param .u64 p_data, .param .u64 p_more, .param .u32 n) {
  .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b16 %h<4>;
  .shared .align 16 .b8 s[1024];
  ld.param.u64 %rd1, [p_data]; ld.param.u64 %rd2, [p_more]; ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r2, %r2, %r3, %r1;
  mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
  mov.u32 %r4, s; shl.b32 %r5, %r1, 2; add.u32 %r5, %r4, %r5;
"""
LOOP = "mov.u32 %r6, 0; L: {body} add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r9; @%p1 bra L;"
COUNT = 256
KERNELS = {
    "loads and stores": "ld.global.u32 %r7, [%rd4]; add.u32 %r7, %r7, %r6; st.global.u32 [%rd5], %r7;",
    "floats": "ld.global.f32 %f1, [%rd4]; fma.rn.f32 %f2, %f1, %f1, %f1; st.global.f32 [%rd5], %f2;",
    "generic addresses": """ld.u32 %r7, [%rd4]; st.shared.u32 [%r5], %r7; cvt.u64.u32 %rd6, %r5;
      cvta.shared.u64 %rd6, %rd6; ld.u32 %r8, [%rd6]; st.u32 [%rd5], %r8;""",
    "local": """.local .align 16 .b8 mine[64]; and.b32 %r7, %r6, 7; shl.b32 %r7, %r7, 3; mov.u32 %r8, mine;
      add.u32 %r8, %r8, %r7; st.local.v2.u32 [%r8], {%r2, %r6}; ld.local.u32 %r10, [%r8+4];
      ld.local.u32 %r11, [mine]; add.u32 %r10, %r10, %r11; st.global.u32 [%rd5], %r10;""",
    "unwritten local memory": """.local .align 16 .b8 mine[64]; setp.gt.u32 %p2, %r1, 7;
      @%p2 st.local.u8 [mine+3], %r2; ld.local.u32 %r10, [mine]; st.global.u32 [%rd5], %r10;""",
    "out of local bounds": """.local .align 16 .b8 mine[64]; shl.b32 %r7, %r6, 4; mov.u32 %r8, mine;
      add.u32 %r8, %r8, %r7; st.local.u32 [%r8], %r2;""",
    "guards": "and.b32 %r7, %r2, 3; setp.eq.u32 %p2, %r7, %r6; @%p2 st.global.u32 [%rd5], %r6;",
    "divergence": """and.b32 %r7, %r2, 1; setp.eq.u32 %p2, %r7, 0; @%p2 bra A;
      st.global.u32 [%rd5], %r6; bra B; A: st.global.u32 [%rd5], %r2; B:""",
    "a long divergence": """setp.lt.u32 %p2, %r2, 40; @!%p2 bra B; mov.u32 %r8, 0;
      A: add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r2; @%p3 bra A; st.global.u32 [%rd5], %r8; B:""",
    "shared": """st.shared.u32 [%r5], %r2; bar.sync 0; xor.b32 %r7, %r5, 64; ld.shared.u32 %r8, [%r7];
      bar.sync 0; st.global.u32 [%rd5], %r8;""",
    "vectors": """and.b64 %rd6, %rd3, -16; add.u64 %rd7, %rd1, %rd6;
      ld.global.v4.u32 {%r7, %r8, %r10, %r11}, [%rd7]; add.u32 %r7, %r7, %r11; st.global.u32 [%rd5], %r7;""",
    "bytes": "cvt.u16.u32 %h1, %r2; st.shared.u8 [%r4+7], %h1; ld.shared.u8 %r8, [%r4+7];",
    "one lane's": "setp.eq.u32 %p2, %r1, 0; @%p2 ld.global.u32 %r7, [%rd1+8]; @%p2 st.global.u32 [%rd5], 7;",
    "the same address": "ld.global.u32 %r7, [%rd1]; st.global.u32 [%rd5], %r7;",
    "a race in shared memory": "st.shared.u32 [%r4+16], %r2; ld.shared.u32 %r7, [%r4+16];",
    "a missing barrier": "st.shared.u32 [%r5], %r2; xor.b32 %r7, %r5, 128; ld.shared.u32 %r8, [%r7];",
    "uninitialized": "ld.shared.u32 %r8, [%r5+512]; st.global.u32 [%rd5], %r8;",
    "a race in global memory": "st.global.u32 [%rd2], %r2; ld.global.u32 %r8, [%rd2];",
    "a race between CTAs": "st.global.u32 [%rd2], %r2; st.global.u32 [%rd2+4], 7;",
    "out of bounds": "mul.wide.u32 %rd6, %r6, 512; add.u64 %rd7, %rd4, %rd6; ld.global.u32 %r7, [%rd7];",
    "out of shared bounds": "shl.b32 %r7, %r6, 8; add.u32 %r7, %r5, %r7; st.shared.u32 [%r7], %r2;",
    "misaligned": "add.u64 %rd6, %rd4, %rd6; ld.global.u32 %r7, [%rd6+2];",
    "a read-only table": "ld.global.u32 %r7, [table]; st.global.u32 [%rd5], %r7; st.global.u32 [table], %r7;",
    "unwritten": "add.u32 %r12, %r12, 1; st.global.u32 [%rd5], %r12;",
    "wide products": """mad.lo.cc.u32 %r7, %r2, %r2, %r6; madc.hi.u32 %r8, %r2, %r2, 0;
      add.u32 %r8, %r8, %r7; st.global.u32 [%rd5], %r8;""",
}


def outcome(body, compiled, grid=2, block=128, n=9, **more):
    """All that a launch shows."""
    text = ".global .align 4 .u32 table[2] = {5, 6};\n" + START + LOOP.format(body=body) + "ret;\n}"
    data = np.arange(COUNT, dtype=np.uint32) * 0x00010001
    out = np.zeros(COUNT, np.uint32)
    try:
        report = module(text).launch(
            "k", grid=grid, block=block, args=[data, out, n], compiled=compiled, threads=1, **more
        )
    except (emulator.Fault, emulator.Deadlock) as error:
        return str(error), error.findings, data.tobytes(), out.tobytes()
    return report, data.tobytes(), out.tobytes()


@pytest.mark.each_value(6)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    assert outcome(KERNELS[name], True) == outcome(KERNELS[name], False)


@pytest.mark.each_value(10)
@pytest.mark.parametrize("name", KERNELS)
def test_strict_kernels(name, monkeypatch):
    entered, enter = [], runtime.Runtime.enter
    monkeypatch.setattr(runtime.Runtime, "enter", lambda *args: entered.append(1) or enter(*args))
    compiled = outcome(KERNELS[name], True, strict=True)
    assert entered
    assert compiled == outcome(KERNELS[name], False, strict=True)


@pytest.mark.parametrize("name", ["loads and stores", "shared"])
def test_strict_accesses_are_recorded_by_lane(name, monkeypatch):
    recorded, accessed = [], WarpLanes.accessed

    def record(lanes, access):
        if access.space in ("global", "shared"):
            recorded.append((access.kind, access.line))
        accessed(lanes, access)

    monkeypatch.setattr(WarpLanes, "accessed", record)
    outcome(KERNELS[name], True, strict=True)
    compiled = sorted(recorded)
    recorded.clear()
    outcome(KERNELS[name], False, strict=True)
    assert compiled == sorted(recorded)


@pytest.mark.parametrize("name", ["loads and stores", "shared", "a race in shared memory"])
def test_kernels_without_the_sanitizer(name):
    plain = outcome(KERNELS[name], False, sanitize=False)
    assert outcome(KERNELS[name], True, sanitize=False) == plain


@pytest.mark.parametrize("name", ["loads and stores", "a read-only table", "shared"])
def test_dependent_launches(name):
    """The interpreter makes the accesses that may race with the launch before."""
    plain = outcome(KERNELS[name], False, dependent=True)
    assert outcome(KERNELS[name], True, dependent=True) == plain
    assert plain[0].findings or name == "shared" or isinstance(plain[0], str)


@pytest.mark.parametrize("block", [1, 33, 96])
def test_blocks_that_end_within_a_warp(block):
    for name in ("loads and stores", "shared", "divergence"):
        assert outcome(KERNELS[name], True, block=block) == outcome(KERNELS[name], False, block=block)


@pytest.mark.parametrize("limit", [1, 100, 161, 500])
def test_the_instruction_limit(limit):
    body = KERNELS["loads and stores"]
    assert outcome(body, True, max_instructions=limit) == outcome(body, False, max_instructions=limit)


def test_code_is_compiled_after_a_while(patch):
    """In the middle of a launch, in which the interpreter's registers become the code's."""
    made = []
    make = plan.make
    patch.setattr(plan, "make", lambda *args: made.append(args[1]) or make(*args))
    patch.setattr(tiers, "_WORTH", 300)
    for name in ("loads and stores", "divergence", "shared"):
        made.clear()
        assert outcome(KERNELS[name], None, n=200) == outcome(KERNELS[name], False, n=200)
        assert made
        assert made[0]


def test_pieces_that_differ_only_in_registers_share_a_function(monkeypatch):
    made, make = [], plan.make
    monkeypatch.setattr(plan, "make", lambda *args: made.append(make(*args)) or made[-1])
    body = "".join(
        f"ld.global.u32 %r{a}, [%rd4]; xor.b32 %r{b}, %r{a}, %r6; add.u32 %r{a}, %r{b}, %r2;"
        f"st.global.u32 [%rd5], %r{a};"
        for a, b in ((7, 8), (10, 11), (12, 13), (14, 15), (8, 10))
    )
    assert outcome(body, True) == outcome(body, False)
    pieces = [operation.piece for operation in made[0].operations if operation.piece is not None]
    shared = [piece for piece in pieces if piece.offsets]
    assert len(shared) >= 4
    assert len({piece.function for piece in pieces}) <= len(pieces) - 3


def test_random_turns_are_the_interpreter_s(patch):
    patch.setattr(plan, "make", lambda *args: pytest.fail("compiles"))
    body = KERNELS["loads and stores"]
    assert outcome(body, True, seed=3) == outcome(body, False, seed=3)


def test_compiled_must_be_true_or_false():
    with pytest.raises(WeftError, match="compiled must be True or False, got 1"):
        outcome("", 1)


# A mistake in the compiler is found


MUTATIONS = {
    "sub for add": ("add", lambda patch: patch.setitem(emit._ARITHMETIC, "add", "sub")),
    "signed order": ("setp", lambda patch: patch.setitem(emit._INT_COMPARE, "less", "le")),
    "unordered": ("setp", lambda patch: patch.setitem(emit._FLOAT_COMPARE, "less", "ult")),
    "quiet bit": ("add", lambda patch: patch.setattr(emit, "_QUIET", 1 << 50)),
    "and": ("and", lambda patch: patch.setitem(emit._BITWISE, "bitwise_and", "or")),
}


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_of_the_compiler_are_found(name, monkeypatch):
    prefix, plant = MUTATIONS[name]
    plant(monkeypatch)
    code = fresh()
    wrong, _ = differences(list(forms(prefix, code)), code.slots)
    assert wrong


@pytest.mark.slow
def test_a_mutation_of_the_checks_is_found(monkeypatch):
    """Without the check of the last write, code would miss a race."""
    from weft.emulator.compiled import accesses

    plan.addresses.cache_clear()
    monkeypatch.setattr(accesses, "_check_shared_load", lambda c: None)
    body = KERNELS["uninitialized"]
    try:
        assert outcome(body, True) != outcome(body, False)
    finally:
        plan.addresses.cache_clear()


@pytest.mark.slow
def test_all_tests_of_the_emulator_with_compiled_code():
    # Without those that compare compiled code with the interpreter themselves.
    comparing = ("_compiled", "_code", "_box_copies", "_mbarrier_calls")
    every = sorted(HERE.glob("test_emulator_*.py"))
    tests = [str(path) for path in every if not any(name in path.name for name in comparing)]
    environment = os.environ | {"WEFT_EMULATOR_COMPILED": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
