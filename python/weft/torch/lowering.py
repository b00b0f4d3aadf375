"""Lowerings of the operators for Inductor: calls of `weft.torch.compiled` in the generated program.

Without a lowering, the program calls the operator through PyTorch's dispatcher. Inductor then doesn't
allocate the result, and reads it as if it weren't aligned.
"""

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from weft import locks

ROLES = ("c", "groups", "row_ends", "k_ends", "bias", "residual", "scale_a", "scale_b", "alphas")
"""The operands after `a` and `b`, in the order in which programs pass them to a `compiled.Product`."""
_OPERATORS = ("matmul", "scaled_matmul", "grouped_matmul")
_INDUCTOR = "torch._inductor.lowering"
_lock = locks.lock()
_registered: list[Any] = []  # the modules of Inductor that have the lowerings


def register() -> None:
    """Registers the lowerings if Inductor is imported. Operators call it when they are traced, and Inductor
    traces each program before it lowers it.
    """
    lowering: Any = sys.modules.get(_INDUCTOR)
    if lowering is None or _registered or not hasattr(lowering, "register_lowering"):
        return
    with _lock:
        if _registered:
            return
        _registered.append(lowering)
        for name in _OPERATORS:
            overload = getattr(torch.ops.weft, name).default
            lowered = _lowered(overload, lowering.fallback_handler(overload))
            lowering.register_lowering(overload, type_promotion_kind=None)(lowered)


def _lowered(overload: Any, fallback: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering of an operator."""
    schema = overload._schema.arguments
    names = [each.name for each in schema if not each.kwarg_only]
    defaults = {each.name: each.default_value for each in schema if each.kwarg_only}

    def lower(*operands: Any, **options: Any) -> Any:
        from torch._inductor.virtualized import V

        named = dict(zip(names, operands, strict=False)) | {k: v for k, v in options.items() if k in names}
        given = {k: v for k, v in options.items() if k in defaults and v != defaults[k]}
        given.pop("out_dtype", None)  # the result has it
        if V.graph.cpp_wrapper or getattr(V.graph, "fx_wrapper", False) or not _fits(named, given):
            return fallback(*operands, **options)
        arrays = {name: x for name, x in named.items() if x is not None}
        return _call(overload, arrays, given, V.graph.current_node.meta["val"])

    return lower


def _fits(named: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether `compiled.Product` takes such a call."""
    if named.get("alphas") is not None and "alpha" in options:
        return False
    return all(isinstance(each, (str, bool, int, float)) for each in options.values())


def _call(overload: Any, arrays: dict[str, Any], options: dict[str, Any], result: Any) -> Any:
    """A node of Inductor's program that calls a product, and allocates a result like `result`."""
    from torch._inductor import ir

    roles = [role for role in ROLES if role in arrays]
    inputs = [_matrix(arrays[name]) for name in ("a", "b")]
    inputs += [_fixed(ir.ExternKernel.realize_input(arrays[role])) for role in roles]
    layout = ir.FixedLayout(
        result.device,
        result.dtype,
        ir.convert_shape_to_inductor(result.shape),
        ir.convert_shape_to_inductor(result.stride()),
    )
    return ir.TensorBox.create(_kernel()(layout, inputs, overload, roles, options))


def _matrix(x: Any) -> Any:
    """A matrix with contiguous rows or columns, copied if it has neither."""
    from torch._inductor import ir

    found = _fixed(ir.ExternKernel.realize_input(x))
    if 1 in found.get_stride()[-2:]:
        return found
    return _fixed(ir.ExternKernel.copy_input(x))


def _fixed(x: Any) -> Any:
    """A realized input, whose layout Inductor doesn't change any more."""
    from torch._inductor import ir

    if ir.is_storage_and_layout(x):
        ir.as_storage_and_layout(x, freeze=True)
    return x


def _kernel() -> Any:
    """The class of such nodes, derived from Inductor's when it is imported."""
    if not _kernels:
        from torch._inductor import ir

        class Call(ir.ExternKernelOut):  # type: ignore[misc]
            """A call of a `Product`, which the program creates once."""

            def __init__(
                self, layout: Any, inputs: Any, overload: Any, roles: list[str], options: dict[str, Any]
            ) -> None:
                arguments = [repr(role) for role in roles]
                arguments += [f"{name}={value!r}" for name, value in sorted(options.items())]
                made = f"WeftProduct({', '.join(arguments)})"
                name = f"weft_product_{hashlib.sha256(made.encode()).hexdigest()[:8]}"
                self.weft_line = f"{name} = {made}"
                super().__init__(layout, inputs, python_kernel_name=name, op_overload=overload)

            def codegen(self, wrapper: Any) -> None:
                root = wrapper
                while getattr(root, "parent_wrapper", None) is not None:
                    root = root.parent_wrapper
                root.add_import_once("from weft.torch.compiled import Product as WeftProduct")
                root.add_import_once(self.weft_line)
                super().codegen(wrapper)

        _kernels.append(Call)
    return _kernels[0]


_kernels: list[Any] = []
