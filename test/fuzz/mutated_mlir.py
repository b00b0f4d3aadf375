"""Mutated .mlir of the tests and examples, given to weft-opt, weft compile and weft lint as a user would.

An input begins with a comment: the command. Most mutations keep a text that parses, since they change values
of attributes, types, numbers, operands and operations to others that the corpus has, or to extreme ones.
"""

import atexit
import functools
import io
import os
import random
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import mlir_corpus

SEED = 20261122
_NUMBERS = (
    *("0", "1", "-1", "2", "3", "7", "8", "16", "17", "31", "32", "33", "64", "128", "255", "256", "257"),
    *("1024", "65535", "65536", "2147483647", "2147483648", "4294967296", "1099511627776"),
    *("9223372036854775807", "-9223372036854775808", "18446744073709551615", "99999999999999999999"),
)
_ATTRIBUTES = (
    *("unit", "true", "false", "0", "-1", "1 : i32", "1 : si8", "1.5", "0x7FC00000 : f32", '""', r'"\FF\00"'),
    *('"é"', "array<i32>", "array<si32: 1, 2>", "array<ui64: 1>", "array<i64: -1>", "array<f32: 1.0>"),
    *("array<i1: true>", "array<bf16: 1.0>", "[]", "[1, 2]", "[array<si32: 1>]", "{}", "{a = array<ui8: 1>}"),
    *("dense<1> : tensor<2xi7>", "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>", "@nothing", "i32", "none"),
    *("affine_map<() -> (0)>", "affine_map<(d0, d1) -> (d0 floordiv 0)>", "affine_map<(d0)[s0] -> (s0)>"),
    *("strided<[1, ?], offset: ?>", "#gpu.address_space<workgroup>", "#nvvm.shape<m = 1, n = 1, k = 1>"),
    *('[#nvvm.target<chip = "sm_90a">]', '#tile.layout<"S[(8,8):(8,1)]">', "loc(unknown)", "1 : i128"),
    *("2147483648 : i64", "9223372036854775807 : i64", "array<i32: 2147483647, 1, 1>", "array<i32: 0, 0, 0>"),
)
_TYPES = (
    *(
        "i1",
        "i7",
        "si8",
        "i32",
        "i64",
        "i128",
        "index",
        "f16",
        "bf16",
        "f32",
        "f64",
        "f80",
        "f8E4M3FN",
        "none",
    ),
    *("memref<*xf32>", "memref<f32>", "memref<0x0xbf16>", "memref<?xbf16>", "memref<?x?xbf16, 3>"),
    *("memref<?x?xbf16, strided<[?, ?], offset: ?>>", "memref<?x?xbf16, affine_map<(i, j) -> (j, i)>>"),
    *(
        "memref<4294967296x4294967296xbf16>",
        "memref<2x!llvm.ptr>",
        "memref<4xvector<4xf32>>",
        "memref<4xindex>",
    ),
    *(
        "vector<1xf16>",
        "vector<2xf16>",
        "vector<[4]xf32>",
        "vector<f32>",
        "vector<4x4xbf16>",
        "vector<2xindex>",
    ),
    *("tensor<4x4xf32>", "tuple<i32, f32>", "complex<f32>", "!llvm.ptr", "!llvm.ptr<3>", "!llvm.ptr<7>"),
    *(
        "!llvm.struct<(f32, f32, f32, f32)>",
        "!llvm.struct<()>",
        "!llvm.struct<(index)>",
        "!llvm.array<4 x f32>",
    ),
    *('!llvm.struct<"a", opaque>', "!llvm.void", "!llvm.ptr<99>", "(i32) -> i32", "!gpu.async.token"),
)
_CHIPS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a")
_FLAGS = (
    *("", "--weft-to-instructions", "--weft-to-llvm", "--canonicalize --cse", "--nvvm-to-weft"),
    *("--weft-to-nvvm", "--mlir-print-op-generic", "--mlir-print-debuginfo", "--weft=chip=sm_90a"),
    *("--weft=chip=sm_80", "--weft-kernel=chip=sm_90a", "--select-schedule --outline-matmul --expand-matmul"),
)
_NUMBER = re.compile(r"(?<![\w.%#@$])-?\d+(?![\w.])")
_OPERAND = re.compile(r"%[\w$.-]+")
_WORD = re.compile(r"[%@!#^]?[\w.$]+|->|[^\w\s]")


def make(number: int) -> str:
    """The command and the mutated text of a number."""
    chance = random.Random(SEED * 1_000_003 + number)
    piece = chance.choice(mlir_corpus.pieces(chance.choice(mlir_corpus.KINDS)))
    text = piece.text
    for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 4))):
        change = chance.choices(_CHANGES, _WEIGHTS)[0]
        text = change(text, chance)
    return f"// COMMAND: {_command(piece, chance)}\n{text}"


