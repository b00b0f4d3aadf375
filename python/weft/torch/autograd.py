"""Gradients of products: D = residual + activation(alpha A B + beta C + bias).

With G the gradient of D and dZ = G activation'(Z), those of A and B are products again: alpha dZ Bᵀ and
alpha Aᵀ dZ. Both read A, B and dZ where they lie, as transposes.
"""

from typing import Any

import torch
from torch.nn import functional

from weft.errors import WeftError
from weft.torch import operators  # noqa: F401  defines the operators
from weft.torch.transforms import Arguments, are_transformed, has_tangent

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_ARGUMENTS = Arguments(torch.ops.weft.matmul.default)
_OPERANDS = _ARGUMENTS.operands

FORWARD_MODE = (
    "weft.matmul: derivatives in forward mode (torch.func.jvp, jacfwd, hessian) are computed without scales, "
    "fp8, groups, out and tangents of an array alpha: use those in backward mode (torch.func.vjp, jacrev)"
)


def register(library: Any) -> None:
    """Registers the gradients of `matmul`, and errors for operators that have none."""
    torch.library.register_autograd("weft::matmul", _backward, setup_context=_save, lib=library)
    for name in ("matmul_out", "scaled_matmul_out", "grouped_matmul_out"):
        library.impl(name, _without_gradients(getattr(torch.ops.weft, name).default), "Autograd")


class Transformed(torch.autograd.Function):  # type: ignore[misc]
    """`matmul` under `torch.func.grad` and its relatives, which don't take gradients of operators."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        operands, options = _ARGUMENTS.apart(inputs)
        return torch.ops.weft.matmul(*operands, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operands, options = _ARGUMENTS.apart(inputs)
        _save(ctx, operands, options, output)
        a, b, bias, _, c, alphas = operands
        # The same for both, since torch.vmap keeps one list of their mapped dimensions.
        kept = a, b, alphas, output, bias, c
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return *_backward(ctx, *gradients), *[None] * len(_ARGUMENTS.defaults)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        of_a, of_b, of_bias, of_residual, of_c, of_alphas, *_ = tangents
        if of_alphas is not None:
            raise WeftError(FORWARD_MODE)
        a, b, alphas, result, bias, c = ctx.saved_tensors
        options, given = ctx.options, (a, b, bias, c, alphas)
        product = _options_of(options) | {"out_dtype": result.dtype}
        terms = [
            multiply(x, y, None, None, None, alphas, **product)
            for x, y in ((of_a, b), (a, of_b))
            if x is not None and y is not None
        ]
        terms += [] if of_bias is None else [of_bias.expand(result.shape)]
        terms += [] if of_c is None else [(options["beta"] * of_c).expand(result.shape)]
        tangent = sum(terms[1:], terms[0]) if terms else torch.zeros_like(result)
        if options["activation"] is not None:
            z = result if ctx.by_result else _before_activation(options, *given)
            tangent = through(options["activation"], tangent.to(z.dtype), z)
        return (tangent if of_residual is None else tangent + of_residual).to(result.dtype)


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def _transformed(*inputs: Any) -> Any:
    """`Transformed` as one node of Dynamo's graphs, since Dynamo can't trace its `jvp`."""
    return Transformed.apply(*inputs)


def multiply(*operands: Any, **options: Any) -> Any:
    """`torch.ops.weft.matmul`, under transforms of `torch.func` and of dual tensors, too."""
    if not are_transformed(*operands):
        return torch.ops.weft.matmul(*operands, **options)
    return _transformed(*_ARGUMENTS.listed(operands, options))


def activated(activation: str | None, z: Any) -> Any:
    """An activation by PyTorch's own functions, for Z of any shape."""
    if activation is None:
        return z
    if activation == "gelu_tanh":
        return functional.gelu(z, approximate="tanh")
    return getattr(functional, activation)(z)


