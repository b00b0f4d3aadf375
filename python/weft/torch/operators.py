"""The operators of `torch.ops.weft`: their schemas, kernels and shapes.

Each product has a functional operator and one that writes `out`. Matrices are as PyTorch has them: `a` is
M x K and `b` is K x N, in any order in memory, so that a weight of N x K is passed as its transpose.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from weft.dialects.operand_roles import OUTPUT_TYPES
from weft.errors import WeftError
from weft.launch import arrays
from weft.multiply.block_formats import checked as checked_kind
from weft.multiply.matmul import Epilogue, matmul
from weft.multiply.operands import default_result
from weft.torch import lowering
from weft.torch.signatures import Kernel, Operand, Operands, Shape

ADDED = "Tensor? bias=None, Tensor? residual=None, Tensor? c=None, Tensor? alphas=None"
OPTIONS = (
    "float alpha=1.0, float? beta=None, str? activation=None, ScalarType? out_dtype=None, "
    "bool promote=False, str? accumulate=None, str? kind_a=None, str? kind_b=None, int? scale_block=None, "
    "str? bit_op=None, bool batch_invariant=False, str? schedule=None, str? arch=None"
)
OPERANDS = {
    "matmul": "Tensor a, Tensor b",
    "scaled_matmul": "Tensor a, Tensor b, Tensor scale_a, Tensor scale_b",
    "grouped_matmul": "Tensor a, Tensor b, Tensor? groups=None, Tensor? row_ends=None, Tensor? k_ends=None, "
    "Tensor? scale_a=None, Tensor? scale_b=None",
}
"""The operators, and the operands that they have beside `ADDED`."""

# PyTorch forgets operators whose library is garbage.
LIBRARY = torch.library.Library("weft", "DEF")


def define(name: str, schema: str, kernel: Kernel, fake: Kernel, *tags: torch.Tag) -> OpOverload:
    """Defines an operator by its schema, its kernel for plain tensors and its shapes. Returns it."""
    LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag, *tags))
    for device in ("CPU", "CUDA"):
        LIBRARY.impl(name, kernel, device)
    torch.library.register_fake(f"weft::{name}", fake, lib=LIBRARY)
    return getattr(torch.ops.weft, name).default


def check_one_device(caller: str, operands: Sequence[Operand]) -> None:
    """Raises an error for tensors on different devices, which a kernel would refuse later."""
    devices = dict.fromkeys(x.device for x in operands if isinstance(x, torch.Tensor))
    named = " and ".join(map(str, devices))
    torch._check(len(devices) < 2, lambda: f"{caller}: arrays must be on one device, got {named}")


def epilogue_of(bias: Operand, activation: str | None, residual: Operand = None) -> Epilogue | None:
    """An epilogue; None for one that does nothing."""
    is_none = bias is None and activation is None and residual is None
    return None if is_none else Epilogue(bias, activation, residual)


def _define(name: str, shape_of: Callable[..., Shape]) -> None:
    """Defines a product and its form with `out`. `shape_of` returns the result's shape."""
    names = [each.split()[1].split("=")[0] for each in f"{OPERANDS[name]}, {ADDED}".split(", ")]
    arguments = f"{OPERANDS[name]}, {ADDED}, *, {OPTIONS}"

    def kernel(*operands: Tensor, **options: Any) -> Tensor:
        named = {name: x for name, x in zip(names, operands, strict=False) if x is not None}
        return run(named, **options)

    def fake(
        *operands: Tensor, out_dtype: torch.dtype | None = None, kind_a: str | None = None, **options: object
    ) -> Tensor:
        check_one_device("weft.matmul", operands)
        return _result(operands[0], shape_of(*operands), kind_a, out_dtype)

    def into(*operands: Tensor, out: Tensor, **options: Any) -> None:
        kernel(*operands, out=out, **options)

    def into_fake(*operands: Tensor, out: Tensor, **options: Any) -> None:
        shape = fake(*operands, **options).shape
        torch._check(out.shape == shape, lambda: f"weft.matmul: out must be {shape}, got {out.shape}")

    # The lowering asks for strides: with a tag, Inductor would copy transposed operands.
    define(name, f"({arguments}) -> Tensor", kernel, lowering.traced(fake), torch.Tag.flexible_layout)
    exact = torch.Tag.needs_exact_strides
    define(f"{name}_out", f"({arguments}, Tensor(d!) out) -> ()", into, into_fake, exact)


