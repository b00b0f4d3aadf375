"""The model that chooses schedules of `wgmma`: its cycles, its candidates and its choice."""

from collections import Counter
from dataclasses import fields, replace

import model_corrections as correct
import pytest

from weft.dialects.schedule import Types, WarpgroupSchedule, family
from weft.errors import WeftError
from weft.schedules import wgmma, wgmma_kernels
from weft.schedules.h200 import H200, fitted_gpu
from weft.schedules.wgmma_kernels import Kernels
from weft.target import Target

SM_90A = Target.of("sm_90a")
PLAIN = correct.plain(H200)
BF16 = Types("bf16", "bf16", "bf16")
BF16_NN = replace(BF16, transposed=(False, True))
BF16_TN = replace(BF16, transposed=(True, True))
E4M3 = Types("f8E4M3FN", "f8E4M3FN", "bf16")
PROMOTED = Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True)
SCALED = Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True, scaled=True)
TF32 = Types("f32", "f32", "f32")
S8 = Types("i8", "i8", "i32")


def of(m: int, n: int, k: int, warpgroups: int = 2, stages: int = 3, **fields: object) -> WarpgroupSchedule:
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)  # type: ignore[arg-type]


# A fit to new times changes these numbers. Without one, a change of a number is a mistake in the formula.
MODELED = (
    (BF16, (4096, 4096, 4096), of(128, 256, 64), 333920),
    (BF16, (4096, 4096, 4096), of(256, 128, 64), 333920),
    (BF16, (4000, 2000, 3000), of(192, 96, 64, 3, 3), 220729),
    (BF16, (4000, 2000, 3000), of(128, 80, 64), 279383),
    (BF16, (1000, 1000, 1000), of(64, 64, 64, 1, 4), 24892),
    (BF16, (1000, 1000, 1000), of(64, 48, 64, 1, 4), 33737),
    (BF16, (1000, 1000, 1000), of(64, 128, 64, 1, 8), 17556),
    (BF16, (1, 8192, 8192), of(64, 8, 128, 1, 6, swap=True), 67591),
    (BF16, (100, 2112, 7168), of(64, 64, 128, 1, 7, splits=2), 30274),
    (BF16, (100, 2112, 7168), of(64, 64, 128, 1, 7, splits=4), 37340),
    (BF16, (512, 512, 32768), of(128, 128, 128, splits=8), 108173),
    (BF16, (512, 512, 32768), of(128, 128, 128, global_splits=8), 70519),
    (BF16, (512, 512, 32768), of(128, 128, 128, global_splits=3, cluster=(2, 1)), 122154),
    (BF16, (512, 512, 32768), of(128, 192, 64, global_splits=5), 114233),
    (BF16, (4096, 4096, 4096), of(128, 256, 64, cluster=(2, 1)), 320341),
    (BF16, (4096, 4096, 4096), of(128, 256, 64, cluster=(1, 2)), 328560),
    (BF16, (300, 40, 5000), of(64, 64, 64, 1, 7, cluster=(2, 2)), 28636),
    (BF16, (3000, 40, 5000), of(64, 64, 64, 1, 7, cluster=(4, 1)), 32721),
    # As many CTAs as a wave of clusters has, or as many more as make a wave more.
    (BF16, (896, 1216, 1024), of(64, 64, 64, 1, 4, cluster=(2, 1)), 32545),
    (BF16, (1408, 1408, 1024), of(64, 64, 64, 1, 4, cluster=(2, 2)), 49643),
    (BF16, (640, 768, 1024), of(64, 64, 64, 1, 4, cluster=(2, 2)), 14735),
    (TF32, (2048, 2048, 2048), of(128, 256, 32, 2, 4), 96687),
    (S8, (2048, 2048, 2048), of(128, 192, 128, 2, 4), 46032),
    (E4M3, (2048, 2048, 2048), of(128, 256, 128), 28448),
    (PROMOTED, (4096, 4096, 4096), of(256, 128, 128), 186727),
    (PROMOTED, (4096, 4096, 4096), of(256, 128, 128, cluster=(1, 2)), 181618),
    (PROMOTED, (4096, 4096, 4096), of(128, 128, 128, cluster=(1, 2)), 214654),
    (PROMOTED, (1000, 1000, 1000), of(64, 128, 128, 1, 3), 11608),
    (PROMOTED, (1000, 1000, 1000), of(64, 64, 128, 1, 4), 12932),
    (PROMOTED, (1000, 1000, 1000), of(64, 48, 128, 1, 4), 16525),
    (SCALED, (4096, 4096, 4096), of(128, 192, 128), 228658),
    (SCALED, (4096, 4096, 4096), of(128, 128, 128, 2, 4), 224729),
    (SCALED, (1000, 1000, 1000), of(64, 64, 128, 1, 4), 13272),
    (SCALED, (1000, 1000, 1000), of(64, 192, 128, 1, 4), 13438),
    (SCALED, (16, 4096, 7168), of(64, 16, 128, 1, 11, splits=2, swap=True), 19890),
    (SCALED, (64, 4096, 7168), of(128, 64, 128, 2, 4, swap=True), 42889),
    (BF16, (128, 24576, 1536), of(128, 192, 64, 2, 4), 45992),
    (SCALED, (64, 4096, 7168), of(64, 64, 128, 1, 6, splits=2), 22280),
    (BF16, (8192, 16, 8192), of(64, 16, 128, 1, 5), 68169),
    # CTAs divide the rows of panels, and none asks for a part of a row.
    (BF16_TN, (40, 4784, 1632), of(64, 160, 64, 1, 6, cluster=(4, 2)), 21658),
    (BF16_TN, (40, 4784, 1632), of(64, 40, 64, 1, 12, swap=True, cluster=(8, 1)), 14146),
)


