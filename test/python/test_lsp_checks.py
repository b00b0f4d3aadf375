"""The parts of the language server: positions, checks of documents that are being edited, and fixes."""

import asyncio
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.compiler.worker import DeathError
from weft.isa import tables
from weft.isa.family import operand_text
from weft.tools import opt
from weft.tools.language_server import (
    catalog,
    checking,
    judging,
    mlir_checks,
    mlir_features,
    mlir_names,
    mlir_tokens,
    ptx_checks,
    ptx_features,
)
from weft.tools.language_server.catalog import OpFacts
from weft.tools.language_server.checking import Checks
from weft.tools.language_server.documents import Document
from weft.tools.language_server.problem import preferring_one, problem, replacement
from weft.tools.language_server.text import Text

DIALECTS = Path(__file__).resolve().parents[1] / "dialects"
LETTERS = st.text(st.sampled_from([*"ab", "\n", "\r", "\t", "é", "😀", "\u2028", "\x0c"]), max_size=12)


def applied(text, fix):
    for edit in sorted(fix["edits"], key=lambda each: -each["start"]):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    return text


# Positions


@given(LETTERS)
@settings(max_examples=300, deadline=None)
def test_positions_are_those_of_lsp(text):
    line = units = 0
    for offset, character in enumerate(text):
        assert Text(text).position(offset) == (line, units)
        if text[max(0, offset - 1) : offset + 1] != "\r\n":
            assert Text(text).offset((line, units)) == offset
        units += len(character.encode("utf-16-le")) // 2
        if character == "\n" or (character == "\r" and text[offset + 1 : offset + 2] != "\n"):
            line, units = line + 1, 0
    assert Text(text).position(len(text)) == (line, units)
    assert Text(text).offset((line + 1, 0)) == len(text)
    assert Text(text).offset((line, units + 9)) == len(text)


@given(LETTERS)
@settings(max_examples=300, deadline=None)
def test_columns_are_those_of_the_tools(text):
    """MLIR's columns count bytes, those of PTX characters; lines end at \\n in both."""
    for offset in range(len(text)):
        before = text[:offset]
        line, start = before.count("\n") + 1, before.rfind("\n") + 1
        assert Text(text).of_columns(line, offset - start + 1) == offset
        assert Text(text).of_bytes(line, len(text[start:offset].encode()) + 1) == offset
    assert Text(text).of_bytes(99, 1) == len(text)


# Checks


class Process:
    """Stands for the process that checks: each request takes until `allow`, or until it is interrupted."""

    def __init__(self):
        self.asked, self.allowed, self.interrupts = [], threading.Event(), 0
        self.death = None
        self.allowed.set()

    def ask(self, request, timeout):
        self.asked.append(request["text"])
        assert self.allowed.wait(10)
        if (death := self.death) is not None:
            self.death = None
            raise death
        return {"problems": [problem((0, 1), request["text"])]}, ""

    def interrupt(self):
        self.interrupts += 1
        self.death = DeathError(-9, "", "parsing")
        self.allowed.set()

    def stop(self):
        pass


@pytest.fixture
def process(patch):
    """The process of all checks; pauses are short."""
    fake = Process()
    patch.setattr(checking.judging, "process", lambda name: fake)
    patch.setattr(checking, "PAUSE_SECONDS", 0.03)
    patch.setattr(checking, "PATIENCE_SECONDS", 0.05)
    return fake


def session(work):
    """What is published while `work` edits documents."""
    published = []

    async def run():
        checks = Checks(
            lambda check, found: published.append((check.uri, [each["message"] for each in found]))
        )
        await work(checks)
        checks.close()

    asyncio.run(run())
    return published


def check(uri, text, kind="ptx"):
    return Document(uri, kind, Text(text), 1, None)


def test_only_the_newest_text_is_checked(process):
    async def typing(checks):
        for text in ("a", "ab", "abc"):
            checks.submit(check("x", text))
            checks.submit(check("y", text.upper()))
        await asyncio.sleep(0.3)

    assert session(typing) == [("x", ["abc"]), ("y", ["ABC"])]
    assert process.asked == ["abc", "ABC"]


