"""`weft.jax.matmul`: its arguments, as the primitive's operands and parameters."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from numbers import Real
from typing import Never

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from weft.dialects.operand_roles import GROUPINGS, OUTPUT_TYPES, WORD
from weft.dialects.product_types import PROMOTED, ceil_div
from weft.dialects.schedule import AnySchedule
from weft.errors import about, shown
from weft.isa.suggest import no_parameter
from weft.jax import placement, primitive
from weft.jax.primitive import bind
from weft.jax.signatures import Operands, refuse
from weft.launch import arrays
from weft.multiply import array_views, xla_target
from weft.multiply.product import Product, checked_pair, kind_of


def matmul(
    a: Array,
    b: Array,
    *,
    c: Array | None = None,
    alpha: float | Array = 1.0,
    beta: float | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scales: tuple[Array, Array] | None = None,
    kind: str | tuple[str, str] | None = None,
    scale_block: int | None = None,
    groups: Array | None = None,
    row_ends: Array | None = None,
    k_ends: Array | None = None,
    promote: bool = False,
    accumulate: str | None = None,
    bit_op: str | None = None,
    batch_invariant: bool = False,
    out_dtype: object = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
    **others: Never,
) -> Array:
    """`residual + activation(alpha * a @ b + beta * c + bias)` in a JAX program.

    `a` is (..., M, K), or (..., K, M) with `transpose_a`; `b` is (..., K, N), or (..., N, K) with
    `transpose_b`; `c` and `residual` are (..., M, N), `bias` is (N,). Leading dimensions are broadcast as in
    `jax.numpy.matmul`; dimensions that only `a` has become rows of one matrix. The result is (..., M, N). A
    vector `a` is one row, and a vector `b` is one column; `c`, `residual` and the result don't have that
    dimension. If the result has no elements, or K is 0, no kernel runs.

    Options and element types are those of `weft.matmul`, except:

    - `bias`, `activation` and `residual` are arguments of their own.
    - Scales have a row for each row of `a`, or each column of `b`: float32 M x ceil(K / 128) and
      ceil(N / 128) x ceil(K / 128) or N x ceil(K / 128), int32 M x ceil(K / 512) and N x ceil(K / 512)
      (K / 128 where 32 elements share a scale). They are transposed for the kernel. Those of rows (M x 1) and
      columns (1 x N) and of tensors (one element) are as in `weft.matmul`.
    - `out_dtype` is a type of NumPy or JAX, or its name, or MLIR's.
    - `arch` selects the chip that is emulated where XLA runs the product on the CPU, by default sm_90a. On a
      GPU it has no effect.
    - f32 is multiplied as tf32, unless `jax_default_matmul_precision` asks for more, such as "highest": then
      XLA multiplies. Groups are refused, and `schedule` and `arch` select a kernel all the same.

    Floats of at least 16 bits have derivatives with respect to `a`, `b`, `c`, `bias`, `residual` and an array
    `alpha`, of any order, in forward and reverse mode. Weft computes their products, too. With scales, there
    are no derivatives with respect to `a` and `b`. With groups, rows outside of all groups count as 0. Under
    `jax.vmap`, products become one batch.

    XLA launches the product on its own stream. When a program first runs on a GPU, Weft chooses the schedule
    and compiles the kernel. On the CPU, the emulator multiplies. Sizes must be known when a program is
    traced.

    Raises WeftError for arrays that don't fit, while the program is traced. If no kernel for the device can
    compute the product, XLA reports an error when the program first runs.
    """
    if others:
        raise refuse(no_parameter(matmul, next(iter(others)), _OTHER_NAMES))
    by_role = {"a": a, "b": b, "c": c, "bias": bias, "residual": residual}
    by_role |= {"groups": groups, "row_ends": row_ends, "k_ends": k_ends}
    if scales is not None:
        by_role["scale_a"], by_role["scale_b"] = checked_pair("weft.jax.matmul", scales)
    number = alpha
    if not isinstance(alpha, Real):
        number = 1.0
        by_role["alpha"] = alpha
    by_role = {name: each for name, each in by_role.items() if each is not None or name in ("a", "b")}
    roles = tuple(by_role)[2:]
    product = Product(
        roles,
        activation,
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        alpha=number,
        beta=beta,
        promote=promote,
        schedule=schedule,
        kind=kind,
        scale_block=scale_block,
        arch=arch,
        accumulate=accumulate,
        bit_op=bit_op,
        batch_invariant=batch_invariant,
    )
    return of_roles(by_role, product)


def of_roles(by_role: Mapping[str, Array], product: Product) -> Array:
    """`matmul` of arrays by their roles, which may be traced."""
    if isinstance(product.beta, jax.Array):
        raise refuse("beta must be a Python number, got a JAX array: multiply c by it, with beta=1.0")
    operands = {
        name: _factors(each) if name == "alpha" else _array(name, each) for name, each in by_role.items()
    }
    placement.check_devices(operands)
    kind = _pack(operands, product.kind)
    transposes = product.transpose_a, product.transpose_b
    axes = array_views.as_matrices(operands, transposes, "weft.jax.matmul")
    roles = tuple(operands)[2:]
    out_dtype = _type_name(product.out_dtype)
    product = replace(product, roles=roles, kind=kind, out_dtype=out_dtype).checked()
    product = replace(product, by_columns=_transpose_scales(operands, product))
    return jnp.squeeze(multiply(operands, product), axes)


def queued(by_role: Mapping[str, Array], product: Product) -> Callable[..., Array]:
    """A function of arrays like those of `by_role`, in their order, which returns the result once XLA has
    queued the launch. Raises WeftError where no kernel multiplies them.
    """
    placement.check_devices(by_role)
    roles = tuple(by_role)
    jitted = jax.jit(lambda *arrays: of_roles(dict(zip(roles, arrays, strict=True)), product))
    device, *others = {device for array in by_role.values() for device in array.devices()}
    if not others:
        for text in primitive.texts_on_gpu(jitted.trace(*by_role.values()).jaxpr):
            xla_target.prepare(text, device.local_hardware_id)
    return jitted


_OTHER_NAMES = {
    "epilogue": "pass bias, activation and residual",
    "out": "use the result",
    "stream": "XLA chooses it",
    "precision": "use jax.default_matmul_precision",
    "preferred_element_type": "pass out_dtype",
}
"""Parameters of `weft.matmul` and `jax.numpy.matmul`, and what to do here."""


def multiply(operands: Operands, product: Product, *, of_rows: bool = False) -> Array:
    """The product of operands by their roles, with leading dimensions that are broadcast. `of_rows`: those of
    a become rows of one matrix, also with operands that have none.
    """
    m = operands["a"].shape[-1 if product.transpose_a else -2]
    leading = () if not set(GROUPINGS).isdisjoint(operands) else _fold(operands, product, of_rows)
    result = bind(tuple(operands.values()), replace(product, roles=tuple(operands)[2:]))
    return result.reshape(*leading, m, result.shape[-1]) if leading else result


def _array(name: str, value: Array) -> Array:
    """An array of JAX. Raises WeftError for anything but arrays of JAX and NumPy."""
    if not isinstance(value, (jax.Array, np.ndarray)):
        raise refuse(f"{name} must be an array of JAX or NumPy, got {shown(value)}")
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.is_deleted():
        raise refuse(f"{name} must be an array, got one that JAX has deleted or donated")
    array = jnp.asarray(value)
    with about(f"weft.jax.matmul: {name}"):
        arrays.mlir_type(array.dtype)
    return array


_PACKED = {"i4": "int4", "ui4": "uint4"}
_SCALED = {"f8E8M0FNU": "mxfp4", "f8E4M3FN": "nvfp4"}  # by the type of the scales


def _pack(operands: Operands, kind: str | tuple[str, str] | None) -> str | tuple[str, str] | None:
    """Makes bytes of a and b of 4 bits, as they lie in XLA's memory, and returns their kind. Raises WeftError
    for rows that aren't whole bytes.
    """
    kinds: list[str | None] = [None, None]
    for number, name in enumerate("ab"):
        x = operands[name]
        dtype = arrays.mlir_type(x.dtype)
        named = _PACKED.get(dtype)
        if dtype == "f4E2M1FN" and "scale_a" in operands:
            named = _SCALED.get(arrays.mlir_type(operands["scale_a"].dtype))
        if named is None or x.ndim == 0:
            continue
        if x.shape[-1] % 2:
            raise refuse(
                f"rows of {name} must have an even number of elements of {x.dtype}, got {x.shape[-1]}"
            )
        pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
        operands[name] = jax.lax.bitcast_convert_type(pairs, jnp.uint8)
        kinds[number] = named
    if kind is not None or kinds == [None, None]:
        return kind
    a, b = kinds
    return (a, b) if a and b else a or b


def _factors(alpha: float | Array) -> Array:
    """An array alpha, of at least one dimension."""
    if not isinstance(alpha, (jax.Array, np.ndarray)):
        raise refuse(f"alpha must be a real number or an array of float32, got {shown(alpha)}")
    # Python's numbers as JAX traces them may be integers, or have 64 bits.
    weak = jax.typeof(alpha).weak_type
    return jnp.asarray(alpha, jnp.float32 if weak else None).reshape(-1)


def _type_name(dtype: object) -> str | None:
    """MLIR's name of a type of results."""
    name = None if dtype is None else arrays.type_name(dtype)
    if dtype is not None and name is None:
        legal = ", ".join(arrays.numpy_dtype(each).name for each in OUTPUT_TYPES)
        raise refuse(f"out_dtype must be one of {legal}, got {shown(dtype)}")
    return name


