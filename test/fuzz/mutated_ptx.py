"""Mutates PTX that the emulator runs, and how it is launched: most of it still parses.

Kernels are those that nvcc, Numba and Triton made (test/emulator/ptx), and one for each instruction of the
tables. An input is PTX whose first line is a comment with the launch as JSON.
"""

import functools
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "python"
_LIMIT = 2000  # warp instructions: enough for every kernel's straight parts
_NUMBERS = str.split("""
    0 1 -1 2 3 7 8 15 16 31 32 63 64 127 128 255 256 1023 1024 4095 65535 65536 16777216 0x7fffffff
    0x80000000 0xffffffff 4294967296 0x7fffffffffffffff 0x8000000000000000 0xffffffffffffffff
    18446744073709551616 99999999999999999999999 0f7FC00000 0f7F800000 0fFF800000 0f00000001 0f3F800000
    0d7FF8000000000000 0d7FF0000000000000 0d3FF0000000000000 1.0 -0.0 1e30
""")
_TYPES = str.split("""
    pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 tf32 f32 f32x2 f64 u16x2
    s16x2 e4m3 e5m2 e2m3 e3m2 e2m1 e4m3x2 e5m2x2 e4m3x4 e2m1x2 ue8m0 ue8m0x2 ue4m3 u4 s4 b1 texref
""")
_WORDS = str.split("""
    %tid.x %tid %ctaid %ntid.x %laneid %warpid %clock %clock64 %globaltimer %nctaid.x %cluster_ctarank
    %is_explicit_cluster %dynamic_smem_size %envreg3 %pm0 %lanemask_lt WARP_SZ _ [0] [-1] {} ; , : ( ) !%p1
    @%p1 .param .shared .local .const .global .reg bra ret exit trap brkpt call nanosleep.u32
""")
_SPACES = ("shared", "local", "param", "const", "global", "reg")
_LIMITS = str.split("""
    maxntid reqntid minnctapersm maxnreg reqnctapercluster maxclusterrank explicitcluster blocksareclusters
    pragma noreturn
""")
_CHIPS = (
    "sm_20",
    "sm_70",
    "sm_75",
    "sm_80",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100a",
    "sm_103a",
    "sm_120a",
    "sm_999",
)
_TOKEN = re.compile(
    r"0[fF][0-9a-fA-F]+|0[dD][0-9a-fA-F]+|\d[\w.]*|[%$]?[A-Za-z_][\w$]*|\.[A-Za-z_]\w*(?:::\w+)?|\"[^\"]*\"|\s+|."
)
_LINE = re.compile(r"^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s[^{}]*;$")


