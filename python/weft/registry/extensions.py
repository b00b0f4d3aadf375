"""Registries that are open to other packages, and the entry points by which installed packages fill them.

An installed package names a function without arguments in the entry point group `weft.extensions`. Weft calls
it once, when its dialects or passes are first needed. The function calls `weft.register_dialect`,
`weft.register_pass`, `weft.register_candidate` and `weft.register_schedule`.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.cache import loaded as files
from weft.errors import Diagnostic, Location, WeftError
from weft.system import locks

if TYPE_CHECKING:
    from importlib import metadata

GROUP = "weft.extensions"
OFF = "WEFT_EXTENSIONS"
"""The environment variable that, set to 0, leaves installed extensions out."""

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Who registered something: an installed distribution, or a line of a program."""

    text: str
    installed: bool

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A value that other code than Weft's registered. `kind` is the registry's, such as "pass"."""

    kind: str
    name: str
    value: T
    source: Source


@dataclass(frozen=True)
class Extension:
    """An installed extension: its distribution, and the package whose files are its code."""

    name: str
    distribution: str
    version: str
    package: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class Registry(Generic[T]):
    """Values by name: Weft's own, then those that others register, in that order. Any thread may use it."""

    def __init__(self, kind: str, own: Mapping[str, T], forget: Callable[[T], None] | None = None) -> None:
        """`kind` is the word for an entry in messages, such as "pass". `forget` is called with each value of
        other code that is removed.
        """
        self.kind = kind
        self._forget = forget
        self.own = own
        self._entries: dict[str, Entry[T]] = {}  # replaced as a whole, so that readers need no lock
        _registries.append(self)

    def add(self, name: str, value: T) -> None:
        """Registers a value. Raises WeftError where the name is taken."""
        load()
        entry = Entry(self.kind, name, value, caller())
        with _lock:
            if name in self.own:
                raise WeftError(f"{self.kind} '{name}' is registered already, by Weft")
            if name in self._entries:
                first = self._entries[name].source
                raise WeftError(f"{self.kind} '{name}' is registered already, by {first}")
            self._entries = {**self._entries, name: entry}

    def all(self) -> dict[str, T]:
        """Every value by name. Raises WeftError where an installed extension can't be loaded."""
        load()
        return {**self.own, **{name: entry.value for name, entry in self._entries.items()}}

    def entries(self) -> tuple[Entry[T], ...]:
        """The entries that other packages have registered so far."""
        return tuple(self._entries.values())

    def source(self, name: str) -> Source | None:
        """Who registered a value; None for Weft's own."""
        entry = self._entries.get(name)
        return None if entry is None else entry.source

    def remove(self, source: Source) -> None:
        """Removes what `source` registered."""
        with _lock:
            removed = [entry for entry in self._entries.values() if entry.source is source]
            self._entries = {n: e for n, e in self._entries.items() if e.source is not source}
        if self._forget is not None:
            for entry in removed:
                self._forget(entry.value)


_registries: list[Registry[Any]] = []
_lock = locks.lock()
_load_lock = locks.reentrant()
_current: ContextVar[Source | None] = ContextVar("registering", default=None)
_extensions: tuple[Extension, ...] = ()
_failure: WeftError | None = None
_loading = _loaded = False


def entries() -> tuple[Entry[Any], ...]:
    """Everything that others have registered so far."""
    return tuple(entry for registry in _registries for entry in registry.entries())


def loaded() -> tuple[Extension, ...]:
    """The installed extensions. Raises WeftError where one can't be loaded, and while they are being loaded:
    what is compiled then would lack those that follow.
    """
    load()
    if not _loaded:
        raise WeftError("modules must be compiled after the extensions are loaded, not by their registration")
    return _extensions


def load() -> None:
    """Loads the installed extensions, the first time. Raises WeftError, each time, where one can't be loaded;
    the error names its distribution.
    """
    global _loading, _loaded, _failure
    if not _loaded:
        with _load_lock:
            if _loading:  # an extension registers something
                return
            if not _loaded:
                _loading = True
                try:
                    _load_all()
                except WeftError as error:
                    _failure = error
                except BaseException:  # Ctrl-C: the next use starts again
                    _forget_installed()
                    raise
                finally:
                    _loading = False
                _loaded = True
    if _failure is not None:
        raise WeftError(*_failure.diagnostics)


def installed() -> bool:
    """Whether some installed package has an extension."""
    return os.environ.get(OFF) != "0" and any(True for _ in _points())


