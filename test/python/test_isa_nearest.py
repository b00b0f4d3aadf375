"""Suggestions for an illegal instruction are legal and complete, and missing only if there is none."""

import random

import assembler
import certify
import mutations
import pytest
from assembler import LAST, VERSIONS, Entry
from near import NEAR

from weft.isa import tables
from weft.isa.chips import CHIPS
from weft.isa.family import Family, _apart
from weft.isa.text import reader, written

FAMILIES = {family.name: family for family in tables.FAMILIES}


def only(line):
    (found,) = reader.instructions(line)
    return found


def illegal(name, count, seed):
    """Instructions around a family's forms, each with a chip and a PTX version, and what is said of them."""
    family = FAMILIES[name]
    rng = random.Random(f"{name} {seed}")
    points = certify.sample(family, NEAR.get(name, {}), count, list(CHIPS), seed)
    lines = [(Entry.of(form).line, chip) for form, chip in points]
    for operands in (False, True):
        made = mutations.mutants(family, count, seed, operands=operands)
        lines += [(mutant.line, rng.choice(list(CHIPS))) for mutant in made]
    for line, chip in lines:
        versions = [v for v in VERSIONS if CHIPS[chip].ptx <= v <= LAST[CHIPS[chip].volta]]
        version = rng.choice(versions)
        instructions = list(reader.instructions(line))
        if len(instructions) == 1 and (verdict := written.judge(instructions[0], chip, version)):
            yield instructions[0], verdict, chip, version


def whole(texts):
    """The forms that the texts spell, each of which is an instruction with operands and semicolon."""
    for text in texts:
        assert text.endswith(";")
        found = only(text)
        spelled = tables.read(found.opcode, found.operands)
        assert spelled is not None, text
        yield found, *spelled


def distance(family, form, other):
    """On how many axes two forms differ, on which, and how far the numbers in them are apart."""
    pairs = [(getattr(form, axis), getattr(other, axis)) for axis in family.axes]
    differs = [a != b for a, b in pairs]
    return sum(differs), differs, [_apart(a, b) for a, b in pairs]


@pytest.mark.parametrize("name", ["mma.sync", "wgmma.mma_async", "tcgen05.mma.block_scale"])
def test_the_closest_forms_are_those_that_differ_least(name):
    family = FAMILIES[name]
    points = certify.sample(family, NEAR.get(name, {}), 25, ["sm_90a", "sm_100a"], seed=2)
    for form, chip in points:
        legal = [near for near, support in family.table.items() if chip in support.chips]
        nearest = sorted(legal, key=lambda near: distance(family, form, near))
        for most in (1, 6):
            assert family.closest(form, chip, most) == nearest[:most], (form, chip)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_different_opcodes_are_near_where_there_are_any(name):
    """However many forms differ in their operands alone."""
    family = FAMILIES[name]
    every = {form.ptx for form in family.table}
    for form in list(family.table)[:: max(1, len(family.table) // 5)]:
        assert len(set(Family.nearest(family, form, None))) == min(3, len(every))


@pytest.mark.each_value(1)
@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", list(FAMILIES))
def test_what_is_near_is_whole_and_legal_to_the_tables(name):
    for found, verdict, chip, version in illegal(name, 40, 3):
        for near, _, _ in whole(verdict.nearest):
            assert written.judge(near, chip, version) is None, (found, near, chip, version)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", list(FAMILIES))
def test_only_what_has_nothing_near_on_a_chip_lacks_it(name):
    for found, verdict, chip, version in illegal(name, 40, 4):
        if verdict.nearest:
            continue
        spelled = tables.read(found.opcode, found.operands)
        families = [spelled[0]] if spelled else tables.HEADS[found.opcode.partition(".")[0]]
        forms = [(family, form) for family in families for form in family.forms(chip)]
        assert not any(family.table[form].ptx <= version for family, form in forms), (found, chip, version)
        assert "has no form of" in verdict.reason or "PTX" in verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAMILIES))
def test_ptxas_takes_what_is_near(name):
    for _, verdict, chip, version in illegal(name, 25, 5):
        points = [(form, chip) for _, _, form in whole(verdict.nearest)]
        assert set(assembler.verdicts(points, version=version).values()) <= {None}, (verdict, chip, version)


def test_registers_that_the_text_has_are_not_named_after_operands():
    opcode = "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16"
    for name, named in (("d", "new_d"), ("x", "d")):
        text = f".reg .b64 %{name}<4>; {opcode} {{%f0, %f1}}, %{name}0, %{name}1, 1, 1, 1, 0, 0;"
        found = next(each for each in reader.instructions(text) if each.opcode == opcode)
        first = written.judge(found, "sm_90a", None).nearest[0]
        assert f"{{%{named}0, %{named}1, %{named}2, %{named}3}}, %{name}0, %{name}1," in first


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
KEEP = "tcgen05.mma.sp.cta_group::1.kind::f16.collector::a::discard"
SPARSE = "[%r0], [%r1], %d0, [%r2], %r3, %p0"
F, A, B = "{%f0, %f1, %f2, %f3}", "{%r0, %r1, %r2, %r3}", "{%r4, %r5}"


