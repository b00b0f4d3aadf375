"""Instructions that are spelled almost as the tables spell them, to check the reading of PTX text against
ptxas.

A mutant is a legal form whose modifiers or operands were changed: modifiers of sibling instructions or of
none, other orders, long and short type lists, registers of other types, constants and lists where none
belong. Nothing here asks the tables what is legal.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assembler import Entry

from weft.isa import tables
from weft.isa.family import Family
from weft.isa.text.reader import listed, split_operands
from weft.isa.types import ELEMENT_TYPES

FOREIGN = str.split("""
    rn rz rm rp rna rni rs ftz sat satfinite relu noftz approx full volatile relaxed acquire release weak
    acq_rel cta cluster gpu sys shared shared::cta shared::cluster global local const param param::entry
    generic v2 v4 v8 b2 b4 b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 u4 s4 b1 f16 bf16 tf32 f32 f64
    f16x2 bf16x2 e4m3 e5m2 e3m2 e2m3 e2m1 e4m3x2 ue8m0 ue4m3 popc xor and or not x1 x2 x3 x4 x8 trans row col
    aligned sync async noinc nan NaN abs min max add uni wide hi lo cc L2::128B L1::no_allocate
    L2::cache_hint multicast::cluster multicast::cluster::32b cta_group::1 cta_group::2 cta_group::3 sp
    sp::ordered_metadata block_scale kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf4 kind::f64
    scale_vec::1X scale_vec::2X scale_vec::4X block16 block32 ws ashift collector::a::fill
    collector::a::discard collector::a::lastuse collector::b0::fill collector::b::fill mbarrier::arrive::one
    mbarrier::complete_tx::bytes bulk tensor tile im2col pack::16b unpack::16b m8n8 m16n8k16 m16n8k8 m8n8k4
    m16n16k16 m64n8k16 32x32b 16x64b ld st a b c d down up before_thread_sync foo kind::foo m0n0k0 f17 x0 x
""")
"""Modifiers of other PTX instructions, and some words that are no modifiers."""

KINDS = ("b8", "b16", "b32", "b64", "b128", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f16x2", "f32",
         "f64", "pred")  # fmt: skip
"""The types with which a register may be declared."""

DECLARATIONS = " ".join(
    (
        *(f".reg .{kind} %{kind}_x<256>;" for kind in KINDS),
        ".reg .v2 .b32 %v2_x0; .reg .v4 .b32 %v4_x0; .shared .align 128 .b8 symbol[1024];",
    )
)
"""What the operands of mutants name."""

_CONSTANTS = str.split("""
    0 1 -1 2 3 4 7 16 32 48 512 4294967296 0x10 0b1 1U 1.0 0f3F800000 WARP_SZ _ %undeclared symbol %tid.x
    %clock64 1+1 (1) !%pred_x0 [%b32_x0] {%b32_x0} {%b32_x0,%b32_x1} %v2_x0 %v4_x0
