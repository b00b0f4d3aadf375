"""Fits the corrections of the time model to measured times: `fit_model.py --correct`.

Least squares of the logarithms of measured times over modeled ones, less their mean in each product: what
all schedules of a product have in common doesn't matter to the choice among them. Times of other GPUs and of
older kernels count less; what the fences of these took is fitted beside the corrections, and left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from model_fit import Sample
from model_times import Times

from weft.errors import WeftError
from weft.schedules.h200 import H200, FittedGpu
from weft.schedules.wgmma_cycles import LEVEL, Case, are_corrected
from weft.schedules.wgmma_kernels import Array, Kernels

_TERMS = [name for name in H200.corrections if name != LEVEL]
_SHARERS = (2, 4, 8)  # CTAs that share copies in clusters
_FENCED = 1 / 3  # weight of times of older kernels,
_OF_OTHERS = 1 / 5  # and of those of another GPU than the model's


def corrected(model: FittedGpu, measured: Sequence[Times], seed: int, *, all_: bool = False) -> FittedGpu:
    """The model with corrections that were fitted to the products that don't check a fit, or to `all_`.

    Raises WeftError without times of elements of 16 bits.
    """
    able = filter(is_able, measured)
    samples = [Sample.of(times, seed, checked=None if all_ else False) for times in able]
    if not (parts := [_equations(model, sample) for sample in samples if len(sample.m)]):
        raise WeftError("corrections need times of products of 16-bit elements")
    terms, errors, means = (np.concatenate(each) for each in zip(*parts, strict=True))
    found, *_ = np.linalg.lstsq(terms, errors, rcond=None)
    found = found[: len(_TERMS)]
    level = -np.mean(means @ found)
    named = {LEVEL: level, **dict(zip(_TERMS, found, strict=True))}
    numbers = {name: float(f"{number:.3g}") for name, number in named.items()}
    return replace(model, corrections=MappingProxyType(numbers))


def plain(model: FittedGpu) -> FittedGpu:
    """The model without corrections."""
    return replace(model, corrections=MappingProxyType({}))


def is_able(times: Times) -> bool:
    """Whether the kernels of these times are corrected."""
    return are_corrected(times.types)


def row(model: FittedGpu) -> Iterator[str]:
    """The corrections as they stand in `h200`."""
    yield "_CORRECTIONS = {"
    for name, number in model.corrections.items():
        yield f'    "{name}": {number},'
    yield "}"


def written(source: str, model: FittedGpu) -> str:
    """The source of `h200` with the corrections of a model. Raises WeftError where it has none."""
    lines = source.splitlines()
    if (head := next(row(model))) not in lines:
        raise WeftError("h200.py must have corrections")
    first = lines.index(head)
    last = lines.index("}", first)
    return "\n".join([*lines[:first], *row(model), *lines[last + 1 :]]) + "\n"


def _importance(model: FittedGpu, times: Times) -> float:
    """How much an error of these times counts."""
    other = times.gpu not in ("", f"NVIDIA {model.name}")
    return (_FENCED if times.fenced else 1.0) * (_OF_OTHERS if other else 1.0)


def _of_fences(case: Case, fenced: bool) -> Iterator[Array]:
    """What kernels with fences may take in addition: cycles for clusters of each size and for K slices."""
    for which in (*map(case.of_size, _SHARERS), case.kernels.splits > 1, case.kernels.global_splits > 1):
        yield case.cost(which & fenced)


def _equations(model: FittedGpu, sample: Sample) -> tuple[Array, Array, Array]:
    """A row for each time: the terms and those of fences, and the logarithm by which it is off without
    corrections; both less their means in each product, and more the closer a time is to the least of its
    product. Then these means of the terms, a row for each product.
    """
    kernels = Kernels.of(sample.schedules, sample.times.types, model)[sample.which]
    case = Case(kernels, sample.m, sample.n, sample.k)
    off = np.log(sample.microseconds * model.clock_mhz / case.cycles)
    terms = [np.broadcast_to(np.asarray(term, float), off.shape) for term in case.terms.values()]
    fences = list(_of_fences(case, sample.times.fenced))
    weights, count = sample.closeness, len(sample.times.products)
    importance = np.sqrt(_importance(model, sample.times))
    total = np.bincount(sample.product, weights, count)

    def mean(values: Array) -> Array:
        return np.bincount(sample.product, weights * values, count) / np.maximum(total, 1e-9)

    def centred(values: Array) -> Array:
        return importance * np.sqrt(weights) * (values - mean(values)[sample.product])

    means = np.stack([mean(term)[total > 0] for term in terms], axis=1)
    return np.stack([centred(term) for term in (*terms, *fences)], axis=1), centred(off), means
