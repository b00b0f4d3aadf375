"""The sums of an H200, bit for bit: tiles that told wrong rules from the right ones, where a form had any.

`test/gpu/compare_arithmetic.py` made them; it compares many more with the GPU at hand.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from weft.emulator.numerics.arithmetic import multiply_accumulate
from weft.isa import accumulation, mma, wgmma, wmma
from weft.isa.mma.fragments import chunk, mnk
from weft.isa.types import ELEMENT_TYPES

TILES = np.load(Path(__file__).parent / "data" / "h200_sums.npz")
NAMES = sorted({key.rsplit(" ", 1)[0] for key in TILES.files})
FORMS = {
    f.ptx: f
    for family in (wmma.MMA, mma.SYNC, mma.SPARSE, wgmma.MMA_ASYNC, wgmma.MMA_ASYNC_SPARSE)
    for f in family.forms("sm_90a")
}


def dense(stored, codes, form):
    """A sparse A with its zeros, and where these are: two places of four bits' four say what is stored."""
    m, _, k = mnk(form.shape)
    size = chunk(form.a_type)
    matrix, absent = np.zeros((m, k), stored.dtype), np.ones((m, k), bool)
    for row in range(m):
        kept = []
        for number, code in enumerate(codes[row, : k // size]):
            first, second = int(code) & 3, int(code) >> 2
            inside = {2: [second // 2], 4: [first, second]}.get(size)
            inside = inside or [2 * first, 2 * first + 1, 2 * second, 2 * second + 1]
            kept += [number * size + i for i in inside]
        matrix[row, kept], absent[row, kept] = stored[row], False
    return matrix, absent


def rule(group, form):
    if group.startswith("wgmma"):
        return accumulation.of_wgmma(form.a_type)
    if group == "wmma":
        return accumulation.of_wmma(90, form.a_type)
    return accumulation.of_mma(90, form.shape, form.a_type, form.d_type)


def computed(name, how=None):
    group, ptx, _ = name.split(" ")
    form = FORMS[ptx]
    a, b, c = (TILES[f"{name} {operand}"] for operand in "abc")
    absent = None
    if f"{name} metadata" in TILES.files:
        a, absent = dense(a, TILES[f"{name} metadata"], form)
        absent = absent[None]
    types = (form.a_type, form.b_type, getattr(form, "c_type", form.d_type), form.d_type)
    batch = [matrix.reshape(-1, *matrix.shape[-2:]) for matrix in (a, b, c)]
    with np.errstate(all="ignore"):
        return multiply_accumulate(*batch, types, how or rule(group, form), absent=absent)


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_an_h200(name):
    want = TILES[f"{name} d"]
    np.testing.assert_array_equal(computed(name).reshape(want.shape), want)


@pytest.mark.parametrize("chip", [70, 75, 80, 89, 90, 100, 120])
def test_steps_are_whole_elements(chip):
    """As many as divide a row of A."""
    for family in (mma.SYNC, wmma.MMA):
        for form in family.table:
            element = ELEMENT_TYPES[form.a_type]
            if element.kind == "float" and element.bits in (8, 16, 32):
                how = accumulation.of_mma(chip, form.shape, form.a_type, form.d_type)
                if family is wmma.MMA:
                    how = accumulation.of_wmma(chip, form.a_type)
                row = mnk(form.shape)[2] * element.bits // 8
                assert how.step_bytes == 0 or row % min(how.step_bytes, row) == 0, (form, how)


def test_another_rule_is_seen():
    name = next(n for n in NAMES if "m16n16k8.f32.tf32" in n)
    want = TILES[f"{name} d"]
    assert (computed(name, accumulation.Accumulation(25)).reshape(want.shape) != want).any()


def test_terms_are_cut_below_the_least_exponent_of_f32():
    """Products with exponents below -126 are aligned to -126: bits further down than `fraction` are lost."""
    how = accumulation.of_wgmma("bf16")
    types = "bf16", "bf16", "f32", "f32"

    def total(bits_below: int) -> float:
        """The sum of 16 products of 2 to the power -126 - bits_below."""
        one, other = (ml_dtypes.bfloat16(2.0**power) for power in (-100, 100 - 126 - bits_below))
        a = np.full((1, 1, 16), one).view(np.uint16)
        b = np.full((1, 16, 1), other).view(np.uint16)
        c = np.zeros((1, 1, 1), np.uint32)
        return float(multiply_accumulate(a, b, c, types, how).view(np.float32)[0, 0, 0])

    assert total(how.fraction) == 16 * 2.0 ** (-126 - how.fraction)
    assert total(how.fraction + 1) == 0.0
