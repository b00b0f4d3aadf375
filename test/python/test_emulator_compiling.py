"""How much code the emulator makes of a program."""

import random

import numpy as np
import pytest

from weft import emulator
from weft.emulator.compiled import pieces, plan, symbols, tracing

HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b32 %r<90>; .reg .f32 %f<90>; .reg .b64 %rd<90>; .reg .pred %p<9>;
  .shared .align 16 .b8 s[4096];
"""


def functions(body):
    """The LLVM IR of the functions of a kernel."""
    module = emulator.Module(HEAD + body + "ret; }")
    return pieces.module(plan.planned(module._program("k", module.target))[1])


def test_accesses_that_differ_in_registers_and_offsets_share_code():
    one, many = (
        functions(
            "\n".join(
                f"ld.global.u32 %r{i}, [%rd{i + 1}+{4 * i}]; add.u32 %r{i}, %r{i}, %r{i + 20};"
                f"st.shared.u32 [%r{i + 40}+{8 * i}], %r{i};"
                for i in range(1, count)
            )
        )
        for count in (3, 16)
    )
    assert many.count("define ") == one.count("define ") == 4


def test_words_of_128_bits_need_no_wide_shuffles():
    code = functions("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; st.shared.u32 [%r2], %r1;")
    assert code.count("shufflevector") >= 12 and "<32 x i32>" not in code


def test_short_code_is_optimised_and_long_code_is_not():
    assert plan.level("x\n" * 100) == 1
    assert plan.level("x\n" * 20_000) == 0


@pytest.mark.each_value(2)
@pytest.mark.parametrize("seed", range(4))
def test_accesses_that_share_code_have_their_own_operands(seed):
    draw = random.Random(seed)
    lines = [f"mul.lo.u32 %r{i}, %r20, {i + 3}; mov.b32 %r{i + 30}, s;" for i in range(1, 9)]
    lines += [f"mad.lo.u32 %r{i + 30}, %r20, 4, %r{i + 30};" for i in range(1, 9)]
    for _ in range(60):
        value, place, offset = draw.randrange(1, 9), draw.randrange(31, 39), 128 * draw.randrange(8)
        guard = draw.choice(["", "@%p1 ", "@!%p2 "])
        kind = draw.choice(["st.shared.u32 [{0}+{1}], {2};", "ld.shared.u32 {2}, [{0}+{1}];"])
        lines.append(guard + kind.format(f"%r{place}", offset, f"%r{value}"))
    lines += [f"st.global.u32 [%rd2+{128 * i}], %r{i + 1};" for i in range(8)]
    start = """ld.param.u64 %rd1, [data];
      mov.u32 %r20, %tid.x; mul.wide.u32 %rd2, %r20, 4; add.u64 %rd2, %rd1, %rd2;
      setp.lt.u32 %p1, %r20, 7; setp.gt.u32 %p2, %r20, 20;"""
    module = emulator.Module(HEAD + start + "\n".join(lines) + "ret; }")
    found = []
    for compiled in (False, True):
        data = np.zeros(256, np.uint32)
        module.launch("k", block=32, args=[data], compiled=compiled, threads=1, sanitize=False)
        found.append(data.tolist())
    assert found[0] == found[1]
    assert len(set(found[0])) > 30


def test_a_step_without_code_leaves_nothing_in_its_piece():
    piece = pieces.Piece("piece_0", pieces.Layout([32, 32, 32]))
    total = symbols.Symbol(np.uint32, ("add", symbols.register(0, 32), symbols.register(1, 32)))
    unknown = symbols.Symbol(np.uint32, ("no such call", total))
    assert not piece.add(tracing.Trace(writes=[(2, total, None), (2, unknown, None)]))
    assert not piece
    assert piece.add(tracing.Trace(writes=[(2, total, None)]))
    piece.end()
    assert piece.body()[0].count("add <8 x i32>") == 1
    assert piece.slots == {0, 1, 2}