@pytest.mark.parametrize(("types", "shape", "schedule", "cycles"), MODELED)
def test_the_model_counts_the_cycles_that_were_fitted(types, shape, schedule, cycles):
    assert schedule.complaint(types, SM_90A) is None
    assert round(wgmma.modeled((schedule,), *shape, types, PLAIN)[0]) == cycles


# Tiles down a group: as many as let those that are computed at a time read the fewest rows and columns.
GROUPED = (
    ((9630, 1032, 11960), of(256, 192, 64, cluster=(4, 2)), 1),
    ((12024, 1184, 7912), of(128, 240, 64, cluster=(8, 1)), 1),
    ((776, 15856, 25552), of(256, 160, 64, swap=True, cluster=(8, 1)), 1),
    ((4968, 6984, 6360), of(192, 160, 64, 3, cluster=(2, 4)), 8),
    ((13016, 1352, 2056), of(192, 176, 64, 3, swap=True, cluster=(4, 2)), 8),  # all rows in any group
    ((1256, 576, 2320), of(64, 96, 64, 1, cluster=(4, 2)), 8),  # all tiles at a time, of which L2 has all
    ((3248, 1328, 4632), of(192, 192, 64, 3, cluster=(2, 1)), 1),
    ((2800, 3592, 2416), of(256, 160, 64, cluster=(1, 2)), 1),
    ((6450, 1736, 29888), of(128, 240, 64, swap=True, cluster=(1, 2)), 16),
    ((360, 19904, 912), of(256, 120, 64, swap=True, cluster=(8, 1)), 1),
    ((8192, 28672, 4096), of(256, 192, 64, cluster=(1, 2)), 16),
    ((2515, 30696, 280), of(128, 256, 64, swap=True, cluster=(4, 2)), 8),  # D is written in whole rows
    ((4096, 4096, 256), of(128, 256, 64), 4),
)


@pytest.mark.parametrize(("shape", "schedule", "group"), GROUPED)
def test_tiles_are_grouped_to_read_the_least(shape, schedule, group):
    m, n, k = shape
    down, across = schedule.swapped(m, n)
    assert wgmma._group(schedule, down, across, 2 * k, H200) == group


# How many candidates a product has, by the rows of blocks in a group. Each shape is at the limits of some
# rules: few rows or columns, few blocks of K for those that share them, few CTAs.
CANDIDATES = (
    (BF16, (8192, 16, 8192), {8: 670}),
    (BF16, (8192, 8192, 1024), {1: 352, 8: 2339, 16: 675}),
    (BF16, (256, 16, 512), {8: 821}),
    (BF16, (64, 16, 2048), {8: 744}),
    (E4M3, (64, 40, 1000), {8: 375}),
    (PROMOTED, (8192, 16, 8192), {8: 257}),
    (SCALED, (100, 128, 1024), {8: 977}),
    (TF32, (130, 40, 256), {8: 1287}),
)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("types", "shape", "groups"), CANDIDATES)
def test_the_candidates_are_those_that_the_rules_leave(types, shape, groups):
    found = list(wgmma.ranked(*shape, types, H200))
    assert len(set(found)) == len(found)
    assert all(schedule.complaint(types, SM_90A) is None for schedule in found)
    assert Counter(schedule.group for schedule in found) == groups


