"""`w.range` and `w.tiles`: the numbers of a loop of the GPU, and the tiles of a CTA."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.errors import shown
from weft.language.capture import trace
from weft.language.capture.origins import not_negative
from weft.language.messages.mistakes import mistake
from weft.language.operations.inspection import check
from weft.language.operations.roles import cta, ctas
from weft.language.values.dtypes import i32
from weft.language.values.scalars import Scalar, as_scalar
from weft.mlir import ir
from weft.passes.builders import emit


@dataclass(frozen=True)
class Range:
    """Every `step`-th number from `begin` on, below `end`."""

    begin: Any
    end: Any
    step: Any
    unroll: int = 1
    stages: int | None = None

    def loops(self) -> Iterator["Part"]:
        """The loops that go through the numbers: one, or with `unroll` a second one for what is left."""
        begin, end, step = (as_scalar(each, i32).value for each in (self.begin, self.end, self.step))
        if not not_negative(step):  # a loop would run without end
            check(Scalar(step) > 0, "step of w.range must be positive")
        if self.unroll == 1:
            yield Part(begin, end, step, (0,))
            return
        constant = all(isinstance(each, int) for each in (self.begin, self.end, self.step))
        if constant and len(range(self.begin, self.end, self.step)) % self.unroll == 0:
            middle = end
        else:
            span = emit.maximum(emit.sub(end, begin), 0)
            count = emit.div(emit.div(emit.add(span, emit.sub(step, 1)), step), self.unroll)
            middle = emit.value(emit.add(begin, emit.mul(emit.mul(count, self.unroll), step)))
        each_step = emit.value(emit.mul(step, self.unroll))
        yield Part(begin, middle, each_step, tuple(emit.mul(step, n) for n in range(self.unroll)))
        if middle is not end:
            yield Part(middle, end, step, (0,))

    def item(self, number: Scalar) -> object:
        """The value of the loop's variable, from a number of the loop."""
        return number


@dataclass(frozen=True)
class Part:
    """A loop from `begin` on, below `end`, and the distances of the numbers of one iteration from its own."""

    begin: ir.Value
    end: ir.Value
    step: ir.Value
    distances: tuple[ir.Value | int, ...]


def range_(
    first: object, end: object = None, step: object = 1, *, unroll: int = 1, stages: int | None = None
) -> Range:
    """A loop of the GPU over every `step`-th number from `first` on, below `end`: `for i in w.range(n)`.

    With one argument, it begins at 0. The step must be positive: the kernel stops if it isn't. With `unroll`,
    the body is repeated this number of times in an iteration, and a second loop executes the rest. A loop
    over Python's `range` is unrolled completely.

    In a loop with products of tiles from arrays, `stages` is the number of stages of shared memory for these
    tiles, which are filled some iterations ahead (`--pipeline-loops`). By default, there are up to four.
    """
    if stages is not None and (type(stages) is not int or stages < 2 or unroll != 1):
        raise mistake(f"stages of w.range must be at least 2, and unroll 1, got {shown(stages)}")
    if not isinstance(unroll, int) or isinstance(unroll, bool) or unroll < 1:
        raise mistake(f"unroll of w.range must be a positive number that Python knows, got {unroll}")
    begin, stop = (0, first) if end is None else (first, end)
    for name, value in (("first", begin), ("end", stop), ("step", step)):
        if isinstance(value, float) or (isinstance(value, Scalar) and value.dtype != i32):
            remedy = ": convert it with .to(w.i32)" if isinstance(value, Scalar) else ""
            raise mistake(f"{name} of w.range must be a w.i32, got {value}{remedy}")
    if isinstance(step, int) and step < 1:
        raise mistake(f"step of w.range must be positive, got {step}: count up, and subtract in the loop")
    return Range(begin, stop, step, unroll, stages)


Order = Callable[[Scalar, tuple[Scalar, ...]], object]


@dataclass(frozen=True)
class Tiles(Range):
    """The tiles of a persistent CTA: a loop of the GPU."""

    counts: tuple[Scalar, ...] = ()
    order: Order | None = None

    @staticmethod
    def of(counts: tuple[Scalar, ...], order: Order | None = None) -> "Tiles":
        """Those of a grid of so many tiles."""
        total = functools.reduce(emit.mul, (count.value for count in counts))
        return Tiles(cta(0), Scalar(total), ctas(0), counts=counts, order=order)

    def item(self, number: Scalar) -> object:
        """The coordinates of a tile, from its number."""
        coordinates, rest, counts = list[Scalar](), number.value, self.counts
        if self.order is not None:
            ordered = self.order(number, counts)
            if len(counts) > 1 and (not isinstance(ordered, tuple) or len(ordered) != len(counts)):
                raise mistake(f"order must return {len(counts)} coordinates, a tuple, got {ordered}")
            return ordered
        for count in counts[:-1]:
            coordinates.append(Scalar(emit.rem(rest, count.value)))
            rest = emit.div(rest, count.value)
        coordinates.append(Scalar(rest))
        return tuple(coordinates) if len(counts) > 1 else coordinates[0]


def tiles(*, order: Order | None = None) -> object:
    """The coordinates in the grid of the tiles that this CTA computes: `for x, y in w.tiles():`.

    There are as many coordinates as the grid has numbers. A kernel with `persistent=` has a CTA for each
    multiprocessor, which goes through its tiles in a loop of the GPU. In other kernels each CTA has one tile.

    CTA i of n computes the tiles with the numbers i, i + n, i + 2 n and so on. The first coordinate varies
    fastest, unless `order`, a function of a number and of the grid's numbers, returns the coordinates.
    """
    current = trace.current()
    if order is not None and not callable(order):
        raise mistake(f"order must be a function of a number and of the grid's numbers, got {shown(order)}")
    if current.persistent is None:
        if order is not None:
            raise mistake("order is for persistent kernels: write @w.kernel(grid=…, persistent=1)")
        return _Single(current.grid_rank)
    return Tiles.of(current.tile_counts(), order)


class _Single:
    """The tile of a CTA that has one."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __iter__(self) -> Iterator[object]:
        coordinates = tuple(cta(axis) for axis in range(self._rank))
        yield coordinates if self._rank > 1 else coordinates[0]
