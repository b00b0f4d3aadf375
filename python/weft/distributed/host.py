"""Teams on the CPU: each rank calls with its own arrays, and one of them emulates the GPUs of all."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from weft.distributed.devices import Array, Host, Make, different
from weft.distributed.meetings import Meeting, Work
from weft.errors import WeftError, warn
from weft.launch import arrays
from weft.system import upper

_MOST_REPORTED = 3  # findings in one message


class HostDevices(Host):
    """A rank of a team on the CPU. Its plans are those of `Together`."""

    def __init__(self, meeting: Meeting, chip: str) -> None:
        self._meeting, self.chip = meeting, chip
        self.rank, self.size, self.name = meeting.rank, meeting.size, meeting.name

    def agree(self, key: tuple[object, ...]) -> None:
        self.together(repr(key), key[0], None, lambda given: given)

    def together(self, key: str, product: object, given: object, work: Work) -> Any:
        """As `Meeting.together`. Raises WeftError on all ranks if their keys differ; `product` describes the
        call.
        """

        def checked(calls: list[Any]) -> Sequence[Any]:
            if len(kinds := {key: product for key, product, _ in calls}) > 1:
                raise WeftError(different(list(kinds.values())))
            return work([each for *_, each in calls])

        return self._meeting.together((key, str(product), given), checked)

    def is_watched(self, operands: Sequence[Array]) -> bool:
        tensors = [each for each in operands if _is_tensor(each)]
        if not tensors:
            return False
        from weft.distributed import watching

        if len(tensors) < len(operands):
            if watching.is_watched(tensors):
                others = {type(each).__name__ for each in operands if not _is_tensor(each)}
                raise WeftError(
                    "weft.distributed: if PyTorch differentiates or casts an array, all must be tensors; got "
                    + ", ".join(sorted(others))
                )
            return False

        upper.team_operators()
        return watching.is_watched(operands)

    def planned(self, make: Make, product: object, team: Any) -> "Together":
        return Together(make, product, self, type(team).emulated)


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
