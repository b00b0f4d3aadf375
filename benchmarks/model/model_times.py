"""Measured times of many schedules, in a file that a fit reads.

Each line has one combination of types and a layout, with the schedules and for each product its sizes, the
time of cuBLAS if there is one, and then the index and the microseconds of one schedule after the other. It
may name the GPU. Lines of kernels whose clusters began and ended with fences of the whole GPU are `fenced`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

from weft.bench.problem import INPUTS, LAYOUTS, Problem
from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError


@dataclass(frozen=True)
class ProductTimes:
    """M, N and K, the microseconds of schedules by their index, and those of cuBLAS."""

    size: tuple[int, int, int]
    microseconds: dict[int, float]
    other: float | None


@dataclass(frozen=True)
class Times:
    """The times of all products with `inputs`, a key of INPUTS, and a layout. `gpu`: where they were
    measured, if that is known. `fenced`: the kernels' clusters had fences that those of today don't have.
    """

    inputs: str
    layout: str
    schedules: tuple[WarpgroupSchedule, ...]
    products: tuple[ProductTimes, ...]
    gpu: str = ""
    fenced: bool = False

    @property
    def name(self) -> str:
        """The types and the layout."""
        return f"{self.inputs} {self.layout}"

    @property
    def types(self) -> Types:
        """As schedules know them."""
        from weft.bench.compiling import product_of

        of_a, of_b = (side == "t" for side in self.layout)
        problem = Problem(1, 1, 1, self.inputs, INPUTS[self.inputs].output, of_b, transpose_a=of_a)
        return product_of(problem, "").types


def written(times: Iterable[Times]) -> str:
    """The text of a file."""
    return "".join(f"{json.dumps(_plain(each), separators=(',', ':'))}\n" for each in times)


def read(text: str) -> Iterator[Times]:
    """The times in the text of a file. Raises WeftError for another text."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield _times(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise WeftError(f"line {number} must have times of schedules: {error}") from None


def _plain(times: Times) -> dict[str, Any]:
    products = [
        [*each.size, each.other, *(value for pair in each.microseconds.items() for value in pair)]
        for each in times.products
    ]
    known = {"gpu": times.gpu, "fenced": times.fenced}
    return {
        "inputs": times.inputs,
        "layout": times.layout,
        **{name: value for name, value in known.items() if value},
        "schedules": [astuple(s) for s in times.schedules],
        "products": products,
    }


def _times(record: dict[str, Any]) -> Times:
    if record["inputs"] not in INPUTS or record["layout"] not in LAYOUTS:
        raise ValueError(f"unknown types or layout, {record['inputs']} {record['layout']}")
    schedules = tuple(_schedule(*fields) for fields in record["schedules"])
    products = [
        ProductTimes((m, n, k), dict(zip(rest[::2], rest[1::2], strict=True)), other)
        for m, n, k, other, *rest in record["products"]
    ]
    known = str(record.get("gpu", "")), bool(record.get("fenced", False))
    return Times(record["inputs"], record["layout"], schedules, tuple(products), *known)


def _schedule(
    block: list[int],
    warpgroups: int,
    stages: int,
    group: int,
    splits: int,
    swap: bool,
    cluster: list[int],
    *later: Any,
) -> WarpgroupSchedule:
    """Of the fields in their order; older files lack the last ones."""
    (rows, columns, depth), (down, across) = block, cluster
    tile = (rows, columns, depth)
    return WarpgroupSchedule(tile, warpgroups, stages, group, splits, swap, (down, across), *later)
