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
from typing import Any, Generic, TypeVar

from weft import late_imports, locks
from weft.errors import Diagnostic, Location, WeftError

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
    """What somebody else than Weft registered, and who."""

    what: str
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

    def __init__(self, what: str, own: Mapping[str, T], forget: Callable[[T], None] | None = None) -> None:
        """`what` is what messages call an entry, such as "pass". `forget` is called with a value of somebody
        else's that is removed.
        """
        self.what = what
        self._forget = forget
        self.own = own
        self._entries: dict[str, Entry[T]] = {}  # replaced as a whole, so that readers need no lock
        _registries.append(self)

    def add(self, name: str, value: T) -> None:
        """Registers a value. Raises WeftError where the name is taken."""
        load()
        entry = Entry(self.what, name, value, _current.get() or _caller())
        with _lock:
            if name in self.own:
                raise WeftError(f"{self.what} '{name}' is registered already, by Weft")
            if name in self._entries:
                first = self._entries[name].source
                raise WeftError(f"{self.what} '{name}' is registered already, by {first}")
            self._entries = {**self._entries, name: entry}

    def all(self) -> dict[str, T]:
        """Every value by name. Raises WeftError where an installed extension can't be loaded."""
        load()
        return {**self.own, **{name: entry.value for name, entry in self._entries.items()}}

    def entries(self) -> tuple[Entry[T], ...]:
        """What others have registered so far."""
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
_current: ContextVar[Source | None] = ContextVar("registering", default=None)
_extensions: tuple[Extension, ...] = ()
_failure: WeftError | None = None
_loading = _loaded = False


def entries() -> tuple[Entry[Any], ...]:
    """Everything that others have registered so far."""
    return tuple(entry for registry in _registries for entry in registry.entries())


def loaded() -> tuple[Extension, ...]:
    """The installed extensions. Raises WeftError where one can't be loaded."""
    load()
    return _extensions


def load() -> None:
    """Loads the installed extensions, the first time. Raises WeftError, each time, where one can't be loaded;
    the error names its distribution.
    """
    global _loading, _loaded, _failure
    if not _loaded:
        with late_imports.whole():
            if _loading:  # an extension registers something
                return
            if not _loaded:
                _loading = True
                try:
                    _load_all()
                except WeftError as error:
                    _failure = error
                finally:
                    _loading = False
                    _loaded = True
    if _failure is not None:
        raise WeftError(*_failure.diagnostics)


def installed() -> bool:
    """Whether some installed package may have an extension.

    It reads the lists of entry points on Python's path itself: `importlib.metadata` takes ten times as long,
    in every process, for packages that few people have.
    """
    if os.environ.get(OFF) == "0":
        return False
    return any(map(_may_have_extensions, dict.fromkeys(sys.path)))


def _may_have_extensions(folder: str) -> bool:
    wanted = f"[{GROUP}]".encode()
    try:
        with os.scandir(folder or os.curdir) as found:
            packages = [e.path for e in found if e.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:  # an archive
        return True
    except OSError:
        return False
    for package in packages:
        try:
            if wanted in Path(package, "entry_points.txt").read_bytes():
                return True
        except OSError:
            continue
    return False


def _load_all() -> None:
    global _extensions
    if not installed():
        return
    from importlib import metadata

    found: list[Extension] = []
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    for point in points:
        extension = _extension(point)
        if extension not in found:  # a folder may be on the path twice
            _load_one(point, extension)
            found.append(extension)
    _extensions = tuple(found)


def _extension(point: Any) -> Extension:
    distribution = point.dist
    name = distribution.name if distribution is not None else "an unknown distribution"
    version = distribution.version if distribution is not None else "?"
    return Extension(point.name, name, version, _package(point.module))


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


def _load_one(point: Any, extension: Extension) -> None:
    from weft.compiler import loaded as files

    source = Source(str(extension), installed=True)
    told = f"extension '{extension.name}' of {extension}"
    try:
        files.watch_package(extension.package)
        with _registering(source):
            point.load()()
    except WeftError as error:
        _forget(source)
        first, *rest = error.diagnostics
        message = f"{told} can't be loaded: {first.message}"
        where = first.location or _raised_at(error) or _listed_at(point)
        raise WeftError(Diagnostic(message, where, notes=(_advice(extension),)), *rest) from error
    except Exception as error:  # the code of somebody else may raise anything
        _forget(source)
        (what,) = traceback.format_exception_only(error)[-1:]
        message = f"{told} can't be loaded: {what.strip()}"
        where = _raised_at(error) or _listed_at(point)
        raise WeftError(Diagnostic(message, where, notes=(_advice(extension),))) from error


def _advice(extension: Extension) -> Diagnostic:
    remedy = f"pip uninstall {extension.distribution}"
    return Diagnostic(f"to go on without it, run `{remedy}`, or set {OFF}=0", severity="note")


def _forget(source: Source) -> None:
    for registry in _registries:
        registry.remove(source)


@contextmanager
def _registering(source: Source) -> Iterator[None]:
    token = _current.set(source)
    try:
        yield
    finally:
        _current.reset(token)


_HERE = str(Path(__file__).parent)


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


def _listed_at(point: Any) -> Location | None:
    """The line of the distribution's list that names an entry point."""
    path = getattr(point.dist, "_path", None)
    file = None if path is None else Path(str(path)) / "entry_points.txt"
    if file is None or not file.is_file():
        return None
    lines = file.read_text("utf-8", errors="replace").splitlines()
    numbers = [n for n, line in enumerate(lines, 1) if line.partition("=")[0].strip() == point.name]
    return Location(str(file), numbers[0] if numbers else 1, 1)


def _caller() -> Source:
    """The line outside of Weft that registers something."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "weft":
        frame = frame.f_back
    return Source(f"{frame.f_code.co_filename}:{frame.f_lineno}", installed=False)
