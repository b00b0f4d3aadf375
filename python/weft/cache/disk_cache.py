"""A cache on disk for compiled code, shared by a user's processes."""

import contextlib
import errno
import functools
import hashlib
import os
import re
import stat
import struct
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from weft.cache import loaded
from weft.errors import WeftError, warn
from weft.system import file_locks, locks, output_files

LIMIT_BYTES = 1 << 30
_MOST_BYTES = 1 << 28  # of an entry: a larger one is neither kept nor read into memory
_MAGIC = b"weft\x00\x00\x00\x01"
_HEADER = struct.Struct("<8s32sQ")
_WRITES_PER_PRUNE = 64
# A temporary file of that age was left by a process that died.
_STALE_SECONDS = 3600

Key = Sequence[str | bytes]


@dataclass(frozen=True, order=True)
class Entry:
    """A file of the cache, finished or not: when it was last used, and its size."""

    used: float
    bytes: int
    path: Path

    def remove(self) -> None:
        """Removes it, if it can be."""
        with contextlib.suppress(OSError):
            self.path.unlink()


class Cache:
    """Bytes by key in `directory`, any number of processes and threads at once; without it, nothing is kept.

    A damaged entry is made again. A directory or an entry that belongs to another user, or that others can
    write, is neither read nor changed. That gives one warning, as does a directory that can't be written.
    """

    def __init__(self, directory: Path | None, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        # Most processes write a few entries, and a prune reads the whole directory: they take turns.
        self._writes = os.getpid() % _WRITES_PER_PRUNE
        self._warned = False

    def get_or_make(
        self,
        kind: str,
        key: Key | None,
        make: Callable[[], bytes],
        valid: Callable[[bytes], bool] = lambda data: True,
        same: Callable[[], bool] = lambda: True,
    ) -> bytes:
        """The entry of that kind (such as "cubin") and key; `make` makes it if there is no `valid` one, or no
        key.

        The key holds everything that the result of `make` depends on. The result is kept only if files that
        this process has loaded haven't changed, and what `same` compares.
        """
        if self.directory is None or key is None:
            return make()
        digest = _digest(kind, *key)
        path = self.directory / f"{kind}-{digest.hex()}"
        with _lock_of(path):
            try:
                data = self._read(path, digest)
            except _NotOursError as error:
                self._warn(str(error))
                return make()
            if data is None or not valid(data):
                data = make()
                if same() and loaded.unchanged():
                    self._write(path, digest, data)
            return data

    def find(self, kind: str, key: Key | None) -> bytes | None:
        """The entry of that kind and key; None if there is none, or no key."""
        if self.directory is None or key is None:
            return None
        digest = _digest(kind, *key)
        try:
            return self._read(self.directory / f"{kind}-{digest.hex()}", digest)
        except _NotOursError as error:
            self._warn(str(error))
            return None

    def change(self, kind: str, key: Key, make: Callable[[bytes | None], bytes]) -> None:
        """Replaces an entry by what `make` makes of it. Other processes wait meanwhile."""
        if self.directory is None:
            return
        digest = _digest(kind, *key)
        path = self.directory / f"{kind}-{digest.hex()}"

        def replace() -> None:
            self._write(path, digest, make(self._read(path, digest)))

        try:
            with _lock_of(path):
                _make(self.directory)
                file_locks.with_directory(self.directory, replace)
        except _NotOursError as error:
            self._warn(str(error))
        except OSError as error:
            self._warn(f"{self.directory}: {error.strerror or error}")

    def prune(self) -> None:
        """Over the limit, remove the least recently used entries, down to three quarters of it."""
        with contextlib.suppress(OSError):
            for left in self._files(_UNFINISHED):
                if left.used < time.time() - _STALE_SECONDS:
                    left.remove()
            kept = self.entries()
            total = sum(entry.bytes for entry in kept)
            if total <= self.limit_bytes:
                return
            for entry in sorted(kept):
                if total <= self.limit_bytes * 3 // 4:
                    break
                entry.remove()
                total -= entry.bytes

    def entries(self) -> "list[Entry]":
        """The kept entries. Raises OSError where the directory can't be read."""
        return self._files(_ENTRY)

    def _files(self, name: re.Pattern[str]) -> "list[Entry]":
        """Our own files of such a name."""
        files: list[Entry] = []
        if self.directory is None:
            return files
        with os.scandir(self.directory) as entries:
            for entry in (each for each in entries if name.fullmatch(each.name)):
                # Others prune at the same time.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if not _complaint(entry.path, status, stat.S_ISREG):
                        files.append(Entry(status.st_mtime, status.st_size, Path(entry.path)))
        return files

    def check(self) -> None:
        """Raises WeftError, or the system's OSError, where nothing can be kept."""
        if self.directory is not None:
            try:
                _make(self.directory)
                _refuse_others(self.directory, self.directory.stat(), stat.S_ISDIR)
            except _NotOursError as error:
                raise WeftError(str(error)) from None
            with tempfile.TemporaryFile(dir=self.directory):
                pass

    def _read(self, path: Path, key: bytes) -> bytes | None:
        """The data of an entry; None where there is none. Raises _NotOursError for what is another user's."""
        try:
            _refuse_others(path.parent, path.parent.stat(), stat.S_ISDIR)
            descriptor = os.open(path, _reading(path))
        except OSError:
            with contextlib.suppress(OSError):
                _refuse_others(path, path.lstat(), stat.S_ISREG)
            return None
        try:
            status = os.fstat(descriptor)
            _refuse_others(path, status, stat.S_ISREG)
            if status.st_size > _MOST_BYTES:
                return None
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = _unpacked(file.read(_MOST_BYTES), key)
            if data is not None:
                with contextlib.suppress(OSError):
                    # For prune: file systems may not keep the time of access.
                    os.utime(descriptor if os.utime in os.supports_fd else path)
            return data
        finally:
            os.close(descriptor)

    def _write(self, path: Path, key: bytes, data: bytes) -> None:
        if len(data) > _MOST_BYTES - _HEADER.size:
            return
        try:
            _make(path.parent)
            _refuse_others(path.parent, path.parent.stat(), stat.S_ISDIR)
            _replace(path, _HEADER.pack(_MAGIC, _digest(key, data), len(data)) + data)
        except _NotOursError as error:
            self._warn(str(error))
            return
        except OSError as error:
            self._warn(f"{path.parent}: {error.strerror or error}")
            return
        self._writes += 1
        if self._writes % _WRITES_PER_PRUNE == 0:
            self.prune()

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            warn(f"weft compiles uncached: {reason}")


def _reading(path: Path) -> int:
    """Flags to open an entry. Opening a FIFO would wait for its writer, and a link may lead anywhere.

    Raises OSError for a link, where the flags can't refuse it.
    """
    if sys.platform != "win32":
        return os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return os.O_RDONLY


class _NotOursError(Exception):
    """A directory or an entry that must be neither read nor changed; the text has advice for its owner."""


def _refuse_others(path: Path, status: os.stat_result, wanted: Callable[[int], bool]) -> None:
    if (complaint := _complaint(path, status, wanted)) is not None:
        raise _NotOursError(complaint)


def _complaint(path: str | Path, status: os.stat_result, wanted: Callable[[int], bool]) -> str | None:
    """Why something isn't of the `wanted` type, or others can write it; otherwise None."""
    if not wanted(status.st_mode):
        what = "directory" if wanted is stat.S_ISDIR else "regular file"
        return f"{path} isn't a {what}: remove it, or set WEFT_CACHE_DIR to another directory"
    if sys.platform == "win32":  # where access lists, which aren't read here, decide that
        return None
    if status.st_uid != os.geteuid():
        owner = f"{path} belongs to user {status.st_uid}, and Weft runs as {os.geteuid()}"
        return f"{owner}: set WEFT_CACHE_DIR to a directory of your own"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write {path}: run `chmod go-w {path}`"
    return None


# A call that Ctrl-C ends has nothing to remove here. A callback of a reference would lose a Ctrl-C.
_locks: "dict[Path, weakref.ref[AbstractContextManager[bool]]]" = {}
_guard = threading.Lock()


def _lock_of(path: Path) -> AbstractContextManager[bool]:
    """The lock of an entry, of which one thread of this process reads or makes it at a time."""
    with _guard:
        lock = known() if (known := _locks.get(path)) is not None else None
        if lock is None:
            for unused in [each for each, of in _locks.items() if of() is None]:
                del _locks[unused]
            lock = threading.RLock()
            _locks[path] = weakref.ref(lock)
        return lock


def _after_fork() -> None:
    """In a child nobody would release what other threads hold."""
    global _locks, _guard
    _locks, _guard = {}, threading.Lock()


locks.at_fork(after_in_child=_after_fork)


def _make(directory: Path) -> None:
    if directory.is_symlink() and not directory.exists():
        raise _NotOursError(
            f"{directory} is a link to a directory that doesn't exist: make it, or remove the link"
        )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # for this user only


def default() -> Cache:
    """The user's cache: in $WEFT_CACHE_DIR or the system's directory for it; none with WEFT_CACHE=0."""
    if os.environ.get("WEFT_CACHE") == "0":
        return _cache(None)
    if name := os.environ.get("WEFT_CACHE_DIR"):
        directory = Path(name)
        with contextlib.suppress(RuntimeError):  # a user without a home directory
            directory = directory.expanduser()
        return _cache(directory.absolute())
    import platformdirs

    directory = Path(platformdirs.user_cache_dir("weft"))
    # "~" stays as it is for a user whom the system doesn't know: that would be a directory of this name here.
    return _cache(directory if directory.is_absolute() else None)


@functools.cache
def _cache(directory: Path | None) -> Cache:
    return Cache(directory)


_ENTRY = re.compile(r"[\w.]+-[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.new-.*")


def _digest(*parts: str | bytes) -> bytes:
    """SHA-256 over the parts, each after its length: "ab", "c" isn't "a", "bc"."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(struct.pack("<Q", len(data)) + data)
    return state.digest()


def _unpacked(entry: bytes, key: bytes) -> bytes | None:
    """The data of an entry that is whole and was written under this key."""
    if len(entry) < _HEADER.size:
        return None
    magic, checksum, length = _HEADER.unpack_from(entry)
    data = entry[_HEADER.size :]
    whole = magic == _MAGIC and length == len(data) and checksum == _digest(key, data)
    return data if whole else None


def _replace(path: Path, content: bytes) -> None:
    """Write the whole of `path` at once, as far as any reader can tell. This doesn't wait for the disk: an
    entry that a power cut damages has a wrong checksum, and is made again.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        output_files.replace(Path(temporary), path)
    finally:
        # Gone already when all went well.
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
