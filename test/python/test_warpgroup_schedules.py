"""Products for `wgmma` in the emulator: every layout of A and B, every way to lay a block over warpgroups and
clusters, sizes that don't divide; each in text, PTX and numbers. A finding of the sanitizer ends a run.
"""

import math
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from machine_code import brought_to_uniform_registers

import weft
from weft.dialects import tile
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.isa.chips import WARPGROUP
from weft.launch import arrays
from weft.launch.kernel_arguments import dimensions
from weft.passes import lower_gemm_async
from weft.passes.builders import emit
from weft.passes.kernels import feed, wgmma_kernel
from weft.target import Target

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "i32": np.int32,
}
NT = (False, True)
SLOW = pytest.mark.slow


@dataclass(frozen=True)
class Product:
    """What a product is apart from its shape; transposes of A and of B."""

    inputs: str = "bf16"
    outputs: str = "bf16"
    transposed: tuple[bool, bool] = NT
    alpha: float = 1.0
    beta: float = 0.0
    promote: bool = False

    def compiled(self, schedule: WarpgroupSchedule) -> weft.Kernel:
        """A kernel for matrices of any size."""
        kinds = [self.inputs, self.inputs, self.outputs, *([self.outputs] if self.beta else [])]
        with (
            weft.Module() as module,
            module.func("product", [weft.memref("?x?", k) for k in kinds]) as matrices,
        ):
            tile.matmul(
                *matrices,
                transpose_a=self.transposed[0],
                transpose_b=self.transposed[1],
                alpha=self.alpha,
                beta=self.beta,
                promote=self.promote,
                schedule=schedule,
            )
        return weft.compile(module, arch="sm_90a")

    def wrong(self, kernel: weft.Kernel, shape: tuple[int, int, int]) -> int:
        """How many elements of D aren't as NumPy has them; sums are exact in every type."""
        m, n, k = shape
        rng = np.random.default_rng(m * n + k)
        a, b = (rng.integers(-1, 2, size).astype(np.float64) for size in ((m, k), (k, n)))
        c = rng.integers(-4, 5, (m, n)).astype(TYPES[self.outputs])
        d = np.full((m, n), 555.0).astype(TYPES[self.outputs])
        given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), self.transposed, strict=True)]
        arguments = [*(x.astype(TYPES[self.inputs]) for x in given), d, *([c] if self.beta else [])]
        findings = kernel.emulate(*arguments).findings
        assert not findings, findings[0].rule
        want = self.alpha * (a @ b) + (self.beta * c.astype(np.float64) if self.beta else 0)
        return int((d.astype(np.float64) != want).sum())


def of(m: int, n: int, k: int, warpgroups: int = 2, stages: int = 3, **fields: object) -> WarpgroupSchedule:
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)  # type: ignore[arg-type]


SCHEDULES = (
    of(128, 256, 64),
    of(64, 128, 64, 1, 4),
    of(256, 128, 64),  # each warpgroup has two products of 64 rows
    of(192, 96, 64, 3),
    of(128, 80, 128, stages=2),  # a row of two panels
    of(128, 32, 32, stages=5, group=2),  # rows of 64 bytes
    of(128, 32, 16),  # rows of 32 bytes
    of(128, 16, 64, swap=True),
    of(64, 64, 64, 1, 4, swap=True),
    of(64, 48, 64, 1, 4),  # no power of two: a block's products end before the next one's start
    of(64, 24, 64, 1, 4, swap=True),
    of(128, 128, 64, splits=2),
    of(64, 64, 128, 1, 2, splits=4),
    of(64, 16, 64, 1, 4, splits=2, swap=True),
    of(128, 128, 64, cluster=(2, 1)),
    of(128, 64, 64, cluster=(1, 2)),
    of(64, 64, 64, 1, 3, cluster=(2, 2)),
    of(128, 32, 64, 2, 3, cluster=(1, 2), swap=True),
)


BF16 = Types("bf16", "bf16", "bf16")
SM_90A = Target.of("sm_90a")
PARTS = (
    (of(128, 256, 64, stages=4), 2),
    (of(256, 160, 64, swap=True, cluster=(1, 2)), 2),
    (of(192, 192, 64, 3, 4), 3),
    (of(256, 160, 64, stages=4), 5),
    (of(192, 168, 64, 3, 4, swap=True), 3),
)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(("schedule", "parts"), PARTS, ids=str)
def test_a_tile_of_d_is_staged_in_as_few_parts_as_leave_room_for_the_stages(schedule, parts):
    assert schedule.staging_parts(BF16) == parts and schedule.complaint(BF16, SM_90A) is None
    assert replace(schedule, stages=schedule.stages - 1).staging_parts(BF16) < parts
    product = Product(transposed=(schedule.swap, True), beta=1.0)
    kernel = product.compiled(schedule)
    for shape in ((305, 424, 136), (100, 264, 64)):
        assert product.wrong(kernel, shape) == 0
    assert kernel.resources.spill_stores <= 16 and "serialized" not in kernel.compiled.assembled.log


