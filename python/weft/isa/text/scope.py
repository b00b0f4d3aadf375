"""What a PTX text declares, block by block: the registers that an instruction sees, and their types."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from weft.isa.computed import computed, make_room
from weft.isa.suggest import did_you_mean
from weft.isa.text.constants import is_real, is_single, value_of
from weft.isa.text.identifiers import NAME, PREDEFINED

_REGISTERS = re.compile(r"\.reg(?:\s*\.align\s+\w+)?(?:\s*\.v([24]))?\s*(\.\w+)\s*(.*)", re.DOTALL)
_VARIABLES = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s*)?\.(shared|global|const|local|param)(?![\w:])"
    r"(?:\s*(?:\.attribute\s*\([^)]*\)|\.align\s+\w+|\.[\w:]+))*\s*(.*)",
    re.DOTALL,
)
_DECLARED = re.compile(rf"\s*({NAME})\s*(?:<\s*(\w+)\s*>\s*)?((?:\[[^]]*\]\s*)*)", re.ASCII)
_VALUE = re.compile(r"\{[^{}]*\}")
_PARAMETERS = re.compile(r"\(([^()]*)\)")
_NAME = re.compile(NAME, re.ASCII)
_SUM = re.compile(rf"({NAME})\s*\+(.+)", re.ASCII | re.DOTALL)
_ELEMENT = re.compile(rf"({NAME})\.([xyzwrgba])", re.ASCII)

# PTX ISA, "Special Registers"; those of several kinds have a number or an axis at their end.
SPECIAL_REGISTERS = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_n?ctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|pm\d(?:_64)?|envreg\d+|globaltimer(?:_lo|_hi)?"
    r"|reserved_smem_\w+|(?:total|aggr|dynamic)_smem_size|current_graph_exec)"
)

UNKNOWN = "any"
"""The kind of a name in a text without declarations: it may be a register of any type."""

UNDECLARED, DISCARDED, SINGLE, REAL, UNREADABLE = "undeclared", "_", "=.f32", "=.f64", "~"
SPECIAL, LONG_SPECIAL = "special", "special64"
"""Kinds of words that are not registers: a name that nothing declares, `_`, floats of two sizes, and what
can't be read; a special register of 32 bits, and one of 64.
"""


_DIGITS, _MOST_DIGITS = "0123456789", 12


class _Declared(NamedTuple):
    """`.reg .v4 .b32 %r<5>`: the kind (`@shared` of a variable), the width (1 for a scalar), and how many
    there are (None for one).
    """

    kind: str
    width: int
    number: int | None


class Scope:
    """The names that are declared at one point of a text. Scopes don't change: a declaration gives a new one.

    `complete`: the text declares all its names, so that another name is a mistake.
    """

    def __init__(self, complete: bool = False) -> None:
        self._complete = complete
        self._depth = 0
        self._before: Scope | None = None
        self._outer: Scope | None = None
        self._here: dict[str, _Declared] = {}
        self._derived: dict[tuple[str, int, bool], Scope] = {}
        self.kinds: dict[str, str] = {}
        """The kinds of words that were asked for."""
        self.signatures: dict[str, str] = {}
        """Those of whole operands, which `weft.isa.text.operands` keeps here."""
        self._suggestions: dict[str, str] = {}

    @classmethod
    def of(cls, text: str) -> "Scope":
        """The scope at the beginning of a text. It is complete if the text declares registers or has
        functions.
        """
        return cls(re.search(r"(?<![\w.%$])\.(?:reg|entry|func)\b", text) is not None)

    def declaring(self, text: str, depth: int = 0, *, opens: bool = False) -> "Scope":
        """The scope after a statement, in as many blocks as `depth`; one that `opens` a block declares its
        parameters, in the block.
        """
        key = text, depth, opens
        scope = self._derived.get(key)
        if scope is None:
            parts = [text]
            if opens:
                parts = [p.strip() for inside in _PARAMETERS.findall(text) for p in inside.split(",")]
            names = dict(name for part in parts for name in _names(part))
            scope = self
            if names:
                scope = Scope(self._complete)
                scope._depth, scope._here = depth, names
                if depth == self._depth:
                    scope._before, scope._outer = self, self._outer
                else:
                    scope._outer = self
            self._derived[key] = scope
        return scope

    @computed
    def _block(self) -> dict[str, _Declared]:
        """What the block has declared so far."""
        parts, scope = [self._here], self
        while scope._before is not None:
            scope = scope._before
            parts.append(scope._here)
        return {name: declared for part in reversed(parts) for name, declared in part.items()}

    def _blocks(self) -> Iterator[dict[str, _Declared]]:
        """The declarations of each enclosing block, the innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope._block
            scope = scope._outer

    def kind(self, word: str) -> str:
        """What a word of an operand is: a register's type (`.b32`, `.v4.b32` for a vector), `!.pred`, `=5`
        for an integer, `@shared` for a variable, `+` and a kind for a name with a constant added to it, or
        one of the kinds above.
        """
        if (kind := self.kinds.get(word)) is None:
            make_room(self.kinds)
            kind = self.kinds[word] = self._kind(word)
        return kind

    def _kind(self, word: str) -> str:
        if word == DISCARDED:
            return word
        if named := self._named(word):
            return named
        if (value := value_of(word)) is not None:
            return f"={value}"
        if is_real(word):
            return SINGLE if is_single(word) else REAL
        if word.startswith("!"):
            return f"!{self.kind(word[1:].strip())}"
        if UNDECLARED in {self._named(name) for name in re.findall(r"[A-Za-z_$%][\w$%.]*", word)}:
            return UNDECLARED
        added = _SUM.fullmatch(word)
        return f"+{self.kind(added[1])}" if added and value_of(added[2]) is not None else UNREADABLE

    def _named(self, word: str) -> str:
        """The kind of a name; nothing for what is none."""
        if declared := self._find(word):
            return declared.kind if declared.width == 1 else f".v{declared.width}{declared.kind}"
        element = _ELEMENT.fullmatch(word)
        if element and (declared := self._find(element[1])) and declared.width > 1:
            return declared.kind if declared.width > "xyzwrgba".index(element[2]) % 4 else UNDECLARED
        if SPECIAL_REGISTERS.fullmatch(word):
            return LONG_SPECIAL if word.endswith("64") else SPECIAL
        if not (_NAME.fullmatch(word) or element):
            return ""
        if word in PREDEFINED:
            return f"={PREDEFINED[word]}"
        return UNDECLARED if self._complete else UNKNOWN

    def _find(self, name: str) -> _Declared | None:
        """The declaration of a name, alone or in a range, in the innermost block that has one."""
        stem = name.rstrip(_DIGITS)
        digits = name[len(stem) :].lstrip("0") or "0"
        number = int(digits) if len(stem) < len(name) and len(digits) < _MOST_DIGITS else None
        for block in self._blocks():
            if declared := block.get(name):
                return declared
            # ptxas takes all digits for the number: what `%r1<5>` declares can't be named.
            many = block.get(f"{stem}<>") if number is not None else None
            if many and number is not None and number < (many.number or 0):
                return many
        return None

    def alike(self, name: str) -> str:
        """A pattern of the registers in the declared range that has this one. It matches the name alone where
        no range has it, or where another declaration's names end in digits after the same stem.
        """
        stem = name.rstrip(_DIGITS)
        stems = [
            declared
            for block in self._blocks()
            for declared in block
            if declared.removesuffix("<>").rstrip(_DIGITS) == stem
        ]
        if stems != [f"{stem}<>"] or not (many := self._find(name)):
            return re.escape(name)
        return re.escape(stem) + _below(many.number or 0)

    def range_of(self, name: str) -> tuple[str, int] | None:
        """The declared range whose stem a name has, and how many registers it has, for messages."""
        stem = name.rstrip(_DIGITS)
        many = next(filter(None, (block.get(f"{stem}<>") for block in self._blocks())), None)
        return (stem, many.number or 0) if many else None

    def suggestion(self, word: str) -> str:
        """`; did you mean 'x'?` with the declared name that an undeclared one is like, or nothing."""
        if (suggestion := self._suggestions.get(word)) is None:
            make_room(self._suggestions)
            names = [
                name.replace("<>", "0")
                for block in self._blocks()
                for name, declared in block.items()
                if declared.kind[0] == "."
            ]
            suggestion = self._suggestions[word] = did_you_mean(word, names)
        return suggestion


