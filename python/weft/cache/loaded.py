"""Identifies the code that this process has loaded, Weft's and its libraries', for the cache's keys.

A process goes on with the code that it has loaded while a new version is installed over it. So the state of
every file is recorded before the file is imported, and nothing is kept on disk once a file has changed.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from weft.errors import warn
from weft.version import VERSION

_APART = ("emulator", "bench", "tuning", "tools", "jax", "__pycache__")
"""Packages that don't affect what a module is compiled to."""
_CODE = (".py", ".so", ".dylib", ".dll", ".pyd")

State = tuple[int, int, int]
_recorded: dict[str, State | None] = {}
"""The state in which each file was first seen."""
_warned = False


def _state(path: str) -> State | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (Path takes three times as long, for 470 files)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (Path takes twice as long)
            return file.read()
    except OSError:
        return b""  # it's gone, as its state will show


class Files:
    """Files as they were when one of these first had them, which is before anything in them was loaded."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.states = {path: _recorded.setdefault(path, _state(path)) for path in sorted(paths)}
        self._digest: bytes | None = None

    def described(self) -> str:
        """The files' names, sizes, times and inodes, which differ between versions."""
        return repr(list(self.states.items()))

    def digest(self) -> bytes | None:
        """Of the files' names and contents: the same wherever the same version is installed. None if a file
        had changed before the first call.
        """
        if self._digest is None:
            digest = hashlib.sha256()
            for path, state in self.states.items():
                content = b"" if state is None else _content(path)
                digest.update(f"{os.path.basename(path)}\0{len(content)}\0".encode() + content)  # noqa: PTH119
            if all(_state(path) == state for path, state in self.states.items()):
                self._digest = digest.digest()
        return self._digest


def sources(folder: str | Path, apart: Iterable[str] = ("__pycache__",)) -> Iterator[str]:
    """The files with code in a folder and in those below it, other than those called as `apart` lists."""
    for entry in os.scandir(folder) if Path(folder).is_dir() else ():
        if entry.name.endswith(_CODE):
            yield entry.path
        elif entry.name not in apart and entry.is_dir():
            yield from sources(entry.path, apart)


def own_folders() -> set[Path]:
    """The folders of Weft's packages, which aren't one in the other in every kind of installation."""
    specs = [find_spec("weft"), *(find_spec(f"weft.{name}") for name in ("dialects", "passes"))]
    return {Path(f).absolute() for spec in specs if spec for f in spec.submodule_search_locations or ()}


def _own() -> Files:
    folders = own_folders()
    inner = {f for f in folders if any(parent in folders for parent in f.parents)}
    return Files(path for folder in folders - inner for path in sources(folder, _APART))


_own_files = _own()
_libraries: dict[str, Files] = {}


def watch(library: str, *folders: str) -> None:
    """Records the Python files and shared objects in a library's folders, before the library is loaded."""
    if library not in _libraries:
        every = (Path(folder) for folder in folders)
        found = (str(path) for folder in every if folder.is_dir() for path in folder.iterdir())
        _libraries[library] = Files(path for path in found if path.endswith(_CODE))


def watch_package(name: str) -> None:
    """Records the files with code of another package that takes part in compiling, before it is loaded."""
    if name in _libraries:
        return
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None  # its import reports why
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [path for folder in folders for path in sources(folder)]
    if spec is not None and spec.origin is not None and not folders:
        found.append(spec.origin)
    _libraries[name] = Files(found)


def identity(*libraries: str, packages: Iterable[str] = ()) -> list[str | bytes] | None:
    """Identifies the loaded code of Weft, of watched libraries, and of watched packages by their content.

    None, with one warning, if a file has changed before its content was needed.
    """
    found = [files.digest() for files in (_own_files, *(_libraries[name] for name in packages))]
    digests = [digest for digest in found if digest is not None]
    if len(digests) < len(found):
        unchanged()
        return None
    return [VERSION, sys.version, *digests, *(_libraries[name].described() for name in libraries)]


def unchanged() -> bool:
    """Whether all recorded files still have their states; otherwise, warns once."""
    global _warned
    changed = next((path for path, state in _recorded.items() if _state(path) != state), None)
    if changed is not None and not _warned:
        _warned = True
        warn(f"weft compiles uncached: {changed} changed after this process loaded Weft; start a new one")
    return changed is None
