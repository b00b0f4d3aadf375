"""The primitive of JAX behind products over the devices of an axis.

On GPUs it is a call of Weft's handler, where `_fused` allows it; elsewhere XLA's collectives and a product.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from weft.errors import WeftError
from weft.jax import collectives
from weft.jax.by_jax import finished
from weft.jax.collectives import Asked
from weft.jax.primitive import axes_of, equally_varying, made_before, run_eagerly
from weft.jax.products import matmul
from weft.jax.signatures import Arrays, Context, Lowered, Operands
from weft.launch import arrays, runtime
from weft.multiply import xla_target

if TYPE_CHECKING:
    from weft.distributed.xla_call import TeamCall

CHIP = "sm_90a"
"""Of the GPUs for which there are kernels."""

team_product_p = Primitive("weft_team_product")
xla_target.register()


def _read(text: str) -> "TeamCall":
    from weft.distributed.xla_call import TeamCall  # which programs without several GPUs don't need

    return TeamCall.of(text)


xla_target.add_reader(xla_target.OF_TEAMS, _read)


def multiply(asked: Asked, operands: Arrays, fused: bool | None) -> Array:
    """The product of a, b and the operands with roles, under `jax.shard_map` or `jax.vmap`. Raises WeftError
    where `fused` is True and it can't be.
    """
    why = _unmapped(asked, operands)
    if why is None and fused is not False:
        count = 2 + len([role for role in asked.product.roles if role.startswith("scale")])
        axes = frozenset(asked.axes)
        every = axes.union(*map(axes_of, operands))
        if asked.name == "matmul_all_reduce":
            # All operands vary over the axes, but not the epilogue of a sum that all devices get.
            epilogue = equally_varying(operands[count:], every - axes)
            varied = [*equally_varying(operands[:count], every), *epilogue]
        else:
            varied = equally_varying(operands, every)
        return team_product_p.bind(*varied, asked=asked, fused=fused)
    if fused:
        raise _refused(asked, str(why))
    return collectives.multiply(asked, *operands)


def _refused(asked: Asked, why: str) -> WeftError:
    return WeftError(f"weft.jax.{asked.name}: fused must be False or None here: {why}")


def _unmapped(asked: Asked, operands: Arrays) -> str | None:
    """Returns why a call can't be the primitive, or None."""
    mesh = jax.sharding.get_abstract_mesh()
    manual = set(mesh.manual_axes)
    if not set(asked.axes) <= manual:
        return "its axis isn't one of a jax.shard_map"
    if any(mesh.shape[axis] > 1 for axis in set(mesh.axis_names) - manual):
        return "all axes of the mesh must be manual in jax.shard_map"
    epilogue = [
        x for role, x in zip(asked.product.roles, operands[2:], strict=True) if role in ("bias", "residual")
    ]
    if asked.name == "matmul_all_reduce" and any(axes_of(each) & set(asked.axes) for each in epilogue):
        return "its epilogue must be the same on all devices"
    return None


def _abstract(*avals: ShapedArray, asked: Asked, fused: bool | None) -> ShapedArray:
    a, b = avals[:2]
    shape = asked.shape(a, b)
    sharding = jax.sharding.NamedSharding(a.sharding.mesh, jax.sharding.PartitionSpec(None, None))
    result = a.update(shape=shape, dtype=asked.dtype(a), weak_type=False, sharding=sharding)
    return _without(result, frozenset(asked.axes)) if asked.name == "matmul_all_reduce" else result


def _without(aval: ShapedArray, axes: frozenset[str]) -> ShapedArray:
    """A type that doesn't vary over axes."""
    manual = getattr(aval, "manual_axis_type", None)
    if manual is None:
        return aval.update(vma=aval.vma - axes)
    return aval.update(manual_axis_type=manual.update(varying=manual.varying - axes))


