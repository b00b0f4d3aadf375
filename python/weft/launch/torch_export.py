"""Exports a module of PyTorch to linalg by torch-mlir."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft import mlir
from weft.errors import Diagnostic, WeftError, shown
from weft.system import locks, upper

NAME = "forward"
"""The exported function."""
_lock = locks.reentrant()  # PyTorch keeps what it exports in globals, and replaces a module's parameters
_TRAINING = "a dropout or batch normalization of the module is in training mode: call module.eval()"


@dataclass(frozen=True)
class Input:
    """The type and the sizes of an input, in which None is any size."""

    dtype: Any
    sizes: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = "x".join("?" if each is None else str(each) for each in self.sizes)
        return f"{sizes or 'one number'} of {self.dtype}"

    def fits(self, tensor: Any) -> bool:
        """Whether a tensor has this type and these sizes."""
        sizes = tuple(tensor.shape)
        pairs = zip(sizes, self.sizes, strict=False)
        return (
            tensor.dtype == self.dtype
            and len(sizes) == len(self.sizes)
            and all(wanted in (None, size) for size, wanted in pairs)
        )


@dataclass(frozen=True)
class Exported:
    """A module as .mlir text. The function's first arguments are the parameters and buffers in `names`, the
    others are `inputs`. `whole` makes what the module returns of the function's results.
    """

    names: list[str]
    text: str
    inputs: tuple[Input, ...]
    whole: Callable[[Sequence[Any]], Any]


def exported(module: object, example: Sequence[object], dynamic_shapes: object = None) -> Exported:
    """Exports a module for inputs like those of the example. `dynamic_shapes` has an element for each, as
    `torch.export.export` takes them. Raises WeftError where there is no exporter, or it fails.
    """
    try:
        import torch

        fx = mlir.torch_exporter()
    except ImportError as failure:
        raise WeftError(f"from_torch needs torch and torch-mlir: {failure}") from None
    if not isinstance(module, torch.nn.Module):
        raise WeftError(f"module must be a torch.nn.Module; got {shown(module)}")
    if not all(isinstance(each, torch.Tensor) for each in example):
        raise WeftError(f"example must be tensors; got {', '.join(type(each).__name__ for each in example)}")
    if dynamic_shapes is not None and (
        not isinstance(dynamic_shapes, (tuple, list)) or len(dynamic_shapes) != len(example)
    ):
        raise WeftError(
            f"dynamic_shapes must be a tuple with an element for each of the {len(example)} inputs, such as "
            f"({{0: torch.export.Dim.DYNAMIC}},); got {shown(dynamic_shapes)}"
        )
    with _lock, warnings.catch_warnings():
        state = state_of(module)
        functional = _functional(module, list(state))
        weights = [each.detach() for each in state.values()]
        shapes = None if dynamic_shapes is None else {"tensors": (*[None] * len(weights), *dynamic_shapes)}
        # torch-mlir's release and PyTorch's differ in a function that PyTorch itself calls.
        warnings.filterwarnings("ignore", r"`isinstance\(treespec", FutureWarning)
        program = _traced(functional, (*weights, *example), shapes, fx)
        # Kernels write to their results only.
        taken = [each.arg.name for each in program.graph_signature.input_specs]
        for spec in program.graph_signature.output_specs:
            if spec.target in taken:
                number = taken.index(spec.target)
                what = list(state)[number] if number < len(state) else f"input {number - len(state)}"
                raise _refusal(f"from_torch can't compile the module: it writes to {what}", module)
        text = _lowered(program, fx, module)
    if all(functional.others):
        raise WeftError("the module must return a tensor, or a structure with tensors; it returns none")
    placeholders = [each for each in program.graph.nodes if each.op == "placeholder"][-len(example) :]
    inputs = tuple(_input(each.meta["val"]) for each in placeholders) if example else ()
    return Exported(list(state), text, inputs, functional.whole)


def state_of(module: Any) -> dict[str, Any]:
    """The parameters and buffers of a module by their names. Waits while another thread exports a module."""
    with _lock:
        return dict(module.named_parameters()) | dict(module.named_buffers())


def _functional(module: object, names: list[str]) -> Any:
    """A module with its parameters as inputs, which would be constants otherwise, and tensors as results."""
    import torch
    from torch.utils import _pytree as pytree

    class Functional(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def forward(self, *tensors: object) -> Any:
            given = dict(zip(names, tensors, strict=False))
            result = torch.func.functional_call(module, given, tensors[len(names) :])
            leaves, self.spec = pytree.tree_flatten(result)
            self.others = [None if isinstance(each, torch.Tensor) else (each,) for each in leaves]
            return tuple(each for each in leaves if isinstance(each, torch.Tensor))

        def whole(self, results: Sequence[object]) -> Any:
            rest = iter(results)
            leaves = [next(rest) if each is None else each[0] for each in self.others]
            return pytree.tree_unflatten(leaves, self.spec)

    return Functional()


def _traced(functional: Any, inputs: tuple[Any, ...], shapes: Any, fx: Any) -> Any:
    """The program that PyTorch exports, in which products of Weft are PyTorch's."""
    import torch

    try:
        program = torch.export.export(functional, inputs, dynamic_shapes=shapes, strict=False)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as failure:
        lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
        frames = [f"{file}:{line}" for file, line in re.findall(r'File "([^"]+)", line (\d+)', str(failure))]
        at = f" ({frames[-1]})" if frames else ""
        reason = lines[0] if lines else type(failure).__name__
        raise WeftError(f"torch.export can't export the module: {reason}{at}") from failure
    gelu = torch._decomp.get_decompositions(
        [torch.ops.aten.gelu]
    )  # torch-mlir's has sqrt(2 / pi) as 0.797724
    table = fx.get_decomposition_table() | gelu
    if ours := {str(each.target) for each in program.graph.nodes if str(each.target).startswith("weft.")}:
        decompositions = upper.torch().decomposing.DECOMPOSITIONS
        known = set(map(str, decompositions))
        if ours - known:
            legal, called = (
                ", ".join(sorted(each.removesuffix(".default") for each in names))
                for names in (known, ours - known)
            )
            raise WeftError(
                f"from_torch compiles only {legal} of Weft's operators, no fp8, int4, attention or groups; "
                f"the module calls {called}: use torch.compile for it"
            )
        table = table | decompositions
    return program.run_decompositions(table)


