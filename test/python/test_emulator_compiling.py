"""How much code the emulator makes of a program."""

import copy
import gc
import random
import weakref

import llvmlite.binding as llvm
import numpy as np
import pytest

from weft import WeftError, emulator
from weft.emulator.compiled import pieces, plan, tiers
from weft.emulator.numerics import symbols

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


def test_loads_of_vectors_share_code_whatever_their_registers():
    """Their order and those that nothing reads differ."""
    orders = (1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)
    loads = [f"ld.shared.v4.u32 {{%r{a}, %r{b}, %r{c}, %r{d}}}, [%rd1+64];" for a, b, c, d in orders]
    uses = [f"add.u32 %r{i + 20}, %r{i}, 1; st.shared.u32 [%rd{i + 2}], %r{i + 20};" for i in (1, 2, 4)]
    one, many = functions(loads[0] + "".join(uses)), functions("".join(map(str.__add__, loads, uses)))
    assert one.count("shufflevector") == many.count("shufflevector") >= 12
    assert one.count("define ") == many.count("define ")


def test_loads_of_vectors_have_their_own_registers():
    """In any order, twice the same one, and before those are read or written again."""
    draw, lines = random.Random(0), []
    for at in range(12):
        names = [f"%r{draw.randrange(1, 7)}" for _ in range(4)]
        lines.append(f"ld.shared.v4.u32 {{{', '.join(names)}}}, [%r21+{512 * (at % 4)}];")
        lines.append(f"add.u32 {draw.choice(names)}, %r{draw.randrange(1, 7)}, %r{draw.randrange(1, 7)};")
        lines.append(f"st.shared.u32 [%r21+{512 * draw.randrange(4)}], %r{draw.randrange(1, 7)};")
    fill = [f"st.shared.u32 [%r22+{128 * i}], %r{i % 7};" for i in range(16)]
    start = """ld.param.u64 %rd1, [data]; mov.u32 %r20, %tid.x; mul.wide.u32 %rd2, %r20, 4;
      add.u64 %rd2, %rd1, %rd2; mov.b32 %r22, s; mad.lo.u32 %r21, %r20, 16, %r22;
      mad.lo.u32 %r22, %r20, 4, %r22;"""
    registers = [f"mul.lo.u32 %r{i}, %r20, {7 * i + 3};" for i in range(7)]
    ends = [f"st.global.u32 [%rd2+{128 * i}], %r{i};" for i in range(1, 7)]
    text = "\n".join([HEAD, start, *registers, *fill, *lines, *ends, "ret; }"])
    found = []
    for compiled in (False, True):
        data = np.zeros(256, np.uint32)
        emulator.Module(text).launch("k", block=32, args=[data], compiled=compiled, threads=1)
        found.append(data.tolist())
    assert found[0] == found[1]
    assert len(set(found[0])) > 60


def test_short_code_is_optimized_and_long_code_is_not():
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
    assert not piece.add(pieces.Trace(writes=[(2, total, None), (2, unknown, None)]))
    assert not piece
    assert piece.add(pieces.Trace(writes=[(2, total, None)]))
    piece.end()
    assert piece.body()[0].count("add <8 x i32>") == 1
    assert piece.slots == {0, 1, 2}
    llvm.parse_assembly(pieces.module([piece]))  # no name of what was undone


def test_values_of_different_shapes_are_left_to_the_interpreter():
    word, octets = symbols.register(0, 32), symbols.register(1, 32).view(np.uint8)
    assert (word + 1).shape == word.shape and (octets + np.uint8(1)).shape == octets.shape
    with pytest.raises(symbols.UntraceableError, match="broadcasts"):
        word + octets


def test_lanes_that_do_not_run_keep_all_registers():
    """A piece writes registers of each width, a predicate among them, for some lanes of a warp."""
    body = """.reg .b16 %h<4>; ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
      add.u64 %rd2, %rd1, %rd2; mov.b32 %r2, 5; mov.b32 %r3, 6; mov.b64 %rd3, 7; mov.b16 %h1, 8;
      setp.eq.u32 %p1, %r1, %r1; setp.gt.u32 %p2, %r1, 6; @%p2 bra REST;
      add.u32 %r2, %r2, %r1; add.u32 %r3, %r3, %r1; add.u64 %rd3, %rd3, 9; add.u16 %h1, %h1, 1;
      setp.ne.u32 %p1, %r1, %r1;
    REST: bar.warp.sync -1; cvt.u32.u64 %r4, %rd3; cvt.u32.u16 %r5, %h1; selp.u32 %r6, 1, 2, %p1;
    """
    body += "".join(f"st.global.u32 [%rd2+{128 * i}], %r{i + 2};" for i in range(5))
    found = []
    for compiled in (False, True):
        data = np.zeros(5 * 32, np.uint32)
        emulator.Module(HEAD + body + "ret; }").launch("k", block=32, args=[data], compiled=compiled)
        found.append(data.reshape(5, 32).tolist())
    assert found[0] == found[1]
    assert [row[20] for row in found[1]] == [5, 6, 7, 8, 1]
    assert [row[2] for row in found[1]] == [7, 8, 16, 9, 2]


@pytest.mark.parametrize("value", ["", "0", "1", "no"])
def test_the_variable_is_checked(value, monkeypatch):
    module = emulator.Module(HEAD + "ret; }")
    monkeypatch.setenv("WEFT_EMULATOR_COMPILED", value)
    if value == "no":
        with pytest.raises(WeftError, match="WEFT_EMULATOR_COMPILED must be 0 or 1, got 'no'"):
            module.launch("k", block=32, args=[np.zeros(32, np.uint32)])
    else:
        module.launch("k", block=32, args=[np.zeros(32, np.uint32)])


def test_a_program_lives_no_longer_for_its_tier():
    class Program:
        codes, tier = (), None

    program = Program()
    first = tiers.tier_of(program, None)
    assert tiers.tier_of(program, None) is first
    assert tiers.tier_of(copy.copy(program), None) is not first
    known = weakref.ref(program)
    del program, first
    gc.collect()
    assert known() is None
