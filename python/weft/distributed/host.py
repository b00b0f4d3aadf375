"""Teams on the CPU: each rank calls with its own arrays, and one of them emulates the GPUs of all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from weft.distributed.devices import Array, Host, Make, different
from weft.errors import WeftError, shown, warn
from weft.launch import arrays
from weft.system import upper

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Work = Callable[[list[Any]], Sequence[Any]]
_MOST_REPORTED = 3  # findings in one message


class HostDevices(Host, ABC):
    """A rank of a team on the CPU. Its plans are those of `Together`."""

    @abstractmethod
    def meet(self, own: object, work: Work) -> Any:
        """Returns the result of `work` for this rank. One rank calls it, with what all ranks pass as `own`.
        All ranks must call `meet`. Raises the WeftError of `work` on all ranks.
        """

    def agree(self, key: tuple[object, ...]) -> None:
        self.together(repr(key), key[0], None, lambda of_ranks: of_ranks)

    def together(self, key: str, product: object, own: object, work: Work) -> Any:
        """As `meet`. Raises WeftError on all ranks if their keys differ; `product` describes the call."""

        def checked(calls: list[Any]) -> Sequence[Any]:
            if len(kinds := {key: product for key, product, _ in calls}) > 1:
                raise WeftError(different(list(kinds.values())))
            return work([each for *_, each in calls])

        return self.meet((key, str(product), own), checked)

    def is_watched(self, operands: Sequence[Array]) -> bool:
        tensors = [each for each in operands if _is_tensor(each)]
        if not tensors:
            return False
        from weft.torch.transforms import is_watched

        if len(tensors) < len(operands):
            if is_watched(tensors):
                others = {type(each).__name__ for each in operands if not _is_tensor(each)}
                raise WeftError(
                    "weft.distributed: if PyTorch differentiates or casts an array, all must be tensors; got "
                    + ", ".join(sorted(others))
                )
            return False
        upper.team_operators()
        return is_watched(operands)

    def planned(self, make: Make, product: object, team: Any) -> "Together":
        return Together(make, product, self, type(team).emulated)


def results_of(of_ranks: list[Any], work: Work) -> list[Any]:
    """What `work` returns for each rank, or its error."""
    try:
        return list(work(of_ranks))
    except WeftError as error:
        return [error] * len(of_ranks)


def settled(result: object) -> Any:
    """A result. Raises an error."""
    if isinstance(result, WeftError):
        raise WeftError(str(result))
    return result


class ProcessDevices(HostDevices):
    """A process of a group of PyTorch, the first of which works."""

    def __init__(self, group: "ProcessGroup | None", chip: str) -> None:
        from torch import distributed

        self._dist, self._group, self.chip = distributed, group_of(group), chip
        self.name = self._group.group_name
        self.rank, self.size = distributed.get_rank(self._group), distributed.get_world_size(self._group)

    def meet(self, own: object, work: Work) -> Any:
        first = self._dist.get_global_rank(self._group, 0)
        of_ranks = [None] * self.size if self.rank == 0 else None
        self._dist.gather_object(own, of_ranks, first, self._group)
        results = None if of_ranks is None else results_of(of_ranks, work)
        mine = [None]
        self._dist.scatter_object_list(mine, results, first, self._group)
        return settled(mine[0])


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


class Together:
    """A plan whose products are emulated for all ranks at once."""

    def __init__(
        self, make: Make, product: object, devices: HostDevices, teams: Callable[..., Sequence[Any]]
    ) -> None:
        """`teams` makes the teams of a world."""
        self._make, self._product, self._devices, self._teams = make, product, devices, teams

    def start(self, operands: Sequence[Array]) -> Callable[[], Array]:
        """As `run`, which the result calls."""
        return partial(self.run, operands)

    def run(self, operands: Sequence[Array]) -> Array:
        """The results of the arrays of all ranks, for this one."""
        given = [arrays.view(each).numpy() for each in operands]
        key = f"run {self._product!r}"
        result = self._devices.together(key, self._product, given, self._emulated)
        if isinstance(result, list | tuple):
            return type(result)(_like(operands[0], each) for each in result)
        return _like(operands[0], result)

    def _emulated(self, given: list[Any]) -> list[Array]:
        """Emulates the product, and returns the result of each rank."""
        from weft import emulator

        world = emulator.World(self._devices.size)
        teams = self._teams(world, self._devices.chip)
        plans = [self._make(self._product, team) for team in teams]
        results = [plan.run(operands) for plan, operands in zip(plans, given, strict=True)]
        report = world.run()
        if report.findings:
            more = f"; and {len(report.findings) - _MOST_REPORTED} more"
            text = "; ".join(map(str, report.findings[:_MOST_REPORTED]))
            warn(f"{self._product}: {text}{more * (len(report.findings) > _MOST_REPORTED)}")
        return results


def _is_tensor(array: Array) -> bool:
    return arrays.library(type(array)) == "torch"


def _like(array: Array, result: npt.NDArray[Any]) -> Array:
    """A NumPy array in the library of another array."""
    if not _is_tensor(array):
        return result
    import torch

    tensor = torch.from_numpy(result.view(f"u{result.dtype.itemsize}"))
    return tensor.view(getattr(torch, result.dtype.name))
