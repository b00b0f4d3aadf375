"""The tables of the `wgmma` dialect: asynchronous products of a warpgroup, and their order."""

from weft.isa.unpublished import Unpublished
from weft.isa.wgmma import mma_async, ordering
from weft.isa.wgmma.mma_async import (
    COLUMNS,
    MMA_ASYNC,
    MMA_ASYNC_SPARSE,
    M,
    MmaAsync,
    MmaAsyncSparse,
    columns_complaint,
    depth,
    judge_immediates,
)
from weft.isa.wgmma.ordering import COMMIT_GROUP, FENCE, WAIT_GROUP, CommitGroup, Fence, WaitGroup

__all__ = [
    "COLUMNS",
    "COMMIT_GROUP",
    "FENCE",
    "MMA_ASYNC",
    "MMA_ASYNC_SPARSE",
    "WAIT_GROUP",
    "CommitGroup",
    "Fence",
    "M",
    "MmaAsync",
    "MmaAsyncSparse",
    "WaitGroup",
    "columns_complaint",
    "depth",
    "judge_immediates",
]

FAMILIES = (*mma_async.FAMILIES, *ordering.FAMILIES)
UNPUBLISHED: tuple[Unpublished, ...] = ()
"""What ptxas takes and these tables leave out: nothing."""
