"""`weft lint`: the instructions that it finds in text, and its messages."""

import difflib
import json
import random
import string
import time

import pytest
from assembling import assembles
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.isa import certify, computed, tables
from weft.isa.certify import assembler
from weft.isa.chips import CHIPS
from weft.isa.text import reader, written
from weft.isa.text.operands import NOTHING_DECLARED
from weft.isa.text.other_opcodes import OTHER
from weft.tools import findings, weft

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F16_LINE = f"{F16} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};"
TF32_LINE = F16_LINE.replace("f16.f16", "tf32.tf32")
HEAD = ".version 9.0\n.target sm_90a\n"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %p0"
SCALED = (
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
    "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, %r6"
)
TCGEN05 = "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1"


def verdicts(text, chip="sm_90a"):
    return [finding.verdict for finding in findings.lint_ptx(text, chip)]


def lint(tmp_path, capsys, text, *options, name="a.ptx"):
    path = tmp_path / name
    path.write_text(text)
    status = weft.main(["lint", str(path), *options])
    return status, capsys.readouterr()


# The tool


def test_each_instruction_is_one_object_with_these_keys(tmp_path, capsys):
    status, said = lint(tmp_path, capsys, f"{HEAD}{F16_LINE}\n{TF32_LINE}\n", "--json")
    legal, illegal = map(json.loads, said.out.splitlines())
    assert status == 1
    assert legal == {
        "line": 3,
        "instruction": F16,
        "legal": True,
        "rule": None,
        "reason": None,
        "nearest": [],
    }
    assert list(illegal) == ["line", "instruction", "legal", "rule", "reason", "nearest"]
    assert (illegal["line"], illegal["legal"], illegal["rule"]) == (4, False, "shape")
    assert "must be m16n8k4 or m16n8k8" in illegal["reason"]
    assert illegal["nearest"][0] == TF32_LINE.replace("k16", "k8")


def test_one_line_for_each_illegal_instruction_and_a_summary(tmp_path, capsys):
    status, said = lint(tmp_path, capsys, f"{HEAD}{F16_LINE}\n  {TF32_LINE} {TF32_LINE}\n")
    first, second, summary = said.out.splitlines()
    assert status == 1
    assert first.startswith(f"{tmp_path}/a.ptx:4:3: error: 'mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32")
    assert second.startswith(f"{tmp_path}/a.ptx:4:{4 + len(TF32_LINE)}: error: ")
    assert "; nearest legal: mma.sync.aligned.m16n8k8" in first
    assert summary == f"{tmp_path}/a.ptx: 3 instructions, 2 illegal on sm_90a"


def test_statuses(tmp_path, capsys):
    assert lint(tmp_path, capsys, f"{HEAD}{F16_LINE}")[0] == 0
    assert lint(tmp_path, capsys, f"{HEAD}{F16_LINE}", "--arch", "sm_75")[0] == 1
    assert lint(tmp_path, capsys, HEAD)[0] == 0
    for arguments in (["lint", str(tmp_path / "none.ptx")], ["lint", str(tmp_path)]):
        assert weft.main(arguments) == 2
        said = capsys.readouterr()
        assert (said.out, said.err[:25]) == ("", "weft: error: cannot read ")
    assert lint(tmp_path, capsys, HEAD, "--arch", "sm_1")[0] == 2
    status, said = lint(tmp_path, capsys, "func.func @f() { broken", "--json", name="a.mlir")
    assert (status, said.out) == (2, "")


def test_the_option_goes_before_the_text_and_a_text_without_chip_is_held_to_all(tmp_path, capsys):
    wgmma = "wgmma.fence.sync.aligned;"
    assert lint(tmp_path, capsys, f".target sm_80\n{wgmma}")[0] == 1
    assert lint(tmp_path, capsys, f".target sm_80\n{wgmma}", "--arch", "sm_90a")[0] == 0
    status, said = lint(tmp_path, capsys, wgmma)
    assert (status, said.out.split(": ")[1].strip()) == (
        0,
        "1 instruction, none illegal on some chip (it names none",
    )


