"""fp8 with block scales, and groups of rows, in every schedule, in the emulator with its sanitizer."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from machine_code import brought_to_uniform_registers

import weft
from weft.dialects import tile
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.passes.builders import emit
from weft.passes.kernels import accumulator, feed, promoted_scales, wgmma_kernel
from weft.target import Target

F8 = ml_dtypes.float8_e4m3fn
SCALED = Types("f8E4M3FN", "f8E4M3FN", "f32", promoted=True, scaled=True)


def of(m, n, k=128, warpgroups=2, stages=3, **fields):
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)


def compiled(schedule, ranks, grouped=False, output="f32", scaled=True):
    """A kernel of fp8 with scales, or promoted without; `ranks` are those of A, B, D, and of the scales."""
    kinds = list(zip(ranks, ("f8E4M3FN", "f8E4M3FN", output, "f32", "f32"), strict=True))
    with weft.Module() as module:
        types = [weft.memref("x".join("?" * rank), kind) for rank, kind in kinds]
        types += [weft.memref("?", "i32")] if grouped else []
        with module.func("scaled", types) as (a, b, d, scale_a, scale_b, *groups):
            operands = {"scale_a": scale_a, "scale_b": scale_b} if scaled else {"promote": True}
            operands |= {"groups": groups[0]} if groups else {}
            tile.matmul(a, b, d, transpose_b=True, schedule=schedule, **operands)
    return weft.compile(module, arch="sm_90a")


class Operands:
    """Random operands whose products are exact: small integers, and powers of two for scales."""

    def __init__(self, m, n, k, members_a=(), members_b=()):
        rng = np.random.default_rng(m + n + k)
        self.blocks = -(-k // 128)
        self.a, self.b = (
            rng.integers(-2, 3, size).astype(F8) for size in ((*members_a, m, k), (*members_b, n, k))
        )
        self.scale_a = np.exp2(rng.integers(-1, 2, (*members_a, self.blocks, m))).astype(np.float32)
        scales_of_b = (*members_b, -(-n // 128), self.blocks)
        self.scale_b = np.exp2(rng.integers(-1, 2, scales_of_b)).astype(np.float32)

    def scaled(self):
        """A and B in float64, each element times its scale."""
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        of_a = np.repeat(np.swapaxes(self.scale_a, -1, -2), 128, -1)[..., : a.shape[-1]]
        of_b = np.repeat(np.repeat(self.scale_b, 128, -2), 128, -1)
        return a * of_a, b * of_b[..., : b.shape[-2], : b.shape[-1]]


def emulated(kernel, operands, d, *groups):
    findings = kernel.emulate(operands.a, operands.b, d, operands.scale_a, operands.scale_b, *groups).findings
    assert not findings, [each.rule for each in findings]


SCHEDULES = (
    of(128, 64),
    of(256, 128),  # two products of 64 rows in turn
    of(128, 192),  # tiles that begin within a block of B, and end in the next
    of(128, 112),
    of(192, 128, warpgroups=3, stages=2),
    of(128, 16, swap=True),
    of(64, 64, warpgroups=1, splits=2),
    of(64, 64, warpgroups=1, global_splits=2),
    of(128, 128, cluster=(2, 1)),
    of(64, 64, warpgroups=1, cluster=(1, 2)),
)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_blocks_are_scaled_in_every_schedule(schedule):
    kernel = compiled(schedule, (2, 2, 2, 2, 2))
    assert kernel.resources.spill_stores <= 8 and "serialized" not in kernel.compiled.assembled.log
    for m, n, k in ((*schedule.block[:2], 512), (200, 392, 400), (8, 24, 144)):
        operands = Operands(m, n, k)
        d = np.full((m, n), np.nan, np.float32)
        emulated(kernel, operands, d)
        a, b = operands.scaled()
        assert (d == a @ b.T).all(), (m, n, k)


IN_FLIGHT = (
    of(64, 64, warpgroups=1, stages=2),
    of(128, 64),
    of(64, 24, warpgroups=1, swap=True),
    of(64, 64, warpgroups=1, splits=2),
    of(64, 64, warpgroups=1, global_splits=2),
)


IN_PARTS = (  # the next block is awaited behind the last part's sums
    of(256, 64, stages=2),
    of(128, 64, warpgroups=1, stages=2),
    of(128, 64, warpgroups=1, stages=2, splits=2),
    of(128, 64, warpgroups=1, stages=2, global_splits=2),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "products"), [*((s, 2) for s in IN_FLIGHT), *((s, 1) for s in IN_PARTS)], ids=str
)
def test_blocks_are_added_up_however_many_there_are(schedule, products):
    assert schedule.products(SCALED) == products
    kernel = compiled(schedule, (2, 2, 2, 2, 2))
    for blocks in (1, 2, 3, 4, 5):
        operands = Operands(72, 64, 128 * blocks)
        d = np.full((72, 64), np.nan, np.float32)
        emulated(kernel, operands, d)
        a, b = operands.scaled()
        assert (d == a @ b.T).all(), blocks


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("warpgroups", "swap"), [(1, False), (1, True), (2, False), (2, True), (3, False)])
def test_two_products_take_no_more_registers_than_there_are(warpgroups, swap, scaled):
    def schedule(n):
        return of(64 * warpgroups, n, warpgroups=warpgroups, stages=2, swap=swap)

    types = replace(SCALED, scaled=scaled)
    n = max(n for n in range(8, 257, 8) if schedule(n).products(types) == 2)
    kernel = compiled(schedule(n), (2, 2, 2, 2, 2), scaled=scaled)
    assert not kernel.resources.spill_stores and "serialized" not in kernel.compiled.assembled.log


@pytest.mark.slow
def test_nothing_in_the_loop_waits_for_the_product_that_was_started_last():
    """ptxas waits for all where registers under way must be moved, and says so nowhere."""
    lines = compiled(of(64, 64, warpgroups=1), (2, 2, 2, 2, 2)).sass.splitlines()
    products = [at for at, line in enumerate(lines) if "QGMMA" in line]
    assert len(products) == 4 * 4  # the first block, two of the loop, and the last
    assert len({lines[at].split()[2] for at in products}) == 2  # where their sums begin
    waits = [line for line in lines[products[0] : products[11]] if "WARPGROUP.DEPBAR" in line]
    assert waits and all("gsb0, 0x1" in line for line in waits)


@pytest.mark.slow
def test_a_loop_around_parts_branches_while_a_product_is_under_way():
    kernel = compiled(of(256, 128, cluster=(1, 2)), (2, 2, 2, 2, 2))
    assert not kernel.resources.spill_stores and "serialized" not in kernel.compiled.assembled.log
    lines = kernel.sass.splitlines()
    products = [at for at, line in enumerate(lines) if "QGMMA" in line]
    assert len(products) == 8 * 2  # two blocks of the loop, of which the second may be left out
    assert len({lines[at].split()[2] for at in products}) == 1  # where their sums begin
    for last in (products[7], products[15]):
        after = lines[last:]
        branch, wait = (next(at for at, line in enumerate(after) if w in line) for w in ("BRA", "DEPBAR"))
        assert branch < wait


UNIFORM = (
    of(256, 128),
    of(192, 128, warpgroups=3),
    of(128, 192),
    of(128, 64),  # a block is added up beside the next
    of(64, 64, warpgroups=1),
    of(64, 192, warpgroups=1),
    of(64, 32, warpgroups=1, swap=True),
    of(64, 64, warpgroups=1, global_splits=2),
    of(256, 128, cluster=(1, 2)),
)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", UNIFORM, ids=str)
def test_descriptors_are_reckoned_in_uniform_registers(schedule):
    """ptxas does so where it knows that a warp's lanes have the same: else a product waits for some 40
    instructions, and sums are scaled in registers of one bank.
    """
    found = brought_to_uniform_registers(compiled(schedule, (2, 2, 2, 2, 2)).sass, "QGMMA")
    # Those of a scale's place and of a barrier's; each of a product's instructions would have up to four.
    assert len(found) <= 2, "\n".join(found)


GROUPED = (
    of(128, 64),
    of(64, 64, warpgroups=1, cluster=(2, 1)),
    of(64, 64, warpgroups=1, cluster=(1, 2)),
    of(128, 16, swap=True),
)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", GROUPED, ids=str)
def test_rows_with_a_matrix_of_their_own(schedule):
    counts = (100, 0, 128, 30)  # the rest of each 128 rows has none
    operands = Operands(512, 136, 304, (), (4,))
    groups = np.full(512, -1, np.int32)
    for number, count in enumerate(counts):
        groups[128 * number : 128 * number + count] = number
    d = np.full((512, 136), np.nan, np.float32)
    emulated(compiled(schedule, (2, 3, 2, 2, 3), grouped=True), operands, d, groups)
    a, b = operands.scaled()
    for number, count in enumerate(counts):
        rows = slice(128 * number, 128 * number + count)
        assert (d[rows] == a[rows] @ b[number].T).all(), number
    assert np.isnan(d[128:256]).all()


@pytest.mark.slow
@pytest.mark.parametrize("schedule", GROUPED, ids=str)
def test_products_with_rows_of_their_own(schedule):
    counts = np.array((100, 0, 128, 30), np.int32)
    operands = Operands(160, 136, 304, (4,), (4,))
    d = np.full((4, 160, 136), np.nan, np.float32)
    emulated(compiled(schedule, (3,) * 5, grouped=True), operands, d, counts)
    a, b = operands.scaled()
    for number, count in enumerate(counts):
        assert (d[number, :count] == a[number, :count] @ b[number].T).all(), number
        assert np.isnan(d[number, -(-count // 128) * 128 :]).all()


@pytest.mark.slow
def test_scales_released_by_one_warp_for_all_are_caught(monkeypatch):
    """Planted: a stage is released as if only products had read it."""
    make_ring = feed.make_ring
    monkeypatch.setattr(wgmma_kernel, "make_ring", lambda schedule, scaled: make_ring(schedule, False))
    kernel = compiled(of(128, 64), (2, 2, 2, 2, 2))
    with pytest.raises(AssertionError, match="shared-race"):
        emulated(kernel, Operands(128, 64, 1024), np.zeros((128, 64), np.float32))


@pytest.mark.slow
def test_scales_read_before_the_launch_before_is_done_are_caught(monkeypatch):
    """Planted: the producer waits for the previous launch, the consumers don't."""
    monkeypatch.setattr(wgmma_kernel, "await_previous_launch", lambda: None)
    kernel = compiled(of(128, 64), (2, 2, 2, 2, 2))
    with pytest.raises(AssertionError, match="griddepcontrol-wait"):
        emulated(kernel, Operands(128, 64, 256), np.zeros((128, 64), np.float32))


