"""Gradients of products: D = residual + activation(alpha A B + beta C + bias).

With G the gradient of D and dZ = G activation'(Z), those of A and B are products again: alpha dZ Bᵀ and
alpha Aᵀ dZ. Both read A, B and dZ where they lie, as transposes. With scales, A and B are quantized, and have
none.

With groups, they are products with groups, too, as in JAX (`weft.jax.grouped`). With `row_ends`, the gradient
of `a` has the same groups of rows, and that of `b` has groups of K. With `k_ends` it's the other way round.
Rows outside of all groups count as 0.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from weft.errors import WeftError
from weft.launch.arrays import type_name
from weft.multiply.array_views import refuse
from weft.torch.operators import PRODUCTS
from weft.torch.signatures import Gradients, Operand, Operands, Options
from weft.torch.transforms import Arguments, differentiable, refuse_gradients

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WITH_GRADIENTS = ("a", "b", "bias", "residual", "c")
_OF_EPILOGUE = ("bias", "c", "scale_a", "scale_b")
"""The operands that only Z depends on."""

FORWARD_MODE = (
    "weft.matmul: derivatives in forward mode (torch.func.jvp, jacfwd, hessian) are computed without scales, "
    "fp8, groups, out and tangents of an array alpha: use those in backward mode (torch.func.vjp, jacrev)"
)


def register() -> None:
    """Registers errors for operators that have no gradients."""
    why = "out must be None where gradients are computed: copy the result to it, or use torch.no_grad()"
    for name in PRODUCTS:
        overload = getattr(torch.ops.weft, f"{name}_out").default
        refuse_gradients(overload, f"weft.matmul: {why}", FORWARD_MODE)


class _Operator:
    """An operator with gradients. `multiply` calls it, also under transforms of `torch.func`."""

    def __init__(self, name: str) -> None:
        overload = getattr(torch.ops.weft, name).default
        self.names = Arguments(overload).operands
        forward_mode = self._tangent if name == "matmul" else None
        self.multiply = differentiable(overload, self._save, self._backward, FORWARD_MODE, forward_mode)

    def _save(
        self, ctx: FunctionCtx, inputs: tuple[Tensor, ...], keyword_only_inputs: Options, output: Tensor
    ) -> None:
        """Saves what the gradients need: for relu the result, otherwise the operands, which give Z again."""
        operands = self._named(inputs)
        _check(operands)
        scaled = operands.get("scale_a") is not None
        ctx.count = len(inputs)
        ctx.like = {
            name: (operands[name].shape, operands[name].dtype)
            for name in _WITH_GRADIENTS
            if operands[name] is not None
        }
        needless = {"residual"}
        if not keep_options(ctx, keyword_only_inputs, operands["residual"]):
            needless |= {*_OF_EPILOGUE, *(("a", "b", "alphas") if scaled else ())}
        kept = (None if name in needless else each for name, each in operands.items())
        ctx.save_for_backward(output if ctx.by_result else None, *kept)

    def _named(self, operands: Sequence[Tensor]) -> Operands:
        """The operands by their names. PyTorch omits those that are None at the end."""
        return dict.fromkeys(self.names) | dict(zip(self.names, operands, strict=False))

    def _backward(self, ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        """The gradients of all operands, None but those of a, b, the bias, the residual and C."""
        result, *saved = ctx.saved_tensors
        operands, options = self._named(saved), ctx.options
        wanted = {name for name, each in zip(self.names, ctx.needs_input_grad, strict=False) if each}
        valid = used = _valid(operands, gradient)
        if operands.get("row_ends") is not None and wanted <= {"a", "b"}:
            used = None  # products don't read other rows
        gradient = of_z = _only(used, gradient)
        if ctx.by_result:
            of_z = torch.ops.aten.threshold_backward(gradient, result, 0)
        elif options["activation"] is not None:
            z = _only(used, self._before_activation(options, operands))
            of_z = through(options["activation"], gradient.to(z.dtype), z)
        gradients: Operands = {}
        if not wanted.isdisjoint("ab"):
            of_product = _scaled(of_z, operands)
            for name, derive, other in (("a", _of_a, operands["b"]), ("b", _of_b, operands["a"])):
                if name in wanted:
                    kept: Options = {name: options[name] for name in ("alpha", "arch", "batch_invariant")}
                    kept["out_dtype"] = operands[name].dtype
                    gradients[name] = derive(of_product.to(other.dtype), operands, valid, kept)
        for name, source in (("bias", of_z), ("residual", gradient), ("c", of_z)):
            if name in wanted:
                shape, dtype = ctx.like[name]
                source = options["beta"] * source if name == "c" else source
                gradients[name] = source.sum_to_size(shape).to(dtype)
        return tuple(gradients.get(name) for name in self.names[: ctx.count])

    def _before_activation(self, options: Options, operands: Operands) -> Tensor:
        """Z, computed again."""
        sums = torch.float64 if operands["a"].dtype == torch.float64 else torch.float32
        plain = options | {"activation": None, "schedule": None, "out_dtype": sums}
        return self.multiply(*(operands | {"residual": None}).values(), **plain)

    def _tangent(self, ctx: FunctionCtx, *tangents: Tensor) -> Tensor:
        """The tangent of the result, from those of the operands."""
        of, (result, *saved) = self._named(tangents), ctx.saved_tensors
        if of["alphas"] is not None:
            raise WeftError(FORWARD_MODE)
        operands, options = self._named(saved), ctx.options
        kept = {name: options[name] for name in ("alpha", "promote", "accumulate", "arch", "batch_invariant")}
        kept["out_dtype"] = result.dtype
        terms = [
            multiply(x, y, None, None, None, operands["alphas"], **kept)
            for x, y in ((of["a"], operands["b"]), (operands["a"], of["b"]))
            if x is not None and y is not None
        ]
        terms += [] if of["bias"] is None else [of["bias"].expand(result.shape)]
        terms += [] if of["c"] is None else [(options["beta"] * of["c"]).expand(result.shape)]
        tangent = sum(terms[1:], terms[0]) if terms else torch.zeros_like(result)
        if options["activation"] is not None:
            z = result if ctx.by_result else self._before_activation(options, operands)
            tangent = through(options["activation"], tangent.to(z.dtype), z)
        of_residual = of["residual"]
        return (tangent if of_residual is None else tangent + of_residual).to(result.dtype)


def activated(activation: str | None, z: Tensor) -> Tensor:
    """An activation by PyTorch's own functions, for Z of any shape."""
    if activation is None:
        return z
    name, form = _by_pytorch(activation)
    return getattr(functional, name)(z, **form)


