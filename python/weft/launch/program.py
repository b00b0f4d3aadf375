"""Functions of linalg with any number of products as one callable: `from_linalg` and `from_torch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft import mlir
from weft.dialects import context
from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.launch import arrays
from weft.launch.kernel import Kernel, compile
from weft.mlir import func, operations
from weft.passes import raise_linalg

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Step:
    """A kernel, where its arguments come from, their shapes, and what it writes."""

    kernel: Kernel
    sources: tuple[str, ...]
    shapes: Mapping[str, Shape]
    written: str
    a: str
    b: str
    transpose_a: bool
    transpose_b: bool
    element: str

    def size_of_result(self, operands: Mapping[str, Any]) -> tuple[int, ...]:
        """The sizes of D for these operands."""
        a, b = operands[self.a].shape, operands[self.b].shape
        m, n = a[-1] if self.transpose_a else a[-2], b[-2] if self.transpose_b else b[-1]
        batch = [(a if len(a) > 2 else b)[0]] if len(self.shapes[self.written]) > 2 else []
        return *batch, m, n


class Program:
    """Kernels that run one after the other. Call it with arrays or tensors for the function's arguments.

    `steps` lists its kernels. Memory between them is allocated at each call, as the first argument's library
    does it.
    """

    def __init__(self, name: str, steps: Sequence[Step], arguments: int, results: Sequence[Shape]) -> None:
        self.name = name
        self.steps = tuple(steps)
        self._arguments, self._results = arguments, tuple(results)

    def __call__(self, *args: Any, stream: Any = None, on: str | None = None) -> Any:
        """Returns the function's results: one array, a tuple of several, or None where it only writes to its
        arguments. `stream` and `on` are those of `Kernel.__call__`. Raises WeftError for arguments that don't
        fit.
        """
        if len(args) != self._arguments:
            plural = "" if self._arguments == 1 else "s"
            raise WeftError(f"{self.name} has {self._arguments} argument{plural}; got {len(args)}")
        known = {f"argument {number}": array for number, array in enumerate(args)}
        for step in self.steps:
            self._run(step, known, stream, on)
        results = []
        for number, shape in enumerate(self._results):
            results.append(_reshaped(known[f"result {number}"], shape, f"{self.name}: result {number}"))
        return results[0] if len(results) == 1 else tuple(results) or None

    def _run(self, step: Step, known: dict[str, Any], stream: Any, on: str | None) -> None:
        operands = {}
        for source in step.sources:
            if source in known and source in step.shapes:
                what = f"{self.name}: {source}"
                operands[source] = _reshaped(known[source], step.shapes[source], what)
        if step.written not in known:
            made = _empty(operands[step.a], step.size_of_result(operands), step.element)
            known[step.written] = operands[step.written] = made
        # An argument that no product uses is one that the function ignores, such as memory of a tensor.
        step.kernel(*(operands.get(each, known.get(each)) for each in step.sources), stream=stream, on=on)


def _reshaped(array: Any, shape: Shape, what: str) -> Any:
    """An array in the shape of a kernel's argument, in which None is any size."""
    if not hasattr(array, "shape"):
        raise WeftError(f"{what} must be an array; got {shown(array)}")
    if len(array.shape) == len(shape):
        pairs = zip(array.shape, shape, strict=True)
        if all(wanted in (None, size) for size, wanted in pairs) or prod(array.shape) != _known(shape):
            return array  # the kernel tells what is wrong with it
    sizes = [-1 if size is None else size for size in shape]
    rest = prod(size for size in sizes if size > 0)
    if sizes.count(-1) > 1 or not rest or prod(array.shape) % rest:
        wanted = "x".join("?" if size is None else str(size) for size in shape)
        got = "x".join(map(str, array.shape))
        raise WeftError(f"{what} must have the elements of {wanted}; got {got}")
    return array.reshape(sizes)


def _known(shape: Shape) -> int | None:
    """The number of elements, if all sizes are known."""
    sizes = [size for size in shape if size is not None]
    return prod(sizes) if len(sizes) == len(shape) else None


