"""Builds steps from functions on arrays."""

from collections.abc import Callable, Sequence

from weft.emulator.decoding.table import Step
from weft.emulator.reading.types import Array, Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Watch

Function = Callable[..., Array]


def notify(event: Callable[[Watch, Bools], None]) -> Step:
    """A step that only reports an event of these threads to the observer, if there is one."""

    def run(lanes: Lanes) -> None:
        if lanes.wave.watch is not None:
            event(lanes.wave.watch, lanes.threads())

    return run


def compute(result: int, function: Function, *sources: int) -> Step:
    """`result = function(*sources)`; the function returns a new array of the result's storage type."""
    if len(sources) == 1:
        return _unary(result, function, *sources)
    if len(sources) == 2:
        return _binary(result, function, *sources)
    if len(sources) == 3:
        return _ternary(result, function, *sources)

    def run(lanes: Lanes) -> None:
        lanes.write(result, function(*[lanes.read(s) for s in sources]))

    return run


def _unary(result: int, function: Function, a: int) -> Step:
    def run(lanes: Lanes) -> None:
        if lanes.whole:
            lanes.regs[result] = function(lanes.regs[a])
        else:
            lanes.write(result, function(lanes.read(a)))

    return run


def _binary(result: int, function: Function, a: int, b: int) -> Step:
    def run(lanes: Lanes) -> None:
        if lanes.whole:
            regs = lanes.regs
            regs[result] = function(regs[a], regs[b])
        else:
            lanes.write(result, function(lanes.read(a), lanes.read(b)))

    return run


def _ternary(result: int, function: Function, a: int, b: int, c: int) -> Step:
    def run(lanes: Lanes) -> None:
        if lanes.whole:
            regs = lanes.regs
            regs[result] = function(regs[a], regs[b], regs[c])
        else:
            lanes.write(result, function(lanes.read(a), lanes.read(b), lanes.read(c)))

    return run


def compute_many(results: Sequence[int], function: Callable[..., Sequence[Array]], *sources: int) -> Step:
    """`results = function(*sources)` for a function that returns one array for each result."""

    def run(lanes: Lanes) -> None:
        values = function(*[lanes.read(s) for s in sources])
        for result, value in zip(results, values, strict=True):
            lanes.write(result, value)

    return run


def nothing(lanes: Lanes) -> None:
    """A step without effect."""


def guarded(step: Step, predicate: int, negated: bool) -> Step:
    """`step` for the lanes whose predicate is true."""

    def run(lanes: Lanes) -> None:
        mask, count = lanes.guarded(predicate, negated)
        if count == lanes.active:
            step(lanes)
        elif count:
            step(lanes.narrowed(mask))

    return run
