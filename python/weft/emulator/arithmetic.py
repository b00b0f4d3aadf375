"""The sums of tensor cores: exact products, aligned to the largest exponent, cut, added, rounded once.

The rule and its constants are those of a published model of NVIDIA's units (MMA-Sim); an H200 gave
the same results in the m16n8k16 and m16n8k8 products with f32 accumulators that it was asked for.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.emulator.floats import Doubles, decode, encode
from weft.emulator.types import Array

Exponents = npt.NDArray[np.int16]

_LEAST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126}
# So low that no product with a zero in it is ever the largest; the accumulator keeps the largest at -126 or
# above.
_ZERO_EXPONENT = -4000
# That of infinity and NaN, above every number's and small enough to be scaled by.
_NO_NUMBER_EXPONENT = 128


@dataclass(frozen=True)
class Unit:
    """How a chip adds: each aligned term keeps `fraction` bits, `step_bytes` of a row of A enter one sum."""

    fraction: int
    step_bytes: int


def unit(chip: str) -> Unit:
    """The unit of a chip by its name, such as sm_90a."""
    number = int("".join(c for c in chip if c.isdigit()) or 0)
    return Unit(25, 32) if number >= 90 else Unit(24, 16)


def multiply_accumulate(
    a: Array, b: Array, c: Array, types: tuple[str, str, str, str], how: Unit | None
) -> Array:
    """`d = a @ b + c` on bits: a `[n, m, k]`, b `[n, k, n']`, c and d `[n, m, n']`.

    `types` are those of a, b, c and d. With no unit the sum is float64's, rounded to d's type once.
    """
    a_type, b_type, c_type, d_type = types
    left, right, total = decode(a, a_type), decode(b, b_type), decode(c, c_type)
    if how is None:
        return encode(left @ right + total, d_type)
    left = np.ascontiguousarray(left.transpose(2, 0, 1))
    right = np.ascontiguousarray(right.transpose(1, 0, 2))
    left_exponent, right_exponent = exponents(left, a_type), exponents(right, b_type)
    depth = left.shape[0]
    step = max(1, how.step_bytes // a.dtype.itemsize)
    for k in range(0, depth, step):
        part = slice(k, k + step)
        largest = _largest(
            left_exponent[part], right_exponent[part], exponents(total, d_type if k else c_type)
        )
        total = _rounded(_aligned_sum(left[part], right[part], total, largest, how.fraction), d_type)
    return encode(total, d_type)


def exponents(value: Doubles, name: str) -> Exponents:
    """The exponents of values of a format; a subnormal has that of the least normal number."""
    exponent = ((value.view(np.int64) >> np.int64(52)) & np.int64(0x7FF)).astype(np.int16) - np.int16(1023)
    inside = np.clip(exponent, _LEAST_EXPONENT[name], _NO_NUMBER_EXPONENT)
    return np.where(value == 0, np.int16(_ZERO_EXPONENT), inside)


def _largest(left: Exponents, right: Exponents, c: Exponents) -> Exponents:
    """The largest exponent of each sum, that of zero being -126.

    The factors' exponents decide, so a product of significands of 2 or more is not normalised first.
    """
    largest: Exponents = np.maximum.reduce(left[:, :, :, None] + right[:, :, None, :], axis=0)
    return np.maximum(largest, np.maximum(c, np.int16(-126)))


def _aligned_sum(left: Doubles, right: Doubles, c: Doubles, largest: Exponents, fraction: int) -> Doubles:
    """The sum over k of `left [k, n, m] * right [k, n, n']` and c, cut `fraction` bits below `largest`."""
    wide = largest.astype(np.int64)
    up = (np.int64(1023 + fraction) - wide << np.int64(52)).view(np.float64)
    down = (np.int64(1023 - fraction) + wide << np.int64(52)).view(np.float64)
    products = left[:, :, :, None] * right[:, :, None, :]
    products *= up
    np.trunc(products, out=products)
    total: Doubles = np.add.reduce(products, axis=0)
    total += np.trunc(c * up)
    # The sum is that of integers, which has no negative zero.
    total += 0.0
    total *= down
    return total


def _rounded(total: Doubles, name: str) -> Doubles:
    """What the accumulator keeps: f32 toward zero, f16 to nearest; what is too large becomes infinite."""
    if name == "f16":
        return total.astype(np.float16).astype(np.float64)
    # Cutting the low bits of a float64 rounds to float32 toward zero, but for subnormals, whose last bit is
    # 2**-149.
    bits = total.view(np.uint64) & np.uint64(0xFFFFFFFFE0000000)
    value = bits.view(np.float64)
    size = np.abs(total)
    if not size.max(initial=0.0) < 2.0**128:
        value = np.where(size >= 2.0**128, np.copysign(np.inf, total), value)
        value = np.where(np.isnan(total), np.nan, value)
    small = (size < 2.0**-126) & (size > 0)
    if small.any():
        value = np.where(small, np.trunc(total * 2.0**149) * 2.0**-149, value)
    return value
