"""The method: every implementation of a problem as one CUDA graph of rotating calls, timed in turns.

`burst` times a graph after a rest, at the highest clock; `sustain` times graphs back to back, at the clock
that the power limit leaves. No time has the host's cost of a launch in it, all have the gap between kernels.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.bench.implementation import Call, Implementation, Refusal
from weft.bench.problem import Check, Problem

if TYPE_CHECKING:
    import torch

    from weft.bench.gpu import TorchGpu

GRAPH_MS = 1.5
REST_MS = 12.0
REST_GRAPHS = 3
# A shorter graph is replayed once before it is timed: else its launch would be timed too.
UNTIMED_BELOW_MS = 5.0
LOAD_MS = 300.0
ROUNDS = 7
FEWEST_REPLAYS, MOST_REPLAYS = 4, 10
REPLAYS_MS = 20.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Timing:
    """Milliseconds of each timed replay of a graph of so many calls."""

    calls: int
    replays: tuple[float, ...]

    @property
    def microseconds(self) -> float:
        """Of one call: the median."""
        return 1000 * statistics.median(self.replays) / self.calls

    @property
    def spread(self) -> float:
        """The interquartile range over the median."""
        low, middle, high = statistics.quantiles(self.replays, n=4, method="inclusive")
        return (high - low) / middle


@dataclass(frozen=True)
class Result:
    """What one implementation did with one problem; only the `reason` where it couldn't.

    `schedule` is that of Weft's kernel, as `read_schedule` reads it; "" where it isn't known.
    """

    problem: Problem
    implementation: str
    reason: str = ""
    burst: Timing | None = None
    sustained: Timing | None = None
    check: Check | None = None
    schedule: str = ""

    @property
    def right(self) -> bool:
        """Whether there is a result that counts."""
        return self.check is not None and self.check.passed

    def timing(self, mode: str) -> Timing | None:
        """The timing in a mode, `burst` or `sustained`, where the result is right and was timed so."""
        timings = {"burst": self.burst, "sustained": self.sustained}
        return timings[mode] if self.right else None


@dataclass(frozen=True)
class Captured:
    """A graph, the calls in it, and about how long it takes. `owners` keep memory that the graph uses."""

    graph: "torch.cuda.CUDAGraph"
    calls: int
    milliseconds: float
    owners: Sequence[Call] = ()


def run(
    problem: Problem,
    implementations: Sequence[Implementation],
    gpu: "TorchGpu",
    *,
    samples: int,
    sustained: bool,
    progress: Progress,
) -> list[Result]:
    """Measures all implementations of one problem in turns; one Result for each, in their order.

    `progress` is called with the number of steps that are done and their total.
    """
    try:
        sets = gpu.buffers(problem)
    except Refusal as refusal:
        return [Result(problem, i.name, refusal.diagnostics[0].message) for i in implementations]
    reasons: dict[str, str] = {}
    graphs: dict[str, Captured] = {}
    schedules: dict[str, str] = {}
    for implementation in implementations:
        try:
            graphs[implementation.name] = _captured(gpu, gpu.prepare(implementation, problem, sets))
            schedules[implementation.name] = implementation.schedule(problem, sets)
        except Refusal as refusal:
            reasons[implementation.name] = refusal.diagnostics[0].message
    steps = len(graphs) * (samples + (ROUNDS if sustained else 0))
    done = iter(range(1, steps + 1))

    def step() -> None:
        progress(next(done), steps)

    bursts = burst(gpu, graphs, samples, step)
    loaded = sustain(gpu, graphs, step) if sustained else {}
    checks = {name: gpu.check(problem, sets, captured.graph) for name, captured in graphs.items()}
    return [
        Result(
            *(problem, name, reasons.get(name, "")),
            *(bursts.get(name), loaded.get(name), checks.get(name)),
            schedules.get(name, ""),
        )
        for name in (implementation.name for implementation in implementations)
    ]


def _captured(gpu: "TorchGpu", calls: Sequence[Call]) -> Captured:
    """A graph that goes through all sets as often as makes it long enough to time."""
    graph = gpu.capture(calls)
    (milliseconds,) = gpu.replay(graph, 1, 1)
    rounds = math.ceil(GRAPH_MS / milliseconds)
    if rounds > 1:
        graph = gpu.capture([*calls] * rounds)
        (milliseconds,) = gpu.replay(graph, 1, 1)
    return Captured(graph, rounds * len(calls), milliseconds, calls)


def burst(
    gpu: "TorchGpu", graphs: dict[str, Captured], samples: int, step: Callable[[], None]
) -> dict[str, Timing]:
    """`samples` replays of each graph, one of each in turns, each after a rest."""
    replays: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(samples):
        for name, captured in graphs.items():
            gpu.idle(max(REST_MS, REST_GRAPHS * captured.milliseconds))
            replays[name] += gpu.replay(captured.graph, int(captured.milliseconds < UNTIMED_BELOW_MS), 1)
            step()
    return _timings(graphs, replays)


def sustain(gpu: "TorchGpu", graphs: dict[str, Captured], step: Callable[[], None]) -> dict[str, Timing]:
    """Seven rounds of replays back to back, some of each graph in turns, once the GPU is under load."""
    replays: dict[str, list[float]] = {name: [] for name in graphs}
    for captured in list(graphs.values())[-1:]:  # the first one's predecessor in the rounds, too
        gpu.replay(captured.graph, 0, math.ceil(LOAD_MS / captured.milliseconds))
    for _ in range(ROUNDS):
        for name, captured in graphs.items():
            wanted = round(REPLAYS_MS / captured.milliseconds)
            timed = min(max(wanted, FEWEST_REPLAYS), MOST_REPLAYS)
            replays[name] += gpu.replay(captured.graph, 1, timed)
            step()
    return _timings(graphs, replays)


def _timings(graphs: dict[str, Captured], replays: dict[str, list[float]]) -> dict[str, Timing]:
    return {name: Timing(captured.calls, tuple(replays[name])) for name, captured in graphs.items()}
