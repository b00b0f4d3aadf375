"""`w.tiles`: the tiles of a CTA, one of them or, in a persistent kernel, one after the other."""

from collections.abc import Callable, Iterator
from typing import Any

from weft.errors import shown
from weft.language import trace
from weft.language.mistakes import mistake
from weft.language.ranges import Range
from weft.language.roles import cta, ctas
from weft.language.scalars import Scalar
from weft.passes.builders import emit

Order = Callable[[Scalar, tuple[Scalar, ...]], Any]


class Tiles(Range):
    """The tiles of a persistent CTA: a loop of the GPU."""

    def __init__(self, counts: tuple[Scalar, ...], order: "Order | None" = None) -> None:
        total = counts[0].value
        for count in counts[1:]:
            total = emit.mul(total, count.value)
        super().__init__(cta(0), Scalar(total), ctas(0))
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "order", order)

    def item(self, number: Scalar) -> Any:
        """The coordinates of a tile, from its number."""
        coordinates, rest = list[Scalar](), number.value
        counts: tuple[Scalar, ...] = self.counts  # type: ignore[attr-defined]
        order: Order | None = self.order  # type: ignore[attr-defined]
        if order is not None:
            found = order(number, counts)
            if len(counts) > 1 and (not isinstance(found, tuple) or len(found) != len(counts)):
                raise mistake(f"order must return {len(counts)} coordinates, a tuple, got {found}")
            return found
        for count in counts[:-1]:
            coordinates.append(Scalar(emit.rem(rest, count.value)))
            rest = emit.div(rest, count.value)
        coordinates.append(Scalar(rest))
        return tuple(coordinates) if len(counts) > 1 else coordinates[0]


def tiles(*, order: Order | None = None) -> Any:
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
    return Tiles(current.tile_counts(), order)


class _Single:
    """The tile of a CTA that has one."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __iter__(self) -> Iterator[Any]:
        coordinates = tuple(cta(axis) for axis in range(self._rank))
        yield coordinates if self._rank > 1 else coordinates[0]
