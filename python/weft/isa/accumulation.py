"""How tensor cores add: what of each product enters a sum, how deep a sum is, and how its result is rounded.

PTX leaves it open. The rule and its constants follow a published model of NVIDIA's units (MMA-Sim, which
fitted them to hardware from Volta to Blackwell): exact products and the accumulator are aligned to the
largest exponent among them, each is truncated to a number of fraction bits below it, and the sum is exact.
The rules of sm_90 were measured on an H200. A chip for which nothing is published has the rule of the nearest
chip for which something is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.isa.chips import CHIPS, ChipSet, only, since


@dataclass(frozen=True)
class Accumulation:
    """One unit's rule.

    Each aligned term keeps `fraction` bits; `step_bytes` of a row of A enter one sum (0: the whole row), of
    which an f32 result keeps `kept` fraction bits. With `group`, the products of that many k are summed
    exactly and enter as one term. `order` selects another order of additions; all but the first round their
    sums to the nearest f32:

    - `halves`: the k with k % 4 < 2 are summed by the rule, then the others are added to that sum, then C;
    - `chain`: starting from zero, each k is added to the sum of those before it, then C;
    - `pairs`: the sum of each two k is added to C.
    """

    fraction: int
    step_bytes: int = 0
    kept: int = 23
    group: int = 0
    order: str = ""


SM_70 = only("sm_70", "sm_72")
SM_75 = since("sm_75") - since("sm_89")
SM_89 = since("sm_89") - since("sm_90")
SM_90 = since("sm_90") - since("sm_100")
_FP8 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
# Chunks of 16 elements of fp4 share a scale; their dot products are exact.
_FP4_KINDS = ("mxf4", "mxf4nvf4")


_QUADS = {"shape": ("m8n8k4",)}  # Volta's own shape; on later chips measured on an H200 only
_CHAINED = {**_QUADS, "d_type": ("f32",)}


class _Row(NamedTuple):
    """How chips add in some instructions, where a form has one of the values on each axis that is given."""

    instructions: str
    chips: ChipSet
    rule: Accumulation
    axes: Mapping[str, tuple[str, ...]] = {}


# fmt: off
# The first row that has an instruction, its form and the chip counts.
_ROWS = (
    _Row("mma wmma", SM_70,           Accumulation(23, step_bytes=8)),
    _Row("mma",      since("sm_75"),  Accumulation(25, order="chain"), _CHAINED),
    _Row("mma",      since("sm_75"),  Accumulation(25, order="pairs"), _QUADS),
    _Row("mma wmma", SM_75,           Accumulation(24, step_bytes=16)),
    _Row("mma",      SM_89,           Accumulation(13, step_bytes=16, kept=13), {"a_type": _FP8}),
    _Row("mma wmma", SM_89,           Accumulation(24, step_bytes=16)),
    _Row("mma",      SM_90,           Accumulation(25, order="halves"), {"a_type": _FP8}),
    _Row("wmma",     since("sm_90"),  Accumulation(25, step_bytes=16), {"a_type": ("tf32",)}),
    _Row("wgmma",    SM_90,           Accumulation(13, kept=13), {"a_type": _FP8}),
    _Row("mma tcgen05", since("sm_100"), Accumulation(35, group=16), {"kind": _FP4_KINDS}),
    _Row("mma wmma wgmma tcgen05", since("sm_90"), Accumulation(25)),
)
# fmt: on


def of(instruction: str, form: Any, chip: str) -> Accumulation:
    """The rule by which `chip` adds the products of floats of up to 32 bits in a form of an instruction
    (`mma`, `wmma`, `wgmma` or `tcgen05`). For a chip that the tables lack, the first rule of any chip.

    `form` has the axes that matter as attributes: `a_type`, `d_type`, `shape`, `kind`.
    """
    return next(
        row.rule
        for row in _ROWS
        if (chip in row.chips or chip not in CHIPS)
        and instruction in row.instructions.split()
        and all(getattr(form, axis, "") in values for axis, values in row.axes.items())
    )
