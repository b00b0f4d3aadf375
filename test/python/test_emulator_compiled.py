"""Compiled code of the emulator computes what the interpreter's steps do, bit for bit."""

import numpy as np
import pytest
from compiled_steps import differences, forms, fresh
from emulator_ptx import kernel

from weft import emulator
from weft.emulator.instructions import TABLE

PREFIXES = sorted({*TABLE.steps, *TABLE.floats})


@pytest.mark.each_value(1)
@pytest.mark.sampled(16)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_forms_of_an_opcode(prefix):
    code = fresh()
    wrong, _ = differences(list(forms(prefix, code)), code.slots)
    assert not wrong, "\n".join(wrong[:10])


def test_nan_of_known_operands_is_that_of_unknown_ones():
    """LLVM computes with operands that it knows, and makes another NaN than the host."""
    number, odd = np.ones(32), np.arange(32) % 2 == 1
    body = "mov.b64 %d0, %a0; @!%a1 bra L; bfe.u64 %l0, %a0, 255, %i; div.rn.f64 %d0, %l0, %l0; L:"  # 0 / 0
    for compiled in (False, True):
        out = np.zeros(32)
        module = emulator.Module(kernel(body, [number, odd], [out]))
        module.launch("k", block=32, args=[number, odd, out], compiled=compiled)
        assert (out.view(np.uint64)[odd] == 0xFFF8000000000000).all()


def test_the_distance_to_the_largest_number_is_unsigned():
    """LLVM takes it for a distance of signed numbers where it knows that number."""
    given, out = np.arange(32, dtype=np.uint64), np.zeros(32, np.uint64)
    module = emulator.Module(kernel("mov.b64 %l0, -1; sad.u64 %d0, %a0, %l0, %a0;", [given], [out]))
    module.launch("k", block=32, args=[given, out], compiled=True, sanitize=False)
    assert (out == np.uint64(2**64 - 1)).all()
