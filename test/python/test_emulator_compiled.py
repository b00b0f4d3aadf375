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
    number, out = np.ones(32), np.zeros((2, 32), np.uint64)
    text = kernel("bfe.u64 %l0, %a0, 255, 3; div.rn.f64 %d0, %l0, %l0;", [number], [out[0]])  # 0 / 0
    for compiled in (False, True):
        emulator.Module(text).launch("k", block=32, args=[number, out[int(compiled)]], compiled=compiled)
    assert (out == 0xFFF8000000000000).all()
