"""The `wmma` tables, against ptxas and LLVM; numbers of registers, and spellings."""

from dataclasses import replace

import certify
import pytest
from isa_printed import printed
from near import NEAR

from weft.isa import wmma
from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.layout import Layout

FAMILIES = pytest.mark.parametrize("family", wmma.FAMILIES, ids=lambda family: family.name)
F16 = wmma.Mma("m16n16k16", "f16", "f16", "f32", "f32")
S8 = wmma.Mma("m16n16k16", "s8", "s8", "s32", "s32")
BITS = wmma.Mma("m8n8k128", "b1", "b1", "s32", "s32", bit_op="xor.popc")
TF32 = wmma.Load("m16n16k8", "a", "tf32", stride=True)


def test_ptxas_agrees_on_few_points():
    points = certify.sample(wmma.MMA, NEAR[wmma.MMA.name], 40, tuple(CHIPS))
    assert certify.disagreements(wmma, wmma.MMA, points) == []


@pytest.mark.slow
@FAMILIES
def test_ptxas_agrees(family):
    points = certify.sample(family, NEAR[family.name], 400, tuple(CHIPS))
    assert certify.disagreements(wmma, family, points) == []


def test_a_form_that_no_chip_has_is_noticed():
    wrong = replace(F16, shape="m16n16k8")
    family = Family("wmma.mma", wmma.Mma, lambda: [(wrong, wmma.MMA.table[F16])])
    assert len(certify.disagreements(wmma, family, [(wrong, "sm_80"), (F16, "sm_80")])) == 2


@pytest.mark.sampled(3)
@FAMILIES
def test_llvm_prints_every_form_as_stated(family):
    points = [(form, chip) for form in family.table for chip in ("sm_80", "sm_120a")]
    found = printed(points)
    assert {point: words for point, words in found.items() if words != [point[0].ptx]} == {}


@pytest.mark.parametrize(
    "shape, a, counts",
    [
        ("m16n16k16", "f16", (8, 8)),
        ("m8n32k16", "f16", (8, 8)),
        ("m16n16k16", "bf16", (4, 4)),
        ("m8n32k16", "bf16", (2, 8)),
        ("m32n8k16", "bf16", (8, 2)),
        ("m16n16k8", "tf32", (4, 4)),
        ("m16n16k16", "u8", (2, 2)),
        ("m8n32k16", "s8", (1, 4)),
        ("m32n8k16", "s8", (4, 1)),
        ("m8n8k32", "s4", (1, 1)),
        ("m8n8k128", "b1", (1, 1)),
    ],
)
def test_inputs_have_their_registers(shape, a, counts):
    form = next(f for f in wmma.MMA.table if (f.shape, f.a_type) == (shape, a))
    assert tuple(r.count for r in form.operands[1:3]) == counts
    assert {r.type for r in form.operands[1:3]} == {"vector<2xf16>" if a == "f16" else "i32"}


@pytest.mark.parametrize(
    "shape, d, count, kind",
    [
        ("m16n16k16", "f16", 4, "vector<2xf16>"),
        ("m32n8k16", "f32", 8, "f32"),
        ("m8n32k16", "s32", 8, "i32"),
        ("m8n8k32", "s32", 2, "i32"),
        ("m8n8k128", "s32", 2, "i32"),
    ],
)
def test_accumulators_have_their_registers(shape, d, count, kind):
    store = wmma.Store(shape, d)
    assert store in wmma.STORE.table
    assert (store.operands[1].count, store.operands[1].type) == (count, kind)


def test_every_fragment_that_mma_takes_can_be_loaded_and_what_it_gives_stored():
    for form, support in wmma.MMA.table.items():
        for fragment, name, layout in (
            ("a", form.a_type, form.a_layout),
            ("b", form.b_type, form.b_layout),
            ("c", form.c_type, "row"),
        ):
            assert support.chips <= wmma.LOAD.table[wmma.Load(form.shape, fragment, name, layout)].chips
        assert support.chips <= wmma.STORE.table[wmma.Store(form.shape, form.d_type)].chips


