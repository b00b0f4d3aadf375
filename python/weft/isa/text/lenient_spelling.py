"""What ptxas accepts in the spelling of an opcode beyond the templates: repeated and ignored modifiers."""

import re
from collections.abc import Iterable

REPEATABLE = frozenset({"sync", "satfinite", "NaN"})
"""Modifiers that may stand twice in an opcode, which then means what it does with one of them."""

SINCE = {"shared::cta": (7, 8)}
"""The first PTX versions with these names, which have older synonyms (`.shared`)."""

_PACKED = ("b8x16", "b6x16_p32", "b4x16_p64")
_LAYOUTS = ("row", "col")
_OBJECTS = ("pred", "texref")
_NARROW = ("b4", "u4", "s4", "b1", "bf16", "tf32", "bf16x2", "s2", "u2")

SOMETIMES_IGNORED = frozenset({"v2", "v4", "v8", "b2", *_NARROW})
"""What ptxas ignores in some contexts: a type after a full list of types, the size of a vector operand."""

DEFAULTS = {"wmma.load": "f16"}
"""Modifiers that ptxas 12.9 allows to be left out, and assumes."""

#  The first words of the opcode, and what ptxas 13.5 accepts anywhere in it and ignores.
_IGNORED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("wmma.mma", (*_PACKED, *_OBJECTS)),
    ("wmma", _PACKED),
    ("mma", _PACKED),
    ("ldmatrix", (*_LAYOUTS, *_OBJECTS)),
    ("stmatrix", ("b2", *_LAYOUTS, *_PACKED)),
    ("movmatrix", ("b2", *_LAYOUTS, *_PACKED, *_NARROW)),
    ("wgmma.mma_async", (*_LAYOUTS, *_PACKED, *_OBJECTS)),
    ("wgmma", ("b2", *_PACKED)),
    ("tcgen05.ld.spcompress", (*_LAYOUTS, *_PACKED, *_OBJECTS)),
    ("tcgen05.ld.red.spcompress", (*_LAYOUTS, *_PACKED, *_OBJECTS)),
    ("tcgen05.ld", ("b2", *_LAYOUTS, *_PACKED)),
    ("tcgen05.st", ("b2", *_LAYOUTS, *_PACKED)),
    ("tcgen05.cp", ("b2", *_LAYOUTS)),
    ("tcgen05", ("b2", *_PACKED)),
)


def ignored(opcode: str) -> tuple[str, ...]:
    """The modifiers that ptxas ignores in instructions that begin as `opcode` does; no PTX ISA has them."""
    return next((tokens for head, tokens in _IGNORED if re.match(rf"{head}(\.|::|$)", opcode)), ())


def without(opcode: str, tokens: Iterable[str]) -> str:
    """The opcode without any of these modifiers."""
    gone = set(tokens)
    head, *rest = opcode.split(".")
    return ".".join((head, *(token for token in rest if token not in gone)))


def once(opcode: str) -> str:
    """The opcode without repetitions of the modifiers that may be repeated."""
    parts = opcode.split(".")
    return ".".join(p for i, p in enumerate(parts) if p not in REPEATABLE or p not in parts[:i])


def since(opcode: str) -> tuple[int, int]:
    """The first PTX version that has the names of all modifiers in an opcode, apart from the tables'
    versions.
    """
    return max(SINCE.get(token, (0, 0)) for token in opcode.split("."))
