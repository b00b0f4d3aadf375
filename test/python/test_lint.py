"""`weft lint`: the tool, where it finds instructions, and what it says of their opcodes."""

import json

import pytest
from assembling import assembles
from lint_lines import F16, F16_LINE, HEAD, REGISTERS, TF32_LINE, lint, verdicts

from weft.isa.text import reader
from weft.tools import findings, weft

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
    line = F16_LINE.replace("k16", "k32").replace("f32.f16.f16", "kind::f8f6f4.f32.e4m3.e4m3")
    (verdict,) = verdicts(line, "sm_120")
    assert "ptxas assembles it" not in verdict.reason  # since sm_120 has no kinds
    (verdict,) = verdicts(line, "sm_100a")
    assert "(ptxas assembles it: " in verdict.reason


def test_other_instructions_are_listed_only_where_they_are_illegal():
    body = "redux.sync.max.f32 %f1, %f1, -1; redux.sync.max.s32 %r1, %r1, -1; mov.u32 %r1, %clusterid.x;"
    head = ".version 8.6\n.target sm_120a\n"
    (finding,) = findings.lint_ptx(head + body)
    chips = "sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a"
    assert (finding.instruction, finding.verdict.rule) == ("redux.sync.max.f32", "target")
    assert finding.verdict.reason == f"needs {chips}, got sm_120a"
    assert not findings.lint_ptx(head + body, "sm_103a")
    *_, finding = findings.lint_ptx(body, "sm_80")
    assert (finding.instruction, finding.verdict.reason) == ("mov.u32", "needs sm_90 or later, got sm_80")
    (finding,) = findings.lint_ptx(".version 8.5\n.target sm_100a\nadd.f32x2 %d0, %d0, %d0;")
    assert finding.verdict.reason == "needs PTX 8.6: the text's version is 8.5"
    (finding,) = findings.lint_ptx("cvt.rn.f32.f16 %f0, %h0;", "sm_80")
    assert finding.verdict.reason == "doesn't round: the result is exact"


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


def test_an_attribute_of_another_release_is_illegal(tmp_path, capsys):
    text = """
        llvm.func @commit(%b: !llvm.ptr<3>) {
          nvvm.tcgen05.commit %b {smem_a_read} : !llvm.ptr<3>
          llvm.return
        }"""
    status, said = lint(tmp_path, capsys, text, "--json", name="a.mlir")
    (finding,) = map(json.loads, said.out.splitlines())
    assert status == 1 and finding["legal"] is False
    assert finding["reason"].startswith("has attribute 'smem_a_read', which means to signal once A was read")


GROUPS = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry {name}() {{
  .reg .b64 %d<2>;
  .reg .b32 %r<2>;
  mov.u64 %d1, 0;
  mov.u32 %r1, 0;
  {first}
  {second}
  ret;
}}
"""
COMMIT = "tcgen05.commit.cta_group::{}.mbarrier::arrive::one.b64 [%d1];"
SHIFT = "tcgen05.shift.cta_group::{}.down [%r1];"
COPY = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"
    " [%r1], [%d1, {%r1}], [%r1];"
)


@pytest.mark.parametrize(
    ("second", "legal"), [(SHIFT.format(1), True), (SHIFT.format(2), False), (COPY, True)]
)
def test_a_function_has_one_cta_group(tmp_path, capsys, second, legal):
    text = GROUPS.format(name="k", first=COMMIT.format(1), second=second)
    assert assembles(text, "sm_100a") == legal
    status, said = lint(tmp_path, capsys, text)
    assert status == (0 if legal else 1)
    path = tmp_path / "a.ptx"
    if not legal:
        error, note, _ = said.out.splitlines()
        assert error == (
            f"{path}:10:3: error: 'tcgen05.shift.cta_group::2.down' cta_group must be 1, as that of the "
            "function's 'tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64', got 2"
        )
        assert note == (
            f"{path}:9:3: note: 'tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64' has cta_group 1"
        )
        _, said = lint(tmp_path, capsys, text, "--json")
        assert json.loads(said.out.splitlines()[1])["note"]["line"] == 9


def test_each_function_has_its_own_cta_group(tmp_path, capsys):
    first, second = (
        GROUPS.format(name=f"k{group}", first=COMMIT.format(group), second=SHIFT.format(group))
        for group in (1, 2)
    )
    text = first + second[second.index(".visible") :]
    assert assembles(text, "sm_100a")
    assert lint(tmp_path, capsys, text)[0] == 0


def test_operations_that_do_not_fit_to_another_name_its_line(tmp_path, capsys):
    text = """
        gpu.module @m [#nvvm.target<chip = "sm_100a">] {
          llvm.func @k(%b: !llvm.ptr<3>, %d: !llvm.ptr<6>, %a: i64, %more: i1) attributes {nvvm.kernel} {
            nvvm.tcgen05.commit %b : !llvm.ptr<3>
            nvvm.tcgen05.commit %b {group = #nvvm.cta_group<cta_2>} : !llvm.ptr<3>
            %i = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 64 : i64,
              a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
            nvvm.tcgen05.mma %d, %a, %a, %i, %more {ctaGroup = #nvvm.cta_group<cta_1>,
              kind = #nvvm.tcgen05_mma_kind<i8>} : (!llvm.ptr<6>, i64, i64, i32, i1)
            llvm.return
          }
        }"""
    status, said = lint(tmp_path, capsys, text, name="a.mlir")
    path = tmp_path / "a.mlir"
    assert (status, said.out.splitlines()[:4]) == (
        1,
        [
            f"{path}:5:13: error: 'tcgen05.commit' op cta_group must be 1, as that of the function's "
            "'tcgen05.commit', got 2",
            f"{path}:4:13: note: 'tcgen05.commit' op has cta_group 1",
            f"{path}:8:13: error: 'tcgen05.mma' op expects idesc of kind i8, got f16",
            f"{path}:6:18: note: 'tcgen05.instruction_descriptor' op has kind f16",
        ],
    )
