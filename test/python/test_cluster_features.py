"""ptxas takes each feature of `weft.isa.cluster_features` on exactly the chips of its row."""

import pytest
from assembling import assembles

from weft.isa import cluster_features
from weft.isa.chips import CHIPS

TO_CLUSTER = "cp.async.bulk.tensor.2d.shared::cluster.global"
TO_CTA = "cp.async.bulk.tensor.2d.shared::cta.global"
BYTES = "mbarrier::complete_tx::bytes"
TILE, ROWS = "[%r1], [%d1, {%r2, %r2}], [%r3];", "[%r1], [%d1, {%r2, %r2, %r2, %r2, %r2}], [%r3];"
CANCEL = f"clusterlaunchcontrol.try_cancel.async.shared::cta.{BYTES}"
INSTRUCTIONS = {
    cluster_features.COPY_OF_PAIR: f"{TO_CLUSTER}.tile.{BYTES}.cta_group::2 {TILE}",
    cluster_features.GATHER: f"{TO_CTA}.tile::gather4.{BYTES} {ROWS}",
    cluster_features.GATHER_TO_CLUSTER: f"{TO_CLUSTER}.tile::gather4.{BYTES} {ROWS}",
    cluster_features.CANCEL: f"{CANCEL}.b128 [%r1], [%r3];",
    cluster_features.CANCEL_FOR_CLUSTER: f"{CANCEL}.multicast::cluster::all.b128 [%r1], [%r3];",
}
# ptxas 13.0 lacks sm_107.
KNOWN = [chip.name for chip in CHIPS.values() if chip.number >= 90 and chip.number != 107]


def kernel(chip, instruction):
    major, minor = max(CHIPS[chip].ptx, (8, 6))
    return f"""
    .version {major}.{minor}
    .target {chip}
    .address_size 64
    .visible .entry k(.param .align 64 .b8 map[128]) {{
      .reg .b32 %r<4>; .reg .b64 %d<2>; .shared .align 128 .b8 s[4096];
      mov.u32 %r1, s; mov.u32 %r2, 0; add.u32 %r3, %r1, 2048; mov.b64 %d1, map;
      {instruction}
      ret;
    }}"""


def test_every_feature_has_an_instruction():
    assert set(INSTRUCTIONS) == set(cluster_features.FEATURES)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("chip", KNOWN)
@pytest.mark.parametrize("feature", INSTRUCTIONS, ids=lambda feature: feature.name)
def test_a_feature_assembles_on_its_chips_alone(feature, chip):
    assert assembles(kernel(chip, INSTRUCTIONS[feature]), chip) == (chip in feature.chips)


def test_a_complaint_names_the_chips():
    feature = cluster_features.GATHER
    assert feature.complaint("sm_100a") is None
    assert str(feature.complaint("sm_90a")) == "needs sm_100 or later, got sm_90a"
