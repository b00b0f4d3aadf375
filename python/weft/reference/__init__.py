"""What Weft's results are compared with: products in float64 with error bounds, and matrices with block
scales.
"""

from weft.dialects.activations import ACTIVATIONS, Activation
from weft.reference.block_scales import (
    Quantized,
    dequantized,
    pack,
    packed_scales,
    plain_scales,
    quantize,
    tiled_scales,
    unpack,
)
from weft.reference.expected import Array, Comparison, Expected, ends, product, spans

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Array",
    "Comparison",
    "Expected",
    "Quantized",
    "dequantized",
    "ends",
    "pack",
    "packed_scales",
    "plain_scales",
    "product",
    "quantize",
    "spans",
    "tiled_scales",
    "unpack",
]
