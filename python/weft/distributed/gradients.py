"""Gradients of products over several GPUs: with G that of D and dZ = G activation'(Z),

- of `all_gather_matmul`, that of A is a `matmul_reduce_scatter` of dZ and the transpose of B, and that of B
  the product of the transpose of all rows of A and dZ. All rows of A are gathered again, beside the former
  product: to keep them would take as much memory on each GPU as A has on all of them.
- of `matmul_reduce_scatter`, that of A is an `all_gather_matmul` of dZ and the transpose of B, and that of B
  the product of the transpose of A and all rows of dZ, which the former has gathered.
- of `matmul_all_reduce`, those of A and B are products of this rank's A, B and dZ. All ranks must have the
  same G, as where they compute the same from D.
"""

from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from weft.errors import WeftError
from weft.torch.autograd import keep_options, through
from weft.torch.operators import LIBRARY, readable
from weft.torch.signatures import Gradients, Kernel, Operand
from weft.torch.transforms import refuse_gradients

_DIFFERENTIATED = (torch.float16, torch.bfloat16, torch.float32)
_OPERANDS = ("a", "b", "bias", "residual")
_WITHOUT = dict.fromkeys(
    ("all_gather_rows", "all_gather_matmul_rows", "matmul_reduce_scatter_rows"),
    "gradients of gradients are not computed of products over several GPUs",
)


def save(ctx: FunctionCtx, inputs: tuple[Operand, ...], keyword_only_inputs: Any, output: Tensor) -> None:
    """Saves what the gradients need: for relu the result, for other activations what Z is computed from.
    Raises WeftError for operands without gradients, of which one needs them.
    """
    if any(each is not None for each in inputs[len(_OPERANDS) :]):
        raise WeftError(
            "weft.distributed: products with scales have no gradients: call them under torch.no_grad(), or "
            "pass tensors after detach()"
        )
    for name, each in zip(_OPERANDS, inputs, strict=False):
        if each is not None and each.dtype not in _DIFFERENTIATED and each.requires_grad:
            raise WeftError(
                f"weft.distributed: gradients are computed in f16, bf16 and f32, but {name} has elements of "
                f"{each.dtype}: pass {name}.detach()"
            )
    a, b, bias, residual = inputs[: len(_OPERANDS)]
    recomputed = keep_options(ctx, keyword_only_inputs, residual)
    ctx.save_for_backward(a, b, output if ctx.by_result else None, bias if recomputed else None)
    ctx.types = [None if each is None else each.dtype for each in (a, b, bias, residual)]


def _by_operators(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """A gradient that operators compute, so that PyTorch can trace it."""

    def run(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        # PyTorch omits operands that are None at the end.
        wanted = (*ctx.needs_input_grad, False, False, False)[: len(_OPERANDS)]
        return *backward(torch.ops.weft, ctx, wanted, gradient), None, None  # of scales

    return run


def _of_gather(
    calls: ModuleType | SimpleNamespace, ctx: FunctionCtx, wanted: Sequence[bool], gradient: Tensor
) -> Gradients:
    """The gradients of operands, of which some are wanted. `calls` has the operators, or what they run."""
    a, b, *_ = ctx.saved_tensors
    of_z = _of_z(calls.all_gather_matmul, ctx, gradient)
    to_a, to_b, *_ = wanted
    of_a = rows = None
    team = {"team": ctx.options["team"]}
    if to_a and to_b:
        of_a, rows = calls.matmul_reduce_scatter_rows(of_z, b.mT, a, **team)
    elif to_a:
        of_a = calls.matmul_reduce_scatter(of_z, b.mT, **team)
    elif to_b:
        rows = calls.all_gather_rows(a, **team)
    of_b = _of_b(calls, rows, of_z, b) if to_b else None
    return of_a, of_b, *_of_added(ctx, wanted, gradient, of_z)


def _of_scatter(
    calls: ModuleType | SimpleNamespace, ctx: FunctionCtx, wanted: Sequence[bool], gradient: Tensor
) -> Gradients:
    a, b, *_ = ctx.saved_tensors
    of_z = _of_z(calls.matmul_reduce_scatter, ctx, gradient)
    to_a, to_b, to_bias, _ = wanted
    of_a = rows = None
    team = {"team": ctx.options["team"]}
    to_shared = to_bias and ctx.options["shared_bias"]
    if to_a and (to_b or to_shared):
        of_a, rows = calls.all_gather_matmul_rows(of_z, b.mT, **team)
    elif to_a:
        of_a = calls.all_gather_matmul(of_z, b.mT, **team)
    elif to_b or to_shared:
        rows = calls.all_gather_rows(of_z, **team)
    of_b = _of_b(calls, readable(a), rows, b) if to_b else None
    return of_a, of_b, *_of_added(ctx, wanted, gradient, rows if to_shared else of_z)


def _of_reduce(
    calls: ModuleType | SimpleNamespace, ctx: FunctionCtx, wanted: Sequence[bool], gradient: Tensor
) -> Gradients:
    a, b, *_ = ctx.saved_tensors
    of_z = _of_z(calls.matmul_all_reduce, ctx, gradient)
    to_a, to_b, *_ = wanted
    of_a = calls.matmul(of_z, readable(b).mT) if to_a else None
    of_b = _of_b(calls, readable(a), of_z, b) if to_b else None
    return of_a, of_b, *_of_added(ctx, wanted, gradient, of_z)


BACKWARD = {
    "all_gather_matmul": _of_gather,
    "matmul_reduce_scatter": _of_scatter,
    "matmul_all_reduce": _of_reduce,
}


def _of_b(calls: ModuleType | SimpleNamespace, a: Tensor, of_z: Tensor, b: Tensor) -> Tensor:
    """The gradient of B, in its order in memory."""
    return calls.matmul(a.mT, of_z) if b.stride(-1) == 1 else calls.matmul(of_z.mT, a).mT


def _of_z(call: Kernel, ctx: FunctionCtx, gradient: Tensor) -> Tensor:
    """The gradient of Z, contiguous."""
    a, b, result, bias = ctx.saved_tensors
    activation = ctx.options["activation"]
    if ctx.by_result:
        gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
    elif activation is not None:
        z = call(a, b, bias, **{**ctx.options, "activation": None})
        gradient = through(activation, gradient, z)
    return gradient.contiguous()


def _of_added(
    ctx: FunctionCtx, wanted: Sequence[bool], gradient: Tensor, of_bias: Tensor
) -> tuple[Operand, Operand]:
    """The gradients of the bias, from that of the rows to which it was added, and of the residual."""
    *_, to_bias, to_residual = wanted
    return (
        of_bias.sum(0).to(ctx.types[2]) if to_bias else None,
        gradient.to(ctx.types[3]) if to_residual else None,
    )


def register() -> None:
    """Registers the gradients of the operators, and errors for those that have none."""
    for name in BACKWARD:
        backward = _by_operators(BACKWARD[name])
        torch.library.register_autograd(f"weft::{name}", backward, setup_context=save, lib=LIBRARY)
    for name, why in _WITHOUT.items():
        refuse_gradients(getattr(torch.ops.weft, name).default, f"weft.distributed: {why}")