def test_a_long_check_of_an_old_text_is_ended(process):
    async def typing(checks):
        process.allowed.clear()
        checks.submit(check("x", "long"))
        await asyncio.sleep(0.1)
        assert process.asked == ["long"]
        checks.submit(check("x", "short"))
        await asyncio.sleep(0.4)

    assert session(typing) == [("x", ["short"])]
    assert process.interrupts >= 1


def test_nothing_is_published_about_a_closed_document(process):
    async def closing(checks):
        process.allowed.clear()
        checks.submit(check("x", "long"))
        await asyncio.sleep(0.1)
        checks.forget("x")
        process.allowed.set()
        await asyncio.sleep(0.2)

    assert session(closing) == []


def test_a_crash_is_a_diagnostic_and_the_next_check_works(process):
    async def crashing(checks):
        process.death = DeathError(-11, "", "parsing <stdin>")
        checks.submit(check("x", "bad", "mlir"))
        await asyncio.sleep(0.2)
        checks.submit(check("x", "good", "mlir"))
        await asyncio.sleep(0.2)

    (_, (crash,)), (_, (good,)) = session(crashing)
    assert crash == "the check crashed (SIGSEGV) while parsing <stdin>: weft-opt writes a reproducer"
    assert good == "good"


def test_a_check_without_an_end_is_a_diagnostic(process):
    process.ask = lambda request, timeout: (_ for _ in ()).throw(TimeoutError())

    async def waiting(checks):
        checks.submit(check("x", "text"))
        await asyncio.sleep(0.2)

    assert session(waiting) == [("x", ["the check didn't finish within 60 s"])]


# Fixes


def illegal_ptx():
    """An instruction of each family with each of its modifiers misspelled or missing."""
    for family in tables.FAMILIES:
        form = next(iter(family.table))
        names = {o.name: [f"%r{i}" for i in range(o.count)] for o in form.operands}
        operands = operand_text(form, names)
        words = form.ptx.split(".")
        for at in range(1, len(words)):
            yield ".".join((*words[:at], *words[at + 1 :])) + f" {operands};"
            yield ".".join((*words[:at], f"{words[at]}7", *words[at + 1 :])) + f" {operands};"


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.sampled(2)
def test_the_preferred_fix_of_ptx_leaves_no_problem(chip):
    fixed = 0
    for instruction in illegal_ptx():
        for found in ptx_checks.problems(f".target {chip}\n{instruction}"):
            fixes = found["fixes"]
            assert sum(fix["preferred"] for fix in fixes) <= 1
            for fix in fixes:
                text = applied(f".target {chip}\n{instruction}", fix)
                left = [each["message"] for each in ptx_checks.problems(text)]
                assert found["message"] not in left
                assert not (fix["preferred"] and left), (instruction, fix)
                fixed += fix["preferred"]
    assert fixed > 20


def chunks():
    """Modules with a mistake each, of the pages of invalid operations."""
    for path in sorted(DIALECTS.glob("*/invalid*.mlir")):
        for number, chunk in enumerate(opt.chunks(path.read_text("utf-8"))):
            yield pytest.param(chunk.strip(), id=f"{path.parent.name}-{path.stem}-{number}")


@pytest.mark.each_value(9)
@pytest.mark.parametrize("chunk", list(chunks()))
@pytest.mark.sampled(12)
def test_a_fix_of_mlir_removes_its_problem(chunk):
    for found in mlir_checks.problems(chunk):
        assert found["end"] > found["start"]
        for fix in found["fixes"]:
            left = [each["message"] for each in mlir_checks.problems(applied(chunk, fix))]
            assert found["message"] not in left, fix["title"]
            assert not (fix["preferred"] and len(left) > 1)


def test_at_most_one_fix_is_preferred():
    fixes = [replacement(title, (0, 0), "", preferred=title != "a") for title in "abc"]
    assert [fix["title"] for fix in preferring_one(fixes) if fix["preferred"]] == ["b"]


