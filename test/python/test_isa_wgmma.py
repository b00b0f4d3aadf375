"""The `wgmma` tables, against ptxas; fragments, inline PTX through LLVM, and messages."""

import re
from dataclasses import replace
from itertools import product

import certify
import pytest
from isa_printed import llvm_type, printed
from near import NEAR

from weft.compiler import codegen, ptxas
from weft.isa import wgmma
from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.isa.text.reader import instructions
from weft.layout import Layout

PRODUCTS = pytest.mark.parametrize(
    "family", (wgmma.MMA_ASYNC, wgmma.MMA_ASYNC_SPARSE), ids=lambda family: family.name
)
PLAIN = (wgmma.FENCE, wgmma.COMMIT_GROUP, wgmma.WAIT_GROUP)
BF16 = wgmma.MmaAsync("m64n64k16", "bf16", "bf16", "f32")
S8 = wgmma.MmaAsync("m64n64k32", "s8", "s8", "s32")
BITS = wgmma.MmaAsync("m64n64k256", "b1", "b1", "s32", bit_op="and.popc")
SPARSE = wgmma.MmaAsyncSparse("m64n64k32", "bf16", "bf16", "f32")


@pytest.mark.sampled(2)
@PRODUCTS
def test_ptxas_agrees(family):
    points = certify.sample(family, NEAR[family.name], 60, ("sm_90a",))
    points += certify.sample(family, NEAR[family.name], 60, tuple(CHIPS), seed=1)
    assert certify.disagreements(wgmma, family, points) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", PLAIN, ids=lambda family: family.name)
def test_ptxas_agrees_on_what_has_no_axes(family):
    (form,) = family.table
    assert certify.disagreements(wgmma, family, [(form, chip) for chip in CHIPS]) == []
    assert certify.version_faults(family) == []


def test_a_form_that_no_chip_has_is_noticed():
    wrong = replace(S8, shape="m64n40k32")
    family = Family(
        "wgmma.mma_async",
        wgmma.MmaAsync,
        lambda: [(wrong, wgmma.MMA_ASYNC.table[S8])],
    )
    assert len(certify.disagreements(wgmma, family, [(wrong, "sm_90a"), (S8, "sm_90a")])) == 2


@pytest.mark.slow
@PRODUCTS
def test_immediates_have_the_values_that_ptxas_takes(family):
    forms = [form for form in family.table if form.shape.startswith("m64n8k") and not form.satfinite]
    for name, value in product(("scale_a", "scale_b", "trans_a", "trans_b", "selector"), range(-2, 4)):
        having = [f for f in forms if any(o.name == name for o in f.operands)]
        found = certify.verdicts(((form, "sm_90a") for form in having), immediates={name: value})
        for (form, _), complaint in found.items():
            assert (wgmma.judge_immediates(form, {name: value}) is None) == (complaint is None), form


@pytest.mark.parametrize("count, legal", [(0, True), (7, True), (8, True), (4096, True), (-1, False)])
def test_wait_group_takes_any_number(count, legal):
    found = certify.verdicts([(wgmma.WaitGroup(), "sm_90a")], immediates={"group": count})
    (group,) = wgmma.WaitGroup().operands
    assert (count in group.values) == legal == (list(found.values()) == [None])


@pytest.mark.parametrize("family", PLAIN, ids=lambda family: family.name)
def test_llvm_prints_what_has_no_axes_as_stated(family):
    (form,) = family.table
    assert printed([(form, "sm_90a")]) == {(form, "sm_90a"): [form.ptx]}


def inline(form):
    """LLVM IR of a kernel that runs the form as inline PTX, its accumulators tied to the results."""
    d, *inputs = form.operands
    accumulator = llvm_type(d.type)
    whole = f"{{{', '.join([accumulator] * d.count)}}}"
    flat = [(accumulator, str(i), "") for i in range(d.count)]
    for operand in inputs:
        kind = llvm_type(operand.type)
        letter = {"i64": "l", "i1": "b"}.get(kind, "r")
        if operand.role == "immediate":
            flat.append((kind, "n", str(operand.values[-1])))
        else:
            flat += [(kind, letter, "")] * operand.count
    names, number = {"d": [f"${i}" for i in range(d.count)]}, 2 * d.count
    for operand in inputs:
        names[operand.name] = [f"${number + i}" for i in range(operand.count)]
        number += operand.count
    text = certify.operand_text(form, names)
    outputs = ["=f" if accumulator == "float" else "=r"] * d.count
    constraints = ",".join([*outputs, *(letter for _, letter, _ in flat)])
    arguments = ", ".join(f"{kind} {value or f'%a{i}'}" for i, (kind, _, value) in enumerate(flat))
    parameters = ", ".join(f"{kind} %a{i}" for i, (kind, _, value) in enumerate(flat) if not value)
    stores = "".join(
        f"  %e{i} = extractvalue {whole} %d, {i}\n  store volatile {accumulator} %e{i}, ptr %p\n"
        for i in range(d.count)
    )
    return (
        f"define ptx_kernel void @k(ptr %p, {parameters}) {{\n"
        f'  %d = call {whole} asm sideeffect "{form.ptx} {text};", "{constraints}"({arguments})\n'
        f"{stores}  ret void\n}}\n"
    )


