"""Attention in JAX's programs: under `jax.jit` and with gradients in reverse mode."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from weft.attend import fp8_launch, gradients, launches
from weft.attend.fp8_launch import SCALES
from weft.attend.launches import Call
from weft.attend.problem import Options, refuse
from weft.attend.values import check as check_integers
from weft.attend.xla_launch import BEGINNING, KERNELS, KernelLaunch
from weft.language.arguments import ArrayArgument
from weft.launch import arrays, runtime
from weft.multiply import xla_target

_REAL = ("q", "k", "v", "sinks")  # which have gradients
_NAMES = ("q", "k", "v", "sinks", "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table", *SCALES)

xla_target.register()
xla_target.add_reader(BEGINNING, KernelLaunch.of)


class _Program:
    """The values of JAX of a call that is traced: launches read and write arrays of NumPy without contents,
    which stand for them.
    """

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._arrays: list[Any] = []  # whose addresses must not be those of others

    def array(self, value: Any) -> Any:
        """An array that stands for a value."""
        shape, dtype = jnp.shape(value), arrays.numpy_dtype(arrays.mlir_type(value.dtype))
        made = np.empty(shape, dtype)
        self._values[_address(made)] = value
        self._arrays.append(made)
        return made

    def value(self, array: Any) -> Any:
        """The value of an array that `array` made or that a launch wrote."""
        return self._values[_address(array)]

    def launch(self, kernel: Any, *arguments: Any, stream: Any = None, **meta: Any) -> None:
        """Adds a launch to the program."""
        kinds = list(kernel.signature.arguments.values())
        described, operands, written = list[Any](), list[Any](), list[Any]()
        for kind, each in zip(kinds, arguments, strict=True):
            if not isinstance(kind, ArrayArgument):
                described.append(each)
                continue
            view = arrays.view(each)
            described.append((view.shape, view.strides, view.dtype))
            root = _root(each)
            if kind.writes:
                written.append(root)
            else:
                operands.append(self._values.get(_address(root), None))
                if operands[-1] is None:  # one that the kernel doesn't read
                    operands[-1] = jnp.zeros(root.shape, root.dtype)
        made = KernelLaunch(kernel.signature.name, tuple(described), tuple(meta.items()))
        assert KERNELS[made.kernel] is kernel
        results = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in written]
        call = jax.ffi.ffi_call(xla_target.TARGET, results, vmap_method="sequential")
        options = {**xla_target.attributes(made.text), "results": np.int64(len(results))}
        values = _without_derivatives(lambda *operands: call(*operands, **options))(*operands)
        for root, value in zip(written, values, strict=True):
            self._values[_address(root)] = value
            self._arrays.append(root)


def _without_derivatives(function: Callable[..., Any]) -> Any:
    """A function that raises WeftError where it is differentiated."""
    made = jax.custom_jvp(function)

    @made.defjvp  # type: ignore[untyped-decorator]
    def refuse_derivatives(primals: Any, tangents: Any) -> Any:
        raise refuse("gradients of its gradients are not computed")

    return made


def _root(array: Any) -> Any:
    """The array of which this one is a view."""
    while array.base is not None:
        array = array.base
    return array


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def attention(given: dict[str, Any], options: Options) -> tuple[Any, Any]:
    """The output and lse of arrays by their names."""
    given = {name: jnp.asarray(each) for name, each in given.items() if each is not None}
    if "sinks" in given:
        given["sinks"] = given["sinks"].astype(jnp.float32)
    names = tuple(name for name in _NAMES if name in given)
    values = [given[name] for name in names]
    _check_values(names, options, values)
    result, lse = _attention(names, options, *values)
    return result, lse


def _check_values(names: tuple[str, ...], options: Options, values: Sequence[Any]) -> None:
    """Raises WeftError for integers in CPU memory that name tokens or pages that aren't there. Those that JAX
    traces have no values yet.
    """
    given = zip(names, values, strict=True)
    integers = {name: each for name, each in given if name in launches.INTEGERS}
    traced = any(isinstance(each, jax.core.Tracer) for each in integers.values())
    if not integers or traced or jax.default_backend() == "gpu":
        return
    _, call = _call(names, options, values)
    check_integers({**call.views, **{name: arrays.view(each) for name, each in integers.items()}}, call.sizes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attention(names: tuple[str, ...], options: Options, *values: Any) -> tuple[Any, Any]:
    result, lse = _forward(names, options, *values)[0]
    return result, lse


def _call(names: tuple[str, ...], options: Options, values: Any) -> tuple[_Program, Call]:
    program = _Program()
    given = {name: program.array(value) for name, value in zip(names, values, strict=True)}
    on_gpu = jax.default_backend() == "gpu"
    multiprocessors = runtime.device(0).multiprocessors if on_gpu else 0
    return program, Call.of(given, options, program.launch, multiprocessors)


def _forward(names: tuple[str, ...], options: Options, *values: Any) -> tuple[Any, Any]:
    program, call = _call(names, options, values)
    if call.is_empty:
        dtype, sizes = arrays.numpy_dtype(call.result_types[0]), call.sizes
        lse = jnp.full(sizes.sums, -jnp.inf, jnp.float32)
        if "sinks" in names:
            lse = jnp.broadcast_to(values[names.index("sinks")][..., None], sizes.sums)
        result = jnp.zeros(sizes.result(options.layout), dtype), lse
    else:
        out, sums = launches.run(call)
        result = program.value(out), program.value(sums)
    return result, (values, result)


def _backward(names: tuple[str, ...], options: Options, kept: Any, cotangents: Any) -> tuple[Any, ...]:
    values, (out, lse) = kept
    # Results are arrays of their own in XLA, to which no kernel can add.
    program, call = _call(names, replace(options, deterministic=True), values)
    fp8_launch.refuse_gradients(call)
    given = dict(zip(names, values, strict=True))
    found: dict[str, Any] = {name: jnp.zeros_like(given[name]) for name in names if name in _REAL}
    delta, (d_out, d_lse) = None, cotangents
    if not call.is_empty:
        stand_ins = [program.array(each) for each in (out, lse, d_out.astype(out.dtype), d_lse)]
        results = gradients.backward(call, *stand_ins)
        found = {name: program.value(each) for name, each in zip("qkv", results, strict=False)}
        found, delta = _only_sequences(call, given, found), program.value(results[3])
    if "sinks" in given:
        packed = (given["cu_seqlens_q"], jnp.arange(call.sizes.queries)) if call.sizes.packed else ()
        found["sinks"] = gradients.of_sinks(given["sinks"], lse, delta, d_lse, jnp, *packed)
    return tuple(found.get(name) for name in names)


def _only_sequences(call: Call, given: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Gradients with zeros in rows that no sequence has, which the kernels don't write."""
    tokens = {"q": call.sizes.queries, "k": call.sizes.keys, "v": call.sizes.keys}
    result = {}
    for name, each in found.items():
        row = jnp.arange(tokens[name])
        if call.sizes.packed:
            starts = given["cu_seqlens_q" if name == "q" else "cu_seqlens_k"]
            each = jnp.where(((row >= starts[0]) & (row < starts[-1]))[:, None, None], each, 0)
            if "lengths" in given and name != "q":
                number = jnp.clip(jnp.searchsorted(starts, row, side="right") - 1, 0, len(starts) - 2)
                inside = row - starts[number] < given["lengths"][number]
                each = jnp.where(inside[:, None, None], each, 0)
        elif "lengths" in given and name != "q":
            inside = row[None] < given["lengths"][:, None]
            axes = (1, 3) if call.options.layout == "bhtd" else (2, 3)
            each = jnp.where(jnp.expand_dims(inside, axes), each, 0)
        result[name] = each
    return result


_attention.defvjp(_forward, _backward)
