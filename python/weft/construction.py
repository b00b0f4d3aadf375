"""The `with` blocks in which each thread builds operations, and the source location of each operation.

MLIR has one stack of contexts and insertion points per thread. A task that awaits inside a block, or a
generator that yields there, leaves its entries to whatever runs next on that thread. So every operation that
is built in a `weft.Module` passes here, and is refused where the innermost block isn't its builder's own.

It also gets its location here. The bindings compute locations for all threads or for none, and for none where
they are built for the limited API of Python (3.12 and later).
"""

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from weft.errors import Diagnostic, Location, WeftError
from weft.mlir import ir


class _Thread(threading.local):
    top: "Block | None" = None


_thread = _Thread()
# The innermost block that the running task has entered; the tasks and greenlets of a thread have one each.
_entered: ContextVar["Block | None"] = ContextVar("weft_entered", default=None)


class Block:
    """What `enter` makes of a `with` block: MLIR's entries for it, and who entered it."""

    def __init__(self, unknown: Any, point: Any, caller: FrameType | None) -> None:
        below = _thread.top
        inherited = ir.Location.current if below is not None and below.unknown is unknown else None
        self.unknown: Any = unknown
        self.point: Any = point
        self.location = inherited or unknown  # the user's own, where one is current
        self.context = point.block.owner.context
        self.below, self.before = below, _own()
        self.task, self.thread = _task(), threading.get_ident()
        self.caller, self.place = caller, _place(caller)
        known = below.callers if below else frozenset()
        # A caller that an `await` or `yield` has suspended isn't among the frames of the stack.
        self.running = frozenset(frame for frame in _frames(caller) if frame in known)
        self.callers: frozenset[FrameType] = known if caller is None else known | {caller}
        self.locations: dict[tuple[CodeType, int], Any] = below.locations if inherited and below else {}
        self.closed = False
        self.location.__enter__()
        point.__enter__()

    def pop(self) -> bool:
        """Takes MLIR's entries off its stack; False where others lie above them."""
        if _point() is not self.point or ir.Location.current is not self.location:
            return False
        self.point.__exit__(None, None, None)
        self.location.__exit__(None, None, None)
        return True


def enter(unknown: Any, point: Any) -> Block:
    """Makes `point` current for this task's operations, until `leave`.

    `unknown` is the module's unknown location: the same object for each of its blocks.
    """
    _settle()
    block = Block(unknown, point, _caller(sys._getframe(1)))
    _thread.top = block
    _entered.set(block)
    return block


def leave(block: Block) -> None:
    """Ends a block, in any order and from any thread. MLIR's entries go when nothing lies above them."""
    block.closed = True
    if _entered.get() is block:
        _entered.set(_open(block.before))
    if block.thread == threading.get_ident():
        _settle()


def check() -> None:
    """Raises WeftError where the innermost block of this thread is another task's or generator's."""
    _settle()
    if (top := _thread.top) is not None:
        _check(top, sys._getframe(1))


def current() -> Block | None:
    """The block that this task builds in."""
    return _own()


def _settle() -> None:
    """Drops blocks that other threads, tasks or generators have left out of order."""
    while (top := _thread.top) is not None and top.closed and top.pop():
        _thread.top = top.below


def _open(block: Block | None) -> Block | None:
    while block is not None and block.closed:
        block = block.before
    return block


def _own() -> Block | None:
    block = _open(_entered.get())
    # A context variable may come from the thread that started this one.
    return block if block is not None and block.thread == threading.get_ident() else None


def _task() -> object:
    """The running task of asyncio; its tasks inherit context variables from the one that starts them."""
    if (events := sys.modules.get("asyncio.events")) is None:
        return None
    loop = events._get_running_loop()
    return None if loop is None else sys.modules["asyncio.tasks"].current_task(loop)


