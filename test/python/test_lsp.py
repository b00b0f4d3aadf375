"""`weft lsp` in sessions with a real client: documents are opened and edited, and their problems mended."""

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from weft.tools import weft

pytest.importorskip("pygls", reason="the language server needs pygls: pip install 'weft[lsp]'")
import warm_tools
from lsp_client import SECONDS, Client

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() {\n  .reg .b32 %r<9>;\n"
HEAD += "  .reg .f32 %f<9>;\n"
OPERANDS = "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f5, %f6, %f7, %f8};"
LEGAL = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
ILLEGAL = LEGAL.replace("k16", "k17")
H, F = "vector<2xf16>", "f32"
MMA = '"mma.sync"(%h, %h, %h, %f, %f, %f, %f) {{shape = "{shape}", a_type = "f16", b_type = "{b}", '
MMA += 'c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>}} : '
MMA += f"({H}, {H}, {H}, {F}, {F}, {F}, {F}) -> !llvm.struct<({F}, {F}, {F}, {F})>"


def function(*operations):
    lines = "".join(f"  %{i} = {operation}\n" for i, operation in enumerate(operations))
    return f"func.func @f(%h: {H}, %f: f32) {{\n{lines}  return\n}}\n"


@pytest.fixture(scope="module")
def client():
    started = Client(command=[warm_tools.folder() / "weft", "lsp"])
    yield started
    assert started.end() == 0
    assert started.errors == b""


@pytest.fixture
def opened(client, request):
    """A function that opens a document, which is closed after the test."""
    documents = []

    def open_(text, suffix):
        documents.append(client.open(f"file:///tmp/{request.node.name}-{len(documents)}.{suffix}", text))
        return documents[-1]

    yield open_
    for document in documents:
        client.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})


def test_a_fix_of_ptx_makes_its_diagnostic_vanish(opened):
    document = opened(f"{HEAD}  /* 😀 */ {ILLEGAL} {OPERANDS}\n}}\n", "ptx")
    (found,) = document.diagnostics()
    assert found["message"].startswith(f"'{ILLEGAL}' shape must be one of m8n8k4,")
    assert (found["severity"], found["source"], found["code"]) == (1, "weft", "shape")
    assert document.covered(found["range"]) == ILLEGAL
    assert found["range"]["start"] == {"line": 6, "character": 11}
    action = document.actions(found)[0]
    assert (action["title"], action["kind"]) == (f"Change to {LEGAL}", "quickfix")
    assert action["isPreferred"]
    document.apply(action)
    assert document.diagnostics() == []
    assert f"/* 😀 */ {LEGAL} {OPERANDS}" in document.text


def test_a_fix_of_mlir_makes_its_diagnostic_vanish(opened):
    text = function(MMA.format(shape="m16n8k2", b="f16"), MMA.format(shape="m16n8k8", b="bf16"))
    document = opened(text.replace("\n", "\r\n").replace("  %0 =", "  /*"[:2] + "%0 ="), "mlir")
    shape, type_ = document.diagnostics()
    assert document.covered(shape["range"]) == '"m16n8k2"'
    assert document.covered(type_["range"]) == '"bf16"'
    assert "A of f16 needs B of f16, got bf16" in type_["message"]
    action = document.actions(shape)[0]
    assert action["title"] == 'Change shape to "m16n8k8"'
    document.apply(action)
    (left,) = document.diagnostics()
    assert left["message"] == type_["message"]
    document.apply(document.actions(left)[0])
    assert document.diagnostics() == []
    assert "\r\n" in document.text


def test_columns_of_mlir_are_in_utf_16(opened):
    """MLIR counts bytes."""
    text = function(MMA.format(shape="m16n8k2", b="f16")).replace("{shape", '{weft.s = "é😀", shape')
    document = opened(text, "mlir")
    (found,) = document.diagnostics()
    assert document.covered(found["range"]) == '"m16n8k2"'
    document = opened('func.func @f() { "é😀"() : () -> () "func.retrun"() : () -> () }', "mlir")
    (found,) = document.diagnostics()
    assert document.covered(found["range"]) == '"é😀"'


