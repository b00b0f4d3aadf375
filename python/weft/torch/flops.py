"""The arithmetic operations of Weft's operators, for `torch.utils.flop_counter.FlopCounterMode`."""

import math

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

_PACKED = {"int4": 2, "uint4": 2, "bool": 8, "nvfp4": 2, "mxfp4": 2}
"""The elements in a byte, by kind. Those of mxfp6 are 4 in 3 bytes."""


def register() -> None:
    """Adds the operators of Weft to those that PyTorch counts."""
    operators = torch.ops.weft
    products = operators.matmul, operators.matmul_out, operators.scaled_matmul, operators.scaled_matmul_out
    register_flop_formula(products, get_raw=True)(product)
    register_flop_formula([operators.grouped_matmul, operators.grouped_matmul_out], get_raw=True)(grouped)
    register_flop_formula(operators.matmul_int4)(int4)
    register_flop_formula(operators.attention)(attention)
    register_flop_formula(operators.attention_backward)(attention_backward)


def product(a: Tensor, b: Tensor, *_: object, kind_a: str | None = None, **__: object) -> int:
    """Two for each product of two elements."""
    leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return int(2 * math.prod(leading) * a.shape[-2] * b.shape[-1] * _columns(a, kind_a))


def grouped(a: Tensor, b: Tensor, *_: object, kind_a: str | None = None, **__: object) -> int:
    """As if every row of `a` is multiplied: only the GPU has the sizes of groups."""
    return int(2 * math.prod(a.shape[:-1]) * b.shape[-1] * _columns(a, kind_a))


def _columns(a: Tensor, kind: str | None) -> int:
    packed = (a.dtype == torch.uint8 and kind is not None) or (a.dtype.itemsize == 1 and "x2" in str(a.dtype))
    if not packed:
        return int(a.shape[-1])
    name = "nvfp4" if kind is None else kind
    return int(a.shape[-1] * 4 // 3 if name.startswith("mxfp6") else a.shape[-1] * _PACKED.get(name, 1))


def int4(x: Tensor, *others: Tensor, **_: object) -> int:
    """Two for each product of two elements."""
    rows = others[4]
    return int(2 * math.prod(x) * rows)


def attention(q: Tensor, k: Tensor, v: Tensor, *others: Tensor, layout: str = "bhtd", **_: object) -> int:
    """Those of both products, as PyTorch counts them: also for what a mask leaves out. Packed and paged keys
    count as 0, since only the GPU has their lengths.
    """
    if len(q) != 4 or any(each is not None for each in others[2:5]):
        return 0
    heads, tokens = (1, 2) if layout == "bhtd" else (2, 1)
    return int(2 * q[0] * q[heads] * q[tokens] * k[tokens] * (q[3] + v[3]))


def attention_backward(
    q: Tensor, k: Tensor, v: Tensor, *others: Tensor, layout: str = "bhtd", **_: object
) -> int:
    """Those of five products: of the scores, which are computed again, and of the gradients."""
    forward = attention(q, k, v, *others, layout=layout)
    return int(forward * (3 * q[3] + 2 * v[3]) // (q[3] + v[3]))
