"""The sanitizer's findings in products of wgmma: each mistake is planted in a correct kernel."""

import pytest
from sanitizer_kernels import PRODUCT, check, kernel, run, without


def test_generic_writes_that_the_asynchronous_proxy_cannot_see():
    check(PRODUCT, without("fence.proxy"), "missing-proxy-fence", "wgmma.mma_async")


def test_a_product_of_what_others_have_not_finished_writing():
    check(PRODUCT, lambda a: a[:5] + a[6:], "shared-race", "wgmma.mma_async")


def test_an_operand_that_is_overwritten_before_the_wait():
    def late(lines):
        return [*lines[:14], lines[15], "st.shared.u32 [%r4], %r0;", lines[14]]

    check(PRODUCT, late, "async-source-overwritten", "st.shared.u32")


def test_a_fence_is_missing_before_the_first_product():
    found = check(PRODUCT, without("wgmma.fence"), "wgmma-fence", "wgmma.mma_async")
    assert found.thread.tid == (0, 0, 0)
    assert found.count == 128


def test_accumulators_that_are_written_after_the_fence():
    fault = [*PRODUCT[:12], "add.f32 %f2, %f2, %f3;", *PRODUCT[12:]]
    right = [*fault[:11], fault[12], fault[11], *fault[13:]]
    check(right, lambda lines: fault, "wgmma-fence", "wgmma.mma_async")


@pytest.mark.parametrize(
    "touch", ["add.f32 %f9, %f1, %f1;", "cvt.rn.f32.u32 %f3, %r0;", "st.shared.f32 [s+4100], %f2;"]
)
def test_accumulators_that_are_touched_before_the_wait(touch):
    right = [*PRODUCT[:15], touch, *PRODUCT[15:]]
    fault = [*PRODUCT[:14], touch, *PRODUCT[14:]]
    if touch.startswith("st"):
        right = [line.replace("st.shared.f32 [s+4100]", "st.global.f32 [%d0]") for line in right]
        fault = [line.replace("st.shared.f32 [s+4100]", "st.global.f32 [%d0]") for line in fault]
    at = next(line for line in fault if "%f9" in line or "%f3, %r0" in line or "%d0], %f2" in line)
    found = check(right, lambda lines: fault, "wgmma-in-flight", at)
    assert found.thread.tid == (0, 0, 0)


def test_accumulators_of_the_group_that_is_left_pending():
    second = PRODUCT[12].replace("{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}")
    lines = [*PRODUCT[:10], "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;"]
    lines += [*PRODUCT[10:14], second, PRODUCT[13], PRODUCT[14].replace("0;", "1;")]
    lines += ["add.f32 %f9, %f0, %f1;", PRODUCT[14], *PRODUCT[15:]]
    check(
        lines,
        lambda a: [line.replace("%f9, %f0, %f1", "%f9, %f0, %f4") for line in a],
        "wgmma-in-flight",
        "add.f32",
    )


def test_a_lane_that_comes_late_may_touch_what_the_next_product_will_use():
    """Its warp's other lanes stand at the product, which begins when all are there."""
    leaves = [
        "mov.u32 %r9, 0;",
        "setp.eq.u32 %p1, %r0, 0;",
        "@%p1 bra aside;",
        "back: add.f32 %f9, %f0, %f1;",
    ]
    aside = ["aside: add.u32 %r9, %r9, 1;", "setp.lt.u32 %p2, %r9, 20;", "@%p2 bra aside;", "bra back;"]
    lines = [*PRODUCT[:15], *leaves, *PRODUCT[11:15], "bra end;", *aside, "end: bar.sync 0;"]
    for seed in range(4):
        assert run(kernel(lines), seed=seed).findings == (), seed


def test_an_a_operand_in_registers_that_is_overwritten_before_the_wait():
    product = (
        PRODUCT[12].replace("%d2, %d2,", "{%r20, %r21, %r22, %r23}, %d2,").replace("1, 1, 0, 0", "1, 1, 0")
    )
    lines = [*PRODUCT[:10], "mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;"]
    lines += [*PRODUCT[10:12], product, *PRODUCT[13:15], "add.u32 %r21, %r0, 1;", *PRODUCT[15:]]
    check(lines, lambda a: [*a[:14], a[16], *a[14:16], *a[17:]], "wgmma-in-flight", "add.u32 %r21")


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("touch", "rule"),
    [
        ("mov.f32 %f1, 0f3F800000;", "wgmma-in-flight"),
        ("mov.f32 %f1, %f8;", "wgmma-in-flight"),
        ("mov.f32 %f8, %f1;", None),
        ("mov.f32 %f8, %f1; mov.f32 %f1, %f8;", None),
    ],
)
def test_a_move_before_the_wait_may_rename_sums_but_not_overwrite_them(touch, rule, compiled):
    lines = [PRODUCT[0], "mov.f32 %f8, 0f00000000;", *PRODUCT[1:14], touch, *PRODUCT[14:]]
    found = run(kernel(lines), compiled=compiled).findings
    assert {each.rule for each in found} == ({rule} if rule else set())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("access", ["add.f32 %f9, %f1, %f1;", "add.f32 %f1, %f1, %f1;"])
def test_products_after_an_access_to_their_sums_need_a_fence(access, compiled):
    fault = [*PRODUCT[:15], access, *PRODUCT[12:]]
    right = [*PRODUCT[:15], access, *PRODUCT[11:]]
    assert run(kernel(right), compiled=compiled).findings == ()
    assert {each.rule for each in run(kernel(fault), compiled=compiled).findings} == {"wgmma-fence"}