def test_a_misspelled_operation_is_corrected(opened):
    document = opened(function(MMA.format(shape="m16n8k8", b="f16").replace("mma.sync", "mma.snyc")), "mlir")
    (found,) = document.diagnostics()
    assert document.covered(found["range"]) == '"mma.snyc"'
    document.apply(document.actions(found)[0])
    assert document.diagnostics() == []


def test_each_part_of_a_split_file_is_a_module(opened):
    part = function(MMA.format(shape="m16n8k2", b="f16"))
    document = opened(f"{part}// -----\nfunc.func @broken(\n// -----\n{part}", "mlir")
    lines = [found["range"]["start"]["line"] for found in document.diagnostics()]
    assert lines == [1, 5, 8] or lines == [1, 6, 8]


def test_diagnostics_follow_typing(client, opened):
    """The words of a fast typist are checked once, at the end."""
    document = opened(f"{HEAD}  \n}}\n", "ptx")
    assert document.diagnostics() == []
    for character in f"{ILLEGAL} {OPERANDS}":
        at = document.text.index("\n}")
        document.edit(at, at, character)
    assert [document.covered(d["range"]) for d in document.diagnostics()] == [ILLEGAL]
    versions = [p["version"] for p in client.published if p["uri"] == document.uri and "version" in p]
    assert len(versions) < 20


def test_two_documents_at_once(opened):
    good = opened((EXAMPLES / "warp_gemm.mlir").read_text(), "mlir")
    bad = opened(function(MMA.format(shape="m16n8k2", b="f16")), "mlir")
    ptx = opened(f"{HEAD}  {ILLEGAL} {OPERANDS}\n}}\n", "ptx")
    assert (len(good.diagnostics()), len(bad.diagnostics()), len(ptx.diagnostics())) == (0, 1, 1)
    good.edit(0, 0, "garbage\n")
    bad.edit(0, 0, "// a comment\n")
    assert (len(good.diagnostics()), len(bad.diagnostics())) == (1, 1)


def test_hovers(opened):
    document = opened(function(MMA.format(shape="m16n8k8", b="f16")), "mlir")
    document.diagnostics()
    hover = document.ask("hover", document.text.index("mma.sync"))
    assert document.covered(hover["range"]) == '"mma.sync"'
    for part in (
        "over one warp",
        "`a_layout`",
        "mma.sync.aligned.m16n8k8.row.col",
        "sm_75 or later",
        "| d | 4 of",
    ):
        assert part in hover["contents"]["value"]
    shape = document.ask("hover", document.text.index("m16n8k8"))["contents"]["value"]
    assert "With the other values as here: `m8n8k4`, `m16n8k8`, `m16n8k16`" in shape
    assert document.ask("hover", document.text.index("return")) is None
    ptx = opened(f"{HEAD}  {LEGAL} {OPERANDS}\n}}\n", "ptx")
    whole = ptx.ask("hover", ptx.text.index("mma.sync"))["contents"]["value"]
    assert "sm_80 or later; PTX 7.0" in whole
    assert "`m16n8k8`" in ptx.ask("hover", ptx.text.index("m16n8k16"))["contents"]["value"]
    assert "163 KiB" in ptx.ask("hover", ptx.text.index("sm_80"))["contents"]["value"]


def labels(document, marker="|"):
    at = document.text.index(marker)
    document.edit(at, at + 1, "")
    return [item["label"] for item in document.ask("completion", at)["items"]]


