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
from weft.mlir import func, ir, operations
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

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        arguments: int,
        results: Sequence[Shape],
        constants: Sequence[Any] = (),
    ) -> None:
        self.name = name
        self.steps = tuple(steps)
        self._arguments, self._results = arguments, tuple(results)
        self._constants = tuple(constants)
        self._on_device: dict[Any, tuple[Any, ...]] = {}

    def __call__(self, *args: Any, stream: Any = None, on: str | None = None) -> Any:
        """Returns the function's results: one array, a tuple of several, or None where it only writes to its
        arguments. `stream` and `on` are those of `Kernel.__call__`; for tensors of PyTorch, the default is
        PyTorch's current stream, which may be capturing a graph. Raises WeftError for arguments that don't
        fit.
        """
        if len(args) != self._arguments:
            plural = "" if self._arguments == 1 else "s"
            raise WeftError(f"{self.name} has {self._arguments} argument{plural}; got {len(args)}")
        if stream is None and on != "emulator":
            stream = _current_stream(args)
        given = (*args, *self._constants_for(args))
        known = {f"argument {number}": array for number, array in enumerate(given)}
        for step in self.steps:
            self._run(step, known, stream, on)
        results = []
        for number, shape in enumerate(self._results):
            results.append(_reshaped(known[f"result {number}"], shape, f"{self.name}: result {number}"))
        return results[0] if len(results) == 1 else tuple(results) or None

    def _constants_for(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The function's constants, as arrays of the library and on the device of the first argument. They
        are copied there once.
        """
        if not self._constants or not args or arrays.library(type(args[0])) != "torch":
            return self._constants
        device = args[0].device
        if device not in self._on_device:
            self._on_device[device] = tuple(_tensor(each, args[0]) for each in self._constants)
        return self._on_device[device]

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


def _current_stream(args: Sequence[Any]) -> Any:
    """PyTorch's current stream on the GPU of its first tensor; None without one."""
    for each in args:
        if arrays.library(type(each)) == "torch" and each.is_cuda:
            import torch

            return torch.cuda.current_stream(each.device)
    return None


def _tensor(array: Any, like: Any) -> Any:
    """A tensor of PyTorch with an array's elements, on the device of another one."""
    import torch

    # PyTorch doesn't take the types of ml_dtypes: it gets their bytes.
    copied = torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy())
    return copied.view(getattr(torch, array.dtype.name)).reshape(array.shape).to(like.device)


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
        constants = _constants_as_arguments(functions[function])
        for name, other in functions.items():
            if name != function:
                other.operation.erase()
        programs, remarks = raise_linalg.programs(parsed)
        if remarks:
            raise raise_linalg.refusal(remarks)
        texts = {mlir.symbol(each): str(each) for each in operations(parsed, func.FuncOp)}
    steps = [_step(each, texts[each.name], arch) for each in programs[function]]
    return Program(function, steps, count, results, constants)


def _constants_as_arguments(function: Any) -> list[Any]:
    """Makes constant tensors arguments after the others, and returns their arrays. What is the same number
    everywhere stays, and so does what is in a resource of the file.
    """
    entry, found = function.body.blocks[0], []
    for view in list(entry.operations):
        op = view.operation
        if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        numbers = op.attributes["value"]
        if not isinstance(numbers, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr) or numbers.is_splat:
            continue
        kind = op.results[0].type
        if str(kind.element_type) not in _LIFTED:
            continue
        found.append(_array(op.attributes["value"], kind))
        op.results[0].replace_all_uses_with(entry.add_argument(kind, op.location))
        op.erase()
    inputs = [each.type for each in entry.arguments]
    kind = ir.FunctionType.get(inputs, list(function.type.results))
    function.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
    return found


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


_LIFTED = ("f16", "bf16", "f32", "i8", "i32")


def _array(numbers: Any, kind: Any) -> Any:
    """The array of a constant. The bindings don't read floats of 16 bits: MLIR makes integers of them."""
    dtype = arrays.numpy_dtype(str(kind.element_type))
    if isinstance(numbers, ir.DenseIntElementsAttr):
        return np.array(numbers).astype(dtype).reshape(kind.shape)
    sizes = "".join(f"{size}x" for size in kind.shape)
    integers = f"tensor<{sizes}i{8 * dtype.itemsize}>"
    text = f"""func.func @bits() -> {integers} {{
      %0 = arith.constant {numbers}
      %1 = arith.bitcast %0 : {kind} to {integers}
      return %1 : {integers}
    }}"""
    module = mlir.parse(text, numbers.context)
    manager = mlir.PassManager("builtin.module", numbers.context)
    manager.add("canonicalize")
    manager.run(module.operation)
    (constant,) = operations(module, mlir.arith.ConstantOp)
    bits = np.array(ir.DenseIntElementsAttr(constant.operation.attributes["value"]))
    return bits.astype(f"u{dtype.itemsize}").view(dtype).reshape(kind.shape)


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