@pytest.mark.slow
def test_a_stage_released_a_block_early_is_caught(monkeypatch):
    """Planted: a stage is released when its products start, as if they were done."""
    start, release = accumulator._Blocks.start, feed.Feed.release

    def early(self, part, stage, into):
        products = start(self, part, stage, into)
        release(self.feed, stage)
        return products

    monkeypatch.setattr(accumulator._Blocks, "start", early)
    monkeypatch.setattr(feed.Feed, "release", lambda *_: None)
    kernel = compiled(of(64, 64, warpgroups=1, stages=2), (2, 2, 2, 2, 2), scaled=False)
    operands = Operands(64, 64, 1024)
    with pytest.raises(AssertionError, match="async-source-overwritten"):
        emulated(kernel, operands, np.zeros((64, 64), np.float32))


@pytest.mark.slow
def test_products_added_up_before_they_are_done_are_caught(monkeypatch):
    """Planted: where one product may stay under way, the wait leaves two."""
    wait = accumulator.tile.wait_gemm
    monkeypatch.setattr(accumulator.tile, "wait_gemm", lambda pending=0: wait(pending=2 * pending))
    kernel = compiled(of(64, 64, warpgroups=1), (2, 2, 2, 2, 2))
    with pytest.raises(AssertionError, match="wgmma-in-flight"):
        emulated(kernel, Operands(64, 64, 256), np.zeros((64, 64), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("warpgroups", [1, 2])
def test_a_scale_of_the_block_before_is_caught(monkeypatch, warpgroups):
    """Planted: B's scales aren't read ahead, so that each block has those of the one before."""
    of_b = promoted_scales.TileScales.of_b

    def late(self, number):
        return of_b(self, 0 if isinstance(number, int) else emit.sub(number, 1))

    monkeypatch.setattr(promoted_scales.TileScales, "of_b", late)
    operands = Operands(128, 64, 512)
    d = np.zeros((128, 64), np.float32)
    schedule = of(64 * warpgroups, 64, warpgroups=warpgroups)
    emulated(compiled(schedule, (2, 2, 2, 2, 2)), operands, d)
    a, b = operands.scaled()
    assert (d != a @ b.T).any()


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [of(256, 32, swap=True), of(128, 128), of(128, 192, splits=2)], ids=str)
def test_more_blocks_of_k_than_a_warp_has_lanes(schedule):
    """The scales of B are read for 32 blocks at a time: the last of one turn, and the first of the next."""
    kernel = compiled(schedule, (2, 2, 2, 2, 2))
    m, n, _ = schedule.block
    for blocks in (32, 33, 34, 69):
        operands = Operands(m, n, 128 * blocks)
        d = np.full((m, n), np.nan, np.float32)
        emulated(kernel, operands, d)
        a, b = operands.scaled()
        assert (d == a @ b.T).all(), blocks


@pytest.mark.parametrize(
    ("schedule", "types", "message"),
    [
        (of(128, 64, 64), SCALED, "block K must be 128, after which sums are promoted, got 64"),
        (of(384, 96), SCALED, "at most 256 rows of D, whose scales one copy brings, got 384"),
        (of(256, 192), SCALED, "got 128 x 192 and 64 x 192 in flight"),
        (of(192, 256, 64, 3), Types("bf16", "bf16", "f32"), "block N must be at most 200 with 3 warpgroups"),
        (
            of(192, 256, 64, 3),
            Types("bf16", "bf16", "bf16"),
            "block N must be at most 192 with 3 warpgroups",
        ),
        (
            of(64, 100, 64, 1),
            Types("f16", "f16", "f32", (False, True)),
            "nearest legal: wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16, "
            "wgmma.mma_async.sync.aligned.m64n104k16.f32.f16.f16",
        ),
        (
            of(64, 64, warpgroups=1, splits=2),
            Types("bf16", "bf16", "bf16", grouped=True),
            "splits must be 1 with groups, got 2",
        ),
        (
            of(64, 64, warpgroups=1, global_splits=3),
            Types("bf16", "bf16", "bf16", grouped=True),
            "global_splits must be 1 with groups, got 3",
        ),
        (of(256, 64), Types("bf16", "bf16", "bf16", grouped=True), "must divide 128 with groups, got 256"),
    ],
)
def test_what_cannot_be_lowered_is_refused(schedule, types, message):
    assert message in (schedule.complaint(types, Target.of("sm_90a")) or "")
