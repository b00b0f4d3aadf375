"""Attention in JAX's programs: a primitive that launches the kernels of the output or of the gradients, under
transformations of JAX and on several devices.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from weft.attend import fp8_launch, gradients, launches
from weft.attend.fp8_launch import SCALES
from weft.attend.launches import Call
from weft.attend.problem import Options, refuse
from weft.attend.values import check as check_integers
from weft.attend.xla_launch import BEGINNING, KERNELS, KernelLaunch
from weft.jax import placement, sharding
from weft.jax.primitive import equally_varying, one_by_one, run_eagerly
from weft.jax.signatures import Arrays, Avals, Context, Lowered, Operands
from weft.language.calls.signatures import ArrayArgument
from weft.launch import arrays, runtime
from weft.multiply import xla_target

Results = tuple[Array, Array]
"""The output and lse, or what belongs to them."""
Standin = npt.NDArray[Any]
"""An array of NumPy without contents that stands for a value of JAX."""
_REAL = ("q", "k", "v", "sinks")  # which have gradients
_NAMES = ("q", "k", "v", "sinks", "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table", *SCALES)

xla_target.register()
xla_target.add_reader(BEGINNING, KernelLaunch.of)


class _Program:
    """The values of JAX of a traced call, for which launches have arrays of NumPy without contents."""

    def __init__(self) -> None:
        self._values: dict[int, Array] = {}
        self._arrays: list[Standin] = []  # whose addresses must not be those of others

    def array(self, value: Array) -> Standin:
        """An array that stands for a value."""
        shape, dtype = value.shape, arrays.numpy_dtype(arrays.mlir_type(value.dtype))
        stand_in = np.empty(shape, dtype)
        self._values[_address(stand_in)] = value
        self._arrays.append(stand_in)
        return stand_in

    def value(self, array: Standin) -> Array:
        """The value of an array that `array` made or that a launch wrote."""
        return self._values[_address(array)]

    def launch(self, kernel: Any, *arguments: Any, stream: object = None, **meta: object) -> None:
        kinds = list(kernel.signature.arguments.values())
        described, operands, written = list[Any](), list[Any](), list[Any]()
        for kind, each in zip(kinds, arguments, strict=True):
            if not isinstance(kind, ArrayArgument):
                described.append(each)
                continue
            view = arrays.view(each)
            described.append((view.shape, view.strides, view.dtype))
            root = each
            while root.base is not None:  # of a view
                root = root.base
            if kind.writes:
                written.append(root)
            else:
                operands.append(self._values.get(_address(root), None))
                if operands[-1] is None:  # one that the kernel doesn't read
                    operands[-1] = jnp.zeros(root.shape, root.dtype)
        record = KernelLaunch(kernel.signature.name, tuple(described), tuple(meta.items()))
        assert KERNELS[record.kernel] is kernel
        results = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in written]
        call = jax.ffi.ffi_call(xla_target.TARGET, results)
        options = {**xla_target.attributes(record.text), "results": np.int64(len(results))}
        values = call(*operands, **options)
        for root, value in zip(written, values, strict=True):
            self._values[_address(root)] = value
            self._arrays.append(root)


def _address(array: Standin) -> int:
    return int(array.__array_interface__["data"][0])


def attention(operands: Operands, options: Options) -> Results:
    """The output and lse of arrays by their names."""
    operands = {name: jnp.asarray(each) for name, each in operands.items() if each is not None}
    if "sinks" in operands:
        operands["sinks"] = operands["sinks"].astype(jnp.float32)
    names = tuple(name for name in _NAMES if name in operands)
    values = [operands[name] for name in names]
    _check_values(names, options, values)
    result, lse = _attention(names, options, *equally_varying(values))
    return result, lse


def _check_values(names: tuple[str, ...], options: Options, values: Arrays) -> None:
    """Raises WeftError for integers in CPU memory that name tokens or pages that aren't there. Those that JAX
    traces have no values yet.
    """
    named = zip(names, values, strict=True)
    integers = {name: each for name, each in named if name in launches.INTEGERS}
    traced = any(isinstance(each, jax.core.Tracer) for each in integers.values())
    if not integers or traced or jax.default_backend() == "gpu":
        return
    _, call = _call(names, options, values)
    check_integers({**call.views, **{name: arrays.view(each) for name, each in integers.items()}}, call.sizes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attention(names: tuple[str, ...], options: Options, *values: Array) -> Results:
    result, lse = _forward(names, options, *values)[0]
    return result, lse


def _call(
    names: tuple[str, ...], options: Options, values: Arrays, launch: Callable[..., None] | None = None
) -> tuple[_Program, Call]:
    """A call of these values, whose launches are added to a program, or go to another function."""
    program = _Program()
    stand_ins = {name: program.array(value) for name, value in zip(names, values, strict=False)}
    on_gpu = jax.default_backend() == "gpu"
    multiprocessors = runtime.device(0).multiprocessors if on_gpu else 0
    return program, Call.of(stand_ins, options, launch or program.launch, multiprocessors)


def _forward(names: tuple[str, ...], options: Options, *values: Array) -> Results:
    _, call = _call(names, options, values)
    if call.is_empty:
        dtype, sizes = arrays.numpy_dtype(call.result_types[0]), call.sizes
        lse = jnp.full(sizes.sums, -jnp.inf, jnp.float32)
        if "sinks" in names:
            lse = jnp.broadcast_to(values[names.index("sinks")][..., None], sizes.sums)
        out = jnp.zeros(sizes.result(options.layout), dtype)
        result = tuple(equally_varying([out, lse, *values])[:2])
    else:
        result = tuple(attention_p.bind(*values, names=names, options=options))
    return result, (values, result)


def _backward(
    names: tuple[str, ...], options: Options, kept: tuple[Arrays, Results], cotangents: Results
) -> tuple[Array | None, ...]:
    values, (out, lse) = kept
    # Results are arrays of their own in XLA, to which no kernel can add.
    options = replace(options, deterministic=True)
    _, call = _call(names, options, values)
    fp8_launch.refuse_gradients(call)
    named = dict(zip(names, values, strict=True))
    gradient_of = {name: jnp.zeros_like(named[name]) for name in names if name in _REAL}
    of_rows, (d_out, d_lse) = [None, None], cotangents
    if not call.is_empty:
        operands = equally_varying([*values, out, lse, d_out.astype(out.dtype), d_lse])
        dq, dk, dv, *of_rows = attention_p.bind(*operands, names=(*names, *_GIVEN_BACK), options=options)
        gradient_of = _only_sequences(call, named, {"q": dq, "k": dk, "v": dv})
    if "sinks" in named:
        gradient_of["sinks"] = gradients.of_sinks(of_rows[0], of_rows[1], d_lse)
    return tuple(gradient_of.get(name) for name in names)


def _only_sequences(call: Call, operands: Operands, rows_of: Operands) -> Operands:
    """Gradients with zeros in rows that no sequence has, which the kernels don't write."""
    tokens = {"q": call.sizes.queries, "k": call.sizes.keys, "v": call.sizes.keys}
    result = {}
    for name, each in rows_of.items():
        row = jnp.arange(tokens[name])
        if call.sizes.packed:
            starts = operands["cu_seqlens_q" if name == "q" else "cu_seqlens_k"]
            each = jnp.where(((row >= starts[0]) & (row < starts[-1]))[:, None, None], each, 0)
            if "lengths" in operands and name != "q":
                number = jnp.clip(jnp.searchsorted(starts, row, side="right") - 1, 0, len(starts) - 2)
                inside = row - starts[number] < operands["lengths"][number]
                each = jnp.where(inside[:, None, None], each, 0)
        elif "lengths" in operands and name != "q":
            inside = row[None] < operands["lengths"][:, None]
            axes = (1, 3) if call.options.layout == "bhtd" else (2, 3)
            each = jnp.where(jnp.expand_dims(inside, axes), each, 0)
        result[name] = each
    return result


