"""One of those that are measured: its name, and what prepares its calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.bench.problem import INPUTS, Buffers, Problem
from weft.errors import WeftError

Call = Callable[[], object]


class Refusal(WeftError):
    """Why an implementation can't do a problem; what else was asked for is still measured."""


@dataclass(frozen=True)
class Implementation:
    """`prepare` makes one call for each set of buffers, which queues the product on PyTorch's current stream.

    It raises Refusal where the implementation isn't here or has no such product. What a library refuses by an
    error of its own shows when the calls run. `inputs` are those that it is measured with, where not all.
    `schedule` returns that of the kernel that the calls queue, as `read_schedule` reads it; "" for a library.
    """

    name: str
    prepare: Callable[[Problem, Sequence[Buffers]], list[Call]]
    inputs: tuple[str, ...] = tuple(INPUTS)
    schedule: Callable[[Problem, Sequence[Buffers]], str] = lambda problem, sets: ""


def milliseconds(calls: Sequence[Call]) -> float:
    """The time of a few calls, by which implementations with several configurations choose the fastest: the
    shortest of three rounds over all sets, after one that compiles and one that warms up. A graph has the
    calls, as in the measurement: the host may take longer for a call than the GPU.
    """
    import torch

    for call in calls:
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # on a stream of its own, as the default one can't be captured
        for call in calls:
            call()
    times = list[float]()
    for _ in range(4):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times[1:])
