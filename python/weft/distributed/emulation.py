"""Functions of all ranks of a team, on GPUs in the emulator, by threads of one process."""

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

from weft.distributed.host import HostDevices, Work, results_of, settled
from weft.distributed.teams import Team, check_arch
from weft.errors import WeftError, shown
from weft.system import upper

_numbers = itertools.count()


class _Room:
    """Where threads meet."""

    def __init__(self, size: int) -> None:
        self.number = next(_numbers)
        self.changed = threading.Condition()
        self.of_ranks: list[Any] = [None] * size
        self.results: list[Any] = []
        self.arrived = self.meetings = 0
        self.left = False


class _ThreadDevices(HostDevices):
    """A thread of this process among several. The last one that comes works."""

    def __init__(self, room: _Room, rank: int, chip: str) -> None:
        self._room, self.rank, self.size, self.chip = room, rank, len(room.of_ranks), chip
        self.name = f"emulation {room.number}, rank {rank}"

    def meet(self, own: object, work: Work) -> Any:
        room = self._room
        with room.changed:
            room.of_ranks[self.rank] = own
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
                room.results = results_of(list(room.of_ranks), work)
                room.arrived, room.meetings = 0, room.meetings + 1
                room.changed.notify_all()
            return settled(room.results[self.rank])

    def leave(self) -> None:
        """Ends all waits of other threads, which this one doesn't join any more."""
        with self._room.changed:
            self._room.left = True
            self._room.changed.notify_all()


def emulate(ranks: int, function: Callable[[Team], object], *, arch: str = "sm_90a") -> list[object]:
    """What `function` returns for each rank, by rank: threads call it together, each with a team of its own,
    whose GPUs are emulated.

    Arrays are tensors of PyTorch on the CPU, or NumPy's. PyTorch differentiates products of tensors. Raises
    what the first rank to fail has raised.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise WeftError(f"weft.distributed.emulate: ranks must be at least 1, got {shown(ranks)}")
    if not callable(function):
        raise WeftError(
            f"weft.distributed.emulate: function must be a function of a team, got {shown(function)}"
        )
    check_arch("weft.distributed.emulate", arch)
    if "torch" in sys.modules:
        upper.team_operators()
    results: list[object] = [None] * ranks
    errors: list[BaseException] = []

    def run(devices: _ThreadDevices) -> None:
        try:
            results[devices.rank] = function(Team.of(devices))
        except BaseException as error:
            errors.append(error)
        finally:
            devices.leave()

    room = _Room(ranks)
    each = [_ThreadDevices(room, rank, arch) for rank in range(ranks)]
    threads = [threading.Thread(target=run, args=(devices,)) for devices in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
