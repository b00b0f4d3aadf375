"""Products of DTensors: how the sharding of a result follows from that of its operands.

Importing this module registers the rule of `torch.ops.weft.matmul`; `weft.matmul` does so at its first
DTensor.
"""

from typing import Any

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

Ways = list[tuple[list[Placement], list[Placement | None]]]


@register_sharding(torch.ops.weft.matmul.default)  # type: ignore[untyped-decorator]
def _matmul(a: Any, b: Any, *added: Any, activation: str | None = None, **options: Any) -> Ways:
    """Each way to divide a product over one dimension of a mesh: by columns, rows, K or members of a batch.
    A way has the placements of the result, and those of the operands.
    """
    whole = Replicate()
    dimensions = max(len(a.shape), len(b.shape))
    ways: Ways = []

    def add(d: Placement, of_a: Placement, of_b: Placement, of_bias: Placement, of_alphas: Placement) -> None:
        places = of_bias, d, d, of_alphas  # of the bias, the residual, C and the alphas
        of_added = [None if x is None else place for x, place in zip(added, places, strict=False)]
        ways.append(([d], [of_a, of_b, *of_added]))

    def members(each: Any) -> Placement:
        return Shard(0) if len(each.shape) == 3 else whole

    add(whole, whole, whole, whole, whole)
    add(Shard(dimensions - 1), whole, Shard(len(b.shape) - 1), Shard(0), whole)
    add(Shard(dimensions - 2), Shard(len(a.shape) - 2), whole, whole, whole)
    if dimensions == 3 and all(each.shape[0] > 1 for each in (a, b) if len(each.shape) == 3):
        alphas = added[3] if len(added) > 3 else None
        of_alphas = whole if alphas is None or alphas.shape.numel() == 1 else Shard(0)
        add(Shard(0), members(a), members(b), whole, of_alphas)
    if activation is None and all(each is None for each in added[:3]):
        add(Partial(), Shard(len(a.shape) - 1), Shard(len(b.shape) - 2), whole, whole)
    return ways
