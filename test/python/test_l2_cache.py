"""The rows of createpolicy against ptxas."""

import pytest
from assembling import assembles

from weft.dialects.tile_copies import TensorMapOp
from weft.isa.l2_cache import CREATEPOLICY, Policy
from weft.isa.tensor_map import L2_PROMOTIONS

TRIED = [Policy(f"evict_{name}") for name in ("normal", "first", "last", "unchanged", "never")]


def takes(chip: str, form: Policy, version: tuple[int, int] = (8, 4)) -> bool:
    """Whether ptxas assembles a kernel that makes one such policy."""
    made = form.assembly.format(policy="%p")
    text = (
        f".version {version[0]}.{version[1]}\n.target {chip}\n.address_size 64\n.visible .entry k() {{\n"
        f".reg .b64 %p; {form.ptx} {made}; ret; }}\n"
    )
    return assembles(text, chip)


@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("form", TRIED, ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    assert (CREATEPOLICY.judge(form, chip) is None) == takes(chip, form)


@pytest.mark.parametrize("form", list(CREATEPOLICY.forms()), ids=str)
def test_the_first_version_of_ptx_that_has_it(form):
    major, minor = CREATEPOLICY.table[form].ptx
    assert takes("sm_80", form, (major, minor)) and not takes("sm_80", form, (major, minor - 1))


def test_the_attributes_of_a_tensor_map_name_all_that_is_legal():
    """Its documentation does, for which the docstring is written."""
    for name in (*L2_PROMOTIONS, *CREATEPOLICY.values("priority")):
        assert f'"{name}"' in (TensorMapOp.__doc__ or "")


def test_what_is_written_is_read():
    for form in CREATEPOLICY.forms():
        assert Policy.parse(form.ptx, ("%p", "1.0")) == form == Policy.parse(form.ptx)
    assert Policy.parse("createpolicy.fractional.L2::evict_first.b64", ["%p", "0.5"]) is None
    assert Policy.parse("createpolicy.cvt.L2.b64", ["%p", "%q"]) is None