def _lower(
    context: Context, *operands: mlir.ir.Value, asked: Asked, fused: bool | None, on_gpu: bool
) -> Lowered:
    platforms = context.platforms or context.module_context.platforms
    call, why = _fused(context, asked) if on_gpu else (None, f"the platform is {', '.join(platforms)}")
    if call is None:
        if fused:
            raise _refused(asked, why)
        function = partial(collectives.multiply, asked)
        return mlir.lower_fun(function, multiple_results=False)(context, *operands)
    context, operands = made_before(context, operands, partial(_as_read, asked))
    attributes = {**xla_target.attributes(call.text), "results": np.int64(1)}
    # XLA must call it on all devices, as often on each.
    lower = jax.ffi.ffi_lowering(xla_target.TEAM_TARGET, has_side_effect=True)
    return lower(context, *operands, **attributes)


def _as_read(asked: Asked, a: Array, b: Array, *rest: Array) -> list[Array]:
    """The operands as kernels read them: B of 8 bits K-major, and the scales of A transposed."""
    if _flips(asked, b.dtype):
        b = jnp.swapaxes(b, 0, 1)
    roles = zip(asked.product.roles, rest, strict=True)
    return [a, b, *(jnp.swapaxes(x, 0, 1) if role == "scale_a" else x for role, x in roles)]


def _flips(asked: Asked, dtype: jnp.dtype) -> bool:
    return not asked.product.transpose_b and dtype.itemsize == 1


def _fused(context: Context, asked: Asked) -> "tuple[TeamCall | None, str]":
    """The call of Weft's handler, or None and why there is none, in words."""
    if context.module_context.lowering_parameters.for_export:
        return None, "exported programs name no GPUs"
    if asked.size == 1:
        return None, "there is only one device"
    teams, why = _teams(context.module_context.axis_context, asked)
    if why:
        return None, why
    chips = {runtime.device(each).chip for team in teams for each in team}
    if chips != {CHIP}:
        return None, f"the GPUs must be {CHIP}, got {', '.join(sorted(chips))}"
    from weft.distributed import xla_call

    avals = jax.eval_shape(
        partial(_as_read, asked), *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in context.avals_in)
    )
    operands = tuple((tuple(each.shape), arrays.mlir_type(each.dtype)) for each in avals)
    flipped = asked.product.transpose_b or _flips(asked, context.avals_in[1].dtype)
    product = replace(asked.product, transpose_b=flipped, arch=None)
    call = xla_call.TeamCall(asked.name, operands, product, teams)
    complaint = xla_call.complaint(call)
    return (call, "") if complaint is None else (None, complaint)


def _teams(inside: mlir.ShardingContext, asked: Asked) -> tuple[tuple[tuple[int, ...], ...], str]:
    """The numbers of the GPUs of each team, or why they aren't known."""
    mesh = getattr(inside, "mesh", None)
    if not isinstance(mesh, jax.sharding.Mesh):
        return (), "the devices of the mesh aren't known when the program is lowered"
    numbers = _local_gpus()
    if not all(device in numbers for device in mesh.devices.flat):
        return (), "all devices of the mesh must be GPUs of this process"
    teams = along(mesh.devices, mesh.axis_names, asked.axes)
    return tuple(tuple(numbers[device] for device in team) for team in teams), ""


def along(
    devices: npt.NDArray[np.object_], names: Sequence[str], axes: Sequence[str]
) -> npt.NDArray[np.object_]:
    """Teams of devices of a mesh, as rows: those along some of its axes, in the order of these."""
    order = [names.index(axis) for axis in axes]
    last = np.moveaxis(devices, order, range(-len(order), 0))
    return last.reshape(-1, math.prod(last.shape[-len(order) :]))


def _local_gpus() -> dict[jax.Device, int]:
    """The GPUs of this process, and their numbers for the driver."""
    try:
        devices = jax.local_devices(backend="gpu")
    except RuntimeError:  # JAX has no GPUs
        return {}
    return {each: each.local_hardware_id for each in devices}


team_product_p.def_abstract_eval(_abstract)
mlir.register_lowering(team_product_p, partial(_lower, on_gpu=False))
mlir.register_lowering(team_product_p, partial(_lower, on_gpu=True), platform="cuda")


def _batched(
    operands: Arrays, axes: Sequence[int | None], *, asked: Asked, fused: bool | None
) -> tuple[Array, int]:
    """Under `jax.vmap`, by XLA's collectives."""
    if fused:
        raise _refused(asked, "the product is under jax.vmap")
    function = partial(collectives.multiply, asked)
    return jax.vmap(function, in_axes=tuple(axes))(*operands), 0


