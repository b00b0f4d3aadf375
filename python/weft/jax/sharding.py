"""How XLA distributes operations over devices: each device computes its part of the result. If K is
divided, the sums of all devices are added.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Never

import jax
import numpy as np
from jax import Array
from jax._src import dispatch  # custom_partitioning itself is registered there, and nowhere else
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import mlir

from weft.errors import WeftError
from weft.jax import by_jax, placement, primitive
from weft.jax.primitive import product_p
from weft.jax.signatures import Arrays, AxisName, Context, Lowered
from weft.multiply.product import Product

Compute = Callable[..., Array | list[Array]]
Axes = Mapping[str, AxisName]
"""The axis of a mesh, or several, along which a dimension is divided."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """The dimensions of operands and results by their names. Those that are `whole` aren't divided. The
    results are sums over those that are `summed`. Heads of q, `h`, may be several for each head of k, `g`.
    """

    operands: tuple[Sequence[str], ...]
    results: tuple[Sequence[str], ...]
    whole: frozenset[str]
    summed: str = ""
    groups: tuple[int, ...] = ()  # the number of heads of k, and of heads of q for each

    def made(self, compute: Compute, local: Callable[[Axes], Compute]) -> Compute:
        """A function that XLA distributes. `local` returns that of one device, by the axes of dimensions."""
        distributed = custom_partitioning(compute)
        sides = [[self._factors(names) for names in each] for each in (self.operands, self.results)]
        rule = " -> ".join(", ".join(" ".join(names) for names in side) for side in sides)
        factors = dict.fromkeys(re.findall(r"\w", rule))  # in the order that XLA asks for
        distributed.def_partition(
            partial(self._partition, local),
            sharding_rule=rule,
            need_replication_factors=tuple(name for name in factors if name in self.whole or name == "r"),
            **dict(zip("r", self.groups[1:], strict=False)),
        )
        return distributed

    def _factors(self, names: Sequence[str]) -> list[str]:
        return ["(g r)" if name == "h" and self.groups else name for name in names]

    def _partition(
        self,
        local: Callable[[Axes], Compute],
        mesh: jax.sharding.Mesh,
        arguments: Sequence[jax.ShapeDtypeStruct],
        shapes: object,
    ) -> tuple[object, ...]:
        results, tree = jax.tree.flatten(shapes)
        if not all(isinstance(each.sharding, jax.sharding.NamedSharding) for each in results):
            # without axes, every device has all
            mesh = jax.sharding.Mesh(np.array(list(results[0].sharding.device_set)), ("devices",))
            axes: dict[str, AxisName] = {}
        else:
            axes = self._axes(mesh, arguments, results)
        shardings = [
            [
                jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*map(axes.get, names)))
                for names in each
            ]
            for each in (self.operands, self.results)
        ]
        return mesh, local(axes), jax.tree.unflatten(tree, shardings[1]), tuple(shardings[0])

    def _axes(
        self, mesh: jax.sharding.Mesh, arguments: Arrays, results: Sequence[jax.ShapeDtypeStruct]
    ) -> dict[str, AxisName]:
        """The axes of the dimensions that the results have, and of those over which devices add."""
        axes: dict[str, AxisName] = {}
        for names, each in zip(self.results, results, strict=True):
            for name, axis in zip(names, each.sharding.spec, strict=False):
                if axis is not None and name not in self.whole:
                    axes.setdefault(name, axis)
        if self.groups and (axis := axes.pop("h", axes.pop("g", None))) is not None:
            axes |= dict.fromkeys("gh", axis) if self.groups[0] % _size(mesh, axis) == 0 else {}
        used = {each for axis in axes.values() for each in _names(axis)}
        for names, each in zip(self.operands, arguments, strict=True):
            for name, axis, size in zip(names, each.sharding.spec, each.shape, strict=False):
                if name not in self.summed or axis is None or not used.isdisjoint(_names(axis)):
                    continue
                if size % _size(mesh, axis) == 0:
                    axes.setdefault(name, axis)
        return axes


def _names(axis: AxisName) -> tuple[str, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


def _size(mesh: jax.sharding.Mesh, axis: AxisName) -> int:
    return math.prod(mesh.shape[each] for each in _names(axis))


def several(context: Context) -> bool:
    """Whether XLA distributes a program over several devices, and not the program itself."""
    inside = context.module_context.axis_context
    return isinstance(inside, mlir.ShardingContext) and inside.num_devices > 1


def lowered(context: Context, function: Compute, operands: Lowered, *, multiple_results: bool) -> Lowered:
    """The operations of a function that XLA distributes."""
    context = _with_mesh(context, context.module_context.axis_context)
    return mlir.lower_fun(function, multiple_results=multiple_results)(context, *operands)


def _with_mesh(context: Context, inside: mlir.ShardingContext) -> Context:
    """The context with the mesh of `jax.set_mesh`, which JAX omits if no argument of a program is on it."""
    mesh = jax.sharding.get_abstract_mesh()
    if inside.abstract_mesh is not None or mesh.empty or mesh.size != inside.num_devices:
        return context
    inside = dataclasses.replace(inside, abstract_mesh=mesh)
    return context.replace(module_context=context.module_context.replace(axis_context=inside))


def register(operation: Primitive, caller: str, lower: Callable[..., Lowered]) -> None:
    """Registers the lowering of a primitive, which has a parameter `on_gpu`, and that of other platforms."""
    dispatch.prim_requires_devices_during_lowering.add(operation)
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(operation, partial(lower, on_gpu=platform == "cuda"), platform=platform)

    def refuse(context: Context, *_: object, **options: object) -> Never:
        asked = context.platforms or context.module_context.platforms
        got = ", ".join(each for each in asked if each not in ("cpu", "cuda"))
        raise WeftError(f"{caller}: the platform must be cuda or cpu (the emulator), got {got}")

    mlir.register_lowering(operation, refuse)


def _lower(context: Context, *operands: mlir.ir.Value, product: Product, on_gpu: bool) -> Lowered:
    if not several(context) or not placement.may_be_distributed(product):
        return primitive.lower(context, *operands, product=product, on_gpu=on_gpu)
    avals = context.avals_in
    ranks, sizes = [len(x.shape) for x in avals], [x.size for x in avals]
    *dimensions, result = placement.dimensions(product, ranks, sizes)
    summed = "" if by_jax.sums_of(product, primitive.described(avals)) is None else "k"
    rule = Rule(tuple(dimensions), (result,), frozenset("ko").difference(summed), summed)
    function = rule.made(_multiplier(product, {}), partial(_multiplier, product))
    return lowered(context, function, operands, multiple_results=False)


def _multiplier(product: Product, axes: Axes) -> Compute:
    """A function of one device's parts of the operands."""

    def multiply(*parts: Array) -> Array:
        if "k" not in axes:
            return product_p.bind(*parts, product=product)
        described = primitive.described([jax.typeof(each) for each in parts])
        sums = by_jax.sums_of(product, described)
        assert sums is not None
        named = dict(zip(("a", "b", *product.roles), parts, strict=True))
        z = product_p.bind(*(named[role] for role in ("a", "b", *sums.roles)), product=sums)
        return by_jax.of_sums(jax.lax.psum(z, axes["k"]), named, product, described)

    return multiply


register(product_p, "weft.jax.matmul", _lower)
