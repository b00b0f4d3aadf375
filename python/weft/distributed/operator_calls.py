"""Calls of `weft.distributed` where PyTorch has to see them: by operators where it traces or casts them, and
without its dispatcher where it only differentiates them.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from weft.dialects.activations import GATES
from weft.dialects.operand_roles import GATE_RUN
from weft.distributed import gradients
from weft.distributed.functions import FUNCTIONS
from weft.distributed.gates import check_columns, check_gate
from weft.distributed.operators import KERNELS
from weft.distributed.products import SCALES, added_to
from weft.distributed.teams import Team
from weft.errors import WeftError, shown
from weft.launch.arrays import type_name
from weft.multiply.matmul import Epilogue, matmul
from weft.multiply.product import checked_activation
from weft.torch.autograd import activated
from weft.torch.operators import without_autocast
from weft.torch.signatures import Gradients, Operand
from weft.torch.transforms import are_plain, are_transformed, is_autocast

_UNIT = 8  # elements of 2 bytes: rows that other GPUs get are multiples of 16 bytes
_CALLS = SimpleNamespace(**KERNELS, matmul=matmul)
_DEFAULTS = {"activation": None, "shared_bias": False}


def by_operator(
    name: str,
    a: Tensor,
    b: Tensor,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    scales: Any = None,
    **others: Any,
) -> Tensor:
    """A function of `weft.distributed` by its operator, with the function's arguments. For gradients that
    need Z, the operator returns it, and PyTorch computes the activation.
    """
    if not isinstance(team, Team):
        raise WeftError(f"{name}: team must be a weft.distributed.Team, got {shown(team)}")
    added, activation = added_to(epilogue, scales), None if epilogue is None else epilogue.activation
    checked_activation(activation, name, FUNCTIONS[name].activations)
    bias, residual = added.get("bias"), added.get("residual")
    tensors = (a, b, *added.values())
    if a.ndim != 2 or b.ndim != 2:
        role, each = ("a", a) if a.ndim != 2 else ("b", b)
        raise WeftError(f"{name}: {role} must be a matrix, got a shape of {tuple(each.shape)}")
    is_plain = not torch.compiler.is_compiling() and not is_autocast() and are_plain(tensors)
    if not is_plain and are_transformed(*tensors):
        raise WeftError(
            "weft.distributed: torch.func, torch.vmap and forward mode don't transform products over several "
            "GPUs: use backward()"
        )
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    of_torch = wanted and activation is not None and (activation != "relu" or residual is not None)
    if wanted:
        columns = b.shape[0 if transpose_b else 1]
        if activation in GATES:
            check_gate(f"{name}: {activation}", columns, bias is not None or residual is not None)
        is_sent = name == "all_gather_matmul" and a.requires_grad  # the gradient of the result
        if is_sent or (name == "matmul_reduce_scatter" and (a.requires_grad or b.requires_grad)):
            check_columns(f"{name}: gradients need", columns, _UNIT)
    operands = [bias, None if of_torch else residual]
    options = _options(others) | ({} if of_torch else {"activation": activation})
    if wanted and is_plain and "scale_a" not in added:
        d = _apply(name, transpose_b, options | {"team": team}, a, b, *operands)
    else:
        operands += [added[role] for role in SCALES if role in added]
        d = getattr(torch.ops.weft, name)(a, b.mT if transpose_b else b, *operands, **options, team=team.name)
    if not of_torch:
        return d
    d = gated(activation, d) if activation in GATES else activated(activation, d)
    return d if residual is None else (d + residual).to(d.dtype)


def _options(others: dict[str, Any]) -> dict[str, Any]:
    """The options of an operator, from those of a call."""
    options = {name: value for name, value in others.items() if value is not None}
    if "schedule" in options:
        options["schedule"] = str(options["schedule"])
    if "partials" in options:
        options["partials"] = type_name(options["partials"]) or options["partials"]
    return options


def gated(name: str, z: Tensor) -> Tensor:
    """The gate of what `interleaved` columns have been multiplied to."""
    gate, up = z.unflatten(-1, (-1, 2, GATE_RUN)).unbind(-2)
    return (activated(GATES[name], gate) * up).flatten(-2)


class _Direct(torch.autograd.Function):  # type: ignore[misc]
    """Computes an operator of plain tensors. `name` and `options` are the operator's, but with the team
    instead of its name. B is `b`, or its transpose if it is `transposed`.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, name: str, transposed: bool, options: Any, a: Tensor, b: Tensor, *added: Operand
    ) -> Tensor:
        if transposed:  # unseen by PyTorch, which would transpose the gradient by a step of its own
            b = b.mT
        d = KERNELS[name](a, b, *added, **options)
        gradients.save(ctx, (a, b, *added), {**_DEFAULTS, **options}, d)
        ctx.name, ctx.transposed = name, transposed
        return d

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        return (_differentiated if torch.is_grad_enabled() else _backward)(ctx, gradient)


def _backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
    if is_autocast():
        with without_autocast(gradient.device.type):
            return _backward(ctx, gradient)
    of_a, of_b, *rest = gradients.BACKWARD[ctx.name](_CALLS, ctx, ctx.needs_input_grad[3:], gradient)
    if ctx.transposed and of_b is not None:
        of_b = of_b.mT
    return None, None, None, of_a, of_b, *rest


# Its errors are those of gradients of gradients.
_differentiated = torch.autograd.function.once_differentiable(_backward)

# Without PyTorch's search for tensors that transforms have left.
_apply = super(torch.autograd.Function, _Direct).apply