def test_candidates_for_few_sums_and_a_long_k_divide_it_in_every_way():
    found = list(wgmma.ranked(64, 16, 2048, BF16, H200))
    assert {s.splits for s in found} == {1, 2, 4, 8}
    assert {s.global_splits for s in found} == {1, 2, 3, 4, 5, 6, 8, 12, 16}
    assert {s.swap for s in found} == {False, True}


def test_candidates_for_many_sums_have_every_block_and_cluster():
    found = list(wgmma.ranked(8192, 8192, 1024, BF16, H200))
    assert {(s.warpgroups, s.block[0]) for s in found if not s.alternating} == {
        (1, 64),
        (2, 128),
        (2, 256),
        (3, 192),
    }
    for warpgroups in (1, 2):
        tiles = {s.block[1] for s in found if s.swap and s.warpgroups == warpgroups}
        assert tiles == set(range(8, 257, 8))
    assert {s.block[1] for s in found if not s.swap} == set(range(16, 257, 16))  # as TMA writes them
    assert {s.ctas for s in found} == {1, 2, 4, 8}
    assert {s.stages for s in found} == set(range(2, 13))


def test_only_tiles_of_16_bit_products_are_staged_in_parts_for_more_stages():
    for types in (BF16, E4M3, S8, TF32):
        found = list(wgmma.ranked(8192, 8192, 4096, types, H200))
        parted = [s for s in found if s.staging_parts(types) > 1]
        assert bool(parted) == (types is BF16)
        assert all(
            replace(s, stages=s.stages - 1).staging_parts(types) < s.staging_parts(types) for s in parted
        )
        large = {s.block[:2] for s in found if s.rows * s.block[1] > 128 * 128 and s not in parted}
        assert large == ({(256, 136), (256, 144)} if types is BF16 else set())  # with three stages
        assert all(s.stages >= 3 for s in parted)  # 128x256x128 with two stages: 12 % slower than 128x224x64


def test_threads_store_whole_tiles_of_d():
    """Where TMA can't write the rows of D, each part would wait until threads have stored the one before."""
    for (m, n, k), odd in (((2049, 50256, 769), 1), ((6143, 3072, 1535), 7)):
        parts = [wgmma.choose(m, size, k, BF16, H200).staging_parts(BF16) for size in (n, n - odd)]
        assert parts == [2, 1]


def test_the_model_counts_parts_as_the_schedule_does():
    found = list(wgmma.ranked(8192, 8192, 4096, BF16, H200))
    kernels = Kernels.of(found, BF16, H200)
    assert list(kernels.staging_parts) == [s.staging_parts(BF16) for s in found]
    assert set(kernels.staging_parts) == {1, 2, 3, 4, 5, 6}
    undivided = [of(256, columns, 64, stages=3) for columns in (152, 168, 184, 200)]
    assert (
        set(Kernels.of(undivided, BF16, H200).staging_parts)
        == {1}
        == {s.staging_parts(BF16) for s in undivided}
    )
    one, two = of(128, 256, 64), of(128, 256, 64, stages=4)
    less = replace(PLAIN, staged_part=0.0)
    shape = 128, 256, 64  # one tile
    more = wgmma.modeled((two,), *shape, BF16, PLAIN)[0] - wgmma.modeled((two,), *shape, BF16, less)[0]
    assert more == pytest.approx(H200.staged_part)
    assert wgmma.modeled((one,), *shape, BF16, PLAIN)[0] == wgmma.modeled((one,), *shape, BF16, less)[0]


def test_brief_products_leave_room_for_the_next_launch():
    """Of schedules that the model can't tell apart: with nine stages instead of 12, 10 % less time."""
    chosen = wgmma.choose(18, 4040, 1224, BF16, H200)
    assert str(chosen) == "block 64x32x64, 1 warpgroups, 9 stages, group 8, cluster 4x1, swapped"
    assert Kernels.of([chosen], BF16, H200).two_fit[0]
    assert not Kernels.of([replace(chosen, stages=chosen.stages + 1)], BF16, H200).two_fit[0]


