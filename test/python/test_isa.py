import re
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from weft import codegen, ptxas
from weft.errors import WeftError
from weft.isa import mma
from weft.isa.chips import CHIPS
from weft.isa.family import Family, Registers, Support
from weft.layout import Layout

FORMS = [(family, form) for family in mma.FAMILIES for form in family.forms()]
# ptxas 13.5 has no -arch for the chips before this one, but still judges a '.target' of theirs.
OLDEST = "sm_75"
LAYOUTS = tuple(product(("row", "col"), repeat=2))
# What ptxas takes in the axes that are tried here and the table has not yet: f16 accumulators and m8n8k4,
# and bf16 in m8n8k4, which the PTX ISA doesn't publish.
LEFT_OUT = {
    *(
        mma.Sync("m8n8k4", "f16", "f16", *cd, *ab)
        for cd in product(("f16", "f32"), repeat=2)
        for ab in LAYOUTS
    ),
    *(mma.Sync(shape, "f16", "f16", "f16", "f16") for shape in ("m16n8k8", "m16n8k16")),
    *(mma.Sync("m8n8k4", "bf16", "bf16", "f32", "f32", *ab) for ab in LAYOUTS),
}


def named(forms):
    return pytest.mark.parametrize("family, form", forms, ids=[form.ptx for _, form in forms])