def test_a_target_that_no_table_knows_is_an_error_and_an_old_one_has_nothing(tmp_path, capsys):
    status, said = lint(tmp_path, capsys, f".version 9.0 .target sm_999\n{F16_LINE}")
    assert status == 2
    assert said.err.startswith(f"{tmp_path}/a.ptx:1:22: error: .target must be a known chip (sm_70, ")
    assert [v.rule for v in verdicts(F16_LINE, "sm_61")] == ["chip"]
    assert lint(tmp_path, capsys, f".target sm_61, debug\n{F16_LINE}")[0] == 1


# What is found


def test_instructions_have_source_locations_in_any_context():
    text = (
        f'// {F16_LINE}\n/* {F16_LINE}\n */ .file 1 "mma.sync.x;"\n'
        f"\t@%p1 {F16_LINE} @!%p2\n  {F16_LINE}\nmma_x: add.s32 %mma.x, %r1, %r2; call mma, (%r1);\n"
        f"{F16} {{%f0, %f1, // C\n %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, "
        "{%r4, %r5},\n{%f0, %f1, %f2, %f3};\n"
    )
    found = list(reader.instructions(text))
    assert [(i.line, i.column) for i in found] == [(4, 7), (5, 3), (7, 1)]
    assert {i.opcode for i in found} == {F16}
    assert verdicts(text) == [None] * 3


@pytest.mark.parametrize("before", ["add.u32 %r1, %r2, %r3", "LABEL: mov.b32 %r1, %r2", F16_LINE[:-1]])
def test_an_instruction_after_a_missing_semicolon_is_judged_on_its_own(before):
    found = findings.lint_ptx(f"{HEAD}{before}\n  {TF32_LINE}", "sm_90a")
    assert [(f.line, f.verdict.rule) for f in found[-1:]] == [(4, "shape")]
    assert [(f.line, f.verdict.reason) for f in found[:-1]] == (
        [(3, "must end with a semicolon")] if before in F16_LINE else []
    )


def test_target_and_version_of_the_text_are_used():
    assert reader.target(".version 8.0 .target texmode_independent , sm_90a, debug") == "sm_90a"
    assert reader.target("// .target sm_80\n.target sm_90") == "sm_90"
    assert reader.target(".global .b8 x[4];") is None
    assert reader.version(".version 8.7\n") == (8, 7)


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.row.col.m16n8k16.f32.f16.f16.f32" + F16_LINE.removeprefix(F16),
        "mma .sync\n.aligned.m16n8k16.row.col.f32.f16.f16.f32" + F16_LINE.removeprefix(F16),
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r0, %r1, %r2, %r3}, [%r4 + 16];",
        "ldmatrix.sync.aligned.trans.m8n8.x1.shared.b16 {%r0}, [symbol+4];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 vector, [%r4];",
        "wmma.load.a.sync.aligned.m16n16k16.row.shared::cta.f16 "
        "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d0], 16;",
        "wmma.mma.sync.aligned.m16n16k16.row.col.s32.s8.s8.s32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, "
        "{%r0,%r1}, {%r0,%r1}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7};",
        WGMMA.replace(".sync.aligned.m64n8k16", ".m64n8k16.sync.aligned") + ", 1, 1, 0, 0;",
    ],
)
def test_orders_and_aliases_are_legal(line):
    assert verdicts(line) == [None]


@pytest.mark.parametrize(
    "line, chip",
    [
        ("tcgen05.cp.cta_group::1.warpx4.32x128b [%r0], %d0;", "sm_100a"),
        (
            SCALED.replace("m16n8k32.row.col.kind::mxf8f6f4", "kind::mxf8f6f4.m16n8k32.row.col")
            + ", {0, 1}, %r7, {%h0, %h1};",
            "sm_120a",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 "
            "[%r0], %d0, %d1, %r1, [%r2], [%r3], %p0;",
            "sm_100f",
        ),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];", "sm_100a"),
    ],
)
def test_orders_and_aliases_are_legal_on_later_chips(line, chip):
    assert verdicts(line, chip) == [None]


