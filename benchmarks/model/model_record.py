"""Measures the trials of products for a fit of the time model: `fit_model.py --record`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from model_times import ProductTimes, Times
from model_trials import Trials

from weft.bench import implementations, measure
from weft.bench.compiling import Compiler, written
from weft.bench.gpu import TorchGpu
from weft.bench.problem import Problem
from weft.dialects.schedule import WarpgroupSchedule
from weft.schedules.database import Product

Asked = tuple[Problem, Product, list[WarpgroupSchedule]]
_OTHER = implementations.PEERS["cublas"][0]


def planned(products: Sequence[tuple[Problem, Product]], seed: int) -> list[Asked]:
    """The schedules that are measured of each product."""
    trials = Trials(seed)
    return [(problem, product, trials.of(product)) for problem, product in products]


def recorded(
    asked: Sequence[Asked],
    gpu: TorchGpu,
    compiler: Compiler,
    samples: int,
    keep: Callable[[Sequence[Times]], None],
    progress: measure.Progress,
) -> list[Times]:
    """The times of all that is asked for. `keep` is called with those so far, after each product."""
    times: dict[tuple[str, str], Times] = {}
    for _, product, schedules in asked:
        compiler.ahead(product, [written(s) for s in schedules])
    for number, (problem, product, schedules) in enumerate(asked, 1):
        named = {written(s): s for s in schedules}
        able = [text for text in named if compiler.complaint(product, text) is None]
        ours = [replace(implementations.weft(text), name=text) for text in able]
        results = measure.run(
            problem, [*ours, _OTHER], gpu, samples=samples, sustained=False, progress=lambda *_: None
        )
        found = {r.implementation: round(r.burst.microseconds, 3) for r in results if r.right and r.burst}
        kind = problem.inputs, problem.layout
        before = times.get(kind, Times(*kind, (), ()))
        of_ours = {s: found[text] for text, s in named.items() if text in found}
        times[kind] = _with(before, product, of_ours, found.get(_OTHER.name))
        keep(list(times.values()))
        progress(number, len(asked))
    return list(times.values())


def _with(
    times: Times, product: Product, found: dict[WarpgroupSchedule, float], other: float | None
) -> Times:
    """The times with those of one more product."""
    schedules = tuple(dict.fromkeys([*times.schedules, *found]))
    index = {s: number for number, s in enumerate(schedules)}
    one = ProductTimes(
        (product.m, product.n, product.k), {index[s]: time for s, time in found.items()}, other
    )
    return replace(times, schedules=schedules, products=(*times.products, one))
