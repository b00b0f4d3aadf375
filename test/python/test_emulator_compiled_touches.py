"""Compiled announcements of what wgmma uses leave the sanitizer's state as the interpreter does."""

import numpy as np
import pytest
from emulator_ptx import module

from weft.emulator.compiled import accesses, plan
from weft.emulator.sanitizer import registers

HEAD = """.visible .entry k(.param .u64 p_data) {
  .reg .b32 %r<32>; .reg .b64 %d<8>; .reg .f32 %f<16>; .reg .pred %p<4>;
  .shared .align 1024 .b8 s[8192];
  mov.u32 %r0, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r0, 4; add.u32 %r4, %r2, %r3;
  st.shared.v4.u32 [%r4], {%r0, %r0, %r0, %r0}; st.shared.v4.u32 [%r4+4096], {%r0, %r0, %r0, %r0};
  fence.proxy.async.shared::cta; bar.sync 0;
  cvt.u64.u32 %d1, %r2; shr.u64 %d1, %d1, 4; or.b64 %d2, %d1, 0x1000080000; mov.u32 %r9, 0;
"""
ZEROS = " ".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(8))
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{0}}}, %d2, %d2, 1, 1, 1, 0, 0;"
GROUPS = [", ".join(f"%f{i}" for i in range(4)), ", ".join(f"%f{i}" for i in range(4, 8))]
TOUCHES = ["add.f32 %f{0}, %f{1}, %f{2};", "mov.f32 %f{0}, %f{1};", "@%p1 add.f32 %f{0}, %f{1}, %f{1};"]
TOUCHES += ["mov.f32 %f{0}, %f{1};", "mul.f32 %f{0}, %f{2}, %f{2};", "add.f32 %f9, %f{0}, %f{1};"]


def kernel(seed):
    """Two products in a loop, with instructions that use their registers at random places."""
    rng = np.random.default_rng(seed)

    def some(most):
        chosen = [str(rng.choice(TOUCHES)) for _ in range(rng.integers(0, most))]
        return [each.format(*rng.integers(0, 12, 3)) for each in chosen]

    lines = [HEAD, ZEROS, "setp.lt.u32 %p1, %r0, 40;", "mov.f32 %f8, 0f3F800000;"]
    lines += [f"mov.f32 %f{i}, %f8;" for i in range(9, 12)]
    lines += ["L:", *some(5), "wgmma.fence.sync.aligned;", *(some(3) if rng.random() < 0.2 else [])]
    for group in GROUPS:
        lines += [PRODUCT.format(group), "wgmma.commit_group.sync.aligned;"]
    lines += some(3) if rng.random() < 0.3 else []
    lines += ["wgmma.wait_group.sync.aligned 1;", *(some(4) if rng.random() < 0.4 else [])]
    lines += ["wgmma.wait_group.sync.aligned 0;", *some(9)]
    lines += ["add.u32 %r9, %r9, 1;", "setp.lt.u32 %p2, %r9, 3;", "@%p2 bra L;", "ret; }"]
    return "\n".join(lines)


def outcome(text, compiled, monkeypatch):
    """The report of a launch, and what the sanitizer then knows of registers."""
    states, init = [], registers.RegisterState.__init__
    with monkeypatch.context() as patched:
        patched.setattr(
            registers.RegisterState,
            "__init__",
            lambda self, *args: (init(self, *args), states.append(self))[0],
        )
        data = np.zeros(4096, np.uint32)
        report = module(text, "sm_90a").launch("k", block=256, args=[data], compiled=compiled, threads=1)
    arrays = [each for s in states for each in (s.busy, s.read, s.changed, s.has_changed)]
    return report, [array.tolist() for array in arrays]


@pytest.mark.each_value(5)
@pytest.mark.parametrize("seed", range(10))
def test_random_uses(seed, monkeypatch):
    plain, fast = (outcome(kernel(seed), compiled, monkeypatch) for compiled in (False, True))
    assert plain == fast


def test_the_random_uses_have_findings_and_none(monkeypatch):
    rules = [{f.rule for f in outcome(kernel(seed), False, monkeypatch)[0].findings} for seed in range(10)]
    assert set() in rules
    assert {"wgmma-in-flight", "wgmma-fence"} <= set().union(*rules)


def test_announcements_run_as_code(monkeypatch):
    """So few of them reach the interpreter's."""
    told, instruction = [], registers.RegisterState.instruction

    def counted(state, traffic, lanes):
        told.append(traffic.prefix)
        instruction(state, traffic, lanes)

    monkeypatch.setattr(registers.RegisterState, "instruction", counted)
    text = kernel(next(s for s in range(10) if not outcome(kernel(s), False, monkeypatch)[0].findings))
    told.clear()
    outcome(text, False, monkeypatch)
    plain = len(told)
    told.clear()
    outcome(text, True, monkeypatch)
    assert len(told) < plain / 2


def nothing(s, op) -> int:
    return 1


@pytest.mark.slow
@pytest.mark.parametrize("which", ["touch", "copy"])
def test_a_mutation_is_found(which, monkeypatch):
    plan.addresses.cache_clear()
    monkeypatch.setitem(accesses.FUNCTIONS, which, nothing)
    try:
        differ = [
            seed
            for seed in range(10)
            if outcome(kernel(seed), True, monkeypatch) != outcome(kernel(seed), False, monkeypatch)
        ]
        assert differ
    finally:
        plan.addresses.cache_clear()
