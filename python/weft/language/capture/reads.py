"""The values that a kernel reads from global variables and closures, and from objects that these have.

Its trace contains their values, so a kernel must be traced again when they change.
"""

import dis
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from weft.ir import callers
from weft.language.capture import python_objects
from weft.language.capture.contents import ABSENT, content, held_functions, is_plain
from weft.language.capture.python_objects import Members
from weft.language.capture.rewriting import is_captured

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_IMPORT = "IMPORT_NAME"
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_DEFAULTS = ("__defaults__", "__kwdefaults__")
_OF_ARRAYS = ("shape", "ndim", "size", "strides", "itemsize", "nbytes", "dtype")
_LENGTH = (True, "__len__")
_CALLS = ("PRECALL", "CALL")

Step = tuple[bool, Any]
"""Whether it is an attribute, or an element at a constant index or key; and the name, index or key."""


class Read(NamedTuple):
    """A value that a kernel reads."""

    where: object
    """A dictionary of global variables or modules, a cell, or a function with default values."""
    name: str
    steps: tuple[Step, ...]
    """How the kernel gets from the name's value to the one that it reads."""
    value: object
    """The value that was read, if it can't change in place, otherwise `ABSENT`."""
    content: object


Reads = dict[tuple[int, str, tuple[Step, ...]], Read]


def reads_of(*values: object) -> Reads:
    """The reads of the functions among the values and in them, also in functions that they call and that
    are of the same module, of the user's modules, or have `@w.inline`.
    """
    reads: Reads = {}
    for function in _functions(*values):
        for where, name, steps, value in _values_read(function):
            stays = is_plain(value) or isinstance(value, types.FunctionType)
            read = Read(where, name, steps, value if stays else ABSENT, content(value))
            if read.content is not ABSENT:
                reads[id(where), name, steps] = read
    return reads


def have_changed(reads: Iterable[Read]) -> bool:
    """Whether a value is another one now, or has other contents."""
    for where, name, steps, before, was in reads:
        value = where.get(name, ABSENT) if type(where) is dict else _now(where, name)
        for step in steps:
            value = _after(value, step)
        if value is not before and content(value) != was:
            return True
    return False


def after_trace(before: Reads, *values: object) -> Reads:
    """The reads of `values` after the trace that began with `before`, which may have changed objects."""
    return reads_of(*values) | {key: each for key, each in before.items() if each.value is not ABSENT}


class Around:
    """The values that a kernel function reads and doesn't make, and its meta-parameters."""

    def __init__(self, function: Any, meta: dict[str, object]) -> None:
        self._meta = meta
        self._reads = {
            (id(where), name): (where, name) for each in _functions(function) for where, name in _names(each)
        }
        self._defaults = function.__defaults__, function.__kwdefaults__

    def values(self) -> Members:
        """The values now, by their names; variables of functions around as they are."""
        values: Members = {}
        for where, name in self._reads.values():
            is_variable = isinstance(where, types.CellType)
            values[name] = where if is_variable else _now(where, name)
        return values | self._meta | {"a default value": self._defaults}


def _functions(*values: object) -> Iterator[types.FunctionType]:
    """The functions among and in values, and those that they call."""
    waiting, done = [each for value in values for each in held_functions(value)], set[object]()
    while waiting:
        function = waiting.pop()
        if function in done:
            continue
        done.add(function)
        yield function
        for *_, value in _values_read(function):
            waiting += [
                each
                for each in held_functions(value)
                if each.__globals__ is function.__globals__
                or is_captured(each)
                or python_objects.is_users(each.__module__ or "")
            ]


def _values_read(function: types.FunctionType) -> Iterator[tuple[object, str, tuple[Step, ...], object]]:
    """The reads of a function: where the name is, the name, the steps from its value, and the value there."""
    is_own = callers.is_hidden(function.__code__.co_filename)
    for where, name, steps in _paths(function):
        value = root = _now(where, name)
        taken = list[Step]()
        for step in steps:
            if is_plain(value) or (following := _after(value, step)) is ABSENT:
                break
            value = following
            taken.append(step)
        simple = is_plain(value) or isinstance(value, types.FunctionType)
        of_library = isinstance(root, types.ModuleType) and not python_objects.is_users(root.__name__)
        if is_plain(value) or (not of_library and (simple or not is_own)):
            yield where, name, tuple(taken), value


