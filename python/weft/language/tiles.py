"""`w.tiles`: the tiles of a CTA, one of them or, in a persistent kernel, one after the other."""

from collections.abc import Iterator
from typing import Any

from weft.language import trace
from weft.language.ranges import Range
from weft.language.roles import cta, ctas
from weft.language.scalars import Scalar
from weft.passes.builders import emit


class Tiles(Range):
    """The tiles of a persistent CTA: a loop of the GPU."""

    def __init__(self, counts: tuple[Scalar, ...]) -> None:
        total = counts[0].value
        for count in counts[1:]:
            total = emit.mul(total, count.value)
        super().__init__(cta(0), Scalar(total), ctas(0))
        object.__setattr__(self, "counts", counts)

    def item(self, number: Scalar) -> Any:
        """The coordinates of a tile, from its number."""
        coordinates, rest = list[Scalar](), number.value
        counts: tuple[Scalar, ...] = self.counts  # type: ignore[attr-defined]
        for count in counts[:-1]:
            coordinates.append(Scalar(emit.rem(rest, count.value)))
            rest = emit.div(rest, count.value)
        coordinates.append(Scalar(rest))
        return tuple(coordinates) if len(counts) > 1 else coordinates[0]


def tiles() -> Any:
    """The coordinates in the grid of the tiles that this CTA computes: `for x, y in w.tiles():`.

    There are as many coordinates as the grid has numbers. A kernel with `persistent=` has a CTA for each
    multiprocessor, which goes through its tiles in a loop of the GPU. In other kernels each CTA has one tile.
    """
    current = trace.current()
    if current.persistent is None:
        return _Single(current.grid_rank)
    return Tiles(current.tile_counts())


class _Single:
    """The tile of a CTA that has one."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __iter__(self) -> Iterator[Any]:
        coordinates = tuple(cta(axis) for axis in range(self._rank))
        yield coordinates if self._rank > 1 else coordinates[0]
