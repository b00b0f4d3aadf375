"""The `tcgen05` tables, against ptxas and LLVM; their spellings and fragments."""

import re
from dataclasses import replace
from itertools import product

import certify
import pytest
from isa_printed import llvm_type
from near import NEAR

from weft.compiler import codegen
from weft.isa import tcgen05
from weft.isa.chips import CHIPS
from weft.isa.tcgen05.control import COMMIT, Alloc, Commit, Fence
from weft.isa.tcgen05.copy import (
    LD,
    LD_RED,
    ST,
    Cp,
    Ld,
    LdRed,
    Shift,
    St,
)
from weft.isa.tcgen05.family import ALL, Tcgen05Family
from weft.isa.tcgen05.mma_forms import Mma, MmaBlockScale, MmaSp, MmaWs, MmaWsSp
from weft.isa.tcgen05.mma_rows import MMA, MMA_SP
from weft.isa.text.reader import instructions
from weft.layout import Layout

FAMILIES = pytest.mark.parametrize("family", tcgen05.FAMILIES, ids=lambda family: family.name)
F16 = Mma("f16", 1)
LLVM_PTX = (9, 0)  # the newest that LLVM 22.1 writes


@pytest.mark.sampled(18)
@FAMILIES
def test_ptxas_agrees(family):
    count = 300 if family.name.startswith("tcgen05.mma") else 75
    near = NEAR[family.name]
    points = certify.sample(family, near, count, sorted(ALL)) + certify.sample(family, near, 30, tuple(CHIPS))
    assert certify.disagreements(tcgen05, family, points) == []


def test_a_form_that_no_chip_has_is_noticed():
    wrong = replace(F16, collector_a="fill", a="tensor", ashift=True)
    family = Tcgen05Family("tcgen05.mma", Mma, lambda: [(wrong, MMA.table[F16])], MMA.parse)
    assert len(certify.disagreements(tcgen05, family, [(wrong, "sm_100a"), (F16, "sm_100a")])) == 2


def test_every_instruction_is_on_some_chip_with_a_suffix_and_on_no_other():
    for family in tcgen05.FAMILIES:
        assert family.chips() and family.chips() <= ALL


def intrinsic_call(form):
    """The declaration and the call of a form's intrinsic, built from nothing but what the form says."""
    operands = {o.name: o for o in form.operands}
    results = [o for o in form.operands if o.role == "out"]
    arguments = []
    for name in form.arguments:
        operand = operands[name]
        value = operand.values[-1] if operand.role == "immediate" else f"%{name}"
        arguments.append((llvm_type(operand.type), value))
    arguments += form.immediates
    result = llvm_type(results[0].type) if results else "void"
    declared = f"declare {result} @{form.intrinsic}({', '.join(kind for kind, _ in arguments)})"
    call = f"call {result} @{form.intrinsic}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
    parameters = [f"{kind} {value}" for kind, value in arguments if str(value).startswith("%")]
    return declared, f"%result = {call}\n  store {result} %result, ptr %out" if results else call, parameters


def printed(chip, forms):
    """What LLVM prints of each form, from one module: lines that begin with tcgen05."""
    parts = [intrinsic_call(form) for form in forms]
    kernels = "".join(
        f"define ptx_kernel void @k{i}({', '.join(['ptr %out', *parameters])}) {{\n  {call}\n  ret void\n}}\n"
        for i, (_, call, parameters) in enumerate(parts)
    )
    text = "\n".join(dict.fromkeys(declared for declared, _, _ in parts)) + "\n" + kernels
    bodies = codegen.to_ptx(text, chip, max(CHIPS[chip].ptx, LLVM_PTX)).ptx.split(".entry ")[1:]
    return [re.findall(r"^\s*(tcgen05\.[\w.:]+)", body, re.MULTILINE) for body in bodies]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110f"])
def test_llvm_prints_every_form_as_stated(chip):
    for family in tcgen05.FAMILIES:
        forms = [form for form in family.forms(chip) if form.intrinsic]
        for form, words in zip(forms, printed(chip, forms), strict=True):
            assert words == [form.ptx], form


