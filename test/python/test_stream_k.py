"""Stream-K: the tiles of an incomplete wave are divided among all CTAs, and added in one order."""

from dataclasses import replace

import numpy as np
import pytest
from test_warpgroup_schedules import TYPES, Product, of

import weft
from weft.dialects import tile
from weft.dialects.schedule import MOST_RUNS, OTHER_REGISTERS, Types
from weft.dialects.tile_limits import COUNTER_STRIDE
from weft.isa.chips import register_share
from weft.launch.kernel_arguments import dimensions, workspaces_of
from weft.passes import lower_claims
from weft.passes.kernels import reduction, tile_order
from weft.passes.kernels.reduction import ThreadSums
from weft.target import Target

BF16 = Types("bf16", "bf16", "bf16")
SMALL = of(64, 64, 64, 1, 3, stream_k=True)


def up(a: int, b: int) -> int:
    return -(-a // b)


def divided(tiles: int, blocks: int, ctas: int) -> list[int]:
    """How many parts each tile has that has more than one: from the blocks that every CTA takes."""
    rest = tiles % ctas
    sharing = min(ctas, rest * min(blocks, MOST_RUNS))
    owners = [set[int]() for _ in range(rest)]
    for cta in range(sharing):
        for block in range(cta * rest * blocks // sharing, (cta + 1) * rest * blocks // sharing):
            owners[block // blocks].add(cta)
    return [len(each) for each in owners if len(each) > 1]


def emulated(kernel: weft.Kernel, shape: tuple[int, int, int], ctas: int, numbers=None):
    """D of a product of bf16 (whole numbers unless others are given), the report, and what is right."""
    m, n, k = shape
    rng = np.random.default_rng(m * n + k)
    a, b = numbers or (rng.integers(-1, 2, size) for size in ((m, k), (n, k)))
    a, b = a.astype(TYPES["bf16"]), b.astype(TYPES["bf16"])
    d = np.full((m, n), np.nan, TYPES["bf16" if kernel.launch.arguments[2].dtype == "bf16" else "f32"])
    report = kernel.emulate(a, b, d, grid=(ctas, 1, 1))
    assert not report.findings, report.findings[0].rule
    return d, report, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.fixture(scope="module")
def small() -> weft.Kernel:
    """One kernel for all sizes and grids: what a launch leaves of its workspace is the next one's."""
    kernel = Product("bf16", "bf16").compiled(SMALL)
    assert kernel.resources.spill_stores == 0 and "serialized" not in kernel.compiled.assembled.log
    return kernel


CASES = [
    ((64, 64, 640), 4, [4]),  # fewer tiles than CTAs
    ((128, 64, 704), 3, [2, 2]),  # the second CTA has parts of both tiles, of a K that 3 doesn't divide
    ((192, 64, 320), 2, [2]),  # a wave, and a tile in halves
    ((320, 64, 448), 4, [4]),
    ((192, 72, 440), 5, [5]),  # edges of D and of K
    ((448, 64, 264), 4, [2, 2, 2]),
    ((320, 64, 576), 7, [2, 2, 3, 2, 2]),
    ((128, 128, 640), 4, []),  # whole waves alone
    ((192, 64, 64), 2, []),  # a block of K alone: the tile that is left over is whole
    ((64, 64, 192), 8, [3]),  # no part without a block
    ((64, 64, 1280), 20, [MOST_RUNS]),
    ((200, 264, 72), 7, [2, 2, 2]),  # odd sizes, 20 tiles, parts of one block each
    ((8, 24, 136), 3, [3]),
]


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("shape", "ctas", "parts"), CASES)
def test_a_product_is_right_launch_after_launch(small, shape, ctas, parts):
    tiles = up(shape[0], 64) * up(shape[1], 64)
    assert divided(tiles, up(shape[2], 64), ctas) == parts
    for _ in range(2):
        d, report, right = emulated(small, shape, ctas)
        assert np.array_equal(d.astype(np.float64), right.astype(TYPES["bf16"]).astype(np.float64))
        # Of each part four warps arrive, and of each tile as many turn a counter; who stops says so besides.
        assert report.counters.get("atom", 0) >= 4 * sum(count + 1 for count in parts)
        assert bool(report.counters.get("atom", 0)) == bool(parts)


SCHEDULES = [
    of(128, 64, 64, stream_k=True),
    of(256, 48, 64, 2, 2, stream_k=True),  # each warpgroup has two products of 64 rows
    of(192, 64, 64, 3, 2, stream_k=True),
    of(128, 256, 64, stream_k=True),  # a tile's sums are added up in pieces
    of(64, 16, 64, 1, 4, swap=True, stream_k=True),
    of(128, 32, 64, swap=True, stream_k=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("outputs", ["bf16", "f32"])
def test_every_block_and_epilogue(schedule, outputs):
    product = Product("bf16", outputs, alpha=0.5, beta=2.0)
    kernel = product.compiled(schedule)
    assert kernel.resources.spill_stores <= 32  # a register or some, while parts are added up
    assert "serialized" not in kernel.compiled.assembled.log
    for shape in ((*schedule.block[:2], 7 * schedule.block[2]), (200, 264, 328)):
        assert not product.wrong(kernel, shape), shape


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "schedule"),
    [
        (Product("f16", "f16", (True, False)), of(64, 64, 64, 1, 3, stream_k=True)),
        (Product("f8E4M3FN", "bf16", promote=True), of(128, 64, 128, stream_k=True)),
        (Product("f8E4M3FN", "f32", promote=True), of(64, 64, 128, 1, stream_k=True)),  # blocks in pairs
        (Product("i8", "i32"), of(64, 32, 128, 1, 2, stream_k=True)),
        (Product("f32", "f32"), of(64, 32, 32, 1, 3, stream_k=True)),
    ],
    ids=str,
)
def test_every_kind_of_sum(product, schedule):
    kernel = product.compiled(schedule)
    for blocks in (3, 8):
        assert not product.wrong(kernel, (200, 72, blocks * schedule.block[2] + 16)), blocks


@pytest.mark.slow
@pytest.mark.parametrize("swap", [False, True])
def test_what_is_added_to_the_sums(swap):
    """Bias, activation and residual, scales of blocks, and a batch whose tiles follow each other."""
    schedule, members, m, n, k = of(64, 64, 128, 1, 3, swap=swap, stream_k=True), 3, 72, 136, 640
    types = ["f8E4M3FN", "f8E4M3FN", "f32", "f32", "f32", "f32", "f32"]
    shapes = ["?x?x?", "?x?x?", "?x?x?", "?x?x?", "?x?x?", "?", "?x?x?"]
    with (
        weft.Module() as module,
        module.func("f", [weft.memref(s, t) for s, t in zip(shapes, types, strict=True)]) as arguments,
    ):
        a, b, d, x, y, v, r = arguments
        epilogue = {"bias": v, "activation": "relu", "residual": r}
        scales = {"scale_a": x, "scale_b": y}
        tile.matmul(a, b, d, transpose_b=True, promote=True, **scales, **epilogue, schedule=schedule)
    kernel = weft.compile(module, arch="sm_90a")
    rng = np.random.default_rng(5)
    left, right = (rng.integers(-2, 3, (members, size, k)).astype(TYPES["f8E4M3FN"]) for size in (m, n))
    of_left, of_right = (2.0 ** rng.integers(-1, 2, (members, *size)) for size in ((5, m), (2, 5)))
    bias, rest = (rng.integers(-9, 10, size).astype(np.float32) for size in (n, (members, m, n)))
    found = np.full((members, m, n), np.nan, np.float32)
    scales = of_left.astype(np.float32), of_right.astype(np.float32)
    report = kernel.emulate(left, right, found, *scales, bias, rest, grid=(7, 1, 1))
    assert not report.findings and report.counters["atom"]
    whole = left.astype(np.float64) * of_left.repeat(128, 1).transpose(0, 2, 1)
    columns = right.astype(np.float64) * of_right.repeat(128, 1)[:, :n].repeat(128, 2)
    assert np.array_equal(found, np.maximum(whole @ columns.transpose(0, 2, 1) + bias, 0) + rest)


def numbers(m: int, n: int, k: int):
    """Operands whose sums depend on the order."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((m, k)), rng.standard_normal((n, k))


MANY = (320, 64, 640), 40  # more CTAs than the emulator begins at a time: five tiles in eight parts


@pytest.mark.slow
def test_ctas_need_not_run_at_the_same_time(monkeypatch):
    """Who has a first part adds up. Where it doesn't wait for those that come later it leaves that to the
    last of them, and says so: by an atomic operation more. Bits are the same.
    """
    shape, ctas = MANY
    atoms = 4 * sum(count + 1 for count in divided(5, 10, ctas))
    monkeypatch.setattr(lower_claims, "_POLLS", 1 << 10)  # until the others come, however late they are run
    patient, waited, right = emulated(Product("bf16", "f32").compiled(SMALL), *MANY, numbers(*shape))
    monkeypatch.setattr(lower_claims, "_POLLS", 0)
    hasty, left, _ = emulated(Product("bf16", "f32").compiled(SMALL), *MANY, numbers(*shape))
    assert left.counters["atom"] > waited.counters["atom"] == atoms
    assert np.array_equal(patient, hasty)
    assert np.abs(patient - right).max() < 1e-3


@pytest.mark.slow
def test_a_first_part_that_does_not_wait_is_caught(monkeypatch):
    """Planted: it takes the others for there."""
    monkeypatch.setattr(lower_claims._Counter, "poll", lambda self, enough: lower_claims.emit.value(0))
    monkeypatch.setattr(lower_claims.arith, "extui", lambda kind, value: lower_claims.emit.value(1))
    monkeypatch.setattr(lower_claims._Claim, "mask", lambda self: self.own)
    with pytest.raises(AssertionError, match="global-race"):
        emulated(Product("bf16", "f32").compiled(SMALL), *MANY)


@pytest.mark.slow
def test_slots_that_are_another_tiles_are_caught(monkeypatch):
    slices = tile_order.StreamOrder.slices
    monkeypatch.setattr(
        tile_order.StreamOrder, "slices", lambda self, tile: replace(slices(self, tile), slot=0)
    )
    # Nine tiles in four to six slices: a CTA that has slices of two may write both.
    with pytest.raises(AssertionError, match="global-race"):
        emulated(Product("bf16", "f32").compiled(SMALL), (576, 64, 576), 40)


@pytest.mark.slow
def test_a_part_that_is_left_out_is_caught(monkeypatch):
    """Planted: the run of a CTA ends a block early."""
    order = tile_order.StreamOrder.of

    def planted(*numbers):
        made = order(*numbers)
        return replace(made, end=(made.end[0], tile_order.emit.sub(made.end[1], 1)))

    monkeypatch.setattr(tile_order.StreamOrder, "of", planted)
    d, _, right = emulated(Product("bf16", "f32").compiled(SMALL), (192, 64, 512), 2)
    assert not np.array_equal(d, right)


@pytest.mark.slow
def test_a_counter_is_ready_for_the_next_launch(monkeypatch):
    """Planted: the last to arrive doesn't flip the counter's highest bit."""
    monkeypatch.setattr(lower_claims._Claim, "_flip", lambda self, before: None)
    kernel = Product("bf16", "f32").compiled(SMALL)
    first, second = (emulated(kernel, (64, 64, 512), 4) for _ in range(2))
    assert np.array_equal(first[0], first[2]) and not np.array_equal(second[0], second[2])


def test_grid_and_memory_follow_the_multiprocessors():
    """CTAs are as many as can have parts, and memory is theirs, whatever the number of tiles."""
    kernel = Product().compiled(SMALL)

    def launch(m: int, multiprocessors: int):
        shapes = (m, 512), (64, 512), (m, 64)
        views = [weft.launch.arrays.view(np.zeros(s, TYPES["bf16"])) for s in shapes]
        grid, _ = dimensions(kernel.launch, views, multiprocessors=multiprocessors)
        return grid, [space.shape for space in workspaces_of(kernel.launch, views, grid)]

    counters = 4 * COUNTER_STRIDE
    assert launch(64, 132) == ((MOST_RUNS, 1, 1), [(16 * MOST_RUNS, 128), (counters * MOST_RUNS,)])
    assert launch(6400, 132) == launch(640000, 132) == ((132, 1, 1), [(16 * 132, 128), (counters * 132,)])


@pytest.mark.parametrize(
    "fields", [{"splits": 2}, {"global_splits": 2}, {"cluster": (2, 1)}], ids=lambda each: str(each)
)
def test_stream_k_excludes_other_divisions(fields):
    message = of(128, 64, 64, stream_k=True, **fields).complaint(BF16, Target.of("sm_90a"))
    assert message is not None and "splits, global_splits and cluster must be 1" in message


def test_groups_have_none():
    grouped = replace(BF16, grouped=True)
    assert "stream_k must be false with groups" in (of(128, 64, 64, stream_k=True).complaint(grouped) or "")


def test_d_goes_out_by_tma_as_without():
    with_, without = of(128, 256, 64, stream_k=True), of(128, 256, 64)
    assert with_.staged(BF16) and with_.shared_bytes(BF16) == without.shared_bytes(BF16)
    assert "cp.async.bulk.tensor.2d.global.shared" in Product().compiled(with_).ptx


def at_once(schedule):
    return reduction.columns_at_once(schedule, ThreadSums.of_warpgroups(schedule, BF16))


@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("n", [8, 48, 128, 200, 256])
def test_pieces_are_whole_columns_of_fragments(m, n):
    for warpgroups in (1, 2, 3):
        schedule = of(m * 3 // 4 if warpgroups == 3 else m, n, 64, warpgroups, stream_k=True)
        if schedule.complaint(BF16) is None:
            assert n // 8 % at_once(schedule) == 0


@pytest.mark.parametrize("m", [64, 128, 192, 256])
@pytest.mark.parametrize("n", [8, 48, 128, 200, 256])
def test_two_pieces_fit_in_registers_with_the_sums(m, n):
    for warpgroups in (1, 2, 3):
        schedule = of(m, n, 64, warpgroups, stream_k=True)
        if schedule.complaint(BF16) is None:
            sums, registers = 4 * schedule.vectors, schedule.registers[1] or register_share(schedule.threads)
            piece = sums // (n // 8) * at_once(schedule)
            assert piece <= max(8, sums // (n // 8)) or sums + 2 * piece + OTHER_REGISTERS <= registers
            assert piece <= 32