def _save(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    """Saves what the gradients need: for relu the result, for other activations the operands, from which Z
    is computed again.
    """
    a, b, bias, residual, c, alphas = inputs
    for name, each in zip(_OPERANDS, inputs, strict=True):
        if each is not None and each.requires_grad and (each.dtype not in _FLOATS or name == "alphas"):
            why = "alphas has none" if name == "alphas" else f"{name} has elements of {each.dtype}"
            raise WeftError(
                f"weft.matmul: gradients are computed of a, b, bias, residual and c in f16, bf16, f32 and "
                f"f64, but {why}: pass {name}.detach()"
            )
    recomputed = keep_options(ctx, keyword_only_inputs, residual)
    ctx.save_for_backward(
        a, b, alphas, output if ctx.by_result else None, *((bias, c) if recomputed else (None, None))
    )
    ctx.types = [None if each is None else each.dtype for each in inputs]
    ctx.shapes = [None if each is None else each.shape for each in inputs]


def keep_options(ctx: Any, options: dict[str, Any], residual: Any) -> bool:
    """Keeps the options of a product, and whether the gradient of its activation follows from the result
    (`ctx.by_result`). Returns whether it needs Z, which must be computed again.
    """
    activation = options["activation"]
    ctx.options, ctx.by_result = options, activation == "relu" and residual is None
    return activation is not None and not ctx.by_result


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of a, b, bias, residual, c and alphas."""
    a, b, alphas, result, bias, c = ctx.saved_tensors
    # PyTorch omits operands that are None at the end.
    options, wanted = ctx.options, (*ctx.needs_input_grad, *[False] * len(_OPERANDS))
    of_z = gradient
    activation, arch = options["activation"], options["arch"]
    if ctx.by_result:
        of_z = torch.ops.aten.threshold_backward(gradient, result, 0)
    elif activation is not None:
        z = _before_activation(options, a, b, bias, c, alphas)
        of_z = through(activation, gradient.to(z.dtype), z)
    of_product = of_z
    if alphas is not None:
        of_product = of_z * for_each(alphas, of_z)
    of_a = of_b = None
    if wanted[0]:
        of_a = _product(of_product.to(b.dtype), b.mT, a, options["alpha"], arch)
    if wanted[1]:
        of_b = _product(a.mT, of_product.to(a.dtype), b, options["alpha"], arch)
    return (
        of_a,
        of_b,
        of_z.sum(tuple(range(of_z.dim() - 1))).to(ctx.types[2]) if wanted[2] else None,
        gradient.sum_to_size(ctx.shapes[3]).to(ctx.types[3]) if wanted[3] else None,
        (options["beta"] * of_z).sum_to_size(ctx.shapes[4]).to(ctx.types[4]) if wanted[4] else None,
        None,
    )


def _before_activation(options: dict[str, Any], a: Any, b: Any, bias: Any, c: Any, alphas: Any) -> Any:
    """Z, computed again."""
    sums = torch.float64 if a.dtype == torch.float64 else torch.float32
    options = _options_of(options) | {"beta": options["beta"], "out_dtype": sums}
    return multiply(a, b, bias, None, c, alphas, **options)


def _options_of(options: dict[str, Any]) -> dict[str, Any]:
    """The options of the product alone."""
    return {name: options[name] for name in ("alpha", "promote", "accumulate", "arch")}


def for_each(alphas: Any, products: Any) -> Any:
    """An array alpha as PyTorch multiplies products by it: one number, or one for each product."""
    return alphas.reshape(*products.shape[:-2], 1, 1) if alphas.numel() > 1 else alphas.reshape(())


def _product(a: Any, b: Any, like: Any, alpha: float, arch: str | None) -> Any:
    """The gradient of an operand, in its order in memory, from a product of two batches. It is the sum over
    the leading dimensions in which the operand is broadcast.
    """
    if like.dim() == 2 and a.dim() > 2 and a.dim() == b.dim():
        # One product whose K is that of all products.
        leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (each.expand(*leading, *each.shape[-2:]) for each in (a, b))
        a, b = a.movedim(-2, 0).flatten(1), b.flatten(0, -2)
    options = {"alpha": alpha, "out_dtype": like.dtype, "arch": arch}
    if like.stride(-1) == 1:
        return multiply(a, b, **options).sum_to_size(like.shape)
    # Otherwise PyTorch would transpose the gradient of a transposed weight before it keeps it.
    return multiply(b.mT, a.mT, **options).mT.sum_to_size(like.shape)


def through(activation: str, gradient: Any, z: Any) -> Any:
    """The gradient of Z from that of an activation of it."""
    aten = torch.ops.aten
    if activation == "relu":
        return aten.threshold_backward(gradient, z, 0)
    if activation == "silu":
        return aten.silu_backward(gradient, z)
    return aten.gelu_backward(gradient, z, approximate="tanh" if activation == "gelu_tanh" else "none")


def _without_gradients(overload: Any) -> Any:
    def refuse(*operands: Any, out: Any = None, **options: Any) -> Any:
        tensors = (*operands, out)
        if any(isinstance(x, torch.Tensor) and has_tangent(x) for x in tensors):
            raise WeftError(FORWARD_MODE)
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in tensors):
            raise WeftError(
                "weft.matmul: out must be None where gradients are computed: copy the result to it, or use "
                "torch.no_grad()"
            )
        with torch._C._AutoDispatchBelowAutograd():
            if out is None:
                return overload(*operands, **options)
            overload(*operands, out=out, **options)
        torch.autograd.graph.increment_version(out)
        return None

    return refuse