def registers(elements: int, kind: str) -> tuple[int, str]:
    """How many registers hold `elements` of a type, and of which PTX type, told without the table."""
    return (elements, "f32") if kind == "f32" else (max(elements // 2, 1), "b32")


def operands(form: mma.Sync) -> list[tuple[int, str]]:
    m, n, k = form.mnk
    if form.shape == "m8n8k4":  # four products at once, so every lane holds four times as much
        m, n, k = 2 * m, 2 * n, 2 * k
    return [
        registers(m * n // 32, form.d_type),
        registers(m * k // 32, form.a_type),
        registers(k * n // 32, form.b_type),
        registers(m * n // 32, form.c_type),
    ]


def sync_line(form: mma.Sync) -> str:
    groups = []
    for place, (count, kind) in enumerate(operands(form)):
        groups.append("{" + ", ".join(f"%{kind}_{place}{i}" for i in range(count)) + "}")
    return f"{form.ptx} {', '.join(groups)};"


def ldmatrix_line(form: mma.Ldmatrix) -> str:
    return f"{form.ptx} {{{', '.join(f'%b32_0{i}' for i in range(form.num))}}}, [tile];"


def line(form) -> str:
    return sync_line(form) if isinstance(form, mma.Sync) else ldmatrix_line(form)


def kernel(name: str, instruction: str) -> str:
    """A kernel of four lines before the instruction, whose every result is stored."""
    used = sorted(set(re.findall(r"%[bf]32_\d+", instruction)))
    results = sorted(set(re.findall(r"%[bf]32_0\d+", instruction.partition("}")[0])))
    declared = "".join(f".reg .{name[1:4]} {name}; " for name in used)
    known = "".join(f"mov.{name[1:4]} {name}, {'0f00000000' if name[1] == 'f' else '0'}; " for name in used)
    stores = " ".join(f"st.volatile.global.{name[1:4]} [%address], {name};" for name in results)
    return (
        f".visible .entry {name}(.param .u64 p)\n"
        f"{{ .reg .b64 %address; .shared .align 16 .b8 tile[512]; {declared}\n"
        f"ld.param.u64 %address, [p]; {known}\n"
        f"{instruction}\n"
        f"{stores} ret; }}\n"
    )


def module(chip: str, forms: list) -> str:
    version = max(CHIPS[chip].ptx, (8, 4))
    head = f".version {version[0]}.{version[1]}\n.target {chip}\n.address_size 64\n"
    return head + "".join(kernel(f"k{i}", line(form)) for i, form in enumerate(forms))


@cache
def takes(chip: str, form) -> bool:
    """Whether ptxas assembles one form in a kernel of its own, for a chip or an older '.target'."""
    try:
        ptxas.assemble(module(chip, [form]), chip if CHIPS[chip].number >= 75 else OLDEST)
    except WeftError as error:
        assert "ptxas: " in str(error), error
        return False
    return True


def misjudged(family: Family, forms: list, chips: list[str]) -> list[str]:
    """Where the table and ptxas disagree: forms in the table that ptxas refuses, and the other way round."""
    return [
        f"{form.ptx} on {chip}: the table says {wanted}, ptxas {not wanted}"
        for chip, form in product(chips, forms)
        if (wanted := family.judge(form, chip) is None) != takes(chip, form)
    ]


def edges(support: Support) -> list[str]:
    """The first and the last chip that have a form, and the chips before and after those."""
    names = list(CHIPS)
    legal = [i for i, name in enumerate(names) if name in support.chips]
    places = {legal[0] - 1, legal[0], legal[-1], legal[-1] + 1}
    return [names[i] for i in sorted(places) if 0 <= i < len(names)]


@named(FORMS)
def test_ptxas_takes_every_row_on_its_chips_and_refuses_it_before(family, form):
    assert not misjudged(family, [form], edges(family.table[form]))


@pytest.mark.parametrize("chip", list(CHIPS))
def test_ptxas_takes_all_rows_of_a_chip_together(chip):
    forms = [form for family in mma.FAMILIES for form in family.forms(chip)]
    if CHIPS[chip].number < 75:
        assert not forms
    else:
        assert len(ptxas.assemble(module(chip, forms), chip).kernels) == len(forms)


@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90a", "sm_121a"])
def test_ptxas_refuses_every_sync_that_the_table_lacks(chip, monkeypatch):
    axes = [
        ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n16k16"),
        *[("f16", "bf16", "f32")] * 2,
        *[("f32", "f16", "bf16")] * 2,
        *[("row", "col")] * 2,
    ]
    absent = [f for values in product(*axes) if (f := mma.Sync(*values)) not in mma.SYNC.table]
    monkeypatch.setattr(ptxas, "_MOST_SHOWN", 10 * len(absent))
    refused = rejected_at_once(chip, absent)
    assert len(refused) > len(absent) / 2
    accepted = {form for form in absent if form not in refused and takes(chip, form)}
    assert accepted <= LEFT_OUT


@pytest.mark.parametrize("chip", ["sm_75", "sm_90a", "sm_121a"])
def test_ptxas_refuses_every_ldmatrix_that_the_table_lacks(chip):
    axes = [("m8n8", "m16n8", "m8n16"), (1, 2, 3, 4, 8), (False, True), ("b16", "b32")]
    absent = [f for values in product(*axes) if (f := mma.Ldmatrix(*values)) not in mma.LDMATRIX.table]
    assert not [form.ptx for form in absent if takes(chip, form)]


def rejected_at_once(chip: str, forms: list) -> set:
    """The forms on whose lines ptxas reports an error when it reads them all together."""
    text = module(chip, forms)
    with pytest.raises(WeftError) as caught:
        ptxas.assemble(text, chip)
    lines = text.splitlines()
    where = {lines[d.location.line - 1] for d in caught.value.diagnostics if d.location}
    return {form for form in forms if line(form) in where}


def test_a_row_that_ptxas_refuses_is_caught():
    wrong = mma.Sync("m16n8k16", "f16", "bf16", "f32", "f32")
    planted = Family("mma.sync", mma.Sync, lambda: [(wrong, mma.SYNC.table[FORMS[0][1]])])
    assert misjudged(planted, [wrong], ["sm_90a"])


def test_a_row_on_a_chip_too_old_is_caught():
    form = mma.Sync("m16n8k16", "f16", "f16", "f32", "f32")
    planted = Family("mma.sync", mma.Sync, lambda: [(form, Support(frozenset(CHIPS), (7, 0)))])
    assert misjudged(planted, [form], ["sm_75"])


def test_a_row_that_is_missing_is_caught():
    form = mma.Sync("m16n8k16", "bf16", "bf16", "f32", "f32")
    planted = Family("mma.sync", mma.Sync, lambda: [(f, s) for f, s in mma.SYNC.table.items() if f != form])
    assert misjudged(planted, [form], ["sm_80"])


@named(FORMS)
def test_no_row_needs_newer_ptx_than_it_says(family, form):
    support = family.table[form]
    first = next(name for name in CHIPS if name in support.chips)
    head = f".version {support.ptx[0]}.{support.ptx[1]}\n.target {first}\n.address_size 64\n"
    assert ptxas.assemble(head + kernel("k", line(form)), first).kernels


def fragment_faults(registers: Registers, bits: int) -> str | None:
    """Why a fragment map isn't a bijection from the tile to 32 lanes x registers of `32 // bits` elements."""
    layout, each = Layout.parse(registers.layout), registers.count * 32 // bits
    if layout.size != registers.shape[0] * registers.shape[1]:
        return f"{layout} isn't of shape {registers.shape}"
    return None if layout.is_bijective({"laneid": 32, "m": each}) else f"{layout} isn't 32 lanes x {each}"


SYNC_FORMS = [(family, form) for family, form in FORMS if family is mma.SYNC]


@named(SYNC_FORMS)
def test_fragment_maps_are_bijections(family, form):
    kinds = (form.d_type, form.a_type, form.b_type, form.c_type)
    for fragment, kind in zip(form.operands, kinds, strict=True):
        assert fragment_faults(fragment, 32 if kind == "f32" else 16) is None


def test_a_fragment_map_that_is_no_bijection_is_caught():
    d, *_ = FORMS[0][1].operands
    assert fragment_faults(replace(d, layout="S[(2,8,4,2):(2,4@laneid,2@laneid,1)]"), 32)
    assert fragment_faults(replace(d, count=8), 32)
    assert fragment_faults(replace(d, shape=(16, 16)), 32)


@named(SYNC_FORMS)
def test_register_counts_are_what_ptx_counts(family, form):
    assert [fragment.count for fragment in form.operands] == [count for count, _ in operands(form)]


def test_fragment_maps_are_those_of_the_ptx_manual():
    """Rows and columns as the manual computes them, from `groupID` and `threadID_in_group`."""
    d, a, b, _ = mma.Sync("m16n8k16", "f16", "f16", "f32", "f32").operands
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        rows = [group if i < 2 or 4 <= i < 6 else group + 8 for i in range(8)]
        columns = [thread * 2 + (i & 1) + (8 if i >= 4 else 0) for i in range(8)]
        assert Layout.parse(a.layout).lane_elements(lane, a.shape) == list(zip(rows, columns, strict=True))
        rows = [thread * 2 + (i & 1) + (8 if i >= 2 else 0) for i in range(4)]
        assert Layout.parse(b.layout).lane_elements(lane, b.shape) == [(row, group) for row in rows]
        places = [(group + (8 if i >= 2 else 0), thread * 2 + (i & 1)) for i in range(4)]
        assert Layout.parse(d.layout).lane_elements(lane, d.shape) == places


def test_the_demonstrations_layouts_are_the_tables():
    d, a8, b8, _ = mma.Sync("m16n8k8", "f16", "f16", "f32", "f32").operands
    _, a16, b16, _ = mma.Sync("m16n8k16", "f16", "f16", "f32", "f32").operands
    assert same(d.layout, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
    assert same(a8.layout, "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
    assert same(b8.layout, "S[(4,2,8):(1@laneid,1,4@laneid)]")
    assert same(a16.layout, str(Layout.parse(a8.layout).tile_to(a16.shape, a8.shape)))
    assert same(b16.layout, str(Layout.parse(b8.layout).tile_to(b16.shape, b8.shape)))


def same(one: str, other: str) -> bool:
    return Layout.parse(one).canonical() == Layout.parse(other).canonical()


@named(FORMS)
def test_a_form_is_read_back_from_its_ptx(family, form):
    parse = mma.parse_sync if family is mma.SYNC else mma.parse_ldmatrix
    assert parse(form.ptx) == form


def test_ptx_of_other_instructions_is_no_form():
    assert mma.parse_sync("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") is None
    assert mma.parse_sync("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32") is None
    assert mma.parse_sync("ldmatrix.sync.aligned.m8n8.x1.shared.b16") is None
    assert mma.parse_ldmatrix("stmatrix.sync.aligned.m8n8.x1.shared.b16") is None
    assert mma.parse_ldmatrix("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16") == mma.Ldmatrix(
        "m8n8", 2, True
    )
    assert mma.parse_ldmatrix("ldmatrix.sync.aligned.m8n8.x4.b16") == mma.Ldmatrix("m8n8", 4, False)


def test_illegal_spellings_are_read_so_that_they_can_be_judged():
    form = mma.parse_sync("mma.sync.aligned.m16n8k8.col.row.f32.f16.bf16.f32")
    assert form == mma.Sync("m16n8k8", "f16", "bf16", "f32", "f32", "col", "row")
    assert mma.SYNC.judge(form) is not None


def llvm_kernel(number: int, form) -> str:
    """LLVM IR of a kernel that calls the form's intrinsic on its arguments and stores each result."""
    result, *inputs = form.operands
    kinds = [kind.type.replace("vector<2xf16>", "<2 x half>").replace("f32", "float") for kind in inputs]
    wanted = [(kind, i.count) for kind, i in zip(kinds, inputs, strict=True)] or [("ptr addrspace(3)", 1)]
    flat = [kind for kind, count in wanted for _ in range(count)]
    one = result.type.replace("f32", "float")
    whole = one if result.count == 1 else f"{{{', '.join([one] * result.count)}}}"
    parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(flat))
    stores = []
    for i in range(result.count):
        value = "%d" if result.count == 1 else f"%e{i}"
        if result.count > 1:
            stores.append(f"{value} = extractvalue {whole} %d, {i}")
        stores.append(f"store volatile {one} {value}, ptr %p")
    lines = "\n  ".join([f"%d = call {whole} @{form.intrinsic}({parameters})", *stores, "ret void"])
    return (
        f"declare {whole} @{form.intrinsic}({', '.join(flat)})\n"
        f"define ptx_kernel void @k{number}(ptr %p, {parameters}) {{\n  {lines}\n}}\n"
    )


def test_llvm_prints_each_mnemonic_exactly_once():
    text = "".join(llvm_kernel(i, form) for i, (_, form) in enumerate(FORMS))
    kernels = codegen.to_ptx(text, "sm_80", (8, 4)).ptx.split(".entry ")[1:]
    assert len(kernels) == len(FORMS)
    for (_, form), body in zip(FORMS, kernels, strict=True):
        found = re.findall(r"\b(?:mma|ldmatrix)\.[\w.:]+", body)
        assert found == [form.ptx]


def test_a_wrong_intrinsic_is_caught():
    form = FORMS[0][1]
    text = llvm_kernel(0, form).replace(".m16n8k8.", ".m16n8k7.")
    with pytest.raises(WeftError, match="no intrinsic"):
        codegen.to_ptx(text, "sm_80", (8, 4))


def f16(**changes) -> mma.Sync:
    return replace(mma.Sync("m16n8k16", "f16", "f16", "f32", "f32"), **changes)


@pytest.mark.parametrize(
    "form, chip, rule, found, nearest",
    [
        (f16(), "sm_75", "chip", "needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k16", "m16n8k8"),
        (f16(), "sm_70", "chip", "needs sm_80 or later: sm_70 has no form of mma.sync", None),
        (
            f16(shape="m16n8k4"),
            None,
            "shape",
            "has no shape m16n8k4: it is one of m16n8k8, m16n8k16",
            "m16n8k8",
        ),
        (f16(a_type="f64"), None, "a_type", "has no a_type f64: it is one of f16, bf16", "m16n8k16"),
        (
            f16(b_type="bf16"),
            "sm_90a",
            "a_type",
            "has no a_type f16 on sm_90a with shape m16n8k16",
            "m16n8k16",
        ),
        (f16(d_type="f16"), None, "d_type", "has no d_type f16: it is one of f32", "f32.f16.f16.f32"),
        (f16(b_layout="row"), None, "b_layout", "has no b_layout row: it is one of col", "row.col"),
        (mma.Ldmatrix("m8n8", 3, False), None, "num", "has no num 3: it is one of 1, 2, 4", "x1"),
        (mma.Ldmatrix("m8n8", 1, True, "b8"), None, "type", "has no type b8: it is one of b16", "x1.trans"),
    ],
)
def test_a_verdict_names_the_rule_what_was_found_and_the_nearest_legal_forms(
    form, chip, rule, found, nearest
):
    family = mma.SYNC if isinstance(form, mma.Sync) else mma.LDMATRIX
    verdict = family.judge(form, chip)
    assert verdict is not None and verdict.rule == rule
    assert verdict.reason.startswith(found)
    if nearest is None:
        assert not verdict.nearest
    else:
        assert nearest in verdict.nearest[0] and str(verdict).endswith(", ".join(verdict.nearest))
        assert all(family.judge(parsed(text), chip) is None for text in verdict.nearest)


def parsed(text: str):
    return mma.parse_sync(text) or mma.parse_ldmatrix(text)


def test_forms_that_two_axes_spoil_are_judged_together():
    verdict = mma.SYNC.judge(mma.Sync("m16n8k8", "bf16", "bf16", "f32", "f32"), "sm_75")
    assert verdict is not None and verdict.rule == "chip"
    assert mma.SYNC.judge(mma.Sync("m16n8k16", "f16", "f16", "f32", "f32", "col", "row")) is not None
