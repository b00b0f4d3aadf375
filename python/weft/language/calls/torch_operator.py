"""Kernels as operators of PyTorch."""

import math
from collections.abc import Mapping
from typing import Any

from weft.errors import WeftError, missing_package, shown
from weft.isa.suggest import did_you_mean
from weft.language.calls.kernels import KernelFunction
from weft.language.calls.signatures import ArrayArgument


def torch_op(name: str, kernel: KernelFunction, **meta: Any) -> object:
    """Makes a kernel with these meta-parameters an operator of PyTorch: `w.torch_op("mine::add", add)`.

    The operator takes the kernel's arguments and returns nothing: it writes its `w.Out` tensors.
    `torch.compile` and `torch.export` keep calls of it as they are. It has no gradients: call it in a
    `torch.autograd.Function`.
    """
    try:
        import torch
    except ModuleNotFoundError as failure:
        raise missing_package(failure, "w.torch_op", "torch", "gpu") from None
    if not isinstance(kernel, KernelFunction):
        raise WeftError(f"w.torch_op must get a kernel of w.kernel, got {shown(kernel)}")
    if not isinstance(name, str) or name.count("::") != 1:
        raise WeftError(f"name of an operator must be 'namespace::name', got {shown(name)}")
    if other := [each for each in meta if each not in kernel.signature.meta]:
        legal = ", ".join(kernel.signature.meta) or "none"
        raise WeftError(
            f"'{other[0]}' must be a meta-parameter of kernel {kernel.signature.name}, which has {legal}"
            f"{did_you_mean(other[0], kernel.signature.meta)}"
        )
    parameters, written = list[str](), list[str]()
    for argument, kind in kernel.signature.arguments.items():
        if isinstance(kind, ArrayArgument):
            alias = f"(a{len(written)}!)" if kind.writes else ""
            parameters.append(f"Tensor{alias} {argument}")
            written += [argument] if kind.writes else []
        else:
            number = "bool" if kind.bits == 1 else "float" if kind.is_float else "int"
            if (default := kernel.signature.defaults.get(argument, 0)) >= 2**63 and number == "int":
                raise WeftError(f"the default of '{argument}' must be below 2**63 for PyTorch, got {default}")
            parameters.append(f"{number}{_named(argument, kernel.signature.defaults)}")

    def run(*args: object, **named: Any) -> None:
        arguments = {**dict(zip(kernel.signature.arguments, args, strict=False)), **named}
        kernel(**{name: value for name, value in arguments.items() if value is not None}, **meta)

    schema = f"({', '.join(parameters)}) -> ()"
    return torch.library.custom_op(name, run, mutates_args=written, schema=schema)


def _named(argument: str, defaults: Mapping[str, bool | int | float]) -> str:
    """A number's name in a schema, with its default. Schemas can't have infinity and NaN: None stands for
    those.
    """
    if argument not in defaults:
        return f" {argument}"
    default = defaults[argument]
    return f" {argument}={default}" if math.isfinite(default) else f"? {argument}=None"