def test_h200_fragments_hold_every_element_as_often_as_they_have_room():
    fragments = {(form.shape, form.fragment, form.type): form.operands[0] for form in wmma.LOAD.table}
    for (shape, fragment, kind), registers in fragments.items():
        layout = Layout.parse(wmma.h200_layout(shape, fragment, kind))
        places = [
            (place.get("laneid", 0), place.get("m", 0))
            for index in range(layout.size)
            for place in layout.positions(index)
        ]
        bits = {"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}.get(kind, 32)
        room = {(lane, i) for lane in range(32) for i in range(registers.count * 32 // bits)}
        assert layout.size == registers.shape[0] * registers.shape[1]
        assert len(places) == len(room) and set(places) == room, (shape, fragment, kind)


@pytest.mark.parametrize(
    "opcode, operands, form",
    [
        ("wmma.mma.sync.aligned.m16n16k16.row.col.f32.f32", 4, F16),
        ("wmma.mma.aligned.sync.f32.f32.row.col.m16n16k16", 4, F16),
        ("wmma.mma.sync.aligned.satfinite.row.col.m16n16k16.s32.s8.s8.s32", 4, replace(S8, satfinite=True)),
        ("wmma.mma.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32.xor.popc", 4, BITS),
        ("wmma.load.a.sync.aligned.m16n16k8.row.tf32", 3, TF32),
        ("wmma.load.a.sync.aligned.row.m16n16k8.shared::cta.tf32", 3, replace(TF32, space="shared")),
        ("wmma.load.a.row.tf32.global.sync.aligned.m16n16k8", 2, replace(TF32, space="global", stride=False)),
        (
            "wmma.store.d.sync.aligned.m8n8k32.col.s32.shared",
            2,
            wmma.Store("m8n8k32", "s32", "col", "shared"),
        ),
    ],
)
def test_any_order_of_modifiers_is_read(opcode, operands, form):
    found = [family.parse(opcode, ["{%r1}"] * operands) for family in wmma.FAMILIES]
    assert [f for f in found if f is not None] == [form]


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "wmma.mma.sync.aligned.row.m16n16k16.f32.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.f32",
        "wmma.load.d.sync.aligned.row.m16n16k16.volatile.f16",
        "wmma.store.a.sync.aligned.row.m16n16k16.f16",
    ],
)
def test_other_instructions_are_none_of_these(opcode):
    assert [family.parse(opcode, []) for family in wmma.FAMILIES] == [None] * 3


@pytest.mark.parametrize(
    "form, chip, rule, reason",
    [
        (replace(F16, a_type="f64"), None, "f64", "has no f64: use mma.sync"),
        (
            replace(F16, satfinite=True),
            None,
            "satfinite",
            "satfinite needs s8, u8, s4 or u4 inputs, got f16",
        ),
        (
            replace(F16, bit_op="xor.popc"),
            None,
            "bit_op",
            "xor.popc needs A and B of b1, got f16 and f16",
        ),
        (replace(BITS, bit_op=""), None, "bit_op", "bit_op must be xor.popc or and.popc for b1, got none"),
        (replace(BITS, bit_op="and.popc"), "sm_75", "chip", "needs sm_80 or later"),
        (replace(S8, b_type="u8"), None, "b_type", "A and B must have the same type, got s8 and u8"),
        (S8, "sm_70", "chip", "needs sm_72 or later: sm_70 has no wmma.mma.sync"),
        (replace(F16, shape="m16n16k8"), None, "shape", "shape must be one of m16n16k16, m8n32k16, m32n8k16"),
    ],
)
def test_mma_refusals_name_the_rule(form, chip, rule, reason):
    verdict = wmma.MMA.judge(form, chip)
    assert verdict.rule == rule
    assert reason in verdict.reason
    assert verdict.nearest


@pytest.mark.parametrize(
    "form, rule, reason",
    [
        (replace(TF32, shape="m8n32k8"), "shape", "shape must be one of m16n16k16"),
        (wmma.Load("m8n8k32", "a", "s4", "col"), "layout", "layout must be row for A of s4, got col"),
        (wmma.Load("m8n8k4", "a", "f64"), "f64", "has no f64"),
        (replace(TF32, space="local"), "space", "space must be one of none, shared, global, got local"),
    ],
)
def test_load_refusals_name_the_rule(form, rule, reason):
    verdict = wmma.LOAD.judge(form)
    assert verdict.rule == rule
    assert reason in verdict.reason


def test_f64_is_sent_to_mma_sync():
    verdict = wmma.MMA.judge(wmma.Mma("m8n8k4", "f64", "f64", "f64", "f64"))
    assert verdict.nearest == ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",)
