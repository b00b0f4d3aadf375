"""Splits of K: what parts of it give is added up right, whole, and after it has been written."""

from dataclasses import replace

import pytest
from test_warpgroup_schedules import Product, of

import weft
from weft.dialects.schedule import Types
from weft.layout import Layout
from weft.passes import cluster_sums, wgmma_kernel
from weft.target import Target

BF16 = Types("bf16", "bf16", "bf16")


@pytest.mark.parametrize("warpgroups", [1, 2, 3])
@pytest.mark.parametrize("splits", [2, 4, 8])
@pytest.mark.parametrize("swap", [False, True])
def test_every_share_is_a_fragment_of_whole_vectors(warpgroups, splits, swap):
    for n in range(8 * splits, 257, 8 * splits):
        schedule = of(64 * warpgroups, n, 64, warpgroups, splits=splits, swap=swap)
        if schedule.complaint(BF16, Target.of("sm_90a")) is not None:
            continue
        rows, columns = (n, 64 * warpgroups) if swap else (64 * warpgroups, n)
        part = (rows // splits, 64) if swap else (64 // splits, columns)
        layout = Layout.parse(cluster_sums.share_layout(*part))
        registers = part[0] * part[1] // 128
        assert layout.is_bijective({"warpid": 4, "laneid": 32, "m": registers})
        for lane in (0, 1, 31):
            places = layout.lane_elements(lane, part)
            for first in range(0, registers, 4):
                row, column = places[first]
                assert places[first : first + 4] == [(row, column + i) for i in range(4)] and column % 4 == 0


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("n", [16, 48, 80, 128, 192])
def test_what_a_warp_puts_down_at_once_reaches_every_bank(n, swap):
    """A store of pairs goes half a warp at a time, one of single sums a whole warp."""
    schedule = of(64, n, 64, 1, splits=2, swap=swap)
    stride = schedule.sums_stride
    if swap:
        words = [(2 * (lane % 4)) * stride + lane // 4 for lane in range(32)]
    else:
        words = [lane // 4 * stride + 2 * (lane % 4) + i for lane in range(16) for i in range(2)]
    assert len({word % 32 for word in words}) == 32


def test_sums_take_the_place_of_the_stages():
    alone, split = of(128, 128, 64, stages=6), of(128, 128, 64, stages=6, splits=4)
    f32 = Types("bf16", "bf16", "f32")
    assert split.shared_bytes(f32) == alone.shared_bytes(f32)
    assert replace(split, stages=2).shared_bytes(f32) > replace(alone, stages=2).shared_bytes(f32)
    kernel = Product(outputs="f32").compiled(split)
    assert kernel.shared_bytes == split.shared_bytes(f32)


@pytest.mark.parametrize(
    "schedule", [of(64, 32, 64, 1, splits=2), of(64, 16, 64, 1, splits=2, swap=True)], ids=str
)
@pytest.mark.parametrize("columns", [6, 10, 20, 40])
def test_rows_of_d_that_wide_stores_cannot_write(schedule, columns):
    """Rows at multiples of 4, 8 and 16 bytes, and of a whole vector."""
    for outputs, beta in (("bf16", 0.0), ("f32", 2.0)):
        product = Product("bf16", outputs, beta=beta)
        kernel = product.compiled(schedule)
        assert not product.wrong(kernel, (72, columns, 136))


def test_sums_that_are_put_down_before_all_have_read_the_stages_are_caught(monkeypatch):
    """Planted: no barrier between the last products of one warpgroup and the sums of another."""
    monkeypatch.setattr(wgmma_kernel.WgmmaKernel, "_meet_all", lambda self: None)
    product = Product()
    with pytest.raises(AssertionError, match=r"overwritten|race"):
        product.wrong(product.compiled(of(128, 32, 64, 2, 2, splits=2)), (128, 32, 640))


def test_sums_that_are_read_before_all_have_put_them_down_are_caught(monkeypatch):
    """Planted: no CTA waits for its cluster."""
    monkeypatch.setattr(wgmma_kernel, "_meet_cluster", lambda: None)
    product = Product()
    with pytest.raises((AssertionError, weft.WeftError)):
        product.wrong(product.compiled(of(64, 32, 64, 1, 2, splits=2)), (64, 32, 640))