def _after(value: object, step: Step) -> object:
    """The value after a step, if that runs no code of the value's class."""
    is_attribute, key = step
    if not is_attribute:
        if isinstance(value, dict):
            return dict.get(value, key, ABSENT)
        try:
            return value[key] if isinstance(value, (list, tuple, np.ndarray)) else ABSENT
        except (LookupError, TypeError):
            return ABSENT
    if step == _LENGTH:
        return len(value) if isinstance(value, (*python_objects.CONTAINERS, np.ndarray)) else ABSENT
    if isinstance(value, np.ndarray) or hasattr(type(value), "__dlpack__"):  # such as PyTorch's
        attribute = getattr(value, key, ABSENT) if key in _OF_ARRAYS else ABSENT
        return attribute if key == "dtype" or is_plain(attribute) else ABSENT
    if isinstance(value, types.ModuleType):
        is_weft = value.__name__.partition(".")[0] == "weft"
        return ABSENT if is_weft else vars(value).get(key, ABSENT)
    if isinstance(value, type):
        return getattr(value, key, ABSENT)
    if not python_objects.is_object(value):
        return ABSENT
    own = getattr(value, "__dict__", {})
    if key in own:
        return own[key]
    attribute = next((vars(kind)[key] for kind in type(value).__mro__ if key in vars(kind)), ABSENT)
    if isinstance(attribute, types.MemberDescriptorType):
        return getattr(value, key, ABSENT)
    return ABSENT if hasattr(attribute, "__get__") else attribute


def _now(where: Any, name: str) -> object:
    """The value of a name."""
    if isinstance(where, dict):
        return where.get(name, ABSENT)
    if isinstance(where, types.FunctionType):
        return getattr(where, name)
    try:
        return where.cell_contents
    except ValueError:  # of a cell that is empty
        return ABSENT


def _names(function: types.FunctionType) -> Iterator[tuple[object, str]]:
    """The global variables and cells of a function, and of the functions inside it."""
    yield from zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
    for code in _codes(function):
        yield from ((function.__globals__, name) for name in code.co_names if name in function.__globals__)


def _paths(function: types.FunctionType) -> Iterator[tuple[object, str, tuple[Step, ...]]]:
    """The names that a function and those inside it load, where each is, and the steps after it."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    defaults = *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()
    yield from ((function, name, ()) for name in _DEFAULTS if not is_plain(defaults))
    for code in _codes(function):
        for opcode, name, steps in _loads(code):
            if opcode == _IMPORT:
                yield sys.modules, name, steps
            elif "DEREF" not in opcode:
                yield function.__globals__, name, steps
            elif name in cells:
                yield cells[name], name, steps


@functools.lru_cache(maxsize=1024)
def _loads(code: types.CodeType) -> list[tuple[str, str, tuple[Step, ...]]]:
    """The loads of names in code: the opcode, the name, and the steps after it."""
    every = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    loads, module = list[tuple[str, str, tuple[Step, ...]]](), ""
    for number, each in enumerate(every, 1):
        if each.opname == _IMPORT:
            module = each.argval
        if each.opname == "IMPORT_FROM":
            loads.append((_IMPORT, module, ((True, each.argval),)))
        elif each.opname in (*_LOADS, _IMPORT) and every[number].opname != "IMPORT_FROM":
            of_length = number > 1 and every[number - 2].argval == "len"
            loads.append((each.opname, each.argval, tuple(_steps(every[number:], of_length))))
    return loads


def _steps(following: list[dis.Instruction], of_length: bool) -> Iterator[Step]:
    """The steps of the first instructions that follow a load, of which `len` may get the result."""
    rest = iter(following)
    for each in rest:
        if each.opname in _ATTRIBUTES:
            yield True, each.argval
        elif each.opname in _CONSTANTS and _is_subscript(next(rest, each)):
            yield False, each.argval
        else:
            if of_length and each.opname in _CALLS:
                yield _LENGTH
            return


def _is_subscript(each: dis.Instruction) -> bool:
    return each.opname == "BINARY_SUBSCR" or (each.opname == "BINARY_OP" and each.argrepr == "[]")


def _codes(function: types.FunctionType) -> Iterator[types.CodeType]:
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield code
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
