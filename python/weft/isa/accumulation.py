"""How tensor cores add: what of each product enters a sum, how deep a sum is, and how its result is rounded.

PTX leaves it open. The rule and its constants follow a published model of NVIDIA's units (MMA-Sim, which
fitted them to hardware from Volta to Blackwell): exact products and the accumulator are aligned to the
largest exponent among them, each is cut so many fraction bits below it, and the sum is exact. What an H200
does was asked of one; what isn't published for a chip is taken from the nearest that is.
"""

from dataclasses import dataclass

from weft.isa.types import ELEMENT_TYPES


@dataclass(frozen=True)
class Accumulation:
    """One unit's rule.

    Each aligned term keeps `fraction` bits; `step_bytes` of a row of A enter one sum (0: the whole row), of
    which an f32 result keeps `kept` fraction bits. With `group`, the products of so many k are summed exactly
    and enter as one term. `order` tells other ways of adding, whose sums are f32 rounded to nearest but for
    the first:

    - `halves`: the k with k % 4 < 2 are summed by the rule, then the others on top, and C is added last;
    - `chain`: each k is added to what was before it, from zero, and C last;
    - `pairs`: C plus each two k's sum.
    """

    fraction: int
    step_bytes: int = 0
    kept: int = 23
    group: int = 0
    order: str = ""


_FULL = Accumulation(25)
# fp4 with block scales: the dots of 16 elements are exact (`kind::mxf4`, `kind::mxf4nvf4`).
FP4 = Accumulation(35, group=16)


def _is_fp8(name: str) -> bool:
    element = ELEMENT_TYPES[name]
    return element.kind == "float" and element.bits <= 8


def of_mma(chip_number: int, shape: str, a_type: str, d_type: str) -> Accumulation:
    """The rule of `mma.sync` on chip sm_`chip_number`, for floats of up to 32 bits."""
    if chip_number < 75:
        return Accumulation(23, step_bytes=8)
    if shape == "m8n8k4":
        # Volta's own shape; asked of an H200 only.
        return Accumulation(25, order="chain" if d_type == "f32" else "pairs")
    if chip_number < 89 or (chip_number == 89 and not _is_fp8(a_type)):
        return Accumulation(24, step_bytes=16)
    if chip_number == 89:
        return Accumulation(13, step_bytes=16, kept=13)
    if chip_number == 90 and _is_fp8(a_type):
        return Accumulation(25, order="halves")
    return _FULL


def of_wmma(chip_number: int, a_type: str) -> Accumulation:
    """The rule of `wmma.mma` for floats."""
    if a_type == "tf32" and chip_number >= 90:
        return Accumulation(25, step_bytes=16)
    return of_mma(chip_number, "", a_type, "")


def of_wgmma(a_type: str) -> Accumulation:
    """The rule of `wgmma.mma_async` for floats."""
    return Accumulation(13, kept=13) if _is_fp8(a_type) else _FULL


def of_tcgen05(kind: str) -> Accumulation:
    """The rule of `tcgen05.mma` of a kind of floats."""
    return FP4 if kind in ("mxf4", "mxf4nvf4") else _FULL
