"""`torch.ops.weft.attention` and its gradient, by which `weft.attention` computes where PyTorch has to see a
call: to differentiate, trace or cast it.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from weft.attend import fp8_launch, gradient_plans, gradients, launches, plans
from weft.attend.fp8_launch import SCALES
from weft.attend.problem import ROW_BYTES, Options, sizes_of
from weft.launch import arrays
from weft.launch.plans import Found
from weft.torch.operators import define, without_autocast
from weft.torch.signatures import Gradients, Operand, Operands
from weft.torch.transforms import differentiable, is_transformed, without_gradients

_ADDED = "Tensor? sinks=None, Tensor? lengths=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None"
_OPTIONS = (
    "int? left=None, int? right=None, float? scale=None, float softcap=0.0, str layout='bhtd', "
    "int? splits=None, bool deterministic=False"
)
_SCALES = "Tensor? q_scale=None, Tensor? k_scale=None, Tensor? v_scale=None"
_ARGUMENTS = f"Tensor q, Tensor k, Tensor v, {_ADDED}, Tensor? page_table=None, {_SCALES}, *, {_OPTIONS}"
_NAMES = ("q", "k", "v", "sinks", "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table", *SCALES)


def attention(tensors: Operands, options: Options) -> tuple[Tensor, Tensor]:
    """The output and lse of tensors by their names, by the operator."""
    operands = [tensors.get(name) for name in _NAMES]
    # Dynamo of PyTorch 2.11 can't trace `vars` of a dataclass.
    named = {each.name: getattr(options, each.name) for each in fields(options)}
    return _attend(*operands, **named)


def _all_readable(operands: Operands) -> Operands:
    return operands | {name: _readable(operands[name]) for name in "qkv"}


def _detached(operands: Operands) -> Operands:
    return {name: each if each is None else each.detach() for name, each in operands.items()}


def _readable(matrix: Tensor) -> Tensor:
    """A tensor that TMA can copy, or a contiguous copy of one that it can't."""
    if matrix.dim() == 0:
        return matrix  # which is refused
    step = ROW_BYTES // matrix.element_size()
    strides = [s for s, n in zip(matrix.stride()[:-1], matrix.shape, strict=False) if n > 1]
    fits = matrix.stride(-1) == 1 and not any(s % step or s == 0 for s in strides)
    if matrix.numel() == 0 or (fits and matrix.data_ptr() % ROW_BYTES == 0):
        return matrix
    return matrix.clone(memory_format=torch.contiguous_format)  # also if it is contiguous


