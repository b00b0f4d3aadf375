"""Which of A and B `weft.matmul` copies to K-major matrices before a product, for `wgmma`, which reads some
types no other way.
"""

from collections.abc import Sequence
from dataclasses import replace

from weft.dialects.product_types import Types
from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError
from weft.schedules import choice, tma_mma, wgmma
from weft.schedules.database import Product
from weft.schedules.h200 import FITTED_GPUS, FittedGpu


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
    gpu = FITTED_GPUS.get(chip)
    if gpu is None or not reads_copies(types, chip):
        return none
    if choice.layout_complaint(types, chip) is None:
        by_mma = tma_mma.measured_us(m, n, k, types, gpu, members)
        try:
            by_wgmma = wgmma.microseconds(m, n, k, copied, gpu, members=members)
        except WeftError:
            by_wgmma = float("inf")
        sizes = [of * types.input_bytes for of in elements]
        every = [mn or padded for mn, padded in zip(types.transposed, padded, strict=True)]
        with_copies = _with_copies(by_wgmma, sizes, every, gpu)
        if by_mma is None or _with_copies(by_mma, sizes, padded, gpu) <= with_copies:
            return none
    return types.transposed


def reads_copies(types: Types, chip: str) -> bool:
    """Whether `wgmma` multiplies these types on a chip with a model, but only with K-major copies."""
    copied = replace(types, transposed=(False, False))
    return chip in FITTED_GPUS and _reads(copied, chip) and not _reads(types, chip)


def multiplied(product: Product) -> Product:
    """A product of arrays with rows that TMA takes, as kernels multiply it: after copies if it has some."""
    elements = product.m * product.k, product.n * product.k
    copied = transposes(product.m, product.n, product.k, product.types, product.chip, 1, elements)
    a, b = (mn and not each for mn, each in zip(product.types.transposed, copied, strict=True))
    return replace(product, types=replace(product.types, transposed=(a, b))) if any(copied) else product


def _with_copies(
    us: float, sizes: Sequence[int], copied: Sequence[bool], gpu: FittedGpu
) -> tuple[float, float]:
    """The times of a product and of the copies of some of A and B, of these sizes in bytes: of a call, and of
    the GPU. Products that take less time than both launches gain nothing from copies, except in a graph.
    """
    bytes_ = sum(size for size, each in zip(sizes, copied, strict=True) if each)
    us += gpu.copy_us + bytes_ / gpu.copy if bytes_ else 0.0
    return max(gpu.two_launches_us, us) if bytes_ else us, us


def _reads(types: Types, chip: str) -> bool:
    """Whether `wgmma` multiplies these types with operands as they are stored."""
    return chip in WarpgroupSchedule.chips(types) and WarpgroupSchedule.layout_complaint(types) is None
