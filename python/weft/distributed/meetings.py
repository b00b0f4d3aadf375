"""How the ranks of an emulated team meet in a call: processes of a group of PyTorch, or threads."""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from weft.errors import WeftError, shown

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Work = Callable[[list[Any]], Sequence[Any]]


class Meeting(Protocol):
    """The ranks of a team, and this one among them."""

    rank: int
    size: int
    name: str

    def together(self, given: object, work: Work) -> Any:
        """Returns the result of `work` for this rank. One rank calls it, with the data of all. All ranks
        must call `together`. Raises the WeftError of `work` on all ranks.
        """


@dataclass(frozen=True)
class _Failed:
    """The error that `work` has raised."""

    message: str


def _results(of_ranks: list[Any], work: Work) -> list[Any]:
    try:
        return list(work(of_ranks))
    except WeftError as error:
        return [_Failed(str(error))] * len(of_ranks)


def _settled(result: object) -> Any:
    if isinstance(result, _Failed):
        raise WeftError(result.message)
    return result


class Processes:
    """The processes of a group of PyTorch. The first one works."""

    def __init__(self, group: "ProcessGroup | None") -> None:
        from torch import distributed

        self._dist, self._group = distributed, group_of(group)
        self.name = self._group.group_name
        self.rank, self.size = distributed.get_rank(self._group), distributed.get_world_size(self._group)

    def together(self, given: object, work: Work) -> Any:
        first = self._dist.get_global_rank(self._group, 0)
        of_ranks = [None] * self.size if self.rank == 0 else None
        self._dist.gather_object(given, of_ranks, first, self._group)
        results = None if of_ranks is None else _results(of_ranks, work)
        mine = [None]
        self._dist.scatter_object_list(mine, results, first, self._group)
        return _settled(mine[0])


def group_of(group: "ProcessGroup | None") -> "ProcessGroup":
    """A process group, by default all processes. Raises WeftError if there is none."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        raise WeftError("weft.distributed.Team: call torch.distributed.init_process_group first")
    chosen = distributed.group.WORLD if group is None else group
    if not isinstance(chosen, distributed.ProcessGroup):
        raise WeftError(
            "weft.distributed.Team: group must be a process group of PyTorch that this process belongs to, "
            f"got {shown(group)}"
        )
    return chosen


_numbers = itertools.count()


class _Room:
    """Where threads meet."""

    def __init__(self, size: int) -> None:
        self.number = next(_numbers)
        self.changed = threading.Condition()
        self.given: list[Any] = [None] * size
        self.results: list[Any] = []
        self.arrived = self.meetings = 0
        self.left = False


class Threads:
    """A thread of this process among several. The last one that comes works."""

    def __init__(self, room: _Room, rank: int) -> None:
        self._room, self.rank, self.size = room, rank, len(room.given)
        self.name = f"emulation {room.number}, rank {rank}"

    @classmethod
    def of(cls, size: int) -> "list[Threads]":
        """The ranks of a new team."""
        room = _Room(size)
        return [cls(room, rank) for rank in range(size)]

    def together(self, given: object, work: Work) -> Any:
        room = self._room
        with room.changed:
            room.given[self.rank] = given
            room.arrived += 1
            if room.arrived < self.size:
                before = room.meetings
                room.changed.wait_for(lambda: room.left or room.meetings != before)
                if room.meetings == before:
                    raise WeftError(
                        f"rank {self.rank}: another rank has ended before this call: all ranks must call the "
                        "same products in the same order"
                    )
            else:
                room.results = _results(list(room.given), work)
                room.arrived, room.meetings = 0, room.meetings + 1
                room.changed.notify_all()
            return _settled(room.results[self.rank])

    def leave(self) -> None:
        """Ends all waits of other threads, which this one doesn't join any more."""
        with self._room.changed:
            self._room.left = True
            self._room.changed.notify_all()
