"""Which code runs: that of Weft and of MLIR's bindings, or the caller's, and where in its source. It doesn't
import MLIR.
"""

import contextlib
import os
import sys
from functools import cache
from itertools import islice
from types import FrameType

from weft.cache import loaded
from weft.errors import Location
from weft.ir import bindings


def span(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, first column and that after the last of the expression that a frame executes, each
    counted from 1, if known.
    """
    line, last, column, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return line, last, _from_1(column), _from_1(end)


def _from_1(column: int | None) -> int | None:
    """A column of Python, which counts from 0."""
    return None if column is None else column + 1


def here() -> Location | None:
    """The source location of the code outside Weft that runs now."""
    return source(caller_of(sys._getframe(1)))


def is_called_by_user() -> bool:
    """Whether the function that asks was called by code outside Weft, directly or by a builtin function."""
    return not is_hidden(sys._getframe(2).f_code.co_filename)


def source(caller: FrameType | None) -> Location | None:
    """The source location of a frame."""
    if caller is None:
        return None
    line, _, column, _ = span(caller)
    return Location(readable(caller.f_code.co_filename), line or 0, column or 0)


def readable(name: str) -> str:
    """The name of a file or function, with escapes for characters that MLIR's strings can't contain."""
    return name.encode("utf-8", "backslashreplace").decode()


def caller_of(frame: FrameType) -> FrameType | None:
    """The innermost frame outside Weft and the bindings."""
    found: FrameType | None = frame
    while found is not None and is_hidden(found.f_code.co_filename):
        found = found.f_back
    return found


@cache
def is_hidden(file: str) -> bool:
    """Whether a file of Python is one of Weft's, or of the bindings."""
    return file == contextlib.__file__ or file.startswith(_HIDDEN)


_HIDDEN = tuple(f"{folder}{os.sep}" for folder in (*loaded.own_folders(), *bindings.folders()))
