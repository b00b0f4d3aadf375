"""The emulator executes every form of the tables, except for those listed here."""

import pytest
from assembler import Entry, kernel_text
from emulator_ptx import HEAD

from weft import emulator
from weft.isa.chips import CHIPS
from weft.isa.tables import FAMILIES

MANY = 40
# sm_107's own: their descriptors aren't published, and no LLVM or GPU knows them.
ONLY_107 = {"sm_107a", "sm_107f"}


def chip_of(support):
    """The last chip of a row that isn't sm_107."""
    names = [name for name in CHIPS if name in support.chips and name not in ONLY_107]
    return names[-1] if names else None


def decoded(form, chip):
    """Decodes a kernel with the form; raises PtxError for one that the emulator doesn't know."""
    text = HEAD.format(target=chip) + f".visible .entry k {kernel_text(Entry.of(form), '', '')}"
    emulator.Module(text)._program("k", chip)


@pytest.mark.each_value(1)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_forms_are_decoded(family):
    points = [(form, chip_of(support)) for form, support in family.table.items()]
    points = [point for point in points if point[1]]
    step = max(len(points) // MANY, 1)
    for form, chip in points[::step]:
        decoded(form, chip)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_form_is_decoded(family):
    for form, support in family.table.items():
        if chip := chip_of(support):
            decoded(form, chip)
