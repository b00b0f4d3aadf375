"""Tracebacks of users' mistakes, with the lines of their own code."""

import os
from types import TracebackType

from weft.errors import WeftError
from weft.ir import callers

FULL = "WEFT_FULL_TRACEBACKS"
"""The environment variable that, set to 1, keeps Weft's own frames in tracebacks."""


class of_users:
    """A block whose WeftErrors leave it without the frames of Weft's own code in their tracebacks: about
    ten, which say nothing about the mistake.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, WeftError) and os.environ.get(FULL) != "1":
            error.__traceback__ = _of_users(error.__traceback__)


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    kept = list[TracebackType]()
    while traceback is not None:
        if not callers.is_hidden(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    made: TracebackType | None = None
    for each in reversed(kept):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made
