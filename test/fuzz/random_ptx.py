"""Random programs of PTX's scalar instructions: the emulator's interpreter and its compiled code agree.

A program is lines of integer, bit, floating-point, conversion, predicate, packed and memory instructions, and
forward branches. Each thread has its own registers and 32 bytes of each memory; what they have in the end is
the result. An input is several programs of one kernel; a comment before each has the number that its first
registers depend on.
"""

import functools
import itertools
import random
import re
from typing import Any

import everywhere
from everywhere import begin
from ptx_forms import FIRST_CHIPS, FORMS

__all__ = ["attempt", "begin", "make"]

THREADS = 64
TOGETHER = 12
"""The programs of an input."""
REGISTERS = {"h": 4, "r": 6, "d": 4, "p": 3}
"""How many registers of 16, 32 and 64 bits, and predicates, a program has."""
BITS = {"d": 64, "r": 32, "h": 16}
GIVEN_BYTES, MEMORY_BYTES, RESULT_BYTES = 64, 32, 112
"""Of a thread: its first registers; its part of a memory; its registers, predicates and part of the global
memory in the end.
"""
_MARK = "// program "
WAYS = (
    ("the interpreter", False, True),
    ("compiled code", True, False),
    ("compiled code with the sanitizer", True, True),
)

_BASES = {"shared": "%shared", "local": "%local", "global": "%global"}


def alternatives(opcode: str) -> list[str]:
    """The opcodes that the braces of one list."""
    parts = re.split(r"\{([^}]*)\}", opcode)
    return ["".join(chosen) for chosen in itertools.product(*(part.split(",") for part in parts))]


@functools.cache
def _lines(chip: int) -> dict[str, list[list[tuple[list[str], str]]]]:
    """The lines of each kind that a chip has: for each step, its opcodes and operands."""

    def has(opcode: str) -> bool:
        return all(first <= chip or re.search(pattern, opcode) is None for pattern, first in FIRST_CHIPS)

    found: dict[str, list[list[tuple[list[str], str]]]] = {}
    for kind, text in FORMS.items():
        for line in text.strip().splitlines():
            steps = [step.split(maxsplit=1) for step in line.split(";")]
            known = [(list(filter(has, alternatives(opcode))), operands) for opcode, operands in steps]
            if all(opcodes for opcodes, _ in known):
                found.setdefault(kind, []).append(known)
    return found


class Program:
    """A random program for a chip's number; `kinds` are those of its instructions."""

    def __init__(self, chance: random.Random, chip: int = 90, kinds: tuple[str, ...] = tuple(FORMS)) -> None:
        self._chance, self._kinds, self._known = chance, kinds, _lines(chip)
        self._recent: dict[str, list[int]] = {kind: [] for kind in REGISTERS}
        self.lines: list[str] = []
        """Its instructions and labels."""
        until, labels = 0, 0
        for left in range(chance.randint(5, 16), 0, -1):
            if until == 0 and left > 2 and chance.random() < 0.07:
                labels, until = labels + 1, chance.randint(1, left - 1)
                self.lines.append(f"{self._guard(1.0)}bra L{labels};")
            self.lines.append(self._instruction())
            if until > 0 and (until := until - 1) == 0:
                self.lines.append(f"L{labels}:")
        if until:
            self.lines.append(f"L{labels}:")

    def _instruction(self) -> str:
        # As many of each kind, and of each line of it, however many alternatives that lists.
        kind = self._chance.choice(self._kinds)
        steps = self._chance.choice(self._known[kind])
        guard = self._guard(0.12)
        return " ".join(guard + self._step(step) for step in steps)

    def _step(self, step: tuple[list[str], str]) -> str:
        opcode = self._chance.choice(step[0])
        sources, first = [], True
        for operand in step[1].split():
            # The first operand is written, except by stores.
            writes = first and not opcode.startswith("st.")
            sources.append((operand, writes))
            first = False
        read = {
            at: self._operand(operand, opcode) for at, (operand, writes) in enumerate(sources) if not writes
        }
        texts = [
            self._written(operand) if writes else read[at] for at, (operand, writes) in enumerate(sources)
        ]
        return f"{opcode} {', '.join(texts)};"

    def _guard(self, probability: float) -> str:
        if self._chance.random() >= probability:
            return ""
        return f"@{self._chance.choice(('', '!'))}{self._register('p')} "

    def _register(self, kind: str) -> str:
        """A register to read: often one of those that were written last."""
        recent = self._recent[kind]
        if recent and self._chance.random() < 0.6:
            return f"%{kind}{self._chance.choice(recent[-2:])}"
        return f"%{kind}{self._chance.randrange(REGISTERS[kind])}"

    def _written(self, operand: str) -> str:
        left = {kind: list(range(count)) for kind, count in REGISTERS.items()}  # each at most once

        def choose(found: re.Match[str]) -> str:
            kind = found[0]
            number = left[kind].pop(self._chance.randrange(len(left[kind])))
            self._recent[kind].append(number)
            return f"%{kind}{number}"

        return re.sub(r"(?<!%)\b[hrdp]\b", choose, operand)

    def _operand(self, operand: str, opcode: str) -> str:
        if operand in "HRD":
            if self._chance.random() < 0.25:
                return self._constant(opcode, BITS[operand.lower()])
            operand = operand.lower()
        if operand == "n":
            bits = int(re.findall(r"\d+", opcode)[-1])
            return str(self._chance.choice([n for n in _numbers(bits) if n]))
        if operand == "C" and self._chance.random() < 0.7:
            return str(self._chance.choice((0, 1, 5, 8, 16, 31, 32, 33, 63, 64, 255)))
        operand = operand.replace("C", "r")
        if operand == "i":
            return str(self._chance.randrange(256))
        if operand[0] == "@":
            size = int(operand[1:])
            base = _BASES[opcode.split(".")[1]]
            return f"[{base}+{size * self._chance.randrange(MEMORY_BYTES // size)}]"
        return re.sub(r"(?<!%)\b[hrdp]\b", lambda found: self._register(found[0]), operand)

    def _constant(self, opcode: str, bits: int) -> str:
        if ".f32" in opcode or ".f64" in opcode:
            number = self._chance.choice(_edges(bits))
            return f"0f{number:08X}" if bits == 32 else f"0d{number:016X}"
        return str(self._chance.choice([*_numbers(bits), *range(1, 9)]))


