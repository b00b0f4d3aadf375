"""Which files have tuned schedules, and digests of them, which decide about the schedules of products."""

import functools
import hashlib
import os
from pathlib import Path

VARIABLE = "WEFT_SCHEDULES"


def own_file() -> Path | None:
    """The file for a user's entries: $WEFT_SCHEDULES, or the system's default; None if the variable is
    empty.
    """
    path = os.environ.get(VARIABLE)
    if path is not None:
        return Path(path) if path else None
    return _default_file()


@functools.cache
def _default_file() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("weft")) / "schedules.jsonl"


def sources(chip: str) -> tuple[Path, ...]:
    """The files to look for a schedule in, the user's first; none with an empty $WEFT_SCHEDULES."""
    own = own_file()
    return () if own is None else (own, Path(__file__).with_name(f"{chip}.jsonl"))


def contents(chip: str, present: bool = True) -> list[bytes]:
    """The SHA-256 of each file of `sources`, of no bytes for one that can't be read. With `present` false, as
    it was when this process first asked: schedules come from the file of that time.
    """
    return [_digest(path) if present else first_digest(path) for path in sources(chip)]


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return hashlib.sha256().digest()


@functools.cache
def first_digest(path: Path) -> bytes:
    """The digest of a file when this process first asked for it."""
    return _digest(path)


def asks_files() -> bool:
    """Whether a schedule may come from a file. With an empty $WEFT_SCHEDULES, only the model decides."""
    return own_file() is not None
