"""A GPU as the models of kernels' times see it, and how its numbers are stated: each with its source.

A source "fit" names the published points (benchmarks/published/blackwell.json) or the measurements to which
the value was fitted; "inferred" marks a value that no source states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from weft.isa.chips import CHIPS, Chip


def rates(**of_kinds: float) -> Mapping[str, float]:
    """Rates by kind."""
    return MappingProxyType(of_kinds)


@dataclass(frozen=True, eq=False, kw_only=True)
class Gpu:
    """One GPU. `flops` has the multiplications and additions of a multiprocessor in a cycle, `caps` the
    TFLOP/s at the power limit, `burst_caps` those after a rest where they were measured; all by kind.
    `sources` has the source of every number.
    """

    name: str
    chip: str
    instruction: str
    sources: Mapping[str, str]
    multiprocessors: int
    clock_ghz: float
    flops: Mapping[str, float]
    caps: Mapping[str, float]
    burst_caps: Mapping[str, float] = field(default_factory=rates)
    idle_power: float  # exponent of the share of busy cycles in the speed at the power limit

    @property
    def family(self) -> str:
        """The name of the families of schedules whose kernels have a model."""
        return self.instruction.partition(".")[0]

    @property
    def clock_mhz(self) -> float:
        """Cycles of a microsecond."""
        return self.clock_ghz * 1e3

    @property
    def facts(self) -> Chip:
        """The chip's limits."""
        return CHIPS[self.chip]

    def cap(self, kind: str, *, burst: bool = False) -> float | None:
        """TFLOP/s at the power limit; None where none is known."""
        return (self.burst_caps.get(kind) if burst else None) or self.caps.get(kind)


_G = TypeVar("_G", bound=Gpu)


def row(family: type[_G], name: str, chip: str, instruction: str, /, **numbers: tuple[Any, str]) -> _G:
    """A GPU, from its numbers and their sources."""
    values = {each: value for each, (value, _) in numbers.items()}
    sources = MappingProxyType({each: source for each, (_, source) in numbers.items()})
    return family(name=name, chip=chip, instruction=instruction, sources=sources, **values)


def like(gpu: _G, name: str, chip: str = "", /, **numbers: tuple[Any, str]) -> _G:
    """A GPU whose other numbers, and their sources, are those of another one."""
    values = {each: value for each, (value, _) in numbers.items()}
    sources = {**gpu.sources, **{each: source for each, (_, source) in numbers.items()}}
    return replace(gpu, name=name, chip=chip or gpu.chip, sources=MappingProxyType(sources), **values)