_attention.defvjp(_forward, _backward)

attention_p = Primitive("weft_attention")
"""The kernels of the output and lse. With the operands `_GIVEN_BACK`, those of the gradients of q, k and
v, `delta`, and with sinks their shares.
"""
attention_p.multiple_results = True
_GIVEN_BACK = ("out", "lse", "d_out", "d_lse")


def _run(
    names: tuple[str, ...], options: Options, values: Arrays, launch: Callable[..., None] | None = None
) -> tuple[_Program, Sequence[Standin]]:
    """A program, and the arrays that its launches write."""
    inputs = tuple(name for name in names if name not in _GIVEN_BACK)
    program, call = _call(inputs, options, values, launch)
    if inputs == names:
        return program, launches.run(call)
    *results, shares = gradients.backward(call, *map(program.array, values[len(inputs) :]))
    return program, results if shares is None else [*results, shares]


def _abstract(*avals: ShapedArray, names: tuple[str, ...], options: Options) -> list[ShapedArray]:
    _, written = _run(names, options, avals, lambda *_, **__: None)
    first = avals[0]
    if first.sharding.mesh.empty:
        return [jax.core.ShapedArray(each.shape, each.dtype) for each in written]
    operands, results = _dimensions(names, options, avals)
    specs = placement.of_results("weft.attention", operands, results, avals)
    return [
        first.update(
            shape=each.shape,
            dtype=each.dtype,
            weak_type=False,
            sharding=jax.sharding.NamedSharding(first.sharding.mesh, spec),
        )
        for each, spec in zip(written, specs, strict=True)
    ]