@pytest.mark.parametrize(
    ("types", "shape", "turns"),
    [
        (BF16, (8192, 8192, 1024), True),
        (replace(BF16, transposed=(True, True)), (8104, 31960, 384), True),
        (E4M3, (8192, 8192, 512), True),
        (TF32, (8192, 8192, 256), True),
        (TF32, (8192, 8192, 512), False),  # D is written from registers,
        (BF16, (4096, 4096, 4096), False),  # K is long,
        (BF16, (1024, 1024, 512), False),  # a CTA has a single tile,
        (BF16, (8192, 8191, 512), False),  # threads write D,
        (PROMOTED, (8192, 8192, 512), False),  # and sums are promoted.
    ],
)
def test_warpgroups_take_turns_where_writing_takes_long(types, shape, turns):
    assert wgmma.choose(*shape, types, H200).alternating == turns


@pytest.mark.slow
def test_turns_are_considered_with_whole_lines_of_d():
    found = [s for s in wgmma.ranked(8192, 8192, 512, BF16, H200) if s.alternating]
    assert {s.swap for s in found} == {False, True} and {s.block[0] for s in found} == {64, 128}
    assert all(s.splits == s.global_splits == 1 and s.stages >= 3 for s in found)
    assert {s.cluster for s in found} >= {(1, 1), (4, 1), (4, 2)} and max(max(s.cluster) for s in found) == 4
    widths = {s.rows if s.swap else s.block[1] // s.staging_parts(BF16) for s in found}
    assert all(width * 2 % 128 == 0 for width in widths)
    assert list(Kernels.of(found, BF16, H200).staging_parts) == [s.staging_parts(BF16) for s in found]
    direct = [s for s in wgmma.ranked(8192, 8192, 256, TF32, H200) if s.alternating]
    assert direct and all(s.swap and s.block[0] == 64 for s in direct)


def test_a_turn_hides_what_a_tile_takes_to_be_written():
    shape, together = (8192, 8192, 512), of(128, 160, 64, stages=5, swap=True, cluster=(2, 1))
    turns = replace(together, alternating=True)
    slower = replace(PLAIN, store_wait=PLAIN.store_wait + 0.5)
    more = [
        wgmma.modeled((s,), *shape, BF16, slower)[0] - wgmma.modeled((s,), *shape, BF16, PLAIN)[0]
        for s in (together, turns)
    ]
    assert more[1] < 0.2 * more[0]
    beside = replace(PLAIN, written_beside=PLAIN.written_beside + 1)
    assert wgmma.modeled((turns,), *shape, BF16, beside)[0] > wgmma.modeled((turns,), *shape, BF16, PLAIN)[0]
    alone = replace(turns, cluster=(1, 1))  # what a CTA copies itself is slowed down most
    slowed = [
        wgmma.modeled((s,), *shape, BF16, beside)[0] - wgmma.modeled((s,), *shape, BF16, PLAIN)[0]
        for s in (turns, alone)
    ]
    assert slowed[0] < slowed[1]


CHOSEN = (
    (BF16, (8192, 16, 8192), "block 64x16x64, 1 warpgroups, 11 stages, group 8, cluster 2x1"),
    (BF16, (1, 8192, 8192), "block 64x8x128, 1 warpgroups, 6 stages, group 8, swapped"),
    (BF16, (3, 29120, 3328), "block 64x8x128, 1 warpgroups, 6 stages, group 8, swapped"),
    (BF16_NN, (3, 29120, 3328), "block 256x8x64, 2 warpgroups, 3 stages, group 8, swapped"),
    (
        BF16,
        (16, 4096, 7168),
        "block 64x8x128, 1 warpgroups, 6 stages, group 8, cluster 1x2, swapped",
    ),
    (
        BF16,
        (64, 4096, 7168),
        "block 64x80x64, 1 warpgroups, 6 stages, group 8, 2 global splits, cluster 1x4",
    ),
    (BF16, (1024, 1024, 1024), "block 64x128x64, 1 warpgroups, 8 stages, group 8, cluster 2x1"),
    (
        BF16,
        (512, 512, 32768),
        "block 128x128x64, 2 warpgroups, 7 stages, group 1, 8 global splits, cluster 2x1",
    ),
    (BF16, (3000, 40, 5000), "block 64x32x128, 1 warpgroups, 9 stages, group 8, cluster 1x8, swapped"),
    (BF16, (4096, 4096, 4096), "block 128x256x64, 2 warpgroups, 4 stages, group 8, cluster 2x1"),
    (BF16, (8192, 28672, 4096), "block 256x176x64, 2 warpgroups, 3 stages, group 8, cluster 1x2"),
    (BF16, (5200, 976, 11832), "block 256x176x64, 2 warpgroups, 3 stages, group 8, cluster 2x2, swapped"),
    (BF16, (261, 16136, 20432), "block 256x136x64, 2 warpgroups, 3 stages, group 8, cluster 1x2, swapped"),
    (E4M3, (8192, 16, 8192), "block 64x16x128, 1 warpgroups, 11 stages, group 8"),
    (E4M3, (3000, 40, 5000), "block 64x32x256, 1 warpgroups, 9 stages, group 8, cluster 1x8, swapped"),
    (E4M3, (1024, 1024, 1024), "block 128x64x128, 2 warpgroups, 4 stages, group 8"),
    (
        E4M3,
        (8192, 8192, 1024),
        "block 128x192x128, 2 warpgroups, 5 stages, group 8, alternating, cluster 2x1, swapped",
    ),
    (E4M3, (64, 4096, 7168), "block 64x48x256, 1 warpgroups, 7 stages, group 8, cluster 1x8"),
    (PROMOTED, (8192, 16, 8192), "block 64x16x128, 1 warpgroups, 11 stages, group 8"),
    (PROMOTED, (8192, 8192, 1024), "block 192x128x128, 3 warpgroups, 4 stages, group 8, cluster 1x2"),
    (PROMOTED, (4096, 4096, 4096), "block 256x128x128, 2 warpgroups, 3 stages, group 8, cluster 1x2"),
    (
        PROMOTED,
        (512, 512, 32768),
        "block 128x128x128, 2 warpgroups, 7 stages, group 8, 8 global splits, cluster 2x1",
    ),
    (SCALED, (3000, 40, 5000), "block 64x48x128, 1 warpgroups, 12 stages, group 8, 2 splits"),
    (SCALED, (8192, 8192, 8192), "block 192x128x128, 3 warpgroups, 4 stages, group 8, cluster 1x2"),
    (SCALED, (4096, 7168, 16384), "block 256x128x128, 2 warpgroups, 3 stages, group 8, cluster 1x2"),
    (SCALED, (64, 4096, 7168), "block 64x160x128, 1 warpgroups, 8 stages, group 8, 4 splits"),
    (TF32, (8192, 16, 8192), "block 64x16x32, 1 warpgroups, 12 stages, group 8"),
    (TF32, (2048, 2048, 2048), "block 128x256x32, 2 warpgroups, 4 stages, group 8, cluster 2x1"),
    (S8, (256, 256, 8192), "block 64x64x128, 1 warpgroups, 12 stages, group 8, 4 splits"),
    (
        S8,
        (8192, 8192, 1024),
        "block 64x256x128, 2 warpgroups, 5 stages, group 8, alternating, cluster 4x2, swapped",
    ),
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("types", "shape", "schedule"), CHOSEN)
def test_the_model_chooses_the_schedules_that_were_fitted(types, shape, schedule):
    assert str(wgmma.choose(*shape, types, H200)) == schedule


def test_types_that_no_schedule_multiplies_are_named():
    with pytest.raises(WeftError, match=r"^no schedule of wgmma multiplies bf16 and bf16 on sm_80$"):
        wgmma.choose(64, 64, 64, BF16, replace(H200, chip="sm_80"))
    transposed = Types("f8E4M3FN", "f8E5M2", "bf16", transposed=(False, True))
    layout = (
        r"^no schedule of wgmma multiplies f8E4M3FN and f8E5M2 on sm_90a, with an operand that isn't K-major$"
    )
    with pytest.raises(WeftError, match=layout):
        wgmma.choose(64, 64, 64, transposed, H200)


def test_a_chip_without_a_row_has_no_model():
    assert fitted_gpu("sm_90a") is H200
    with pytest.raises(WeftError, match="chip must be one with a chip model, sm_90a, got sm_80"):
        fitted_gpu("sm_80")


@pytest.mark.parametrize(
    "shape", [(1, 64, 64), (16, 8192, 512), (300, 200, 100), (4096, 4096, 4096), (70000, 8, 8)]
)
@pytest.mark.parametrize(
    "types", [("bf16",) * 3, ("f8E4M3FN", "f8E5M2", "bf16"), ("i8", "i8", "i32"), ("f32",) * 3]
)
def test_every_product_has_a_schedule(shape, types):
    chosen = wgmma.choose(*shape, Types(*types), H200)
    assert chosen.complaint(Types(*types), SM_90A) is None


def test_the_model_prefers_what_an_h200_prefers():
    rows, columns, _ = wgmma.choose(8192, 8192, 8192, BF16, H200).block
    assert rows * columns >= 128 * 224
    assert wgmma.choose(1, 8192, 8192, BF16, H200).swap
    assert wgmma.choose(512, 512, 32768, BF16, H200).global_splits > 1
    for k in (8200, 8216):  # each copy of such rows is slow: clusters copy less
        assert wgmma.choose(4096, 4096, k, BF16, H200).ctas > 1


def test_columns_far_beyond_the_product_are_no_candidates():
    """A block's columns are fewer than twice those of the product, or than 32."""
    for n in (40, 200):
        found = {s.block[1] for s in wgmma.ranked(4096, n, 4096, BF16, H200) if not s.swap}
        assert max(found) < 2 * max(n, 16)


@pytest.mark.parametrize("types", [BF16, SCALED])
def test_all_kernels_are_every_tile_with_every_division(types: Types) -> None:
    """Of K and of tiles among CTAs, as far as the columns of a tile can be divided."""
    kernels = wgmma._all_kernels(types, H200)
    one = [(1, cluster, 1) for cluster in wgmma._LARGE_CLUSTERS]
    several = [(1, cluster, n) for cluster in wgmma._CLUSTERS for n in wgmma._GLOBAL_SPLITS]
    divisions = [*((splits, (1, 1), 1) for splits in wgmma._SPLITS), *one, *several]
    wanted = [
        (number, stages, splits, slices, *cluster, False)
        for number, tile in enumerate(kernels.tiles)
        for together in (False, True)
        for stages in next(wgmma._stages([replace(tile, splits=1 + together)], types, H200))
        for splits, cluster, slices in divisions
        if (splits * slices > 1) == together and tile.block[1] % (8 * splits) == 0
    ]
    columns = (kernels.tile, kernels.stages, kernels.splits, kernels.global_splits)
    rest = (kernels.height, kernels.width, kernels.stream_k)
    assert list(zip(*(column.tolist() for column in (*columns, *rest)), strict=True)) == wanted


def test_a_refusal_looks_at_few_other_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each choice for new types meets dozens of tiles whose sums don't fit an equal share of registers."""
    looked: list[int] = []
    has_columns = WarpgroupSchedule._has_columns
    monkeypatch.setattr(
        WarpgroupSchedule, "_has_columns", lambda s, *given: looked.append(1) or has_columns(s, *given)
    )
    complaint = of(192, 256, 64, 3).complaint(BF16) or ""
    assert "block N must be at most" in complaint
    assert len(looked) <= 2


@pytest.mark.parametrize("types", [BF16, SCALED])
def test_a_choice_computes_what_depends_on_tiles_alone_once(types, patch):
    wgmma.choose(4096, 4096, 4096, types, H200)
    patch.setattr(wgmma_kernels, "product_cycles", lambda *_: pytest.fail("computed again"))
    wgmma.choose(4104, 4096, 4096, types, H200)


def test_schedules_are_modeled_at_once_as_one_by_one(patch):
    schedules = of(128, 256, 64), of(64, 48, 64, 1, 4, splits=2), of(256, 192, 64, swap=True)
    sizes = 4000, 2000, 3000
    assert wgmma.modeled(schedules, *sizes, BF16, H200, members=2) == pytest.approx(
        [wgmma.modeled((s,), *sizes, BF16, H200, members=2)[0] for s in schedules], rel=1e-12
    )
    patch.setattr(wgmma_kernels, "product_cycles", lambda *_: pytest.fail("computed again"))
    wgmma.modeled(schedules, 300, 40, 5000, BF16, H200)


def test_the_first_choice_asks_once_for_what_all_schedules_share(patch):
    types, asked = Types("f8E4M3FN", "f8E4M3FN", "f16"), []
    patch.setattr(family, "fields", lambda of: asked.append(of) or fields(of))
    family._field_names.cache_clear()
    assert wgmma.choose(512, 512, 512, types, H200)
    assert len(asked) == 1 and {"input_bits", "block_scaling"} <= vars(types).keys()
