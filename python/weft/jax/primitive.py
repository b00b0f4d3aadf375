"""The primitive of JAX behind `weft.jax.matmul`: a product of matrices, or of one batch of them."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import jax
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, Primitive
from jax.interpreters import mlir

from weft.jax import by_jax, copies, placement
from weft.jax.signatures import Arrays, Avals, Context, Lowered, Operands, refuse
from weft.launch import arrays
from weft.multiply import xla_target
from weft.multiply.product import Product
from weft.multiply.xla_product import Described, operands_of, planned, result_of

product_p = Primitive("weft_product")


def bind(operands: Arrays, product: Product) -> Array:
    """The product of a, b and the operands with its roles, under any transformation of JAX. a and b are
    matrices or batches of one size.
    """
    if product.function is not None:
        every = planned(described([jax.typeof(each) for each in operands]), 0)
        product = operands_of(product, every).product
    if (compute := by_jax.instead(operands, product)) is not None:
        return compute(operands, product, described([jax.typeof(each) for each in operands]))
    operands = placement.gathered(product, operands)
    return product_p.bind(*equally_varying(operands), product=product)


class Matrix(NamedTuple):
    """A matrix or a batch of JAX, or its transpose if it is `flipped`."""

    array: Array
    flipped: bool = False

    @property
    def T(self) -> "Matrix":  # as NumPy names it
        return Matrix(self.array, not self.flipped)


def multiply(
    left: Matrix, right: Matrix, out: str, added: Operands, product: Product, *, flipped: bool = False
) -> Array:
    """The product of two matrices, or its transpose if it is to be `flipped`, with elements of type `out`.
    `added` are its other operands, by role. It has the options of another one, without a schedule.
    """
    if flipped:
        left, right = right.T, left.T
    asked = replace(
        product,
        roles=tuple(added),
        by_columns=(),
        out_dtype=out,
        schedule=None,
        transpose_a=left.flipped,
        transpose_b=right.flipped,
    )
    return bind((left.array, right.array, *added.values()), asked)


def equally_varying(operands: Arrays, axes: frozenset[str] = frozenset()) -> list[Array]:
    """The operands with one type under `jax.shard_map`, which varies over these axes, too: gradients of those
    that all devices share are added up over the devices.
    """
    varying = [axes_of(each) for each in operands]
    every = axes.union(*varying)
    return [
        each if own == every else _varied(each, tuple(every - own))
        for each, own in zip(operands, varying, strict=True)
    ]


def _varied(operand: Array, axes: tuple[str, ...]) -> Array:
    """An operand that varies over more axes; the operand itself where JAX doesn't know over which it does
    (`check_vma=False`): its gradient would be added up over the axes.
    """
    if hasattr(jax.lax, "pcast"):
        varied = jax.lax.pcast(operand, axes, to="varying")
    else:
        varied = jax.lax.pvary(operand, axes)  # before JAX 0.8.2
    return varied if axes_of(varied).issuperset(axes) else operand


def axes_of(operand: Array) -> frozenset[str]:
    """The axes of `jax.shard_map` over which an operand varies."""
    kind = jax.typeof(operand)
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(getattr(kind, "vma", ()) if manual is None else manual.varying)


def described(avals: Avals) -> tuple[Described, ...]:
    """Shapes and types, as `Product` has them. Raises WeftError for sizes that aren't known."""
    return tuple((_shape(aval.shape), arrays.mlir_type(aval.dtype)) for aval in avals)


def _shape(sizes: Sequence[int]) -> tuple[int, ...]:
    for size in sizes:
        if not isinstance(size, int):
            raise refuse(
                f"sizes must be known when a program is traced, got {size}: export one for each size"
            )
    return tuple(sizes)


def _abstract(*avals: ShapedArray, product: Product) -> ShapedArray:
    shape, dtype = result_of(product, described(avals))
    kind, first = jax.numpy.dtype(arrays.numpy_dtype(dtype)), avals[0]
    if first.sharding.mesh.empty:
        return jax.core.ShapedArray(shape, kind)
    spec = placement.of_result(product, avals, len(shape))
    sharding = jax.sharding.NamedSharding(first.sharding.mesh, spec)
    return first.update(shape=shape, dtype=kind, weak_type=False, sharding=sharding)


def lower(context: Context, *operands: mlir.ir.Value, product: Product, on_gpu: bool) -> Lowered:
    """The call of XLA for a product on one device, on a GPU after copies of operands."""
    inputs, result = described(context.avals_in), described(context.avals_out)[0]
    copied = copies.of(product, inputs, result) if on_gpu else copies.Copies(product)
    if copied.transposed or copied.pitches:
        context, operands = made_before(context, operands, copied.made)
    attributes = xla_target.attributes(copied.text(inputs, result))
    return jax.ffi.ffi_lowering(xla_target.TARGET)(context, *operands, **attributes)


def made_before(
    context: Context, operands: tuple[mlir.ir.Value, ...], make: Callable[..., list[Array]]
) -> tuple[Context, tuple[mlir.ir.Value, ...]]:
    """What a function of JAX makes of operands before a call of XLA, and the context of the call."""
    before = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in context.avals_in]
    after = [jax.core.ShapedArray(x.shape, x.dtype) for x in jax.eval_shape(make, *before)]
    made = mlir.lower_fun(make)(context.replace(avals_in=before, avals_out=after), *operands)
    return context.replace(avals_in=after), tuple(made)


def texts_on_gpu(jaxpr: Jaxpr) -> list[str]:
    """The texts of the products of a program, as `lower` has them for a GPU."""
    texts = []
    for equation in jaxpr.eqns:
        if equation.primitive is product_p:
            inputs = described([each.aval for each in equation.invars])
            (result,) = described([each.aval for each in equation.outvars])
            texts.append(copies.of(equation.params["product"], inputs, result).text(inputs, result))
    return texts


xla_target.register()
product_p.def_abstract_eval(_abstract)


def one_by_one(operands: Operands, mapped: Set[str], bind: Callable[[list[Array]], Arrays]) -> Array:
    """The results of a primitive for each member of the `mapped` operands, along their first axes."""

    def one(members: Mapping[str, Array]) -> Array:
        return bind([members.get(name, each) for name, each in operands.items()])

    return jax.lax.map(one, {name: operands[name] for name in mapped})


def run_eagerly(primitive: Primitive, *parameters: str) -> None:
    """Lets JAX run a primitive with these parameters outside of programs: by a program of its own."""
    jitted = jax.jit(primitive.bind, static_argnames=parameters)

    def run(*operands: Array, **options: object) -> Array:
        if not jax.config.jax_disable_jit:
            return jitted(*operands, **options)
        with jax.disable_jit(False):  # as JAX runs its own primitives
            return jitted(*operands, **options)

    primitive.def_impl(run)


run_eagerly(product_p, "product")
