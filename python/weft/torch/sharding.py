"""Products of DTensors: how the sharding of a result follows from that of its operands.

Importing this module registers the rule of `torch.ops.weft.matmul`; `weft.matmul` does so at its first
DTensor.
"""

import torch
from torch import Tensor
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from weft.torch.signatures import Operand

Ways = list[tuple[list[Placement], list[Placement | None]]]


@register_sharding(torch.ops.weft.matmul.default)  # type: ignore[untyped-decorator]
def _matmul(a: Tensor, b: Tensor, *added: Operand, activation: str | None = None, **options: object) -> Ways:
    """Each way to divide a product over one dimension of a mesh: by columns, rows, K or a leading dimension.
    A way has the placements of the result, and those of the operands.
    """
    whole = Replicate()
    rank = max(len(a.shape), len(b.shape))
    ways: Ways = []

    def along(each: Tensor, dimension: int) -> Placement:
        """The placement of an array whose last dimensions are those of a result divided along one."""
        own = dimension - rank + len(each.shape)
        return whole if own < 0 or (each.shape[own] == 1 and dimension < rank - 2) else Shard(own)

    def add(
        dimension: int | None, of_a: Placement, of_b: Placement, of_bias: Placement, of_alphas: Placement
    ) -> None:
        """A way whose result is divided along a dimension, or whole."""
        of_result = [
            whole if x is None or dimension is None else along(x, dimension)
            for x in (*added[1:3], None, None)[:2]
        ]
        places = of_bias, *of_result, of_alphas  # of the bias, the residual, C and the alphas
        of_added = [None if x is None else placement for x, placement in zip(added, places, strict=False)]
        ways.append(([whole if dimension is None else Shard(dimension)], [of_a, of_b, *of_added]))

    alphas = added[3] if len(added) > 3 else None
    several = alphas is not None and alphas.shape.numel() > 1
    add(None, whole, whole, whole, whole)
    add(rank - 1, whole, Shard(len(b.shape) - 1), Shard(0), whole)
    add(rank - 2, Shard(len(a.shape) - 2), whole, whole, whole)
    for dimension in range(rank - 2):
        of_a, of_b = along(a, dimension), along(b, dimension)
        if (of_a, of_b) != (whole, whole) and (rank == 3 or not several):
            add(dimension, of_a, of_b, whole, Shard(0) if several else whole)
    if activation is None and all(each is None for each in added[:3]):
        of_added = [None if each is None else whole for each in added]
        ways.append(([Partial()], [Shard(len(a.shape) - 1), Shard(len(b.shape) - 2), *of_added]))
    return ways
