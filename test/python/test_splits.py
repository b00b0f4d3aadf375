"""Split K: partial sums are complete, added correctly, and read only after they are written."""

from dataclasses import replace

import numpy as np
import pytest
from test_warpgroup_schedules import TYPES, Product, of

import weft
from weft.dialects import tile
from weft.dialects.schedule import Types
from weft.launch import kernel_arguments
from weft.layout import Layout
from weft.passes import lower_claims
from weft.passes.builders import emit
from weft.passes.kernels import reduction
from weft.schedules import wgmma
from weft.schedules.h200 import H200
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
        layout = Layout.parse(reduction.share_layout(*part))
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


def test_sums_use_the_memory_of_the_stages():
    alone, split = of(128, 128, 64, stages=6), of(128, 128, 64, stages=6, splits=4)
    f32 = Types("bf16", "bf16", "f32")
    assert split.shared_bytes(f32) == alone.shared_bytes(f32)
    assert replace(split, stages=2).shared_bytes(f32) > replace(alone, stages=2).shared_bytes(f32)
    kernel = Product(outputs="f32").compiled(split)
    assert kernel.shared_bytes == split.shared_bytes(f32)


@pytest.mark.slow
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


@pytest.mark.slow
def test_sums_that_are_put_down_before_all_have_read_the_stages_are_caught(monkeypatch):
    """Planted: no barrier between the last products of one warpgroup and the sums of another."""
    monkeypatch.setattr(reduction, "meet_consumers", lambda warpgroups: None)
    product = Product()
    with pytest.raises(AssertionError, match=r"overwritten|race"):
        product.wrong(product.compiled(of(128, 32, 64, 2, 2, splits=2)), (128, 32, 640))


def test_sums_that_are_read_before_all_have_put_them_down_are_caught(monkeypatch):
    """Planted: no CTA waits for its cluster."""
    monkeypatch.setattr(reduction, "meet_cluster", lambda: None)
    product = Product()
    with pytest.raises((AssertionError, weft.WeftError)):
        product.wrong(product.compiled(of(64, 32, 64, 1, 2, splits=2)), (64, 32, 640))


GLOBAL = (
    of(128, 64, 64, global_splits=2),
    of(64, 64, 64, 1, 3, global_splits=8),
    of(256, 48, 64, 2, 2, global_splits=3),  # each warpgroup has two products of 64 rows, a share 16 columns
    of(64, 32, 64, 1, 3, global_splits=16),  # more parts than shares
    of(64, 16, 64, 1, 4, global_splits=5, swap=True),  # one share for all
    of(64, 64, 64, 1, 3, global_splits=2, cluster=(2, 1)),
    of(64, 32, 64, 1, 3, global_splits=4, cluster=(1, 2), swap=True),
    of(64, 104, 64, 1, 3, global_splits=4),  # 13 pieces: one CTA has a fourth
)


@pytest.mark.parametrize("warpgroups", [1, 2, 3])
@pytest.mark.parametrize("splits", [2, 3, 5, 16])
def test_ctas_deal_all_columns_of_a_tile(warpgroups, splits):
    for n in range(8, 257, 8):
        schedule = of(64 * warpgroups, n, 64, warpgroups, global_splits=splits)
        width, ctas = schedule.dealt
        pieces = n // 8 // width
        assert pieces * width == n // 8 and 1 <= ctas <= min(splits, pieces)
        assert width == 1 or 4 * width * splits <= schedule.added_at_once <= 96


@pytest.mark.parametrize(
    ("schedule", "dealt"),
    [
        (
            of(128, 176, 64, global_splits=2),
            (11, 2),
        ),  # in one round: registers have the sums of half a tile twice
        (of(128, 104, 64, global_splits=4), (1, 4)),  # a prime number of columns, in four rounds
        (of(64, 40, 64, 1, global_splits=12), (1, 5)),
        (of(192, 176, 64, 3, global_splits=2), (2, 2)),  # fewer registers
    ],
    ids=str,
)
def test_ctas_add_up_sums_in_few_rounds(schedule, dealt):
    assert schedule.dealt == dealt


