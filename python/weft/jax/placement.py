"""How the sharding of a product's result follows from that of its operands."""

from collections.abc import Mapping, Sequence

import jax
from jax import Array

from weft.errors import WeftError
from weft.jax.signatures import Arrays, Avals, refuse
from weft.multiply.product import Product

_SHARDED = {"c": "mn", "residual": "mn", "bias": "n", "alpha": "o"}
"""The dimensions of operands other than a and b, for products that may be distributed."""


def check_devices(operands: Mapping[str, Array]) -> None:
    """Raises WeftError for arrays that were put on different devices."""
    devices_of = {
        name: x.devices()
        for name, x in operands.items()
        if not isinstance(x, jax.core.Tracer) and x.committed
    }
    if len(set(map(frozenset, devices_of.values()))) > 1:
        shown = {name: " and ".join(sorted(map(str, devices))) for name, devices in devices_of.items()}
        named = ", ".join(f"{name} on {devices}" for name, devices in shown.items())
        raise refuse(f"arrays must be on the same devices, got {named}: use jax.device_put")


def may_be_distributed(product: Product) -> bool:
    """Whether devices can multiply parts of the operands."""
    return _SHARDED.keys() >= set(product.roles)


def dimensions(product: Product, ranks: Sequence[int], sizes: Sequence[int]) -> tuple[str, ...]:
    """The dimensions of each operand and of the result, by letters: batch, m, n, k, and o for one element."""
    letters = ["km" if product.transpose_a else "mk", "nk" if product.transpose_b else "kn"]
    letters += [_SHARDED[role] for role in product.roles]
    named = ["b" * (rank == 3) + each for rank, each in zip(ranks, letters, strict=True)]
    named = ["b" if each == "o" and size > 1 else each for each, size in zip(named, sizes, strict=True)]
    return *named, "b" * (3 in ranks) + "mn"


def gathered(product: Product, operands: Arrays) -> list[Array]:
    """The operands with undivided K, on a mesh with explicit axes."""
    kinds = [jax.typeof(each) for each in operands]
    if not may_be_distributed(product) or all(axis is None for kind in kinds for axis in kind.sharding.spec):
        return list(operands)
    return undivided(frozenset("k"), operands, _of(product, kinds))


def undivided(whole: frozenset[str], operands: Arrays, dimensions: Sequence[Sequence[str]]) -> list[Array]:
    """The operands with these dimensions undivided, on a mesh with explicit axes."""
    resharded = []
    for each, names in zip(operands, dimensions, strict=False):
        sharding = jax.typeof(each).sharding
        pairs = list(zip(names, sharding.spec, strict=False))
        if any(axis is not None and name in whole for name, axis in pairs):
            wanted = jax.sharding.PartitionSpec(*(None if name in whole else axis for name, axis in pairs))
            each = jax.sharding.reshard(each, jax.sharding.NamedSharding(sharding.mesh, wanted))
        resharded.append(each)
    return resharded


def of_result(product: Product, avals: Avals, rank: int) -> jax.sharding.PartitionSpec:
    """The axes of a mesh with explicit axes for each dimension of the result. Raises WeftError where operands
    are divided differently.
    """
    if all(axis is None for aval in avals for axis in aval.sharding.spec):
        return jax.sharding.PartitionSpec(*(None,) * rank)
    if not may_be_distributed(product):
        raise refuse(
            "products with scales or groups on a mesh with explicit axes must be multiplied under "
            "jax.shard_map; jax.make_mesh makes automatic axes with axis_types=(jax.sharding.AxisType.Auto,)"
        )
    *operands, result = _of(product, avals)
    return of_results("weft.jax.matmul", operands, [result], avals)[0]


def of_results(
    caller: str, operands: Sequence[Sequence[str]], results: Sequence[Sequence[str]], avals: Avals
) -> list[jax.sharding.PartitionSpec]:
    """The axes of a mesh with explicit axes for each result, from the names of the dimensions of operands and
    results. Raises WeftError where operands are divided differently.
    """
    axes: dict[str, object] = {}
    for names, aval in zip(operands, avals, strict=True):
        for name, axis in zip(names, aval.sharding.spec, strict=False):
            if axis is not None and axes.setdefault(name, axis) != axis:
                raise WeftError(
                    f"{caller}: operands must be divided alike, got {_NAMES[name]} along {axes[name]} and "
                    f"{axis}: use jax.sharding.reshard"
                )
    specs = []
    for names in results:
        axes_of_result = [axes.get(name) for name in names]
        named = [axis for axis in axes_of_result if axis is not None]
        if len(set(named)) < len(named):
            raise WeftError(
                f"{caller}: dimensions of the result must be divided along different axes, got "
                f"{', '.join(map(str, axes_of_result))}: use jax.sharding.reshard"
            )
        specs.append(jax.sharding.PartitionSpec(*axes_of_result))
    return specs


_NAMES = {"b": "the batch", "m": "M", "n": "N", "k": "K", "o": "alpha", "h": "heads", "g": "heads of k and v"}


def _of(product: Product, avals: Avals) -> tuple[str, ...]:
    return dimensions(product, [len(aval.shape) for aval in avals], [aval.size for aval in avals])
