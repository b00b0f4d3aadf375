"""What the first call of a product compiles: counts of what made it slow."""

import pytest

from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.multiply import product_kernel

WIDE = WarpgroupSchedule((128, 224, 64), 2, 4)
"""Stages D in two parts, and rounds the sums of both before it stores the first."""


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_sums_are_rounded_in_pairs(element):
    """Otherwise, a pair takes three instructions of PTX, and its SASS has a PRMT that changes nothing."""
    ptx = product_kernel.plain(Types(element, element, element), WIDE, "sm_90a").ptx
    assert ptx.count(f"cvt.rn.{element}x2.f32") == 64 * 224 // 128 // 2
    assert f"cvt.rn.{element}.f32" not in ptx
