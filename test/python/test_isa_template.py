"""Templates of opcodes parse what they print, with modifiers in any order, and nothing that PTX refuses."""

import random
from dataclasses import dataclass, replace

import pytest
from assembler import Entry, assemble

from weft.isa import tables
from weft.isa.family import Form
from weft.isa.template import NUMBER, Field, Flag, Template, Unnamed, Word
from weft.isa.text.reader import instructions

FAMILIES = {family.name: family for family in tables.FAMILIES}
COUNT = Field("count", ("x{}", NUMBER), number=True)


@dataclass(frozen=True)
class Toy(Form):
    """An instruction of no chip."""

    count: int
    first: str = "row"
    second: str = "col"
    memory: str = ""
    fast: bool = False

    templates = (
        Template(
            "toy.move",
            Word("sync"),
            COUNT,
            Field("first second", ("{}.{}", "row|col")),
            Field("memory", ("{}", "shared|global"), ("shared::cta", "shared"), default=""),
            Flag("fast", "approx", also="approximate"),
        ),
    )


TOY = "toy.move.sync.x4.row.col"


@pytest.mark.parametrize(
    "opcode, form",
    [
        (TOY, Toy(4)),
        (f"{TOY}.shared.approx", Toy(4, memory="shared", fast=True)),
        (f"{TOY}.global", Toy(4, memory="global")),
        ("toy.move.sync.x16.col.row", Toy(16, "col", "row")),
    ],
)
def test_what_a_template_prints_it_reads(opcode, form):
    assert form.ptx == opcode
    assert Toy.parse(opcode) == form


@pytest.mark.parametrize(
    "opcode, form",
    [
        ("toy.move.row.x4.col.sync", Toy(4)),
        ("toy.move.shared::cta.row.col.x4.sync", Toy(4, memory="shared")),
        (f"{TOY}.approximate", Toy(4, fast=True)),
        (f"{TOY}.sync", Toy(4)),
        ("toy.move.x4.row.col", None),  # lacks a word
        ("toy.move.sync.row.col", None),  # lacks a field
        ("toy.move.sync.x4.row", None),
        (f"{TOY}.row", None),
        (f"{TOY}.x4", None),
        (f"{TOY}.shared.global", None),
        (f"{TOY}.slow", None),
        (TOY.replace("x4", "x04"), None),
        (TOY.replace("move", "moves"), None),
        ("toy.move", None),
    ],
)
def test_other_orders_and_names_are_read_and_other_opcodes_are_not(opcode, form):
    assert Toy.parse(opcode) == form


def test_a_word_is_repeated_only_where_the_template_allows_it():
    parts = (Word("sync"), Flag("fast"))
    assert Template("toy", *parts).read("toy.sync.sync.fast.fast") == {"fast": True}
    for opcode in ("toy.sync.sync", "toy.sync.fast.fast"):
        assert Template("toy", *parts, repeats=False).read(opcode) is None


def test_modifiers_of_no_axis_are_read_and_not_printed():
    one = Template("toy", COUNT, Unnamed("rn|rz"))
    assert one.spell(Toy(4)) == "toy.x4"
    assert one.read("toy.rn.x4") == {"count": 4}
    assert one.read("toy.x4") is None and one.read("toy.x4.rn.rz") is None
    assert Template("toy", COUNT, Unnamed("rn|rz", optional=True)).read("toy.rn.x4.rz") == {"count": 4}


def test_a_value_that_no_spelling_fits_is_shown_in_messages():
    assert Toy(4, memory="tensor").ptx == f"{TOY}.tensor"


@pytest.mark.parametrize("name", list(FAMILIES))
def test_modifiers_are_read_in_any_order(name):
    """All but types, layouts and the parts of a bit operation, which keep their order among themselves."""
    rng = random.Random(name)
    family = FAMILIES[name]
    for form in rng.sample(list(family.table), min(20, len(family.table))):
        template = form._template
        words = form.ptx.removeprefix(template._head).split(".")[1:]
        led, rest = (words[:1], words[1:]) if template._lead is not None else ([], words)
        owners = [template._owner[word] for word in rest]
        at = {owner: iter([w for w, o in zip(rest, owners, strict=True) if o == owner]) for owner in owners}
        mixed = [next(at[owner]) for owner in rng.sample(owners, len(owners))]
        opcode = ".".join((template._head, *led, *mixed))
        (mixed_up,) = instructions(Entry.of(form).line.replace(form.ptx, opcode))
        assert tables.read(mixed_up.opcode, mixed_up.operands) == (family, form)


@pytest.mark.parametrize(
    "name, change, chip",
    [
        ("tcgen05.alloc", ("cta_group::1", "cta_group::01"), "sm_100a"),
        ("tcgen05.ld", (".x1.", ".x01."), "sm_100a"),
        ("tcgen05.commit", (".b64", ".multicast::cluster::0b.b64"), "sm_100a"),
        ("tcgen05.mma.block_scale", (".block32", ".scale_vec::block32"), "sm_100a"),
        ("ldmatrix", (".x1.", ".x01."), "sm_90a"),
        ("ldmatrix", (".shared.", ".shared.shared::cta."), "sm_90a"),
    ],
)
def test_modifiers_that_only_look_like_others_are_refused_as_by_ptxas(name, change, chip):
    family = FAMILIES[name]
    form = next(form for form in family.forms(chip) if change[0] in form.ptx)
    entry = Entry.of(form)
    changed = entry.line.replace(*change)
    assert tables.read(entry.line.split()[0]) is not None
    assert tables.read(changed.split()[0]) is None
    taken, refused = assemble([entry, replace(entry, line=changed)], chip)
    assert taken is None and refused is not None


def test_an_axis_that_a_template_leaves_out_is_noticed():
    """What test_isa_support asks of each row fails for such a template."""

    @dataclass(frozen=True)
    class Forgetful(Toy):
        templates = (Template("toy.move", Word("sync"), COUNT, Field("first second", ("{}.{}", "row|col"))),)

    assert Forgetful.parse(Forgetful(4).ptx) == Forgetful(4)
    assert Forgetful.parse(Forgetful(4, fast=True).ptx) != Forgetful(4, fast=True)


def test_types_keep_their_order():
    family = FAMILIES["mma.sync"]
    form = next(form for form in family.table if (form.a_type, form.b_type) == ("s8", "u8"))
    assert family.parse(form.ptx.replace("s8.u8", "u8.s8")) == replace(form, a_type="u8", b_type="s8")