def _empty(like: Any, shape: tuple[int, ...], element: str) -> Any:
    """A new array of the library and on the device of another one."""
    dtype = arrays.numpy_dtype(element)
    if arrays.library(type(like)) == "torch":
        import torch

        return like.new_empty(shape, dtype=getattr(torch, dtype.name))
    return np.empty(shape, dtype)


def from_linalg(module: Any, arch: str | None = None, function: str | None = None) -> Program:
    """Compiles a function of linalg with any number of products to a callable.

    `module` is .mlir text, a Path or an MLIR module; it isn't changed. `function` selects one of several
    functions, and `arch` is as for `weft.compile`. Raises WeftError with the reasons where something between
    the products can't be part of them.
    """
    parsed = _parsed(module)
    with mlir.ir.Location.unknown(parsed.context):
        functions = {mlir.symbol(each): each for each in raise_linalg.wanted(parsed)}
        if function is None and len(functions) == 1:
            (function,) = functions
        if function not in functions:
            meant = did_you_mean(function or "", functions)
            names = ", ".join(functions) or "none"
            raise WeftError(f"function must name a function of linalg: the module has {names}{meant}")
        kinds = functions[function].type
        results = [tuple(_shape(each)) for each in kinds.results if hasattr(each, "shape")]
        count = len(kinds.inputs)
        for name, other in functions.items():
            if name != function:
                other.operation.erase()
        programs, remarks = raise_linalg.programs(parsed)
        if remarks:
            raise raise_linalg.refusal(remarks)
        texts = {mlir.symbol(each): str(each) for each in operations(parsed, func.FuncOp)}
    steps = [_step(each, texts[each.name], arch) for each in programs[function]]
    return Program(function, steps, count, results)


def _parsed(module: Any) -> Any:
    """A module of the caller's in a context of its own."""
    if isinstance(module, Path):
        return mlir.parse_file(module, context())
    if not isinstance(module, str) and not hasattr(module, "operation"):
        raise WeftError(f"module must be .mlir text, a Path or an MLIR module; got {shown(module)}")
    return mlir.parse(module if isinstance(module, str) else str(module), context())


def _shape(kind: Any) -> Shape:
    return tuple(None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(kind.rank))


def _step(raised: raise_linalg.Step, text: str, arch: str | None) -> Step:
    """The step of a function of one product."""
    matmul = raised.matmul
    labels = raised.labels
    shapes = {labels[buffer.source]: buffer.shape for buffer in matmul.buffers}
    a_transposed, b_transposed = (bool(matmul.attributes[f"transpose_{name}"]) for name in "ab")
    kernel = compile(text, arch, raised.name)
    a, b = labels[matmul.a.source], labels[matmul.b.source]
    written, element = labels[matmul.d.source], matmul.d.element
    return Step(kernel, raised.sources, shapes, written, a, b, a_transposed, b_transposed, element)


def from_torch(module: Any, *example: Any, arch: str | None = None) -> "TorchProgram":
    """Compiles a module of PyTorch, by torch-mlir's exporter, to a callable that takes inputs like `example`.

    The module's parameters and buffers are read at each call. Raises WeftError where the exporter fails, or
    where something between the module's products can't be part of them.
    """
    from weft.launch import torch_export

    names, text = torch_export.exported(module, example)
    return TorchProgram(from_linalg(text, arch, torch_export.NAME), module, names)


class TorchProgram:
    """A module of PyTorch as kernels: call it as the module. `program` has the kernels."""

    def __init__(self, program: Program, module: Any, names: Sequence[str]) -> None:
        self.program = program
        self._module, self._names = module, tuple(names)

    def __call__(self, *inputs: Any, stream: Any = None, on: str | None = None) -> Any:
        """Returns what the module returns for these tensors, without gradients."""
        state = dict(self._module.named_parameters()) | dict(self._module.named_buffers())
        weights = [state[name].detach() for name in self._names]
        return self.program(*weights, *inputs, stream=stream, on=on)
