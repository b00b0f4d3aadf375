"""Gradients of products with groups: they are products with groups, too, as in JAX (`weft.jax.grouped`).

With `row_ends`, the gradient of `a` has the same groups of rows, and that of `b` has groups of K. With
`k_ends` it's the other way round. Rows outside of all groups count as 0.
"""

from typing import Any

import torch

from weft.dialects.product_types import GROUP_ROWS
from weft.errors import WeftError
from weft.torch.autograd import FORWARD_MODE, keep_options, multiply, through
from weft.torch.operators import LIBRARY
from weft.torch.transforms import Arguments, differentiable

_OVERLOAD = torch.ops.weft.grouped_matmul.default
_OPERANDS = Arguments(_OVERLOAD).operands
_WITH_GRADIENTS = ("a", "b", "bias", "residual", "c")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _save(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    given = dict(zip(_OPERANDS, (*inputs, *[None] * len(_OPERANDS)), strict=False))
    scaled = given["scale_a"] is not None
    for name, each in given.items():
        if each is None or not each.requires_grad:
            continue
        if name not in _WITH_GRADIENTS or each.dtype not in _FLOATS or (scaled and name in ("a", "b")):
            raise WeftError(
                "weft.matmul: with groups, gradients are computed of a, b, bias, residual and c in f16, "
                f"bf16, f32 and f64, without scales, not of {name}: pass {name}.detach()"
            )
        if name == "b" and given["groups"] is not None and given["a"].dim() == 2:
            raise WeftError(
                "weft.matmul: gradients of b need row_ends, got groups: sort the rows of a by the number of b"
            )
    keep_options(ctx, keyword_only_inputs, given["residual"])
    result = output if ctx.by_result else None
    ctx.save_for_backward(result, *(given[name] for name in _OPERANDS if name != "residual"))
    ctx.like = {
        name: (given[name].shape, given[name].dtype) for name in _WITH_GRADIENTS if given[name] is not None
    }
    ctx.count = len(inputs)


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of all operands: those of a, b, the bias, the residual and C, and None."""
    names = [name for name in _OPERANDS if name != "residual"]
    result, *saved = ctx.saved_tensors
    given, options = dict(zip(names, saved, strict=True)), ctx.options
    valid = _valid(given, gradient)
    gradient = of_z = _only(valid, gradient)
    if ctx.by_result:
        of_z = torch.ops.aten.threshold_backward(gradient, result, 0)
    elif options["activation"] is not None:
        sums = torch.float64 if given["a"].dtype == torch.float64 else torch.float32
        plain = options | {"activation": None, "out_dtype": sums}
        z = _only(valid, multiply_grouped(*(given.get(name) for name in _OPERANDS), **plain))
        of_z = through(options["activation"], gradient.to(z.dtype), z)
    wanted = dict(zip(_OPERANDS, ctx.needs_input_grad, strict=False))
    found: dict[str, Any] = {}
    if wanted["a"] or wanted["b"]:
        of_product = _scaled(of_z, given)
        for name, derive in (("a", _of_a), ("b", _of_b)):
            if wanted[name]:
                like, other = given[name], given["b" if name == "a" else "a"]
                kept = {"alpha": options["alpha"], "arch": options["arch"], "out_dtype": like.dtype}
                found[name] = derive(of_product.to(other.dtype), given, valid, kept)
    sources = {"bias": of_z, "residual": gradient, "c": of_z}
    for name, source in sources.items():
        if name in ctx.like and wanted.get(name):
            shape, dtype = ctx.like[name]
            source = options["beta"] * source if name == "c" else source
            found[name] = source.sum_to_size(shape).to(dtype)
    return tuple(found.get(name) for name in _OPERANDS[: ctx.count])


def _in_groups(ends: Any, size: int) -> tuple[Any, Any]:
    """The group of each of `size` rows, and whether the row is in it."""
    rows = torch.arange(size, dtype=ends.dtype, device=ends.device)
    rounded = (ends + (GROUP_ROWS - 1)) // GROUP_ROWS * GROUP_ROWS
    number = torch.searchsorted(rounded, rows, right=True)
    return number, rows < torch.cat([ends, ends.new_zeros(1)])[number]


def _valid(given: dict[str, Any], result: Any) -> Any:
    """Which rows of the result are in a group; None for all."""
    if given["k_ends"] is not None:
        return None
    if given["row_ends"] is not None:
        return _in_groups(given["row_ends"], result.shape[-2])[1]
    groups = given["groups"]
    if result.dim() == 2:
        return groups >= 0
    return torch.arange(result.shape[-2], device=result.device) < groups[:, None]


def _only(valid: Any, matrix: Any) -> Any:
    """A matrix with zeros in rows that aren't valid."""
    return matrix if valid is None else torch.where(valid[..., None], matrix, matrix.new_zeros(()))


def _scaled(of_z: Any, given: dict[str, Any]) -> Any:
    """The gradient of the product, which an array alpha scales."""
    alphas = given["alphas"]
    if alphas is None:
        return of_z
    if alphas.numel() == 1:
        return of_z * alphas.reshape(())
    if of_z.dim() == 3:
        return of_z * alphas.reshape(-1, 1, 1)
    number = given["groups"]
    if number is None:
        number = _in_groups(given["row_ends"], of_z.shape[0])[0]
    return of_z * alphas[number.clamp(0, alphas.numel() - 1)][:, None]


def _of_a(of_product: Any, given: dict[str, Any], valid: Any, options: dict[str, Any]) -> Any:
    ends = given["k_ends"]
    if ends is None:
        groups = given["groups"], given["row_ends"]
        return _only(valid, multiply_grouped(of_product, given["b"].mT, *groups, **options))
    rows = multiply_grouped(given["b"], of_product.mT, None, ends, **options)
    return _only(_in_groups(ends, rows.shape[0])[1], rows).mT


def _of_b(of_product: Any, given: dict[str, Any], valid: Any, options: dict[str, Any]) -> Any:
    a, ends = given["a"], given["k_ends"]
    if ends is not None:
        rows = multiply_grouped(a.mT, of_product, None, ends, **options)
        return _only(_in_groups(ends, rows.shape[0])[1], rows)
    a = _only(valid, a)
    if given["row_ends"] is not None:
        return multiply_grouped(a.mT, of_product, None, None, given["row_ends"], **options)
    if given["b"].dim() == 2:  # whose gradients the batch adds
        a, of_product = a.flatten(0, 1), of_product.flatten(0, 1)
    return multiply(a.mT, of_product, **options)


multiply_grouped = differentiable(LIBRARY, _OVERLOAD, _save, _backward, FORWARD_MODE)
"""`torch.ops.weft.grouped_matmul`, under transforms of `torch.func`, too."""