def test_more_stages_than_fit_beside_any_part_are_refused():
    refused = of(128, 256, 64, stages=5)
    assert refused.staging_parts(BF16) == 1
    assert str(refused.complaint(BF16, SM_90A)).startswith(
        "shared memory must be at most 232448 bytes on sm_90a"
    )
    # 152 columns have no equal parts of whole panels.
    assert of(256, 152, 64, stages=3).staging_parts(BF16) == 1


UNIFORM = (*SCHEDULES, of(128, 128, 64, global_splits=2), of(64, 64, 64, 1, 4, global_splits=2))


@pytest.mark.slow
@pytest.mark.sampled(20)
@pytest.mark.parametrize("schedule", UNIFORM, ids=str)
def test_descriptors_are_reckoned_in_uniform_registers(schedule):
    """Brought there from others, the two of each of a product's instructions would take up to four more."""
    found = brought_to_uniform_registers(Product().compiled(schedule).sass, "HGMMA")
    assert len(found) <= 3, "\n".join(found)  # those of a barrier's place


@pytest.mark.sampled(24)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_product_is_right_in_every_schedule(schedule):
    product = Product()
    kernel = product.compiled(schedule)
    assert "wgmma.mma_async" in kernel.ptx and "cp.async.bulk.tensor" in kernel.ptx
    assert kernel.resources.spill_stores <= 8  # what adds up the parts of a split spills a register
    assert "serialized" not in kernel.compiled.assembled.log
    # One block, several with edges that aren't whole, and fewer rows than a block has.
    for shape in ((*schedule.block[:2], 8 * schedule.block[2]), (200, 264, 136), (8, 24, 72)):
        assert not product.wrong(kernel, shape), shape


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(12), 46])
def test_warps_may_run_in_any_order(seed):
    """Groups of warps part at a barrier and meet at a product: two of them may have lanes of one warp."""
    kernel = Product().compiled(of(128, 128, 64, stages=4))
    a, b = np.ones((256, 512), TYPES["bf16"]), np.ones((128, 512), TYPES["bf16"])
    d = np.zeros((256, 128), TYPES["bf16"])
    assert not kernel.emulate(a, b, d, grid=(1, 1, 1), seed=seed).findings
    assert (d == 512).all()


@pytest.mark.slow
@pytest.mark.sampled(16)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    "schedule",
    [of(128, 256, 64), of(64, 96, 64, 1), of(128, 64, 64, swap=True), of(128, 128, 64, cluster=(2, 1))],
    ids=str,
)
def test_either_operand_may_be_mn_major(schedule, transposed):
    product = Product("f16", "f16", transposed)
    assert not product.wrong(product.compiled(schedule), (136, 200, 104))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("schedule", "stored"),
    [
        (of(128, 96, 64), 128),
        pytest.param(of(64, 40, 64, 1, 4, swap=True), 64, marks=pytest.mark.slow),
        pytest.param(of(64, 24, 64, 1, 4, swap=True), 32, marks=pytest.mark.slow),
        (of(64, 8, 64, 1, 4, swap=True), 16),
        pytest.param(of(128, 208, 64, stages=2), 256, marks=pytest.mark.slow),
        (of(128, 80, 64, cluster=(2, 1)), 128),  # of which each CTA copies a panel
        (of(64, 96, 64, 1, 4, splits=2), 128),
        (of(64, 48, 64, 1, loaders=1), 48),
    ],
    ids=str,
)
def test_mn_major_columns_are_stored_in_whole_panels(schedule, stored):
    product = Product(transposed=(schedule.swap, schedule.swap))
    mn_major = Types("bf16", "bf16", "bf16", transposed=(schedule.swap, not schedule.swap))
    assert schedule.stored(mn_major) == (schedule.block[0], stored)
    assert schedule.stored(Types("bf16", "bf16", "bf16")) == schedule.block[:2]
    assert not product.wrong(product.compiled(schedule), (72, 136, 136))