F64_LINE = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rz {%q0, %q1}, {%q2}, {%q3}, {%q0, %q1};"
HALF = "{%r0, %r1, %r2, %r3}"
HALVES = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
SHORT = f"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {HALF}, {HALVES}, {HALVES}, {HALF};"
CTA = "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r0}, [%r1];"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%d0], %h0;"
S8 = "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};"
SPELLED = [
    ("sm_80", "9.0", F64_LINE, True),
    ("sm_80", "9.0", F64_LINE.replace(".rz", ".rz.rn"), False),
    ("sm_80", "9.0", F64_LINE.replace(".rz", ".rna"), False),
    ("sm_80", "9.0", SHORT, True),
    ("sm_80", "9.0", SHORT.replace("f16.f16", "f16.f16.f16.f16"), False),
    ("sm_80", "7.7", CTA, False),
    ("sm_80", "7.8", CTA, True),
    ("sm_80", "7.7", CTA.replace("::cta", ""), True),
    ("sm_80", "9.0", S8, True),
    ("sm_80", "9.0", S8.replace(".row", ".satfinite.row"), True),
    ("sm_80", "9.0", S8.replace(".row", ".row.row"), False),
    ("sm_107a", "9.4", COMMIT, True),
    ("sm_107a", "9.4", COMMIT.replace(".b64", ".multicast::cluster::32b.b64"), False),
]


@pytest.mark.parametrize("chip, version, line, legal", SPELLED)
def test_spellings_are_judged_as_ptxas_does(chip, version, line, legal):
    head = f".version {version}\n.target {chip}\n"
    (verdict,) = verdicts(head + line, chip)
    assert (verdict is None) == legal
    assert (
        assembles(f"{head}.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}", chip)
        == legal
    )


@pytest.mark.parametrize("line", [CTA.replace(".b16", ".b16.row"), COMMIT.replace(".b64", ".b2.b64")])
def test_what_ptxas_ignores_is_refused_and_named(line):
    chip = "sm_100a"
    (verdict,) = verdicts(line, chip)
    assert "(ptxas ignores ." in verdict.reason
    text = f".version 9.0\n.target {chip}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\n}}"
    assert assembles(text, chip)


# Operands: each line is held to ptxas too.

