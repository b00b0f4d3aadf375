"""The `tcgen05` tables, against ptxas and LLVM; their spellings; the message of every rule."""

import re
from dataclasses import replace
from itertools import product

import pytest
from isa_printed import llvm_type

from weft.compiler import codegen
from weft.isa import certify, tcgen05
from weft.isa.chips import CHIPS
from weft.isa.tcgen05.control import COMMIT, FENCE, Alloc, Commit, Fence
from weft.isa.tcgen05.copy import (
    CP,
    LD,
    LD_RED,
    LD_SPCOMPRESS,
    SHIFT,
    ST,
    Cp,
    Ld,
    LdRed,
    LdSpcompress,
    Shift,
    St,
)
from weft.isa.tcgen05.family import ALL, ARCH_SPECIFIC, Tcgen05Family
from weft.isa.tcgen05.mma_forms import Mma, MmaBlockScale, MmaSp, MmaSpBlockScale, MmaWs, MmaWsSp
from weft.isa.tcgen05.mma_rows import MMA, MMA_BLOCK_SCALE, MMA_SP, MMA_SP_BLOCK_SCALE, MMA_WS
from weft.isa.text.reader import instructions
from weft.layout import Layout

FAMILIES = pytest.mark.parametrize("family", tcgen05.FAMILIES, ids=lambda family: family.name)
F16 = Mma("f16", 1)
LLVM_PTX = (9, 0)  # the newest that LLVM 22.1 writes


@pytest.mark.sampled(18)
@FAMILIES
def test_ptxas_agrees(family):
    count = 300 if family.name.startswith("tcgen05.mma") else 75
    near = tcgen05.NEAR[family.name]
    points = certify.sample(family, near, count, sorted(ALL)) + certify.sample(family, near, 30, tuple(CHIPS))
    assert certify.disagreements(tcgen05, family, points) == []


