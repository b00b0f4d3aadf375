"""`tile.gemm_async` in tensor memory, in the emulator."""

import pytest
from gemm_async_case import Case, check

from weft.isa.tcgen05 import tensor_layouts


@pytest.mark.parametrize("scope", ["thread", "warp"])
def test_one_cta_multiplies(scope):
    check(Case(scope=scope, accumulates=scope == "warp"))


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_multiplies(m):
    check(Case(m=m, n=64, group=2))


@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128), (128, 256)])
def test_a_weight_stationary_product_multiplies(m, n):
    layout = tensor_layouts.accumulator(m, n, weight_stationary=True)
    check(Case(m=m, n=n, c_layout=layout, attributes={"weight_stationary": True, "collector": "b1::fill"}))