@pytest.mark.slow
@pytest.mark.each_value
@pytest.mark.parametrize(
    ("schedule", "layout", "boxes"),
    [
        (of(64, 96, 64, 1, cluster=(4, 2)), "tn", {0: (32, 64), 1: (16, 64)}),
        pytest.param(
            of(64, 24, 64, 1, cluster=(8, 1), swap=True), "tn", {0: (8, 32), 1: (64, 64)}, marks=SLOW
        ),
        pytest.param(of(128, 80, 64, cluster=(4, 2)), "nn", {0: (64, 64), 1: (16, 64)}, marks=SLOW),
        pytest.param(of(64, 160, 128, 1, cluster=(2, 4)), "tt", {0: (32, 64), 1: (80, 64)}, marks=SLOW),
        # Where CTAs can divide panels, they do.
        pytest.param(of(128, 96, 64, cluster=(2, 2)), "tn", {0: (64, 64), 1: (64, 64)}, marks=SLOW),
    ],
    ids=str,
)
def test_ctas_that_can_not_divide_panels_divide_k(schedule, layout, boxes):
    product = Product(transposed=(layout[0] == "t", layout[1] == "t"))
    kernel = product.compiled(schedule)
    assert {each.matrix: each.box for each in kernel.launch.maps if each.matrix < 2} == boxes
    assert not product.wrong(kernel, (200, 264, 136))


