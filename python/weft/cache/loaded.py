"""Identifies the code that this process has loaded, Weft's and its libraries', for the cache's keys.

A process goes on with the code that it has loaded while a new version is installed over it. So the state of
every file is recorded before the file is imported, and its content is used only while the state is unchanged.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from weft.cache.source_files import Files, entries
from weft.errors import warn

_PACKAGES = ("weft", "weft.dialects", "weft.passes")
_APART = ("emulator", "bench", "tuning", "tools", "jax")
"""Packages that don't affect what a module is compiled to."""
_CODE = (".py", ".so", ".dylib", ".dll", ".pyd")


def _sources(folder: str | Path) -> "Iterator[os.DirEntry[str]]":
    """The files with code in a folder and in those below it that take part in compiling."""
    for entry in entries(folder):
        if entry.name.endswith(_CODE):
            yield entry
        elif entry.name not in (*_APART, "__pycache__") and entry.is_dir():
            yield from _sources(entry.path)


def _own() -> Files:
    specs = [spec for package in _PACKAGES if (spec := find_spec(package)) is not None]
    folders = {Path(f).absolute() for spec in specs for f in spec.submodule_search_locations or ()}
    inner = {f for f in folders if any(parent in folders for parent in f.parents)}
    return Files(entry for folder in folders - inner for entry in _sources(folder))


_own_files = _own()
_libraries: dict[str, Files] = {}
_content: bytes | None = None
_unchanged: set[str] = set()
"""Libraries and packages whose files were found unchanged after they had been loaded."""
_warned = False


def watch(library: str, *folders: str) -> None:
    """Records the Python files and shared objects in a library's folders, before the library is loaded."""
    if library not in _libraries:
        found = (entry for folder in folders for entry in entries(folder))
        _libraries[library] = Files(entry for entry in found if entry.name.endswith(_CODE))


def _all_code(folder: str | Path) -> "Iterator[os.DirEntry[str]]":
    """The Python files and shared objects in a folder and in those below it."""
    for entry in entries(folder):
        if entry.name.endswith(_CODE):
            yield entry
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _all_code(entry.path)


def watch_package(name: str) -> None:
    """Records the files with code of another package that takes part in compiling, before it is loaded."""
    if name in _libraries:
        return
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None  # its import reports why
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [entry for folder in folders for entry in _all_code(folder)]
    if spec is not None and spec.origin is not None and not folders:
        module = Path(spec.origin)
        found += [entry for entry in entries(module.parent) if entry.name == module.name]
    _libraries[name] = Files(found)


def identity(*libraries: str, packages: Sequence[str] = (), present: bool = True) -> list[str | bytes] | None:
    """Identifies the loaded code of Weft, of watched libraries, and of watched packages by their content.

    None, with one warning, if their files have changed. With `present` false, files that were unchanged once
    aren't looked at again: what was made from them earlier is still what this process would make.
    """
    global _content, _warned
    digests = [_libraries[name].digest() for name in packages]
    content, files = _content, [_libraries[name] for name in (*libraries, *packages)]
    looks = present or content is None or not _unchanged.issuperset((*libraries, *packages))
    if (path := _changed(files) if looks else next(_unknown(), None)) is None and content is None:
        content = _own_files.digest()
        path = _changed(files)
    if path is not None:
        if not _warned:
            _warned = True
            warn(f"weft compiles uncached: {path} changed after this process loaded Weft; start a new one")
        return None
    assert content is not None
    _content = content
    _unchanged.update((*libraries, *packages))
    described = [_libraries[name].described() for name in libraries]
    return [sys.version, content, *described, *digests]


def _changed(libraries: Iterable[Files]) -> str | None:
    """A file that may differ from the one that was loaded, if there is one."""
    for files in (_own_files, *libraries):
        if (path := files.changed()) is not None:
            return path
    return next(_unknown(), None)


def _unknown() -> Iterator[str]:
    """Loaded modules of Weft that affect compilation and whose files weren't recorded."""
    for name, module in sys.modules.copy().items():
        if not name.startswith("weft"):  # of thousands
            continue
        parts = name.split(".")
        if parts[0] == "weft" and not (len(parts) > 1 and parts[1] in _APART):
            path = str(getattr(module, "__file__", name))
            if path not in _own_files.names and str(Path(path).absolute()) not in _own_files.names:
                yield path