REGISTERS = (
    ".reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b16 %h<4>;"
    ".reg .f64 %q<4>; .reg .v2 .b32 vector; .shared .align 128 .b8 symbol[1024];"
)
OPERANDS = [
    ("sm_90a", F16_LINE, None),
    ("sm_90a", F16_LINE.replace("%f0", "_", 1), None),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}", "vector"), None),
    ("sm_90a", F16_LINE.replace(", %r3}", "}"), "registers"),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}, ", ""), "operands"),
    ("sm_90a", F16_LINE.replace(";", ", %r1;"), "operands"),
    ("sm_90a", F16_LINE.replace("{%r4, %r5}", "{%r4, }"), "syntax"),
    ("sm_90a", F16_LINE.replace(";", ",;"), "operands"),
    ("sm_90a", F16_LINE.replace(";", " ret;"), "syntax"),
    ("sm_90a", F16_LINE.removesuffix(";"), "syntax"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", "operands"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, %r1;", "operands"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [symbol+16];", None),
    *(("sm_90a", f"{WGMMA}, {x};", None) for x in ("1, -1, 0, 1", "0x1, 1U, 0b0, 01", "(1), 2-1, 0, +0")),
    *(("sm_90a", f"{WGMMA}, {x};", "scale_a") for x in ("0, 1, 0, 0", "%r1, 1, 0, 0", "1.0, 1, 0, 0")),
    ("sm_90a", f"{WGMMA}, 1, 1, 0, 2;", "trans_b"),
    ("sm_90a", f"{WGMMA}, 1, 1, 0;", "operands"),
    ("sm_90a", "wgmma.wait_group.sync.aligned -1;", "group"),
    ("sm_90a", "wgmma.wait_group.sync.aligned;", "operands"),
    ("sm_120a", f"{SCALED}, {{0, 1}}, {{%r7}}, {{%h0, 3}};", None),
    ("sm_120a", f"{SCALED}, {{4, 0}}, %r7, {{0, 0}};", "byte_id_a"),
    ("sm_120a", f"{SCALED}, {{0, 2}}, %r7, {{0, 0}};", "thread_id_a"),
    ("sm_120a", f"{SCALED}, 0, %r7, {{0, 0}};", "operands"),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", None),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], %r2;", None),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "columns"),
    ("sm_100a", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 0;", "columns"),
    ("sm_100a", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], %r2;", "operands"),
    ("sm_100a", "tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r1], %r3, {%r2};", "offset"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2, %r3}, [%r4];", "registers"),
    ("sm_100a", f"{TCGEN05}, !%p0;", None),
    ("sm_100a", f"{TCGEN05}, %p0, 15;", None),
    ("sm_100a", f"{TCGEN05}, %p0, 16;", "scale_input_d"),
    ("sm_100a", f"{TCGEN05}, %p0, %d3;", "scale_input_d"),
    ("sm_100a", f"{TCGEN05}, {{%r1, %r2, %r3, %r4}}, %p0, 3;", None),
    ("sm_100a", f"{TCGEN05}, {{%r1, %r2, %r3}}, %p0;", "disable-output-lane"),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chip, line, rule", OPERANDS)
def test_operands_are_judged_as_ptxas_does(chip, line, rule):
    (verdict,) = verdicts(line, chip)
    assert (verdict and verdict.rule) == rule
    text = (
        f".version 9.4\n.target {chip}\n.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}"
    )
    assert assembles(text, chip) == (rule is None)


@pytest.mark.parametrize("wrong", ["[]", "[[%r1]]", "[{%r1}]", "[%r1[0]]", "[%r1, {}]", "[%r1,]", "[%r1]]"])
def test_brackets_hold_one_address(wrong):
    body = f"{REGISTERS}\n{CTA}\n{CTA.replace('[%r1]', wrong)}\nret;"
    text = f"{HEAD}.address_size 64\n.visible .entry k() {{ {body} }}"
    legal, verdict = verdicts(text)
    assert legal is None
    assert verdict.reason == f"has an operand that can't be read: '{wrong}'"
    assert not assembles(text, "sm_90a")


@pytest.mark.parametrize("wrong", ["{}", "{%r4, %r5,}", "{%r4,, %r5}", "{, %r4}", "{[%r4], %r5}"])
def test_lists_hold_registers_between_commas(wrong):
    (verdict,) = verdicts(HEAD + F16_LINE.replace("{%r4, %r5}", wrong))
    assert verdict.reason == f"has an operand that can't be read: '{wrong}'"


def test_operands_get_what_would_be_right():
    (verdict,) = verdicts(F16_LINE.replace(", %r3}", "}"))
    fixed = F16_LINE.replace("{%r0, %r1, %r2, %r3}", "{%a0, %a1, %a2, %a3}")
    assert str(verdict) == f"a must have 4 registers, got 3; nearest legal: {fixed}"
    (verdict,) = verdicts("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "sm_100a")
    assert str(verdict) == (
        "columns must be one of 32, 64, 128, 256, 512, got 48; nearest legal: "
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"
    )


# Opcodes


@pytest.mark.parametrize(
    "opcode, rule, reason",
    [
        (
            F16.replace(".f16.f16", ".fp16.f16"),
            "modifier",
            "has modifiers that no mma instruction has: .fp16",
        ),
        (F16.replace(".aligned", ""), "spelling", f"compared with {F16} it lacks .aligned"),
        (F16.replace("f16.f16", "f16"), "spelling", "it lacks .f"),
        (F16 + ".f32", "spelling", "it has the extra .f32"),
        (
            F16 + ".f32" * 99,
            "spelling",
            "it has the extra .f32, .f32, .f32, .f32, .f32, .f32, .f32, .f32, and 91 more",
        ),
        (
            F16 + "".join(f".x{i}" for i in range(99)),
            "modifier",
            " has: .x0, .x1, .x2, .x3, .x4, .x5, .x6, .x7, and ",
        ),
        (F16 + "." + "a" * 10**6, "modifier", f" has: .{'a' * 80} ..."),
        (F16.replace("m16n8k16", "m16n8"), "modifier", ".m16n8"),
        ("tcgen05.relinquish.alloc", "modifier", ".relinquish"),
        ("wgmma.mma_async.sync.aligned", "spelling", "isn't the spelling of an instruction"),
    ],
)
def test_an_opcode_that_no_family_reads(opcode, rule, reason):
    (verdict,) = verdicts(f"{opcode} {{%r1}};")
    assert verdict.rule == rule
    assert reason in verdict.reason
    assert all(verdicts(near) == [None] for near in verdict.nearest)


def test_the_version_of_the_text_counts():
    text = F16_LINE.replace("k16", "k32").replace(".f16.f16", ".e4m3.e4m3")
    assert [v.rule for v in verdicts(f".version 8.3\n{text}", "sm_89")] == ["ptx"]
    (verdict,) = verdicts(f".version 8.3\n{text}", "sm_89")
    assert verdict.reason == "needs PTX 8.4: the text's version is 8.3"
    assert [verdicts(f".version 8.3\n{near}", "sm_89") for near in verdict.nearest] == [[None]] * 3
    assert verdicts(f".version 8.4\n{text}", "sm_89") == verdicts(text, "sm_89") == [None]


def test_what_ptxas_takes_beyond_the_tables_is_told():
    (verdict,) = verdicts(F16_LINE.replace("k16", "k32").replace("f32.f16.f16", "kind::f8f6f4.f32.e4m3.e4m3"))
    assert "(ptxas assembles it: " in verdict.reason


F64_LOAD = "wmma.load.a.sync.aligned.row.m8n8k4.f64 {%q0}, [%d1];"
F64_WMMA = [
    F64_LOAD,
    "wmma.load.c.sync.aligned.col.m8n8k4.global.f64 {%q0, %q1}, [%d1], %r1;",
    "wmma.store.d.sync.aligned.row.m8n8k4.shared.f64 [%r1], {%q0, %q1}, 8;",
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%q0, %q1}, {%q2}, {%q3}, {%q0, %q1};",
    "wmma.mma.sync.aligned.col.row.m8n8k4.rm.f64.f64.f64.f64 {%q0, %q1}, {%q2}, {%q3}, {%q0, %q1};",
]


@pytest.mark.parametrize("line", F64_WMMA)
def test_wmma_of_doubles_is_legal_with_a_remark(line, tmp_path, capsys):
    head = ".version 7.0\n.target sm_80\n"
    (finding,) = findings.lint_ptx(head + line)
    assert finding.verdict is None
    assert finding.remark == "is legal; Weft's dialects have mma.sync m8n8k4 for f64, no wmma"
    assert assembles(f"{head}.address_size 64\n.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}", "sm_80")
    (verdict,) = verdicts(line, "sm_75")
    assert verdict.rule == "f64"
    status, said = lint(tmp_path, capsys, head + line)
    assert status == 0
    assert said.out.splitlines()[0].endswith(f":3:1: remark: '{line.split()[0]}' {finding.remark}")


def test_wmma_of_doubles_has_its_version_and_operands():
    assert verdicts(f".version 6.5\n{F64_LOAD}", "sm_80")[0].rule == "ptx"
    assert verdicts(F64_LOAD.replace("%q0", "%q0, %q1"), "sm_80")[0].rule == "registers"
    assert verdicts(F64_WMMA[3].replace(".f64.f64.f64.f64", ".f64.f64.f64.f64.rn.rz"), "sm_80")[0] is not None
    assert verdicts(F64_WMMA[3].replace("m8n8k4", "m16n16k16"), "sm_80")[0].rule == "f64"


def test_an_operation_of_another_release_is_not_judged(tmp_path, capsys):
    text = """
        llvm.func @commit(%b: !llvm.ptr<3>) {
          nvvm.tcgen05.commit %b {smem_a_read} : !llvm.ptr<3>
          llvm.return
        }"""
    status, said = lint(tmp_path, capsys, text, "--json", name="a.mlir")
    (finding,) = map(json.loads, said.out.splitlines())
    assert status == 0 and finding["legal"] is None
    assert finding["remark"] == "isn't judged: it has attributes that Weft's operation lacks: smem_a_read"


# Agreement with the tables


@pytest.mark.sampled(12)
@pytest.mark.parametrize("family", tables.FAMILIES, ids=lambda family: family.name)
def test_every_legal_form_is_legal_as_it_is_written(family):
    for form, support in family.table.items():
        (found,) = reader.instructions(certify.Entry.of(form).line)
        assert tables.read(found.opcode, found.operands) == (family, form)
        assert written.judge(found, min(support.chips), support.ptx) is None, found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_lint_reports_the_tables_verdict(table):
    for family in (family for family in table.families if family.axes):
        points = certify.sample(family, table.near.get(family.name, {}), 200, list(CHIPS), seed=1)
        for form, chip in points:
            (found,) = reader.instructions(certify.Entry.of(form).line)
            verdict, meant = written.judge(found, chip), family.judge(form, chip)
            assert (verdict is None) == (meant is None), (found, chip)
            spelled = tables.read(found.opcode, found.operands)
            if meant and spelled and spelled[1] == form:
                assert verdict.rule == meant.rule
                assert verdict.reason.startswith(meant.reason)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_107a", "sm_120a"])
def test_ten_thousand_instructions_take_less_than_ten_seconds(chip):
    lines = []
    for table in tables.TABLES:
        for family in (family for family in table.families if family.axes):
            points = certify.sample(family, table.near.get(family.name, {}), 600, [chip])
            lines += dict.fromkeys(certify.Entry.of(form).line for form, _ in points)
    random.Random(0).shuffle(lines)
    text = "\n".join((lines * 4)[:10_000])
    started = time.process_time()
    found = findings.lint_ptx(text, chip)
    for finding in found:
        finding.json()
    assert len(found) == 10_000
    assert time.process_time() - started < 10


def kernel(chip, lines):
    registers = ".reg .b32 %r<999>; .reg .f32 %f<999>; .reg .b64 %d<99>; .reg .pred %p<9>;"
    body = "\n".join(lines)
    return f".version 9.0\n.target {chip}\n.visible .entry k()\n{{\n{registers}\n{body}\nret;\n}}\n"


def registers(random_number, kind, count):
    first = random_number.randrange(999 - count)
    return f"{{{', '.join(f'%{kind}{first + i}' for i in range(count))}}}"


def different_lines(count):
    """Instructions with registers at random, as an unrolled loop has them."""
    number = random.Random(0)
    for _ in range(count // 2):
        d, a, b = (registers(number, kind, n) for kind, n in (("f", 4), ("r", 4), ("r", 2)))
        yield f"{F16} {d}, {a}, {b}, {d};"
        yield f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a}, [%r{number.randrange(999)}+16];"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [[F16_LINE] * 20_000, [*different_lines(20_000)]])
def test_twenty_thousand_instructions_take_less_than_a_second(lines):
    text = kernel("sm_90a", lines)
    started = time.process_time()
    found = findings.lint_ptx(text)
    assert time.process_time() - started < 1
    assert len(found) == 20_000
    assert not any(finding.verdict for finding in found)


@pytest.mark.slow
def test_instructions_with_other_registers_take_no_longer_than_equal_ones():
    def seconds(lines):
        text, times = kernel("sm_90a", lines), []
        for _ in range(5):
            started = time.process_time()
            findings.lint_ptx(text)
            times.append(time.process_time() - started)
        return min(times)

    different = [*different_lines(10_000)]
    assert seconds(different) < 2 * seconds(different[:2] * 5_000)


def test_many_equal_mistakes_are_looked_into_once(monkeypatch):
    searched = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *rest: searched.append(word) or [])
    lines = [F16_LINE.replace("%r5", "%q5").replace("%f0", f"%f{i}") for i in range(30)]
    found = findings.lint_ptx(kernel("sm_90a", [*lines, *["foo.bar 1;"] * 5]))
    rules = [finding.verdict.rule for finding in found]
    assert rules == ["undeclared"] * 30 + ["instruction"] * 5
    assert len(searched) == len(set(searched)) == 2


