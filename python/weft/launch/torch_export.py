"""Exports a module of PyTorch to linalg by torch-mlir."""

from collections.abc import Sequence
from typing import Any

from weft import locks, mlir
from weft.errors import WeftError, shown

NAME = "forward"
"""The exported function."""
_lock = locks.reentrant()  # PyTorch keeps what it exports in globals


def exported(module: Any, example: Sequence[Any]) -> tuple[list[str], str]:
    """The names of the module's parameters and buffers, which are the function's first arguments, and the
    function as .mlir text. Raises WeftError where there is no exporter, or it fails.
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
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    names = list(state)

    class Functional(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        """The module with its parameters as inputs, which would be constants otherwise."""

        def forward(self, *tensors: Any) -> Any:
            given = dict(zip(names, tensors, strict=False))
            return torch.func.functional_call(module, given, tensors[len(names) :])

    weights = [each.detach() for each in state.values()]
    try:
        with _lock:
            result = fx.export_and_import(
                Functional(), *weights, *example, output_type="linalg-on-tensors", func_name=NAME
            )
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as failure:
        lines = [line for line in str(failure).splitlines() if line.strip()]
        reason = next((line for line in lines if "error:" in line), lines[0] if lines else "no reason")
        raise WeftError(f"torch-mlir can't export the module: {reason}") from failure
    return names, str(result)
