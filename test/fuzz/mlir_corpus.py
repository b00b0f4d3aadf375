"""Valid .mlir from the tests and examples, in pieces, and the values in them."""

import functools
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SPLIT = re.compile(r"^// -----.*\n", re.MULTILINE)
_RUN = re.compile(r"^// RUN: .*?weft-opt %s(?P<flags>(?: --?[\w-]+(?:=[^\s'\x22]+)?(?!\S))*)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*\n|\s*// (?:expected|CHECK).*$", re.MULTILINE)
_TOP = re.compile(r"^(?=(?:func\.func|gpu\.module|module|llvm\.func|builtin\.module)\b)", re.MULTILINE)
_ALIAS = re.compile(r"^[#!]\w+ = .*\n", re.MULTILINE)
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
ATTRIBUTE = re.compile(r'(?<![\w%!#."])([A-Za-z_][\w.]*) = ')
TYPE = re.compile(
    r"(?:memref|vector|tensor|tuple|!\w+(?:\.\w+)*)<|!\w+(?:\.\w+)+|\b(?:[su]?i\d+|bf16|f\d+\w*|index)\b"
)
STRING = re.compile(r'"[^"\n]*"')
OPERATION = re.compile(r'"([a-z]\w*\.[\w.]+)"|(?<![\w"%@!#.])([a-z]\w*\.[a-z][\w.]*)(?= )')


@dataclass(frozen=True)
class Piece:
    """A text of a test or an example, and the flags that the test runs weft-opt with."""

    text: str
    flags: tuple[tuple[str, ...], ...]


def end_of(text: str, at: int, stops: str) -> int:
    """Where the value that begins at `at` ends: before one of `stops` outside of its brackets and strings."""
    within: list[str] = []
    while at < len(text):
        character = text[at]
        if character == '"' and (string := STRING.match(text, at)):
            at = string.end()
            continue
        if not within and (character in stops or character in ")]}>\n"):
            return at
        if text.startswith("->", at):
            at += 2
            continue
        if character in _CLOSING:
            within.append(_CLOSING[character])
        elif within and character == within[-1]:
            within.pop()
        at += 1
    return at


def attributes(text: str) -> list[tuple[str, int, int]]:
    """Name, begin and end of the value of each entry that reads like an attribute."""
    return [(m[1], m.end(), end_of(text, m.end(), ",")) for m in ATTRIBUTE.finditer(text)]


def types(text: str) -> list[tuple[int, int]]:
    """Begin and end of each type, those within others left out."""
    found: list[tuple[int, int]] = []
    for match in TYPE.finditer(text):
        if found and match.start() < found[-1][1]:
            continue
        end = end_of(text, match.end(), "") + 1 if match[0].endswith("<") else match.end()
        found.append((match.start(), end))
    return found


KINDS = ("valid", "valid", "valid", "kernels", "kernels", "kernels", "lowered", "invalid")


@functools.cache
def pieces(kind: str) -> tuple[Piece, ...]:
    """Texts of a kind: "valid" and "invalid" functions and modules of the tests, with the aliases that they
    may need; the valid ones within "kernels"; and "lowered" kernels of a product.
    """
    if kind == "kernels":
        return tuple(_within_kernel(piece) for piece in pieces("valid"))
    if kind == "lowered":
        return _lowered()
    found: dict[str, Piece] = {}
    for file in sorted([*ROOT.glob("test/**/*.mlir"), *ROOT.glob("examples/*.mlir")]):
        refused = "invalid" in file.name or "mistakes" in file.name or "fails" in file.name
        if "fuzz" in file.relative_to(ROOT).parts or refused != (kind == "invalid"):
            continue
        text = file.read_text("utf-8")
        flags = tuple(sorted({tuple(m["flags"].split()) for m in _RUN.finditer(text)}))
        for chunk in _SPLIT.split(text):
            bare = _COMMENT.sub("", chunk)
            aliases = "".join(_ALIAS.findall(bare))
            for top in _TOP.split(_ALIAS.sub("", bare)):
                if top.strip():
                    found.setdefault(top, Piece(aliases + top, flags))
    return tuple(found.values())


def _within_kernel(piece: Piece) -> Piece:
    """A function of a module that has a kernel, too; as it is, where it's no function."""
    if "func.func" not in piece.text or "tile.matmul" in piece.text:
        return piece
    aliases, (_, function) = "".join(_ALIAS.findall(piece.text)), piece.text.split("func.func", 1)
    function = re.sub(r"^(\s*)return\b", r"\1gpu.return", "gpu.func" + function, flags=re.MULTILINE)
    function = function.replace("func.func", "gpu.func").replace("private ", "")
    kernel = "gpu.func @kernel() kernel {\n  gpu.return\n}\n"
    return Piece(f"{aliases}gpu.module @m {{\n{function}{kernel}}}\n", piece.flags)


_PRODUCT = """\
func.func @f(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {{
  "tile.matmul"(%A, %B, %D) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {{{}}}}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}}
"""
_SCHEDULES = {
    "sm_80": "block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2",
    "sm_90a": "block = array<i64: 64, 16, 32>, warpgroups = 1, stages = 2",
}
_STAGES = ("outline-matmul", "expand-matmul", "lower-gemm-async", "lower-roles", "lower-fragments", "cse")


@functools.cache
def _lowered() -> tuple[Piece, ...]:
    """The kernels of two small products after some of the passes."""
    from weft.compiler.stages import compile_module

    made = [compile_module(_PRODUCT.format(text), chip) for chip, text in _SCHEDULES.items()]
    return tuple(Piece(compiled.ir(stage), ()) for compiled in made for stage in _STAGES)


@dataclass(frozen=True)
class Values:
    """What may stand in the place of what."""

    attributes: dict[str, list[str]]
    every_attribute: list[str]
    types: list[str]
    strings: list[str]
    operations: dict[str, list[str]]
    lines: list[str]


@functools.cache
def values() -> Values:
    """All values that the corpus has."""
    named: dict[str, set[str]] = defaultdict(set)
    operations: dict[str, set[str]] = defaultdict(set)
    found: tuple[set[str], ...] = set(), set(), set()
    for piece in (*pieces("valid"), *pieces("invalid")):
        text = piece.text
        for name, begin, end in attributes(text):
            named[name].add(text[begin:end].strip())
        found[0].update(text[begin:end] for begin, end in types(text))
        found[1].update(STRING.findall(text))
        found[2].update(line for line in text.splitlines() if OPERATION.search(line))
        for match in OPERATION.finditer(text):
            operation = match[1] or match[2]
            operations[operation.partition(".")[0]].add(operation)
    listed = {name: sorted(each) for name, each in sorted(named.items())}
    every = sorted({value for each in named.values() for value in each})
    sorts = {name: sorted(each) for name, each in sorted(operations.items())}
    return Values(listed, every, sorted(found[0]), sorted(found[1]), sorts, sorted(found[2]))
