"""How many kernels products need, one after the other, where one kernel serves several sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.dialects.schedule import AnySchedule
from weft.schedules import choice
from weft.schedules.choice import CHOOSERS, Request
from weft.schedules.database import Product


@dataclass(frozen=True)
class Needed:
    """What some products of the same types need.

    `chosen` are their schedules, each once, and `kernels` those that are compiled. `slower` is the mean ratio
    of the predicted times with these kernels to those with the chosen ones.
    """

    products: int
    chosen: tuple[AnySchedule, ...]
    kernels: tuple[AnySchedule, ...]
    slower: float


def needed(products: Sequence[Product], progress: Callable[[int, int], None]) -> Needed:
    """The kernels of a program that multiplies these products, if none are compiled before. Raises WeftError
    where a product has no schedule.
    """
    chosen, kernels, ratios = dict[AnySchedule, None](), dict[AnySchedule, None](), list[float]()
    for number, product in enumerate(products, 1):
        sizes, types, chip = (product.m, product.n, product.k), product.types, product.chip
        own = choice.choose(*sizes, types, chip)
        used = choice.compiled_instead(own, kernels.keys(), *sizes, types, chip)
        chosen[own] = kernels[used] = None
        predicted = CHOOSERS[type(own)].predicted
        if used == own or predicted is None:
            ratios.append(1.0)
        else:
            request = Request(*sizes, types, chip)
            instead, best = predicted(request, (used, own))
            ratios.append(instead / best)
        progress(number, len(products))
    return Needed(len(products), tuple(chosen), tuple(kernels), sum(ratios) / len(ratios))