def test_what_is_wrong_with_the_text_around_instructions_is_mended():
    for text, title, mended in (
        (".version 8.0\n.target sm_9", "Change to sm_90", ".version 8.0\n.target sm_90"),
        (".version 9.9\n.target sm_90", "Change to 9.5", ".version 9.5\n.target sm_90"),
        (".version 8.0\n.target sm_80\nwgmma.fence.sync.aligned;", "Set .target to sm_90a", None),
        (".version 7.0\n.target sm_90a\nwgmma.fence.sync.aligned;", "Set .version to 8.0", None),
        (
            ".target sm_90a\nwgmma.fence.sync.aligned",
            "Insert ';'",
            ".target sm_90a\nwgmma.fence.sync.aligned;",
        ),
    ):
        (found,) = ptx_checks.problems(text)
        fix = found["fixes"][0]
        assert fix["title"] == title
        assert mended in (None, applied(text, fix))
        assert ptx_checks.problems(applied(text, fix)) == []


def test_the_chip_of_a_module_is_mended():
    text = """gpu.module @m [#nvvm.target<chip = "sm_99">] {
  gpu.func @f() kernel {
    "wgmma.fence"() : () -> ()
    "wgmma.fence"() : () -> ()
    gpu.return
  }
}"""
    (found,) = mlir_checks.problems(text)
    assert text[found["start"] : found["end"]] == "sm_99"
    text = applied(text, found["fixes"][0])
    first, second = mlir_checks.problems(text)
    assert "needs sm_90a: sm_90 has no form of wgmma.fence" in first["message"]
    assert second["start"] > first["start"]
    assert [fix["title"] for fix in first["fixes"]] == ["Change the chip to sm_90a"]
    assert mlir_checks.problems(applied(text, first["fixes"][0])) == []
    assert mlir_checks.problems(text, "sm_90a") == []


def test_locations_in_the_text_do_not_move_problems():
    text = (
        'func.func @f(%a: i32 loc("x":1:1)) {\n  "mma.nothing"() : () -> () loc("o.py":70:3)\n  return\n}\n'
    )
    (found,) = mlir_checks.problems(text)
    assert text[found["start"] : found["end"]] == '"mma.nothing"'
    assert len(mlir_tokens.without_locations(text)) == len(text)


OPERATIONS = """llvm.func @k(%b: !llvm.ptr<3>) {
  "tcgen05.commit"(%b) {cta_group = 1} : (!llvm.ptr<3>) -> ()
  "tcgen05.commit"(%b) {cta_group = 2} : (!llvm.ptr<3>) -> ()
  llvm.return
}"""
INSTRUCTIONS = """.version 8.8
.target sm_100a
.entry k() { .reg .b64 %d<2>;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d1];
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.b64 [%d1];
}"""


@pytest.mark.parametrize(("checks", "text"), [(mlir_checks, OPERATIONS), (ptx_checks, INSTRUCTIONS)])
def test_a_problem_with_another_instruction_has_a_note_there(checks, text):
    (found,) = [each for each in checks.problems(text) if "function's" in each["message"]]
    (note,) = found["notes"]
    assert text[: note["start"]].count("\n") == text[: found["start"]].count("\n") - 1
    assert note["message"].endswith("has cta_group 1")


def test_a_name_without_quotes_gets_them():
    text = "func.func @f() {\n  wgmma.fence() : () -> ()\n  return\n}\n"
    (found,) = mlir_checks.problems(text)
    assert mlir_checks.problems(applied(text, found["fixes"][0])) == []


VALID = [*sorted(DIALECTS.glob("*/ops.mlir")), *sorted((DIALECTS.parents[1] / "examples").glob("*.mlir"))]


@pytest.mark.parametrize("path", VALID, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.sampled(3)
def test_valid_files_have_no_problem(path):
    assert mlir_checks.problems(path.read_text("utf-8")) == []


# Completions


@pytest.fixture(scope="module")
def facts():
    return {str(each["name"]): OpFacts.of_plain(each) for each in catalog.collect()}


MATMUL = '"tile.matmul"(%a, %b, %d) {schedule = {block = array<i64: 64, 64, 64>, '


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('func.func @f(%a: i32) {\n  "t.x"() : () -> ()\n  %0 = mma.syn|\n}', '"mma.sync"'),
        ("func.func @f(%a: i32) {\n  arith.addi|\n}", "arith.addi"),
        ('"mma.sync"(%a) ({ ^bb0: "x"() : () -> () }) {a_type = "f16", sh|}', "shape"),
        ('"mma.sync"(%a) <{|}>', "shape"),
        (
            '"mma.sync"(%a) {a_type = "tf32", b_type = "tf32", c_type = "f32", d_type = "f32", shape = |',
            '"m16n8k4"',
        ),
        ('"mma.sync"() {satfinite = |}', "false"),
        ('"tile.matmul"() {transpose_b = |}', "true"),
        ('"tile.matmul"() {activation = "|"}', '"relu"'),
        (MATMUL + "|}}", "warp_grid"),
        (MATMUL + "warpgroups = 2, |}}", "stages"),
        (MATMUL + "stages = |}}", None),
        ("%1 = arith.addi %a, ari|", None),
        ("// mma.|", None),
        ("gpu.func @k() kernel attributes {kn|} {", None),
        ('gpu.module @m [#nvvm.target<chip = "|', '"sm_70"'),
    ],
)
def test_completions_of_mlir(facts, text, first):
    at = text.index("|")
    found = mlir_features.completions(text.replace("|", ""), at, None, facts)
    assert (found[0].label if found else None) == first


