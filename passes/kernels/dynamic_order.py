"""The order in which cluster launch control assigns tiles: there is a cluster for each tile, and those that
run take over the tiles of those that haven't started.

One thread of a cluster asks for tiles, ahead of the warps that compute them. All warps of all its CTAs get
each answer.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule.tcgen05 import ANSWERS
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Body, Order

_NONE = -1


def make_answers(readers: int) -> Any:
    """The ring of answers, each of which so many warps of every CTA read."""
    return tile.make_ring(ANSWERS, filled_by="clc", emptied_by="warps", consumers=readers)


@dataclass(frozen=True)
class DynamicOrder:
    """The tiles of an `order` whose numbers come through the ring `answers`; a cluster has `ctas`."""

    order: Order
    answers: Any
    ctas: int

    def walk(self, first: Any, step: ir.Value, carried: list[Any], body: Body) -> list[Any]:
        """A loop over tile `first` and those that are taken over, for a warp or its elected thread. Returns
        what it carries.
        """

        def before(number: Any, *rest: Any) -> tuple[Any, list[Any]]:
            return emit.less(_NONE, number), [number, *rest]

        def after(number: Any, stage: ir.Value, phase: Any, *carried: Any) -> list[Any]:
            left = body(self.order.at(number), list(carried))
            tile.await_(self.answers, stage, phase)
            number = self._answer(stage)
            tile.release(self.answers, stage)
            return [number, *tile.advance(self.answers, stage, phase), *left]

        zero = emit.value(0)
        return emit.repeat([emit.value(first), zero, zero, *carried], before, after)[3:]

    def ask(self) -> None:
        """Asks for tiles until there are none left; for one thread of the cluster, in the CTA of rank 0."""

        def before(stage: ir.Value, phase: Any) -> tuple[Any, list[Any]]:
            tile.acquire(self.answers, stage, phase)
            tile.try_cancel(self.answers, stage)
            tile.await_(self.answers, stage, phase)
            exists = emit.less(_NONE, self._answer(stage))
            return exists, list(tile.advance(self.answers, stage, phase))

        emit.repeat([emit.value(0), emit.value(0)], before)

    def _answer(self, stage: ir.Value) -> Any:
        """The number of the tile in an answer, or a negative number without one."""
        exists, (x, _, _) = tile.query_cancel(self.answers, stage)
        return emit.select(exists, emit.div(x, self.ctas), _NONE)
