"""Which schedules a fit of the time model measures of a product: the model's best, and others that differ."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from weft.dialects.schedule import WarpgroupSchedule
from weft.schedules import wgmma, wgmma_cycles
from weft.schedules.database import Product
from weft.schedules.h200 import fitted_gpu
from weft.schedules.wgmma_kernels import Kernels
from weft.target import Target

_SLOWEST = 1.7  # times the model's best: slower schedules teach little
_FASTEST = 250  # candidates to draw from
_NEW, _NEW_BEST = 1.25, 1.04  # what a kernel that no product has measured yet must gain to be tried
_BEST, _KINDS, _ANY = 3, 4, 2  # schedules of a product, in addition to the model's choice

_Kind = Callable[[WarpgroupSchedule], object]
_KINDS_OF: tuple[_Kind, ...] = (
    lambda s: s.ctas == s.global_splits == 1,
    lambda s: s.splits > 1,
    lambda s: s.global_splits > 1,
    lambda s: s.cluster == (2, 1),
    lambda s: s.cluster == (1, 2),
    lambda s: s.cluster[0] * s.cluster[1] == 4,
    lambda s: s.cluster[0] * s.cluster[1] == 8,
    lambda s: s.swap,
    lambda s: s.warpgroups == 1,
    lambda s: s.warpgroups == 3,
    lambda s: s.stages <= 3,
)


@dataclass
class Trials:
    """Draws the trials of one product after another. Few kernels serve many products, to compile fewer."""

    seed: int = 0
    used: Counter[WarpgroupSchedule] = field(default_factory=Counter)

    def of(self, product: Product) -> list[WarpgroupSchedule]:
        """About nine schedules, or none where none is legal."""
        size = product.m, product.n, product.k
        source = Random(f"{self.seed} {product.types} {size}")
        times = _times(product)
        if not times:
            return []
        picked = {min(times, key=lambda s: times[s] * (1 if self.used[s] else _NEW_BEST)): True}
        near = sorted(times, key=lambda s: times[s] * (1 if self.used[s] else _NEW))
        picked |= dict.fromkeys(_different(near, _BEST), True)
        kinds = source.sample(_KINDS_OF, len(_KINDS_OF))
        of_kinds = (next((s for s in near if kind(s) and s not in picked), None) for kind in kinds)
        picked |= dict.fromkeys([s for s in of_kinds if s is not None][:_KINDS], True)
        known = [s for s in near if self.used[s] and s not in picked]
        picked |= dict.fromkeys(source.sample(known, min(_ANY, len(known))), True)
        self.used.update(list(picked))
        return list(picked)


def _different(near: list[WarpgroupSchedule], count: int) -> Iterator[WarpgroupSchedule]:
    """The first of each block and number of slices."""
    seen = set()
    for s in near:
        kind = s.block[:2], s.splits * s.global_splits
        if kind not in seen:
            seen.add(kind)
            yield s
        if len(seen) == count:
            return


def _times(product: Product) -> dict[WarpgroupSchedule, float]:
    """The modeled cycles of the fastest candidates, and of the same with fewer stages."""
    chip, target = fitted_gpu(product.chip), Target.of(product.chip)
    size, types = (product.m, product.n, product.k), product.types
    times: dict[WarpgroupSchedule, float] = {}
    for cycles, s in wgmma.by_time(*size, types, chip):
        if times and (cycles > _SLOWEST * min(times.values()) or len(times) == _FASTEST):
            break
        times[s] = cycles
    fewer = [replace(s, stages=max(s.stages // 2, 2)) for s in times]
    fewer = [s for s in fewer if s.complaint(types, target) is None]
    if fewer:
        cycles_of = wgmma_cycles.cycles(Kernels.of(fewer, types, chip), *size)
        times |= dict(zip(fewer, map(float, cycles_of), strict=True))
    return times
