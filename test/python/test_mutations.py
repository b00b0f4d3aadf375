"""Random changes of the example: tools end with a result or a diagnostic, never with a crash or a hang."""

import faulthandler
import io
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul.mlir"
COUNT = 200
SEED = 20261120
# What one tool may take for one text, and all of them together.
PATIENCE_SECONDS = 20
LIMIT_SECONDS = 300

TOKEN = re.compile(r"[%@!#]?[\w.$]+|\s+|->|[^\w\s]")
WORDS = """
    0 1 -1 2 16 4294967296 99999999999999999999 true false 1.0 1e400 0x7FC00000 unit "" "x" é \x01 \x7f 💥
    ? x -> : , ; { } ( ) [ ] < > = * + // ^bb0 %A %B %D %C %0 @matmul @x
    "tile.matmul" "tile.gemm" "mma.sync" func.func gpu.module gpu.func return module builtin.module
    i1 i32 index f16 bf16 f32 f64 f8E4M3FN none memref tensor vector strided affine_map array dense loc #map
"""
TYPES = """
    memref<?x?xf16> memref<?x?xbf16> memref<?x?xf32> memref<16x16xf32> memref<64x?xbf16> memref<?x128xbf16>
    memref<*xf32> memref<?xbf16> memref<0x0xbf16> memref<?x?xbf16,3> memref<?x?xbf16,1> memref<?x?xbf16,"x">
    memref<?x?xbf16,strided<[?,1]>> memref<?x?xbf16,strided<[?,1],offset:?>> memref<?x?xbf16,strided<[-8,1]>>
    memref<?x?xf32,strided<[0,1]>> memref<?x?xbf16,strided<[1,?]>> memref<?x?xbf16,affine_map<(i,j)->(j,i)>>
    memref<4294967296x4294967296xbf16> memref<?x?x?xbf16> memref<?x?xf64> memref<?x?xi8> memref<?x?xindex>
    tensor<4x4xbf16> vector<4x4xbf16> i32 index !llvm.ptr !tile.buffer f32
"""
ATTRIBUTES = """
    transpose_b=true transpose_b=false transpose_b=1 transpose_b="x" alpha=2.0:f32 alpha=0.5 alpha="x" alpha=1
    alpha=0x7F800000:f32 beta=1.0:f32 beta=0x7FC00000:f32 beta=0.0:f32 beta=2.0:f64 color="red" schedule=[]
    schedule={} schedule={block=array<i64:64,64,64>,warps=array<i64:2,2>,stages=3} schedule="fast"
    schedule={block=array<i64:64,64,64>,warps=array<i64:2,2>,stages=3:i8,group=-1}
    schedule={block=array<i64:0,0,0>,warps=array<i64:2,2>,stages=3}
    schedule={block=array<i64:64,64,64>,warps=array<i64:2,2>,stages=300}
    schedule={block=array<i64:64,64,64,64>,warps=array<i64:2>,stages=2}
    schedule={block=array<i64:64,64,32>,warps=array<i64:1,1>,stages=2}
    schedule={block=array<i64:9223372036854775807,64,64>,warps=array<i64:2,2>,stages=2}
"""
LINES = (
    "%c = arith.constant 1 : i32",
    '"tile.matmul"(%A, %B, %D) '
    "{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}"
    " : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()",
    "cf.br ^next\n^next:",
    "scf.if %t { }",
    '"tile.stage"(%A, %B) : (memref<?x?xbf16>, memref<?x?xbf16>) -> ()',
    'gpu.module @m [#nvvm.target<chip = "sm_999">] { }',
)


def _altered(text: str, chance: random.Random) -> str:
    """One to three changes that may still parse: other types, attributes, operands, more operations."""
    types = list(re.finditer(r"memref<[^>]*>", text))
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind = chance.randrange(5)
        if kind < 2:
            old, new = types[chance.randrange(3)], chance.choice(TYPES.split())
            # In the signature and in the operation, or in one of them.
            places = [t for t in types if t[0] == old[0]] if chance.random() < 0.8 else [old]
            for place in reversed(places):
                text = text[: place.start()] + new + text[place.end() :]
            types = list(re.finditer(r"memref<[^>]*>", text)) or types
        elif kind == 2:
            chosen = chance.sample(ATTRIBUTES.split(), chance.randrange(4))
            text = text.replace("{transpose_b = true}", f"{{{', '.join(chosen)}}}")
        elif kind == 3:
            text = text.replace("(%A, %B, %D)", f"({', '.join(chance.choices(('%A', '%B', '%D'), k=3))})")
        else:
            text = text.replace("  return", f"  {chance.choice(LINES)}\n  return")
    return text


