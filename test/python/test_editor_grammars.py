"""The extension of VS Code: its grammars are those of the dialects and tables, and scope real files."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import editor_grammars
import pytest

from weft.dialects import DIALECTS
from weft.isa.tables import HEADS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "editors" / "vscode"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node, which isn't installed")


def test_the_grammars_are_those_that_the_dialects_make():
    for name, text in editor_grammars.grammars().items():
        written = (FOLDER / "syntaxes" / name).read_text("utf-8")
        assert written == text, "run python docs/generate/editor_grammars.py"


def test_what_the_package_names_is_there():
    package = json.loads((FOLDER / "package.json").read_text("utf-8"))
    contributes = package["contributes"]
    paths = [grammar["path"] for grammar in contributes["grammars"]]
    paths += [language["configuration"] for language in contributes["languages"]]
    assert all(json.loads((FOLDER / path).read_text("utf-8")) for path in paths)
    for grammar in contributes["grammars"]:
        assert json.loads((FOLDER / grammar["path"]).read_text("utf-8"))["scopeName"] == grammar["scopeName"]
    assert (FOLDER / package["main"]).is_file()
    assert set(contributes["configuration"]["properties"]) >= {"weft.chip", "weft.server"}


def node(script, *files):
    done = subprocess.run(
        [NODE, FOLDER / "test" / script, *files], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_node
def test_the_extension_starts_the_server():
    assert node("extension.js") == "ok\n"


@pytest.fixture(scope="module")
def tokens():
    """The tokens with their scopes, by file and line, of the examples and some PTX, as VS Code finds them."""
    if not (FOLDER / "node_modules" / "vscode-textmate").is_dir():
        pytest.skip("needs vscode-textmate: run npm install in editors/vscode")
    mlir = sorted((ROOT / "examples").rglob("*.mlir"))
    ptx = sorted((ROOT / "test" / "emulator" / "faults").glob("*.ptx"))
    assert mlir and ptx
    text = node("tokenize.js", *(str(path.relative_to(ROOT)) for path in (*mlir, *ptx)))
    return json.loads(text)


@needs_node
def test_every_word_has_a_scope(tokens):
    bare = [
        (file, number, text)
        for file, lines in tokens.items()
        for number, line in enumerate(lines, 1)
        for text, scope in line
        if re.fullmatch(r"source\.\w+", scope) and re.search(r"[^\s()\[\]{}<>]", text)
    ]
    assert bare == []


@needs_node
def test_no_scope_says_that_a_text_is_invalid(tokens):
    scopes = {scope for lines in tokens.values() for line in lines for _, scope in line}
    assert not [scope for scope in scopes if scope.startswith("invalid")]
    assert scopes >= {
        "comment.line.double-slash.mlir",
        "variable.other.value.mlir",
        "storage.type.shape.mlir",
    }


@needs_node
def test_operations_of_weft_are_scoped_as_such(tokens):
    names = {op.OPERATION_NAME for dialect in DIALECTS for op in dialect.operations}
    scoped = set()
    for lines in tokens.values():
        for line in lines:
            scoped |= {text.strip('"') for text, scope in line if scope.endswith("operation.weft.mlir")}
    written = set()
    for file in tokens:
        if file.endswith(".mlir"):
            code = re.sub(r"//.*", "", (ROOT / file).read_text("utf-8"))
            written |= set(re.findall(r'"([\w.]+)"\(', code)) & names
    assert scoped == written
    assert "tile.gemm" in scoped


@needs_node
def test_tensor_core_instructions_are_scoped_as_such(tokens):
    found = {
        text
        for lines in tokens.values()
        for line in lines
        for text, scope in line
        if scope == "keyword.operator.tensor.weft.ptx"
    }
    assert found
    assert found <= set(HEADS)
