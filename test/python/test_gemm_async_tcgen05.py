"""`tile.gemm_async` in tensor memory, in the emulator."""

import numpy as np
import pytest
from gemm_async_case import Case, check, lines

from weft.isa.tcgen05 import tensor_layouts


@pytest.mark.each_value(1)
@pytest.mark.parametrize("scope", ["thread", "warp"])
def test_one_cta_multiplies(scope):
    check(Case(scope=scope, accumulates=scope == "warp"))


class Twice(Case):
    """A product that is added twice, by two equal instructions."""

    def multiply(self, *buffers):
        super().multiply(*buffers)
        super().multiply(*buffers)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("scaled", [False, True])
def test_equal_products_are_all_added(scaled):
    case = Twice(n=64, k=32, **MX8, accumulates=True) if scaled else Twice(n=64, k=16, accumulates=True)
    once, found, findings = case.run()
    c = case.values((case.m, case.n), case.sums, 3)
    assert not findings
    np.testing.assert_array_equal(found, 2 * once - c)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_multiplies(m):
    check(Case(m=m, n=64, group=2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128), (128, 256)])
def test_a_weight_stationary_product_multiplies(m, n):
    layout = tensor_layouts.accumulator(m, n, weight_stationary=True)
    check(Case(m=m, n=n, c_layout=layout, attributes={"weight_stationary": True, "collector": "b1::fill"}))


@pytest.mark.each_value(1)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("order", ["KK", "MK", "KN", "MN"])
def test_operands_have_every_swizzle_and_order(swizzle, order):
    flip_a, flip_b = order[0] == "M", order[1] == "N"
    a = lines(64, 128, "f16", swizzle) if flip_a else lines(128, 64, "f16", swizzle)
    b = lines(64, 64, "f16", swizzle)
    check(Case(a_layout=a, b_layout=b, transpose_a=flip_a, transpose_b=not flip_b))


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case",
    [
        Case(a_type="bf16", n=24),
        Case(a_type="f16", sums="f16", n=32),
        Case(a_type="f16", b_type="bf16"),
        Case(a_type="f32", k=32),
        Case(a_type="f8E4M3FN", b_type="f8E5M2", k=128),
        Case(a_type="f8E5M2", sums="f16", k=128),
        Case(a_type="i8", b_type="ui8", sums="i32", k=128),
        Case(
            a_type="ui8",
            sums="i32",
            k=32,
            n=16,
            a_layout=lines(128, 32, "ui8", "32B"),
            b_layout=lines(16, 32, "ui8", "32B"),
        ),
        Case(a_type="f6E2M3FN", b_type="f6E3M2FN", k=128),
        Case(a_type="f4E2M1FN", b_type="f8E4M3FN", k=128, a_layout=lines(128, 128, "f4E2M1FN", padded=True)),
        Case(m=64, n=40),
        Case(
            m=64,
            n=256,
            group=1,
            a_type="f8E4M3FN",
            k=64,
            a_layout=lines(64, 64, "f8E4M3FN", "64B"),
            b_layout=lines(256, 64, "f8E4M3FN", "64B"),
        ),
    ],
    ids=str,
)
def test_every_kind_and_shape_multiplies(case):
    check(case)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("element", "swizzle"), [("f32", "128B_32B"), ("f8E4M3FN", "128B"), ("i8", "64B"), ("f6E2M3FN", "128B")]
)
def test_other_sizes_of_elements_are_mn_major_too(element, swizzle):
    a, b = lines(64, 128, element, swizzle), lines(64, 128, element, swizzle)
    sums = "i32" if element == "i8" else "f32"
    check(Case(n=128, a_type=element, a_layout=a, b_layout=b, transpose_a=True, transpose_b=False, sums=sums))


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("element", "m", "group", "low_bit"),
    [
        ("f16", 128, 1, 0),
        ("f16", 64, 1, 0),
        ("bf16", 128, 2, 0),
        ("f32", 256, 2, 0),
        ("f8E5M2", 128, 1, 0),
        ("f6E3M2FN", 128, 1, 0),
        ("f4E2M1FN", 128, 1, 2),
    ],
)
def test_a_in_tensor_memory_multiplies(element, m, group, low_bit):
    spacing = 2 if element == "f4E2M1FN" else 1
    layout = tensor_layouts.operand_a(m, 64, group, spacing=spacing)
    b_type = "f8E4M3FN" if element[:2] in ("f4", "f6") else element
    b = lines(64 // group, 64, b_type, "64B" if b_type[:2] == "f8" else "128B")
    options = {"a_layout": layout, "a_memory": "tmem", "a_low_bit": low_bit, "b_layout": b}
    check(Case(m=m, a_type=element, b_type=b_type, group=group, attributes={"use_a_tmem": True}, **options))


MX8 = {"a_type": "f8E4M3FN", "scale_type": "f8E8M0FNU"}
FP4 = {"a_type": "f4E2M1FN", "k": 256}


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case",
    [
        Case(**MX8, n=64, k=128),
        Case(**MX8, n=256, k=128, group=2, m=256),
        Case(**MX8, n=128, k=128, group=2, m=128),
        Case(
            **MX8,
            n=136,
            k=32,
            b_type="f8E5M2",
            a_layout=lines(128, 32, "f8E4M3FN", "32B"),
            b_layout=lines(136, 32, "f8E5M2", "32B"),
        ),
        Case(**MX8, b_type="f6E2M3FN", n=64, k=256),
        Case(**FP4, n=64, scale_type="f8E8M0FNU"),
        Case(**FP4, n=64, scale_type="f8E8M0FNU", scale_size=16),
        Case(**FP4, n=192, scale_type="f8E4M3FN", scale_size=16),
        Case(**FP4, n=256, scale_type="f8E4M3FN", scale_size=16, group=2, m=256),
        Case(**FP4, n=64, group=2, scale_type="f8E4M3FN", scale_size=16),
    ],
    ids=str,
)
def test_block_scales_multiply(case):
    check(case)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "case",
    [
        *(Case(**MX8, n=64, k=128, number=number) for number in range(4)),
        Case(**MX8, n=128, k=256, number=2),
        Case(**MX8, b_type="f6E2M3FN", n=64, k=512, number=0),
        Case(**MX8, b_type="f8E5M2", n=96, k=128, number=3),
        Case(**MX8, n=256, k=128, group=2, m=256, number=1),
        Case(**MX8, n=128, k=128, group=2, m=128, number=3),
    ],
    ids=str,
)
def test_128_elements_may_share_a_scale_whose_number_is_known_at_run_time(case):
    check(case)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("scale", "size"), [("f8E8M0FNU", 32), ("f8E4M3FN", 16)])
