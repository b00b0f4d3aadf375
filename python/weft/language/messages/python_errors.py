"""Rewrites Python's errors about operators and functions that values of a kernel don't have, and about
parameters that functions of the language don't have, in the language's terms, at the user's line.
"""

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from types import TracebackType

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.language.messages import names
from weft.language.messages.mistakes import not_called
from weft.language.values.foreign import Foreign

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
    "TensorMemory": "a tile in tensor memory",
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
    "TensorMemory": "load it by w.load",
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
    language = sys.modules["weft.language"]
    for pattern, text in _PATTERNS.items():
        if (match := re.fullmatch(pattern, str(error))) is None:
            continue
        named = match.groupdict()
        classes = [each for each in match.groups() if each not in named.values()]
        own = {each.__name__ for each in vars(language).values() if isinstance(each, type)}
        own |= {*_NOUNS, *(each.__name__ for each in _subclasses(Foreign))}
        if own.isdisjoint(classes):
            return None
        refused = text.format(**named)
        operands = " and ".join(_NOUNS.get(each, each) for each in classes)
        return f"{refused} {operands}: {_remedy(refused, named, classes)}"
    return None


def _subclasses(of: type) -> list[type]:
    direct: list[type] = of.__subclasses__()
    return [subclass for each in direct for subclass in (each, *_subclasses(each))]


def _remedy(refused: str, named: Mapping[str, str], classes: list[str]) -> str:
    """The end of a message: the code to write."""
    by_kind = (text for kind, text in _BY_KIND.items() if refused.startswith(kind))
    by_name = (_REMEDIES[each] for each in (named.get("symbol", ""), *classes) if each in _REMEDIES)
    if refused.startswith("len()"):
        return _SIZES.get(classes[0], "it has no sizes")
    own = refused.partition("()")[0]
    of_w = f"use w.{own}" if own in sys.modules["weft.language"].__all__ else "use the functions of w"
    return next(by_name, next(by_kind, of_w))


_CALLED = re.compile(r"(?:[\w.<>]+\.)??(?:(\w+)\.)?(\w+)\(\) (.+)", re.DOTALL)


def complaint(error: TypeError | AttributeError) -> WeftError | None:
    """The error for a call that Python refused because of its arguments, with the function's form, or for a
    name that the language or a value of it doesn't have; None for any other error.
    """
    where, is_own = _raised_at(error.__traceback__)
    message = _missing(error, is_own) if isinstance(error, AttributeError) else _refused(error, is_own)
    if message is None and where is not None and not is_own and "object is not callable" in str(error):
        message = _not_called(error.__traceback__)
    return None if message is None or where is None else WeftError(Diagnostic(message, where))


def _refused(error: TypeError, is_own: bool) -> str | None:
    """The message about a value without an operator of Python, or about a call, outside of Weft, with other
    arguments than the function has.
    """
    if (message := refusal(error)) is not None:
        return message
    match = None if is_own else _CALLED.fullmatch(str(error))
    if match is None or (called := _called(match[1], match[2])) is None:
        return None
    public, function = called
    if match[2] == "__init__":
        return not_called(public)
    instead = names.instead_of_parameter(match[3])
    return f"{public} {match[3]}: write {public}{_form(function)}{instead}"


def _missing(error: AttributeError, is_own: bool) -> str | None:
    """The message about an attribute of the language, or of a value of it, that doesn't exist."""
    language = sys.modules["weft.language"]
    if error.obj is language:
        return str(error)
    if is_own or not isinstance(error.obj, Foreign):
        return None
    functions = [each for each in language.__all__ if each.islower()]
    instead = names.instead_of_attribute(str(error.name), error.obj, functions)
    return f"{error.obj} has no '{error.name}'{instead}"


def _not_called(traceback: TracebackType | None) -> str | None:
    """The message about an attribute of a value of the language that is a number or tuple, and was called."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    frame = traceback.tb_frame
    first, last, begin, end = next(islice(frame.f_code.co_positions(), traceback.tb_lasti // 2, None))
    line = linecache.getline(frame.f_code.co_filename, first or 0)
    part = line.encode()[begin:end].decode() if first == last else ""
    match = re.match(r"(\w+)\.(\w+)\(", part)
    if match is None or not isinstance(frame.f_locals.get(match[1]), Foreign):
        return None
    owner, name = frame.f_locals[match[1]], match[2]
    instead = f"write {match[1]}.{name}"
    if name in ("rows", "columns"):
        instead = (
            "load parts one by one, or choose elements by w.where, w.row and w.column; only buffers have "
            f".{name}(first, count)"
        )
    return f"'{name}' of {owner} can't be called: {instead}"


def _raised_at(traceback: TracebackType | None) -> tuple[Location | None, bool]:
    """The innermost code outside of Weft that was running when an error was raised, and whether Weft's own
    raised it.
    """
    innermost, is_own = None, False
    while traceback is not None:
        is_own = callers.is_hidden(traceback.tb_frame.f_code.co_filename)
        innermost = innermost if is_own else traceback
        traceback = traceback.tb_next
    if innermost is None:
        return None, is_own
    code = innermost.tb_frame.f_code
    _, _, column, _ = next(islice(code.co_positions(), innermost.tb_lasti // 2, None))
    return Location(code.co_filename, innermost.tb_lineno, 1 if column is None else column + 1), is_own


def _called(owner: str | None, name: str) -> tuple[str, Callable[..., object]] | None:
    """The function, or method, of the language with this name of Python's, and its public name. `owner` is
    the method's class, if that is known.
    """
    language = sys.modules["weft.language"]  # which imports this module
    public = {each: getattr(language, each) for each in language.__all__}
    for own, value in public.items():
        if inspect.isfunction(value) and value.__name__ == name:
            return f"w.{own}", value
    classes = {own: value for own, value in public.items() if inspect.isclass(value)}
    for own, value in sorted(classes.items(), key=lambda each: each[1].__name__ != owner):
        method = value.__dict__.get(name)
        if inspect.isfunction(method):
            if owner not in (None, value.__name__) and not name.startswith(
                "__"
            ):  # of a class that isn't public
                return f"x.{name}", method
            return {"__init__": own, "__call__": "w.f32"}.get(name, f"{own}.{name}"), method
    return None


def _form(function: Callable[..., object]) -> str:
    """The parameters of a function, without their types."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(parameters))
