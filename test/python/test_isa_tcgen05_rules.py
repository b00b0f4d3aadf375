"""The rules of the `tcgen05` tables: the message of each, for forms that ptxas refuses, too."""

from dataclasses import replace
from itertools import product

import certify
import pytest

from weft.isa import tcgen05
from weft.isa.tcgen05.control import COMMIT, FENCE, Commit, Fence
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
from weft.isa.tcgen05.family import ALL, ARCH_SPECIFIC
from weft.isa.tcgen05.mma_forms import Mma, MmaBlockScale, MmaSp, MmaSpBlockScale, MmaWs
from weft.isa.tcgen05.mma_rows import MMA, MMA_BLOCK_SCALE, MMA_SP, MMA_SP_BLOCK_SCALE, MMA_WS

F16 = Mma("f16", 1)


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