def _command(piece: mlir_corpus.Piece, chance: random.Random) -> str:
    kind = chance.randrange(10) if "kernel" not in piece.text else 5 + chance.randrange(5)
    arch = f" --arch {chance.choice(_CHIPS)}" if chance.random() < 0.7 else ""
    if kind < 5:
        own = [" ".join(flags) for flags in piece.flags]
        flags = chance.choice(own) if own and chance.random() < 0.6 else chance.choice(_FLAGS)
        return (
            f"weft-opt {flags}".replace("--verify-diagnostics", "").replace("--split-input-file", "").strip()
        )
    if kind < 8:
        return f"weft compile --emit {chance.choice(('llvm', 'llvm', 'llvm', 'mlir', 'launch'))}{arch}"
    return f"weft lint{arch}{chance.choice(('', ' --json'))}"


# Changes


def _attribute(text: str, chance: random.Random) -> str:
    """Another value of an attribute: one that the attribute has elsewhere, or any, or an odd one."""
    if not (found := mlir_corpus.attributes(text)):
        return text
    name, begin, end = chance.choice(found)
    known = mlir_corpus.values()
    pools = (known.attributes.get(name, ["unit"]), known.every_attribute, _ATTRIBUTES)
    return text[:begin] + chance.choice(chance.choices(pools, (4, 2, 4))[0]) + text[end:]


def _entry(text: str, chance: random.Random) -> str:
    """An attribute more, or one less."""
    if not (found := mlir_corpus.attributes(text)):
        return text
    name, begin, end = chance.choice(found)
    start = begin - len(name) - 3
    if chance.random() < 0.4:
        after = end + 2 if text.startswith(", ", end) else end
        return text[:start] + text[after:]
    known = mlir_corpus.values().attributes
    new = chance.choice(sorted(known))
    value = chance.choice((*known[new], chance.choice(_ATTRIBUTES)))
    return f"{text[:start]}{new} = {value}, {text[start:]}"


def _type(text: str, chance: random.Random) -> str:
    """Another type, everywhere or in one place."""
    if not (found := mlir_corpus.types(text)):
        return text
    begin, end = chance.choice(found)
    old = text[begin:end]
    new = chance.choice(
        (chance.choice(mlir_corpus.values().types), chance.choice(_TYPES), _varied(old, chance))
    )
    if chance.random() < 0.9:  # otherwise the value's other uses have another type
        return text.replace(old, new)
    return text[:begin] + new + text[end:]


def _varied(kind: str, chance: random.Random) -> str:
    """The type with another number or element in it."""
    if chance.random() < 0.5:
        return re.sub(r"\d+|\?", lambda m: m[0] if chance.random() < 0.5 else chance.choice(_NUMBERS), kind)
    return re.sub(r"\b(?:bf16|f16|f32|i32|i8)\b", chance.choice(_TYPES[:14]), kind)


def _number(text: str, chance: random.Random) -> str:
    """Another number: a near one, or an extreme one."""
    if not (found := list(_NUMBER.finditer(text))):
        return text
    match = chance.choice(found)
    value = int(match[0])
    near = (value + 1, value - 1, value * 2, value // 2, -value)
    new = str(chance.choice(near)) if chance.random() < 0.4 else chance.choice(_NUMBERS)
    if chance.random() < 0.2:
        return re.sub(rf"(?<![\w.%#@$]){re.escape(match[0])}(?![\w.])", new, text)
    return text[: match.start()] + new + text[match.end() :]


def _operand(text: str, chance: random.Random) -> str:
    """Another value as an operand, or two exchanged."""
    if len(found := list(_OPERAND.finditer(text))) < 2:
        return text
    one, other = sorted(chance.sample(found, 2), key=lambda match: match.start())
    if chance.random() < 0.7:
        return text[: other.start()] + one[0] + text[other.end() :]
    between = text[one.end() : other.start()]
    return text[: one.start()] + other[0] + between + one[0] + text[other.end() :]


def _string(text: str, chance: random.Random) -> str:
    """Another string."""
    if not (found := list(mlir_corpus.STRING.finditer(text))):
        return text
    match = chance.choice(found)
    odd = ('""', r'"\FF"', '"é"', '"S[(8,8):(8,1)]"', '"a\\00b"', '"' + "x" * 3000 + '"')
    new = chance.choice(mlir_corpus.values().strings) if chance.random() < 0.8 else chance.choice(odd)
    return text[: match.start()] + new + text[match.end() :]


def _operation(text: str, chance: random.Random) -> str:
    """Another operation of the dialect, with the same operands."""
    dialects = mlir_corpus.values().operations
    found = [
        (match, group, dialect)
        for match in mlir_corpus.OPERATION.finditer(text)
        for group in [1 if match[1] else 2]
        if (dialect := match[group].partition(".")[0]) in dialects  # comments name PTX instructions, too
    ]
    if not found:
        return text
    match, group, dialect = chance.choice(found)
    new = chance.choice(dialects[dialect])
    return text[: match.start(group)] + new + text[match.end(group) :]


def _line(text: str, chance: random.Random) -> str:
    """A line more, less, or elsewhere."""
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, re.sub(r"^(\s*)%[\w$.-]+", rf"\1%again{at}", lines[at]))
    elif kind == 2:
        lines.insert(other, lines.pop(at))
    else:
        new = chance.choice(mlir_corpus.values().lines)
        operands = _OPERAND.findall(text) or ["%none"]
        _, equals, rest = new.partition(" = ")
        if new.lstrip().startswith("%") and equals:
            new = f"%new{at} = " + _OPERAND.sub(lambda _: chance.choice(operands), rest)
        else:
            new = _OPERAND.sub(lambda _: chance.choice(operands), new)
        lines.insert(at, new)
    return "\n".join(lines)


