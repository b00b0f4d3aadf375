"""A fake GPU for the tests of `weft bench`: its clock is the sum of the costs of its calls."""

from typing import Any

from weft.bench import measure
from weft.bench.implementation import Implementation, Refusal
from weft.bench.problem import Buffers, Check, Problem

SMALL = Problem(512, 512, 512, "bf16", "bf16")
RIGHT, WRONG = Check(1e-3, 1e-2), Check(0.5, 1e-2)


class FakeGpu:
    """Graphs are lists of calls; a call returns its milliseconds and notes which set it ran on."""

    def __init__(self, checks: dict[str, Check] | None = None) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.ran: list[tuple[str, int]] = []
        self.checks = checks or {}

    def buffers(self, problem: Problem) -> list[Buffers]:
        return [Buffers(number, number, number) for number in range(problem.sets)]

    def prepare(
        self, implementation: Implementation, problem: Problem, sets: list[Buffers]
    ) -> list[measure.Call]:
        return implementation.prepare(problem, sets)

    def capture(self, calls: list[Any]) -> list[Any]:
        return list(calls)

    def replay(self, graph: list[Any], untimed: int, timed: int) -> list[float]:
        self.ran.clear()
        milliseconds = sum(call() for call in graph)
        self.log.append(("replay", graph[0].name, untimed, timed))
        return [milliseconds] * timed

    def idle(self, milliseconds: float) -> None:
        self.log.append(("idle", milliseconds))

    def check(self, problem: Problem, sets: list[Buffers], graph: list[Any]) -> Check:
        return self.checks.get(graph[0].name, RIGHT)

    def reading(self) -> dict[str, str]:
        return {"clocks.sm": "1980 MHz"}

    def implementation(self, name: str, milliseconds: float) -> Implementation:
        """One whose calls take so long."""

        def prepare(problem: Problem, sets: list[Buffers]) -> list[Any]:
            return [Call(self, name, each.a, milliseconds) for each in sets]

        return Implementation(name, prepare)


class Call:
    def __init__(self, gpu: FakeGpu, name: str, place: int, milliseconds: float) -> None:
        self.gpu, self.name, self.place, self.milliseconds = gpu, name, place, milliseconds

    def __call__(self) -> float:
        self.gpu.ran.append((self.name, self.place))
        return self.milliseconds


def refusing(name: str) -> Implementation:
    def prepare(problem: Problem, sets: Any) -> list[Any]:
        raise Refusal("takes other shapes")

    return Implementation(name, prepare)
