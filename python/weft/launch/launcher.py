"""Prepared launches that `host.c` queues with new addresses.

A plan is one block with all parameters, and the offsets of the addresses of arrays and workspaces in it. A
launch copies the block, writes the addresses and calls the driver. It doesn't change its plan, so any number
of threads may queue one plan at the same time.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.isa.tensor_map import ALIGNMENT
from weft.launch import host
from weft.system import locks

# Statuses of a launch. Positive ones are errors of the driver.
NO_WORKSPACE = -1  # the stream has no workspaces yet
MISCOUNTED = -2  # wrong number of addresses
OVERLAP = -3  # the written array overlaps one that is read


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
        """Whether the written array overlaps another. `host.c` has the same check."""
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
        host.connect()
        block, offsets = _block(parameters)
        patches = [
            number
            for offset, parameter in zip(offsets, parameters, strict=True)
            if parameter.address is not None
            for number in (offset, parameter.address, parameter.distance)
        ]
        checked = extents or Extents((0,) * addresses, (True,) * addresses, 0)
        pairs = zip(checked.spans, checked.in_place, strict=True)
        tables = host.words(offsets), host.words(patches), host.words(n for pair in pairs for n in pair)
        starts, patched, spans = map(ctypes.addressof, tables)
        fields = [
            *(context, function, int(config.getPtr()), ctypes.addressof(block), len(block)),
            *(starts, len(offsets), patched, len(patches) // 3),
            *(addresses, workspaces, 0, spans, checked.written),
        ]
        self._plan = host.words(fields)
        self._kept = [config, block, *tables]  # to which the plan has pointers
        self._spaces: set[tuple[int, int]] = set()
        self._lock = locks.lock()
        self.address = ctypes.addressof(self._plan)

    @property
    def queue(self) -> Callable[..., int]:
        """`queue(stream, *addresses)` queues the launch and returns its status. It keeps the plan alive."""
        return self._bound(host.functions.queue)

    @property
    def queue_apart(self) -> Callable[..., int]:
        """As `queue`, but returns OVERLAP without a launch if arrays of the extents overlap."""
        return self._bound(host.functions.queue_apart)

    def _bound(self, function: Callable[..., int]) -> Callable[..., int]:
        bound = functools.partial(function, self.address)
        bound.plan = self  # type: ignore[attr-defined]
        return bound

    def add_workspaces(self, key: tuple[int, int], addresses: Sequence[int]) -> None:
        """Sets the workspaces of later launches on the stream, or in the graph, with this key, unless another
        thread has set them. Launches on other threads may read the list of all at any time.
        """
        with self._lock:
            if key not in self._spaces:
                self._spaces.add(key)
                space = host.words([self._plan[_SPACES], *key, *addresses])
                self._kept.append(space)
                self._plan[_SPACES] = ctypes.addressof(space)


_SPACES = 11  # the field of a plan with the first of its workspaces


def _block(parameters: Sequence[Parameter]) -> tuple[Any, list[int]]:
    """The parameters as one block, and the offset of each."""
    offsets, data = [], b""
    for parameter in parameters:
        offsets.append(len(data))
        data += parameter.data + bytes(-len(parameter.data) % ALIGNMENT)
    return (ctypes.c_char * len(data)).from_buffer_copy(data), offsets
