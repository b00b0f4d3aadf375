"""Mistakes in operands that ptxas doesn't report and `weft lint` does, and inputs on which ptxas fails."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from weft.isa.text import scope
from weft.isa.text.reader import Instruction, listed


class Unchecked(NamedTuple):
    """Operands that ptxas accepts beyond PTX, in instructions whose opcodes match `opcodes` at the start (a
    regular expression).

    `checked` returns the nearest operand that PTX allows, or None if the operand isn't such a mistake.
    """

    opcodes: str
    checked: Callable[[Instruction, str], str | None]
    reason: str


_WORD, _LONG = "%b32_x0", "%b64_x0"  # of `mutations.DECLARATIONS`


def _predicate(instruction: Instruction, operand: str) -> str | None:
    return _with_words(instruction, operand, (".pred", "!.pred"))


def _special(instruction: Instruction, operand: str) -> str | None:
    if not operand.startswith("{"):
        return None
    return _with_words(instruction, operand, (scope.SPECIAL, scope.LONG_SPECIAL))


def _long_address(instruction: Instruction, operand: str) -> str | None:
    base = operand[1:-1].partition("+")[0].strip()
    return (
        operand.replace(base, _LONG)
        if operand[0] == "[" and _kind(instruction, base) == scope.LONG_SPECIAL
        else None
    )


def _first_float(instruction: Instruction, operand: str) -> str | None:
    first, *rest = listed(operand)
    return f"{{{', '.join(('0', *rest))}}}" if rest and _kind(instruction, first) == scope.REAL else None


def _with_words(instruction: Instruction, operand: str, kinds: tuple[str, ...]) -> str | None:
    words = [
        word
        if (kind := _kind(instruction, word)) not in kinds
        else _LONG
        if kind == scope.LONG_SPECIAL
        else _WORD
        for word in listed(operand)
    ]
    made = f"{{{', '.join(words)}}}" if operand.startswith("{") else words[0]
    return made if words != list(listed(operand)) else None


def _first(instruction: Instruction, operand: str) -> str | None:
    if operand.startswith("{"):
        return listed(operand)[0]
    return f"{operand}.x" if _kind(instruction, operand)[:2] == ".v" else None


def _zero(instruction: Instruction, operand: str) -> str | None:
    return "0" if re.fullmatch(r"=-?\d+", _kind(instruction, operand)) else None


def _pair(instruction: Instruction, operand: str) -> str | None:
    kind = _kind(instruction, operand)
    is_float = kind in (scope.SINGLE, scope.REAL)
    word = _WORD if is_float else operand
    return f"{{{word}, {word}}}" if is_float or kind[:2] in (".b", ".s", ".u", ".f") else None


def _nothing(instruction: Instruction, operand: str) -> str | None:
    return "" if operand[0] not in "[{" else None


# fmt: off
UNCHECKED = (
    Unchecked("(ldmatrix|mma|movmatrix|wmma|wgmma)", _predicate, "a predicate is no word of a matrix"),
    Unchecked("(ldmatrix|mma|wmma|wgmma.mma_async)", _special, "special registers can't be written"),
    Unchecked("(ldmatrix|stmatrix|wmma|tcgen05)", _long_address, "special registers hold no address"),
    Unchecked(r"mma.sync.aligned.m8n8k16", _first_float, "a float is no word of integers"),
    Unchecked("(mma|wgmma)", _first, "the elements of a list after the first are ignored"),
    Unchecked("(tcgen05|wgmma.wait_group)", _zero, "more bits than the field has"),
    Unchecked("mma.sp", _pair, "one register or float for two registers"),
    Unchecked("tcgen05.mma", _nothing, "a mask of lanes that is no list"),
)
# fmt: on


def alike(instruction: Instruction) -> Iterator[Instruction]:
    """The instruction with one or two operands that ptxas doesn't check made right, in all ways."""
    once = list(_once(instruction))
    yield from once
    for made in once:
        yield from _once(made)


def _once(instruction: Instruction) -> Iterator[Instruction]:
    for one in UNCHECKED:
        if not re.match(one.opcodes, instruction.opcode):
            continue
        for at, operand in enumerate(instruction.operands):
            if (made := one.checked(instruction, operand)) is not None:
                between = (made,) if made else ()
                yield instruction._replace(
                    operands=(*instruction.operands[:at], *between, *instruction.operands[at + 1 :])
                )


def _kind(instruction: Instruction, word: str) -> str:
    return instruction.scope.kind(word) if instruction.scope else ""


# ptxas makes some instructions of others, and fails on these or ends by a signal.
_FAILURES = (
    ("", r"ptxas ended with status -\d+|<builtin>"),
    (r"(mma.sync|wmma.mma)\b", r"instruction '(_mma|add)'"),
    (r"wmma\.mma\b", r"instruction 'mma'"),
    (r"mma\.sync.*\.m16n8k\d+\..*\.f64", r"instruction 'mov'"),
    (r"mma\.s(ync|p).*\.e[45]m[23]\.e[45]m[23]\.f", r"instruction '(mov|add)'"),
    (r"tcgen05\.dealloc", r"instruction 'brkpt'"),
)


def fails(instruction: Instruction, complaint: str) -> bool:
    """Whether a message of ptxas is about code that it generates, not about the instruction itself."""
    return any(
        re.match(opcode, instruction.opcode) and re.search(text, complaint) for opcode, text in _FAILURES
    )