def run(
    operands: Operands,
    *,
    alpha: float = 1.0,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
    kind_a: str | None = None,
    kind_b: str | None = None,
    **options: Any,
) -> Tensor:
    """Multiplies plain tensors, by their names in an operator's schema, and takes them from `operands`."""
    a, b = operands.pop("a"), operands.pop("b")
    bias, residual, alphas = (operands.pop(role, None) for role in ("bias", "residual", "alphas"))
    if "scale_a" in operands or "scale_b" in operands:
        options["scales"] = operands.pop("scale_a", None), operands.pop("scale_b", None)
    elif a.dim() < 2 or b.dim() < 2:
        raise WeftError(_vector("a", a) if a.dim() < 2 else _vector("b", b))
    options["epilogue"] = epilogue_of(bias, activation, residual)
    if kind_a is not None or kind_b is not None:
        options["kind"] = kind_a, kind_b
    if out_dtype is not None:
        options["out_dtype"] = TYPE_NAMES.get(out_dtype, out_dtype)
    factor = alpha
    if alphas is not None:
        factor = alphas if alpha == 1.0 else alphas * alpha
    a, b = readable(a), readable(b)
    with without_autocast(a.device.type):  # `a` and `b` were cast already, or must not be
        return matmul(a, b, alpha=factor, **operands, **options)


class without_autocast:
    """A block of calls of plain tensors without autocast for a type of device. `torch.autocast` takes several
    times as long. Dynamo, which can't trace the change, sees operators without a rule for autocast.
    """

    __slots__ = ("before", "device")

    def __init__(self, device: str) -> None:
        self.device = device
        has_autocast = not torch.compiler.is_compiling() and torch.amp.is_autocast_available(device)
        self.before = has_autocast and torch.is_autocast_enabled(device)

    def __enter__(self) -> None:
        if self.before:
            torch.set_autocast_enabled(self.device, False)

    def __exit__(self, *_: object) -> None:
        if self.before:
            torch.set_autocast_enabled(self.device, True)


def readable(matrix: Tensor) -> Tensor:
    """A matrix, or a copy of one that has neither contiguous rows nor contiguous columns, such as a gradient
    of a sum: one number for all elements.
    """
    if 1 in matrix.stride()[-2:] or matrix.dim() < 2 or matrix.numel() == 0:
        return matrix
    return matrix.contiguous()


TYPES = {name: getattr(torch, arrays.numpy_dtype(name).name) for name in OUTPUT_TYPES}
"""PyTorch's types of results, by MLIR's names."""
TYPE_NAMES = {dtype: name for name, dtype in TYPES.items()}
"""MLIR's names, by PyTorch's types."""
_FP4 = "f4E2M1FN"


def _result(a: Tensor, shape: Shape, kind: str | None, out_dtype: torch.dtype | None) -> Tensor:
    """An empty result, whose type is `out_dtype` or follows from the elements of `a`."""
    if out_dtype is None:
        name = str(a.dtype).removeprefix("torch.")
        kinds = checked_kind(kind)
        if kinds is not None:
            element = kinds[0].elements[0]
        else:
            element = _FP4 if name == "float4_e2m1fn_x2" else arrays.mlir_type(name)
        out_dtype = TYPES[default_result(element)]
    return torch.empty(shape, dtype=out_dtype, device=a.device)


def _vector(name: str, array: Tensor) -> str:
    """The message about a vector, which only `weft.matmul` itself takes."""
    what = f"{name} must have at least two dimensions in torch.ops.weft"
    return f"weft.matmul: {what}, got {list(array.shape)}: add one with unsqueeze"


def _plain_shape(a: Tensor, b: Tensor, *_: object) -> Shape:
    for name, each in (("a", a), ("b", b)):
        torch._check(each.dim() >= 2, lambda name=name, each=each: _vector(name, each))
    torch._check(
        a.shape[-1] == b.shape[-2],
        lambda: f"weft.matmul: a and b must have the same K, got {list(a.shape)} and {list(b.shape)}",
    )
    return _scaled_shape(a, b)


def _scaled_shape(a: Tensor, b: Tensor, *_: object) -> Shape:
    # Packed elements have other sizes, so K isn't compared.
    return *torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]


def _grouped_shape(
    a: Tensor, b: Tensor, groups: Operand = None, row_ends: Operand = None, k_ends: Operand = None, *_: object
) -> Shape:
    return (*a.shape[:-1], b.shape[-1]) if k_ends is None else (k_ends.shape[0], a.shape[-2], b.shape[-1])


_SHAPES = {"matmul": _plain_shape, "scaled_matmul": _scaled_shape, "grouped_matmul": _grouped_shape}
PRODUCTS = tuple(_SHAPES)
"""The names of the operators that multiply."""
for _name, _shape_of in _SHAPES.items():
    _define(_name, _shape_of)