def test_llvm_takes_the_operands_in_the_order_stated():
    form = MmaSp("tf32", 2, "tensor", "lastuse", disable_output_lane=8, scale_input_d=True)
    declared, call, parameters = intrinsic_call(form)
    text = f"{declared}\ndefine ptx_kernel void @k({', '.join(parameters)}) {{\n  {call}\n  ret void\n}}\n"
    ptx = codegen.to_ptx(text, "sm_100a", LLVM_PTX).ptx
    (found,) = instructions(ptx)
    assert MMA_SP.parse(found.opcode, found.operands) == form
    assert found.operands[-1] == "15"


def test_forms_that_llvm_lacks_are_those_of_ptx_9_4_and_few_more():
    older = {
        (family.name, form)
        for family in tcgen05.FAMILIES
        for form, support in family.table.items()
        if form.intrinsic is None and support.ptx < (9, 4)
    }
    names = {name for name, _ in older}
    assert names - {"tcgen05.ld", "tcgen05.st"} == {
        "tcgen05.commit",
        "tcgen05.ld.red",
        "tcgen05.mma.block_scale",
        "tcgen05.mma.sp.block_scale",
    }
    moves = [form for name, form in older if name in ("tcgen05.ld", "tcgen05.st")]
    assert all(form.num == 1 and form.shape in ("32x32b", "16x64b", "16x32bx2") for form in moves)
    assert all(not form.space for name, form in older if name == "tcgen05.commit")
    assert all(form.scale_vec.endswith("X") for name, form in older if name.endswith("block_scale"))


@pytest.mark.parametrize(
    "text, form",
    [
        ("tcgen05.mma.kind::f16.cta_group::1 [%r1], %d1, %d2, %r2, %p;", F16),
        ("tcgen05.mma.sp.kind::f16.cta_group::1 [%r1], %d1, %d2, [%r3], %r2, !%p;", MmaSp("f16", 1)),
        ("tcgen05.mma.kind::f16.cta_group::1.sp [%r1], %d1, %d2, [%r3], %r2, !%p;", MmaSp("f16", 1)),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, 1, 3;", replace(F16, scale_input_d=True)),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, {%r4, %r5, %r6, %r7}, %p;",
            replace(F16, disable_output_lane=4),
        ),
        (
            "tcgen05.mma.cta_group::1.ashift.kind::f16 [%r1], [%r4 + 0], %d2, %r2, %p;",
            replace(F16, a="tensor", ashift=True),
        ),
        (
            "tcgen05.mma.block_scale.kind::mxf4nvf4.scale_vec::4X.cta_group::2 "
            "[%r1], %d1, %d2, %r2, [%r3], [%r4], %p;",
            MmaBlockScale("mxf4nvf4", 2, "4X"),
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block32.block_scale [%r1], %d1, %d2, %r2, [%r3], [%r4], %p;",
            MmaBlockScale("mxf4", 1, "block32"),
        ),
        ("tcgen05.mma.ws.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p;", MmaWs("i8")),
        (
            "tcgen05.mma.ws.cta_group::1.sp.kind::i8 [%r1], %d1, %d2, [%r3], %r2, %p, %d3;",
            MmaWsSp("i8", zero_column_mask=True),
        ),
        ("tcgen05.cp.cta_group::1.warpx4.32x128b [%r1], %d1;", Cp("32x128b", "warpx4", 1)),
        (
            "tcgen05.cp.4x256b.b8x16.b6x16_p32.cta_group::1 [%r1], %d1;",
            Cp("4x256b", "", 1, "b6x16_p32"),
        ),
        ("tcgen05.ld.aligned.sync.x2.pack::16b.32x32b.b32 {%r1, %r2}, [%r3];", Ld("32x32b", 2, True)),
        ("tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r3], 16, {%r1};", St("16x32bx2", 1)),
        (
            "tcgen05.ld.red.sync.aligned.32x32b.x2.u32.min {%r1, %r2}, %r4, [%r3];",
            LdRed("32x32b", 2, "min", "u32"),
        ),
        ("tcgen05.alloc.sync.aligned.b32.cta_group::2.shared::cta [%r1], 32;", Alloc(2, "shared::cta")),
        (
            "tcgen05.commit.multicast::cluster::16b.shared::cluster.cta_group::1.mbarrier::arrive::one.b64 "
            "[%r1], %h1;",
            Commit(1, "shared::cluster", 16),
        ),
        ("tcgen05.shift.down.cta_group::2 [%r1];", Shift(2)),
        ("tcgen05.fence::before_thread_sync;", Fence("before_thread_sync")),
    ],
)
def test_any_order_of_modifiers_is_read(text, form):
    (found,) = instructions(text)
    parsed = [family.parse(found.opcode, found.operands) for family in tcgen05.FAMILIES]
    assert [f for f in parsed if f is not None] == [form]


