"""What ptxas compiles wrong isn't generated, and what is generated instead is compiled right."""

import re
import subprocess

import numpy as np
import pytest
from emulator_ptx import kernel, run

from weft.compiler import codegen, ptxas
from weft.compiler.ptxas_faults import FAULTS, avoided

RELEASES = {ptxas._version_of(path): path for path in ptxas._assemblers()}
SHORT = np.array([-32768, -32767, -1, 0, 1, 7, 32767, 12345] * 8, np.int16)
WORDS = np.random.default_rng(0).integers(-9, 9, (3, 64), np.int32)


def extends_sign(sass: str) -> bool:
    """Whether a sign is extended after the last computation of 16 bits."""
    code = re.split(r"IABS|-R\d|IMNMX|IADD3 R\d+, R\d+, 0x1,", sass)[-1]
    return re.search(r"PRMT R\d+, R\d+, 0x9910", code) is not None


def negates_twice(sass: str) -> bool:
    return len(re.findall(r"-R\d|, 0x33,", sass)) == 2


# By the instruction: a chip, code with the fault, its inputs, the result and what right machine code has.
EXAMPLES = {
    "neg.s32": (
        "sm_90",
        ["neg.s32 %r1, %a0;", "neg.s32 %r2, %a1;", "max.s32 %r1, %r1, %r2;", "max.s32 %d0, %r1, %a2;"],
        WORDS,
        np.maximum(np.maximum(-WORDS[0], -WORDS[1]), WORDS[2]),
        negates_twice,
    ),
    "neg.s16": ("sm_80", ["neg.s16 %h1, %a0;", "cvt.s64.s16 %d0, %h1;"], [SHORT], -SHORT, extends_sign),
    "abs.s16": (
        "sm_80",
        ["abs.s16 %h1, %a0;", "cvt.s64.s16 %d0, %h1;"],
        [SHORT],
        np.abs(SHORT),
        extends_sign,
    ),
}


def test_each_fault_has_an_example():
    assert [fault.instruction for fault in FAULTS] == list(EXAMPLES)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.instruction)
def test_machine_code_is_right_without_the_fault(fault, release, tmp_path):
    chip, body, inputs, result, right = EXAMPLES[fault.instruction]
    out = result.astype(np.int64 if result.dtype == np.int16 else np.int32)

    def machine_code(ptx):
        cubin = tmp_path / "k.cubin"
        (tmp_path / "k.ptx").write_text(ptx.replace(".version 9.0", ".version 8.0"))
        subprocess.run(
            [RELEASES[release], f"-arch={chip}", tmp_path / "k.ptx", "-o", cubin],
            check=True,
            capture_output=True,
        )
        return ptxas.disassemble(cubin.read_bytes())

    faulty = kernel("\n".join(body), inputs, [out], target=chip)
    assert right(machine_code(faulty)) is not any(known in release for known in fault.releases)
    spelled = avoided(faulty)
    assert fault.instruction not in spelled and right(machine_code(spelled))


@pytest.mark.parametrize("instruction", EXAMPLES)
def test_what_is_generated_instead_computes_the_same(instruction):
    _, body, inputs, result, _ = EXAMPLES[instruction]
    out = np.int64 if result.dtype == np.int16 else np.int32
    text = avoided("\n".join(body))
    assert np.array_equal(run(text, *inputs, out=out), result)
    # In place, and under a predicate.
    given, odd = inputs[0], np.arange(64) % 2 == 1
    kind = "h" if given.dtype == np.int16 else "r"
    lines = [f"mov.b{8 * given.itemsize} %{kind}1, %a0;", f"@%a1 {instruction} %{kind}1, %{kind}1;"]
    lines += [f"max.s32 %r2, %r2, %r2; mov.b{8 * given.itemsize} %d0, %{kind}1;"]
    expected = np.where(odd, np.abs(given) if "abs" in instruction else -given, given)
    assert instruction not in avoided("\n".join(lines))
    assert np.array_equal(run(avoided("\n".join(lines)), given, odd, out=given.dtype), expected)


def test_negations_without_extrema_stay():
    assert avoided("neg.s32 %r1, %r2;") == "neg.s32 %r1, %r2;"


IR = """
declare i32 @llvm.smax.i32(i32, i32)
declare i16 @llvm.abs.i16(i16, i1)
define ptx_kernel void @k(ptr %p, i32 %x, i32 %y, i32 %z, i16 %s) {
  %a = sub i32 0, %x
  %b = sub i32 0, %y
  %c = call i32 @llvm.smax.i32(i32 %a, i32 %b)
  %d = call i32 @llvm.smax.i32(i32 %c, i32 %z)
  %minus = sub i16 0, %s
  %size = call i16 @llvm.abs.i16(i16 %s, i1 false)
  %e = sext i16 %minus to i32
  %f = sext i16 %size to i32
  %g = mul i32 %e, %f
  %h = add i32 %d, %g
  store i32 %h, ptr %p
  ret void
}
"""


def test_generated_ptx_has_none_of_them():
    ptx = codegen.to_ptx(IR, "sm_90a", (8, 0)).ptx
    assert ptx.count("max.s32") == 2 and ptx.count("max.s16") == 1 and ptx.count("not.b") == 4
    assert not [fault.instruction for fault in FAULTS if fault.instruction in ptx]
