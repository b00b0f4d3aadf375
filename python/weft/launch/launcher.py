"""Prepared launches that are queued with new addresses, by `launcher.ll` compiled for this host.

Python prepares a plan: one block with all parameters, and the offsets of the addresses of arrays and
workspaces in it. The compiled function copies the block, writes the addresses and calls the driver. A launch
doesn't change its plan, so any number of threads may queue one plan at the same time.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.isa.tensor_map import ALIGNMENT
from weft.launch import host_code
from weft.launch.cuda_driver import entry
from weft.system import locks

# Statuses of a launch. Positive ones are errors of the driver.
NO_WORKSPACE = -1  # the stream has no workspaces yet
MISCOUNTED = -2  # wrong number of addresses
OVERLAP = -3  # the written array overlaps one that is read
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
    """The arrays of a launch that must not overlap array number `written`.

    `spans` contains, for each array, the number of bytes from its address to its end; `in_place`, whether it
    may be the written array itself, at the same address.
    """

    spans: tuple[int, ...]
    in_place: tuple[bool, ...]
    written: int

    def overlap(self, addresses: Sequence[int]) -> bool:
        """Whether the written array overlaps another. `launcher.ll` has the same check."""
        start = addresses[self.written]
        end = start + self.spans[self.written]
        each = zip(addresses, self.spans, self.in_place, strict=True)
        return any(a < end and start < a + span and not (same and a == start) for a, span, same in each)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter. Unless `address` is None, each launch replaces its first eight bytes by the address
    with that number plus `distance`. The caller's addresses are numbered first, then those of the workspaces.
    """

    data: bytes
    address: int | None = None
    distance: int = 0


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
    """`%Spaces` of launcher.ll. The first `count` entries never change."""

    _fields_ = (("count", ctypes.c_uint64), ("entries", ctypes.c_void_p))


class _Workspaces:
    """The workspaces of a plan, by stream or graph. Compiled code on other threads may read them at any
    time.
    """

    def __init__(self, count: int) -> None:
        self._width = 2 + count
        self._lock = locks.lock()
        self._capacity = 0
        self._kept: list[Any] = []  # old tables, which running launches may still read
        self._current = ctypes.c_void_p()
        self._known: dict[tuple[int, int], Sequence[int]] = {}
        self.address = ctypes.addressof(self._current)
        self._grow()

    def add(self, key: tuple[int, int], addresses: Sequence[int]) -> None:
        """Adds the workspaces of a stream or graph, unless another thread has added them."""
        with self._lock:
            if key in self._known:
                return
            if len(self._known) == self._capacity:
                self._grow()
            self._put(len(self._known), key, addresses)
            self._known[key] = addresses
            self._table.count = len(self._known)

    def _put(self, number: int, key: tuple[int, int], addresses: Sequence[int]) -> None:
        self._entries[number * self._width : (number + 1) * self._width] = [*key, *addresses]

    def _grow(self) -> None:
        """Copies all entries to a table of twice the capacity."""
        self._capacity = 2 * self._capacity or 4
        self._entries = (ctypes.c_uint64 * (self._capacity * self._width))()
        for number, (key, addresses) in enumerate(self._known.items()):
            self._put(number, key, addresses)
        self._table = _Spaces(len(self._known), ctypes.addressof(self._entries))
        self._kept += [self._entries, self._table]
        self._current.value = ctypes.addressof(self._table)


class Plan:
    """A launch in the form that compiled code reads."""

    def __init__(
        self,
        context: int,
        function: int,
        config: Any,
        parameters: Sequence[Parameter],
        addresses: int,
        workspaces: int = 0,
        extents: Extents | None = None,
    ) -> None:
        """`config` is a CUlaunchConfig of cuda-bindings. Each launch takes `addresses` addresses; each stream
        has `workspaces` more, set by `add_workspaces`.
        """
        block, offsets = _block(parameters)
        patches = [
            number
            for offset, parameter in zip(offsets, parameters, strict=True)
            if parameter.address is not None
            for number in (offset, parameter.address, parameter.distance)
        ]
        checked = extents or Extents((0,) * addresses, (True,) * addresses, 0)
        pairs = zip(checked.spans, checked.in_place, strict=True)
        words = _words(offsets), _words(patches), _words([int(n) for pair in pairs for n in pair])
        self._workspaces = _Workspaces(workspaces)
        driver = _driver()
        self._kept = (driver, config, block, *words)  # the plan has pointers to them
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
            patched=len(patches) // 3,
            given=addresses,
            spaced=workspaces,
            spaces=self._workspaces.address,
            extents=ctypes.addressof(words[2]),
            written=checked.written,
        )
        self.address = ctypes.addressof(self._plan)

    @property
    def queue(self) -> Callable[..., int]:
        """`queue(stream, *addresses)` queues the launch and returns its status. It keeps the plan alive."""
        return self._bound(compiled()[0])

    @property
    def queue_apart(self) -> Callable[..., int]:
        """As `queue`, but returns OVERLAP without a launch if arrays of the extents overlap."""
        return self._bound(compiled()[1])

    def _bound(self, function: Callable[..., int]) -> Callable[..., int]:
        bound = functools.partial(function, self.address)
        bound.plan = self  # type: ignore[attr-defined]
        return bound

    def add_workspaces(self, key: tuple[int, int], addresses: Sequence[int]) -> None:
        """Sets the workspaces of later launches on the stream, or in the graph, with this key."""
        self._workspaces.add(key, addresses)


def _block(parameters: Sequence[Parameter]) -> tuple[Any, list[int]]:
    """The parameters as one block, and the offset of each."""
    offsets, data = [], b""
    for parameter in parameters:
        offsets.append(len(data))
        data += parameter.data + bytes(-len(parameter.data) % ALIGNMENT)
    return (ctypes.c_char * len(data)).from_buffer_copy(data), offsets


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * max(1, len(values)))(*values)  # negative ones modulo 2**64


@functools.cache
def _driver() -> Any:
    """`%Driver` of launcher.ll."""
    return (ctypes.c_void_p * len(_DRIVER))(*map(entry, _DRIVER))


@functools.cache
def compiled() -> list[Callable[..., int]]:
    """The compiled functions for `queue` and `queue_apart`, which take a plan's address first."""
    return host_code.functions("launch/launcher.ll", ["weft_queue", "weft_queue_apart"])
