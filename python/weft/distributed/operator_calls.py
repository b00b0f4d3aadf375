"""Calls of `weft.distributed` by operators of PyTorch, where it differentiates, traces or casts them."""

from typing import Any

import torch
from torch import Tensor

from weft.dialects.activations import ACTIVATIONS, GATES
from weft.dialects.operand_roles import GATE_RUN
from weft.distributed import direct, watching
from weft.distributed.gates import check_columns, check_gate
from weft.distributed.products import added_to
from weft.distributed.teams import Team
from weft.errors import WeftError, shown
from weft.launch.arrays import type_name
from weft.multiply.matmul import Epilogue
from weft.multiply.product import checked_activation
from weft.torch.autograd import activated
from weft.torch.transforms import are_transformed

_UNIT = 8  # elements of 2 bytes: rows that other GPUs get are multiples of 16 bytes


def by_operator(name: str, a: Tensor, b: Tensor, *, team: Team, **arguments: Any) -> Tensor:
    """A function of `weft.distributed` by its operator, with the function's arguments."""
    if not isinstance(team, Team):
        raise WeftError(f"{name}: team must be a weft.distributed.Team, got {shown(team)}")
    transposed, epilogue = arguments.pop("transpose_b", False), arguments.pop("epilogue", None)
    scales = tuple(added_to(None, arguments.pop("scales", None)).values())
    options = {name: value for name, value in arguments.items() if value is not None}
    if "schedule" in options:
        options["schedule"] = str(options["schedule"])
    if "partials" in options:
        options["partials"] = type_name(options["partials"]) or options["partials"]
    return _called(name, (a, b, *scales), transposed, epilogue, team, options)


def _called(
    name: str,
    matrices: tuple[Tensor, ...],
    transposed: bool,
    epilogue: Epilogue | None,
    team: Team,
    options: Any,
) -> Tensor:
    """An operator, or one that keeps Z for the backward pass and PyTorch's activation of it."""
    a, b, *scales = matrices
    bias = residual = activation = None
    if epilogue is not None:
        bias, residual = epilogue.bias, epilogue.residual
        activation = epilogue.activation
        gates = GATES if name == "all_gather_matmul" else ()
        checked_activation(activation, name, (*ACTIVATIONS, *gates))
    tensors = [x for x in (*matrices, bias, residual) if x is not None]
    if a.ndim != 2 or b.ndim != 2:
        role, each = ("a", a) if a.ndim != 2 else ("b", b)
        raise WeftError(f"{name}: {role} must be a matrix, got a shape of {tuple(each.shape)}")
    is_plain = not torch.compiler.is_compiling() and watching.are_plain(tensors)
    if not is_plain and are_transformed(*tensors):
        raise WeftError(
            "weft.distributed: torch.func, torch.vmap and forward mode don't transform products over several "
            "GPUs: use backward()"
        )
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    of_torch = wanted and activation is not None and (activation != "relu" or residual is not None)
    if wanted:
        columns = b.shape[0 if transposed else 1]
        if activation in GATES:
            check_gate(f"{name}: {activation}", columns, bias is not None or residual is not None)
        is_sent = name == "all_gather_matmul" and a.requires_grad  # the gradient of the result
        if is_sent or (name == "matmul_reduce_scatter" and (a.requires_grad or b.requires_grad)):
            check_columns(f"{name}: gradients need", columns, _UNIT)
    added = (bias, None) if of_torch else (bias, residual)
    if not of_torch:
        options["activation"] = activation
    if wanted and is_plain and not scales:
        options["team"] = team
        d = direct.apply(name, transposed, options, a, b, *added)
    else:
        options["team"] = team.name
        d = getattr(torch.ops.weft, name)(a, b.mT if transposed else b, *added, *scales, **options)
    if not of_torch:
        return d
    d = gated(activation, d) if activation in GATES else activated(activation, d)
    return d if residual is None else (d + residual).to(d.dtype)


def gated(name: str, z: Tensor) -> Tensor:
    """The gate of what `interleaved` columns have been multiplied to."""
    gate, up = z.unflatten(-1, (-1, 2, GATE_RUN)).unbind(-2)
    return (activated(GATES[name], gate) * up).flatten(-2)
