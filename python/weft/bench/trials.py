"""The time of a few calls, by which implementations with several configurations choose the fastest."""

from collections.abc import Sequence

from weft.bench.implementation import Call

_ROUNDS = 3


def milliseconds(calls: Sequence[Call]) -> float:
    """The shortest of three rounds over all sets, after one that compiles and warms up."""
    import torch

    times = list[float]()
    for _ in range(1 + _ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times[1:])
