"""What Python says where a value of a kernel has no such operator or function, in the language's terms."""

import re
import sys
from collections.abc import Mapping

from weft.language.foreign import Foreign

_NOUNS = {
    "Scalar": "a number of the GPU",
    "Place": "an element of an array",
    "Fragment": "a fragment",
    "Buffer": "a buffer",
    "Element": "an element of a buffer",
    "Matrix": "an array",
    "Pending": "a pending product",
    "Range": "w.range",
    "Ring": "a ring",
    "Slot": "a stage",
}
_REMEDIES = {
    "@": "multiply by w.gemm(a, b), of buffers, or of a fragment of 16 bits and a buffer",
    "divmod()": "use // and %",
    "**": "2.0 ** x is w.exp2(x), and b ** x is w.exp2(x * math.log2(b))",
    "int()": "use .to(w.i32)",
    "revers": "count up, and subtract in the loop",
    "Matrix": "load an element by x[i], or a tile by w.load",
    "Buffer": "load it by w.load",
    "Slot": "its buffers are its attributes",
    "Range": (
        "write a loop, 'for i in w.range(n):', in the kernel or a function with @w.inline, or use range of "
        "Python"
    ),
}
# What Python says, and what it refuses to do; groups are names of classes.
_OPERATOR = "'{symbol}' can't be applied to"
_PATTERNS = {
    r"unsupported operand type\(s\) for (?P<symbol>\S+?)=?: '(\w+)' and '(\w+)'": _OPERATOR,
    r"unsupported operand type\(s\) for (?P<symbol>\*\*) or pow\(\): '(\w+)' and '(\w+)'": _OPERATOR,
    r"'(?P<symbol>\S+)' not supported between instances of '(\w+)' and '(\w+)'": _OPERATOR,
    r"bad operand type for unary (?P<symbol>\S): '(\w+)'": _OPERATOR,
    r"bad operand type for (?P<symbol>\w+\(\)): '(\w+)'": "{symbol} can't be applied to",
    r"type (\w+) doesn't define __(?P<symbol>\w+)__ method": "{symbol}() can't be applied to",
    r"'(\w+)' object is not (?P<symbol>revers)ible": "{symbol}ed() can't be applied to",
    r"(?P<symbol>\w+\(\)) argument must be .*, not '(\w+)'": "{symbol} can't be applied to",
    r"object of type '(\w+)' has no len\(\)": "len() can't be applied to",
    r"(?P<symbol>\w+\(\)) expected string .*, but (\w+) found": "{symbol} can't be applied to",
    r"cannot unpack non-iterable (\w+) object": "Python can't unpack",
    r".* argument after \*+ must be .*, not (\w+)": "Python can't unpack",
    r"'(\w+)' object is not an iterator": "Python can't loop over",
    r"unsupported format string passed to (\w+)\.__format__": "Python can't format",
    r"'(\w+)' object is not iterable": "Python can't loop over",
    r"'(\w+)' object is not subscriptable": "Python can't index",
    r"'(\w+)' object is not callable": "Python can't call",
    r"'(\w+)' object does not support item assignment": "Python can't assign elements of",
}
_SIZES = {
    "Matrix": "its sizes are .rows, .columns and .shape",
    "Fragment": "its sizes are .shape",
    "Buffer": "its sizes are .shape",
}
_BY_KIND = {
    "Python can't format": "print it by w.print",
    "Python can't loop over": "loop over w.range",
    "Python can't unpack": "it is one value; use its elements or parts by their indices",
    "Python can't assign elements of": "choose elements by w.where, w.row and w.column",
}


def refusal(error: TypeError) -> str | None:
    """The message about an operator or a function of Python that a value of the language doesn't have; None
    for an error about something else.
    """
    for pattern, text in _PATTERNS.items():
        if (match := re.fullmatch(pattern, str(error))) is None:
            continue
        named = match.groupdict()
        classes = [each for each in match.groups() if each not in named.values()]
        if not any(map(_is_value, classes)):
            return None
        what = text.format(**named)
        operands = " and ".join(_NOUNS.get(each, each) for each in classes)
        return f"{what} {operands}: {_remedy(what, named, classes)}"
    return None


def _is_value(name: str) -> bool:
    """Whether a class of this name is one of the language's."""
    language = sys.modules["weft.language"]
    known = {each.__name__ for each in vars(language).values() if isinstance(each, type)}
    return name in _NOUNS or name in known or name in {each.__name__ for each in _subclasses(Foreign)}


def _subclasses(of: type) -> list[type]:
    direct: list[type] = of.__subclasses__()
    return [found for each in direct for found in (each, *_subclasses(each))]


def _remedy(what: str, named: Mapping[str, str], classes: list[str]) -> str:
    """What to write."""
    by_kind = (text for kind, text in _BY_KIND.items() if what.startswith(kind))
    by_name = (_REMEDIES[each] for each in (named.get("symbol", ""), *classes) if each in _REMEDIES)
    if what.startswith("len()"):
        return _SIZES.get(classes[0], "it has no sizes")
    own = what.partition("()")[0]
    of_w = f"use w.{own}" if own in sys.modules["weft.language"].__all__ else "use the functions of w"
    return next(by_name, next(by_kind, of_w))
