"""The records of an unfinished search, in a file, so that a stopped search can continue."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from weft.errors import WeftError
from weft.schedules.database import Product
from weft.system import file_locks

Record = dict[str, Any]


class Partial:
    """The records of one search. Each is a line of JSON, which is in the file when `add` returns."""

    def __init__(self, file: BinaryIO, records: list[Record]) -> None:
        self._file = file
        self.records = records

    def add(self, *records: Record) -> None:
        """Raises WeftError if the file can't be written."""
        try:
            self._file.write("".join(f"{json.dumps(record)}\n" for record in records).encode())
            self._file.flush()
        except OSError as error:
            raise WeftError(f"cannot write '{self._file.name}': {error.strerror}") from None
        self.records += records


@contextlib.contextmanager
def opened(database: Path, product: Product, gpu: str) -> Iterator[Partial | None]:
    """The records of a product, locked for this process, in a file next to the database; None if another
    process has them. Records of a GPU with another name are dropped. The file is removed if the block ends
    without an exception.

    Raises WeftError if it can't be written.
    """
    path = path_of(database, product)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab+")
    except OSError as error:
        raise WeftError(f"cannot write '{path}': {error.strerror}") from None
    with file:
        if not file_locks.try_file(file.fileno()):
            yield None
            return
        records = _read(file)
        if records[:1] != [{"gpu": gpu}]:
            file.truncate(0)
            records = []
        partial = Partial(file, records)
        if not records:
            partial.add({"gpu": gpu})
        yield partial
        if sys.platform != "win32":
            path.unlink(missing_ok=True)  # while it is locked, so that the next process creates a new one
    if sys.platform == "win32":  # where a file stays while it is open
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)


def path_of(database: Path, product: Product) -> Path:
    """The file for the search of a product, such as `bf16-bf16-bf16-00-4096x4096x4096.sm_90a`: its name has
    all fields of the types.
    """
    types = "-".join(_word(value) for value in vars(product.types).values())
    name = f"{types}-{product.m}x{product.n}x{product.k}.{product.chip}"
    return database.with_name(f".{database.name}.partial") / name


def _word(value: Any) -> str:
    """A field of Types as a part of a file's name."""
    if isinstance(value, tuple):
        return "".join(map(_word, value))
    return str(int(value) if isinstance(value, bool) else value)


def _read(file: BinaryIO) -> list[Record]:
    """The records of a file up to the first incomplete one, which is cut off."""
    file.seek(0)
    records: list[Record] = []
    whole = 0
    for line in file:
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(record, dict):
            break
        records.append(record)
        whole += len(line)
    file.seek(whole, os.SEEK_SET)
    file.truncate()
    return records
