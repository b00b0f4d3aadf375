"""The GPUs whose kernels' times can be predicted, by name and by chip."""

from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.isa.suggest import did_you_mean
from weft.schedules.blackwell import B200, B300, GB10, GB200, GB300, RTX_5090, RTX_PRO_6000, THOR
from weft.schedules.gpu import Gpu
from weft.schedules.h200 import H200

GPUS: dict[str, Gpu] = {
    gpu.name: gpu for gpu in (B200, GB200, B300, GB300, THOR, RTX_5090, RTX_PRO_6000, GB10, H200)
}
"""By name. Of those with the same chip the first one stands for it."""


def has_model(chip: str) -> bool:
    """Whether the times of kernels for a chip, by ptxas's name, can be predicted."""
    return any(gpu.facts.number == CHIPS[chip].number for gpu in GPUS.values())


def gpus_of(chip: str) -> list[Gpu]:
    """The GPUs that run kernels for a chip, by ptxas's name, whichever its variant. Raises WeftError where
    there is none.
    """
    if gpus := [gpu for gpu in GPUS.values() if gpu.facts.number == CHIPS[chip].number]:
        return gpus
    legal = ", ".join(dict.fromkeys(gpu.chip for gpu in GPUS.values()))
    raise WeftError(f"arch must be a chip with a model of its GPUs ({legal}), got {chip}")


def gpu_of(chip: str, name: str | None = None) -> Gpu:
    """The GPU of a chip: the named one, or the first. Raises WeftError where there is none."""
    able = {gpu.name.lower(): gpu for gpu in gpus_of(chip)}
    if name is None:
        return next(iter(able.values()))
    if (gpu := able.get(name.lower())) is None:
        names = [gpu.name for gpu in able.values()]
        meant = did_you_mean(name, names)
        raise WeftError(f"gpu must be {' or '.join(names)} for {chip}, got '{name}'{meant}")
    return gpu