def _names(text: str) -> Iterator[tuple[str, _Declared]]:
    """What a declaration declares; that of a range ends in `<>`."""
    if match := _REGISTERS.fullmatch(text):
        width, kind, rest = int(match[1] or 1), match[2], match[3]
    elif match := _VARIABLES.fullmatch(text):
        width, kind, rest = 1, f"@{match[1]}", match[2]
    else:
        return
    while "{" in rest and (shorter := _VALUE.sub("", rest)) != rest:
        rest = shorter
    for part in rest.split(","):
        declared = _DECLARED.fullmatch(part.partition("=")[0])
        if declared is None or (declared[3] and kind[0] == "."):
            continue
        number = value_of(declared[2]) if declared[2] else None
        yield f"{declared[1]}<>" if declared[2] else declared[1], _Declared(kind, width, number)


def _below(bound: int) -> str:
    """A pattern of the numbers from 0 to `bound` - 1 without leading zeros, the longest first."""
    last, patterns = str(bound - 1), []
    for at, digit in enumerate(last):
        if (lowest := int(at == 0 and len(last) > 1)) < int(digit):
            rest = f"[0-9]{{{len(last) - at - 1}}}" if at + 1 < len(last) else ""
            patterns.append(f"{last[:at]}[{lowest}-{int(digit) - 1}]{rest}")
    if len(last) > 1:
        patterns += [f"[1-9][0-9]{{0,{len(last) - 2}}}", "0"]
    return f"(?:{'|'.join((last, *patterns))})"
