"""What was compiled once, kept on disk for every process of this user."""

import contextlib
import functools
import hashlib
import os
import re
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.errors import warn

LIMIT_BYTES = 1 << 30
_MAGIC = b"weft\x00\x00\x00\x01"
_HEADER = struct.Struct("<8s32sQ")
_WRITES_PER_PRUNE = 64
# A temporary file of that age was left by a process that died.
_STALE_SECONDS = 3600


class Cache:
    """Bytes by key in `directory`, any number of processes at once; with no directory, nothing is kept.

    An entry that is damaged or isn't ours is made again; a directory that can't be written costs a warning.
    """

    def __init__(self, directory: Path | None, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self._writes = 0
        self._warned = False

    def get_or_make(self, kind: str, key_parts: Sequence[str | bytes], make: Callable[[], bytes]) -> bytes:
        """The entry of that kind (say "cubin") and key, made where there is none from what the key names."""
        if self.directory is None:
            return make()
        key = _digest(kind, *key_parts)
        path = self.directory / f"{kind}-{key.hex()}"
        data = self._read(path, key)
        if data is None:
            data = make()
            self._write(path, key, data)
        return data

    def prune(self) -> None:
        """Over the limit, remove the least recently used entries, down to three quarters of it."""
        if self.directory is None:
            return
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                # Others prune at the same time.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if _ENTRY.fullmatch(entry.name):
                        found.append((status.st_mtime, status.st_size, entry.path))
                    elif entry.name.startswith(".new-") and status.st_mtime < time.time() - _STALE_SECONDS:
                        Path(entry.path).unlink()
        total = sum(size for _, size, _ in found)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(found):
            if total <= self.limit_bytes * 3 // 4:
                break
            with contextlib.suppress(OSError):
                Path(path).unlink()
            total -= size

    def _read(self, path: Path, key: bytes) -> bytes | None:
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        if (data := _unpacked(entry, key)) is None:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # for prune: file systems may leave the time of access alone
        return data

    def check(self) -> None:
        """Raises OSError where nothing can be kept."""
        if self.directory is not None:
            _make(self.directory)
            with tempfile.TemporaryFile(dir=self.directory):
                pass

    def _write(self, path: Path, key: bytes, data: bytes) -> None:
        try:
            _make(path.parent)
            _replace(path, _packed(data, key))
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn(f"weft compiles uncached: {path.parent}: {error.strerror or error}")
            return
        if self._writes % _WRITES_PER_PRUNE == 0:
            self.prune()
        self._writes += 1


def _make(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # the user's alone


def default() -> Cache:
    """The user's cache: in $WEFT_CACHE_DIR or the system's place for it; none with WEFT_CACHE=0."""
    if os.environ.get("WEFT_CACHE") == "0":
        return _cache(None)
    if given := os.environ.get("WEFT_CACHE_DIR"):
        return _cache(Path(given))
    import platformdirs

    return _cache(Path(platformdirs.user_cache_dir("weft")))


@functools.cache
def _cache(directory: Path | None) -> Cache:
    return Cache(directory)


_ENTRY = re.compile(r"[\w.]+-[0-9a-f]{64}")


def _digest(*parts: str | bytes) -> bytes:
    """SHA-256 over the parts, each after its length: "ab", "c" isn't "a", "bc"."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(struct.pack("<Q", len(data)) + data)
    return state.digest()


def _packed(data: bytes, key: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, _digest(key, data), len(data)) + data


def _unpacked(entry: bytes, key: bytes) -> bytes | None:
    """The data of an entry that is whole and was written under this key."""
    if len(entry) < _HEADER.size:
        return None
    magic, checksum, length = _HEADER.unpack_from(entry)
    data = entry[_HEADER.size :]
    whole = magic == _MAGIC and length == len(data) and checksum == _digest(key, data)
    return data if whole else None


def _replace(path: Path, content: bytes) -> None:
    """Write the whole of `path` at once, as far as any reader or a power cut can tell."""
    descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    finally:
        # Gone already when all went well.
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