def _fold(operands: Operands, product: Product, of_rows: bool) -> tuple[int, ...]:
    """Makes matrices or batches of one size of the operands. Returns the result's leading dimensions."""
    a, b = operands["a"], operands["b"]
    if a.ndim == 2 and b.ndim == 2:
        return ()
    try:
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise refuse(
            f"leading dimensions of a and b must broadcast, got {a.shape[:-2]} and {b.shape[:-2]}"
        ) from None
    count = prod(leading)
    rows_too = b.ndim == 2 and not product.transpose_a and (of_rows or operands.keys() <= _OF_ROWS)
    m, n = a.shape[-1 if product.transpose_a else -2], b.shape[-2 if product.transpose_b else -1]
    extra = [name for name in operands if kind_of(name) == "extra"]
    for name in ("a", "b", "c", "residual", "scale_a", "scale_b", *extra):
        if name not in operands:
            continue
        x = operands[name]
        if name in ("c", "residual") and (x.ndim > len(leading) + 2 or x.shape[-2:] != (m, n)):
            wanted = " x ".join(map(str, (*leading, m, n)))
            raise refuse(f"{name} must be {wanted}, got {' x '.join(map(str, x.shape))}")
        if rows_too and name == "a":
            operands[name] = x.reshape(count * m, x.shape[-1])
        elif rows_too and name in ("c", "residual"):
            operands[name] = jnp.broadcast_to(x, (*leading, m, n)).reshape(count * m, n)
        elif prod(x.shape[:-2]) == 1 and (name != "a" or prod(b.shape[:-2]) > 1):
            operands[name] = x.reshape(x.shape[-2:])
        else:
            whole = jnp.broadcast_to(x, (*leading, *x.shape[-2:]))
            operands[name] = whole.reshape(count, *x.shape[-2:])
    return leading


_OF_ROWS = {"a", "b", "c", "bias", "residual"}
"""The operands of products whose leading dimensions may become rows."""


def _transpose_scales(operands: Operands, product: Product) -> tuple[str, ...]:
    """Transposes those scales of which kernels read columns. Returns their names."""
    if "scale_a" not in operands:
        return ()
    names = []
    b, k_axis = operands["b"], -1 if product.transpose_b else -2
    of_columns = b.shape[-3 - k_axis], ceil_div(b.shape[k_axis], PROMOTED)
    for name in ("scale_a", "scale_b"):
        scale = operands[name]
        dtype = arrays.mlir_type(scale.dtype)
        columns = name == "scale_a" or (of_columns[0] > 1 and scale.shape[-2:] == of_columns)
        if scale.ndim >= 2 and (dtype == WORD or (dtype == "f32" and columns)):
            operands[name] = jnp.swapaxes(scale, -1, -2)
            names.append(name)
    return tuple(names)