@pytest.mark.slow
@pytest.mark.sampled(2)
@PRODUCTS
def test_inline_ptx_passes_llvm_and_ptxas_and_is_read_back(family):
    seen = set()
    for form in family.table:
        key = (form.a_type, form.b_type, form.d_type, form.a_registers)
        if key in seen:
            continue
        seen.add(key)
        ptx = codegen.to_ptx(inline(form), "sm_90a", (8, 4)).ptx
        ptxas.assemble(ptx, "sm_90a")
        found = [i for i in instructions(ptx) if i.opcode.startswith("wgmma")]
        assert [family.parse(i.opcode, i.operands) for i in found] == [form]
        assert len(found[0].operands) == len(form.operands)


@pytest.mark.slow
@PRODUCTS
def test_fragments_are_bijections(family):
    small = {"f16": 16, "bf16": 16, "tf32": 32, "b1": 1}
    fragments = {
        (
            operand,
            {"d": 16 if form.d_type == "f16" else 32, "metadata": 4}.get(name, small.get(form.a_type, 8)),
        )
        for form in family.table
        if re.match(r"m64n(8|24|256)k", form.shape)
        for operand in form.operands
        if (name := operand.name) and operand.layout
    }
    for operand, bits in fragments:
        layout = Layout.parse(operand.layout)
        places = {(p["warpid"], p["laneid"], p.get("m", 0)) for p in map(layout.apply, range(layout.size))}
        assert layout.size == operand.shape[0] * operand.shape[1] == len(places)
        # Two lanes of four hold the metadata of 16-bit types.
        lanes = 64 if operand.name == "metadata" and operand.shape == (64, 8) else 128
        assert len(places) == lanes * operand.count * 32 // bits
        assert max(m for _, _, m in places) == operand.count * 32 // bits - 1


