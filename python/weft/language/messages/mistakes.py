"""Errors of kernels, at the line of the user's code that was traced, and what to do about the emulator's."""

import os
from types import TracebackType

from weft.errors import Diagnostic, Location, WeftError, shown
from weft.ir import callers


def mistake(message: str, *notes: tuple[str, Location | None]) -> WeftError:
    """An error at the user's line that is traced now. Notes are messages, each at a line of its own."""
    attached = tuple(Diagnostic(text, where, "note") for text, where in notes)
    return WeftError(Diagnostic(message, callers.here(), notes=attached))


class Unseen(WeftError):
    """A change of an object that a loop or branch of the GPU can't have, noticed at its end."""


def unseen(message: str) -> Unseen:
    """The error for such a change, at the user's line that is traced now."""
    return Unseen(Diagnostic(message, callers.here()))


def at(where: Location | None) -> str:
    """A source line in a message, such as ` (line 31)`; nothing if it isn't known."""
    return "" if where is None else f" (line {where.line})"


_MAKERS = {
    "Buffer": "w.shared(rows, columns, dtype) makes a buffer",
    "Fragment": "w.zeros, w.full and w.load make fragments",
    "Ring": "w.ring(stages, name=(rows, columns, dtype)) makes a ring",
    "TensorMemory": "w.tensor_memory(rows, columns, dtype) makes it",
    "Scalar": "w.i32(value) makes a number of the GPU",
}


def not_called(name: str) -> str:
    """The message about a call of a type of the language that is there for annotations."""
    instead = f": {_MAKERS[name]}" if name in _MAKERS else ""
    return f"w.{name} is a type for annotations, which can't be called{instead}"


def check_value(value: object, name: str) -> None:
    """Raises WeftError unless a new value of a type of this name is one of MLIR, as Weft's own calls pass."""
    from weft.mlir import ir

    if not isinstance(value, ir.Value):
        raise mistake(not_called(name))


def check_flag(name: str, value: object) -> None:
    """Raises WeftError unless an argument is True or False."""
    if not isinstance(value, bool):
        raise mistake(f"{name} must be True or False, got {shown(value)}")


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
            kept, traceback = list[TracebackType](), error.__traceback__
            while traceback is not None:
                if not callers.is_hidden(traceback.tb_frame.f_code.co_filename):
                    kept.append(traceback)
                traceback = traceback.tb_next
            shortened: TracebackType | None = None
            for each in reversed(kept):
                shortened = TracebackType(shortened, each.tb_frame, each.tb_lasti, each.tb_lineno)
            error.__traceback__ = shortened


REMEDIES = {
    "shared-race": "put w.barrier(), or w.warpgroup_barrier(), between the two",
    "global-race": "let one thread write each element, or use w.atomic_add",
    "missing-proxy-fence": "call w.fence(), and then a barrier, after the store",
    "out-of-bounds": "guard elements by a condition, as 'if i < x.rows'; w.load and w.store of tiles mask "
    "rows and columns after the last one, and before the first one where a constant is subtracted",
    "uninitialized-shared": "store to the buffer, or fill the ring, before; w.sum and others of all threads "
    "can't be in a branch that only some threads take",
    "async-not-awaited": "take the stage of the ring, or w.wait for the product, before",
    "async-source-overwritten": "w.wait for the products that read the stage before its release",
    "async-at-exit": "take each stage of a ring that is filled: both roles must have as many iterations",
    "cluster-exit": "take each stage of a ring that is filled, and let CTAs of a cluster that access each "
    "other's buffers meet at w.cluster_barrier() at their end",
    "wgmma-in-flight": "w.wait for the product before",
    "divergent-aligned": "let all threads of the warpgroup get there: not in a branch on the thread's number",
    "shuffle-source": "let all threads of the warp get there: none of them must return before, or be outside "
    "of the branch",
    "deadlock": "each taker of a ring must take as many stages as are filled, takers= is the number of "
    "warpgroups that take each one, and all threads of a role must get to its barriers",
}
