"""`weft.matmul` by operators, for tensors whose operations PyTorch records, traces or transforms."""

import sys
from dataclasses import replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from weft.dialects.schedule import AnySchedule
from weft.dialects.schedule.coercion import as_schedule
from weft.errors import WeftError
from weft.launch import torch_tensors
from weft.launch.arrays import type_name
from weft.multiply import array_views
from weft.multiply.array_views import refuse
from weft.multiply.matmul import matmul
from weft.multiply.sizes import k_complaint
from weft.torch.autograd import FORWARD_MODE, activated, for_each, multiply, multiply_grouped, multiply_scaled
from weft.torch.operators import TYPES
from weft.torch.signatures import Operand
from weft.torch.transforms import has_tangent


@torch_tensors.outside_of_graphs("an epilogue that is a function isn't part of a graph: use weft.Epilogue")
def _outside(a: Tensor, b: Tensor, **options: Any) -> Tensor:
    """`weft.matmul`, after a graph break."""
    return matmul(a, b, **options)


def product(a: Tensor, b: Tensor, *, stream: object = None, **others: Any) -> Tensor:
    """The result of `weft.matmul` with these arguments, from one operator and perhaps others of PyTorch.
    torch.compile traces this function instead of `weft.matmul`. Raises WeftError as that does.
    """
    if callable(others.get("epilogue")):
        return _outside(a, b, stream=stream, **others)
    if stream is not None:
        raise refuse(
            "stream must be None where PyTorch differentiates, traces or transforms the call, which then "
            "runs on PyTorch's current stream: use torch.cuda.stream"
        )
    if not torch.compiler.is_compiling() and "torch.distributed.tensor" in sys.modules:
        # Its rules take a second to import, for which a call without DTensors needn't wait.
        from weft.torch import sharding  # noqa: F401
    if a.dim() > 1 and b.dim() > 1:
        return _of_matrices(a, b, **others)
    epilogue, out = others.get("epilogue"), others.get("out")
    operands = {"a": a, "b": b, "c": others.get("c"), "out": out, "residual": epilogue and epilogue.residual}
    axes = array_views.as_matrices(operands, [others.get(f"transpose_{name}", False) for name in "ab"])
    if epilogue is not None:
        others["epilogue"] = replace(epilogue, residual=operands["residual"])
    del operands["residual"]
    result = _of_matrices(**others | operands)
    return result.squeeze(axes) if out is None else out


def _of_matrices(
    a: Tensor,
    b: Tensor,
    *,
    c: Operand = None,
    out: Operand = None,
    alpha: float | Tensor = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Any = None,
    scales: tuple[Tensor, Tensor] | None = None,
    groups: Operand = None,
    row_ends: Operand = None,
    k_ends: Operand = None,
    **options: Any,
) -> Tensor:
    """The product of matrices, or of batches of them."""
    bias = residual = activation = alphas = None
    if epilogue is not None:
        bias, activation, residual = epilogue.bias, epilogue.activation, epilogue.residual
    groups = None if groups is row_ends is k_ends is None else [groups, row_ends, k_ends]
    is_plain = out is scales is groups is None
    if not is_plain and any(x is not None and has_tangent(x) for x in (a, b, c, bias, residual)):
        raise WeftError(FORWARD_MODE)
    a, b = (a.mT if transpose_a else a), (b.mT if transpose_b else b)
    if not isinstance(alpha, Real):
        alpha, alphas = 1.0, alpha
    options = _options(float(alpha), **options)
    # Packed elements have other sizes. Programs are checked by the operator.
    has_plain_k = a.dtype == b.dtype and options["kind_a"] is options["kind_b"] is None
    asked = transpose_a, transpose_b
    if (
        has_plain_k
        and not torch.compiler.is_compiling()
        and (wrong := k_complaint(a.shape[-2:], b.shape[-2:], asked))
    ):
        raise WeftError(wrong)
    added = [bias, residual, c, alphas]
    name, operands, of_name = "matmul", [a, b], multiply
    if groups is not None:
        name, operands = "grouped_matmul", [a, b, *groups, *(scales or (None, None))]
        of_name = multiply_grouped
    elif scales is not None:
        name, operands, of_name = "scaled_matmul", [a, b, *scales], multiply_scaled
    elif out is None and _keeps_z(activation, a, b, *added):
        return _by_parts(a, b, added, activation, options)
    operands += added
    if out is None:
        return of_name(*operands, activation=activation, **options)
    operator = getattr(torch.ops.weft, f"{name}_out")
    operator(*operands, activation=activation, **options, out=out)
    return out


def _options(
    alpha: float,
    *,
    kind: str | tuple[str, str] | None = None,
    accumulate: object = None,
    schedule: AnySchedule | str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The options of an operator, from those of a call."""
    kinds = (kind, kind) if kind is None or isinstance(kind, str) else kind
    return {
        **others,
        "alpha": alpha,
        "accumulate": None if accumulate is None else type_name(accumulate) or accumulate,
        "kind_a": kinds[0],
        "kind_b": kinds[1],
        "schedule": None if schedule is None else str(as_schedule(schedule)),
        "out_dtype": _torch_type(others.get("out_dtype")),
    }


def _keeps_z(activation: str | None, a: Tensor, b: Tensor, *added: Operand) -> bool:
    """Whether PyTorch should keep Z, the argument of the activation, which the operator would compute a
    second time for the gradient.
    """
    if not torch.is_grad_enabled():
        return False
    _, residual, _, alphas = added
    records = any(x is not None and x.requires_grad for x in (a, b, *added))
    of_z = activation is not None and (activation != "relu" or residual is not None)
    return records and (of_z or (alphas is not None and alphas.requires_grad))


def _by_parts(
    a: Tensor, b: Tensor, added: list[Operand], activation: str | None, options: dict[str, Any]
) -> Tensor:
    """The product by operators of its own for Z, the activation and the residual."""
    bias, residual, c, alphas = added
    if alphas is not None and alphas.requires_grad:
        # `alphas * alpha * a @ b + beta * c + bias`, in which PyTorch differentiates `alphas`.
        product = multiply(a, b, **options | {"beta": None})
        z = product * for_each(alphas, product)
        if c is not None:
            z = z + options["beta"] * c
        z = (z if bias is None else z + bias).to(product.dtype)
    else:
        z = multiply(a, b, bias, None, c, alphas, **options)
    d = activated(activation, z)
    return d if residual is None else (d + residual).to(d.dtype)


def _torch_type(dtype: object) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    name = type_name(dtype)
    return dtype if name is None else TYPES.get(name, dtype)
