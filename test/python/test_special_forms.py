"""The forms of `test_special_values_gpu.py`: none is missing, and differences are seen. Needs no GPU."""

import numpy as np
import pytest
from special_forms import CHAINED, PARTS, forms, opcodes
from special_inputs import edges, halfway
from special_kernels import differences, kernels

from weft.emulator.instructions import TABLE

CHIP = "sm_90a"


def test_every_scalar_instruction_has_forms():
    found = {TABLE.find(opcode)[0] for opcode in opcodes() if TABLE.find(opcode)}
    wanted = {prefix for part in PARTS for prefix in {**part.table.steps, **part.table.floats}}
    assert wanted - found == CHAINED


@pytest.mark.parametrize(
    ("only", "chip"),
    [
        *((each, CHIP) for each in ("cvt.rn.ftz", "lop3.or", "vmad.s32", "atom.add.f32", "addc")),
        ("setp.lt.and.f16x2", CHIP),
        ("f16x2.e2m1x2", "sm_100a"),
    ],
)
def test_forms_run(only, chip):
    chosen = list(forms(chip, only))
    every = list(kernels(chosen, chip))
    names = [form.name for kernel in every for form in kernel.forms]
    assert 0 < len(names) <= len(chosen) and len(set(names)) == len(names)
    kernel = every[0]
    out = kernel.emulated()
    assert out.shape == (kernel.results, len(kernel.values()[0]))
    assert all(not list(differences(form, out, out)) for form in kernel.forms)


def test_a_difference_is_named():
    (form,) = [form for form in forms(CHIP, "add.rn.f32") if form.name == "add.rn.f32"]
    (kernel,) = kernels([form], CHIP)
    ours = kernel.emulated()
    for change, how in ((1, "ulp"), (0x00800000, "other")):
        gpu = ours.copy()
        at = np.flatnonzero(ours[form.first] == 0x40000000)[:1]
        gpu[form.first, at] += np.uint64(change)
        assert [word for word, _ in differences(form, gpu, ours)] == [how]
    gpu = ours.copy()
    gpu[form.first, ours[form.first] == 0x7FFFFFFF] = 0x7FC00000
    gpu[form.first, ours[form.first] == 0] = 0x80000000
    assert [word for word, _ in differences(form, gpu, ours)] == ["NaN bits", "zero's sign"]


def test_inputs_have_every_kind_of_value():
    single = edges(32).astype(np.uint32).view(np.float32)
    for test in (
        np.isnan,
        np.isposinf,
        np.isneginf,
        lambda x: x == 0,
        lambda x: (x != 0) & (np.abs(x) < 2.0**-126),
    ):
        assert test(single).any()
    assert {0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000} <= set(edges(32).tolist())
    # Between 1 and the next f16, and between two bf16.
    assert {0x3F801000, 0x3F800FFF, 0x3F801001, 0x3F818000} <= set(halfway(32).tolist())
