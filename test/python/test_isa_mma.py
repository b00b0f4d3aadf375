"""The tables of `mma`, `ldmatrix`, `stmatrix` and `movmatrix`, against ptxas, LLVM and the PTX manual."""

import random
import re
from dataclasses import replace
from itertools import product

import assembler
import certify
import pytest
from isa_printed import printed
from near import NEAR

from weft.errors import WeftError
from weft.isa import mma
from weft.isa.chips import CHIPS, only, since
from weft.isa.family import Family, Registers, Support
from weft.isa.types import ELEMENT_TYPES

FAMILIES = {family.name: family for family in mma.FAMILIES}
FORMS = [(family, form) for family in mma.FAMILIES for form in family.forms()]
F64_SHAPES = ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")
SAMPLE = 800
by_family = pytest.mark.parametrize("family", mma.FAMILIES, ids=list(FAMILIES))


def sync(shape="m16n8k16", inputs="f16", d="f32", **changes) -> mma.Sync:
    return replace(mma.Sync(shape, inputs, inputs, d, d), **changes)


def sparse(shape="m16n8k16", inputs="f16", d="f32", **changes) -> mma.Sparse:
    return replace(mma.Sparse(shape, inputs, inputs, d, d), **changes)


def scaled(kind="mxf4", scale_vec="2X", scale_type="ue8m0", **changes) -> mma.Scaled:
    return replace(mma.Scaled("m16n8k64", kind, scale_vec, "e2m1", "e2m1", scale_type), **changes)


def operand(form, name: str) -> Registers:
    return next(o for o in form.operands if o.name == name)


# ptxas


@pytest.mark.slow
@by_family
def test_ptxas_agrees_on_a_sample_of_the_cross_product(family):
    points = certify.sample(family, NEAR[family.name], SAMPLE, list(CHIPS))
    assert not certify.disagreements(mma, family, points)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mma.block_scale", "mma.sp.block_scale", "ldmatrix", "stmatrix", "movmatrix"]
)
def test_ptxas_agrees_on_the_whole_cross_product(name):
    assert certify.check(mma, FAMILIES[name], list(CHIPS), None)


def test_registers_of_matrices_that_no_row_has_are_counted():
    for form, count in ((mma.Ldmatrix("m8n16", 2, True), 2), (mma.Ldmatrix("m16n16", 3, False), 6)):
        assert form not in mma.LDMATRIX.table
        registers = operand(form, "d")
        assert (registers.count, registers.layout) == (count, "")


def test_doubles_are_rounded_as_ptxas_takes_it():
    table = mma.SYNC.table
    for shape, first in zip(F64_SHAPES, ("sm_80", "sm_90", "sm_90", "sm_90"), strict=True):
        for rounding in ("rn", "rz", "rm", "rp"):
            form = sync(shape, "f64", "f64", rounding=rounding)
            assert table[form].chips == since(first)
            assert mma.Sync.parse(form.ptx) == form
    verdict = mma.SYNC.judge(sync("m16n8k16", rounding="rn"))
    assert verdict.rule == "rounding" and verdict.reason == "rounding rn needs f64, got f16"
    assert mma.Sync.parse("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn.rz") is None


def test_fp8_with_ordered_metadata_needs_no_kind_for_f16_sums():
    form = sparse("m16n8k64", "e4m3", "f16")
    points = [(form, chip) for chip in CHIPS]
    taken = {chip for (_, chip), complaint in certify.verdicts(points).items() if complaint is None}
    assert mma.SPARSE.table[form].chips == taken


