"""Names of functions that ptxas accepts."""

import pytest

from weft.compiler import ptxas
from weft.errors import WeftError
from weft.isa.text.identifiers import function_complaint

ENTRY = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry {}() {{ ret; }}\n"
NAMES = ["x", "X1", "_x", "$1", "a$b_2", "__", "mov", "ret", "f32", "entry", "warp_sz"]
NO_NAMES = ["1x", "_", "$", "a.b", "a-b", "a@b", "WARP_SZ", ".x", "a b", "é", ""]


def taken(name: str) -> bool:
    """Whether ptxas makes a kernel of the name."""
    try:
        return list(ptxas.assemble(ENTRY.format(name), "sm_80").kernels) == [name]
    except WeftError:
        return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES + NO_NAMES)
def test_ptxas_takes_the_names_that_the_rule_takes(name):
    assert taken(name) == (function_complaint(name) is None) == (name in NAMES)


@pytest.mark.parametrize("name", ["%tid", "%x"])
def test_percent_signs_are_for_registers(name):
    assert function_complaint(name) is not None
