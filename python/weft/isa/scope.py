"""What a PTX text declares, block by block: the registers that an instruction sees, and their types."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from weft.isa.computed import make_room
from weft.isa.constants import is_real, is_single, value_of
from weft.isa.identifiers import NAME, PREDEFINED
from weft.isa.suggest import did_you_mean

_DECLARATION = re.compile(r"\.reg\s+(?:\.(v[24])\s+)?(\.\w+)\s+([^;(){}]*)")
_DECLARED = re.compile(rf"({NAME})\s*(?:<\s*(\d+)\s*>)?", re.ASCII)
_NAME = re.compile(NAME, re.ASCII)
_SUM = re.compile(rf"({NAME})\s*\+(.+)", re.ASCII | re.DOTALL)
_ELEMENT = re.compile(rf"({NAME})\.([xyzwrgba])", re.ASCII)
_VARIABLE = re.compile(
    r"(?<![^\s(,;{}])\.(shared|global|const|local|param)(?:::\w+)?(?=[\s.])([^;={}()]*)", re.ASCII
)
_LAST_NAME = re.compile(rf"(?<![\w.%$])({NAME})\s*(?:\[[^]]*\]\s*)*$", re.ASCII)

# PTX ISA, "Special Registers"; those of several kinds have a number or an axis at their end.
_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_n?ctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|pm\d(?:_64)?|envreg\d+|globaltimer(?:_lo|_hi)?"
    r"|reserved_smem_\w+|(?:total|aggr|dynamic)_smem_size|current_graph_exec)"
)

UNKNOWN = "any"
"""The kind of a name in a text that declares none: it may be a register of any type."""

UNDECLARED, DISCARDED, SINGLE, REAL, UNREADABLE = "undeclared", "_", "=.f32", "=.f64", "~"
SPECIAL, LONG_SPECIAL = "special", "special64"
"""Kinds of what is no register: a name that nothing declares, `_`, floats of two sizes, and what can't be
read; a special register of 32 bits, and one of 64.
"""


_DIGITS = "0123456789"


class _Registers(NamedTuple):
    """`.reg .v4 .b32 %r<5>`: the type, the width (1 for a scalar), and how many there are (None for one)."""

    type: str
    width: int
    number: int | None


class Scope:
    """The names that are declared at one point of a text. Scopes don't change: a declaration gives a new one.

    `symbols` has the state spaces of the text's variables and parameters by name.
    """

    def __init__(self, symbols: "Symbols", parent: "Scope | None" = None, declaration: str = "") -> None:
        self._symbols = symbols
        self._declared: dict[str, _Registers] = dict(parent._declared) if parent else {}
        self._derived: dict[str, Scope] = {}
        self.kinds: dict[str, str] = {}
        """The kinds of words that were asked for."""
        self.signatures: dict[str, str] = {}
        """Those of whole operands, which `weft.isa.operands` keeps here."""
        self._suggestions: dict[str, str] = {}
        for match in _DECLARATION.finditer(declaration):
            width = int(match[1][1]) if match[1] else 1
            for name, count in _DECLARED.findall(match[3]):
                self._declared[f"{name}<>" if count else name] = _Registers(
                    match[2], width, int(count) if count else None
                )

    def declaring(self, text: str) -> "Scope":
        """The scope after the `.reg` declarations in a text."""
        found = self._derived.get(text)
        if found is None:
            found = self._derived[text] = Scope(self._symbols, self, text)
        return found

    def kind(self, word: str) -> str:
        """What a word of an operand is: a register's type (`.b32`, `.v4.b32` for a vector), `!.pred`, `=5`
        for an integer, `@shared` for a variable, `+` and a kind for a name with a constant added to it, or
        one of the kinds above.
        """
        if (found := self.kinds.get(word)) is None:
            make_room(self.kinds)
            found = self.kinds[word] = self._kind(word)
        return found

    def _kind(self, word: str) -> str:
        if word == DISCARDED:
            return word
        if named := self._named(word):
            return named
        if (value := value_of(word)) is not None:
            return f"={value}"
        if is_real(word):
            return SINGLE if is_single(word) else REAL
        return f"!{self.kind(word[1:].strip())}" if word.startswith("!") else self._expression(word)

    def _named(self, word: str) -> str:
        """The kind of a name; nothing for what is none."""
        if registers := self.registers(word):
            return registers.type if registers.width == 1 else f".v{registers.width}{registers.type}"
        if element := _ELEMENT.fullmatch(word):
            registers = self.registers(element[1])
            if registers and registers.width > "xyzwrgba".index(element[2]) % 4:
                return registers.type
        if _SPECIAL.fullmatch(word):
            return LONG_SPECIAL if word.endswith("64") else SPECIAL
        if not (_NAME.fullmatch(word) or element):
            return ""
        if space := self._symbols.spaces.get(word):
            return f"@{space}"
        if word in PREDEFINED:
            return f"={PREDEFINED[word]}"
        return UNDECLARED if self._symbols.declares else UNKNOWN

    def _expression(self, word: str) -> str:
        if UNDECLARED in {self._named(name) for name in re.findall(r"[A-Za-z_$%][\w$%.]*", word)}:
            return UNDECLARED
        if (added := _SUM.fullmatch(word)) and value_of(added[2]) is not None:
            return f"+{self.kind(added[1])}"
        return UNREADABLE

    def registers(self, name: str) -> _Registers | None:
        """What declares a register, alone or as one of many; None where nothing does."""
        if found := self._declared.get(name):
            return found
        stem = name.rstrip(_DIGITS)
        # `%r1<5>` declares %r10 to %r14: a stem may end in digits.
        for cut in range(len(stem), len(name)):
            many, number = self._declared.get(f"{name[:cut]}<>"), name[cut:]
            if many and (number == "0" or number[0] != "0") and int(number) < (many.number or 0):
                return many
        return None

    def alike(self, name: str) -> str:
        """A pattern of the registers in the declared range that has this one. It matches the name alone where
        no range has it, or where another declaration's names end in digits after the same stem.
        """
        stem = name.rstrip(_DIGITS)
        stems = [declared for declared in self._declared if declared.rstrip("<>").rstrip(_DIGITS) == stem]
        if stems != [f"{stem}<>"] or not (many := self.registers(name)):
            return re.escape(name)
        return re.escape(stem) + _below(many.number or 0)

    def range_of(self, name: str) -> tuple[str, int] | None:
        """The declared range whose stem a name has, and how many registers it has, for messages."""
        stem = name.rstrip(_DIGITS)
        many = self._declared.get(f"{stem}<>")
        return (stem, many.number or 0) if many else None

    def suggestion(self, word: str) -> str:
        """`; did you mean 'x'?` with the declared name that an undeclared one is like, or nothing."""
        if (found := self._suggestions.get(word)) is None:
            make_room(self._suggestions)
            names = [name.replace("<>", "0") for name in self._declared]
            found = self._suggestions[word] = did_you_mean(word, names)
        return found


def _below(bound: int) -> str:
    """A pattern of the numbers from 0 to `bound` - 1 without zeros in front, the longest first."""
    last, found = str(bound - 1), []
    for at, digit in enumerate(last):
        if (lowest := int(at == 0 and len(last) > 1)) < int(digit):
            rest = f"[0-9]{{{len(last) - at - 1}}}" if at + 1 < len(last) else ""
            found.append(f"{last[:at]}[{lowest}-{int(digit) - 1}]{rest}")
    if len(last) > 1:
        found += [f"[1-9][0-9]{{0,{len(last) - 2}}}", "0"]
    return f"(?:{'|'.join((last, *found))})"


class Symbols:
    """The state spaces of all variables and parameters of a text by their names, wherever they are; and
    whether the text declares registers or has functions, so that a name without a declaration is a mistake.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.declares = re.search(r"(?<![\w.%$])\.(?:reg|entry|func)\b", text) is not None
        self._spaces: dict[str, str] | None = None

    @property
    def spaces(self) -> Mapping[str, str]:
        """Read when the first name is asked for that is no register."""
        if self._spaces is None:
            self._spaces = {
                name[1]: match[1]
                for match in _VARIABLE.finditer(self._text)
                for part in match[2].split(",")
                if (name := _LAST_NAME.search(part.strip()))
            }
        return self._spaces
