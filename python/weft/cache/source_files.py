"""Files with code, as they were before it was loaded."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from weft.system import late_imports


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


_SECOND = 10**9  # in nanoseconds
_SETTLED = 2  # seconds after which a write leaves another state

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
        """Of the files' names and contents: the same wherever the same version is installed. The cache has it
        for files in the same state: to read 300 files takes ten times as long.
        """
        if self._digest is None:
            with late_imports.whole():
                from weft.cache import disk_cache

            kept, states = disk_cache.default(), repr(list(self.states.items()))
            if not self._states_tell_changes():
                self._digest = self._of_contents()
            elif kept.is_writable():
                self._digest = kept.get_or_make(
                    "sources", lambda _: None if self.changed() else [states], self._of_contents
                )
            else:
                self._digest = kept.find("sources", [states]) or self._of_contents()
        return self._digest

    def _of_contents(self) -> bytes:
        with late_imports.whole():
            import hashlib  # takes 5 ms, and only compiling needs it

        digest = hashlib.sha256()
        for path in map(Path, self.states):
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(_content_of(path)).digest())
        return digest.digest()

    def _states_tell_changes(self) -> bool:
        """Whether files in these states have the same contents in each process. Two writes within a tick of
        the clock may leave one state, and file systems that keep whole seconds may be images.
        """
        now = time.time_ns()
        changed = [state.changed for state in self.states.values() if state is not None]
        return all(each % _SECOND and now - each > _SETTLED * _SECOND for each in changed)


def entries(folder: str | Path) -> "list[os.DirEntry[str]]":
    """The entries of a folder; none where it isn't a folder, such as in an archive."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