# Names


MLIR = """
#map = affine_map<(d0) -> (d0)>
func.func @g(%a: i32) {
  %0:2 = "t.two"(%a) ({
  ^bb0(%b: i32):
    %1 = "t.one"(%b, %a) : (i32, i32) -> i32
    "t.yield"(%1) : (i32) -> ()
  }) {m = #map} : (i32) -> (i32, i32)
  scf.for %i = %0#0 to %0#1 step %a {
    %1 = "t.one"(%i) : (index) -> i32
  }
  func.call @h(%a) : (i32) -> ()
  return
}
func.func private @h(i32)
func.func @k(%a: f32) {
  "t.use"(%a) : (f32) -> ()
}
"""


@pytest.mark.parametrize(
    ("use", "defined", "uses"),
    [
        ("%a) ({", "%a: i32", 5),
        ("%b, %a)", "%b: i32", 2),
        ("%1) : (i32)", '%1 = "t.one"(%b', 2),
        ("%0#1", "%0:2", 3),
        ("%i) :", "%i = ", 2),
        ("#map}", "#map = affine", 2),
        ("@h(%a)", "@h(i32)", 2),
        ("%a) : (f32)", "%a: f32", 2),
    ],
)
def test_names_of_mlir(use, defined, uses):
    found = mlir_names.names(MLIR)
    assert MLIR[found.definition(MLIR.index(use))[0] :].startswith(defined)
    assert len(found.references(MLIR.index(use))) == uses


def test_the_outline_of_mlir():
    assert [(s.name, MLIR[s.span[1] - 1]) for s in mlir_names.names(MLIR).symbols()] == [
        ("g", "}"),
        ("h", ")"),
        ("k", "}"),
    ]


PTX = """.version 8.0
.target sm_80
.global .align 4 .b8 table[16];
.visible .entry first(.param .u64 p) { .reg .b32 %r<3>; L: mov.b32 %r1, table; bra L; }
.func (.reg .b32 out) second() { .reg .b32 %r<2>; mov.b32 %r1, 0; ret; }
"""


def test_names_of_ptx():
    at = PTX.rindex("%r1")
    assert PTX[slice(*ptx_features.definition(PTX, at))] == "%r"
    assert ptx_features.definition(PTX, at)[0] == PTX.rindex("%r<2>")
    assert len(ptx_features.references(PTX, at)) == 1
    assert PTX[slice(*ptx_features.definition(PTX, PTX.index("table;")))] == "table"
    assert [symbol.name for symbol in ptx_features.symbols(PTX)] == ["table", "first", "second"]
    assert all(re.fullmatch(r"\w+", PTX[slice(*s.name_span)]) for s in ptx_features.symbols(PTX))


def test_an_interrupted_process_is_replaced():
    worker, died = judging.process("a process"), []
    endless = ".target sm_80\n" + "mma.sync.aligned.m8n8k4 {};\n" * 300_000

    def ask():
        try:
            worker.ask(judging.request("ptx", endless, None), 60)
        except DeathError as death:
            died.append(death.cause)

    asking = threading.Thread(target=ask)
    asking.start()
    while not died and asking.is_alive():
        worker.interrupt()
        asking.join(0.1)
    assert died == ["SIGKILL"]
    assert worker.ask(judging.request("ptx", "", None), 60)[0] == {"problems": []}
    worker.stop()