@pytest.mark.each_value(1)
@pytest.mark.parametrize("schedule", GLOBAL, ids=str)
@pytest.mark.parametrize("outputs", ["bf16", "f32"])
def test_parts_that_are_added_up_in_global_memory(schedule, outputs):
    """One kernel for all sizes: what a launch leaves of its workspace is the next one's."""
    product = Product("bf16", outputs, alpha=0.5, beta=2.0)
    kernel = product.compiled(schedule)
    assert kernel.resources.spill_stores == 0
    assert "serialized" not in kernel.compiled.assembled.log
    for shape in ((*schedule.block[:2], 20 * schedule.block[2]), (200, 72, 136), (8, 24, 72)):
        for _ in range(2):
            assert not product.wrong(kernel, shape), shape


@pytest.mark.slow
def test_integers_are_added_up_in_global_memory():
    product = Product("i8", "i32")
    kernel = product.compiled(of(64, 32, 128, 1, 2, global_splits=4))
    assert kernel.launch.workspaces[0].element_bytes == 16
    assert not product.wrong(kernel, (72, 40, 1040))


def launched(kernel: weft.Kernel) -> tuple[np.ndarray, int]:
    """D of random numbers, and how many atomic operations that took."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(size).astype(TYPES["bf16"]) for size in ((64, 1024), (64, 1024)))
    d = np.full((64, 64), np.nan, np.float32)
    report = kernel.emulate(a, b, d)
    assert not report.findings
    return d, report.counters["atom"]


@pytest.mark.slow
def test_who_stops_to_wait_leaves_its_share_to_the_last(monkeypatch):
    """Four CTAs have eight parts: the first waits for one that comes when it has gone on itself. Bits don't
    depend on who adds up; four warps of each part arrive, the last of them turn a counter, and who stops says
    so by another atom.
    """
    kernel = Product("bf16", "f32").compiled(of(64, 64, 64, 1, 3, global_splits=8))
    stopping, atoms = launched(kernel)
    monkeypatch.setattr(kernel_arguments, "_EMULATED_MULTIPROCESSORS", 8)
    waiting, arrivals = launched(kernel)
    assert arrivals == 4 * (8 + 1) < atoms
    assert np.isfinite(waiting).all() and np.array_equal(waiting, stopping)


@pytest.mark.slow
@pytest.mark.parametrize("multiprocessors", [4, 8])
def test_parts_of_a_tile_run_at_the_same_time(monkeypatch, multiprocessors):
    """Of four tiles of four parts one fits, or two: no warp stops to wait."""
    monkeypatch.setattr(kernel_arguments, "_EMULATED_MULTIPROCESSORS", multiprocessors)
    _, atoms = launched(Product("bf16", "f32").compiled(of(64, 16, 64, 1, 3, global_splits=4)))
    assert atoms == 4 * 4 * (4 + 1)


@pytest.mark.slow
def test_a_share_that_nobody_claims_is_caught(monkeypatch):
    """Planted: who stops doesn't say so."""
    monkeypatch.setattr(
        lower_claims._Claim, "_set_stopped", lambda self, known: [known, emit.constant(emit.i1(), 0)]
    )
    product = Product("bf16", "f32")
    assert product.wrong(product.compiled(of(64, 64, 64, 1, 3, global_splits=8)), (64, 64, 1024))


@pytest.mark.slow
def test_sums_of_parts_that_are_read_before_all_are_there_are_caught(monkeypatch):
    """Planted: nobody waits, not even for parts that its own CTA has yet to multiply."""
    monkeypatch.setattr(lower_claims._Claim, "mask", lambda self: self.own)
    product = Product("bf16", "f32")
    kernel = product.compiled(of(64, 64, 64, 1, 3, global_splits=8))
    with pytest.raises(AssertionError, match="global-race"):
        product.wrong(kernel, (64, 64, 1024))


@pytest.mark.slow
def test_a_counter_is_ready_for_the_next_launch(monkeypatch):
    """Planted: the last to come doesn't turn the counter, so that the second launch counts on."""
    product = Product("bf16", "f32")
    monkeypatch.setattr(lower_claims._Claim, "_flip", lambda self, before: None)
    kernel = product.compiled(of(64, 32, 64, 1, 3, global_splits=4))
    assert not product.wrong(kernel, (64, 32, 512))
    assert product.wrong(kernel, (64, 32, 512))


