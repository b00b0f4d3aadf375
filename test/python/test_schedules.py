"""Every schedule that the verifier accepts computes the right product, for all shapes and strides."""

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.schedule import AnySchedule, Schedule, Types, WarpgroupSchedule
from weft.emulator import Fault
from weft.isa.chips import CHIPS
from weft.passes.builders import emit, fragment_moves
from weft.passes.kernels import mma_kernel
from weft.schedules import mma_sync
from weft.target import Target

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


@dataclass(frozen=True)
class Product:
    """What a product is apart from its shape."""

    inputs: str = "f16"
    outputs: str = "f32"
    c: str | None = None
    transpose_b: bool = False
    alpha: float = 1.0
    beta: float = 0.0

    def compiled(self, schedule: AnySchedule, arch: str = "sm_80") -> weft.Kernel:
        """A kernel for matrices of any size whose rows may lie apart."""
        kinds = [self.inputs, self.inputs, self.outputs, *([self.c] if self.c else [])]
        options = {"transpose_b": self.transpose_b, "alpha": self.alpha, "beta": self.beta}
        with weft.Module() as module:
            arguments = [weft.memref("?x?", kind, strides=("?", 1)) for kind in kinds]
            with module.func("product", arguments) as matrices:
                tile.matmul(*matrices, **options, schedule=schedule)
        return weft.compile(module, arch=arch)

    def wrong(self, kernel: weft.Kernel, shape: tuple[int, int, int], gap: int) -> int:
        """How many elements of D, or around it, aren't as NumPy has them; sums are exact in every type."""
        m, n, k = shape
        rng = np.random.default_rng(m * n + k)
        a, b = (rng.integers(-2, 3, size).astype(np.float64) for size in ((m, k), (k, n)))
        c = rng.integers(-4, 5, (m, n)).astype(np.float64)
        d = strided(np.full((m, n), 555.0), self.outputs, gap)
        given = [strided(a, self.inputs, gap), strided(b.T if self.transpose_b else b, self.inputs, gap), d]
        kernel(*given, *([strided(c, self.c, gap)] if self.c else []), on="emulator")
        want = self.alpha * (a @ b) + (self.beta * c if self.c else 0)
        around = np.asarray(d.base if gap else d, np.float64)[:, n:]
        return int((d.astype(np.float64) != want).sum() + (around != SENTINEL).sum())


HALVES = Types("f16", "f16", "f32")
SENTINEL = 776  # exact in bf16


def strided(values: np.ndarray, kind: str, gap: int) -> np.ndarray:
    """The values, `gap` elements between rows, in an array filled with what must never be read or changed."""
    whole = np.full((values.shape[0], values.shape[1] + gap), SENTINEL, TYPES[kind])
    whole[:, : values.shape[1]] = values
    return whole[:, : values.shape[1]]


