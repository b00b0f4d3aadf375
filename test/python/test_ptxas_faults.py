"""What ptxas compiles wrong isn't generated, and what is generated instead is compiled right."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from emulator_ptx import kernel, run

from weft.compiler import codegen, ptxas
from weft.compiler.ptxas_faults import FAULTS, avoided

RELEASES = {ptxas._version_of(path): path for path in ptxas._assemblers()}
DECLARED = ".reg .b16 %rs<4>; .reg .b64 %rd<4>;"
SHORT = np.array([-32768, -32767, -1, 0, 1, 7, 32767, 12345] * 8, np.int16)
LEAST = np.array([-(2**31), -(2**31) + 1, -1, 0] * 16, np.int64)
WORDS = np.random.default_rng(0).integers(-9, 9, (3, 64), np.int32)
FLOATS = np.linspace(-300, 300, 64)


@dataclass(frozen=True)
class Example:
    """Code with a fault, its inputs and result, and whether machine code is right."""

    chip: str
    body: str
    inputs: Any
    result: Any
    right: Callable[[str], bool]

    def kernel(self):
        return kernel(self.body, [*self.inputs], [self.result], DECLARED, self.chip)


def extends_sign(sass: str) -> bool:
    """Whether a sign is extended after the last computation of 16 bits."""
    code = re.split(r"IABS|-R\d|IMNMX|IADD3 R\d+, R\d+, 0x1,", sass)[-1]
    return re.search(r"PRMT R\d+, R\d+, 0x9910", code) is not None


def of_short(code: str, result: Any) -> Example:
    return Example("sm_80", f"{code}\ncvt.s64.s16 %d0, %h1;", [SHORT], result.astype(np.int64), extends_sign)


def of_size(bits: int, register: str) -> Example:
    """Whether an absolute value is negative."""
    given = (LEAST << (bits - 32)).astype(f"i{bits // 8}")
    code = f"abs.s{bits} {register}, %a0;\nsetp.lt.s{bits} %q0, {register}, 0;\nselp.b32 %d0, 1, 0, %q0;"
    return Example("sm_80", code, [given], (np.abs(given) < 0).astype(np.int32), lambda sass: "ISETP" in sass)


def of_store(bits: int, register: str) -> Example:
    """The first byte of a sum."""
    given = FLOATS.astype(f"f{bits // 8}")
    code = f"add.rn.f{bits} {register}, %a0, %a0;\nst.global.b8 [%p], {register};\nld.global.u8 %d0, [%p];"
    first = (given + given).view(np.uint8).reshape(64, -1)[:, 0].astype(np.uint32)
    return Example("sm_80", code, [given], first, lambda sass: "F2I" not in sass)


EXAMPLES = {
    "neg.s32": Example(
        "sm_90",
        "neg.s32 %r1, %a0;\nneg.s32 %r2, %a1;\nmax.s32 %r1, %r1, %r2;\nmax.s32 %d0, %r1, %a2;",
        WORDS,
        np.maximum(np.maximum(-WORDS[0], -WORDS[1]), WORDS[2]),
        lambda sass: len(re.findall(r"-R\d|, 0x33,", sass)) == 2,
    ),
    "neg.s16": of_short("neg.s16 %h1, %a0;", -SHORT),
    "abs.s16": of_short("abs.s16 %h1, %a0;", np.abs(SHORT)),
    "abs.s32": of_size(32, "%r1"),
    "abs.s64": of_size(64, "%l1"),
    "st.b of 16 bits": of_store(16, "%rs1"),
    "st.b of 32 bits": of_store(32, "%r1"),
    "st.b of 64 bits": of_store(64, "%rd1"),
    "add.16x2": Example(
        "sm_90",
        "mov.b32 %r1, 65535;\nadd.s16x2 %r2, %a0, %r1;\nmov.b32 {%rs1, _}, %r2;\ncvt.u32.u16 %d0, %rs1;",
        WORDS[:1],
        (WORDS[0] - 1) & 0xFFFF,
        lambda sass: "VIADD.16x2" not in sass or "0xffff" in sass,
    ),
    "mov.b32 of fp8": Example(
        "sm_90",
        "cvt.rn.satfinite.e4m3x2.f32 %rs1, %a0, %a0;\nmov.b32 %r1, {%rs1, %rs1};\nmov.b32 %d0, %r1;",
        [np.full(64, 1.5, np.float32)],
        np.full(64, 0x3C3C3C3C, np.int32),
        lambda sass: "PRMT" in sass,
    ),
    "sub.sat.s32": Example(
        "sm_80",
        "sub.sat.s32 %d0, %a0, -2147483648;",
        WORDS[:1],
        np.where(WORDS[0] < 0, WORDS[0] ^ np.int32(-(2**31)), np.int32(2**31 - 1)),
        lambda sass: "-0x80000000" not in sass,
    ),
}


def test_each_fault_has_an_example():
    assert [fault.name for fault in FAULTS] == list(EXAMPLES)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_machine_code_is_right_without_the_fault(fault, release, tmp_path):
    example = EXAMPLES[fault.name]

    def machine_code(ptx):
        source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
        source.write_text(re.sub(r"\.version [\d.]+", ".version 8.6", ptx))
        command = [RELEASES[release], f"-arch={example.chip}", source, "-o", cubin]
        subprocess.run(command, check=True, capture_output=True)
        return ptxas.disassemble(cubin.read_bytes())

    faulty = any(release.startswith(known) for known in fault.releases)
    assert example.right(machine_code(example.kernel())) is not faulty
    spelled = avoided(example.kernel())
    assert spelled != example.kernel() and example.right(machine_code(spelled))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_generated_instead_computes_the_same(name):
    example = EXAMPLES[name]
    inputs = [each.copy() for each in example.inputs]
    options = {"out": example.result.dtype, "declare": DECLARED, "target": "sm_90"}
    assert np.array_equal(run(avoided(example.body), *inputs, **options), example.result)


@pytest.mark.parametrize("name", ["neg.s32", "neg.s16", "abs.s16", "abs.s32", "abs.s64"])
def test_a_register_changes_in_place_under_a_predicate(name):
    bits = int(name[-2:])
    register = {"16": "%h1", "32": "%r1", "64": "%l1"}[name[-2:]]
    given, odd = (
        (LEAST << (bits - 32) if bits > 32 else LEAST).astype(f"i{bits // 8}"),
        np.arange(64) % 2 == 1,
    )
    lines = f"mov.b{bits} {register}, %a0;\n@%a1 {name} {register}, {register};\nmax.s32 %r2, %r2, %r2;"
    assert name not in avoided(lines)
    found = run(
        avoided(f"mov.b32 %r2, 0;\n{lines}\nmov.b{bits} %d0, {register};"), given, odd, out=given.dtype
    )
    assert np.array_equal(found, np.where(odd, np.abs(given) if "abs" in name else -given, given))


def test_what_has_no_fault_stays():
    for line in (
        "neg.s32 %r1, %r2;",
        "add.s32 %r1, %r2, %r3;\nst.global.b8 [%rd1], %r1;",
        "add.rn.f32 %r1, %r2, %r3;\nst.global.b32 [%rd1], %r1;",
        "mov.b32 %r1, {%rs1, %rs1};",
    ):
        assert avoided(line) == line


IR = """
declare i32 @llvm.smax.i32(i32, i32)
declare i16 @llvm.abs.i16(i16, i1)
declare i32 @llvm.abs.i32(i32, i1)
define ptx_kernel void @k(ptr %p, i32 %x, i32 %y, i32 %z, i16 %s, float %f) {
  %a = sub i32 0, %x
  %b = sub i32 0, %y
  %c = call i32 @llvm.smax.i32(i32 %a, i32 %b)
  %d = call i32 @llvm.smax.i32(i32 %c, i32 %z)
  %minus = sub i16 0, %s
  %size = call i16 @llvm.abs.i16(i16 %s, i1 false)
  %wide = call i32 @llvm.abs.i32(i32 %z, i1 false)
  %e = sext i16 %minus to i32
  %g = sext i16 %size to i32
  %h = mul i32 %e, %g
  %i = add i32 %d, %h
  %j = xor i32 %i, %wide
  store i32 %j, ptr %p
  %twice = fadd float %f, %f
  %bits = bitcast float %twice to i32
  %byte = trunc i32 %bits to i8
  store i8 %byte, ptr %p
  ret void
}
"""


def test_generated_ptx_has_none_of_them():
    ptx = codegen.to_ptx(IR, "sm_90a", (8, 0)).ptx
    assert ptx.count("max.s32") == 3 and ptx.count("max.s16") == 1 and ptx.count("not.b") == 5
    assert re.search(r"st\.global\.b8\s+\[%rd\d+\], %part;", ptx) is not None
    assert avoided(ptx) == ptx