def test_completions(opened):
    opened("", "mlir").diagnostics()  # by then the operations are known
    assert '"mma.sync"' in labels(opened("  %0 = mma.s|", "mlir"))
    assert "arith.addi" in labels(opened("  %0 = arith.a|", "mlir"))
    given = '"mma.sync"() {a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", shape = "|"}'
    assert labels(opened(given, "mlir"))[:3] == ['"m8n8k4"', '"m16n8k8"', '"m16n8k16"']
    assert labels(opened('"mma.sync"() {a_type = "f16", |}', "mlir"))[0] == "shape"
    assert '"sm_90a"' in labels(opened('gpu.module @m [#nvvm.target<chip = "|">] {}', "mlir"))
    begun = "mma.sync.aligned.m16n8k16.row.col.f32."
    assert labels(opened(f".target sm_80\n  {begun}|", "ptx")) == ["bf16", "f16"]
    assert "sm_90a" in labels(opened(".target sm_9|", "ptx"))
    assert labels(opened(".target sm_80\n  nothing of this|", "ptx")) == []


def test_definitions_references_and_the_outline(opened):
    document = opened((EXAMPLES / "warp_gemm.mlir").read_text(), "mlir")
    at = document.text.index("%a, %b) : (!A")
    where = document.ask("definition", at)
    assert document.text[document.offset(where["range"]["start"]) :].startswith('%a = "tile.from_lane"')
    assert len(document.ask("references", at, context={"includeDeclaration": True})) == 2
    (module,) = document.client.request(
        "textDocument/documentSymbol", {"textDocument": {"uri": document.uri}}
    )
    assert (module["name"], [child["name"] for child in module["children"]]) == ("warp_gemm", ["warp_gemm"])
    ptx = opened(f"{HEAD}  {LEGAL} {OPERANDS}\nL1:\n  bra L1;\n}}\n", "ptx")
    for use, declared in (("%r5, ", "%r<9>"), ("L1;", "L1:")):
        where = ptx.ask("definition", ptx.text.index(use))
        assert ptx.text[ptx.offset(where["range"]["start"]) :].startswith(declared)
    outline = ptx.client.request("textDocument/documentSymbol", {"textDocument": {"uri": ptx.uri}})
    assert [symbol["name"] for symbol in outline] == ["f"]


GARBAGE = (
    "\0\0\0",
    "}{)(" * 5000,
    "((((((((((" * 500,
    '"' * 9999,
    "😀" * 3000,
    "\r\r\n\n\r\u2028\x0b\x0c\x85 .target sm_80",
    "\ud800 half",
    "%" * 50_000,
    ".reg .b32 " * 20_000,
    ".version 99.9\n.target sm_999\n",
    'gpu.module @m [#nvvm.target<chip = "sm_999">] {}',
    "#" * 1000 + "!a = " * 1000,
)


@pytest.mark.parametrize("suffix", ["mlir", "ptx"])
def test_no_text_ends_the_server(opened, suffix):
    documents = [opened(text, suffix) for text in GARBAGE]
    for document in documents:
        document.diagnostics()
        middle = len(document.text) // 2
        for method in ("hover", "completion", "definition"):
            params = {"line": 0, "character": middle}
            document.client.request(
                f"textDocument/{method}", {"textDocument": {"uri": document.uri}, "position": params}
            )
    assert opened("" if suffix == "ptx" else "module {}", suffix).diagnostics() == []


def test_a_crash_of_mlir_does_not_end_the_server(opened):
    """MLIR 20261001 crashes on a word of linalg.reduce without brackets."""
    text = """func.func @f(%a: tensor<2x2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %r = linalg.reduce ins(%a : tensor<2x2xf32>) outs(%b : tensor<2xf32>) dimensions = -1
    (%x: f32, %y: f32) { %1 = arith.addf %x, %y : f32 linalg.yield %1 : f32 }
  return %r : tensor<2xf32>
}
"""
    document = opened(text, "mlir")
    (found,) = document.diagnostics()
    assert found["message"].startswith("the check crashed (SIGSEGV) while parsing")
    at = text.index("= -1")
    document.edit(at, at + 4, "= [1]")
    assert document.diagnostics() == []


def test_incomplete_texts_have_diagnostics_or_none(opened):
    """A text is typed from the beginning: every hover and completion on the way is answered."""
    text = function(MMA.format(shape="m16n8k8", b="f16"))
    document = opened("", "mlir")
    for end in range(0, len(text), 23):
        document.replace(text[:end])
        for method in ("hover", "completion", "definition"):
            document.ask(method, end)
    document.replace(text)
    assert document.diagnostics() == []


