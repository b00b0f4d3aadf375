"""Fits the numbers of the time model to measured times: `fit_model.py --fit`.

Least squares of the logarithms of measured times over modeled ones, in which outliers count less (by the
method of Levenberg and Marquardt). A seed divides the products: some are fitted to, others check the result.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from model_times import Times

from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError
from weft.schedules import wgmma_cycles
from weft.schedules.h200 import FIT, FittedGpu
from weft.schedules.wgmma_kernels import Array, Kernels

CHECKED = 4  # one of so many products checks the fit
_OUTLIER = 0.12  # errors beyond this count in proportion
_CLOSENESS = 4  # a time twice the least of its product counts a sixteenth
_STEPS = 60
_SMALL = 1e-3  # for derivatives, of logarithms
_LONGEST = 0.5  # step of a logarithm
_ENOUGH = 1e-5  # a step that gains less of the cost is the last
_FACTORS = "factor_"  # numbers of which the tensor cores' own rate is the least
_LEAST = 1e-4


@dataclass(frozen=True)
class Quality:
    """How a model does on some products: the median of the errors' magnitudes, and the time of the schedule
    that it chooses among those that were measured, over that of the fastest: mean and largest.
    """

    products: int
    error: float
    regret: float
    worst: float
    against: float | None  # cuBLAS's time over the chosen schedule's, mean
    best_against: float | None  # the same for the fastest


def numbers(model: FittedGpu) -> dict[str, float]:
    """The fitted numbers of a model."""
    return {name: getattr(model, name) for name, source in model.sources.items() if source == FIT}


@dataclass(frozen=True)
class Sample:
    """The measured times of one combination of types, as columns."""

    times: Times
    schedules: Sequence[WarpgroupSchedule]
    which: Array  # the schedule
    product: Array
    m: Array
    n: Array
    k: Array
    microseconds: Array

    @classmethod
    def of(cls, times: Times, seed: int, *, checked: bool | None = None) -> "Sample":
        """Those of all products, or of those that check the fit, or of the others."""
        picked = [
            number
            for number in range(len(times.products))
            if checked in (None, is_checked(seed, times, number))
        ]
        rows = [
            (which, number, *times.products[number].size, time)
            for number in picked
            for which, time in times.products[number].microseconds.items()
        ]
        columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0, int)] * 6
        return cls(times, times.schedules, *columns)

    def cycles(self, model: FittedGpu) -> Array:
        """The modeled cycles."""
        kernels = Kernels.of(self.schedules, self.times.types, model)[self.which]
        return wgmma_cycles.cycles(kernels, self.m, self.n, self.k)

    @property
    def closeness(self) -> Array:
        """How much a time counts: those near the least of their product decide which schedule is chosen."""
        least = np.full(len(self.times.products), np.inf)
        np.minimum.at(least, self.product, self.microseconds)
        return (least[self.product] / self.microseconds) ** _CLOSENESS

    def errors(self, model: FittedGpu) -> Array:
        """The logarithms of modeled over measured times."""
        return np.log(self.cycles(model) / model.clock_mhz / self.microseconds)


def is_checked(seed: int, times: Times, number: int) -> bool:
    """Whether a product checks the fit."""
    return bool(np.random.default_rng([seed, number, *map(ord, times.name)]).integers(CHECKED) == 0)


def fit(model: FittedGpu, samples: Sequence[Sample]) -> FittedGpu:
    """The model with numbers that fit the samples best, starting with the ones that it has."""
    names = list(numbers(model))
    at = _logarithms(model, names)
    errors, damping = _errors(model, samples), 1e-2
    closeness = np.concatenate([sample.closeness for sample in samples])
    cost = _cost(errors, closeness)
    for _ in range(_STEPS):
        slopes = np.stack(
            [
                (_errors(_moved(model, names, at, i, _SMALL), samples) - errors) / _SMALL
                for i in range(len(at))
            ],
            axis=1,
        )
        weights = closeness / np.sqrt(1 + (errors / _OUTLIER) ** 2)
        normal, gradient = slopes.T @ (slopes * weights[:, None]), slopes.T @ (errors * weights)
        scale = np.diag(normal) + 1e-6 * len(errors)
        gained = 0.0
        for _ in range(8):
            step = np.clip(-np.linalg.solve(normal + damping * np.diag(scale), gradient), -_LONGEST, _LONGEST)
            tried = _with(model, names, at + step)
            now = _errors(tried, samples)
            if (less := _cost(now, closeness)) < cost:
                gained, at, errors, cost, damping = cost - less, at + step, now, less, max(damping / 4, 1e-6)
                break
            damping *= 5
        if gained < _ENOUGH * cost:
            break
    return _rounded(_with(model, names, at))


def quality(model: FittedGpu, sample: Sample) -> Quality | None:
    """How the model does on a sample; None if it's empty."""
    if not len(sample.m):
        return None
    errors = sample.errors(model)
    chosen, best, against = [], [], []
    modeled = errors + np.log(sample.microseconds)
    for number in np.unique(sample.product):
        rows = np.flatnonzero(sample.product == number)
        chosen.append(sample.microseconds[rows[np.argmin(modeled[rows])]])
        best.append(sample.microseconds[rows].min())
        against.append(sample.times.products[number].other or np.nan)
    ratio = np.array(chosen) / best
    other = np.array(against, float)
    known = np.isfinite(other)
    means = [
        _mean(other[known] / np.array(times)[known]) if known.any() else None for times in (chosen, best)
    ]
    return Quality(len(ratio), float(np.median(np.abs(errors))), _mean(ratio), float(ratio.max()), *means)


def row(model: FittedGpu) -> Iterator[str]:
    """The fitted numbers as they stand in `h200`."""
    for name, value in numbers(model).items():
        yield f"    {name}: float = {value}"


def written(source: str, model: FittedGpu) -> str:
    """The source of `h200` with the numbers of a model. Raises WeftError where it lacks some."""
    missing = []
    for name, line in zip(numbers(model), row(model), strict=True):
        source, count = re.subn(rf"(?m)^    {name}: float = [^\s]+", line, source)
        missing += [] if count else [name]
    if missing:
        raise WeftError(f"h200.py must have the numbers {', '.join(missing)}")
    return source


def _mean(ratios: Array) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def _floor(names: Sequence[str]) -> Array:
    return np.array([1.0 if name.startswith(_FACTORS) else 0.0 for name in names])


def _logarithms(model: FittedGpu, names: Sequence[str]) -> Array:
    values = np.array([getattr(model, name) for name in names])
    return np.log(np.maximum(values - _floor(names), _LEAST))


def _with(model: FittedGpu, names: Sequence[str], at: Array) -> FittedGpu:
    values: Mapping[str, Any] = dict(zip(names, map(float, np.exp(at) + _floor(names)), strict=True))
    return replace(model, **values)


def _moved(model: FittedGpu, names: Sequence[str], at: Array, index: int, by: float) -> FittedGpu:
    moved = at.copy()
    moved[index] += by
    return _with(model, names, moved)


def _rounded(model: FittedGpu) -> FittedGpu:
    """With four digits of each number."""
    values: Mapping[str, Any] = {name: float(f"{value:.4g}") for name, value in numbers(model).items()}
    return replace(model, **values)


def _errors(model: FittedGpu, samples: Sequence[Sample]) -> Array:
    return np.concatenate([sample.errors(model) for sample in samples])


def _cost(errors: Array, weights: Array) -> float:
    return float(np.sum(weights * (np.sqrt(1 + (errors / _OUTLIER) ** 2) - 1)))