def begin() -> None:
    """Imports what the attempts need."""
    for folder in (TESTS, TESTS.parent / "certify"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    import numpy  # noqa: F401

    from weft import emulator  # noqa: F401
    from weft.isa import tables  # noqa: F401
    from weft.tools import findings, weft  # noqa: F401


@functools.cache
def _files() -> list[tuple[str, str]]:
    from emulator_corpus import PTX

    return sorted(tuple(path.name.removesuffix(".ptx.xz").rsplit(".", 1)) for path in PTX.glob("*.xz"))


@functools.lru_cache(maxsize=64)
def _parts(name: str, chip: str) -> tuple[str, dict[str, str]]:
    """A file without its kernels, and its kernels by name."""
    from emulator_corpus import text

    source = re.sub(r"//.*|^\s*\.(?:loc|file)\b.*", "", text(name, chip), flags=re.MULTILINE)
    kernels, rest, at = {}, "", 0
    for found in re.finditer(r"^(?:\.visible )?\.entry (\w+)\(", source, re.MULTILINE):
        depth, end = 0, found.end()
        while not (depth == 1 and source[end] == "}"):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        kernels[found[1]] = source[found.start() : end + 1]
        rest, at = rest + source[at : found.start()], end + 1
    return rest + source[at:], kernels


@functools.cache
def _pool() -> tuple[list[str], list[str]]:
    """Instructions and modifiers of the corpus."""
    lines, modifiers = set(), set()
    for name, chip in _files()[::5]:
        for kernel in _parts(name, chip)[1].values():
            lines |= {line.strip() for line in kernel.split("\n") if _LINE.match(line)}
    for line in lines:
        modifiers |= set(re.findall(r"\.[a-z]\w*(?:::\w+)?", line.split(None, 1)[0]))
    return sorted(lines), sorted(modifiers)


@functools.cache
def _forms() -> list[Any]:
    from weft.isa.tables import FAMILIES

    return [list(family.table.items()) for family in FAMILIES]


def _of_corpus(chance: random.Random) -> tuple[str, str, str, list[Any]]:
    """What stands around a kernel, the kernel, its name and its parameters' types and sizes."""
    while True:
        around, kernels = _parts(*chance.choice(_files()))
        if kernels:
            break
    name = chance.choice(sorted(kernels))
    formals = kernels[name].partition("(")[2].partition(")")[0]
    kinds = [line for line in re.split(r",\s*\n", formals) if ".param" in line]
    found = [re.search(r"\.(b8|[usbf]\d+)\s.*?(?:\[(\d+)\])?$", kind.strip()) for kind in kinds]
    return around, kernels[name], name, [[f[1], int(f[2] or 0)] for f in found if f]


def _of_tables(chance: random.Random) -> tuple[str, str, str, list[Any]]:
    """The same for an instruction of the tables."""
    from assembler import Entry, kernel_text

    form, support = chance.choice(chance.choice(_forms()))
    chips = [chip for chip in _CHIPS if chip in support.chips] or ["sm_100a"]
    around = f".version 8.8\n.target {chips[-1]}\n.address_size 64\n"
    return around, f".visible .entry k {kernel_text(Entry.of(form), '', '')}", "k", [["u64", 0]]


def _mutated(text: str, chance: random.Random) -> str:
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        text = chance.choice((_token, _token, _token, _instruction, _line, _directive, _borrowed))(
            text, chance
        )
    return text


def _token(text: str, chance: random.Random) -> str:
    """Another operand, immediate, modifier or type in one place, of an instruction mostly."""
    lines, places = _lines(text)
    if places and chance.random() < 0.85:
        at = chance.choice(places)
        lines[at] = _other_token(lines[at], text, chance)
        return "\n".join(lines)
    return _other_token(text, text, chance)


def _other_token(text: str, kernel: str, chance: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    solid = [at for at, token in enumerate(tokens) if not token.isspace()]
    if not solid:
        return text
    at = chance.choice(solid)
    token = tokens[at]
    if token.startswith("%") and chance.random() < 0.9:
        names = sorted(set(re.findall(r"%[a-z]\w*", kernel)))
        same = [n for n in names if n.rstrip("0123456789") == token.rstrip("0123456789")]
        tokens[at] = chance.choice((chance.random() < 0.6 and same) or names or [token])
    elif token[0].isdigit() and chance.random() < 0.9:
        tokens[at] = chance.choice(_NUMBERS)
    elif token.startswith(".") and chance.random() < 0.9:
        if token[1:] in _TYPES and chance.random() < 0.7:
            tokens[at] = f".{chance.choice(_TYPES)}"
        else:
            tokens[at] = chance.choice(["", *chance.sample(_pool()[1], 3), token + chance.choice(_pool()[1])])
    else:
        tokens[at] = chance.choice(
            ("", token * 2, chance.choice(_WORDS), chance.choice(_NUMBERS), tokens[chance.choice(solid)])
        )
    return "".join(tokens)


def _lines(text: str) -> tuple[list[str], list[int]]:
    lines = text.split("\n")
    return lines, [at for at, line in enumerate(lines) if _LINE.match(line)]


def _instruction(text: str, chance: random.Random) -> str:
    """One instruction's modifiers or operands changed as a list."""
    lines, places = _lines(text)
    if not places:
        return text
    at = chance.choice(places)
    opcode, _, operands = lines[at].strip().rstrip(";").partition(" ")
    guard = ""
    if opcode.startswith("@"):
        guard, (opcode, _, operands) = opcode + " ", operands.strip().partition(" ")
    name, *modifiers = opcode.split(".")
    given = [each.strip() for each in operands.split(",")]
    kind = chance.randrange(6)
    if kind == 0 and modifiers:
        modifiers.pop(chance.randrange(len(modifiers)))
    elif kind == 1:
        modifiers.insert(chance.randrange(len(modifiers) + 1), chance.choice(_pool()[1])[1:])
    elif kind == 2 and modifiers:
        modifiers[-1] = chance.choice(_TYPES)
    elif kind == 3:
        chance.shuffle(given)
    elif kind == 4:
        given.insert(chance.randrange(len(given) + 1), chance.choice((*_NUMBERS, *given)))
    else:
        given.pop(chance.randrange(len(given)))
    lines[at] = f"{guard}{'.'.join([name, *modifiers])} {', '.join(given)};"
    return "\n".join(lines)


def _line(text: str, chance: random.Random) -> str:
    """A line lost, doubled, moved, or guarded."""
    lines, places = _lines(text)
    any_line = chance.random() < 0.1 or not places
    at, other = (chance.randrange(len(lines)) if any_line else chance.choice(places) for _ in "ab")
    kind = chance.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif predicates := sorted(set(re.findall(r"%p\d+", text))):
        lines[at] = f"@{chance.choice(('', '!'))}{chance.choice(predicates)} {lines[at].strip()}"
    return "\n".join(lines)


def _directive(text: str, chance: random.Random) -> str:
    """A directive of a kernel or of the module."""
    kind = chance.randrange(5)
    number = chance.choice(_NUMBERS)
    if kind == 0:
        space, size = chance.choice(_SPACES), chance.choice(("1", "8", "16", number))
        fresh = f".{space} .align {size} .{chance.choice(_TYPES)} fresh[{number}];"
        return re.sub(r"^\{", f"{{ {fresh}", text, count=1, flags=re.MULTILINE)
    if kind == 1:
        limit = f".{chance.choice(_LIMITS)} {number}, {chance.choice(_NUMBERS)}"
        return re.sub(r"^\{", f"{limit}\n{{", text, count=1, flags=re.MULTILINE)
    if kind == 2:
        return re.sub(r"<(\d+)>", lambda m: f"<{chance.choice((m[1], m[1], number))}>", text)
    if kind == 3:
        return re.sub(r"\[(\d+)\]", lambda m: f"[{chance.choice((m[1], number))}]", text, count=1)
    return re.sub(r"\.align (\d+)", lambda m: f".align {chance.choice((m[1], number))}", text)


def _borrowed(text: str, chance: random.Random) -> str:
    """An instruction of another kernel, with registers of this one."""
    lines, places = _lines(text)
    own = sorted(set(re.findall(r"%[a-z]+\d+", text)))
    if not places or not own:
        return text

    def register(found: re.Match[str]) -> str:
        same = [name for name in own if name.rstrip("0123456789") == found[1]]
        return chance.choice(same or own)

    lines.insert(chance.choice(places), re.sub(r"(%[a-z]+)\d+", register, chance.choice(_pool()[0])))
    return "\n".join(lines)


def make(number: int) -> str:
    """The input of this number."""
    begin()
    chance = random.Random(number)
    around, kernel, name, formals = (_of_corpus if chance.random() < 0.6 else _of_tables)(chance)
    kernel = _mutated(kernel, chance)
    if chance.random() < 0.15:
        around = _mutated(around, chance)
    elif chance.random() < 0.1:
        around = re.sub(r"\.target \w+", f".target {chance.choice(_CHIPS)}", around)
    required = re.search(r"\.reqntid (\d+)", kernel)
    block: Any = int(required[1]) if required else chance.choice((1, 32, 64, 128))
    odd = (
        0,
        -1,
        3,
        7,
        33,
        1024,
        1025,
        2**20,
        2**31 - 1,
        2**40,
        [1, 2, 3],
        [2**16, 1, 1],
        [-1, 1, 1],
        [],
        None,
        "x",
    )
    launch = {
        "kernel": name,
        "args": [[kind, count, chance.choice((4096, 4096, 16, 0))] for kind, count in formals],
        "block": block if chance.random() < 0.9 else chance.choice(odd),
        "grid": chance.choice((1, 2)) if chance.random() < 0.9 else chance.choice(odd),
        "cluster": 1 if chance.random() < 0.9 else chance.choice((*odd, 2)),
        "shared_bytes": chance.choice((0, 1024, 65536)) if chance.random() < 0.9 else chance.choice(odd),
        "seed": chance.choice((None, None, 0, 1)),
    }
    if chance.random() < 0.1:
        chance.shuffle(launch["args"])
    return f"// {json.dumps(launch)}\n{around}{kernel}"


def attempt(text: str) -> str:
    """Lints and runs it."""
    from weft import emulator
    from weft.errors import WeftError

    launch = json.loads(text.partition("\n")[0].removeprefix("// "))
    kernel, args = launch.pop("kernel"), [_argument(*each) for each in launch.pop("args")]
    linted = _lint(text) if len(text) < 6000 else ""
    try:
        emulator.Module(text).launch(kernel, args=args, max_instructions=_LIMIT, **launch)
    except WeftError as error:
        return f"{linted}{type(error).__name__}"
    return f"{linted}ran"


def _argument(kind: str, count: int, size: int) -> Any:
    import numpy as np

    if count:
        return bytes(count)
    if kind in ("u64", "b64"):
        return np.zeros(size, np.uint8)
    return {"f32": 1.0, "f64": 1.0}.get(kind, 3)


def _lint(text: str) -> str:
    from weft.errors import WeftError
    from weft.tools import findings

    try:
        findings.lint_ptx(text)
    except WeftError:
        return "no lint, "
    return ""