""")

_WORDS = str.split("_ _ _ 0 1 1.0 0f3F800000 0d3FF0000000000000 %tid.x %clock64")


@dataclass(frozen=True)
class Mutant:
    """A changed instruction, the legal form that it comes from, and what was changed."""

    line: str
    entry: Entry
    form: Any
    change: str


def mutants(
    family: Family[Any], count: int, seed: int = 0, *, operands: bool = False, chip: str | None = None
) -> list[Mutant]:
    """`count` different mutants of a family's forms (of those that `chip` has, where it is given), the same
    ones for the same seed; with changes to the operands only, or to the modifiers only.
    """
    rng = random.Random(" ".join(filter(None, (family.name, str(operands), str(seed), chip))))
    forms = [form for form, support in family.table.items() if chip is None or chip in support.chips]
    mutants_by_line: dict[str, Mutant] = {}
    for _ in range(20 * count):
        if len(mutants_by_line) == count:
            break
        form = rng.choice(forms)
        changed = _operands_changed(rng, form) if operands else _opcode_changed(rng, family, form)
        mutants_by_line.setdefault(changed.line, changed)
    return list(mutants_by_line.values())


# Opcodes


def _opcode_changed(rng: random.Random, family: Family[Any], form: Any) -> Mutant:
    """One to three changes to the modifiers; the operands are the form's, or a sibling's."""
    siblings = tables.HEADS[family.name.split(".")[0]]
    other = rng.choice(list(rng.choice(siblings).table))
    head, *tokens = form.ptx.split(".")
    changed = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(_OPCODE_CHANGES)
        changed.append(change.__name__.strip("_"))
        tokens = change(rng, tokens, other.ptx.split(".")[1:])
    shown = other if rng.random() < 0.2 else form
    entry = Entry.of(shown)
    opcode = ".".join((head, *tokens))
    line = f"{opcode} {entry.line.partition(' ')[2]}"
    return Mutant(line, replace(entry, line=line), form, " ".join(changed))


Tokens = list[str]


def _token(rng: random.Random, head: Sequence[str]) -> str:
    return rng.choice((*head, *FOREIGN)) if rng.random() < 0.5 else rng.choice(FOREIGN)


def _insert(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    at = rng.randrange(len(tokens) + 1)
    return [*tokens[:at], _token(rng, other), *tokens[at:]]


def _insert_twice(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    """Two modifiers in a row: long type lists."""
    at = rng.randrange(len(tokens) + 1)
    kind = rng.choice((rng.choice(list(ELEMENT_TYPES)), *(t for t in tokens if t in ELEMENT_TYPES)))
    return [*tokens[:at], kind, kind, *tokens[at:]]


def _remove(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    at = rng.randrange(len(tokens)) if tokens else 0
    return [*tokens[:at], *tokens[at + 1 :]]


def _remove_types(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    """Two types: short lists."""
    positions = [i for i, token in enumerate(tokens) if token in ELEMENT_TYPES]
    gone = set(rng.sample(positions, min(2, len(positions))))
    return [token for i, token in enumerate(tokens) if i not in gone]


def _replace(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    at = rng.randrange(len(tokens)) if tokens else 0
    return [*tokens[:at], _token(rng, other), *tokens[at + 1 :]]


def _replace_alike(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    """A modifier by one of a sibling's that begins alike, a type by a type."""
    at = rng.randrange(len(tokens)) if tokens else 0
    if not tokens:
        return tokens
    old = tokens[at]
    if old in ELEMENT_TYPES:
        alike = list(ELEMENT_TYPES)
    else:
        alike = [token for token in (*other, *FOREIGN) if token[0] == old[0] and token != old]
    return [*tokens[:at], rng.choice(alike or [old]), *tokens[at + 1 :]]


