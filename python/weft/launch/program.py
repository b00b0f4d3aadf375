"""Several kernels as one callable: what `from_linalg` and `from_torch` return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from weft.errors import Diagnostic, WeftError, shown
from weft.launch import arrays, graph, kernel_page, libraries, runtime
from weft.launch.arrays import Array
from weft.launch.kernel import Kernel
from weft.passes.raising.numbers import Number, evaluated
from weft.passes.raising.plain import Source

_STORED = {"i1": "i8", "index": "i64"}
"""Element types that plain kernels keep in memory as others."""


@dataclass(frozen=True)
class ProductSize:
    """The sizes of D of a product, from its operands by their labels."""

    a: str
    b: str
    transpose_a: bool
    transpose_b: bool
    batched: bool

    def of(self, operands: Mapping[str, Any], _: Sequence[Array]) -> tuple[int, ...]:
        """The sizes for these operands."""
        a, b = operands[self.a].shape, operands[self.b].shape
        m, n = a[-1] if self.transpose_a else a[-2], b[-2] if self.transpose_b else b[-1]
        batch = [(a if len(a) > 2 else b)[0]] if self.batched else []
        return *batch, m, n


@dataclass(frozen=True)
class TensorSize:
    """The sizes of a tensor, from the function's arguments."""

    sizes: tuple[Number, ...]

    def of(self, _: Mapping[str, object], arguments: Sequence[object]) -> tuple[int, ...]:
        """The sizes for these arguments."""
        return tuple(evaluated(each, arguments) for each in self.sizes)


@dataclass(frozen=True)
class Step:
    """A kernel, its parameters, and what it writes: a label, sizes and the element type."""

    kernel: Kernel
    parameters: tuple[Source, ...]
    written: str
    size: ProductSize | TensorSize
    element: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the arguments come from."""
        return tuple(each.label for each in self.parameters)


class Program:
    """Kernels that run one after the other. Call it with arrays or tensors for the function's arguments.

    `steps` lists its kernels, and `remarks` gives the reason for each plain one. Memory between them is
    allocated at each call, as the first array's library does it.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        arguments: int,
        results: Sequence[tuple[Source, str]],
        constants: Sequence[object] = (),
        remarks: Sequence[Diagnostic] = (),
    ) -> None:
        self.name = name
        self.steps = tuple(steps)
        self.remarks = tuple(remarks)
        self._arguments, self._results = arguments, tuple(results)
        self._constants = tuple(constants)
        self._on_device: dict[Any, tuple[Any, ...]] = {}

    def _repr_html_(self) -> str:
        return kernel_page.of_program(self)

    def __call__(self, *args: object, stream: object = None, on: str | None = None) -> Any:
        """Returns the function's results: one array, a tuple of several, or None where it only writes to its
        arguments. `stream` and `on` are those of `Kernel.__call__`; for tensors of PyTorch, the default is
        PyTorch's current stream, which may capture a graph. Raises WeftError for arguments that don't fit.
        """
        current = None if stream is None or on == "emulator" else _current_stream(args)
        if current is None:
            results, used = self._run(args, stream, on)
        else:
            # The stream doesn't wait for PyTorch's current one, which may still use the memory that PyTorch
            # would give there, and which in turn may read results after they are dropped.
            with libraries.torch_stream(stream, current.device):
                results, used = self._run(args, stream, on)
            libraries.keep_until(current, results if isinstance(results, tuple) else (results,))
        if stream is not None and on != "emulator":
            libraries.keep_until(stream, used)
        return results

    def capture(self, *args: object) -> graph.Graph:
        """Captures a call with these arrays, which must be on a GPU, as a CUDA graph, and returns it. Each
        replay launches all kernels at once: they read the same arrays, and write to the same results.
        """
        given = [each for each in args if hasattr(each, "shape")]
        for each in given:
            if _device_of(each) is None:
                raise WeftError(f"{self.name}: capture needs arrays on a GPU; got {shown(each)}")
        if not given:
            raise WeftError(f"{self.name}: capture needs an array on a GPU among the arguments")
        with runtime.on(_device_of(given[0])):
            return graph.captured(lambda stream: self._run(args, stream, "gpu"), _current_stream(args))

    def _run(self, args: Sequence[object], stream: object, on: str | None) -> tuple[Any, list[Any]]:
        """What a call returns, and all memory that its kernels use."""
        if len(args) != self._arguments:
            plural = "" if self._arguments == 1 else "s"
            raise WeftError(f"{self.name} has {self._arguments} argument{plural}; got {len(args)}")
        current = None if on == "emulator" else _current_stream(args)
        given = (*args, *self._constants_for(args))
        known = {f"argument {number}": array for number, array in enumerate(given)}
        for step in self.steps:
            self._launch(step, known, given, current if stream is None else stream, on)
        results = []
        for number, (source, element) in enumerate(self._results):
            result = _reshaped(known[source.label], source, given, f"{self.name}: result {number}")
            results.append(_viewed(result, element))
        return results[0] if len(results) == 1 else tuple(results) or None, list(known.values())

    def _constants_for(self, args: Sequence[object]) -> tuple[Array, ...]:
        """The constants, copied once as arrays of the library and to the device of the first array."""
        like = next((each for each in args if hasattr(each, "shape")), None)
        # Kernels read constants from memory of these libraries' arrays.
        own = arrays.library(type(like)) == "torch" or isinstance(like, runtime.DeviceArray)
        if not self._constants or like is None or not own:
            return self._constants
        device = arrays.library(type(like)), _device_of(like)
        if device not in self._on_device:
            self._on_device[device] = tuple(_copied(each, like) for each in self._constants)
        return self._on_device[device]

    def _launch(
        self, step: Step, known: dict[str, Any], given: Sequence[Array], stream: object, on: str | None
    ) -> None:
        operands: dict[str, Any] = {}
        passed: list[Any] = []
        for each in step.parameters:
            if each.number is not None:
                passed.append(evaluated(each.number, given))
                continue
            if each.label in known and each.shape is not None:
                what = f"{self.name}: {each.label}"
                operands[each.label] = _reshaped(known[each.label], each, given, what)
            # An argument that no product uses is one that the function ignores, such as memory of a tensor.
            passed.append(operands.get(each.label, known.get(each.label)))
        if step.written not in known:
            like = next((each for each in given if hasattr(each, "shape")), np.empty(0))
            sizes = step.size.of(operands, given)
            element = _STORED.get(step.element, step.element)
            known[step.written] = libraries.of(like).empty(like, arrays.view(like), sizes, element)
            at = step.sources.index(step.written)
            passed[at] = known[step.written]
        if prod(known[step.written].shape):
            wanted = step.kernel.launch.arguments
            for number, parameter in enumerate(step.parameters):
                fitted = _fitted(passed[number], wanted[number], step, parameter, stream)
                passed[number] = known[f"operand {number} of {step.written}"] = fitted
            step.kernel(*passed, stream=stream, on=on)