def test_accumulators_lie_as_the_isa_draws_them():
    d, *_ = BF16.operands
    layout = Layout.parse(d.layout)
    for row, column in product(range(64), range(64)):
        place = layout.apply((row, column), d.shape)
        lane, m = place["laneid"], place["m"]
        assert place["warpid"] == row // 16
        assert row % 16 == lane // 4 + 8 * (m // 2 % 2)
        assert column == 8 * (m // 4) + 2 * (lane % 4) + m % 2


@pytest.mark.parametrize(
    "form, counts",
    [
        (BF16, {"d": 32, "a": 1, "b": 1}),
        (replace(BF16, a_registers=True), {"d": 32, "a": 4, "b": 1}),
        (replace(BF16, a_type="f16", b_type="f16", d_type="f16"), {"d": 16, "a": 1, "b": 1}),
        (replace(S8, shape="m64n256k32"), {"d": 128, "a": 1, "b": 1}),
        (replace(SPARSE, a_registers=True), {"d": 32, "a": 4, "b": 1, "metadata": 1}),
    ],
)
def test_operands_have_their_registers(form, counts):
    assert {o.name: o.count for o in form.operands if o.name in (*counts, "metadata")} == counts


def test_every_n_of_the_table_is_legal_and_no_other():
    for name, want in (("tf32", range(8, 257, 8)), ("u8", [8, 16, 24, *range(32, 257, 16)])):
        found = {f.shape for f in wgmma.MMA_ASYNC.table if f.a_type == f.b_type == name}
        k = {"tf32": 8, "u8": 32}[name]
        assert found == {f"m64n{n}k{k}" for n in want}


@pytest.mark.parametrize(
    "opcode, form",
    [
        ("wgmma.mma_async.m64n64k16.sync.aligned.f32.bf16.bf16", BF16),
        ("wgmma.mma_async.sync.m64n64k16.f32.bf16.bf16", BF16),
        ("wgmma.mma_async.sync.aligned.sp.f32.bf16.bf16.m64n64k32", SPARSE),
        ("wgmma.mma_async.and.popc.sync.aligned.m64n64k256.s32.b1.b1", BITS),
        ("wgmma.mma_async.sync.aligned.satfinite.m64n64k32.s32.s8.s8", replace(S8, satfinite=True)),
        ("wgmma.fence.aligned.sync", wgmma.Fence()),
        ("wgmma.commit_group.sync", wgmma.CommitGroup()),
        ("wgmma.wait_group.sync.aligned", wgmma.WaitGroup()),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16.f32", None),
        ("wgmma.mma_async.sp::ordered_metadata.sync.aligned.m64n64k32.f32.bf16.bf16", None),
        ("wgmma.fence.proxy", None),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", None),
    ],
)
def test_any_order_of_modifiers_is_read(opcode, form):
    found = [family.parse(opcode, ["{%r1}", "%rd1"]) for family in wgmma.FAMILIES]
    assert [f for f in found if f is not None] == ([form] if form else [])


@pytest.mark.parametrize(
    "form, rule, reason",
    [
        (replace(BF16, shape="m128n64k16"), "shape", "m must be 64, got 128 in m128n64k16"),
        (replace(BF16, shape="m64n64k32"), "shape", "k must be 16 for bf16, got 32"),
        (replace(SPARSE, shape="m64n64k16"), "shape", "k must be 32 for bf16 with its zeros, got 16"),
        (replace(BF16, shape="m64n12k16"), "shape", "n must be a multiple of 8 in 8..256, got 12"),
        (
            replace(S8, shape="m64n40k32"),
            "shape",
            "n must be 8, 16, 24, or a multiple of 16 in 32..256, got 40",
        ),
        (
            replace(BF16, b_type="f16"),
            "b_type",
            "A and B must have the same type, or both be of e4m3",
        ),
        (replace(BF16, d_type="f16"), "d_type", "d_type must be f32"),
        (replace(BITS, bit_op=""), "bit_op", "bit_op must be and.popc for b1, got none"),
        (replace(BITS, bit_op="xor.popc"), "bit_op", "bit_op must be and.popc for b1, got xor.popc"),
        (replace(S8, bit_op="and.popc"), "bit_op", "and.popc needs A and B of b1"),
        (replace(BF16, satfinite=True), "satfinite", "satfinite needs s8 or u8 inputs, got bf16"),
    ],
)
def test_refusals_name_the_rule(form, rule, reason):
    family = wgmma.MMA_ASYNC_SPARSE if form.sparse else wgmma.MMA_ASYNC
    verdict = family.judge(form, "sm_90a")
    assert verdict.rule == rule
    assert reason in verdict.reason
    assert verdict.nearest


def test_the_nearest_columns_are_offered():
    verdict = wgmma.MMA_ASYNC.judge(replace(S8, shape="m64n40k32"))
    assert verdict.nearest == (replace(S8, shape="m64n32k32").ptx, replace(S8, shape="m64n48k32").ptx)


@pytest.mark.parametrize("chip", ["sm_90", "sm_100a", "sm_120a"])
def test_other_chips_are_told_which_has_it(chip):
    assert str(wgmma.MMA_ASYNC.judge(BF16, chip)) == f"needs sm_90a: {chip} has no form of wgmma.mma_async"


@pytest.mark.parametrize(
    "form, given, reason",
    [
        (BF16, {"scale_a": -1, "scale_b": 1, "trans_a": 1, "trans_b": 0}, None),
        (S8, {"scale_a": 1, "scale_b": 1, "trans_a": 0, "trans_b": 0, "selector": 0}, None),
        (BF16, {"scale_a": 0}, "scale_a must be 1 or -1 for bf16, got 0"),
        (S8, {"scale_b": -1}, "scale_b must be 1 for s8, which isn't a float type, got -1"),
        (S8, {"trans_b": 1}, "trans_b must be 0 for s8: only f16 and bf16 can be transposed, got 1"),
        (replace(BF16, a_registers=True), {"trans_a": 1}, "trans_a must be 0 with A in registers, got 1"),
        (BF16, {"selector": 1}, "selector must be 0 without a sparse A, got 1"),
        (SPARSE, {"selector": 2}, "selector must be 0 or 1 for bf16, got 2"),
    ],
)
def test_immediates_are_refused_by_name(form, given, reason):
    verdict = wgmma.judge_immediates(form, given)
    assert (verdict is None) == (reason is None)
    assert reason is None or reason in verdict.reason
