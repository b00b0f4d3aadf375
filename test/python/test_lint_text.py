"""`weft lint` on text that is no PTX, or holds no instruction that it judges."""

import json
import string

import assembler
import certify
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lint_lines import F16, F16_LINE, HEAD, lint

from weft.isa import tables
from weft.isa.chips import CHIPS
from weft.isa.text.other_opcodes import OTHER
from weft.tools import findings

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
