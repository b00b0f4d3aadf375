"""The rows of cp.async against ptxas."""

import pytest
from assembling import assembles

from weft.isa.async_copy import CP_ASYNC, Copy, copy_of

TRIED = [Copy(bytes_, cache) for bytes_ in (2, 4, 8, 16, 32) for cache in ("ca", "cg")]


def takes(chip: str, form: Copy) -> bool:
    """Whether ptxas assembles a kernel of this one copy."""
    text = (
        f".version 8.4\n.target {chip}\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n"
        ".reg .b64 %from; .shared .align 32 .b8 tile[32]; ld.param.u64 %from, [p];\n"
        f"{form.ptx} [tile], [%from], {form.bytes}; ret; }}\n"
    )
    return assembles(text, chip)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("form", TRIED, ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    assert (CP_ASYNC.judge(form, chip) is None) == takes(chip, form)


def test_sixteen_bytes_pass_the_l1_cache():
    assert [copy_of(n).cache for n in (4, 8, 16)] == ["ca", "ca", "cg"]
    assert copy_of(16).intrinsic == "llvm.nvvm.cp.async.cg.shared.global.16"