SCHEDULES = [
    Schedule((16, 16, 32), (1, 1), 2),
    Schedule((16, 96, 32), (1, 1), 2),  # panels of 32 columns
    Schedule((48, 48, 64), (3, 1), 2),  # panels of 16, and copies in uneven rounds
    Schedule((32, 64, 64), (1, 4), 3, group=1),
    Schedule((16, 128, 64), (1, 8), 2, group=3),  # more threads than a tile of A has vectors in a round
    Schedule((64, 32, 32), (4, 1), 5),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_every_schedule_gives_the_right_product(schedule, transpose_b):
    product = Product(transpose_b=transpose_b)
    kernel = product.compiled(schedule)
    for shape, gap in (((70, 88, 72), 0), ((33, 40, 136), 8), ((5, 7, 9), 0), ((17, 50, 65), 1)):
        assert not product.wrong(kernel, shape, gap), (shape, gap)


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("outputs, c", [("f32", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("f16", None)])
def test_types_and_scales_of_the_epilogue(outputs, c):
    product = Product("bf16", outputs, c, alpha=0.5, beta=2.0 if c else 0.0)
    kernel = product.compiled(SCHEDULES[0])
    # The last have an odd number of columns in rows that are aligned to pairs: what lies between stays.
    for shape, gap in (((20, 24, 16), 0), ((19, 21, 23), 0), ((19, 21, 24), 3), ((18, 15, 23), 9)):
        assert not product.wrong(kernel, shape, gap), (shape, gap)


def test_a_product_that_leaves_out_the_last_block_of_k_is_caught(monkeypatch):
    monkeypatch.setattr(mma_kernel.emit, "ceil_div", emit.div)
    product = Product()
    assert product.wrong(product.compiled(SCHEDULES[0]), (16, 16, 40), 0)


@pytest.mark.slow
def test_pairs_written_past_an_odd_row_are_caught(monkeypatch):
    """Planted: rows are taken as aligned whatever they are, then also as whole; the last pair leaves the
    array.
    """
    monkeypatch.setattr(mma_kernel.MmaKernel, "_aligned", lambda self: emit.equal(0, 0))
    product = Product()
    assert not product.wrong(product.compiled(SCHEDULES[0]), (16, 15, 23), 9)
    monkeypatch.setattr(fragment_moves, "_whole", lambda *_: emit.equal(0, 0))
    with pytest.raises(Fault, match="out-of-bounds global access of 8 bytes"):
        product.wrong(product.compiled(SCHEDULES[0]), (16, 15, 23), 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "arch"),
    [
        (Schedule((64, 64, 64), (2, 2), 2, group=1 << 30), "sm_80"),
        (WarpgroupSchedule((64, 64, 64), 1, 2, group=1 << 30), "sm_90a"),
    ],
    ids=str,
)
def test_a_group_is_no_higher_than_the_product(monkeypatch, chosen, arch):
    """The columns of a group's tiles, times its rows, would exceed 32 bits: with a limit of 1024, where D has
    2^21 columns of tiles.
    """
    monkeypatch.setattr("weft.dialects.schedule.family._MOST_GROUP", chosen.group)
    product = Product(transpose_b=True)
    assert not product.wrong(product.compiled(chosen, arch), (200, 256, 128), 0)


@pytest.mark.parametrize("chip", [name for name in CHIPS if CHIPS[name].number >= 80])
def test_every_chip_has_a_schedule_for_every_shape(chip):
    target = Target.of(chip)
    for schedule in (mma_sync.LARGE, mma_sync.SMALL, mma_sync.NARROW):
        assert schedule.complaint(HALVES, target) is None


def test_products_with_few_large_tiles_get_smaller_ones():
    def chosen(m: int, n: int, types: Types = HALVES, chip: str = "sm_80") -> Schedule:
        return mma_sync.choose(m, n, types, chip)

    assert chosen(2048, 2048) == chosen(256, 7168) == mma_sync.LARGE
    assert chosen(1024, 1024) == chosen(128, 8192) == chosen(128, 6144) == mma_sync.MEDIUM
    assert chosen(512, 512) == chosen(64, 8192) == chosen(128, 6016) == mma_sync.NARROW
    assert chosen(8192, 64) == mma_sync.NARROW and chosen(32768, 64) == mma_sync.SMALL
    assert chosen(1024, 1024, chip="sm_75") == chosen(64, 64, chip="sm_75") == mma_sync.SMALL
    fp8 = Types("f8E4M3FN", "f8E4M3FN", "bf16")
    blocks = [chosen(m, n, fp8, "sm_89").block[:2] for m, n in ((1024, 1024), (64, 8192), (512, 512))]
    assert blocks == [(64, 64), (64, 32), (16, 64)]


def test_few_rows_get_low_tiles_where_copies_are_asynchronous():
    def chosen(m: int, n: int, types: Types = HALVES, chip: str = "sm_80") -> Schedule:
        return mma_sync.choose(m, n, types, chip)

    low = mma_sync.FEW_ROWS
    assert [chosen(m, 8192) for m in (1, 16, 17)] == [low, low, mma_sync.NARROW]
    assert chosen(8, 8192, chip="sm_75") == mma_sync.SMALL
    bytes_ = Types("i8", "i8", "i32", (False, False))
    assert chosen(8, 8192, bytes_).block == (16, 32, 128)
    assert chosen(8, 8192, replace(bytes_, transposed=(False, True))).block == (64, 64, 128)
    for chip in ("sm_86", "sm_89", "sm_120"):  # with 99 KiB of shared memory
        assert chosen(8, 8192, chip=chip) == low and low.complaint(HALVES, Target.of(chip)) is None


def test_only_the_columns_of_a_product_are_bounded():
    """M tiles take the dimension of a grid that goes to 2^31 - 1, N tiles the one that goes to 65535."""
    kernel = Product().compiled(SCHEDULES[0])

    def sizes(m: int, n: int) -> list[int]:
        return [m, 1, 1, n, m, n]

    assert kernel.launch.grid(sizes(8_400_000, 1)) == (525_000, 1, 1)
    assert kernel.launch.grid(sizes(1, 65535 * 16)) == (1, 65535, 1)
    assert kernel.launch.grid(sizes(1, 65535 * 16 + 1)) == (1, 65536, 1)
