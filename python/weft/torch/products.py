"""`weft.matmul` by operators, for tensors whose operations PyTorch records, traces or transforms."""

import sys
from dataclasses import replace
from numbers import Real
from typing import Any

import torch

from weft.dialects.schedule.coercion import as_schedule
from weft.errors import WeftError
from weft.launch.arrays import type_name
from weft.torch.autograd import FORWARD_MODE, activated, for_each, multiply
from weft.torch.operators import TYPES
from weft.torch.scaled_gradients import multiply_scaled
from weft.torch.transforms import has_tangent


def product(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    out: Any = None,
    alpha: Any = 1.0,
    beta: float | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Any = None,
    scales: tuple[Any, Any] | None = None,
    kind: str | tuple[str, str] | None = None,
    scale_block: int | None = None,
    groups: Any = None,
    row_ends: Any = None,
    k_ends: Any = None,
    promote: bool = False,
    accumulate: str | None = None,
    bit_op: str | None = None,
    out_dtype: Any = None,
    schedule: Any = None,
    arch: str | None = None,
    stream: Any = None,
) -> Any:
    """The result of `weft.matmul` with these arguments, from one operator and perhaps others of PyTorch.
    torch.compile traces this function instead of `weft.matmul`. Raises WeftError as that does.
    """
    if stream is not None:
        raise WeftError(
            "weft.matmul: stream must be None where PyTorch differentiates, traces or transforms the call, "
            "which then runs on PyTorch's current stream: use torch.cuda.stream"
        )
    limited = out is not None or scales is not None or not all(x is None for x in (groups, row_ends, k_ends))
    for tensor in (a, b, c, *((epilogue.bias, epilogue.residual) if epilogue is not None else ())):
        if limited and tensor is not None and has_tangent(tensor):
            raise WeftError(FORWARD_MODE)
    if not torch.compiler.is_compiling() and "torch.distributed.tensor" in sys.modules:
        # Its rules take a second to import, for which a call without DTensors needn't wait.
        from weft.torch import sharding  # noqa: F401
    bias = residual = activation = alphas = None
    if epilogue is not None:
        bias, activation, residual = epilogue.bias, epilogue.activation, epilogue.residual
    if vectors := [axis for axis, each in ((-2, a), (-1, b)) if each.dim() == 1]:
        for name, each, flag in (("a", a, transpose_a), ("b", b, transpose_b)):
            if each.dim() == 1 and flag:
                raise WeftError(
                    f"weft.matmul: transpose_{name} must be False for a vector, got {name} of "
                    f"{each.shape[0]} elements"
                )
        a, b = (a.unsqueeze(0) if -2 in vectors else a), (b.unsqueeze(-1) if -1 in vectors else b)
        c, residual, into = (_with_axes(each, vectors) for each in (c, residual, out))
        result = product(
            a,
            b,
            c=c,
            out=into,
            alpha=alpha,
            beta=beta,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            epilogue=None if epilogue is None else replace(epilogue, residual=residual),
            scales=scales,
            kind=kind,
            scale_block=scale_block,
            groups=groups,
            row_ends=row_ends,
            k_ends=k_ends,
            promote=promote,
            accumulate=accumulate,
            bit_op=bit_op,
            out_dtype=out_dtype,
            schedule=schedule,
            arch=arch,
        )
        return result.squeeze(tuple(vectors)) if out is None else out
    a = a.mT if transpose_a else a
    b = b.mT if transpose_b else b
    if not isinstance(alpha, Real):
        alpha, alphas = 1.0, alpha
    kinds = (kind, kind) if kind is None or isinstance(kind, str) else kind
    options = {
        "alpha": float(alpha),
        "beta": beta,
        "promote": promote,
        "accumulate": None if accumulate is None else type_name(accumulate) or accumulate,
        "kind_a": kinds[0],
        "kind_b": kinds[1],
        "scale_block": scale_block,
        "bit_op": bit_op,
        "schedule": None if schedule is None else str(as_schedule(schedule)),
        "arch": arch,
        "out_dtype": _torch_type(out_dtype),
    }
    name, operands = "matmul", [a, b]
    if groups is not None or row_ends is not None or k_ends is not None:
        name, operands = "grouped_matmul", [a, b, groups, row_ends, k_ends, *(scales or (None, None))]
    elif scales is not None:
        name, operands = "scaled_matmul", [a, b, *scales]
    elif out is None and torch.is_grad_enabled():
        given = [x for x in (a, b, bias, residual, c, alphas) if x is not None and x.requires_grad]
        of_alphas = alphas is not None and alphas.requires_grad
        of_z = activation is not None and (activation != "relu" or residual is not None)
        if given and (of_z or of_alphas):
            # The operator would compute Z a second time for the gradient; here PyTorch keeps it.
            if of_alphas:
                z = _scaled_by(alphas, a, b, c, bias, options)
            else:
                z = multiply(a, b, bias, None, c, alphas, **options)
            d = activated(activation, z)
            return d if residual is None else (d + residual).to(d.dtype)
    operands += [bias, residual, c, alphas]
    if name != "grouped_matmul" and out is None:
        of_name = multiply if name == "matmul" else multiply_scaled
        return of_name(*operands, activation=activation, **options)
    operator = getattr(torch.ops.weft, name if out is None else f"{name}_out")
    if out is None:
        return operator(*operands, activation=activation, **options)
    operator(*operands, activation=activation, **options, out=out)
    return out


def _with_axes(array: Any, axes: list[int]) -> Any:
    """An array of the result's shape with the 1 of each vector."""
    if array is None:
        return None
    for axis in reversed(axes):  # that of b first, since the other is counted from it
        array = array.unsqueeze(axis) if axis == -1 or array.dim() else array
    return array


def _torch_type(dtype: Any) -> Any:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    name = type_name(dtype)
    return dtype if name is None else TYPES.get(name, dtype)


def _scaled_by(alphas: Any, a: Any, b: Any, c: Any, bias: Any, options: dict[str, Any]) -> Any:
    """`alphas * alpha * a @ b + beta * c + bias`, in which PyTorch differentiates `alphas`."""
    product = multiply(a, b, **options | {"beta": None})
    z = product * for_each(alphas, product)
    if c is not None:
        z = z + options["beta"] * c
    return (z if bias is None else z + bias).to(product.dtype)
