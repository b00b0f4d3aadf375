"""Digests of Python values that are equal in every process, and functions that replace Weft's."""

import dataclasses
import enum
import functools
import hashlib
import operator
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any

from weft.ir import bindings

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_BUILTIN = (
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
# In these packages a name identifies a function: the keys hold their versions, or Python's.
_KNOWN = frozenset({"weft", "numpy", *bindings.PROJECTS, *sys.stdlib_module_names}) - {"__main__"}
_extended: set[str] = set()


class UnidentifiedError(Exception):
    """A value that can't be compared with those of another process."""


def know(package: str) -> None:
    """From now on, a name identifies a function of `package` too: the keys hold its content."""
    _extended.add(package)


def _is_known(module: str) -> bool:
    if module.partition(".")[0] in _KNOWN:
        return True
    return any(module == each or module.startswith(f"{each}.") for each in _extended)


def digest(*values: Any) -> bytes:
    """Equal for values that do the same, in any process that has loaded the same files of Weft.

    Functions and classes are identified by their names. Raises UnidentifiedError for those of packages whose
    version or content isn't in the cache's keys, and for objects other than plain data.
    """
    walk = _Walk()
    for value in values:
        walk.add(value)
    return walk.state.digest()


class _Walk:
    def __init__(self) -> None:
        self.state = hashlib.sha256()
        self.numbers: dict[int, int] = {}
        self.held: list[Any] = []  # keeps every id unique

    def feed(self, *words: object) -> None:
        for word in words:
            text = str(word).encode("utf-8", "surrogatepass")
            self.state.update(len(text).to_bytes(8, "little") + text)

    def add(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self.feed(kind.__name__, repr(value))
        elif id(value) in self.numbers:
            self.feed("again", self.numbers[id(value)])
        else:
            self.numbers[id(value)] = len(self.numbers)
            self.held.append(value)
            self._add_new(value, kind)

    def all(self, what: str, values: Iterable[Any]) -> None:
        listed = list(values)
        self.feed(what, len(listed))
        for value in listed:
            self.add(value)

    def _add_new(self, value: Any, kind: type) -> None:
        if kind in (tuple, list):
            self.all(kind.__name__, value)
        elif kind in (set, frozenset):
            self.feed(kind.__name__, sorted(digest(each).hex() for each in value))
        elif kind in (dict, types.MappingProxyType):
            self.all("dict", (part for item in value.items() for part in item))
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.ModuleType):
            self._named("module", value.__name__, value.__name__)
        elif isinstance(value, type):
            self._named("class", value.__module__, value.__qualname__)
        elif isinstance(value, _BUILTIN):
            self._builtin(value)
        else:
            self._object(value, kind)

    def _object(self, value: Any, kind: type) -> None:
        if isinstance(value, types.MethodType):
            self.all("method", (value.__func__, value.__self__))
        elif kind is functools.partial:
            self.all("partial", (value.func, value.args, value.keywords))
        elif kind is functools._lru_cache_wrapper:
            self.all("cached", (value.__wrapped__,))
        elif kind in (types.GenericAlias, types.UnionType):
            self.all("annotation", (typing.get_origin(value), *typing.get_args(value)))
        elif isinstance(value, enum.Enum):
            self.all("enum", (kind, value.name))
        elif dataclasses.is_dataclass(value):
            fields = (getattr(value, field.name) for field in dataclasses.fields(value))
            self.all("dataclass", (kind, *fields))
        else:
            raise UnidentifiedError(f"a value of {kind.__module__}.{kind.__qualname__}")

    def _named(self, what: str, module: str, name: str) -> None:
        if not _is_known(module):
            raise UnidentifiedError(f"{what} {name}")
        self.feed(what, module, name)

    def _builtin(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            home = getattr(value, "__objclass__", None)
            module = value.__module__ if home is None else home.__module__
            self._named("builtin", module or "builtins", value.__qualname__)
        else:
            self.feed("builtin", value.__qualname__)
            self.add(owner)

    def _function(self, function: types.FunctionType) -> None:
        if not known(function):
            raise UnidentifiedError(f"function {function.__module__}.{function.__qualname__}")
        self.feed("function", function.__module__, function.__qualname__, function.__code__.co_firstlineno)
        self.all("given", (function.__defaults__, function.__kwdefaults__))
        self.all("closure", map(_content, function.__closure__ or ()))


def known(function: types.FunctionType) -> bool:
    """Whether a function comes from a file of Weft, from Python or from a library that the keys hold."""
    name = function.__globals__.get("__name__", "")
    if name.partition(".")[0] != "weft":
        return _is_known(name)
    return function.__code__.co_filename == getattr(sys.modules.get(name), "__file__", None)


def replaced(packages: Iterable[str]) -> list[tuple[str, Any]]:
    """The functions and methods in Weft's packages that come from elsewhere, with their names."""
    prefixes = tuple(packages)
    functions: list[tuple[str, Any]] = []
    # A copy is made at once: another thread may import a module while a list of the items is made.
    modules = [each for each in sys.modules.copy().items() if each[0].startswith(prefixes)]
    for name, module in sorted(modules):
        own = vars(module)
        held, classes = _found_in(name, name, own, own)
        functions += held
        for key, kind in classes:
            functions += _found_in(f"{name}.{key}", name, vars(kind), own)[0]
    return functions


_Named = list[tuple[str, Any]]
_found: dict[str, tuple[tuple[Any, ...], tuple[str, ...], int, tuple[_Named, _Named]]] = {}


def _found_in(
    where: str, module: str, members: "dict[str, Any] | types.MappingProxyType[str, Any]", own: dict[str, Any]
) -> tuple[_Named, _Named]:
    """The foreign functions among the members of a module or of one of its classes, by their full names, and
    the module's own classes, by their names in it.

    Each key of the cache looks at 15,000 members, which rarely change: what was found is kept with them.
    """
    members = members.copy()  # at once, as above
    values, names, packages = tuple(members.values()), tuple(members), len(_extended)
    if (before := _found.get(where)) is not None:
        old_values, old_names, old_packages, found = before
        if names == old_names and packages == old_packages and all(map(operator.is_, values, old_values)):
            return found
    pairs = list(zip(names, values, strict=True))
    functions: _Named = [
        (f"{where}.{k}", v) for k, v in pairs if type(v) is types.FunctionType and _foreign(v, own)
    ]
    classes: _Named = [(k, v) for k, v in pairs if isinstance(v, type) and v.__module__ == module]
    _found[where] = values, names, packages, (functions, classes)
    return functions, classes


def _foreign(function: types.FunctionType, own: dict[str, Any]) -> bool:
    """Whether a function found in a module is neither the module's own nor from a known package."""
    home = function.__globals__
    return home is not own and not _is_known(home.get("__name__", ""))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...  # the variable has no value yet
