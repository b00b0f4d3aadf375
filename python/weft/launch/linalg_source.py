"""Compiles functions of linalg with any number of products: `from_linalg` and `from_torch`."""

from pathlib import Path
from typing import Any

import numpy as np

from weft import mlir
from weft.compiler import apart
from weft.dialects import context
from weft.errors import Diagnostic, WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.launch import arrays
from weft.launch.kernel import check_text, compile
from weft.launch.program import ProductSize, Program, Step, TensorSize
from weft.launch.torch_program import TorchProgram
from weft.mlir import func, ir, operations
from weft.passes import raise_linalg
from weft.passes.plain.elements import is_splat
from weft.passes.raising.plain import Plain


def from_linalg(module: object, arch: str | None = None, function: str | None = None) -> Program:
    """Compiles a function of linalg with any number of products to a callable.

    `module` is .mlir text, a Path or an MLIR module; it isn't changed. `function` selects one of several
    functions, and `arch` is as for `weft.compile`. Raises WeftError with the reasons where something between
    the products can't be part of them.
    """
    if function is not None and not isinstance(function, str):
        raise WeftError(f"function must be the name of a function, got {shown(function)}")
    check_text(module)
    parsed = _parsed(module)
    with mlir.ir.Location.unknown(parsed.context):
        functions = {mlir.symbol(each): each for each in raise_linalg.wanted(parsed)}
        if function is None and len(functions) == 1:
            (function,) = functions
        if not functions:
            raise WeftError("the module must have a function with operations of linalg, got none")
        if function not in functions:
            meant = did_you_mean(function or "", functions)
            names = ", ".join(functions)
            raise WeftError(f"function must name a function of linalg: the module has {names}{meant}")
        kinds = functions[function].type
        shaped = [each for each in kinds.results if isinstance(each, ir.RankedTensorType)]
        count = len(kinds.inputs)
        constants = _constants_as_arguments(functions[function])
        for name, other in functions.items():
            if name != function:
                other.operation.erase()
        programs, refused = raise_linalg.programs(parsed, plain=True)
        if refused:
            raise raise_linalg.refusal(refused)
        raised = programs[function]
        results = [(each, str(k.element_type)) for each, k in zip(raised.results, shaped, strict=True)]
        texts = {mlir.symbol(each): str(each) for each in operations(parsed, func.FuncOp)}
        steps = [_step(each, texts[each.name], arch) for each in raised.steps]
    return Program(function, steps, count, results, constants, raised.remarks)


def _constants_as_arguments(function: ir.OpView) -> list[Any]:
    """Makes constant tensors, also those in resources of the file, arguments after the others, and returns
    their arrays. What is the same number everywhere stays.
    """
    entry, found = function.body.blocks[0], []
    for view in list(entry.operations):
        op = view.operation
        if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        numbers, kind = op.attributes["value"], op.results[0].type
        if is_splat(numbers) or str(kind.element_type) not in _LIFTED:
            continue
        if isinstance(numbers, ir.DenseFPElementsAttr | ir.DenseIntElementsAttr):
            found.append(_array(numbers, kind))
        elif mlir.cast(ir.DenseResourceElementsAttr, numbers) is not None:
            found.append(_of_resource(op, kind))
        else:
            continue
        op.results[0].replace_all_uses_with(entry.add_argument(kind, op.location))
        op.erase()
    inputs = [each.type for each in entry.arguments]
    kind = ir.FunctionType.get(inputs, list(function.type.results))
    function.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
    return found


def _parsed(module: object) -> ir.Module:
    """A module of the caller's in a context of its own."""
    if isinstance(module, (str, Path)):
        apart.check_parses(module)
    if isinstance(module, Path):
        return mlir.parse_file(module, context())
    if not isinstance(module, str) and not hasattr(module, "operation"):
        raise WeftError(f"module must be .mlir text, a Path or an MLIR module; got {shown(module)}")
    return mlir.parse(module if isinstance(module, str) else str(module), context())


def _step(raised: raise_linalg.Step, text: str, arch: str | None) -> Step:
    """The step of a function of one kernel."""
    labels, made, kernel = raised.labels, raised.kernel, compile(text, arch, raised.name)
    written, element = labels[made.d.source], made.d.element
    if isinstance(made, Plain):
        return Step(kernel, raised.sources, written, TensorSize(made.sizes), element)
    a_transposed, b_transposed = (bool(made.attributes[f"transpose_{name}"]) for name in "ab")
    a, b = labels[made.a.source], labels[made.b.source]
    size = ProductSize(a, b, a_transposed, b_transposed, len(made.d.shape) > 2)
    return Step(kernel, raised.sources, written, size, element)


_LIFTED = ("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "index")


def _dtype(kind: ir.Type) -> Any:
    """The NumPy type of a tensor's elements in memory."""
    element = str(kind.element_type)
    return arrays.numpy_dtype("i64" if element == "index" else element)


def _of_resource(op: ir.Operation, kind: ir.Type) -> Any:
    """The array of a constant in a resource of the file. The bindings don't read these: MLIR prints them, in
    hexadecimal digits after 4 bytes for the alignment.
    """
    module = ir.Module.create(op.location)
    with ir.InsertionPoint(module.body):
        op.clone()
    _, marker, rest = str(module).rpartition('"0x')
    octets = bytes.fromhex(rest.partition('"')[0])[4:] if marker else b""
    dtype = _dtype(kind)
    if len(octets) != np.prod(kind.shape) * dtype.itemsize:
        what = f"'arith.constant' op has {len(octets)} bytes in its resource; {kind} takes "
        what += f"{np.prod(kind.shape) * dtype.itemsize}: write the module without eliding resources"
        raise WeftError(Diagnostic(what, mlir.location(op.location)))
    return np.frombuffer(octets, dtype).reshape(kind.shape)


def _array(numbers: ir.Attribute, kind: ir.Type) -> Any:
    """The array of a constant. The bindings don't read floats of 16 bits: MLIR makes integers of them."""
    dtype = _dtype(kind)
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


def from_torch(
    module: object, *example: object, arch: str | None = None, dynamic_shapes: object = None
) -> "TorchProgram":
    """Compiles a module of PyTorch, by torch-mlir's exporter, to a callable that takes inputs like `example`.

    The module's parameters and buffers are read at each call. `dynamic_shapes` has an element for each input,
    as `torch.export.export` takes them: `({0: torch.export.Dim.DYNAMIC},)` for any number of rows. Raises
    WeftError where the exporter fails, or something between the module's products can't be part of them.
    """
    from weft.launch import torch_export

    result = torch_export.exported(module, example, dynamic_shapes)
    try:
        program = from_linalg(result.text, arch, torch_export.NAME)
    except WeftError as refusal:
        raise WeftError(*refusal.diagnostics, *torch_export.notes_on(module)) from None
    return TorchProgram(program, module, result)