def _check(top: Block, frame: FrameType) -> None:
    if top.closed or _own() is not top or top.task is not _task() or not _innermost(top, frame):
        wanted = "expected the innermost module to be one that this task entered"
        found = f"{wanted}, found the one entered at {top.place}"
        advice = "enter one in this task, and don't await or yield inside 'with weft.Module()'"
        raise WeftError(Diagnostic(f"{found}: {advice}", _place(_caller(frame))))


def _innermost(top: Block, frame: FrameType) -> bool:
    """Whether `top` is the innermost block of the code that runs: no frame of the stack that has entered a
    block was suspended when one above it was entered.
    """
    for running in _frames(frame):
        if running is top.caller:
            return True
        if running in top.callers:
            block: Block | None = top
            while block is not None and block.caller is not running:
                if not block.closed and running not in block.running:
                    return False
                block = block.below
            return True
    return True


def _location(frame: FrameType) -> Any:
    """The location of an operation that is built now without one; None where its context decides."""
    if (top := _thread.top) is None or ir.Context.current is not top.context:
        return None
    if top.closed:
        _settle()
        return _location(frame)
    _check(top, frame)
    if ir.Location.current is not top.unknown or (caller := _caller(frame)) is None:
        return None
    key = caller.f_code, caller.f_lasti
    if (found := top.locations.get(key)) is None:
        found = top.locations[key] = _of(caller, top.context)
    return found


def _of(frame: FrameType, context: Any) -> Any:
    code, (line, last, column, end) = frame.f_code, _span(frame)
    file, name = _readable(code.co_filename), _readable(getattr(code, "co_qualname", code.co_name))
    if None in (line, last, column, end):
        place = ir.Location.file(file, frame.f_lineno or 0, 0, context)
    else:
        place = ir.Location.file(file, line, column, last, end, context)
    return ir.Location.name(name, place, context)


def _span(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, first and last column of what a frame executes, as far as its code has them."""
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))


def _place(caller: FrameType | None) -> Location | None:
    """Where a frame stands, with columns as MLIR counts them."""
    if caller is None:
        return None
    line, _, column, _ = _span(caller)
    return Location(_readable(caller.f_code.co_filename), line or 0, column or 0)


def _readable(name: str) -> str:
    """A file's or function's name without what MLIR can't have in a string."""
    return name.encode("utf-8", "backslashreplace").decode()


def _point() -> Any:
    try:
        return ir.InsertionPoint.current
    except ValueError:
        return None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _caller(frame: FrameType) -> FrameType | None:
    """The innermost frame outside of Weft and the bindings."""
    return next((each for each in _frames(frame) if not _hidden(each.f_code.co_filename)), None)


@cache
def _hidden(file: str) -> bool:
    return file == contextlib.__file__ or file.startswith(_HIDDEN)


def _hidden_folders() -> Iterator[Path]:
    """Weft's packages, which lie beside this file or at the top of a checkout, and the bindings."""
    yield Path(__file__).parent
    yield Path(ir.__file__).parent
    for name in ("weft.dialects", "weft.passes"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            yield Path(spec.origin).parent


_HIDDEN = tuple(f"{folder}{os.sep}" for folder in _hidden_folders())


def _give_locations() -> None:
    """Lets operations that are built in a block get the location of the code that asked for them.

    Upstream's builders end in these two functions, and nothing else in them is open to a thread alone.
    """
    build, create = ir.OpView.__init__, ir.Operation.create

    def located_build(self: Any, *arguments: Any, **named: Any) -> None:
        # With keywords it builds; with an operation alone it wraps.
        if named and _thread.top is not None and named.get("loc") is None:
            named["loc"] = _location(sys._getframe(1))
        build(self, *arguments, **named)

    def located_create(*arguments: Any, **named: Any) -> Any:
        if _thread.top is not None and named.get("loc") is None:
            named["loc"] = _location(sys._getframe(1))
        return create(*arguments, **named)

    ir.OpView.__init__ = located_build
    ir.Operation.create = staticmethod(located_create)


_give_locations()
