"""How opcodes are spelled: one template prints the opcode of a form, and reads it again.

ptxas takes modifiers in any order, except that types keep theirs among themselves, and so do layouts. So a
template is a head, the words that come first, and parts, each of which owns the modifiers that match its
pattern. Printing joins the modifiers of the parts, in their order. Reading gives each modifier to the first
part that owns it, and collects the values of axes that the parts read.
"""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from weft.isa.computed import computed, make_room
from weft.isa.types import ELEMENT_TYPES

Values = Mapping[str, object]
"""Values of axes, by name."""

SHAPE = r"m\d+n\d+k\d+"
ELEMENT_TYPE = "|".join(ELEMENT_TYPES)
LAYOUT = "row|col"
NUMBER = "0|[1-9][0-9]*"


class Part:
    """Some modifiers of an opcode: they match `pattern`, and stand for values of `axes`.

    Where it `repeats`, a repeated modifier has no further meaning.
    """

    def __init__(self, pattern: str, axes: tuple[str, ...] = (), *, repeats: bool = False) -> None:
        self.pattern, self.axes, self.repeats = pattern, axes, repeats

    def spell(self, values: tuple[object, ...]) -> str:
        """The modifiers, with dots between them; nothing where there is none."""
        raise NotImplementedError

    def read(self, text: str) -> Values | None:
        """The values that modifiers with dots between them spell; None where they spell none."""
        raise NotImplementedError


class Word(Part):
    """A modifier that all forms have, or several in their order. An `optional` one is printed, but may be
    missing where it is read; `also` is another name of it.
    """

    def __init__(self, text: str, *, optional: bool = False, also: str = "") -> None:
        names = [*text.split("."), *filter(None, [also])]
        super().__init__("|".join(map(re.escape, names)), repeats="." not in text)
        self._text, self._read = text, {text, *filter(None, [also]), *([""] if optional else [])}

    def spell(self, values: tuple[object, ...]) -> str:
        return self._text

    def read(self, text: str) -> Values | None:
        return {} if text in self._read else None


class Unnamed(Part):
    """A modifier of no axis, which is read but never printed: one that matches `pattern`, or any
    number of them where it is `optional`.
    """

    def __init__(self, pattern: str, *, optional: bool = False) -> None:
        super().__init__(pattern)
        self._optional = optional

    def spell(self, values: tuple[object, ...]) -> str:
        return ""

    def read(self, text: str) -> Values | None:
        return {} if self._optional or (text and "." not in text) else None


class Flag(Part):
    """A modifier that sets a boolean axis. `also` matches others that are read as this one."""

    def __init__(self, axis: str, text: str = "", *, also: str = "") -> None:
        self._text = text or axis
        super().__init__("|".join(filter(None, (re.escape(self._text), also))), (axis,), repeats=True)

    def spell(self, values: tuple[object, ...]) -> str:
        return self._text if values[0] else ""

    def read(self, text: str) -> Values | None:
        return {self.axes[0]: bool(text)}


class Field(Part):
    """The values of one axis, or of several (names with spaces between them).

    Each of `spellings` is a text with `{}` for each axis and the pattern that their values match, or a text
    without and the value that it stands for. Values are printed by the first that fits them, and read by any.
    Without modifiers the axes have the value `default`, which isn't printed unless `printed`; with no default
    there must be modifiers. `number` axes are integers.

    `each` is the pattern of one modifier where values have dots, or where a modifier on its own doesn't show
    that it belongs here.
    """

    def __init__(
        self,
        axes: str,
        *spellings: tuple[str, object],
        default: object = None,
        printed: bool = False,
        number: bool = False,
        repeats: bool = False,
        each: str = "",
    ) -> None:
        self._spellings = tuple(_Spelling(text, values) for text, values in spellings)
        # No opcode has values that none fits, but messages show them.
        self._any = max(reversed(self._spellings), key=lambda one: not one.constant)
        each = each or "|".join(one.each for one in self._spellings)
        super().__init__(each, tuple(axes.split()), repeats=repeats)
        self._default = None if default is None else default if isinstance(default, tuple) else (default,)
        self._printed, self._number = printed, number

    def spell(self, values: tuple[object, ...]) -> str:
        if values == self._default and not self._printed:
            return ""
        fitting = (one for one in self._spellings if one.fits(values))
        return next(fitting, self._any).spell(values)

    def read(self, text: str) -> Values | None:
        if not text:
            return None if self._default is None else self._named(self._default)
        for one in self._spellings:
            if (values := one.read(text)) is not None:
                return self._named(tuple(int(str(each)) for each in values) if self._number else values)
        return None

    def _named(self, values: tuple[object, ...]) -> Values:
        return dict(zip(self.axes, values, strict=True))