def test_a_huge_text_is_checked_while_others_are(opened):
    huge = opened(HEAD + f"  {LEGAL} {OPERANDS}\n" * 20_000 + f"  {ILLEGAL} {OPERANDS}\n}}\n", "ptx")
    small = opened(function(MMA.format(shape="m16n8k2", b="f16")), "mlir")
    assert len(small.diagnostics()) == 1
    (found,) = huge.diagnostics()
    assert found["range"]["start"]["line"] == 20_006


def test_random_edits_leave_client_and_server_with_one_text(opened):
    """Line ends of all kinds, and characters that Python takes for line ends."""
    letters = [*"ab \t", "\n", "\r", "\r\n", "\u2028", "\x0b", "\x85", "é", "😀"]
    chosen = random.Random(7)
    document = opened("", "ptx")
    for _ in range(200):
        offsets = [
            i for i in range(len(document.text) + 1) if document.text[i - 1 : i + 1] != "\r\n" or not i
        ]
        start, end = sorted(chosen.choices(offsets[-12:], k=2))
        document.edit(start, end, "".join(chosen.choices(letters, k=3)))
        if document.text[max(0, start - 1) : start + 1] == "\r\n" or "\r\n" in document.text[end : end + 4]:
            document.replace(document.text.replace("\r", ""))
    at = len(document.text)
    document.edit(at, at, f"\n.version 8.0 .target sm_80 {ILLEGAL} {{}};")
    assert ILLEGAL in [document.covered(found["range"]) for found in document.diagnostics()]


def test_the_chip_is_set_by_the_editor():
    client = Client(settings={"chip": "sm_75"})
    text = f"{HEAD}  {LEGAL} {OPERANDS}\n}}\n"
    document = client.open("untitled:Untitled-1", text, "ptx")
    assert "needs sm_80 or later: sm_75 has no" in document.diagnostics()[0]["message"]
    client._settings = {"chip": "sm_9"}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    shown = client.until(lambda message: message.get("method") == "window/showMessage")["params"]["message"]
    assert "weft.chip must be a known chip" in shown
    assert "got 'sm_9'; did you mean 'sm_90'?" in shown
    client.published.clear()
    assert document.diagnostics() == []  # for the file's own
    client.notify("workspace/didChangeConfiguration", {"settings": {"weft": {"chip": "sm_72"}}})
    client.published.clear()
    assert "sm_72" in document.diagnostics()[0]["message"]
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(SECONDS) == -signal.SIGTERM


@pytest.mark.slow
def test_the_chip_is_set_on_the_command_line():
    client = Client("--arch", "sm_75", "--stdio")
    document = client.open("file:///a.ptx", f"{HEAD}  {LEGAL} {OPERANDS}\n}}\n")
    assert "sm_75" in document.diagnostics()[0]["message"]
    client.notify("exit", None)  # without a shutdown before
    assert client.process.wait(SECONDS) == 1


@pytest.mark.slow
def test_the_server_ends_with_its_editor():
    client = Client()
    client.open("file:///a.ptx", f"{HEAD}  {ILLEGAL} {OPERANDS}\n}}\n").diagnostics()
    client.process.stdin.close()
    assert client.process.wait(SECONDS) == 0
    client = Client()
    client.open("file:///a.ptx", HEAD + f"  {ILLEGAL} {OPERANDS}\n" * 40_000)  # whose check is under way
    time.sleep(0.6)
    client.process.stdin.close()
    assert client.process.wait(SECONDS) == 0
    assert client.errors == b""


def test_without_pygls_a_message_names_the_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert weft.main(["lsp"]) == 1
    assert (
        "the language server needs pygls, which isn't installed: pip install 'weft[lsp]'"
        in capsys.readouterr().err
    )


def test_an_unknown_chip_is_refused(capsys):
    assert weft.main(["lsp", "--arch", "sm_9"]) == 1
    assert "--arch must be a known chip" in capsys.readouterr().err
