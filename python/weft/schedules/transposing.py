"""Which of A and B `weft.matmul` copies to K-major matrices before a product, for `wgmma`, which reads some
types no other way. The numbers were measured on an H200.
"""

from collections.abc import Sequence
from dataclasses import replace

from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError
from weft.schedules import choice, mn_major, time_model
from weft.schedules.chip_models import CHIP_MODELS, chip_model
from weft.schedules.database import Product

_FEWEST_US = 22.0
"""Microseconds in which a CPU queues both launches; a single one takes 6 to 8. Products that take less time
gain nothing from copies, except in a graph.
"""
_COPY_US = 0.8
"""Microseconds of a copy, whatever its size,"""
_COPY_RATE = 1.9e6
"""and the bytes of a matrix that it copies in another one."""


def transposes(
    m: int,
    n: int,
    k: int,
    types: Types,
    chip: str,
    members: int,
    elements: tuple[int, int],
    padded: tuple[bool, bool] = (False, False),
) -> tuple[bool, bool]:
    """Which of A and B are copied for `members` products of M x N x K. `elements` are those of A and of B;
    those that are `padded` have rows that TMA can't take, and are copied in any case.
    """
    none, copied = (False, False), replace(types, transposed=(False, False))
    if chip not in CHIP_MODELS or not _reads(copied, chip) or _reads(types, chip):
        return none
    if choice.layout_complaint(types, chip) is None:
        by_mma = mn_major.microseconds(m, n, k, types, chip, members)
        by_wgmma = _wgmma_us(m, n, k, copied, chip, members)
        sizes = [of * types.input_bytes for of in elements]
        every = [mn or padded for mn, padded in zip(types.transposed, padded, strict=True)]
        if by_mma is None or _with_copies(by_mma, sizes, padded) <= _with_copies(by_wgmma, sizes, every):
            return none
    return types.transposed


def multiplied(product: Product) -> Product:
    """A product of arrays with rows that TMA takes, as kernels multiply it: after copies if it has some."""
    elements = product.m * product.k, product.n * product.k
    copied = transposes(product.m, product.n, product.k, product.types, product.chip, 1, elements)
    a, b = (mn and not each for mn, each in zip(product.types.transposed, copied, strict=True))
    return replace(product, types=replace(product.types, transposed=(a, b))) if any(copied) else product


def _with_copies(us: float, sizes: Sequence[int], copied: Sequence[bool]) -> tuple[float, float]:
    """The times of a product and of the copies of some of A and B, of these sizes in bytes: of a call, and of
    the GPU.
    """
    bytes_ = sum(size for size, each in zip(sizes, copied, strict=True) if each)
    us += _COPY_US + bytes_ / _COPY_RATE if bytes_ else 0.0
    return max(_FEWEST_US, us) if bytes_ else us, us


def _reads(types: Types, chip: str) -> bool:
    """Whether `wgmma` multiplies these types with operands as they are stored."""
    return chip in WarpgroupSchedule.chips(types) and WarpgroupSchedule.layout_complaint(types) is None


def _wgmma_us(m: int, n: int, k: int, types: Types, chip: str, members: int) -> float:
    """Microseconds of the schedule of `wgmma` that is chosen."""
    model = chip_model(chip)
    try:
        schedule = time_model.choose(m, n, k, types, model, members=members)
    except WeftError:
        return float("inf")
    return time_model.modeled(schedule, m, n, k, types, model, members=members) / model.clock_mhz
