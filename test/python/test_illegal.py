"""What no chip has is refused, and nothing else is: spellings of instructions outside of the tables."""

import itertools
import re

import pytest
from assembler import LAST, Entry, assemble
from instruction_lines import DECLARATIONS, WIDE, instruction_lines

from weft import emulator
from weft.isa import illegal, tables

CHIP = "sm_100a"
VERSION = LAST[False]
SCALARS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "tf32")
ROUNDINGS = ("", "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
OTHERS = ("", "ftz", "sat", "relu", "satfinite", "ftz.sat", "relu.satfinite", "sat.satfinite")


def register(kind, number):
    letter = {"8": "h", "16": "h", "32": "r", "64": "d"}[re.sub(r"\D", "", kind.removeprefix("bf"))]
    return f"%{letter}{number}"


def conversions():
    for to, of, mode, other in itertools.product(SCALARS, SCALARS, ROUNDINGS, OTHERS):
        opcode = ".".join(filter(None, ("cvt", mode, other, to, of)))
        yield opcode, f"{opcode} {register(to, 1)}, {register(of, 2)};"


def refused(lines, chip=CHIP, version=VERSION):
    """Whether ptxas refuses each line."""
    wide = WIDE if version >= (8, 3) else ""
    complaints = assemble([Entry(line, {}, (), ()) for line in lines], chip, version, DECLARATIONS + wide)
    return [complaint is not None for complaint in complaints]


@pytest.mark.each_value(3)
@pytest.mark.parametrize("to", SCALARS)
def test_conversions_are_those_of_ptxas(to):
    named = {line: opcode for opcode, line in conversions() if re.search(rf"\.{to}\.\w+$", opcode)}
    assert [illegal.complaint(each, 2) is not None for each in named.values()] == refused(list(named))


def test_no_row_has_what_a_chip_has():
    for opcode, operands in instruction_lines():
        if opcode.partition(".")[0] not in tables.HEADS:
            assert illegal.complaint(opcode, len(operands)) is None, opcode


REFUSED = """
    ld.bf16 %h1, [%d2];
    mov.u8 %h1, %h2;
    sub.s16x2 %r1, %r2, %r3;
    cvt.rni.f32.f64 %r1, %d2;
    add.rz.f16 %h1, %h2, %h3;
    mul.sat.bf16 %h1, %h2, %h3;
    add.relu.f32 %r1, %r2, %r3;
    fma.f64 %d1, %d2, %d3, %d4;
    mad.f32 %r1, %r2, %r3, %r4;
    div.f32 %r1, %r2, %r3;
    sqrt.f64 %d1, %d2;
    rcp.rn.approx.f32 %r1, %r2;
    sin.f32 %r1, %r2;
    sub.sat.u64 %d1, %d2, %d3;
    add.cc.s16x2 %r1, %r2, %r3;
    shl.u32 %r1, %r2, %r3;
    setp.lt.b16 %p1, %h2, %h3;
    max.NaN.xorsign.abs.f64 %d1, %d2, %d3;
    max.xorsign.f32 %r1, %r2, %r3;
    min.abs.f32 %r1, %r2, %r3;
    min.ftz.bf16 %h1, %h2, %h3;
    st.release.relaxed.sys.b32 [%d1], %r2;
    atom.acq_rel.relaxed.gpu.global.add.u32 %r1, [%d2], %r3;
    st.release.cta.sys.b32 [%d1], %r2;
    ld.gpu.b32 %r1, [%d2];
    ld.relaxed.b32 %r1, [%d2];
    mbarrier.try_wait.acquire.shared.b64 %p1, [%r2], %d3;
    ld.global.weak.nc.b32 %r1, [%d2];
    ld.nc.b32 %r1, [%d2];
    st.relaxed.gpu.cs.b32 [%d1], %r2;
    atom.add.noftz.u32 %r1, [%d2], %r3;
    redux.sync.min.b32 %r1, %r2, -1;
    red.add.f16 [%d1], %h2;
    prefetch.global.f16.L2 [%d1];
    prefetch [%d1];
    discard.global [%d1], 128;
    createpolicy.fractional.b64 %d1, 1.0;
    add.ftz.ftz.f32 %r1, %r2, %r3;
    add.s32 %r1, %tid.x, 1;
    st.global.b32 [%d1], %tid.x;
    mov.f32 %r1, %laneid;
    cvt.rn.f32.u32 %r1, %tid.x;
    cvt.tf32.relu.f32 %r1, %r2;
    shf.l.wrap.b32 %r1, %r2, %r3, 0f3F800000;
    add.u64 %d1, %d2, symbol;
    add.s32 %r1, %r2, 1.0;
    add.f32 %r1, %r2, 1;
    max.f32 %r1, %r2, WARP_SZ;
    mov.b32 %r1, 1.0;
    add.s32 _, %r1, %r2;
    ld.b32 _, [%d2];
"""
TAKEN = """
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %d1, %tid.x;
    mov.u64 %d1, symbol;
    cvta.shared.u64 %d1, symbol;
    mov.b32 %r1, 0f3F800000;
    mov.b64 %d1, 1.0;
    cvt.rz.tf32.relu.f32 %r1, %r2;
    cvt.u8.sat.u32 %r1, %r2;
    shf.r.clamp.b32 %r1, 0f3F800000, %r2, 3;
    prmt.b32 %r1, %r2, %r3, 0f00003210;
    lop3.b32 %r1, %r2, %r3, 0f3F800000, 150;
    fns.b32 %r1, 0f3F800000, 0f00000000, 0f00000001;
    shfl.sync.idx.b32 %r1, 0f3F800000, 0f00000001, 0f0000001F, -1;
    add.f32 %r1, %r2, 1.0;
    atom.add.u32 _, [%d2], 1;
    setp.lt.s32 _|%p1, %r1, WARP_SZ;
    mov.b64 {_, %r1}, %d2;
"""


def lines_of(text):
    return [line.strip() for line in text.strip().splitlines()]


def emulated(line):
    text = f".version {VERSION[0]}.{VERSION[1]}\n.target {CHIP}\n.address_size 64\n"
    text += f".visible .entry k() {{ {DECLARATIONS}\n{line}\nret; }}"
    return emulator.Module(text).launch("k", args=[])


@pytest.mark.parametrize(("chip", "version"), [(CHIP, VERSION), ("sm_90a", VERSION), ("sm_70", LAST[True])])
def test_ptxas_refuses_what_is_illegal(chip, version):
    lines = lines_of(REFUSED)
    assert not [line for line, wrong in zip(lines, refused(lines, chip, version), strict=True) if not wrong]


@pytest.mark.parametrize("line", lines_of(REFUSED))
def test_the_emulator_refuses_it(line):
    with pytest.raises(emulator.PtxError):
        emulated(line)


@pytest.mark.parametrize("line", lines_of(TAKEN))
def test_both_take_what_is_legal(line):
    assert refused([line]) == [False]
    program = emulator.Module(
        f".version {VERSION[0]}.{VERSION[1]}\n.target {CHIP}\n.address_size 64\n"
        f".visible .entry k() {{ {DECLARATIONS}\nret; {line}\nret; }}"
    )
    program.launch("k", args=[])


def test_an_example_has_each_row():
    """So no row can be wrong unnoticed."""
    opcodes = [opcode for opcode, _ in conversions()]
    opcodes += [line.split()[0].rstrip(";") for line in lines_of(REFUSED)]
    counts = {line.split()[0].rstrip(";"): line.count(",") + 1 for line in lines_of(REFUSED)}
    reasons = {illegal.complaint(opcode, counts.get(opcode, 2)) for opcode in opcodes}
    assert {row.reason for row in illegal.ROWS} <= reasons


@pytest.mark.parametrize("opcode", ["fma.rz.bf16", "fma.rm.bf16x2"])
def test_directed_rounding_of_bf16_is_legal_in_fma(opcode):
    operands = "%h0, %h1, %h2, %h3" if opcode.endswith("bf16") else "%r0, %r1, %r2, %r3"
    assert refused([f"{opcode} {operands};"]) == [False]
    assert illegal.complaint(opcode, 4) is None