def test_a_process_that_reads_many_texts_keeps_few_words(monkeypatch):
    monkeypatch.setattr(computed, "_MOST_KEPT", 8)
    for i in range(30):
        findings.lint_ptx(f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%x{i}, %y}}, [%r{i}];", "sm_90a")
    assert len(NOTHING_DECLARED.kinds) <= 8 and len(NOTHING_DECLARED.signatures) <= 8


# Text that is no PTX

WORDS = st.sampled_from(
    [
        *F16.split("."),
        *(word for family in tables.FAMILIES for form in [*family.table][:3] for word in form.ptx.split(".")),
        *("", "x", "m", "n8", "m16n8k", "m0n0k0", "x0", "x99", "kind::", "::", "cta_group::9", "collector::"),
        *("cta_group::0", "m999n8k16", "b1", "shared::cta", "scale_vec::", "multicast::cluster::8b", "sp"),
        *("block", "ws"),
    ]
)  # fmt: skip
OPCODES = st.builds(
    lambda head, words: ".".join((head, *words)),
    st.sampled_from(list(tables.HEADS)),
    st.lists(WORDS, max_size=12),
)
PUNCTUATION = st.text(alphabet='{}[],;%r1p0-x. \n/*"@!', max_size=30)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(OPCODES, PUNCTUATION), max_size=4), st.sampled_from([None, *CHIPS]))
def test_nothing_that_looks_like_ptx_breaks_it(parts, chip):
    text = "".join(f"{opcode} {rest}" for opcode, rest in parts)
    for finding in findings.lint_ptx(text, chip):
        assert json.loads(finding.json())["line"] >= 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_change_of_a_few_characters_breaks_it(data):
    form = data.draw(
        st.sampled_from([form for family in tables.FAMILIES for form in list(family.table)[::37]])
    )
    text = certify.Entry.of(form).line
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(st.text(string.printable, max_size=3))
            + text[at + data.draw(st.integers(0, 3)) :]
        )
    for finding in findings.lint_ptx(text, "sm_100a"):
        finding.json()