def _by_pytorch(activation: str) -> tuple[str, dict[str, str]]:
    """PyTorch's name of an activation, and the option that selects its form."""
    name, _, form = activation.partition("_")
    return name, {"approximate": form or "none"} if name == "gelu" else {}


def _check(operands: Operands) -> None:
    """Raises WeftError for an operand that has no gradient, of which one is wanted."""
    scaled, grouped = operands.get("scale_a") is not None, "groups" in operands
    legal = {*_WITH_GRADIENTS} - ({"a", "b"} if scaled else set())
    floats = _FLOATS[:-1] if scaled and not grouped else _FLOATS
    for name, each in operands.items():
        if each is None or not each.requires_grad:
            continue
        if name not in legal or each.dtype not in floats:
            raise refuse(_refusal(name, each, scaled, grouped))
        if name == "b" and grouped and operands["groups"] is not None and operands["a"].dim() == 2:
            raise refuse("gradients of b need row_ends, got groups: sort the rows of a by the number of b")


def _refusal(name: str, operand: Tensor, scaled: bool, grouped: bool) -> str:
    if grouped:
        return (
            "with groups, gradients are computed of a, b, bias, residual and c in f16, bf16, f32 and f64, "
            f"without scales, not of {name}: pass {name}.detach()"
        )
    if scaled:
        return (
            "with scales, gradients are computed of bias, residual and c in f16, bf16 and f32, not of "
            f"{name} in {type_name(operand.dtype)}: pass {name}.detach(), or put the quantization and the "
            "products into a torch.autograd.Function"
        )
    why = "alphas has none" if name == "alphas" else f"{name} has elements of {operand.dtype}"
    return (
        "gradients are computed of a, b, bias, residual and c in f16, bf16, f32 and f64, but "
        f"{why}: pass {name}.detach()"
    )


def keep_options(ctx: FunctionCtx, options: Options, residual: Operand) -> bool:
    """Keeps the options of a product, and whether the gradient of its activation follows from the result
    (`ctx.by_result`). Returns whether it needs Z, which must be computed again.
    """
    activation = options["activation"]
    ctx.options, ctx.by_result = options, activation == "relu" and residual is None
    return activation is not None and not ctx.by_result