def _points() -> "Iterator[tuple[metadata.EntryPoint, str, str]]":
    """The entry points of installed distributions, their names and versions. The first distribution on the
    path with a name counts. Others' lists aren't parsed: broken ones do no harm.
    """
    from importlib import metadata

    names = set()
    for distribution in metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
        except UnicodeDecodeError:
            continue
        if f"[{GROUP}]" not in text or (name := distribution.name) in names:
            continue
        names.add(name)
        try:
            points = distribution.entry_points.select(group=GROUP)
            legal = all(point.pattern.match(point.value) for point in points)
        except (TypeError, ValueError):
            legal = False
        if not legal:
            message = f"entry points of {name} must be NAME = MODULE:FUNCTION"
            raise WeftError(Diagnostic(message, notes=(_advice(name),)))
        yield from ((point, name, distribution.version) for point in points)


def _load_all() -> None:
    global _extensions
    if os.environ.get(OFF) == "0":
        return
    extensions: list[Extension] = []
    for point, name, version in sorted(_points(), key=lambda each: (each[0].name, each[0].value)):
        extension = Extension(point.name, name, version, _package(point.module))
        if extension not in extensions:
            _load_one(point, extension)
            extensions.append(extension)
    _extensions = tuple(extensions)


def _package(module: str) -> str:
    """The outermost package of a module that has code: namespace packages may hold those of many others."""
    from importlib.util import find_spec

    parts = module.split(".")
    for count in range(1, len(parts)):
        name = ".".join(parts[:count])
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            return name
        if spec is None or spec.origin is not None:
            return name
    return module


def _load_one(point: "metadata.EntryPoint", extension: Extension) -> None:
    source = Source(str(extension), installed=True)
    subject = f"extension '{extension.name}' of {extension} can't be loaded"
    notes = (_advice(extension.distribution),)
    try:
        files.watch_package(extension.package)
        token = _current.set(source)
        try:
            point.load()()
        finally:
            _current.reset(token)
    except (Exception, SystemExit) as error:  # an extension's code may raise anything
        _forget(source)
        first, *rest = getattr(error, "diagnostics", ()) or (Diagnostic(_named(error)),)
        location = first.location or _raised_at(error)
        raise WeftError(Diagnostic(f"{subject}: {first.message}", location, notes=notes), *rest) from error


def _advice(distribution: str) -> Diagnostic:
    remedy = f"pip uninstall {distribution}"
    return Diagnostic(f"to go on without it, run `{remedy}`, or set {OFF}=0", severity="note")


def _named(error: BaseException) -> str:
    """An exception and its message, as tracebacks end."""
    if isinstance(error, WeftError):
        return "WeftError without a message"
    return traceback.format_exception_only(error)[-1].strip()


@contextmanager
def blamed(subject: str, source: Source | None) -> Iterator[None]:
    """In the block runs code that `source` has registered as `subject`: an exception becomes a WeftError that
    names them, and the line. Exceptions of Weft's own code (no source) stay as they are.
    """
    try:
        yield
    except (WeftError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # an extension's code may raise anything
        if source is None:
            raise
        message = f"{subject}, registered by {source}, failed: {_named(error)}"
        raise WeftError(Diagnostic(message, _raised_at(error))) from error


def source(kind: str, name: str) -> Source | None:
    """Who registered this; None for Weft's own."""
    entries_of = (registry.source(name) for registry in _registries if registry.kind == kind)
    return next(filter(None, entries_of), None)


def of_dialect(name: str) -> Source | None:
    """Who registered the dialect of an operation, type or attribute with this name."""
    return source("dialect", name.partition(".")[0])


def _forget(source: Source) -> None:
    for registry in _registries:
        registry.remove(source)


def _forget_installed() -> None:
    for entry in entries():
        if entry.source.installed:
            _forget(entry.source)


_HERE = str(Path(__file__).parents[1])


def _raised_at(error: BaseException) -> Location | None:
    """The innermost line of the extension's own code that led to an error."""
    frames = [
        (frame.filename, frame.lineno, frame.colno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _HERE)) and f"{os.sep}importlib{os.sep}" not in frame.filename
    ]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Location(error.filename, error.lineno, error.offset or 1)
    if not frames:
        return None
    file, line, column = frames[-1]
    return Location(file, line or 1, (column or 0) + 1)


def caller() -> Source:
    """Who registers something: the extension that is being loaded, otherwise the line outside of Weft."""
    if (extension := _current.get()) is not None:
        return extension
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "weft":
        frame = frame.f_back
    return Source(f"{frame.f_code.co_filename}:{frame.f_lineno}", installed=False)