def test_packed_rows_of_96_multiply_on_sm_103a(scale, size):
    check(Case(**FP4, n=64, m=256, group=2, scale_type=scale, scale_size=size, arch="sm_103a"))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "case",
    [
        Case(m=256, n=48, c_layout="S[(2,128,48):(48@TCol,1@TLane,1@TCol)]"),
        Case(m=128, n=32, c_layout="S[(2,4,16,32):(16@TLane,32@TLane,1@TLane,1@TCol)]"),
        Case(m=128, n=320, k=32, c_layout="S[(128,320):(1@TLane,1@TCol)]"),
        Case(m=512, n=32, group=2, c_layout="S[(2,128,32):(32@TCol,1@TLane,1@TCol)]"),
        # Each CTA has half of B's columns: those of one instruction are two runs of C's.
        Case(m=256, n=512, k=16, group=2, c_layout="S[(128,2,2,128):(1@TLane,128@TCol,256@TCol,1@TCol)]"),
        Case(**MX8, m=256, n=128, k=64, c_layout="S[(2,128,128):(128@TCol,1@TLane,1@TCol)]"),
        Case(
            n=64,
            attributes={"mma_m": 64, "mma_n": 16},
            c_layout="S[(2,4,16,64):(16@TLane,32@TLane,1@TLane,1@TCol)]",
        ),
    ],
    ids=str,
)
def test_a_nest_of_instructions_multiplies(case):
    check(case)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "case",
    [
        Case(n=64, run_time_n=40),
        Case(m=256, n=64, group=2, run_time_n=48),
        Case(**MX8, n=128, k=128, run_time_n=64),
    ],
    ids=str,
)
def test_n_is_known_at_run_time(case):
    check(case)