def _numbers(bits: int) -> list[int]:
    """Constants of a type, as signed numbers."""
    top = 1 << (bits - 1)
    return [0, 1, 2, 3, 5, 7, 10, 31, 255, -1, -2, -7, top - 1, -top, -top + 1, top // 2, -(top // 2)]


def _edges(bits: int) -> list[int]:
    """Contents of a register at the edges of integers and floating-point formats."""
    top = 1 << bits
    found = {0, 1, 2, 3, 7, 31, 32, 33, 255, top - 1, top - 2, top >> 1, (top >> 1) - 1, (top >> 1) + 1}
    for exponent, fraction in {16: [(5, 10), (8, 7)], 32: [(8, 23)], 64: [(11, 52)]}[bits]:
        infinity, one = ((1 << exponent) - 1) << fraction, ((1 << (exponent - 1)) - 1) << fraction
        for value in (infinity, infinity | 1 << (fraction - 1), infinity - 1, one, one + 1, 1 << fraction):
            found |= {value, value | top >> 1}
        found |= {one + (15 << fraction), one + (16 << fraction), one + (31 << fraction), (1 << fraction) - 1}
    if bits > 16:
        halves = [0x7FFF, 0x8000, 0xFFFF, 0x3C00, 0x7C00, 0x3F80, 1, 0]
        found |= {a << 16 | b for a in halves for b in halves}
    return sorted(found)


def given(number: int) -> Any:
    """The first registers of a program's threads, as bytes of each thread."""
    import numpy as np

    rng = np.random.default_rng(number)
    parts = []
    for kind, bits in BITS.items():
        size = THREADS, REGISTERS[kind]
        edges = np.array(_edges(bits), f"u{bits // 8}")
        small = rng.integers(0, 70, size).astype(f"u{bits // 8}")
        whole = rng.integers(0, (1 << bits) - 1, size, f"u{bits // 8}", endpoint=True)
        chosen = rng.integers(0, 4, size)
        values = np.choose(chosen, [whole, small, *[edges[rng.integers(0, len(edges), size)]] * 2])
        parts.append(values.astype(f"u{bits // 8}").view(np.uint8).reshape(THREADS, -1))
    return np.concatenate(parts, axis=1)


def kernel(programs: list[list[str]], name: str = "k") -> str:
    """The PTX of a kernel that runs programs, one after the other, each with its own inputs and results."""
    registers = " ".join(
        f".reg .{'pred' if kind == 'p' else f'b{BITS[kind]}'} %{kind}<{count}>;"
        for kind, count in REGISTERS.items()
    )
    bodies = "".join(_body(number, lines) for number, lines in enumerate(programs))
    return f"""
.visible .entry {name}(.param .u64 given, .param .u64 results)
{{
  .shared .align 16 .b8 shared_bytes[{THREADS * MEMORY_BYTES}];
  .local .align 16 .b8 local_bytes[{MEMORY_BYTES}];
  {registers}
  .reg .b32 %shared, %t, %word, %divisor; .reg .b64 %local, %global, %from, %to;
  mov.u32 %t, %tid.x;
  mov.u32 %shared, shared_bytes; mad.lo.u32 %shared, %t, {MEMORY_BYTES}, %shared;
  mov.u64 %local, local_bytes;
  ld.param.u64 %from, [given]; mad.wide.u32 %from, %t, {GIVEN_BYTES}, %from;
  ld.param.u64 %to, [results]; mad.wide.u32 %to, %t, {RESULT_BYTES}, %to;
{bodies}  ret;
}}
"""


def places() -> list[tuple[str, int, int]]:
    """Registers, with their bits and where they are among the bytes of a thread."""
    found, at = [], 0
    for kind, bits in BITS.items():
        for number in range(REGISTERS[kind]):
            found.append((f"%{kind}{number}", bits, at))
            at += bits // 8
    return found


def _moves(number: int) -> tuple[list[str], list[str]]:
    """The loads of the registers of a program, and the stores of the results."""
    loads, stores, left = [], [], places()
    begins = number * THREADS * GIVEN_BYTES, number * THREADS * RESULT_BYTES
    while left:
        bits, at = left[0][1:]
        count = next(n for n in (4, 2, 1) if n * bits <= 128 and {each[1] for each in left[:n]} == {bits})
        names = f"{{{', '.join(name for name, _, _ in left[:count])}}}"
        del left[:count]
        loads.append(f"ld.global.v{count}.b{bits} {names}, [%from+{begins[0] + at}];")
        stores.append(f"st.global.v{count}.b{bits} [%to+{begins[1] + at}], {names};")
    stores.append("mov.b32 %word, 0;")
    for each in range(REGISTERS["p"]):
        loads.append(f"and.b32 %divisor, %t, {1 << each}; setp.ne.u32 %p{each}, %divisor, 0;")
        stores.append(f"@%p{each} or.b32 %word, %word, {1 << each};")
    return loads, [*stores, f"st.global.b32 [%to+{begins[1] + GIVEN_BYTES}], %word;"]


def _body(number: int, lines: list[str]) -> str:
    text, (first, last) = "\n  ".join(lines), _moves(number)
    first.append(f"add.u64 %global, %to, {number * THREADS * RESULT_BYTES + RESULT_BYTES - MEMORY_BYTES};")
    for base in _BASES.values():
        if base in text or base == "%global":
            space = base[1:]
            first += [f"st.{space}.v2.b64 [{base}+{at}], {{%d{at // 8}, %d1}};" for at in (0, 16)]
    return "  {\n  " + "\n  ".join([*first, text, *last]) + "\n  }\n"


def programs(text: str) -> list[tuple[int, list[str]]]:
    """The programs of an input: the numbers of their first registers, and their lines."""
    found: list[tuple[int, list[str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith(_MARK):
            found.append((int(line.removeprefix(_MARK)), []))
        elif found:
            found[-1][1].append(line)
    return found


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    lines = [everywhere.chip_line(chance)]
    chip = int(re.findall(r"\d+", lines[0])[0])
    for each in range(TOGETHER):
        lines += [f"{_MARK}{number * TOGETHER + each}", *Program(chance, chip).lines]
    return "\n".join(lines)


def head(chip: str) -> str:
    """The directives of a module for a chip."""
    from weft.isa.chips import CHIPS

    version = max(CHIPS[chip].ptx, (8, 6))
    return f".version {version[0]}.{version[1]}\n.target {chip}\n.address_size 64\n"


def attempt(text: str) -> str:
    """Runs the programs on both paths of the emulator. On an H200, half of the inputs differ: they contain
    instructions that LLVM doesn't use and that ptxas compiles wrong (`weft.compiler.ptxas_faults`), and NaNs
    whose payloads it doesn't keep.
    """
    import numpy as np

    from weft import emulator
    from weft.compiler import ptxas

    chip, _, assembled = text.partition("\n")[0].removeprefix("# ").partition(", ")
    found = programs(text)
    ptx = head(chip) + kernel([lines for _, lines in found])
    first = np.concatenate([given(number) for number, _ in found])
    module, results = emulator.Module(ptx), {}
    # Where the sanitizer looks closer, compiled code leaves a block to the interpreter.
    for name, compiled, sanitize in WAYS if assembled else WAYS[:2]:
        out = results[name] = np.zeros((len(found), THREADS, RESULT_BYTES), np.uint8)
        options = {"compiled": compiled, "sanitize": sanitize, "threads": 1}
        report = module.launch("k", block=THREADS, args=[first, out], **options)
        assert not report.findings, report.findings
    if assembled and not everywhere.has_driver():  # a GPU's toolkit may have no ptxas for older chips
        assert ptxas.assemble(ptx, chip).cubin
    for name, out in results.items():
        difference = first_difference(text, results["the interpreter"], out)
        assert not difference, f"on {name}, {difference}"
    return "agreed"


def first_difference(text: str, expected: Any, found: Any) -> str:
    """The first register that has another value in the end than expected; empty: none."""
    import numpy as np

    if np.array_equal(expected, found):
        return ""
    at, thread, byte = (int(x) for x in np.argwhere(expected != found)[0])
    number, lines = programs(text)[at]
    name, bits, begin = next(
        (place for place in places() if place[2] <= byte < place[2] + place[1] // 8),
        (f"byte {byte - GIVEN_BYTES} of predicates and memory", 8, byte),
    )
    got, want = (
        int.from_bytes(x[at, thread, begin : begin + bits // 8].tobytes(), "little")
        for x in (found, expected)
    )
    program = "\n".join(lines)
    return f"{name} of thread {thread} of program {number} is {got:#x}, not {want:#x}:\n{program}"
