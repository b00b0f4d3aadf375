"""Elements of 4 and 6 bits without gaps, and with a byte each."""

from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError

Bytes = npt.NDArray[np.uint8]


def pack(codes: npt.NDArray[Any], bits: int) -> Bytes:
    """The lowest `bits` of each byte, without gaps along the last dimension, the first in the lowest bits.
    Raises WeftError where a row isn't whole bytes.
    """
    together = 8 // gcd(bits, 8)
    if codes.shape[-1] % together:
        what = f"rows of packed elements of {bits} bits must have a multiple of {together}"
        raise WeftError(f"{what}, got {codes.shape[-1]}")
    octets = np.ascontiguousarray(codes).view(np.uint8)
    each = np.unpackbits(octets[..., None], axis=-1, count=bits, bitorder="little")
    *rows, length = codes.shape  # of an empty array, NumPy can't compute a size of -1
    return np.packbits(each.reshape(*rows, length * bits), axis=-1, bitorder="little")


def unpack(packed: Bytes, bits: int) -> Bytes:
    """A byte for each element that bytes contain as `pack` packs them."""
    *rows, length = packed.shape
    each = np.unpackbits(packed, axis=-1, bitorder="little").reshape(*rows, 8 * length // bits, bits)
    return np.packbits(each, axis=-1, bitorder="little")[..., 0]
