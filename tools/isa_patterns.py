"""Writes many opcodes as one pattern: `mma.sync.aligned.{m16n8k4,m16n8k8}.row.col.f32.tf32.tf32.f32`."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from weft.isa.types import ELEMENT_TYPES
from weft.tools.isa_rows import shapes

# Modifiers that exclude each other; one that no pattern matches is its own kind, up to its last `::`.
_KINDS = (
    ("shape", r"m\d+n\d+(k\d+)?|\d+x\d+b(x2)?"),
    ("type", rf"{'|'.join(ELEMENT_TYPES)}|u32|b8|b16"),
    ("layout", "row|col"),
    ("num", r"x\d+"),
    ("space", r"shared(::\w+)?|global|tensor"),
    ("fragment", "[abcd]"),
    ("op", "min|max"),
    ("bits", "xor|and"),
    ("rounding", "r[nzmp]"),
    ("pointer", r"p\d"),
    ("group", r"cg\d"),
    ("kind", "mxf8f6f4|mxf4|mxf4nvf4"),
    ("scale_vec", r"scale_vec::\w+|block\d+"),
    ("scale", r"\dx"),
    ("source", r"b\dx16_p\d+"),
    ("sparse", r"sp(::ordered_metadata)?"),
    ("warps", r"warpx\d+(::\w+)?"),
    ("collector", r"collector::b\d::\w+"),
    ("multicast", r"multicast::\S+"),
)


@cache
def _kind(token: str) -> str:
    kind = next((name for name, pattern in _KINDS if re.fullmatch(pattern, token)), None)
    return kind or token.rpartition("::")[0] or token


def pattern(spellings: Iterable[str], most: int = 6) -> str:
    """One text for all spellings: choices in braces, what isn't in all of them in brackets. A choice of more
    than `most` is the name of what is chosen, in capitals.
    """
    tokens = [tuple(spelling.split(".")) for spelling in dict.fromkeys(spellings)]
    kinds = {line: tuple(map(_kind, line)) for line in tokens}
    slots: tuple[str, ...] = ()
    for line in dict.fromkeys(kinds.values()):
        slots = _common(slots, line)
    choices: list[dict[str, int]] = [{} for _ in slots]
    for line in tokens:
        at = 0
        for token, kind in zip(line, kinds[line], strict=True):
            at = slots.index(kind, at) + 1
            choices[at - 1][token] = choices[at - 1].get(token, 0) + 1
    texts = []
    for kind, choice in zip(slots, choices, strict=True):
        if not choice:  # a place that the lines have taken an earlier one for
            continue
        text = _choice(kind, list(choice), most)
        texts.append(f".{text}" if sum(choice.values()) == len(tokens) else f"[.{text}]")
    return "".join(texts).removeprefix(".")


def _choice(kind: str, tokens: Sequence[str], most: int) -> str:
    if len(tokens) == 1:
        return tokens[0]
    if kind == "shape":
        tokens = [re.sub(r" \(.*", "", shape) for shape in shapes(tokens)]
    if len(tokens) == 1:
        return tokens[0]
    if len(tokens) > most:
        return kind.upper()
    common = tokens[0].rpartition("::")[0]
    if common and all(token.rpartition("::")[0] == common for token in tokens):
        return f"{common}::{{{','.join(token.rpartition('::')[2] for token in tokens)}}}"
    return f"{{{','.join(tokens)}}}"


def _common(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The shortest sequence that contains both in order."""
    best: list[list[tuple[str, ...]]] = [[()] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) + 1):
        for j in range(len(second) + 1):
            if i and j and first[i - 1] == second[j - 1]:
                best[i][j] = (*best[i - 1][j - 1], first[i - 1])
            elif i and (not j or len(best[i - 1][j]) <= len(best[i][j - 1])):
                best[i][j] = (*best[i - 1][j], first[i - 1])
            elif j:
                best[i][j] = (*best[i][j - 1], second[j - 1])
    return best[-1][-1]
