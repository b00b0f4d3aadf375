"""Products over the GPUs of one host, each with a process of its own: copies overlap with the products."""

from weft.distributed.emulation import emulate
from weft.distributed.gates import interleaved
from weft.distributed.gather import all_gather_matmul
from weft.distributed.reduce import matmul_all_reduce
from weft.distributed.scatter import matmul_reduce_scatter
from weft.distributed.teams import Team

__all__ = [
    "Team",
    "all_gather_matmul",
    "emulate",
    "interleaved",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
]