@pytest.mark.slow
@FAMILIES
def test_ptx_versions_are_the_first(family):
    few = dict(list(family.table.items())[:: max(1, len(family.table) // 60)])
    assert certify.version_faults(replace(family, legal=few.items)) == []


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


@pytest.mark.sampled(4)
@FAMILIES
def test_every_form_is_read_back_from_its_own_kernel(family):
    for form in family.table:
        (found,) = instructions(certify.Entry.of(form).line)
        assert [
            other.name for other in tcgen05.FAMILIES if other.parse(found.opcode, found.operands) is not None
        ] == [family.name]
        assert family.parse(found.opcode, found.operands) == form


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


# Rules


def refusal(family, form, chip):
    """The verdict, on a form that ptxas refuses too."""
    assert certify.verdicts([(form, chip)])[form, chip] is not None
    verdict = family.judge(form, chip)
    assert verdict is not None and verdict.nearest
    return verdict


@pytest.mark.parametrize("chip", ["sm_100f", "sm_103a", "sm_107a", "sm_110f"])
@pytest.mark.parametrize(
    "family, form", [(MMA, Mma("i8", 1)), (MMA_SP, MmaSp("i8", 2)), (MMA_WS, MmaWs("i8"))]
)
def test_i8_is_on_architecture_specific_targets_only(family, form, chip):
    verdict = refusal(family, form, chip)
    assert verdict.rule == "i8-target"
    assert verdict.reason == (f"kind i8 is legal on sm_100a, sm_110a only, got {chip}")
    assert all("kind::i8" not in near for near in verdict.nearest)


def test_b_is_decompressed_for_dense_products_of_bytes_alone():
    kinds = {family.name: {f.kind for f in family.table if f.decompress} for family in (MMA, MMA_BLOCK_SCALE)}
    assert kinds == {"tcgen05.mma": {"f8f6f4"}, "tcgen05.mma.block_scale": {"mxf8f6f4"}}
    assert not any(f.decompress and f.ashift for f in MMA.table)
    assert not any(f.decompress for family in (MMA_SP, MMA_SP_BLOCK_SCALE) for f in family.table)


@pytest.mark.parametrize("kind, scale_vec", [("mxf4", "block32"), ("mxf4nvf4", "block16")])
def test_sparse_fp4_is_on_architecture_specific_targets_only(kind, scale_vec):
    for chip in ("sm_100f", "sm_110f"):
        verdict = refusal(MMA_SP_BLOCK_SCALE, MmaSpBlockScale(kind, 1, scale_vec), chip)
        assert verdict.rule == "sparse-fp4-target"
        assert f"kind {kind} with a sparse A is legal on sm_100a" in verdict.reason
    assert MMA_SP_BLOCK_SCALE.judge(MmaSpBlockScale(kind, 1, scale_vec), "sm_100a") is None


def test_an_explicit_scale_vector_size_is_on_architecture_specific_targets_only():
    for (kind, size), chip in product([("mxf8f6f4", "1X"), ("mxf4", "2X"), ("mxf4nvf4", "4X")], sorted(ALL)):
        form = MmaBlockScale(kind, 1, size)
        if chip in ARCH_SPECIFIC:
            assert MMA_BLOCK_SCALE.judge(form, chip) is None
            continue
        verdict = refusal(MMA_BLOCK_SCALE, form, chip)
        assert verdict.rule == "scale-vec-target"
        assert verdict.reason.startswith(f"scale_vec::{size} is legal on sm_100a")
        assert verdict.reason.endswith(f"only, got {chip}")
        assert f"kind::{kind}.block_scale" in verdict.nearest[0]


@pytest.mark.parametrize("kind", ["f8f6f4", "ti16"])
def test_the_input_accumulator_is_scaled_for_f16_and_tf32_only(kind):
    verdict = refusal(MMA, Mma(kind, 1, scale_input_d=True), "sm_107a")
    assert verdict.rule == "scale-input-d"
    assert verdict.reason == f"scale_input_d is legal for kinds f16 and tf32 only, got {kind}"


def test_the_input_accumulator_of_i8_is_not_scaled_although_ptxas_accepts_it():
    verdict = MMA.judge(Mma("i8", 1, scale_input_d=True), "sm_100a")
    assert verdict is not None and verdict.rule == "scale-input-d"


@pytest.mark.parametrize("chip", ["sm_110a", "sm_110f"])
def test_the_input_accumulator_is_not_scaled_on_110(chip):
    verdict = refusal(MMA, Mma("tf32", 2, scale_input_d=True), chip)
    assert verdict.rule == "scale-input-d-target" and f"got {chip}" in verdict.reason


@pytest.mark.parametrize("kind", ["f16", "tf32", "f8f6f4", "i8"])
def test_plain_kinds_have_no_block_scale(kind):
    verdict = refusal(MMA_BLOCK_SCALE, MmaBlockScale(kind, 1), "sm_100a")
    assert verdict.reason == (
        f"kind {kind} has no .block_scale: with it the kind must be one of mxf8f6f4, mxf4, mxf4nvf4"
    )


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_scaled_kinds_need_block_scale(kind):
    assert refusal(MMA, Mma(kind, 1), "sm_100a").rule == "block-scale"


def test_a_scale_vector_size_without_block_scale_is_refused_by_the_kind():
    for kind in ("f16", "mxf4"):
        opcode = f"tcgen05.mma.cta_group::1.kind::{kind}.block32"
        (found,) = [(f, form) for f in tcgen05.FAMILIES if (form := f.parse(opcode, ())) is not None]
        assert found[0].judge(found[1], "sm_100a").rule == "block-scale"


def test_ashift_does_not_go_with_block_scale():
    form = MmaBlockScale("mxf8f6f4", 1, a="tensor", ashift=True)
    assert refusal(MMA_BLOCK_SCALE, form, "sm_100a").reason == "ashift is not legal with block scale"


def test_ashift_does_not_go_with_weight_stationary():
    assert refusal(MMA_WS, MmaWs("f16", "tensor", ashift=True), "sm_100a").reason == (
        "ashift is not legal with weight stationary"
    )


def test_ashift_needs_a_in_tensor_memory():
    verdict = refusal(MMA, replace(F16, ashift=True), "sm_100a")
    assert verdict.reason == "ashift is legal with A in tensor memory only, got A in shared memory"
    assert any(near.split()[2] == "[a]," for near in verdict.nearest)


@pytest.mark.parametrize("use", ["use", "fill"])
def test_ashift_does_not_go_with_collector_use_or_fill(use):
    verdict = refusal(MMA, Mma("f16", 1, "tensor", use, ashift=True), "sm_100a")
    assert verdict.reason == f"collector_a must be discard or lastuse with ashift, got {use}"


def test_weight_stationary_has_no_second_cta():
    assert refusal(MMA_WS, MmaWs("f16", cta_group=2), "sm_100a").reason == (
        "cta_group must be 1 with weight stationary, got 2"
    )


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
@pytest.mark.parametrize("scaled", [False, True])
def test_weight_stationary_has_no_scaled_kinds(kind, scaled):
    verdict = refusal(MMA_WS, MmaWs(kind, block_scale=scaled), "sm_100a")
    assert verdict.reason == (
        f"kind must be one of f16, tf32, f8f6f4, i8, ti16 with weight stationary, got {kind}"
    )


def test_weight_stationary_has_collector_buffers_of_b():
    verdict = refusal(MMA_WS, MmaWs("f16", collector_buffer="a", collector="fill"), "sm_100a")
    assert verdict.rule == "ws-collector"


@pytest.mark.parametrize(
    "kind, size, legal",
    [
        ("mxf8f6f4", "2X", "none, scale_vec::1X, block32"),
        ("mxf8f6f4", "4X", "none, scale_vec::1X, block32"),
        ("mxf8f6f4", "block16", "none, scale_vec::1X, block32"),
        ("mxf4", "1X", "none, scale_vec::2X, block32"),
        ("mxf4", "4X", "none, scale_vec::2X, block32"),
        ("mxf4nvf4", "1X", "scale_vec::2X, scale_vec::4X, block16, block32"),
    ],
)
def test_scale_vector_sizes_go_with_their_kinds(kind, size, legal):
    verdict = refusal(MMA_BLOCK_SCALE, MmaBlockScale(kind, 1, size), "sm_100a")
    spelled = size if size.startswith("block") else f"scale_vec::{size}"
    assert verdict.reason == f"scale_vec must be one of {legal} for kind {kind}, got {spelled}"


def test_mxf4nvf4_needs_a_scale_vector_size():
    verdict = refusal(MMA_BLOCK_SCALE, MmaBlockScale("mxf4nvf4", 1), "sm_100f")
    assert verdict.reason.endswith(", block32 for kind mxf4nvf4, got none")
    assert verdict.nearest[0].startswith("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16")


@pytest.mark.parametrize("group, registers", [(1, 8), (2, 4), (1, 2)])
def test_the_lane_mask_has_four_registers_for_each_cta(group, registers):
    verdict = refusal(MMA, Mma("f16", group, disable_output_lane=registers), "sm_100a")
    assert verdict.reason == (
        f"disable_output_lane must have {4 * group} registers with cta_group::{group}, got {registers}"
    )
    assert len(set(verdict.nearest)) == 3


@pytest.mark.parametrize(
    "form, rule",
    [
        (replace(F16, collector_b="fill"), "collector-b-target"),
        (Mma("f8f6f4", 1, decompress="lut::b"), "decompress-target"),
        (Mma("ti16", 1), "ti16-target"),
    ],
)
def test_what_sm_107_adds_is_on_107_only(form, rule):
    assert refusal(MMA, form, "sm_100a").rule == rule
    assert MMA.judge(form, "sm_107f") is None


def test_decompression_has_its_kinds():
    assert refusal(MMA, Mma("f16", 1, decompress="lut::b"), "sm_107a").rule == "decompress"


def test_copies_have_listed_shapes():
    verdict = refusal(CP, Cp("64x256b", "", 1), "sm_100a")
    assert verdict.reason == (
        "shape must be one of 128x256b, 4x256b, 128x128b, 64x128b, 32x128b, got 64x256b"
    )


@pytest.mark.parametrize(
    "shape, multicast, reason",
    [
        ("64x128b", "", "warpx2::02_13 or warpx2::01_23 for shape 64x128b, got none"),
        ("32x128b", "", "warpx4 for shape 32x128b, got none"),
        ("32x128b", "warpx2::02_13", "warpx4 for shape 32x128b, got warpx2::02_13"),
        ("128x256b", "warpx4", "none for shape 128x256b, got warpx4"),
    ],
)
def test_copies_have_listed_multicasts(shape, multicast, reason):
    assert refusal(CP, Cp(shape, multicast, 1), "sm_100a").reason == f"multicast must be {reason}"


def test_copies_have_listed_formats():
    verdict = refusal(CP, Cp("128x256b", "", 1, "b6x16_p64"), "sm_100a")
    assert verdict.reason == "source_format must be one of none, b6x16_p32, b4x16_p64, got b6x16_p64"


@pytest.mark.parametrize("bits", [8, 64])
def test_commit_masks_have_16_or_32_bits(bits):
    verdict = refusal(COMMIT, Commit(1, "shared::cluster", bits), "sm_107a")
    assert verdict.reason == f"the multicast mask must have 16 bits, or 32 on sm_107a and sm_107f, got {bits}"


def test_commit_masks_of_32_bits_are_on_107_only():
    form = Commit(1, "shared::cluster", 32)
    assert refusal(COMMIT, form, "sm_100a").rule == "multicast-mask"
    assert COMMIT.judge(form, "sm_107f") is None


def test_shift_goes_down_on_architecture_specific_targets():
    assert refusal(SHIFT, Shift(1, "up"), "sm_100a").rule == "direction"
    assert SHIFT.judge(Shift(1), "sm_100f").rule == "chip"


def test_loads_and_stores_have_at_most_128_registers():
    assert refusal(LD, Ld("16x128b", 128), "sm_100a").reason == (
        "num must be at most 64 for shape 16x128b, which fills 128 registers, got 128"
    )
    assert refusal(ST, St("16x256b", 64), "sm_100a").rule == "registers"


def test_reductions_of_integers_have_no_float_flags():
    verdict = refusal(LD_RED, LdRed("32x32b", 2, "max", "s32", abs=True), "sm_103a")
    assert verdict.reason == ".abs and .NaN are legal for f32 only, got .abs with s32"
    assert refusal(LD_SPCOMPRESS, LdSpcompress(4, "max", nan=True), "sm_107a").rule == "nan"


def test_fences_have_their_kinds():
    assert refusal(FENCE, Fence("before"), "sm_100a").rule == "kind"


# Fragments


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
