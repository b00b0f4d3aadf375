"""Compiled code of the emulator computes what the interpreter's steps do, bit for bit."""

import pytest
from compiled_steps import differences, forms, fresh

from weft.emulator.instructions import TABLE

PREFIXES = sorted({*TABLE.steps, *TABLE.floats})


@pytest.mark.each_value(1)
@pytest.mark.sampled(16)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_forms_of_an_opcode(prefix):
    code = fresh()
    wrong, _ = differences(list(forms(prefix, code)), code.slots)
    assert not wrong, "\n".join(wrong[:10])