@pytest.mark.parametrize(
    "opcode",
    [
        "tcgen05.mma.cta_group::1.kind::f16.ashift.ashift",
        "tcgen05.mma.cta_group::1.kind::f16.fast",
        "tcgen05.ld.sync.32x32b.x1.b32",
        "tcgen05.cp.cta_group::1.128x256b.b6x16_p32",
        "tcgen05.alloc.cta_group::1.sync.aligned.u32",
        "wgmma.fence.sync.aligned",
    ],
)
def test_what_ptx_cant_spell_is_no_form(opcode):
    assert [family.parse(opcode, ()) for family in tcgen05.FAMILIES] == [None] * len(tcgen05.FAMILIES)


def test_unpublished_forms_are_out_of_the_table_and_ptxas_takes_them():
    scaled_i8 = Mma("i8", 1, scale_input_d=True)
    restricted = Commit(1, "shared::cluster", 0, "shared::cta")
    for family, form in ((MMA, scaled_i8), (COMMIT, restricted)):
        assert form not in family.table
        assert certify.verdicts([(form, "sm_100a")]) == {(form, "sm_100a"): None}
        assert any(u.holds(form, "sm_100a") for u in tcgen05.UNPUBLISHED if u.family == family.name)


@pytest.mark.slow
@pytest.mark.parametrize("family", [LD, ST, LD_RED], ids=lambda family: family.name)
def test_fragment_maps_are_bijections(family):
    for form in family.table:
        data = next(o for o in form.operands if o.name == "data")
        layout = Layout.parse(data.layout)
        _, registers = certify.ptx_registers(data)
        packed = getattr(form, "pack", False) or getattr(form, "unpack", False)
        size = 1
        for extent in data.shape:
            size *= extent
        places = [
            (place.get("laneid", 0), place.get("m", 0))
            for index in range(layout.size)
            for place in layout.positions(index)
        ]
        room = set(product(range(32), range(registers * (2 if packed else 1))))
        assert layout.size == size == len(places), form
        assert set(places) == room, form


@pytest.mark.parametrize(
    "shape, row, column",
    [
        ("32x32b", lambda lane, r: lane, lambda lane, r: r),
        (
            "16x64b",
            lambda lane, r: lane // 4 + 8 * (lane & 1),
            lambda lane, r: 2 * r + (lane >> 1 & 1),
        ),
        ("16x128b", lambda lane, r: lane // 4 + 8 * (r & 1), lambda lane, r: 4 * (r // 2) + lane % 4),
        (
            "16x256b",
            lambda lane, r: lane // 4 + 8 * (r >> 1 & 1),
            lambda lane, r: 8 * (r // 4) + 2 * (lane % 4) + (r & 1),
        ),
    ],
)
def test_fragments_are_where_the_isa_has_them(shape, row, column):
    data = Ld(shape, 4).operands[0]
    layout = Layout.parse(data.layout)
    for index in range(layout.size):
        (place,) = layout.positions(index)
        lane, register = place.get("laneid", 0), place.get("m", 0)
        assert (row(lane, register), column(lane, register)) == divmod(index, data.shape[1])
