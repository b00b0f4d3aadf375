"""Rows beside the tensor-core tables, against ptxas: cp.async, createpolicy, stores under a predicate, and
features of clusters.
"""

import pytest
from assembling import assembles

from weft.dialects.tile_copies import TensorMapOp
from weft.isa import cluster_features
from weft.isa.async_copy import CP_ASYNC, Copy, copy_of
from weft.isa.chips import CHIPS
from weft.isa.family import operand_text
from weft.isa.global_stores import STORE, Store
from weft.isa.l2_cache import CREATEPOLICY, Policy
from weft.isa.tensor_map import L2_PROMOTIONS

COPIES = [Copy(bytes_, cache) for bytes_ in (2, 4, 8, 16, 32) for cache in ("ca", "cg")]
POLICIES = [Policy(f"evict_{name}") for name in ("normal", "first", "last", "unchanged", "never")]
STORES = [Store(words) for words in (1, 2, 3, 4, 8)]
FORMS = [(CP_ASYNC, COPIES), (CREATEPOLICY, POLICIES), (STORE, STORES)]
ROWS = [(family, form) for family, forms in FORMS for form in forms]

TO_CLUSTER = "cp.async.bulk.tensor.2d.shared::cluster.global"
TO_CTA = "cp.async.bulk.tensor.2d.shared::cta.global"
BYTES = "mbarrier::complete_tx::bytes"
TILE, GATHERED = "[%r1], [%d1, {%r2, %r2}], [%r3];", "[%r1], [%d1, {%r2, %r2, %r2, %r2, %r2}], [%r3];"
CANCEL = f"clusterlaunchcontrol.try_cancel.async.shared::cta.{BYTES}"
INSTRUCTIONS = {
    cluster_features.COPY_OF_PAIR: f"{TO_CLUSTER}.tile.{BYTES}.cta_group::2 {TILE}",
    cluster_features.GATHER: f"{TO_CTA}.tile::gather4.{BYTES} {GATHERED}",
    cluster_features.GATHER_TO_CLUSTER: f"{TO_CLUSTER}.tile::gather4.{BYTES} {GATHERED}",
    cluster_features.CANCEL: f"{CANCEL}.b128 [%r1], [%r3];",
    cluster_features.CANCEL_FOR_CLUSTER: f"{CANCEL}.multicast::cluster::all.b128 [%r1], [%r3];",
}
# ptxas 13.0 lacks sm_107.
WITH_CLUSTERS = [chip.name for chip in CHIPS.values() if chip.number >= 90 and chip.number != 107]


def takes(chip: str, instruction: str, version: tuple[int, int] = (8, 4)) -> bool:
    """Whether ptxas assembles a kernel of one instruction."""
    text = f"""
    .version {version[0]}.{version[1]}
    .target {chip}
    .address_size 64
    .visible .entry k(.param .align 64 .b8 map[128]) {{
      .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .align 128 .b8 s[4096];
      mov.u32 %r1, s; mov.u32 %r2, 0; add.u32 %r3, %r1, 2048; mov.b64 %d1, map; mov.b64 %d2, 0;
      {instruction}
      ret;
    }}"""
    return assembles(text, chip)


def written(form: Copy | Policy | Store) -> str:
    """An instruction of a form."""
    if isinstance(form, Copy):
        return f"{form.ptx} [s], [%d2], {form.bytes};"
    if isinstance(form, Policy):
        return f"{form.ptx} {form.assembly.format(policy='%d3')};"
    names = {"address": ["%d2"], "value": [f"%r{number}" for number in range(form.words)]}
    return f"{form.guard.format(predicate='%p')} {form.ptx} {operand_text(form, names)};"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize(("family", "form"), ROWS, ids=lambda each: getattr(each, "name", str(each)))
def test_the_table_and_ptxas_agree(family, form, chip):
    assert (family.judge(form, chip) is None) == takes(chip, written(form))


def test_sixteen_bytes_pass_the_l1_cache():
    assert [copy_of(n).cache for n in (4, 8, 16)] == ["ca", "ca", "cg"]
    assert copy_of(16).intrinsic == "llvm.nvvm.cp.async.cg.shared.global.16"


@pytest.mark.each_value(1)
@pytest.mark.parametrize("form", list(CREATEPOLICY.forms()), ids=str)
def test_the_first_version_of_ptx_that_has_a_policy(form):
    major, minor = CREATEPOLICY.table[form].ptx
    assert takes("sm_80", written(form), (major, minor))
    assert not takes("sm_80", written(form), (major, minor - 1))


def test_the_attributes_of_a_tensor_map_name_all_that_is_legal():
    """Its documentation does, for which the docstring is written."""
    for name in (*L2_PROMOTIONS, *CREATEPOLICY.values("priority")):
        assert f'"{name}"' in (TensorMapOp.__doc__ or "")


def test_what_is_written_is_read():
    for form in CREATEPOLICY.forms():
        assert Policy.parse(form.ptx, ("%p", "1.0")) == form == Policy.parse(form.ptx)
    assert Policy.parse("createpolicy.fractional.L2::evict_first.b64", ["%p", "0.5"]) is None
    assert Policy.parse("createpolicy.cvt.L2.b64", ["%p", "%q"]) is None
    for form in STORE.forms():
        assert Store.parse(form.ptx, ("[%a]", "%r")) == form == Store.parse(form.ptx)
    assert Store.parse("st.shared.b32", ["[%a]", "%r"]) is None
    assert Store.parse("st.global.b32", ["[%a]"]) is None


def test_every_feature_of_clusters_has_an_instruction():
    assert set(INSTRUCTIONS) == set(cluster_features.FEATURES)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("chip", WITH_CLUSTERS)
@pytest.mark.parametrize("feature", INSTRUCTIONS, ids=lambda feature: feature.name)
def test_a_feature_assembles_on_its_chips_alone(feature, chip):
    version = max(CHIPS[chip].ptx, (8, 6))
    assert takes(chip, INSTRUCTIONS[feature], version) == (chip in feature.chips)


def test_a_complaint_names_the_chips():
    feature = cluster_features.GATHER
    assert feature.complaint("sm_100a") is None
    assert str(feature.complaint("sm_90a")) == "needs sm_100 or later, got sm_90a"