class _Spelling:
    """One text of a field."""

    def __init__(self, text: str, values: object) -> None:
        self.constant = "{}" not in text
        self._text, self._value = text, values
        words = dict.fromkeys(text.split("."))
        self.each = "|".join(re.escape(word).replace(r"\{\}", f"(?:{values})") for word in words)

    # Compiled when first used: most processes read no opcodes.
    @computed
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self._text).replace(r"\{\}", f"({self._value})"))

    @computed
    def _one(self) -> re.Pattern[str]:
        return re.compile("" if self.constant else str(self._value))

    def fits(self, values: tuple[object, ...]) -> bool:
        if self.constant:
            return values == (self._value,)
        return all(self._one.fullmatch(str(value)) for value in values)

    def spell(self, values: tuple[object, ...]) -> str:
        return self._text.format(*values)

    def read(self, text: str) -> tuple[object, ...] | None:
        if (match := self._pattern.fullmatch(text)) is None:
            return None
        return (self._value,) if self.constant else match.groups()


class Template:
    """The opcodes of a class of forms: `head`, then the modifiers of its parts. That of `lead`, if there is
    one, is the first after the head.

    Where a class has several templates, `fixed` are the values that a form has if this one prints it, and
    `when` is a further condition. `repeats` allows a word to be repeated, so that the reader can name it.
    """

    def __init__(
        self,
        head: str,
        *parts: Part,
        lead: Part | None = None,
        fixed: Values | None = None,
        when: Callable[[Any], bool] | None = None,
        repeats: bool = True,
    ) -> None:
        self._head, self._fixed, self._when, self._repeats = head, dict(fixed or {}), when, repeats
        self._key = (head, lead, frozenset(parts), tuple(self._fixed.items()))
        self._printers, self._tail = _printers([lead, *parts] if lead else parts)
        self._parts = parts
        self._owner: _Memo[str, int | None] = _Memo(
            lambda text: next((i for i, one in enumerate(self._patterns) if one.fullmatch(text)), None)
        )
        self._lead = self._reader(lead) if lead else None
        self._readers = tuple(self._reader(part) for part in parts)

    @computed
    def _patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(part.pattern) for part in self._parts]

    def _reader(self, part: Part) -> "_Memo[str, Values | None]":
        """What a part reads in a text of modifiers with a dot before each."""

        def read(text: str) -> Values | None:
            modifiers = text.split(".")[1:]
            if part.repeats and len(modifiers) > 1:
                if not self._repeats:
                    return None
                modifiers = list(dict.fromkeys(modifiers))
            return part.read(".".join(modifiers))

        return _Memo(read)

    def is_read_as(self, other: "Template") -> bool:
        """Whether this template and another read the same, in whatever order they print."""
        return self is other or self._key == other._key

    def prints(self, form: object) -> bool:
        """Whether this template is for a form of its class."""
        if any(getattr(form, axis) != value for axis, value in self._fixed.items()):
            return False
        return self._when is None or self._when(form)

    def spell(self, form: object) -> str:
        """The opcode of a form."""
        return f"{self._head}{''.join([texts[get(form)] for get, texts in self._printers])}{self._tail}"

    def read(self, opcode: str) -> dict[str, Any] | None:
        """The values of the axes in an opcode, legal or not; None where it isn't spelled so."""
        if not opcode.startswith(self._head):
            return None
        begin, *modifiers = opcode[len(self._head) :].split(".")
        if begin:
            return None
        values = dict(self._fixed)
        if self._lead is not None:
            if not modifiers or (led := self._lead[f".{modifiers.pop(0)}"]) is None:
                return None
            values.update(led)
        texts = [""] * len(self._readers)
        for modifier in modifiers:
            if (owner := self._owner[modifier]) is None:
                return None
            texts[owner] += f".{modifier}"
        for reader, text in zip(self._readers, texts, strict=True):
            if (read := reader[text]) is None:
                return None
            values.update(read)
        return values


K = TypeVar("K")
V = TypeVar("V")
_LONGEST_KEPT = 256  # characters of modifiers, more than any legal opcode has


class _Memo(dict[K, V]):
    """A function's results, kept."""

    def __init__(self, function: Callable[[K], V]) -> None:
        self._function = function

    def __missing__(self, key: K) -> V:
        result = self._function(key)
        if not isinstance(key, str) or len(key) <= _LONGEST_KEPT:
            make_room(self)
            self[key] = result
        return result


Printer = tuple[Callable[[object], object], _Memo[object, str]]
"""What takes a form's values of some axes, and the texts for them."""


def _printers(parts: list[Part] | tuple[Part, ...]) -> tuple[list[Printer], str]:
    """What takes a form's values of a part's axes, and the texts for them, which begin with those of parts
    without axes before it; and the text of such parts at the end.
    """
    printers = list[Printer]()
    before = ""
    for part in parts:
        if part.axes:
            printers.append((attrgetter(*part.axes), _Memo(_printer(part, before))))
            before = ""
        elif word := part.spell(()):
            before += f".{word}"
    return printers, before


def _printer(part: Part, before: str) -> Callable[[object], str]:
    single = len(part.axes) == 1

    def text(values: object) -> str:
        word = part.spell(values if isinstance(values, tuple) and not single else (values,))
        return f"{before}.{word}" if word else before

    return text
