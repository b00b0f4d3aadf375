"""The sums of an H200, bit for bit: tiles that told wrong rules from the right ones, where a form had any.

`test/gpu/compare_arithmetic.py` made them; it compares many more with the GPU at hand.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from weft.emulator.numerics.arithmetic import multiply_accumulate
from weft.isa import accumulation, mma, wgmma, wmma
from weft.isa.accumulation import Accumulation
from weft.isa.mma.fragments import chunk, mnk
from weft.isa.tcgen05.mma_forms import MmaBlockScale
from weft.isa.types import ELEMENT_TYPES

E4M3 = mma.Sync("m16n8k32", "e4m3", "e4m3", "f32", "f32")
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


def computed(name, how=None):
    group, ptx, _ = name.split(" ")
    form = FORMS[ptx]
    a, b, c = (TILES[f"{name} {operand}"] for operand in "abc")
    absent = None
    if f"{name} metadata" in TILES.files:
        a, absent = dense(a, TILES[f"{name} metadata"], form)
        absent = absent[None]
    how = how or accumulation.of(group.partition(".")[0], form, "sm_90a")
    types = (form.a_type, form.b_type, getattr(form, "c_type", form.d_type), form.d_type)
    batch = [matrix.reshape(-1, *matrix.shape[-2:]) for matrix in (a, b, c)]
    with np.errstate(all="ignore"):
        return multiply_accumulate(*batch, types, how, absent=absent)


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_an_h200(name):
    want = TILES[f"{name} d"]
    np.testing.assert_array_equal(computed(name).reshape(want.shape), want)


@pytest.mark.parametrize("chip", ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_steps_are_whole_elements(chip):
    """As many as divide a row of A."""
    for family in (mma.SYNC, wmma.MMA):
        for form in family.table:
            element = ELEMENT_TYPES[form.a_type]
            if element.kind == "float" and element.bits in (8, 16, 32):
                how = accumulation.of(family.name.split(".")[0], form, chip)
                row = mnk(form.shape)[2] * element.bits // 8
                assert how.step_bytes == 0 or row % min(how.step_bytes, row) == 0, (form, how)


def test_another_rule_is_seen():
    name = next(n for n in NAMES if "m16n16k8.f32.tf32" in n)
    want = TILES[f"{name} d"]
    assert (computed(name, Accumulation(25)).reshape(want.shape) != want).any()


def test_terms_are_cut_below_the_least_exponent_of_f32():
    """Products with exponents below -126 are aligned to -126: bits further down than `fraction` are lost."""
    how = accumulation.of("wgmma", wgmma.MmaAsync("m64n8k16", "bf16", "bf16", "f32"), "sm_90a")
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


@pytest.mark.parametrize(
    "instruction, form, chip, rule",
    [
        ("mma", mma.Sync("m8n8k4", "f16", "f16", "f32", "f32"), "sm_70", Accumulation(23, step_bytes=8)),
        ("mma", mma.Sync("m8n8k4", "f16", "f16", "f32", "f32"), "sm_80", Accumulation(25, order="chain")),
        ("mma", mma.Sync("m8n8k4", "f16", "f16", "f16", "f16"), "sm_80", Accumulation(25, order="pairs")),
        ("mma", mma.Sync("m16n8k16", "f16", "f16", "f32", "f32"), "sm_86", Accumulation(24, step_bytes=16)),
        ("mma", E4M3, "sm_89", Accumulation(13, step_bytes=16, kept=13)),
        ("mma", E4M3, "sm_90a", Accumulation(25, order="halves")),
        ("mma", E4M3, "sm_120a", Accumulation(25)),
        ("wmma", wmma.Mma("m16n16k8", *["tf32"] * 2, *["f32"] * 2), "sm_80", Accumulation(24, step_bytes=16)),
        ("wmma", wmma.Mma("m16n16k8", *["tf32"] * 2, *["f32"] * 2), "sm_90", Accumulation(25, step_bytes=16)),
        ("wgmma", wgmma.MmaAsync("m64n8k32", "e4m3", "e4m3", "f32"), "sm_90a", Accumulation(13, kept=13)),
        ("wgmma", wgmma.MmaAsync("m64n8k16", "f16", "f16", "f32"), "sm_90a", Accumulation(25)),
        ("tcgen05", MmaBlockScale("mxf4", 1), "sm_100a", Accumulation(35, group=16)),
        ("tcgen05", MmaBlockScale("mxf8f6f4", 1), "sm_100a", Accumulation(25)),
    ],
)
def test_each_chip_has_the_rule_of_its_generation(instruction, form, chip, rule):
    assert accumulation.of(instruction, form, chip) == rule