def _dimensions(names: tuple[str, ...], options: Options, avals: Avals) -> list[tuple[str, ...]]:
    """The names of the dimensions of operands and results, for `sharding.Rule`."""
    packed, pages = "cu_seqlens_q" in names, "p" if "page_table" in names else "b"
    grouped = len({*_heads(names, options, avals)}) > 1

    def matrix(batch: str, head: str, token: str, size: str) -> str:
        if packed:
            return token + head + size
        return batch + (head + token if options.layout == "bhtd" else token + head) + size

    h, g = "h", "g" if grouped else "h"
    q, k, v, out = (
        matrix("b", h, "t", "d"),
        matrix(pages, g, "s", "d"),
        matrix(pages, g, "s", "e"),
        matrix("b", h, "t", "e"),
    )
    sums, delta = ("ht", "uhw") if packed else ("bht", "bhw")
    dims = {"q": q, "k": k, "v": v, "sinks": h, "lengths": "b", "cu_seqlens_q": "c", "cu_seqlens_k": "c"}
    dims |= {"page_table": "bn", "q_scale": "b" + h, "k_scale": "b" + g, "v_scale": "b" + g}
    dims |= {"out": out, "lse": sums, "d_out": out, "d_lse": sums}
    operands = tuple(dims[name][-aval.ndim :] for name, aval in zip(names, avals, strict=True))
    if "d_out" not in names:
        return [operands, (out, sums)]
    return [operands, (q, k, v, delta, *[delta] * ("sinks" in names))]


def _heads(names: tuple[str, ...], options: Options, avals: Avals) -> tuple[int, int]:
    """The number of heads of k, and that of q."""
    axis = -3 if options.layout == "bhtd" and "cu_seqlens_q" not in names else -2
    return avals[names.index("k")].shape[axis], avals[names.index("q")].shape[axis]


_WHOLE = frozenset("cdenpstuw")
"""The dimensions that devices don't divide: all but the batch and heads."""


def _lower(
    context: Context, *operands: mlir.ir.Value, names: tuple[str, ...], options: Options, on_gpu: bool
) -> Lowered:
    def computed(*values: Array) -> list[Array]:
        program, written = _run(names, options, values)
        return [program.value(each) for each in written]

    if not sharding.several(context):
        avals = (context.avals_in, context.avals_out)
        plain = [[jax.core.ShapedArray(x.shape, x.dtype) for x in each] for each in avals]
        context = context.replace(avals_in=plain[0], avals_out=plain[1])
        return mlir.lower_fun(computed, multiple_results=True)(context, *operands)
    keys, queries = _heads(names, options, context.avals_in)
    groups = () if keys == queries else (keys, queries // keys)
    dimensions, results = _dimensions(names, options, context.avals_in)
    rule = sharding.Rule(dimensions, results, _WHOLE, groups=groups)

    def bind(*values: Array) -> list[Array]:
        return attention_p.bind(*values, names=names, options=options)

    return sharding.lowered(context, rule.made(bind, lambda axes: bind), operands, multiple_results=True)


def _batched(
    operands: Arrays, axes: Sequence[int | None], *, names: tuple[str, ...], options: Options
) -> tuple[Arrays, tuple[int, ...]]:
    """Runs a call for each member, in order."""
    moved = {
        name: x if axis is None else jnp.moveaxis(x, axis, 0)
        for name, x, axis in zip(names, operands, axes, strict=True)
    }
    mapped = {name for name, axis in zip(names, axes, strict=True) if axis is not None}
    bind = functools.partial(attention_p.bind, names=names, options=options)
    results = one_by_one(moved, mapped, lambda values: bind(*values))
    return results, (0,) * len(results)


def _differentiated(primals: Arrays, tangents: Arrays, **options: object) -> Results:
    raise refuse("gradients of its gradients are not computed")


attention_p.def_abstract_eval(_abstract)
run_eagerly(attention_p, "names", "options")
ad.primitive_jvps[attention_p] = _differentiated
batching.primitive_batchers[attention_p] = _batched
sharding.register(attention_p, "weft.attention", _lower)
