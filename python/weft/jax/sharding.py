"""Products in programs that XLA distributes over several devices: each device multiplies its rows, its
columns and its part of a batch. K is gathered.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax._src import dispatch  # custom_partitioning itself is registered there, and nowhere else
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import mlir

from weft.errors import WeftError
from weft.jax import placement
from weft.jax.primitive import lower, product_p
from weft.multiply.xla_product import Product


def _lower(context: Any, *operands: Any, product: Product, on_gpu: bool) -> Any:
    inside = context.module_context.axis_context
    several = isinstance(inside, mlir.ShardingContext) and inside.num_devices > 1
    if not several or not placement.may_be_distributed(product):
        return lower(context, *operands, product=product, on_gpu=on_gpu)
    ranks = tuple(len(aval.shape) for aval in context.avals_in)
    sizes = tuple(aval.size for aval in context.avals_in)
    function = _partitioned(product, placement.dimensions(product, ranks, sizes))
    return mlir.lower_fun(function, multiple_results=False)(_with_mesh(context, inside), *operands)


def _with_mesh(context: Any, inside: Any) -> Any:
    """The context with the mesh of `jax.set_mesh`, which JAX omits if no argument of a program is on it."""
    mesh = jax.sharding.get_abstract_mesh()
    if inside.abstract_mesh is not None or mesh.empty or mesh.size != inside.num_devices:
        return context
    inside = dataclasses.replace(inside, abstract_mesh=mesh)
    return context.replace(module_context=context.module_context.replace(axis_context=inside))


def _partitioned(product: Product, dimensions: tuple[str, ...]) -> Callable[..., Any]:
    """The product, with a rule by which XLA distributes it."""
    *operands, result = dimensions

    def multiply(*given: Any) -> Any:
        return product_p.bind(*given, product=product)

    def partition(mesh: Any, _: Any, shape: Any) -> Any:
        if not isinstance(shape.sharding, jax.sharding.NamedSharding):  # without axes, every device has all
            mesh = jax.sharding.Mesh(np.array(list(shape.sharding.device_set)), ("devices",))
            whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            return mesh, multiply, whole, (whole,) * len(operands)
        spec = (*shape.sharding.spec, *(None for _ in result))[: len(result)]
        axes = dict(zip(result, spec, strict=True))
        shardings = [
            jax.sharding.NamedSharding(
                mesh, jax.sharding.PartitionSpec(*(axes.get(each) for each in letters))
            )
            for letters in operands
        ]
        return mesh, multiply, shape.sharding, tuple(shardings)

    made = custom_partitioning(multiply)
    rule = ", ".join(" ".join(letters) for letters in operands) + " -> " + " ".join(result)
    gathered = tuple(letter for letter in "ko" if letter in "".join(operands))
    made.def_partition(partition, sharding_rule=rule, need_replication_factors=gathered)
    return made  # type: ignore[no-any-return]


dispatch.prim_requires_devices_during_lowering.add(product_p)
for platform in ("cpu", "cuda"):
    mlir.register_lowering(product_p, partial(_lower, on_gpu=platform == "cuda"), platform=platform)


def _refuse(context: Any, *_: Any, product: Product) -> Any:
    """For platforms without a lowering of their own."""
    asked = context.platforms or context.module_context.platforms
    got = ", ".join(each for each in asked if each not in ("cpu", "cuda"))
    raise WeftError(f"weft.jax.matmul: the platform must be cuda or cpu (the emulator), got {got}")


mlir.register_lowering(product_p, _refuse)