def test_what_ptxas_takes_and_the_tables_lack_is_still_so():
    examples = [
        (sync("m16n8k32", "e4m3", kind="f8f6f4"), "sm_100a"),
        (sync("m16n8k32", "s4", "s32", bit_op="xor.popc"), "sm_80"),
        (sync("m8n8k4", "bf16"), "sm_80"),
        (sparse("m16n8k64", "e4m3", kind="f8f6f4"), "sm_100a"),
        (mma.Ldmatrix("m8n8", 8, False), "sm_80"),
        (mma.Stmatrix("m8n8", 16, False), "sm_90"),
    ]
    assert len(examples) == len(mma.UNPUBLISHED)
    for (form, chip), entry in zip(examples, mma.UNPUBLISHED, strict=True):
        assert entry.holds(form, chip) and FAMILIES[entry.family].judge(form, chip) is not None
    counted = [(form, chip) for form, chip in examples if hasattr(form, "num")]
    assert {certify.verdicts([point])[point] for point in examples if point not in counted} == {None}
    for form, chip in counted:
        entry = certify.Entry.of(replace(form, num=1))
        entry = replace(entry, line=entry.line.replace(".x1", f".x{form.num}"))
        assert assembler.assemble([entry], chip) == [None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_120a"])
def test_ptxas_takes_the_listed_selectors_and_no_others(chip):
    legal = [*mma.SPARSE.forms(chip), *mma.SPARSE_SCALED.forms(chip)]
    forms = {(f.shape, f.a_type, f.kind, f.ordered): f for f in legal}.values()
    for value in range(-1, 5):
        found = certify.verdicts([(form, chip) for form in forms], immediates={"selector": value})
        for (form, _), complaint in found.items():
            wanted = value in operand(form, "selector").values
            # The manual has two pairs of lanes here, and so has LLVM; ptxas looks no closer.
            unpublished = (form.shape, form.a_type) == ("m16n8k32", "f16") and value in (2, 3)
            assert (complaint is None) == (wanted or unpublished), (form.ptx, value)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", ["byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b"])
def test_ptxas_takes_the_listed_bytes_and_lanes_of_scales(name):
    forms = list({f.scale_vec: f for f in mma.SCALED.forms("sm_120a")}.values())
    for value in range(5):
        found = certify.verdicts([(form, "sm_120a") for form in forms], immediates={name: value})
        for (form, _), complaint in found.items():
            assert (complaint is None) == (value in operand(form, name).values), (form.ptx, value)


@pytest.mark.slow
def test_judging_many_at_once_is_judging_each():
    rng = random.Random(1)
    points = [
        point
        for family in mma.FAMILIES
        for point in certify.sample(family, NEAR[family.name], 1200, ["sm_89"])
    ]
    together = certify.verdicts(points)
    for point in rng.sample(points, 40):
        assert (certify.verdicts([point])[point] is None) == (together[point] is None), point


def test_planted_faults_are_seen():
    form = sync()
    wrong = sync(b_type="bf16")
    support = mma.SYNC.table[form]

    def planted(*rows):
        return Family("mma.sync", mma.Sync, lambda: rows)

    assert certify.disagreements(mma, planted((wrong, support)), [(wrong, "sm_80")])
    assert certify.disagreements(mma, planted((wrong, support)), [(form, "sm_80")])
    everywhere = planted((form, Support(frozenset(CHIPS), support.ptx)))
    assert certify.disagreements(mma, everywhere, [(form, "sm_75")])
    assert certify.version_faults(planted((form, replace(support, ptx=(7, 1)))))
    bits = sync("m8n8k128", "b1", "s32", bit_op="and.popc")
    assert certify.version_faults(planted((bits, Support(since("sm_80"), (7, 0)))))
    assert not certify.version_faults(planted((form, support), (bits, mma.SYNC.table[bits])))


# LLVM


def llvm_chip(support: Support) -> str:
    return min((c for c in support.chips if CHIPS[c].llvm), key=lambda name: (CHIPS[name].ptx, name))


def test_llvm_prints_each_form_exactly_once_as_the_table_spells_it():
    points = [
        (form, llvm_chip(replace(support, chips=support.chips - mma.UNSELECTABLE.get(form, frozenset()))))
        for family in mma.FAMILIES
        for form, support in family.table.items()
        if form.intrinsic is not None
    ]
    found = printed(points)
    assert len(found) == len(FORMS) - 23
    assert {point: opcodes for point, opcodes in found.items() if opcodes != [point[0].ptx]} == {}


def test_llvm_has_no_intrinsic_for_roundings_and_some_narrow_types():
    lacking = [form for _, form in FORMS if form.intrinsic is None]
    rounded = [form for form in lacking if getattr(form, "rounding", "")]
    assert [form.shape for form in rounded] == [m for m in F64_SHAPES for _ in range(4)]
    assert [form.ptx for form in lacking if form not in rounded] == [
        *(
            f"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f16.{a}.{b}.f16"
            for a, b in product(("e4m3", "e5m2"), repeat=2)
        ),
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
        ".f32.e2m1.e2m1.f32.ue8m0",
        "movmatrix.sync.aligned.m8n8.trans.b16",
    ]


def test_llvm_still_cant_select_what_is_listed():
    for form, chips in mma.UNSELECTABLE.items():
        for chip in chips:
            assert chip in mma.SYNC.table[form].chips
            with pytest.raises(WeftError, match="can't select"):
                printed([(form, chip)])


def test_a_misspelled_form_is_seen():
    class Misspelled(mma.Sync):
        ptx = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"

    form = Misspelled(**vars(sync()))
    assert printed([(form, "sm_80")])[form, "sm_80"] != [form.ptx]


# Parsing


def read(opcode: str) -> list:
    return [form for family in mma.FAMILIES if (form := family.parse(opcode, ())) is not None]


def test_a_form_is_read_back_from_its_ptx_by_its_family_alone():
    for _, form in FORMS:
        assert read(form.ptx) == [form]


def test_the_order_of_modifiers_doesnt_matter_as_in_ptxas():
    rng = random.Random(2)
    points = []
    for family, form in rng.sample(FORMS, 60):
        head, *tokens = form.ptx.split(".")
        kept = {*ELEMENT_TYPES, "row", "col", "xor", "and", "popc"}
        ordered = [t for t in tokens if t in kept or re.match(r"b\d", t)]
        free = [t for t in tokens if t not in ordered]
        rng.shuffle(free)
        text = ".".join([head, *free, *ordered])
        assert read(text) == [form], text
        spelled = type("Spelled", (type(form),), {"ptx": text})(**vars(form))
        points.append((spelled, llvm_chip(family.table[form])))
    assert set(certify.verdicts(points).values()) == {None}


@pytest.mark.parametrize(
    "opcode, form",
    [
        ("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16", mma.Ldmatrix("m8n8", 2, True)),
        ("ldmatrix.sync.aligned.m8n8.x4.b16", mma.Ldmatrix("m8n8", 4, False, space="generic")),
        (
            "mma.sync.aligned.m16n8k8.col.row.f32.f16.bf16.f32",
            mma.Sync("m16n8k8", "f16", "bf16", "f32", "f32", "col", "row"),
        ),
        (
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.or.popc",
            sync("m8n8k128", "b1", "s32", bit_op="or.popc"),
        ),
        (
            "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e3m2.f32",
            sync("m16n8k32", "e2m1", b_type="e3m2", kind="f8f6f4"),
        ),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", sparse(d="f16", ordered=False)),
    ],
)
def test_other_spellings_and_illegal_forms_are_read(opcode, form):
    assert read(opcode) == [form]


@pytest.mark.parametrize(
    "opcode",
    [
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "mma.sync.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f32",
        "mma.sync.aligned.m16n8k16.row.f32.f16.f16.f32",
        "mma.sync.aligned.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.foo",
        "stmatrix.sync.aligned.m8n8.b16",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16",
        "movmatrix.sync.m8n8.trans.b16",
    ],
)
def test_what_is_no_form_is_not_read(opcode):
    assert not read(opcode)


# Verdicts


@pytest.mark.parametrize(
    "family, form, chip, rule, reason",
    [
        ("mma.sync", sync(), "sm_75", "chip", "needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k16"),
        ("mma.sync", sync(inputs="tf32"), None, "shape", "shape must be m16n8k4 or m16n8k8 with a_type tf32"),
        ("mma.sync", sync(a_type="f32"), None, "a_type", "a_type must be one of f16, bf16, tf32"),
        ("mma.sync", sync(b_type="bf16"), "sm_90", "b_type", "A of f16 needs B of f16, got bf16"),
        (
            "mma.sync",
            sync("m16n8k32", "s8", "s32", b_type="s4"),
            None,
            "b_type",
            "A of s8 needs B of s8 or u8, got s4",
        ),
        (
            "mma.sync",
            sync(inputs="bf16", d="f16"),
            None,
            "d_type",
            "bf16 inputs need D and C of f32 and f32, got f16 and",
        ),
        ("mma.sync", sync(c_type="f16"), None, "shape", "shape must be m8n8k4 with a_type f16"),
        (
            "mma.sync",
            sync(b_layout="row"),
            None,
            "layout",
            "layouts must be row.col, except for m8n8k4 of f16, got row.row",
        ),
        (
            "mma.sync",
            sync(satfinite=True),
            None,
            "satfinite",
            "satfinite needs s8, u8, s4 or u4 inputs, got f16 and f16",
        ),
        (
            "mma.sync",
            sync("m8n8k128", "b1", "s32"),
            None,
            "bit_op",
            "b1 needs a bit operation, xor.popc or and.popc, got none",
        ),
        (
            "mma.sync",
            sync(bit_op="xor.popc"),
            None,
            "bit_op",
            "xor.popc needs A and B of b1, got f16 and f16",
        ),
        ("mma.sync", sync("m16n8k32", "e2m1"), None, "kind", "e2m1 needs kind f8f6f4, got none"),
        (
            "mma.sync",
            sync(kind="f8f6f4"),
            None,
            "kind",
            "kind f8f6f4 needs inputs of e4m3, e5m2, e3m2, e2m3, e2m1, got f16",
        ),
        (
            "mma.sync",
            sync("m16n8k32", "e2m1", kind="f8f6f4"),
            "sm_100a",
            "chip",
            "needs sm_120f, sm_120a, sm_121f, sm_121a",
        ),
        (
            "mma.sp",
            sparse("m16n8k64", "e4m3", "f16", ordered=False),
            None,
            "ordered",
            "e4m3 with f16 accumulators needs ordered metadata (sp::ordered_metadata), got sp",
        ),
        (
            "mma.sp",
            sparse("m16n8k64", "e2m1", ordered=False, kind="f8f6f4"),
            None,
            "ordered",
            "kind f8f6f4 needs ordered",
        ),
        ("mma.sp", sparse(a_layout="col"), None, "layout", "layouts must be row.col, got col.col"),
        (
            "mma.sp",
            sparse(d_type="f16"),
            None,
            "d_type",
            "f16 inputs need D and C of f16 and f16 or f32 and f32, got f16",
        ),
        (
            "mma.block_scale",
            scaled(scale_vec="4X"),
            "sm_120a",
            "scale_vec",
            "scale_vec must be none or 2X for kind mxf4, got 4X",
        ),
        (
            "mma.block_scale",
            scaled("mxf4nvf4", ""),
            None,
            "scale_vec",
            "scale_vec must be 2X or 4X for kind mxf4nvf4, got none",
        ),
        (
            "mma.block_scale",
            scaled("mxf4nvf4", scale_type="ue4m3"),
            None,
            "scale_type",
            "scale_type must be ue8m0 for kind mxf4nvf4 with scale_vec 2X",
        ),
        (
            "mma.block_scale",
            scaled(),
            "sm_100a",
            "chip",
            "needs sm_120f, sm_120a, sm_121f, sm_121a: sm_100a has no form of",
        ),
        ("ldmatrix", mma.Ldmatrix("m8n8", 3, False), None, "num", "num must be one of 1, 2, 4, got 3"),
        (
            "ldmatrix",
            mma.Ldmatrix("m16n16", 1, False, "b8"),
            None,
            "trans",
            "trans must be true with shape m16n16",
        ),
        (
            "ldmatrix",
            mma.Ldmatrix("m8n8", 1, False, space="global"),
            None,
            "space",
            "space must be shared or generic, got global",
        ),
        (
            "stmatrix",
            mma.Stmatrix("m8n8", 1, False),
            "sm_80",
            "chip",
            "needs sm_90 or later: sm_80 has no form of stmatrix",
        ),
        ("movmatrix", mma.Movmatrix(trans=False), None, "trans", "trans must be true, got false"),
    ],
)
def test_a_verdict_names_the_rule_the_value_and_the_nearest_legal_forms(family, form, chip, rule, reason):
    verdict = FAMILIES[family].judge(form, chip)
    assert verdict is not None and verdict.rule == rule
    assert verdict.reason.startswith(reason)
    if "has no form of" in verdict.reason:
        assert not verdict.nearest
    else:
        assert verdict.nearest and str(verdict).endswith(", ".join(verdict.nearest))
        assert all(FAMILIES[family].judge(*read(text), chip) is None for text in verdict.nearest)


def test_rules_refuse_no_legal_form():
    for family, form in FORMS:
        assert family.judge(form) is None


def test_chips_are_as_ptxas_treats_their_variants():
    assert mma.SYNC.table[sync("m16n8k16", "f64", "f64")].chips == since("sm_90")
    narrow = only("sm_120a", "sm_120f", "sm_121a", "sm_121f")
    assert mma.SYNC.table[sync("m16n8k32", "e2m1", kind="f8f6f4")].chips == narrow
    assert mma.SCALED.chips() == narrow
    sparse_fp4 = mma.SparseScaled("m16n8k128", "mxf4", "", "e2m1", "e2m1", "ue8m0")
    assert mma.SPARSE_SCALED.table[sparse_fp4].chips == only("sm_120a", "sm_121a")
    assert mma.MOVMATRIX.table[mma.Movmatrix()] == Support(since("sm_75"), (7, 8))


def test_an_intrinsic_that_llvm_lacks_is_caught():
    class Unknown(mma.Sync):
        intrinsic = "llvm.nvvm.mma.m16n8k7.row.col.f32.f32"

    with pytest.raises(WeftError, match="no intrinsic"):
        printed([(Unknown(**vars(sync())), "sm_80")])
