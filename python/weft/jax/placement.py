"""How the sharding of a product's result follows from that of its operands."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from weft.errors import WeftError
from weft.multiply.xla_product import Product

_SHARDED = {"c": "mn", "residual": "mn", "bias": "n", "alpha": "o"}
"""The dimensions of operands other than a and b, for products that may be distributed."""


def check_devices(operands: Mapping[str, Any]) -> None:
    """Raises WeftError for arrays that were put on different devices."""
    known = {
        name: x.devices()
        for name, x in operands.items()
        if not isinstance(x, jax.core.Tracer) and x.committed
    }
    if len(set(map(frozenset, known.values()))) > 1:
        named = ", ".join(f"{name} on {_shown(devices)}" for name, devices in known.items())
        raise WeftError(
            f"weft.jax.matmul: arrays must be on the same devices, got {named}: use jax.device_put"
        )


def _shown(devices: set[Any]) -> str:
    return " and ".join(sorted(str(each) for each in devices))


def may_be_distributed(product: Product) -> bool:
    """Whether devices can multiply parts of the operands."""
    return _SHARDED.keys() >= set(product.roles)


def dimensions(product: Product, ranks: Sequence[int], sizes: Sequence[int]) -> tuple[str, ...]:
    """The dimensions of each operand and of the result, by letters: batch, m, n, k, and o for one element."""
    options = product.options
    letters = ["km" if options.transpose_a else "mk", "nk" if options.transpose_b else "kn"]
    letters += [_SHARDED[role] for role in product.roles]
    named = ["b" * (rank == 3) + each for rank, each in zip(ranks, letters, strict=True)]
    named = ["b" if each == "o" and size > 1 else each for each, size in zip(named, sizes, strict=True)]
    return *named, "b" * (3 in ranks) + "mn"


def gathered(product: Product, operands: Sequence[Any]) -> list[Any]:
    """The operands with undivided K, on a mesh with explicit axes."""
    kinds = [jax.typeof(each) for each in operands]
    specs = [kind.sharding.spec for kind in kinds]
    if not may_be_distributed(product) or all(axis is None for spec in specs for axis in spec):
        return list(operands)
    given = []
    for each, kind, letters in zip(operands, kinds, _of(product, kinds), strict=False):
        spec = kind.sharding.spec
        if any(axis is not None and letter == "k" for letter, axis in zip(letters, spec, strict=False)):
            whole = [None if letter == "k" else axis for letter, axis in zip(letters, spec, strict=False)]
            wanted = jax.sharding.PartitionSpec(*whole)
            each = jax.sharding.reshard(each, jax.sharding.NamedSharding(kind.sharding.mesh, wanted))
        given.append(each)
    return given


def of_result(product: Product, avals: Sequence[Any], rank: int) -> Any:
    """The axes of a mesh with explicit axes for each dimension of the result. Raises WeftError where operands
    are divided differently.
    """
    specs = [aval.sharding.spec for aval in avals]
    if all(axis is None for spec in specs for axis in spec):
        return jax.sharding.PartitionSpec(*(None,) * rank)
    if not may_be_distributed(product):
        raise WeftError(
            "weft.jax.matmul: products with scales or groups on a mesh with explicit axes must be "
            "multiplied under jax.shard_map; jax.make_mesh makes automatic axes with "
            "axis_types=(jax.sharding.AxisType.Auto,)"
        )
    *operands, result = _of(product, avals)
    axes: dict[str, Any] = {}
    for letters, spec in zip(operands, specs, strict=True):
        for letter, axis in zip(letters, spec, strict=False):
            if axis is not None and axes.setdefault(letter, axis) != axis:
                raise WeftError(
                    f"weft.jax.matmul: operands must be divided alike, got {_NAMES[letter]} along "
                    f"{axes[letter]} and {axis}: use jax.sharding.reshard"
                )
    found = [axes.get(letter) for letter in result]
    named = [axis for axis in found if axis is not None]
    if len(set(named)) < len(named):
        raise WeftError(
            "weft.jax.matmul: dimensions of the result must be divided along different axes, got "
            f"{', '.join(map(str, found))}: use jax.sharding.reshard"
        )
    return jax.sharding.PartitionSpec(*found)


_NAMES = {"b": "the batch", "m": "M", "n": "N", "k": "K", "o": "alpha"}


def _of(product: Product, avals: Sequence[Any]) -> tuple[str, ...]:
    return dimensions(product, [len(aval.shape) for aval in avals], [aval.size for aval in avals])
