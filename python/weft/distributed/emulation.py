"""Functions of all ranks of a team, on GPUs in the emulator, by threads of one process."""

import sys
import threading
from collections.abc import Callable

from weft.distributed.host import HostDevices
from weft.distributed.meetings import Threads
from weft.distributed.teams import Team, check_arch
from weft.errors import WeftError, shown
from weft.system import upper


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

    def run(meeting: Threads) -> None:
        try:
            results[meeting.rank] = function(Team.of(HostDevices(meeting, arch)))
        except BaseException as error:
            errors.append(error)
        finally:
            meeting.leave()

    threads = [threading.Thread(target=run, args=(meeting,)) for meeting in Threads.of(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