def _repeat(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    at = rng.randrange(len(tokens) + 1)
    return [*tokens[:at], *([rng.choice(tokens)] if tokens else []), *tokens[at:]]


def _shuffle(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    return rng.sample(tokens, len(tokens))


def _move(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    if not tokens:
        return tokens
    rest = list(tokens)
    moved = rest.pop(rng.randrange(len(rest)))
    rest.insert(rng.randrange(len(rest) + 1), moved)
    return rest


def _move_as_sibling(rng: random.Random, tokens: Tokens, other: Tokens) -> Tokens:
    """The sibling's whole opcode, or its second half."""
    at = rng.randrange(len(other) + 1)
    return [*tokens[:at], *other[at:]]


_OPCODE_CHANGES: tuple[Callable[[random.Random, Tokens, Tokens], Tokens], ...] = (
    *(_insert, _insert, _insert_twice, _remove, _remove_types, _replace, _replace_alike, _replace_alike),
    *(_repeat, _shuffle, _move, _move_as_sibling),
)


# Operands


def _operands_changed(rng: random.Random, form: Any) -> Mutant:
    """One or two changes to the operands."""
    entry = Entry.of(form)
    opcode, _, rest = entry.line.removesuffix(";").partition(" ")
    operands = list(split_operands(rest))
    changed = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        change = rng.choice(_OPERAND_CHANGES)
        changed.append(change.__name__.strip("_"))
        operands = change(rng, operands)
    line = f"{opcode} {', '.join(operands)};"
    return Mutant(line, replace(entry, line=line), form, " ".join(changed))


def _any_register(rng: random.Random) -> str:
    return f"%{rng.choice(KINDS)}_x{rng.randrange(2)}"


def _any_operand(rng: random.Random) -> str:
    return rng.choice((_any_register(rng), rng.choice(_CONSTANTS)))


def _lose(rng: random.Random, operands: list[str]) -> list[str]:
    at = rng.randrange(len(operands)) if operands else 0
    return [*operands[:at], *operands[at + 1 :]]


def _add(rng: random.Random, operands: list[str]) -> list[str]:
    at = rng.randrange(len(operands) + 1)
    return [*operands[:at], rng.choice((*operands, _any_operand(rng))), *operands[at:]]


def _swap(rng: random.Random, operands: list[str]) -> list[str]:
    if len(operands) < 2:
        return operands
    i, j = rng.sample(range(len(operands)), 2)
    swapped = list(operands)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    return swapped


def _exchange(rng: random.Random, operands: list[str]) -> list[str]:
    """One operand by another thing altogether."""
    at = rng.randrange(len(operands)) if operands else 0
    return [*operands[:at], _any_operand(rng), *operands[at + 1 :]]


def _retype(rng: random.Random, operands: list[str]) -> list[str]:
    """One register, or all of a list, by registers declared otherwise."""
    if not operands:
        return operands
    at = rng.randrange(len(operands))
    old, kind = operands[at], rng.choice(KINDS)
    if old.startswith("["):
        name = f"[%{kind}_x0]"
    elif old.startswith("{"):
        parts = list(listed(old))
        if rng.random() < 0.5:
            parts = [f"%{kind}_x{i}" for i in range(len(parts))]
        else:
            parts[rng.randrange(len(parts))] = f"%{kind}_x0"
        name = f"{{{', '.join(parts)}}}"
    else:
        name = f"%{kind}_x0"
    return [*operands[:at], name, *operands[at + 1 :]]


def _rebracket(rng: random.Random, operands: list[str]) -> list[str]:
    """Braces or brackets off, on, or others."""
    if not operands:
        return operands
    at = rng.randrange(len(operands))
    inside = operands[at].strip("{}[]")
    text = rng.choice((inside, f"{{{inside}}}", f"[{inside}]", f"[{inside}+16]", f"[{inside} + -4]"))
    return [*operands[:at], text, *operands[at + 1 :]]


def _relist(rng: random.Random, operands: list[str]) -> list[str]:
    """A list with one more, one less, or another thing in it."""
    lists = [i for i, operand in enumerate(operands) if operand.startswith("{")]
    if not lists:
        return _exchange(rng, operands)
    at = rng.choice(lists)
    parts = list(listed(operands[at]))
    first = rng.randrange(len(parts))
    parts[first : first + rng.choice((0, 1, 1))] = rng.choice(([], [_any_operand(rng)], [parts[first]] * 2))
    return [*operands[:at], f"{{{', '.join(parts)}}}", *operands[at + 1 :]]


def _reword(rng: random.Random, operands: list[str]) -> list[str]:
    """One word of a list, or an operand that is none, by what is no register."""
    at, word = rng.randrange(len(operands)) if operands else 0, rng.choice(_WORDS)
    if not operands or not operands[at].startswith("{"):
        return [*operands[:at], word, *operands[at + 1 :]]
    parts = list(listed(operands[at]))
    parts[rng.randrange(len(parts))] = word
    return [*operands[:at], f"{{{', '.join(parts)}}}", *operands[at + 1 :]]


_OPERAND_CHANGES: tuple[Callable[[random.Random, list[str]], list[str]], ...] = (
    *(_lose, _add, _swap, _exchange, _exchange, _retype, _retype, _rebracket, _relist, _relist),
    *(_reword, _reword, _reword),
)