def _fitted(array: Array, wanted: object, step: Step, parameter: Source, stream: object) -> Array:
    """An array as a kernel on a stream takes it: contiguous, and booleans as bytes."""
    dtype = getattr(wanted, "dtype", None)
    if not hasattr(array, "shape") or not hasattr(wanted, "shape"):
        return array
    array = _viewed(array, dtype)
    if parameter.label == step.written or not getattr(wanted, "contiguous", False):
        return array
    if isinstance(array, np.ndarray):
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if arrays.library(type(array)) != "torch" or array.is_contiguous():
        return array
    with libraries.torch_stream(stream, array.device):
        return array.contiguous()


def _viewed(array: Any, element: Any) -> Any:
    """An array of bytes or booleans as one of another such type."""
    narrow = ("i1", "i8", "ui8")
    if element not in narrow or not hasattr(array, "dtype") or arrays.type_name(array.dtype) == element:
        return array
    if arrays.type_name(array.dtype) not in narrow:
        return array
    dtype = arrays.numpy_dtype(element)
    if isinstance(array, np.ndarray):
        return array.view(dtype)
    if arrays.library(type(array)) == "torch":
        import torch

        return array.view(getattr(torch, dtype.name))
    return array


def _reshaped(array: Array, source: Source, given: Sequence[Array], what: str) -> Array:
    """An array in the shape of a kernel's argument, in which None is any size."""
    if not hasattr(array, "shape"):
        raise WeftError(f"{what} must be an array; got {shown(array)}")
    shape = source.shape or ()
    if len(array.shape) != len(shape) and source.sizes is not None:
        shape = tuple(evaluated(each, given) for each in source.sizes)
    if len(array.shape) == len(shape):
        pairs = zip(array.shape, shape, strict=True)
        known = None if None in shape else prod(size for size in shape if size is not None)
        if all(wanted in (None, size) for size, wanted in pairs) or prod(array.shape) != known:
            return array  # the kernel reports what is wrong with it
    sizes = [-1 if size is None else size for size in shape]
    rest = prod(size for size in sizes if size > 0)
    if sizes.count(-1) > 1 or not rest or prod(array.shape) % rest:
        wanted = "x".join("?" if size is None else str(size) for size in shape)
        got = "x".join(map(str, array.shape))
        raise WeftError(f"{what} must have the elements of {wanted}; got {got}")
    if isinstance(array, runtime.DeviceArray):
        whole = tuple(prod(array.shape) // rest if n < 0 else n for n in sizes)
        return replace(arrays.view(array), shape=whole, strides=arrays.contiguous_strides(whole))
    return array.reshape(sizes)


def _current_stream(args: Sequence[Any]) -> Any:
    """PyTorch's current stream on the GPU of its first tensor; None without one."""
    for each in args:
        if arrays.library(type(each)) == "torch" and each.is_cuda:
            import torch

            return torch.cuda.current_stream(each.device)
    return None


def _device_of(array: object) -> int | None:
    view = arrays.view(array)
    return None if view.device == "cpu" else view.device_id


def _copied(array: Array, like: Array) -> Array:
    """A copy of a NumPy array by the library and on the device of another array."""
    if isinstance(like, runtime.DeviceArray):
        return runtime.DeviceArray.from_numpy(array, like.device.ordinal)
    import torch

    # PyTorch doesn't take the types of ml_dtypes: it gets their bytes.
    copied = torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy())
    return copied.view(getattr(torch, array.dtype.name)).reshape(array.shape).to(like.device)