def test_a_cluster_divides_panels_or_k() -> None:
    mn_major = Types("bf16", "bf16", "bf16", transposed=(False, True))
    assert of(128, 144, 64, cluster=(2, 1)).complaint(mn_major) is None
    complaint = of(128, 144, 32, cluster=(8, 1)).complaint(mn_major)
    legal = "block N 144, stored as 192, in multiples of 64 or block K 32 in multiples of 8"
    assert complaint == f"cluster must divide {legal}, got 8 CTAs"
    complaint = of(64, 8, 64, 1, cluster=(2, 1)).complaint(BF16)
    assert complaint == "cluster must divide block N 8 in multiples of 8, got 2 CTAs"
    complaint = of(64, 40, 64, 1, loaders=1, swap=True).complaint(replace(mn_major, transposed=(True, False)))
    assert complaint == "block N must be a multiple of 16 for an MN-major operand that threads load, got 40"


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ("f8E4M3FN", "bf16"),
        ("f8E5M2", "f32"),
        ("f8E4M3FN", "f16"),
        ("f32", "f32"),
        ("f32", "bf16"),
        ("i8", "i32"),
    ],
)
@pytest.mark.parametrize("depth", [128, 256])
def test_types_that_only_warpgroups_multiply(inputs, outputs, depth):
    product = Product(inputs, outputs)
    size = np.dtype(TYPES[inputs]).itemsize
    for schedule in (of(64, 64, depth // size, 1, 2), of(128, 16, depth // size, swap=True)):
        assert not product.wrong(product.compiled(schedule), (136, 80, 272)), schedule


PROMOTED = Product("f8E4M3FN", "bf16", promote=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [
        of(256, 128, 128),  # two products of 64 rows in turn, each added up before the next
        of(64, 192, 128, 1),
        of(192, 128, 128, 3, 2),
        of(128, 16, 128, swap=True),
        of(128, 64, 128, cluster=(2, 1)),
        of(64, 64, 128, 1, splits=2),
    ],
    ids=str,
)
def test_sums_of_fp8_are_promoted(schedule):
    kernel = PROMOTED.compiled(schedule)
    assert not kernel.resources.spill_stores and "serialized" not in kernel.compiled.assembled.log
    assert not PROMOTED.wrong(kernel, (264, 136, 400))


@pytest.mark.slow
def test_promoted_sums_keep_what_a_tensor_core_cuts_off():
    """16384 and then ones: a sum of fp8 with 13 bits of fraction loses them, one of f32 doesn't."""
    kernels = [
        Product("f8E5M2", "f32", promote=promote).compiled(of(64, 8, 128, 1)) for promote in (True, False)
    ]
    a, b = np.ones((64, 512), TYPES["f8E5M2"]), np.ones((8, 512), TYPES["f8E5M2"])
    a[:, 0] = b[:, 0] = 128
    results = []
    for kernel in kernels:
        d = np.full((64, 8), np.nan, np.float32)
        kernel.emulate(a, b, d)
        results.append(d[0, 0])
    assert results[0] > 16384 + 384 - 1 and results[1] < results[0]


@pytest.mark.slow
def test_rows_that_tma_cannot_copy_are_multiplied_by_mma_sync():
    for product in (Product("i8", "i32"), Product("f8E4M3FN", "f32", promote=True)):
        assert not product.wrong(product.compiled(of(64, 64, 128, 1)), (64, 64, 130))


@pytest.mark.slow
@pytest.mark.sampled(10)
@pytest.mark.parametrize("outputs", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "schedule", [of(128, 64, 64), of(64, 64, 64, 1, swap=True), of(64, 32, 64, 1, splits=2)], ids=str
)
def test_types_and_scales_of_the_epilogue(schedule, outputs):
    product = Product("bf16", outputs, alpha=0.5, beta=2.0)
    assert not product.wrong(product.compiled(schedule), (72, 88, 136))


@pytest.mark.slow
def test_ctas_go_from_tile_to_tile():
    kernel = Product().compiled(of(64, 64, 64, 1))
    views = [weft.launch.arrays.view(np.zeros(s, TYPES["bf16"])) for s in ((640, 64), (640, 64), (640, 640))]
    assert dimensions(kernel.launch, views, multiprocessors=132)[0] == (100, 1, 1)
    assert dimensions(kernel.launch, views, multiprocessors=7)[0] == (7, 1, 1)
    assert not Product().wrong(kernel, (640, 192, 64))


@pytest.mark.parametrize(("m", "ctas"), [(128, 2), (960, 4), (2560, 10), (64000, 16)])
def test_each_cta_computes_several_tiles_in_the_emulator(m, ctas):
    kernel = Product().compiled(of(64, 64, 64, 1))
    views = [weft.launch.arrays.view(np.zeros(s, TYPES["bf16"])) for s in ((m, 64), (64, 64), (m, 64))]
    assert dimensions(kernel.launch, views)[0] == (ctas, 1, 1)


def test_a_cluster_shares_a_block():
    kernel = Product().compiled(of(64, 64, 64, 1, splits=4))
    assert kernel.launch.cluster == (4, 1, 1)
    views = [weft.launch.arrays.view(np.zeros(s, TYPES["bf16"])) for s in ((640, 64), (640, 64), (640, 640))]
    assert dimensions(kernel.launch, views, multiprocessors=2)[0] == (400, 1, 1)


@pytest.mark.slow
def test_ctas_that_share_copies_come_in_whole_clusters():
    kernel = Product().compiled(of(64, 64, 64, 1, cluster=(2, 2)))
    assert kernel.launch.cluster == (4, 1, 1) and "multicast::cluster" in kernel.ptx
    views = [weft.launch.arrays.view(np.zeros(s, TYPES["bf16"])) for s in ((640, 64), (576, 64), (640, 576))]
    assert dimensions(kernel.launch, views, multiprocessors=132)[0] == (100, 1, 1)
    assert dimensions(kernel.launch, views, multiprocessors=7)[0] == (4, 1, 1)


def test_a_stage_released_to_its_own_cta_alone_is_caught(monkeypatch):
    """Planted: the neighbor isn't told, so that this CTA's copies into it wait for ever."""
    peers = wgmma_kernel.tile.release_peer

    def first_alone(ring, stage, rank):
        with emit.when(emit.equal(emit.rem(emit.thread(), WARPGROUP), 0)):
            peers(ring, stage, rank)

    monkeypatch.setattr(wgmma_kernel.tile, "release_peer", first_alone)
    kernel = Product().compiled(of(64, 64, 64, 1, 2, cluster=(2, 1)))
    released = r"rank 1, warps? .*\n.*stage \d of the ring created at line \d+ \(.*\) is never released: "
    with pytest.raises(weft.WeftError, match=released):
        Product().wrong(kernel, (128, 64, 640))


@pytest.mark.slow
def test_rows_that_tma_cannot_copy_take_another_kernel():
    product = Product("f16", "f32")
    kernel = product.compiled(of(128, 64, 64))
    assert "mma.sync" in kernel.for_any_rows.ptx
    for shape in ((33, 31, 71), (1, 1, 1), (130, 67, 65)):
        assert not product.wrong(kernel, shape), shape


@pytest.mark.parametrize(
    ("schedule", "types", "message"),
    [
        (of(128, 260, 64), ("bf16",) * 3, "n must be a multiple of 8 in 8..256, got 260"),
        (
            of(96, 64, 64),
            ("bf16",) * 3,
            "warpgroups must be in 1..3 and divide block M 96 in multiples of 64, got 2",
        ),
        (of(128, 64, 40), ("bf16",) * 3, "block K must have 32, 64 or a multiple of 128 bytes, got 80"),
        (of(256, 256, 64), ("bf16",) * 3, "must hold at most 25600 sums, as"),
        (of(128, 256, 64, stages=5), ("bf16",) * 3, "shared memory must be at most 232448 bytes on sm_90a"),
        (of(128, 64, 64, splits=3), ("bf16",) * 3, "splits must be 1, 2, 4 or 8"),
        (of(128, 64, 64, stages=1), ("bf16",) * 3, "stages must be at least 2, got 1"),
    ],
)
def test_what_cannot_be_lowered_is_refused(schedule, types, message):
    assert message in (schedule.complaint(Types(*types), Target.of("sm_90a")) or "")


@pytest.mark.slow
def test_a_kernel_that_leaves_out_the_last_block_of_k_is_caught(monkeypatch):
    monkeypatch.setattr(wgmma_kernel.emit, "ceil_div", wgmma_kernel.emit.div)
    product = Product()
    assert product.wrong(product.compiled(of(64, 64, 64, 1)), (64, 64, 136))


@pytest.mark.slow
def test_a_stage_released_before_its_product_is_done_is_caught(monkeypatch):
    """Planted: the wait of each block lets its own product run on, so that the copies overtake it."""
    wait = wgmma_kernel.tile.wait_gemm
    monkeypatch.setattr(
        wgmma_kernel.tile, "wait_gemm", lambda pending=None: wait(pending=0 if pending is None else 1)
    )
    with pytest.raises(AssertionError, match="async-source-overwritten"):
        Product().wrong(Product().compiled(of(128, 64, 64, 2, 2)), (128, 64, 640))


@pytest.mark.slow
def test_sums_read_before_their_wait_are_caught(monkeypatch):
    monkeypatch.setattr(lower_gemm_async.wgmma, "wait_group", lambda group: None)
    with pytest.raises(AssertionError, match="wgmma-in-flight"):
        Product().wrong(Product().compiled(of(64, 64, 64, 1, 2)), (64, 64, 64))


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "schedule", [of(128, 64, 64), of(64, 64, 64, 1, 4), of(64, 24, 64, 1, 4, swap=True)], ids=str
)
@pytest.mark.parametrize(("outputs", "columns"), [("bf16", 67), ("bf16", 72), ("f8E4M3FN", 70)])
def test_memory_around_d_is_unchanged(schedule, outputs, columns):
    """TMA would write a row of D up to its next multiple of 16 bytes."""
    with weft.Module() as module:
        inputs = weft.memref("?x?", "bf16")
        kinds = (inputs, inputs, weft.memref("?x?", outputs, ("?", 1)))
        with module.func("product", kinds) as (a, b, d):
            tile.matmul(a, b, d, transpose_b=True, schedule=schedule)
    m, k, rng = 40, 72, np.random.default_rng(columns)
    a, b = (rng.integers(-1, 2, size).astype(ml_dtypes.bfloat16) for size in ((m, k), (columns, k)))
    whole = np.full((m, 96), 7.0).astype(TYPES[outputs])
    findings = weft.compile(module, arch="sm_90a").emulate(a, b, whole[:, :columns]).findings
    assert not findings, findings[0].rule
    want = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(TYPES[outputs])
    assert (whole[:, :columns] == want).all() and (whole[:, columns:] == whole.dtype.type(7)).all()


@pytest.mark.slow
def test_a_copy_before_the_launch_before_is_done_is_caught(monkeypatch):
    """Planted: no role waits for what was queued before."""
    for part in (wgmma_kernel, feed):
        monkeypatch.setattr(part, "await_previous_launch", lambda: None)
    product = Product()
    with pytest.raises(AssertionError, match="griddepcontrol-wait"):
        product.wrong(product.compiled(of(64, 64, 64, 1)), (64, 64, 64))


def test_a_cluster_is_launched_whole_on_fewer_multiprocessors():
    """A cluster of eight CTAs on a GPU, or in the emulator, of four multiprocessors."""
    product = Product()
    kernel = product.compiled(of(64, 64, 64, 1, 3, cluster=(4, 2)))
    assert math.prod(kernel.launch.cluster) == 8
    a, b, d = (arrays.view(np.zeros((rows, 128), ml_dtypes.bfloat16)) for rows in (256, 128, 256))
    for multiprocessors in (1, 4, 8):
        grid, _ = dimensions(kernel.launch, (a, b, d), multiprocessors=multiprocessors)
        assert math.prod(grid) == 8


@pytest.mark.slow
def test_clusters_of_eight_give_the_right_result():
    product = Product()
    assert not product.wrong(product.compiled(of(64, 64, 64, 1, 3, cluster=(4, 2))), (300, 130, 200))


def test_products_of_one_warpgroup_overlap_with_any_columns() -> None:
    kernel = Product().compiled(WarpgroupSchedule((64, 200, 64), 1, 4, swap=True))
    assert "wgmma.wait_group.sync.aligned \t1;" in kernel.ptx  # one K block's products are left in flight
    assert "serialized" not in kernel.compiled.assembled.log and not kernel.resources.spill_stores