# Text that holds none of the instructions


@pytest.mark.parametrize(
    "text", ["", "\n// mma.sync\n", "hello world\n", "{};;{", "1 2 3;", "\u00e9t\u00e9;"]
)
def test_what_is_no_ptx_is_an_error(tmp_path, capsys, text):
    status, said = lint(tmp_path, capsys, text)
    assert (status, said.out) == (2, "")
    assert "error: expected PTX (a directive or an instruction), got " in said.err


def test_statements_that_no_instruction_begins_like_are_findings():
    text = f"{HEAD}.visible .entry k()\n{{ mam.sync.aligned; .loc 1 2 3\n  wgma.fence; ???; L: @%p ret;\n}}"
    found = findings.lint_ptx(text)
    assert [(f.line, f.column, f.instruction) for f in found] == [
        (4, 3, "mam.sync.aligned"),
        (5, 3, "wgma.fence"),
        (5, 15, "???"),
    ]
    assert str(found[0].verdict) == "isn't an instruction of PTX; did you mean 'mma'?"


def test_a_file_without_such_an_instruction_is_told_apart_from_one_without_a_mistake(tmp_path, capsys):
    status, said = lint(tmp_path, capsys, f"{HEAD}.visible .entry k() {{ ret; }}")
    assert (status, said.out) == (0, f"{tmp_path}/a.ptx: no tensor-core instruction to judge on sm_90a\n")
    status, said = lint(tmp_path, capsys, "module {}", name="a.mlir")
    assert (status, said.out.split(": ")[1][:31]) == (0, "no tensor-core instruction to j")


