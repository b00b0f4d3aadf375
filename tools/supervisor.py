"""A tool's work in a process of its own, so that a crash of MLIR ends in a message, not in an abort."""

import sys
from collections.abc import Callable

from weft.system import phase


def supervised(tool: str, body: Callable[[], int]) -> int:
    """The exit status of `body`, the work of `tool` with the process's arguments, in a process of its own;
    where that dies, or where there is none to be had, prints why and returns 1.
    """
    if phase.shared():  # this is that process
        return body()
    if sys.platform == "win32" or sys.platform == "darwin":
        from weft.tools import spawned

        return spawned.run(tool)
    from weft.tools import forked

    return forked.run(tool, body)
