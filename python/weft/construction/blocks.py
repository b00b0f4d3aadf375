"""The `with` blocks in which each thread builds operations, and the source location of each operation.

MLIR has one stack of contexts and insertion points for each thread. A task that awaits in a block, or a
generator that yields in one, leaves its entries on the stack for the next code on that thread. So this module
refuses operations if another task entered the innermost block, and the end of a block that isn't innermost.

This module also sets source locations. The bindings compute locations for all threads or for none, and for
none if they are built for the limited API of Python (3.12 and later).
"""

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

from weft.errors import Diagnostic, WeftError
from weft.ir import callers
from weft.mlir import ir
from weft.system import locks

_Builder = Callable[..., object]


class _Thread(threading.local):
    top: "Block | None" = None


_thread = _Thread()


class Block:
    """A `with` block: MLIR's stack entries for it, and the thread and task that entered it."""

    def __init__(
        self, unknown: ir.Location, point: ir.InsertionPoint, caller: FrameType | None, *, located: bool
    ) -> None:
        below = _thread.top
        inherited = ir.Location.current if below is not None and below.unknown is unknown else None
        self.unknown: ir.Location = unknown
        self.point = point
        self.location = inherited or unknown  # the user's own location, if one is current
        self.context = point.block.owner.context
        self.below = below
        self.task, self.thread = _task(), threading.get_ident()
        self.source = callers.source(caller)
        self.locations: dict[tuple[CodeType, int], ir.Location] = (
            below.locations if inherited and below else {}
        )
        self.closed = False
        self.located = located
        self.location.__enter__()
        point.__enter__()
        if located:
            _builders.count(1)

    def pop(self) -> bool:
        """Removes MLIR's entries from its stack. Returns False if others are above them."""
        if _point() is not self.point or ir.Location.current is not self.location:
            return False
        self.point.__exit__(None, None, None)
        self.location.__exit__(None, None, None)
        if self.located:
            _builders.count(-1)
        return True


def enter(unknown: ir.Location, point: ir.InsertionPoint, *, located: bool = True) -> Block:
    """Makes `point` current for this task's operations, until `leave`.

    `unknown` is the module's unknown location: the same object for each of its blocks. Operations of a block
    that isn't `located` keep it, and aren't checked: such blocks are for Weft's own code.
    """
    _settle()
    block = Block(unknown, point, callers.caller_of(sys._getframe(1)), located=located)
    _thread.top = block
    return block


def leave(block: Block) -> None:
    """Ends a block, in any order and from any thread. MLIR's entries are removed once they are on top."""
    block.closed = True
    if block.thread == threading.get_ident():
        _settle()


def check_end(block: Block) -> None:
    """Raises WeftError if this task has entered a later block that is still open."""
    _settle()
    top = _thread.top
    if top is not None and top is not block and not top.closed and top.task is block.task:
        message = f"innermost module must be the one whose block ends, got the one entered at {top.source}"
        raise WeftError(Diagnostic(f"{message}: don't yield inside 'with weft.Module()'", block.source))


def check() -> None:
    """Raises WeftError if another task entered the innermost block of this thread."""
    _settle()
    if (top := _thread.top) is not None:
        _check(top, sys._getframe(1))


def current() -> Block | None:
    """The innermost block of this thread, or None."""
    return _thread.top


def _settle() -> None:
    """Removes closed blocks from the stack that were left out of order."""
    while (top := _thread.top) is not None and top.closed and top.pop():
        _thread.top = top.below


def _task() -> object:
    """The running asyncio task."""
    if (events := sys.modules.get("asyncio.events")) is None:
        return None
    loop = events._get_running_loop()
    return None if loop is None else sys.modules["asyncio.tasks"].current_task(loop)


def _check(top: Block, frame: FrameType) -> None:
    if top.closed or top.task is not _task():
        complaint = (
            f"innermost module must be one that this task entered, got the one entered at {top.source}"
        )
        advice = "enter one in this task, and don't await or yield inside 'with weft.Module()'"
        raise WeftError(Diagnostic(f"{complaint}: {advice}", callers.source(callers.caller_of(frame))))


def _location(frame: FrameType) -> ir.Location | None:
    """The location of an operation that is built now without one; None to leave it to the bindings."""
    if (top := _thread.top) is None or not top.located or ir.Context.current is not top.context:
        return None
    if top.closed:
        _settle()
        if _thread.top is not top:
            return _location(frame)
    _check(top, frame)
    if ir.Location.current is not top.unknown or (caller := callers.caller_of(frame)) is None:
        return None
    key = caller.f_code, caller.f_lasti
    if (location := top.locations.get(key)) is None:
        location = top.locations[key] = _of(caller, top.context)
    return location


def _of(frame: FrameType, context: ir.Context) -> ir.Location:
    code, (line, last, column, end) = frame.f_code, callers.span(frame)
    file = callers.readable(code.co_filename)
    name = callers.readable(getattr(code, "co_qualname", code.co_name))
    if None in (line, last, column, end):
        location = ir.Location.file(file, frame.f_lineno or 0, 0, context)
    else:
        location = ir.Location.file(file, line, column, last, end, context)
    return ir.Location.name(name, location, context)


def _point() -> ir.InsertionPoint | None:
    try:
        return ir.InsertionPoint.current
    except ValueError:
        return None


class _Builders:
    """The two functions in which all of upstream's builders end. Upstream has no hook for one thread.

    While any thread has entries of a block on its stack, they give operations the location of the user's
    code. At other times they are upstream's own: every operation that is built or read calls one of them,
    and a pass does so thousands of times.
    """

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._blocks = 0
        self._own = ir.OpView.__init__, ir.Operation.create

    def count(self, entered: int) -> None:
        """Counts blocks whose entries are put on a stack (1) or removed from it (-1)."""
        with self._lock:
            before, self._blocks = self._blocks, self._blocks + entered
            if not before and self._blocks:
                self._replace(*_located(*self._own))
            elif before and not self._blocks:
                self._replace(*self._own)

    def _replace(self, build: _Builder, create: _Builder) -> None:
        ir.OpView.__init__, ir.Operation.create = build, staticmethod(create)


def _located(build: _Builder, create: _Builder) -> tuple[_Builder, _Builder]:
    """Upstream's functions, with the location of the user's code where a block is entered and none given."""

    def located_build(self: ir.OpView, *arguments: object, **named: object) -> None:
        # With keywords it builds; with an operation alone it wraps.
        if named and _thread.top is not None and named.get("loc") is None:
            named["loc"] = _location(sys._getframe(1))
        build(self, *arguments, **named)

    def located_create(*arguments: object, **named: object) -> object:
        if _thread.top is not None and named.get("loc") is None:
            named["loc"] = _location(sys._getframe(1))
        return create(*arguments, **named)

    return located_build, located_create


_builders = _Builders()
