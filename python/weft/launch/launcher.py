"""Launches that are prepared once and queued with new addresses: `launcher.ll`, compiled for this host.

Python lays out a plan: the parameters of a launch as one block, and where the addresses of arrays and
workspaces go in it. The compiled function copies the block, writes the addresses and calls the driver. Plans
are not changed by a launch, so any number of threads may queue one at the same time.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft import locks
from weft.launch import host_code
from weft.launch.cuda_driver import entry

# Statuses of a launch; above 0 are the driver's.
NO_WORKSPACE = -1  # for its stream yet
MISCOUNTED = -2  # the addresses
OVERLAP = -3  # of the written array and one that is read, by their first and last bytes
_ALIGNMENT = 64  # of each parameter: a tensor map needs it
_DRIVER = (
    "cuCtxGetCurrent",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuStreamGetCaptureInfo",
    "cuStreamGetId",
    "cuLaunchKernelEx",
)


@dataclass(frozen=True)
class Extents:
    """What a launch checks of the arrays that it is given: the one `written` shares no memory with others.

    `spans` has the bytes from each address to the end of its array; `in_place` has for each array whether it
    may be the written one, at the same address.
    """

    spans: tuple[int, ...]
    in_place: tuple[bool, ...]
    written: int

    def overlap(self, addresses: Sequence[int]) -> bool:
        """The check, for a launch that isn't compiled."""
        start = addresses[self.written]
        end = start + self.spans[self.written]
        each = zip(addresses, self.spans, self.in_place, strict=True)
        return any(a < end and start < a + span and not (same and a == start) for a, span, same in each)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter. With `address`, each launch replaces its first eight bytes by the address of that
    number: those that the caller gives come first, then the workspaces.
    """

    data: bytes
    address: int | None = None


class _Plan(ctypes.Structure):
    """`%Plan` of launcher.ll."""

    _fields_ = (
        ("driver", ctypes.c_void_p),
        ("context", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("config", ctypes.c_void_p),
        ("block", ctypes.c_void_p),
        ("block_bytes", ctypes.c_uint64),
        ("offsets", ctypes.c_void_p),
        ("parameters", ctypes.c_uint64),
        ("patches", ctypes.c_void_p),
        ("patched", ctypes.c_uint64),
        ("given", ctypes.c_uint64),
        ("spaced", ctypes.c_uint64),
        ("spaces", ctypes.c_void_p),
        ("extents", ctypes.c_void_p),
        ("written", ctypes.c_int64),
    )


class _Spaces(ctypes.Structure):
    """`%Spaces` of launcher.ll: its first `count` entries don't change any more."""

    _fields_ = (("count", ctypes.c_uint64), ("entries", ctypes.c_void_p))


class _Workspaces:
    """The workspaces of a plan, by stream or graph. Compiled code on other threads reads them meanwhile."""

    def __init__(self, each: int) -> None:
        self._width = 2 + each
        self._lock = locks.lock()
        self._room = 0
        self._kept: list[Any] = []  # a launch under way may still read an old table
        self._current = ctypes.c_void_p()
        self._known: dict[tuple[int, int], Sequence[int]] = {}
        self.address = ctypes.addressof(self._current)
        self._grow()

    def add(self, key: tuple[int, int], addresses: Sequence[int]) -> None:
        with self._lock:
            if key in self._known:  # another thread has added it
                return
            if len(self._known) == self._room:
                self._grow()
            self._put(len(self._known), key, addresses)
            self._known[key] = addresses
            self._table.count = len(self._known)

    def _put(self, number: int, key: tuple[int, int], addresses: Sequence[int]) -> None:
        self._entries[number * self._width : (number + 1) * self._width] = [*key, *addresses]

    def _grow(self) -> None:
        """Moves all to a table of twice the room."""
        self._room = 2 * self._room or 4
        self._entries = (ctypes.c_uint64 * (self._room * self._width))()
        for number, (key, addresses) in enumerate(self._known.items()):
            self._put(number, key, addresses)
        self._table = _Spaces(len(self._known), ctypes.addressof(self._entries))
        self._kept += [self._entries, self._table]
        self._current.value = ctypes.addressof(self._table)


class Plan:
    """A launch as compiled code reads it."""

    def __init__(
        self,
        context: int,
        function: int,
        config: Any,
        parameters: Sequence[Parameter],
        given: int,
        workspaces: int = 0,
        extents: Extents | None = None,
    ) -> None:
        """`config` is a CUlaunchConfig of cuda-bindings. A caller gives `given` addresses; each stream has
        `workspaces` more, from `add_workspaces`.
        """
        block, offsets = _block(parameters)
        patches = [
            number
            for offset, parameter in zip(offsets, parameters, strict=True)
            if parameter.address is not None
            for number in (offset, parameter.address)
        ]
        checked = extents or Extents((0,) * given, (True,) * given, 0)
        pairs = zip(checked.spans, checked.in_place, strict=True)
        words = _words(offsets), _words(patches), _words([int(n) for pair in pairs for n in pair])
        self._workspaces = _Workspaces(workspaces)
        driver = _driver()
        self._kept = (driver, config, block, *words)  # the plan points to all of it
        self._plan = _Plan(
            driver=ctypes.addressof(driver),
            context=context,
            function=function,
            config=int(config.getPtr()),
            block=ctypes.addressof(block),
            block_bytes=len(block),
            offsets=ctypes.addressof(words[0]),
            parameters=len(offsets),
            patches=ctypes.addressof(words[1]),
            patched=len(patches) // 2,
            given=given,
            spaced=workspaces,
            spaces=self._workspaces.address,
            extents=ctypes.addressof(words[2]),
            written=checked.written,
        )
        self.address = ctypes.addressof(self._plan)

    @property
    def queue(self) -> Callable[..., int]:
        """Queues the launch: `queue(stream, *addresses)`. It keeps the plan."""
        return self._bound(_compiled()[0])

    @property
    def queue_apart(self) -> Callable[..., int]:
        """The same, but returns OVERLAP where the extents overlap."""
        return self._bound(_compiled()[1])

    def _bound(self, function: Callable[..., int]) -> Callable[..., int]:
        bound = functools.partial(function, self.address)
        bound.plan = self  # type: ignore[attr-defined]
        return bound

    def add_workspaces(self, key: tuple[int, int], addresses: Sequence[int]) -> None:
        """From now on launches on the stream, or in the graph, of this key get these addresses."""
        self._workspaces.add(key, addresses)


def _block(parameters: Sequence[Parameter]) -> tuple[Any, list[int]]:
    """The parameters one after another, and where each begins."""
    offsets, data = [], b""
    for parameter in parameters:
        offsets.append(len(data))
        data += parameter.data + bytes(-len(parameter.data) % _ALIGNMENT)
    return (ctypes.c_char * len(data)).from_buffer_copy(data), offsets


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * max(1, len(values)))(*values)


@functools.cache
def _driver() -> Any:
    """`%Driver` of launcher.ll."""
    return (ctypes.c_void_p * len(_DRIVER))(*map(entry, _DRIVER))


@functools.cache
def _compiled() -> list[Callable[..., int]]:
    """`queue` and `queue_apart` of all plans."""
    return host_code.functions("launch/launcher.ll", ["weft_queue", "weft_queue_apart"])
