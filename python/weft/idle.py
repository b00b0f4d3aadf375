"""Work that a thread does while it waits for another process."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress


class _Thread(threading.local):
    postponed: deque[Callable[[], object]] | None = None
    optional: tuple[Callable[[], object], ...] = ()


_thread = _Thread()


@contextmanager
def postponing() -> Iterator[None]:
    """In the block, `later` postpones work until this thread waits for a process, or until the block ends. It
    is done after an error, too, and cannot replace it by another one.
    """
    if _thread.postponed is not None:
        yield
        return
    _thread.postponed = deque()
    failed = True
    try:
        yield
        failed = False
    finally:
        rest, _thread.postponed, _thread.optional = _thread.postponed, None, ()
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