def _damage(text: str, chance: random.Random) -> str:
    """A token lost, doubled or moved: most such texts don't parse."""
    if not (found := list(_WORD.finditer(text))):
        return text
    match, other = chance.choice(found), chance.choice(found)
    return text[: match.start()] + chance.choice(("", match[0] * 2, other[0])) + text[match.end() :]


_CHANGES = (_attribute, _entry, _type, _number, _operand, _string, _operation, _line, _damage)
_WEIGHTS = (24, 8, 16, 20, 5, 10, 6, 6, 1)

# Attempts

_folder = ""
_CONTEXT_USES = 64
_contexts: list[Any] = []


def begin() -> None:
    """Imports what the tools import, and makes the directory in which attempts run."""
    global _folder
    from weft import dialects
    from weft.compiler import codegen, stages  # noqa: F401
    from weft.launch import kernel, runtime  # noqa: F401
    from weft.tools import compile, findings, opt, source, weft, weft_opt  # noqa: F401

    # Making one takes longer than most attempts.
    new = dialects.context
    for module, name in (
        (dialects, "context"),
        (stages, "new_context"),
        (opt, "new_context"),
        (source, "context"),
    ):
        setattr(module, name, functools.partial(_context, new))
    os.environ["WEFT_SCHEDULES"] = ""
    for kind in mlir_corpus.KINDS:
        mlir_corpus.pieces(kind)
    mlir_corpus.values()
    _folder = tempfile.mkdtemp(prefix="weft-fuzz-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)


def _context(new: Callable[[], Any]) -> Any:
    """A context that some attempts in this process have used, or a new one."""
    if len(_contexts) in (0, _CONTEXT_USES):
        _contexts[:] = [new()]
    else:
        _contexts.append(_contexts[0])
    return _contexts[0]


def attempt(text: str) -> str:
    """Runs the tool in this process; whether it accepted the text or refused it."""
    return _outcome(text, _run)


def after_death(text: str) -> str:
    """Runs the tool as its script does, in a process of its own; where it told that MLIR has crashed."""
    return _outcome(text, _run_supervised)


def _outcome(text: str, run: Callable[[str, list[str]], tuple[int, str]]) -> str:
    first = text.partition("\n")[0]
    tool, *arguments = shlex.split(first.removeprefix("// COMMAND: "))
    os.chdir(_folder)
    file = Path("input.mlir")
    file.write_text(text, "utf-8", errors="surrogatepass")
    status, said = run(tool, [*arguments, file.name])
    for left in Path().glob("weft-crash-*"):
        left.unlink()
    assert status in (0, 1, 2), f"status {status}\n{said}"
    assert "Traceback" not in said and "internal error" not in said, said
    if crash := re.search(r"MLIR crashed \((\w+)\) while (.*?); this is", said):
        return f"crash told: {crash[1]} {re.sub(r'{.*}', '', crash[2])}"
    # What lint finds illegal it says on stdout.
    assert status == 0 or "error: " in said or (tool, arguments[:1], status) == ("weft", ["lint"], 1), said
    if status == 0:
        return "accepted"
    return "refused by an operation" if re.search(r"error: '[\w.]+' op", said) else "refused"


def _run(tool: str, arguments: list[str]) -> tuple[int, str]:
    """The status of a tool, and what it printed to stderr."""
    from weft.tools import weft, weft_opt

    main: Any = weft_opt.main if tool == "weft-opt" else weft.main
    stdout, stderr = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        return main(arguments), stderr.getvalue()


def _run_supervised(tool: str, arguments: list[str]) -> tuple[int, str]:
    """As `_run`, with what supervises the process of a tool."""
    from weft.tools import supervisor

    with tempfile.TemporaryFile("w+") as said, redirect_stderr(said):

        def body() -> int:
            status, words = _run(tool, arguments)
            said.write(words)
            said.flush()
            return status

        process = os.getpid()
        status = supervisor.supervised(tool, body)
        if os.getpid() != process:  # the tool's own
            os._exit(status)
        said.seek(0)
        return status, said.read()
