"""The rows of createpolicy against ptxas."""

import pytest

from weft import ptxas
from weft.errors import WeftError
from weft.isa.l2_cache import CREATEPOLICY, Policy, parse_createpolicy

TRIED = [Policy(f"evict_{name}") for name in ("normal", "first", "last", "unchanged", "never")]


def takes(chip: str, form: Policy) -> bool:
    """Whether ptxas assembles a kernel that makes one such policy."""
    made = form.assembly.format(policy="%p")
    text = (
        f".version 8.4\n.target {chip}\n.address_size 64\n.visible .entry k() {{\n"
        f".reg .b64 %p; {form.ptx} {made}; ret; }}\n"
    )
    try:
        ptxas.assemble(text, chip)
    except WeftError as error:
        assert "ptxas: " in str(error), error
        return False
    return True


@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("form", TRIED, ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    assert (CREATEPOLICY.judge(form, chip) is None) == takes(chip, form)


def test_what_is_written_is_read():
    for form in CREATEPOLICY.forms():
        assert parse_createpolicy(form.ptx, ["%p", "1.0"]) == form
    assert parse_createpolicy("createpolicy.fractional.L2::evict_first.b64", ["%p", "0.5"]) is None
    assert parse_createpolicy("createpolicy.cvt.L2.b64", ["%p", "%q"]) is None
