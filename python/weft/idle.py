"""Work that a thread does while it waits for another process."""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Thread(threading.local):
    postponed: deque[Callable[[], object]] | None = None
    optional: tuple[Callable[[], object], ...] = ()
    known: dict[Hashable, Any] | None = None


_thread = _Thread()


@contextmanager
def postponing() -> Iterator[None]:
    """In the block, `later` postpones work until this thread waits for a process, or until the block ends. It
    is done after an error, too, and cannot replace it by another one.
    """
    if _thread.postponed is not None:
        yield
        return
    _thread.postponed, _thread.known = deque(), {}
    failed = True
    try:
        yield
        failed = False
    finally:
        rest, _thread.postponed, _thread.optional, _thread.known = _thread.postponed, None, (), None
        # An ExitStack goes on after an error.
        with suppress(Exception) if failed else nullcontext(), ExitStack() as works:
            for work in reversed(rest):
                works.callback(work)


def later(work: Callable[[], object]) -> None:
    """Does work at once, or in a block of `postponing` later. It may raise an error."""
    if _thread.postponed is None:
        work()
    else:
        _thread.postponed.append(work)


def once(name: Hashable, compute: Callable[[], _T]) -> _T:
    """What a function returns. In a block of `postponing`, it is called once for each name."""
    known = _thread.known
    if known is None:
        return compute()
    if name not in known:
        known[name] = compute()
    found: _T = known[name]
    return found


def meanwhile(work: Callable[[], object]) -> None:
    """Does work when this thread waits for a process in a block of `postponing`, and otherwise not at all."""
    if _thread.postponed is not None:
        _thread.optional += (work,)


def do() -> None:
    """Does what was postponed. A thread calls this before it waits for a process."""
    while _thread.postponed:
        _thread.postponed.popleft()()
    works, _thread.optional = _thread.optional, ()
    for work in works:
        work()
