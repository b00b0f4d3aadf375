"""Compiled shuffles, votes and elections exchange what the interpreter's do."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator.compiled import plan
from weft.emulator.instructions import warp

HEAD = """.visible .entry k(.param .u64 p_data, .param .u64 p_masks) {
  .reg .b32 %r<24>; .reg .b64 %rd<8>; .reg .pred %p<8>; .reg .b32 %m<4>;
  ld.param.u64 %rd1, [p_data]; ld.param.u64 %rd2, [p_masks];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
  mul.wide.u32 %rd3, %r0, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  ld.global.u32 %r3, [%rd1]; ld.global.u32 %m1, [%rd2]; ld.global.u32 %r10, [%rd1+4096];
  mov.u32 %r9, 0; mov.u32 %r6, 0;
  mov.u32 %m0, -1; mov.u32 %r4, %r3; mov.u32 %r5, 0; setp.lt.s32 %p1, %r3, %r10; mov.pred %p2, %p1;
L:
"""
TAIL = """add.u32 %r9, %r9, 1; setp.lt.u32 %p7, %r9, 3; @%p7 bra L;
  selp.b32 %r5, 1, 0, %p2; add.u32 %r3, %r3, %r4; xor.b32 %r3, %r3, %r5; st.global.u32 [%rd1], %r3; ret; }"""
THREADS = 160


def kernel(seed, mask="%m1"):
    rng = np.random.default_rng(seed)
    lines = [HEAD]
    for _ in range(8):
        by = str(rng.choice(["%r10", *(str(n) for n in (1, 2, 5, 16, 31, 40))]))
        clamp = int(rng.choice([0, 7, 31])) | int(rng.choice([0, 16, 24, 28])) << 8
        control = str(rng.choice([str(clamp), "%r10"]))
        to, source = (f"%r{n}" for n in rng.choice([3, 4, 6], 2))
        second = str(rng.choice(["", "|%p2"]))
        mode = str(rng.choice(["up", "down", "bfly", "idx"]))
        vote, sign = str(rng.choice(["all", "any", "uni"])), str(rng.choice(["", "!"]))
        lines += [
            str(
                rng.choice(
                    [
                        f"shfl.sync.{mode}.b32 {to}{second}, {source}, {by}, {control}, {mask};",
                        f"vote.sync.ballot.b32 %r6, {sign}%p1, {mask}; add.u32 %r4, %r4, %r6;",
                        f"vote.sync.{vote}.pred %p2, {sign}%p1, {mask}; selp.b32 %r4, %r4, %r3, %p2;",
                        f"elect.sync %r6|%p2, {mask}; add.u32 %r3, %r3, %r6;",
                        "setp.lt.s32 %p1, %r4, %r10; add.u32 %r10, %r10, %r3;",
                    ]
                )
            )
        ]
    return "\n".join([*lines, TAIL])


def outcome(text, compiled, masks=None, block=THREADS):
    rng = np.random.default_rng(1)
    data = rng.integers(0, 1 << 32, 2048, dtype=np.uint32)
    if masks is None:
        # Halves of warps name each other.
        masks = np.where(np.arange(THREADS) % 32 < 16, 0x0000FFFF, 0xFFFF0000).astype(np.uint32)
    try:
        report = module(text, "sm_90a").launch("k", block=block, args=[data, masks], compiled=compiled)
    except emulator.Fault as error:
        return str(error), data.tobytes()
    return report, data.tobytes()


@pytest.mark.each_value(2)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_exchanges(seed):
    for mask, block in (("%m1", THREADS), ("%m0", THREADS), ("%m0", 48)):
        text = kernel(seed, mask)
        assert outcome(text, True, block=block) == outcome(text, False, block=block)


def test_a_lane_outside_its_mask_is_the_interpreter_s_fault():
    masks = np.full(THREADS, 0xFFFFFFFF, np.uint32)
    masks[70] ^= np.uint32(1 << 70 % 32)
    fault = outcome(kernel(0), True, masks)
    assert "must include its own lane, 6" in fault[0]
    assert fault == outcome(kernel(0), False, masks)


def test_the_limit_is_reached_at_the_same_instruction():
    text = kernel(3, "%m0")
    for limit in (200, 240, 261):
        found = []
        for compiled in (True, False):
            data = np.arange(2048, dtype=np.uint32)
            with pytest.raises(emulator.Fault) as error:
                module(text, "sm_90a").launch(
                    "k",
                    block=THREADS,
                    args=[data, data[:THREADS].copy()],
                    compiled=compiled,
                    max_instructions=limit,
                )
            found.append((str(error.value), data.tobytes()))
        assert found[0] == found[1]


def test_they_run_as_code(monkeypatch):
    """The interpreter's shuffles would fail."""
    text = HEAD + "shfl.sync.bfly.b32 %r3, %r3, 4, 31, %m0; vote.sync.ballot.b32 %r4, %p1, %m0;" + TAIL
    text = text.replace("vote", "elect.sync %r6|%p2, %m0; vote")
    plain = outcome(text, False)
    monkeypatch.setattr(warp.np, "take_along_axis", None)
    monkeypatch.setattr(warp, "ballot", None)
    assert outcome(text, True) == plain


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("shfl.up", "shfl.down"), ("vote.all", "vote.any")])
def test_a_mutation_is_found(pair, monkeypatch):
    """Two of the functions change places."""
    swapped = {pair[0]: pair[1], pair[1]: pair[0]}
    init = plan._Exchange.__init__

    def renamed(self, llvm, called, registers):
        init(self, llvm, swapped.get(called, called), registers)

    plan.addresses.cache_clear()
    monkeypatch.setattr(plan._Exchange, "__init__", renamed)
    try:
        assert any(outcome(kernel(seed), True) != outcome(kernel(seed), False) for seed in range(12))
    finally:
        plan.addresses.cache_clear()