@pytest.mark.parametrize(
    "chip, version, line, near",
    [
        (
            "sm_80",
            None,
            f"{MMA} {F}, {A}, {B};",
            (f"{MMA} {F}, {A}, {B}, {{%c0, %c1, %c2, %c3}};",),
        ),
        ("sm_80", None, f"{MMA} {F}, {A}, {B}, {F}", (f"{MMA} {F}, {A}, {B}, {F};",)),
        (
            "sm_80",
            None,
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, %r1;",
            ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];",),
        ),
        (
            "sm_100a",
            None,
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;",
            ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;",),
        ),
        (
            "sm_100a",
            None,
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 0x104;",
            ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;",),
        ),
        (
            "sm_100f",
            (9, 0),
            f"{KEEP}.collector::b::lastuse {SPARSE}, 0;",
            (f"{KEEP} {SPARSE}, 0;", f"{KEEP} {SPARSE};"),
        ),
        ("sm_80", (7, 0), "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%r0}, [%r1];", None),
        ("sm_100a", None, f"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {F}, %d0, %d1, %p0;", ()),
    ],
)
def test_operands_are_kept_where_they_fit(chip, version, line, near):
    verdict = written.judge(only(line), chip, version)
    if near is None:
        assert verdict.nearest[0] == line.replace("::cta", "")
    else:
        assert verdict.nearest == near


def test_both_neighbors_of_a_number_of_columns_are_near():
    line = f"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {F}, %d0, %d1, %p0, 1, 1, 0, 0;"
    near = written.judge(only(line), "sm_90a").nearest
    assert near[0] == line.replace("n12", "n8")
    assert ".m64n16k16.f32.f16.f16 {%new_d0, %new_d1" in near[1]


@pytest.mark.parametrize(
    "chip, version, line, said",
    [
        ("sm_100a", None, "wgmma.fence.sync.aligned;", "needs sm_90a: sm_100a has no form of wgmma.fence"),
        ("sm_80", None, "tcgen05.foo.cta_group::1;", "; sm_80 has no form of tcgen05"),
        (
            "sm_90",
            (7, 5),
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r0};",
            "needs PTX 7.8: the text's version is 7.5",
        ),
        (
            "sm_90",
            (7, 5),
            "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r1], {%r0};",
            "; stmatrix needs PTX 7.8",
        ),
    ],
)
def test_a_missing_legal_form_is_reported(chip, version, line, said):
    verdict = written.judge(only(line), chip, version)
    assert verdict.reason.endswith(said)
    assert verdict.nearest == ()


def test_a_modifier_with_the_default_meaning_is_not_added():
    line = "tcgen05.mma.cta_group::1.kind::f16 %r0, %d0, %d1, %r1, %p0;"
    assert written.judge(only(line), "sm_100a").nearest == (line.replace("%r0", "[%r0]"),)
    said = line.replace("f16", "f16.collector::a::discard")
    assert written.judge(only(said), "sm_100a").nearest == (said.replace("%r0", "[%r0]"),)


@pytest.mark.parametrize(
    "chip, line, near",
    [
        ("sm_100a", "tcgen05.wait.ld.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"),
        (
            "sm_100a",
            "tcgen05.mma.cta_group.1.kind.f16 [%r0], %d0, %d1, %r1, %p0;",
            "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;",
        ),
        (
            "sm_100a",
            "tcgen05.mma.cta_group::1.kind::mxf8f6f4 [%r0], %d0, %d1, %r1, [%r2], [%r3], %p0;",
            "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r0], %d0, %d1, %r1, [%r2], [%r3], %p0;",
        ),
        (
            "sm_80",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1-16];",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1+-16];",
        ),
    ],
)
def test_what_is_meant_is_near(chip, line, near):
    assert written.judge(only(line), chip).nearest[0] == near


@pytest.mark.parametrize(
    "line, reason",
    [
        ("tcgen05.alloc.sync.aligned.b32 [%d0], 32;", "cta_group must be 1 or 2 on sm_100a, got none"),
        (
            "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r0, %r1}, [%r2];",
            "trans must be true on sm_100a with shape m16n16, num 1, type b8, got false",
        ),
    ],
)
def test_a_modifier_that_is_left_out_is_needed(line, reason):
    assert written.judge(only(line), "sm_100a").reason == reason