def _forward(*operands: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    named = dict(zip(_NAMES, operands, strict=False))
    arrays_of_call = tuple(named.get(name) for name in plans.ARRAYS)
    with torch.no_grad(), without_autocast(operands[0].device.type):
        entry = plans.found(arrays_of_call, (*options, *options.values()))
        if (results := plans.queued(entry, arrays_of_call)) is not None:
            out, lse = results
            return out, lse
        readable = _all_readable(named)
        if any(readable[name] is not named[name] for name in "qkv"):
            entry = None  # a copy is made in each call
        return plans.run(entry, _detached(readable), Options(**options))


def _known_gradients(operands: tuple[Tensor, ...], options: Mapping[str, object]) -> Found | None:
    """The entry of a call of the operator of gradients among plans; None if it can have no plan."""
    q, k, v, sinks, lengths, starts_q, starts_k, pages, *_, out, lse, d_out, d_lse = operands
    if sinks is not None or pages is not None:
        return None
    arrays_of_call = q, k, None, v, out, lse, d_out, d_lse, lengths, starts_q, starts_k
    return gradient_plans.found(arrays_of_call, options)


def _backward(*operands: Tensor, **options: Any) -> list[Tensor]:
    *inputs, out, lse, d_out, d_lse = operands
    with torch.no_grad(), without_autocast(out.device.type):
        options["deterministic"] = _is_deterministic(options)
        entry = _known_gradients(operands, options)
        if (results := plans.queued(entry, ())) is not None:
            return [*results]
        named = _all_readable(dict(zip(_NAMES, inputs, strict=False)))
        call = launches.Call.of(_detached(named), Options(**options))
        fp8_launch.refuse_gradients(call)
        of_lse = None if d_lse is None else d_lse.contiguous()
        arrays = _readable(out), lse.contiguous(), _readable(d_out), of_lse
        copied = zip((*arrays, *map(_readable, inputs[:3])), (*operands[-4:], *inputs[:3]), strict=True)
        if any(one is not other for one, other in copied):
            entry = None  # a copy is made in each call
        *of_inputs, delta, shares = gradient_plans.run(entry, call, arrays)
        if (sinks := call.given.get("sinks")) is not None:
            of_sinks: torch.Tensor = gradients.of_sinks(
                delta, shares, torch.zeros_like(lse) if d_lse is None else d_lse
            )
            of_inputs.append(of_sinks.to(sinks.dtype))
        return of_inputs


def _is_deterministic(options: Mapping[str, object]) -> bool:
    return bool(options.get("deterministic")) or torch.are_deterministic_algorithms_enabled()


def _forward_fake(*operands: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    named = dict(zip(_NAMES, operands, strict=False))
    tensors = {name: named[name] for name in "qkv"}
    sizes = sizes_of(
        {name: each.shape for name, each in tensors.items()},
        {name: arrays.mlir_type(str(each.dtype).removeprefix("torch.")) for name, each in tensors.items()},
        options.get("layout", "bhtd"),
        packed=named.get("cu_seqlens_q") is not None,
        paged=named.get("page_table") is not None,
    )
    q = tensors["q"]
    dtype = torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype
    out = q.new_empty(sizes.result(options.get("layout", "bhtd")), dtype=dtype)
    return out, q.new_empty(sizes.sums, dtype=torch.float32)


def _backward_fake(*operands: Tensor, **options: Any) -> list[Tensor]:
    *inputs, _, _, _, _ = operands
    named = dict(zip(_NAMES, inputs, strict=False))
    wanted = [named[name] for name in "qkv"]
    wanted += [] if named["sinks"] is None else [named["sinks"]]
    return [torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in wanted]


def _save(
    ctx: FunctionCtx, inputs: tuple[Tensor, ...], keyword_only_inputs: Mapping[str, object], output: Tensor
) -> None:
    ctx.options = keyword_only_inputs
    ctx.save_for_backward(*inputs, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: FunctionCtx, d_out: Operand, d_lse: Operand) -> Gradients:
    """The gradients of all operands. Those of `lengths` and the like don't exist."""
    *inputs, out, lse = ctx.saved_tensors
    if d_out is None and d_lse is None:
        return (None,) * len(_NAMES)
    if d_out is None or d_out.dtype != out.dtype:
        d_out = torch.zeros_like(out) if d_out is None else d_out.to(out.dtype)
    operands, options = (*inputs, out, lse, d_out, d_lse), {**ctx.options, "splits": None}
    # The operator's way through the dispatcher takes longer than all launches.
    entry = None
    if not (torch.is_grad_enabled() or is_transformed()):
        entry = _known_gradients(operands, {**options, "deterministic": _is_deterministic(options)})
    if (results := plans.queued(entry, ())) is not None:
        return *results, *[None] * (len(_NAMES) - 3)
    dq, dk, dv, *of_sinks = _attend_backward(*operands, **options)
    return dq, dk, dv, of_sinks[0] if of_sinks else None, *[None] * (len(_NAMES) - 4)


_BACKWARD = (
    f"({_ARGUMENTS.split(', *, ')[0].replace('=None', '')}, Tensor out, Tensor lse, Tensor d_out, "
    f"Tensor? d_lse, *, {_OPTIONS}) -> Tensor[]"
)
_attend = differentiable(
    define("attention", f"({_ARGUMENTS}) -> (Tensor, Tensor)", _forward, _forward_fake), _save, _differentiate
)
_attend_backward = without_gradients(
    define("attention_backward", _BACKWARD, _backward, _backward_fake),
    "weft.attention: gradients of its gradients are not computed",
)
