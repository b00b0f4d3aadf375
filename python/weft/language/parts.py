"""Functions of the elements of tiles, for parts of a lane's registers one after the other."""

from collections.abc import Callable
from typing import Any

from weft.dialects import tile
from weft.language.fragments import Fragment
from weft.mlir import vector
from weft.passes.builders import emit
from weft.passes.kernels.epilogue import pieces


def by_parts(function: Callable[..., Any], *tiles: Fragment, count: int) -> tuple[Fragment, ...]:
    """The tiles that a function of single elements makes of tiles in one layout: of `count` parts, one after
    the other, so that only one part's intermediate results need registers.
    """
    given = [each.elements() for each in tiles]
    divided = [pieces(each.type, count) for each in tiles]
    made = list[list[Any]]()
    for parts in zip(*divided, strict=True):
        registers = parts[0].registers
        results = function(*(_part(*each) for each in zip(given, parts, strict=True)))
        made = made or [[None] * len(given[0]) for _ in results]
        for elements, result in zip(made, results, strict=True):
            for register, element in zip(registers, result.elements(), strict=True):
                elements[register] = element
    like = tiles[0]
    return tuple(Fragment(emit.vector_of(each), like.shape, like.layout) for each in made)


def _part(elements: list[Any], part: Any) -> Fragment:
    lane = vector.from_elements(part.kind.lane_type, [elements[each] for each in part.registers])
    return Fragment.of(tile.from_lane(lane, part.kind))
