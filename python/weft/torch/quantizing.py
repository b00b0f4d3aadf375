"""`torch.ops.weft.quantize`: casts to fp8 where PyTorch traces or transforms the call."""

from typing import Any

import torch
from torch import Tensor

from weft.dialects.product_types import ceil_div
from weft.launch.arrays import type_name
from weft.multiply.cast_options import GRADIENTS, Options, Quantized, refuse
from weft.multiply.quantize import plain
from weft.torch import lowering
from weft.torch.operators import LIBRARY, TYPES, define, readable, without_autocast
from weft.torch.signatures import Shape
from weft.torch.transforms import has_tangent
from weft.torch.vectorizing import each_member

_SCHEMA = (
    '(Tensor x, str dtype="f8E4M3FN", *, str scales="tensor", bool values=True, '
    "bool transposed=False, bool powers_of_two=False, str? arch=None) -> Tensor[]"
)
_OWN_SCALES = ("group", "block")
"""Where the transpose has scales in an array of its own."""
_ROWS, _COLUMNS, _SIDE = 16, 4, 128  # elements: rows of fp8, columns of scales, and what shares a scale


def quantized(x: Tensor, dtype: object = Options.dtype, **options: Any) -> Quantized:
    """The result of `weft.quantize` with these arguments, by the operator. Raises WeftError as that does."""
    if (torch.is_grad_enabled() and x.requires_grad) or has_tangent(x):
        raise refuse(GRADIENTS)
    results = list(torch.ops.weft.quantize(x, type_name(dtype) or dtype, **options))
    scales, values = options.get("scales", "tensor"), options.get("values", True)
    transposed = options.get("transposed", False)
    kept = results.pop(0) if values else None
    turned = results.pop(0) if transposed else None
    of_kept = of_turned = results[-1]
    if scales in _OWN_SCALES:
        of_kept = results[0]
    elif scales != "tensor":
        of_turned = of_kept.t()
    return Quantized(kept, of_kept if values else None, turned, of_turned if transposed else None)


def quantize(x: Tensor, dtype: str = Options.dtype, **options: Any) -> list[Tensor]:
    """The operator's results, in the order in which `quantized` takes them apart."""
    with without_autocast(x.device.type):
        kept, of_kept, turned, of_turned = plain(readable(x), dtype, **options)
    every = [kept, turned]
    if options.get("scales", "tensor") in _OWN_SCALES:
        every += [of_kept, of_turned]
    elif of_kept is not None:
        every.append(of_kept)
    else:
        every.append(of_turned if options.get("scales", "tensor") == "tensor" else of_turned.t())
    return [each for each in every if each is not None]


def _fake(x: Tensor, dtype: str = Options.dtype, **others: Any) -> list[Tensor]:
    torch._check(x.dim() == 2, lambda: f"weft.quantize: x must be a matrix, got a shape of {list(x.shape)}")
    (rows, columns), options = x.shape, Options(dtype, **others).checked()
    values, transposed, scales = options.values, options.transposed, options.scales

    def of(shape: Shape, strides: Shape, kind: torch.dtype = torch.float32) -> Tensor:
        return torch.empty_strided(shape, strides, dtype=kind, device=x.device)

    def matrix(down: int, across: int) -> Tensor:
        return of((down, across), (ceil_div(across, _ROWS) * _ROWS, 1), TYPES[dtype])

    results = [matrix(rows, columns)] * values + [matrix(columns, rows)] * transposed
    if scales == "tensor":
        return [*results, of((1,), (1,))]
    if scales == "row":
        return [*results, of((rows, 1), (1, 1))]
    if scales == "column":
        return [*results, of((1, columns), (columns, 1))]
    for wanted, down, across in ((values, rows, columns), (transposed, columns, rows)):
        parts = ceil_div(across, _SIDE)
        if wanted and scales == "group":
            results.append(of((down, parts), (1, ceil_div(down, _COLUMNS) * _COLUMNS)))
        elif wanted:
            results.append(of((ceil_div(down, _SIDE), parts), (parts, 1)))
    return results


_overload = define("quantize", _SCHEMA, quantize, lowering.traced(_fake), torch.Tag.needs_exact_strides)
torch.library.register_vmap("weft::quantize", each_member(torch.ops.weft.quantize), lib=LIBRARY)
lowering.add_function(_overload, __name__, "quantize")
