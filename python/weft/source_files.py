"""Files with code, as they were before it was loaded."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class State(NamedTuple):
    """Changes with every write to a file and with its replacement, even if its times are set back."""

    size: int
    written: int
    inode: int
    links: int
    changed: int

    def is_linked_from(self, before: "State | None") -> bool:
        """True if only hard links have been made or removed since, as uv does with each environment."""
        return before is not None and before[:3] == self[:3] and before.links != self.links


_first: dict[str, State | None] = {}
"""The first recorded state of each file: parts of the code that share a file may record it later."""


def _state(path: str) -> State | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (Path takes three times as long, for 470 files in each key)
    except OSError:
        return None
    return State(status.st_size, status.st_mtime_ns, status.st_ino, status.st_nlink, status.st_ctime_ns)


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # gone: its state has changed


class Files:
    """Files as they were when one of these first had them, which is before anything in them was loaded."""

    def __init__(self, entries: "Iterable[os.DirEntry[str]]") -> None:
        names = sorted(entry.path for entry in entries)
        self.states = {name: _first.setdefault(name, _state(name)) for name in names}
        self.names = self.states.keys()
        self._digest: bytes | None = None

    def changed(self) -> str | None:
        """A file that has changed since then, if there is one."""
        for name, before in self.states.items():
            if (state := _state(name)) == before:
                continue
            if state is None or not state.is_linked_from(before):
                return name
            self.states[name] = state
        return None

    def described(self) -> str:
        """The files' names, sizes, times and inodes, which differ between versions."""
        return repr([(name, state and state[:3]) for name, state in self.states.items()])

    def digest(self) -> bytes:
        """Of the files' names and contents: the same wherever the same version is installed."""
        import hashlib  # takes 5 ms, and only compiling needs it

        if self._digest is None:
            digest = hashlib.sha256()
            for path in map(Path, self.states):
                digest.update(path.name.encode() + b"\0" + hashlib.sha256(_content_of(path)).digest())
            self._digest = digest.digest()
        return self._digest


def entries(folder: str | Path) -> "list[os.DirEntry[str]]":
    """The entries of a folder; none where it isn't a folder, such as in an archive."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
