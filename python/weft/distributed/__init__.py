"""Products over the GPUs of one host, each with a process of its own: copies overlap with the products."""

from weft.distributed.calls import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from weft.distributed.emulation import emulate
from weft.distributed.gates import interleaved
from weft.distributed.teams import Team

__all__ = [
    "Team",
    "all_gather_matmul",
    "emulate",
    "interleaved",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
]