def for_each(alphas: Operand, products: Tensor) -> Tensor:
    """An array alpha as PyTorch multiplies products by it: one number, or one for each product."""
    return alphas.reshape(*products.shape[:-2], 1, 1) if alphas.numel() > 1 else alphas.reshape(())


def _scaled(of_z: Tensor, operands: Operands) -> Tensor:
    """The gradient of the product, which an array alpha scales."""
    alphas = operands["alphas"]
    if alphas is None:
        return of_z
    if alphas.numel() == 1 or of_z.dim() == 3 or "groups" not in operands:
        return of_z * for_each(alphas, of_z)
    number = operands["groups"]
    if number is None:
        number = _in_groups(operands["row_ends"], of_z.shape[0])[0]
    return of_z * alphas[number.clamp(0, alphas.numel() - 1)][:, None]


def _product(a: Tensor, b: Tensor, like: Tensor, options: Options) -> Tensor:
    """The gradient of an operand, in its order in memory, from a product of two batches. It is the sum over
    the leading dimensions in which the operand is broadcast.
    """
    if like.dim() == 2 and a.dim() > 2 and a.dim() == b.dim():
        # One product whose K is that of all products.
        leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (each.expand(*leading, *each.shape[-2:]) for each in (a, b))
        a, b = a.movedim(-2, 0).flatten(1), b.flatten(0, -2)
    if like.stride(-1) == 1:
        return multiply(a, b, **options).sum_to_size(like.shape)
    # Otherwise PyTorch would transpose the gradient of a transposed weight before it keeps it.
    return multiply(b.mT, a.mT, **options).mT.sum_to_size(like.shape)


def _in_groups(ends: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The group of each of `size` rows, and whether the row is in it."""
    rows = torch.arange(size, dtype=ends.dtype, device=ends.device)
    number = torch.searchsorted(ends, rows, right=True)
    return number, number < ends.shape[0]


def _valid(operands: Operands, result: Tensor) -> Operand:
    """Which rows of the result are in a group; None for all."""
    if "groups" not in operands or operands["k_ends"] is not None:
        return None
    if operands["row_ends"] is not None:
        return _in_groups(operands["row_ends"], result.shape[-2])[1]
    groups = operands["groups"]
    if result.dim() == 2:
        return groups >= 0
    return torch.arange(result.shape[-2], device=result.device) < groups[:, None]


def _only(valid: Operand, matrix: Tensor) -> Tensor:
    """A matrix with zeros in rows that aren't valid."""
    return matrix if valid is None else torch.where(valid[..., None], matrix, matrix.new_zeros(()))


def _of_a(of_product: Tensor, operands: Operands, valid: Operand, options: Options) -> Tensor:
    if "groups" not in operands:
        return _product(of_product, operands["b"].mT, operands["a"], options)
    ends = operands["k_ends"]
    if ends is None:
        groups = operands["groups"], operands["row_ends"]
        return _only(valid, multiply_grouped(of_product, operands["b"].mT, *groups, **options))
    rows = multiply_grouped(operands["b"], of_product.mT, None, ends, **options)
    return _only(_in_groups(ends, rows.shape[0])[1], rows).mT


def _of_b(of_product: Tensor, operands: Operands, valid: Operand, options: Options) -> Tensor:
    if "groups" not in operands:
        return _product(operands["a"].mT, of_product, operands["b"], options)
    a, ends = operands["a"], operands["k_ends"]
    if ends is not None:
        rows = multiply_grouped(a.mT, of_product, None, ends, **options)
        return _only(_in_groups(ends, rows.shape[0])[1], rows)
    if operands["row_ends"] is not None:
        return multiply_grouped(a.mT, of_product, None, None, operands["row_ends"], **options)
    a = _only(valid, a)
    if operands["b"].dim() == 2:  # whose gradients the batch adds
        a, of_product = a.flatten(0, 1), of_product.flatten(0, 1)
    return multiply(a.mT, of_product, **options)


def through(activation: str, gradient: Tensor, z: Tensor) -> Tensor:
    """The gradient of Z from that of an activation of it."""
    aten = torch.ops.aten
    if activation == "relu":
        return aten.threshold_backward(gradient, z, 0)
    name, form = _by_pytorch(activation)
    return getattr(aten, f"{name}_backward")(gradient, z, **form)


multiply = _Operator("matmul").multiply
multiply_scaled = _Operator("scaled_matmul").multiply
multiply_grouped = _Operator("grouped_matmul").multiply
"""The operators, under transforms of `torch.func` and of dual tensors, too."""
