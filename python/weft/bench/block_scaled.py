"""Operands whose scales the tensor cores apply, on PyTorch's arrays: random ones, and what they stand for."""

from math import prod
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.isa import block_scales as layout
from weft.isa.block_scales import FORMATS
from weft.isa.types import ELEMENT_TYPES

if TYPE_CHECKING:
    import torch

# PyTorch's names of the types; bytes hold elements that it has no type for.
_ELEMENTS = {"e4m3": "float8_e4m3fn", "e2m3": "uint8", "e2m1": "float4_e2m1fn_x2"}
_SCALES = {"ue8m0": "float8_e8m0fnu", "ue4m3": "float8_e4m3fn"}
_DTYPES = {"e4m3": "float8_e4m3fn", "ue4m3": "float8_e4m3fn", "ue8m0": "float8_e8m0fnu"}
"""ml_dtypes' names of types of 8 bits."""
_ONE = 127  # ue8m0's exponent of 1


def kind(name: str) -> str:
    """What `weft.matmul` calls the format: that of bytes names their elements."""
    element = FORMATS[name].elements[0]
    return f"{name}_{element}" if _ELEMENTS[element] == "uint8" else name


def operand(
    name: str, rows: int, k: int, generator: "torch.Generator"
) -> "tuple[torch.Tensor, torch.Tensor]":
    """A random matrix of a format, `rows` x `k`, and its scales in the 128x4 layout: from 1/4 to 4 for ue8m0,
    from 0.5 to 1.5 for ue4m3. Raises WeftError for a K whose rows aren't whole bytes.
    """
    import torch

    format_, device = FORMATS[name], generator.device
    element = format_.elements[0]
    bits = ELEMENT_TYPES[element].bits
    if k * bits % 8:
        raise WeftError(f"K must be whole bytes of {name}, got {k}")
    if bits == 8:
        elements = torch.randn(rows, k, generator=generator, device=device).to(torch.float8_e4m3fn)
    else:  # every code is a number
        size = (rows, k * bits // 8)
        elements = torch.randint(256, size, generator=generator, device=device, dtype=torch.uint8)
        elements = elements.view(getattr(torch, _ELEMENTS[element]))
    count = prod(layout.tiles(rows, -(-k // format_.group)))
    if format_.scale == "ue8m0":
        options = {"generator": generator, "device": device, "dtype": torch.uint8}
        scales = torch.randint(_ONE - 2, _ONE + 3, (count,), **options)
    else:
        scales = (torch.rand(count, generator=generator, device=device) + 0.5).to(torch.float8_e4m3fn)
    return elements, scales.view(getattr(torch, _SCALES[format_.scale]))


def values(
    name: str, elements: "torch.Tensor", scales: "torch.Tensor", rows: "torch.Tensor"
) -> "torch.Tensor":
    """Some rows of a matrix times their scales, in float64, as `weft.reference` computes them."""
    # Not with the module: the tools' help needs neither.
    import ml_dtypes
    import torch

    from weft import reference

    format_ = FORMATS[name]
    element = format_.elements[0]
    dtypes = {each: getattr(ml_dtypes, dtype) for each, dtype in _DTYPES.items()}
    picked = elements.view(torch.uint8)[rows].cpu().numpy()
    plain = picked.view(dtypes[element]) if element in dtypes else reference.unpack(picked, element)
    groups = -(-plain.shape[-1] // format_.group)
    tiled = scales.view(torch.uint8).cpu().numpy()
    of_rows = reference.plain_scales(tiled, elements.shape[0], groups)[rows.cpu().numpy()]
    scaled = reference.dequantized(plain, of_rows.view(dtypes[format_.scale]), format_.group)
    return torch.from_numpy(scaled).to(elements.device)
