"""The rows of stores under a predicate against ptxas."""

import pytest
from assembling import assembles

from weft.isa.family import operand_text
from weft.isa.global_stores import STORE, Store

TRIED = [Store(words) for words in (1, 2, 3, 4, 8)]


def takes(chip: str, form: Store) -> bool:
    """Whether ptxas assembles a kernel with such a store."""
    names = {"address": ["%a"], "value": [f"%r{number}" for number in range(form.words)]}
    text = (
        f".version 8.0\n.target {chip}\n.address_size 64\n.visible .entry k() {{\n"
        f".reg .pred %p; .reg .b64 %a; .reg .b32 %r<{form.words}>;\n"
        f"{form.guard.format(predicate='%p')} {form.ptx} {operand_text(form, names)}; ret; }}\n"
    )
    return assembles(text, chip)


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
@pytest.mark.parametrize("form", TRIED, ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    assert (STORE.judge(form, chip) is None) == takes(chip, form)


def test_what_is_written_is_read():
    for form in STORE.forms():
        assert Store.parse(form.ptx, ("[%a]", "%r")) == form == Store.parse(form.ptx)
    assert Store.parse("st.shared.b32", ["[%a]", "%r"]) is None
    assert Store.parse("st.global.b32", ["[%a]"]) is None