def _damaged(text: str, chance: random.Random) -> str:
    """One to three small changes: a token lost, doubled, moved or replaced, a character, a line, the end."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        tokens = TOKEN.findall(text) or [""]
        at, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
        kind = chance.randrange(8)
        if kind == 0:
            tokens[at] = ""
        elif kind == 1:
            tokens[at] *= 2
        elif kind == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind in (3, 4):
            tokens[at] = chance.choice(WORDS.split())
        elif kind == 5:
            tokens.insert(at, f" {chance.choice(WORDS.split())} ")
        elif kind == 6:
            lines = text.split("\n")
            line = chance.randrange(len(lines))
            lines[line : line + 1] = chance.choice(([], [lines[line]] * 2))
            tokens = ["\n".join(lines)]
        else:
            tokens = (
                tokens[: at + 1]
                if chance.random() < 0.3
                else [*tokens[:at], tokens[at][:-1], *tokens[at + 1 :]]
            )
        text = "".join(tokens)
    return text


def mutation(number: int) -> str:
    """The text of one mutation, the same in every run."""
    text = EXAMPLE.read_text("utf-8")
    change = _damaged if number % 2 else _altered
    return change(text[text.index("func.func") :], random.Random(SEED + number))


def _answers() -> list[dict[str, Any]]:
    """What each tool made of each mutation, from a process of its own, which a crash would end."""
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    number = len(answers) // 2
    assert done.returncode == 0, f"died of mutation {number}:\n{mutation(number)}\n{done.stderr[-4000:]}"
    return answers


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """All answers, made once."""
    return _answers()


@pytest.mark.slow
def test_each_mutation_gets_a_result_or_a_diagnostic(answers: list[dict[str, Any]]) -> None:
    assert len(answers) == 2 * COUNT
    for answer in answers:
        shown = f"{answer}\n{mutation(answer['number'])}"
        assert answer["status"] in (0, 1), shown
        assert (answer["status"] == 0) == bool(answer["output"]), shown
        assert (answer["status"] == 1) == bool(re.search(r"^\S.*error: \S", answer["said"], re.MULTILINE)), (
            shown
        )


@pytest.mark.slow
def test_mutations_reach_every_depth(answers: list[dict[str, Any]]) -> None:
    """Else the test above would say little."""
    accepted = [a for a in answers if a["status"] == 0]
    assert {a["tool"] for a in accepted} == {"weft-opt", "weft"}
    assert len(accepted) >= 20
    assert sum("'tile.matmul' op" in a["said"] for a in answers) >= 20


def test_a_crash_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate itself: a process that dies gives no pass."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(AssertionError, match="died of mutation 0"):
        _answers()


def _ask(tool: Callable[[list[str]], int], arguments: list[str]) -> dict[str, Any]:
    """The status, the length of the output, and the messages; an exception is for the parent to see."""
    stdout, stderr = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        status = tool(arguments)
    stdout.seek(0)
    return {"status": status, "output": len(stdout.read()), "said": stderr.getvalue()}


def _serve() -> None:
    from weft.tools import weft, weft_opt

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "mutation.mlir")
        commands = (
            ("weft-opt", weft_opt.main, ["--weft-kernel", str(file)]),
            ("weft", weft.main, ["compile", "--arch", "sm_80", "--emit", "ptx", str(file)]),
        )
        for number in range(COUNT):
            file.write_text(mutation(number), "utf-8")
            for name, tool, arguments in commands:
                faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
                answer = _ask(tool, arguments)
                print(json.dumps({"number": number, "tool": name} | answer), flush=True)


if __name__ == "__main__":
    _serve()