def _differentiated(
    primals: Arrays, tangents: Arrays, *, asked: Asked, fused: bool | None
) -> tuple[Array, Array]:
    names = "a", "b", *asked.product.roles
    values = dict(zip(names, primals, strict=True))
    tangent_of = {n: t for n, t in zip(names, tangents, strict=True) if not isinstance(t, ad.Zero)}
    if "scale_a" in values or any(tangent_of[n].dtype.itemsize == 1 for n in ("a", "b") if n in tangent_of):

        def function(changed: Operands) -> Array:
            return collectives.multiply(asked, *(values | changed).values())

        return jax.jvp(function, ({name: values[name] for name in tangent_of},), (tangent_of,))
    residual, of_residual = values.get("residual"), tangent_of.pop("residual", None)
    if asked.product.activation is None or (asked.product.activation == "relu" and residual is None):
        result = team_product_p.bind(*primals, asked=asked, fused=fused)
        tangent = _tangent(asked, values, tangent_of, result)
        if asked.product.activation == "relu":
            tangent = jnp.where(result > 0, tangent, jnp.zeros_like(tangent))
        return result, tangent if of_residual is None else tangent + of_residual.astype(tangent.dtype)
    inner = {name: each for name, each in values.items() if name != "residual"}
    before = asked.having(roles=tuple(inner)[2:], activation=None)
    z = team_product_p.bind(*inner.values(), asked=before, fused=fused)
    dz = _tangent(before, inner, tangent_of, z)

    def after(z: Array, residual: Array | None = residual) -> Array:
        return finished(z.astype(jnp.float32), None, asked.product.activation, residual).astype(z.dtype)

    changed = () if of_residual is None else (residual,)
    return jax.jvp(after, (z, *changed), (dz, *([] if of_residual is None else [of_residual])))


def _tangent(asked: Asked, values: Operands, tangents: Operands, result: Array) -> Array:
    """The tangent of a product without its activation and residual."""
    linear = asked.having(roles=(), activation=None)
    total = jnp.zeros_like(result)
    for name, tangent in tangents.items():
        if name == "bias":
            total += tangent.astype(result.dtype)
            continue
        operands = [tangent if name == each else values[each] for each in ("a", "b")]
        if asked.name == "matmul_all_reduce":  # the transpose needs no collective
            total += collectives.multiply(linear, *operands)
        else:
            total += team_product_p.bind(*operands, asked=linear, fused=None)
    return total


def _transposed(
    cotangent: Array, a: Array, b: Array, *, asked: Asked, fused: bool | None
) -> list[Array | None]:
    """The cotangent of a or b, in which the product is linear."""
    of_a = ad.is_undefined_primal(a)
    aval = (a if of_a else b).aval
    if isinstance(cotangent, ad.Zero):
        result: Array | ad.Zero = ad.Zero(aval)
    elif of_a:
        gathers = asked.name == "all_gather_matmul"
        name = "matmul_reduce_scatter" if gathers else "all_gather_matmul"
        partials = arrays.mlir_type(aval.dtype) if gathers else None
        changed = asked.having(transpose_b=not asked.product.transpose_b, out_dtype=partials, schedule=None)
        back = replace(changed, name=name)
        result = team_product_p.bind(cotangent.astype(b.dtype), b, asked=back, fused=None)
    else:
        rows, others = a, cotangent.astype(a.dtype)
        if asked.name == "all_gather_matmul":
            rows = collectives.gathered(asked, rows)
        else:
            others = collectives.gathered(asked, others)
        left, right = (others, rows) if asked.product.transpose_b else (rows, others)
        result = matmul(left, right, transpose_a=True, out_dtype=aval.dtype)
    return [result if of_a else None, None if of_a else result]


batching.primitive_batchers[team_product_p] = _batched
ad.primitive_jvps[team_product_p] = _differentiated
ad.primitive_transposes[team_product_p] = _transposed

run_eagerly(team_product_p, "asked", "fused")
