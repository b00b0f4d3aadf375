"""One form of each family and set of chips and PTX versions is legal exactly where ptxas accepts it."""

from dataclasses import replace

import certify
import pytest
from assembler import assemble
from near import NEAR

from weft.isa import tables
from weft.isa.chips import CHIPS, of_capability
from weft.isa.family import Support
from weft.isa.mma import LDMATRIX, Ldmatrix
from weft.isa.tables import TABLES
from weft.isa.text import written
from weft.isa.text.reader import instructions

by_family = pytest.mark.parametrize("family", tables.FAMILIES, ids=lambda family: family.name)


def examples(table):
    """The first form of each row of a table, by family."""
    for family in table.families:
        first = {}
        for form, support in family.table.items():
            first.setdefault(support, form)
        yield family, {form: support for support, form in first.items()}


def version_faults(supports):
    """Of forms of any families."""
    return certify.version_faults(replace(TABLES[0].families[0], legal=supports.items))


@pytest.mark.slow
def test_each_row_has_the_first_ptx_version_that_spells_it():
    every = {form: support for table in TABLES for _, few in examples(table) for form, support in few.items()}
    assert version_faults(every) == []


@pytest.mark.sampled(12)
@by_family
def test_forms_of_each_family_assemble_from_their_ptx_version_on_and_not_before(family):
    few = dict(list(family.table.items())[:: max(1, len(family.table) // 60)])
    assert version_faults(few) == []


def test_no_row_has_a_ptx_version_that_knows_none_of_its_chips():
    """What ptxas can't tell: before that version, no target has the instruction."""
    for table in TABLES:
        for family, few in examples(table):
            for support in few.values():
                assert support.ptx >= min(CHIPS[chip].ptx for chip in support.chips), (family.name, support)


@pytest.mark.each_value(1)
@pytest.mark.sampled(9)
@pytest.mark.parametrize("chip", list(CHIPS)[2:] + list(CHIPS)[:2])
def test_each_row_is_on_its_chips_and_on_no_others(chip):
    points = {form: chip for table in TABLES for _, few in examples(table) for form in few}
    said = certify.verdicts(points.items())
    for table in TABLES:
        for family, few in examples(table):
            legal = {form for form, support in few.items() if chip in support.chips}
            taken = {form for form in few if said[form, chip] is None}
            excused = {
                form
                for form in taken - legal
                for entry in table.unpublished
                if entry.family == family.name and entry.holds(form, chip)
            }
            assert taken - excused == legal, family.name


def test_a_row_with_a_wrong_version_is_noticed():
    form = Ldmatrix("m8n8", 4, False)
    chips = LDMATRIX.table[form].chips
    assert version_faults({form: Support(chips, (6, 5))}) == []
    for wrong in ((6, 4), (7, 0)):
        assert len(version_faults({form: Support(chips, wrong)})) == 1


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
@by_family
def test_forms_are_read_back_by_their_family_alone_and_are_legal(family, step):
    (table,) = (table for table in TABLES if family in table.families)
    for form, support in list(family.table.items())[::step]:
        (found,) = instructions(certify.Entry.of(form).line)
        assert written.judge(found, min(support.chips), support.ptx) is None, found
        read = {each.name: each.parse(found.opcode, found.operands) for each in table.families}
        assert {name: other for name, other in read.items() if other is not None} == {family.name: form}
        assert tables.read(found.opcode, found.operands) == (family, form)


def test_points_outside_the_rows_are_in_no_row():
    families = {family.name: family for family in tables.FAMILIES}
    for name, axes in NEAR.items():
        for axis, values in axes.items():
            assert not set(values) & set(families[name].values(axis)), (name, axis)


@pytest.mark.parametrize(
    "capability, chip", [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"), ((6, 1), "sm_61")]
)
def test_a_gpu_has_the_name_with_all_of_its_instructions(capability, chip):
    assert of_capability(*capability) == chip


BEYOND = {
    "mma.sync": {
        "kind": ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4", "nvf4"),
        "bit_op": ("xor.popc", "and.popc"),
    },
    "mma.sp": {"kind": ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4", "nvf4")},
    "ldmatrix": {"num": (3, 8, 16, 32, 64, 128)},
    "stmatrix": {"num": (3, 8, 16, 32, 64, 128)},
    "tcgen05.commit": {"sync_restrict": ("shared::cta", "shared::cluster", "shared::read")},
}
"""Values of axes that ptxas takes on some chips, and no row has."""


@pytest.mark.sampled(53)
@pytest.mark.parametrize("chip", list(CHIPS)[2:] + list(CHIPS)[:2])
@pytest.mark.parametrize("name", list(BEYOND))
def test_ptxas_assembles_what_a_remark_says_it_does(name, chip):
    family = next(family for family in tables.FAMILIES if family.name == name)
    entries = {
        near: beyond_the_table(form, near)
        for axis, values in BEYOND[name].items()
        for form in family.table
        for value in values
        if (near := replace(form, **{axis: value})) not in family.table
    }
    complaints = assemble(list(entries.values()), chip)
    taken = {form for form, complaint in zip(entries, complaints, strict=True) if complaint is None}
    assert taken == {form for form in entries if tables.unpublished(family, form, chip)}


def beyond_the_table(form, near):
    """`near` with operands: those of `form` where only the count of matrices differs."""
    entry = certify.Entry.of(form)
    if getattr(near, "num", None) == getattr(form, "num", None):
        return certify.Entry.of(near)
    return replace(entry, line=entry.line.replace(f".x{form.num}.", f".x{near.num}."))