# ptxas knows these with a modifier alone.
NAMED_WITH_MODIFIERS = (
    *("brx", "clmad", "clusterlaunchcontrol", "cp", "createpolicy", "mad24", "madc", "mbarrier", "mul24"),
    *("multimem", "setmaxnreg", "setsmemsize", "shf", "suld", "sured", "sust", "tensormap"),
)


def test_ptxas_knows_each_other_instruction():
    """It says of a name that it doesn't know that it doesn't; what else it says is about operands."""
    unknown = "Not a name of any known instruction"
    entries = [assembler.Entry(f"{head};", {}, (), ()) for head in ("hello", *sorted(OTHER))]
    found = assembler.assemble(entries, "sm_100a")
    assert found[0] and unknown in found[0]
    names = [e.line for e, said in zip(entries[1:], found[1:], strict=True) if said and unknown in said]
    assert set(names) <= {f"{head};" for head in NAMED_WITH_MODIFIERS}


def test_a_version_that_there_is_not_is_refused(tmp_path, capsys):
    head = HEAD.replace("9.0", "99.9")
    status, said = lint(tmp_path, capsys, f"// of 99.9\n{head}{F16_LINE}")
    assert status == 2
    assert f"{tmp_path}/a.ptx:2:10: error: unknown PTX version 99.9: the newest known version is " in said.err


def test_a_missing_semicolon_is_named(tmp_path, capsys):
    status, said = lint(tmp_path, capsys, f"{HEAD}{F16_LINE[:-1]}\n  bar.sync 0;\n")
    (line,) = (line for line in said.out.splitlines() if "can't be read" in line)
    assert (status, "(is a ';' missing before bar.sync?)" in line) == (1, True)