def _lowered(program: Any, fx: Any, module: Any) -> str:
    """The program as .mlir text. Raises WeftError for operations that torch-mlir or Weft doesn't know."""
    context = fx.ir.Context()
    fx.torch_d.register_dialect(context)
    errors: list[tuple[str, str]] = []

    def record(diagnostic: Any) -> bool:
        errors.append((str(diagnostic.message), str(diagnostic.location)))
        return True

    handler = context.attach_diagnostic_handler(record)
    try:
        result = fx.export_and_import(
            program,
            output_type="linalg-on-tensors",
            func_name=NAME,
            decomposition_table={},  # done
            fx_importer=fx.FxImporter(context=context),
        )
    except (mlir.torch_exporter_error(), RuntimeError, ValueError, TypeError, NotImplementedError) as failure:
        lines = [line for line in str(failure).splitlines() if line.strip()]
        message, location = errors[0] if errors else (lines[-1] if lines else "no reason", "")
        operator = re.search(r'name = "torch\.([\w.]+)"', message)
        reason = f"it doesn't lower the operator {operator[1]}" if operator else message.split("\n")[0]
        raise _refusal(f"torch-mlir can't export the module: {reason}{_line(location)}", module) from None
    finally:
        handler.detach()
    foreign: list[str] = []

    def visit(op: Any) -> Any:
        if (
            op.name.startswith("tm_tensor.") and op.name != "tm_tensor.yield"
        ):  # a dialect of torch-mlir for what linalg lacks
            foreign.append(f"'{op.name}' op{_line(str(op.location))}")
        return fx.ir.WalkResult.ADVANCE

    result.operation.walk(visit)
    if foreign:
        raise _refusal(f"from_torch can't compile the module: no kernel computes {foreign[0]}", module)
    return str(result)


def _line(location: str) -> str:
    """The line of the module's code in an MLIR location of calls, of which the first is the innermost."""
    lines = re.findall(r'"([^"]+\.py)":(\d+)', location)
    return f" ({lines[0][0]}:{lines[0][1]})" if lines else ""


def _refusal(message: str, module: object) -> WeftError:
    return WeftError(Diagnostic(message, notes=notes_on(module)))


def notes_on(module: Any) -> tuple[Diagnostic, ...]:
    """What may be the reason why a module doesn't compile."""
    from torch.nn.modules import batchnorm, dropout

    by_mode = dropout._DropoutNd, batchnorm._BatchNorm  # compute something else in training mode
    training = any(each.training and isinstance(each, by_mode) for each in module.modules())
    return (Diagnostic(_TRAINING, severity="note"),) if training else ()


def _input(value: Any) -> Input:
    return Input(value.dtype, tuple(size if isinstance(size, int) else None for size in value.shape))