@pytest.mark.slow
def test_global_splits_are_chosen_where_they_win():
    shape = 512, 512, 32768
    assert wgmma.choose(*shape, BF16, H200).global_splits >= 8
    found = {s.global_splits for s in wgmma.ranked(*shape, BF16, H200)}
    assert found == {1, 2, 3, 4, 5, 6, 8, 12, 16}
    # All parts of a full chip's tiles would come one after the other.
    full = wgmma.ranked(8192, 8192, 8192, BF16, H200)
    assert {s.global_splits for s in full} == {1}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "schedule",
    [
        of(128, 64, 64, splits=2),
        of(64, 32, 64, 1, splits=2, swap=True),
        of(128, 64, 64, global_splits=4),
        of(64, 32, 64, 1, global_splits=4, swap=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [72, 70])
def test_what_is_added_after_the_parts(schedule, columns):
    """Bias, activation and residual, of rows that wide accesses can take and of others; sums are exact."""
    m, n, k = 136, columns, 264
    kinds = ["bf16"] * 2 + ["f32"] * 3
    shapes = ["?x?x", "?x?x", "?x?x", "?x", "?x?x"]
    with (
        weft.Module() as module,
        module.func("f", [weft.memref(s[:-1], t) for s, t in zip(shapes, kinds, strict=True)]) as (
            a,
            b,
            d,
            v,
            r,
        ),
    ):
        tile.matmul(a, b, d, transpose_b=True, bias=v, activation="relu", residual=r, schedule=schedule)
    kernel = weft.compile(module, arch="sm_90a")
    rng = np.random.default_rng(5)
    left, right = (rng.integers(-2, 3, size).astype(TYPES["bf16"]) for size in ((m, k), (n, k)))
    bias, rest = (rng.integers(-9, 10, size).astype(np.float32) for size in (n, (m, n)))
    found = np.full((m, n), np.nan, np.float32)
    assert not kernel.emulate(left, right, found, bias, rest).findings
    sums = left.astype(np.float32) @ right.astype(np.float32).T
    assert np.array_equal(found, np.maximum(sums + bias, 0) + rest)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule", [of(64, 64, 128, 1, splits=2), of(64, 64, 128, 1, global_splits=3)], ids=str
)
def test_parts_of_products_with_scales_of_blocks(schedule):
    m, n, k = 72, 136, 640
    types = ["f8E4M3FN", "f8E4M3FN", "f32", "f32", "f32"]
    with (
        weft.Module() as module,
        module.func("f", [weft.memref("?x?", t) for t in types]) as (a, b, d, x, y),
    ):
        tile.matmul(a, b, d, transpose_b=True, promote=True, scale_a=x, scale_b=y, schedule=schedule)
    kernel = weft.compile(module, arch="sm_90a")
    rng = np.random.default_rng(5)
    left, right = (rng.integers(-2, 3, size).astype(TYPES["f8E4M3FN"]) for size in ((m, k), (n, k)))
    of_left, of_right = (2.0 ** rng.integers(-1, 2, size) for size in ((5, m), (2, 5)))
    found = np.full((m, n), np.nan, np.float32)
    scales = of_left.astype(np.float32), of_right.astype(np.float32)
    assert not kernel.emulate(left, right, found, *scales).findings
    whole = left.astype(np.float64) * of_left.repeat(128, 0).T
    whole = whole @ (right.astype(np.float64) * of_right.repeat(128, 0)[:n].repeat(128, 1)).T
    assert np.array_equal(found, whole)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"splits": 2}, {"global_splits": 2}], ids=str)
def test_three_warpgroups_meet_before_they_add_up(fields):
    """The barriers of each warpgroup and of all are different ones."""
    product = Product("f8E4M3FN", "f32", promote=True)
    assert not product.wrong(product.compiled(of(192, 64, 128, 3, 2, **fields)), (200, 72, 1040))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(("k", "consecutive"), [(1024, False), (1032, True)])
def test_slices_take_turns_unless_rows_begin_inside_lines(k, consecutive):
    """The first two K blocks cancel out in one slice of two, or in the sum of both, where others are lost."""
    kernel = Product("bf16", "f32").compiled(of(64, 8, 64, 1, 3, global_splits=2))
    a, b = np.full((64, k), 1 / 64, TYPES["bf16"]), np.ones((8, k), TYPES["bf16"])
    a[:, :64], a[:, 64:128] = 2.0**20, -(2.0**20)
    d = np.full((64, 8), np.nan, np.float32)
    assert not kernel.emulate(a, b, d).findings
    assert (d >= 14).all() if consecutive else (d == 0).all()
