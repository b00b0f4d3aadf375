"""Products for `mma.sync` with copies by TMA in the emulator: types, layouts, tiles and epilogues, at sizes
that don't divide. A finding of the sanitizer ends a run; ptxas must not spill.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from machine_code import local_memory, loop_with

import weft
from weft.dialects import tile
from weft.dialects.schedule import Schedule, TmaMmaSchedule, Types
from weft.passes.kernels.feed import Feed
from weft.passes.kernels.warp_accumulator import WarpAccumulator
from weft.schedules import choice
from weft.schedules.gpus import gpu_of
from weft.schedules.predict import predict_schedule
from weft.target import Target
from weft.tools import weft as tool

ARRAYS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
}
MATMUL = Path(__file__).parents[2] / "examples" / "matmul.mlir"
CHIPS = ("sm_120a", "sm_121a", "sm_120f", "sm_121f")


@dataclass(frozen=True)
class Product:
    """What a product is apart from its shape; transposes of A and of B."""

    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    transposed: tuple[bool, bool] = (False, True)
    alpha: float = 1.0
    beta: float = 0.0
    bias: bool = False
    activation: str | None = None

    def compiled(self, schedule: TmaMmaSchedule | None, chip: str = "sm_120a") -> weft.Kernel:
        """A kernel for matrices of any size."""
        kinds = [self.a, self.b, self.d, *([self.d] if self.beta else [])]
        with weft.Module() as module:
            types = [weft.memref("?x?", kind) for kind in kinds]
            types += [weft.memref("?", self.d)] if self.bias else []
            self._multiply(module, types, schedule)
        return weft.compile(module, arch=chip)

    def _multiply(self, module: weft.Module, types: list[object], schedule: TmaMmaSchedule | None) -> None:
        with module.func("product", types) as arguments:
            values = list(arguments)
            bias = values.pop() if self.bias else None
            tile.matmul(
                *values,
                transpose_a=self.transposed[0],
                transpose_b=self.transposed[1],
                alpha=self.alpha,
                beta=self.beta,
                bias=bias,
                activation=self.activation,
                schedule=schedule,
            )

    def wrong(self, kernel: weft.Kernel, shape: tuple[int, int, int]) -> int:
        """How many elements of D aren't as NumPy has them; sums are exact in every type."""
        m, n, k = shape
        rng = np.random.default_rng(m * n + k)
        # Products of elements of either sign, as far as their types have any.
        least = [0 if kind == "ui8" else -1 for kind in (self.a, self.b)]
        sizes = zip(least, ((m, k), (k, n)), strict=True)
        a, b = (rng.integers(low, 2, size).astype(np.float64) for low, size in sizes)
        c, bias = rng.integers(-4, 5, (m, n)), rng.integers(-4, 5, n)
        given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), self.transposed, strict=True)]
        inputs = [x.astype(ARRAYS[kind]) for x, kind in zip(given, (self.a, self.b), strict=True)]
        d = np.full((m, n), 55).astype(ARRAYS[self.d])
        extra = [c.astype(d.dtype)] if self.beta else []
        extra += [bias.astype(d.dtype)] if self.bias else []
        findings = kernel.emulate(*inputs, d, *extra).findings
        assert not findings, findings[0]
        want = self.alpha * (a @ b) + self.beta * c + (bias if self.bias else 0)
        want = np.maximum(want, 0) if self.activation == "relu" else want
        return int((d.astype(np.float64) != want.astype(d.dtype).astype(np.float64)).sum())


def of(
    m: int, n: int, k: int, consumers: tuple[int, int] = (2, 2), stages: int = 2, unit_scales: bool = False
) -> TmaMmaSchedule:
    return TmaMmaSchedule((m, n, k), consumers, stages, unit_scales=unit_scales)


BF16, F16_TO_F32 = Product(), Product("f16", "f16", "f32")
TF32, INTEGERS = Product("f32", "f32", "f32"), Product("i8", "i8", "i32")
E4M3, MIXED = Product("f8E4M3FN", "f8E4M3FN", "f8E4M3FN"), Product("f8E5M2", "f8E4M3FN", "f32")
PLAIN = (BF16, F16_TO_F32, TF32, INTEGERS, E4M3, MIXED, Product("ui8", "i8", "i32"))
EPILOGUES = (
    Product(beta=2.0),
    Product(alpha=0.5, bias=True),
    Product("f16", "f16", "f16", bias=True, activation="relu"),
    Product("i8", "i8", "i32", beta=1.0),
    Product("f8E4M3FN", "f8E5M2", "bf16", bias=True, activation="relu"),
)
BOTH = (False, True)
MN_MAJOR = tuple(Product(e, e, "f32", (ta, tb)) for e in ("f16", "bf16") for ta in BOTH for tb in BOTH)
CASES = [
    *((p, of(64, 64, 32 if p.a == "f32" else 64), (72, 80, 160)) for p in PLAIN),
    *((p, of(32, 128, 32, (1, 4), 3), (48, 144, 96)) for p in PLAIN),
    *((p, of(16, 64, 64, (1, 4), 4), (8, 72, 208)) for p in PLAIN),
    *((p, of(64, 64, 128, unit_scales=True), (72, 80, 288)) for p in (E4M3, MIXED, EPILOGUES[-1])),
    (E4M3, of(64, 128, 64, (2, 4), 4, unit_scales=True), (72, 136, 208)),
    *((p, of(64, 64, 64), (72, 80, 128)) for p in EPILOGUES),
    *((p, of(64, 64, 64), (72, 80, 136)) for p in MN_MAJOR),
    *((p, of(128, 64, 32, (4, 2), 3), (136, 72, 72)) for p in MN_MAJOR),
]


def _name(value: object) -> str:
    return str(value).replace("Product(", "").rstrip(")")


@pytest.mark.each_value(1)
@pytest.mark.sampled(12)
@pytest.mark.parametrize("product, schedule, shape", CASES, ids=_name)
def test_a_product_is_right_for_every_type_layout_and_epilogue(product, schedule, shape):
    kernel = product.compiled(schedule)
    assert "cp.async.bulk.tensor.2d.shared::cta" in kernel.ptx and "mma.sync" in kernel.ptx
    assert not local_memory(kernel)
    assert product.wrong(kernel, shape) == 0


BIG = (
    of(128, 128, 64, (4, 2), 3),
    of(128, 128, 64, (2, 4), 3),
    of(256, 128, 32, (4, 2), 4),
    of(128, 256, 32, (2, 4), 4),
    of(64, 256, 64, (2, 4), 2),
    of(128, 64, 64, (4, 2), 4),
)


@pytest.mark.slow
@pytest.mark.sampled(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("schedule", BIG, ids=str)
def test_large_tiles_neither_spill_nor_lose_their_registers(schedule, chip):
    """ptxas must obey setmaxnreg: eight warps have more sums than an equal share of the registers holds."""
    kernel = BF16.compiled(schedule, chip)
    assert not local_memory(kernel) and kernel.resources.registers == 168
    assert ".minnctapersm 1" in kernel.ptx


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("schedule", BIG[::2], ids=str)
def test_large_tiles_are_right(schedule):
    m, n, k = schedule.block
    assert BF16.wrong(BF16.compiled(schedule), (m + 8, n + 8, 2 * k + 8)) == 0


def test_a_launch_describes_stages_and_registers(capsys):
    assert tool.main(["compile", str(MATMUL), "--arch", "sm_120a", "--emit", "launch"]) == 0
    (said,) = json.loads(capsys.readouterr().out).values()
    assert said["stages"] >= 3 and 0 < said["registers"] <= 255 and "tensor_columns" not in said


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(6))
def test_warps_may_run_in_any_order(seed):
    kernel = BF16.compiled(of(64, 64, 64))
    a, b = (np.random.default_rng(0).integers(-1, 2, (size, 320)) for size in (136, 72))
    d = np.zeros((136, 72), ml_dtypes.bfloat16)
    given = [x.astype(ml_dtypes.bfloat16) for x in (a, b)]
    assert not kernel.emulate(*given, d, seed=seed).findings and (d == a @ b.T).all()


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("product, k", [(BF16, 64), (INTEGERS, 128), (E4M3, 128), (TF32, 32)], ids=_name)
def test_the_loop_over_k_blocks_has_little_beside_products_and_loads(product, k):
    """Of a tile of 128 x 128: 64 products and 24 ldmatrix for each warp."""
    schedule = of(128, 128, k, (4, 2), 3, unit_scales=product is E4M3)
    opcodes = loop_with(product.compiled(schedule).sass, "MMA")
    products, loads = (sum(name in opcode for opcode in opcodes) for name in ("MMA", "LDSM"))
    assert (products, loads) == (64, 24)
    assert len(opcodes) - products - loads <= 32


@pytest.mark.slow
def test_a_batch_is_right():
    with weft.Module() as module, module.func("product", [weft.memref("?x?x?", "bf16")] * 3) as values:
        tile.matmul(*values, transpose_b=True, schedule=of(64, 64, 32))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (3, size, 40)).astype(ml_dtypes.bfloat16) for size in (72, 24))
    d = np.zeros((3, 72, 24), ml_dtypes.bfloat16)
    assert not weft.compile(module, arch="sm_120a").emulate(a, b, d).findings
    assert (d == a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)).all()


def test_rows_of_groups_are_multiplied_by_their_own_matrix():
    with weft.Module() as module:
        kinds = [
            weft.memref(*kind) for kind in (("?x?", "f16"), ("?x?x?", "f16"), ("?x?", "f32"), ("?", "i32"))
        ]
        with module.func("product", kinds) as (a, b, d, groups):
            tile.matmul(a, b, d, transpose_b=True, groups=groups, schedule=of(64, 64, 32))
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((256, 40), (3, 24, 40)))
    d = np.full((256, 24), 5, np.float32)
    groups = np.repeat([2, -1], 128).astype(np.int32)
    assert not weft.compile(module, arch="sm_120a").emulate(a, b, d, groups).findings
    assert (d[:128] == a[:128].astype(np.float64) @ b[2].T).all() and (d[128:] == 5).all()


def test_a_stage_released_before_it_is_read_is_found(monkeypatch):
    """Planted: the warps release a stage when they begin to read it."""
    release, found = Feed.release, WarpAccumulator._steps

    def steps(self, sums, loaded, stage, scales):
        release(self.feed, stage)
        return found(self, sums, loaded, stage, scales)

    monkeypatch.setattr(WarpAccumulator, "_steps", steps)
    monkeypatch.setattr(Feed, "release", lambda *_: None)
    kernel = BF16.compiled(replace(of(64, 64, 64), group=7))  # another kernel than the cache has
    a, b = (np.ones((size, 512), ml_dtypes.bfloat16) for size in (64, 64))
    assert kernel.emulate(a, b, np.zeros((64, 64), ml_dtypes.bfloat16)).findings


@pytest.mark.each_value(26)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("product", PLAIN, ids=_name)
def test_it_is_chosen_where_chips_have_no_larger_instruction(product, chip):
    types = Types(product.a, product.b, product.d)
    for mnk in ((4096, 4096, 4096), (1, 4096, 4096), (64, 7168, 2048), (None, None, None)):
        chosen = choice.choose(*mnk, types, chip)
        assert isinstance(chosen, TmaMmaSchedule) and chosen.complaint(types, Target.of(chip)) is None
    if product.a in ("f16", "bf16"):
        chosen = choice.choose(64, 64, 64, types, chip, any_rows=True)
        assert isinstance(chosen, Schedule)


@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120"])
def test_other_chips_keep_their_schedules(chip):
    assert not isinstance(
        choice.choose(4096, 4096, 4096, Types("bf16", "bf16", "bf16"), chip), TmaMmaSchedule
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_fp8_is_multiplied_with_unit_scales_where_that_is_twice_as_fast(chip):
    chosen = choice.choose(4096, 4096, 4096, _FP8, chip)
    assert chosen.unit_scales and not choice.choose(4096, 4096, 4096, _TYPES, chip).unit_scales


def test_more_work_is_estimated_to_take_longer():
    def estimated(m, members=1):
        product = m, 4096, 4096, Types("bf16", "bf16", "bf16")
        return predict_schedule(BIG[0], *product, gpu_of("sm_120a"), members=members).microseconds

    times = [estimated(m) for m in (128, 4096, 8192)]
    assert times == sorted(times) and times[0] < times[-1]
    assert estimated(4096, members=2) > 1.5 * times[1]


_TYPES, _FP8 = Types("bf16", "bf16", "bf16"), Types("f8E4M3FN", "f8E5M2", "f32")


@pytest.mark.parametrize(
    "schedule, types, message",
    [
        (of(64, 64, 64, (3, 1)), Types("bf16", "bf16", "bf16"), "consumers must be 4 or 8 warps, got 3 x 1"),
        (
            of(48, 64, 64),
            Types("bf16", "bf16", "bf16"),
            "consumers must divide block M 48 in multiples of 16",
        ),
        (of(64, 24, 64), Types("bf16", "bf16", "bf16"), "block N 24 in multiples of 16, got 2 x 2"),
        (
            of(64, 64, 24),
            Types("bf16", "bf16", "bf16"),
            "block K must have 32, 64 or a multiple of 128 bytes",
        ),
        (of(64, 64, 64, stages=1), Types("bf16", "bf16", "bf16"), "stages must be at least 2, got 1"),
        (
            of(0, 64, 64),
            Types("bf16", "bf16", "bf16"),
            "block must have numbers of at least 1, got 0 x 64 x 64",
        ),
        (of(128, 128, 64, (4, 2), 4), Types("bf16", "bf16", "bf16"), "shared memory must be at most 101376"),
        (of(256, 256, 32, (4, 2)), Types("bf16", "bf16", "bf16"), "a thread must need at most 232 registers"),
        (of(64, 16, 64, (4, 1)), Types("f16", "f16", "f32", (True, True)), None),
        (
            of(96, 64, 64),
            Types("f16", "f16", "f32", grouped=True),
            "block M must divide 128 with groups, got 96",
        ),
        (of(64, 64, 64, unit_scales=True), _TYPES, "unit_scales must be false unless A and B are"),
        (of(64, 64, 64, (4, 1), unit_scales=True), _FP8, "multiples of 32 with scales, got 16 x 64"),
        (
            of(64, 64, 64),
            Types("bf16", "f16", "bf16"),
            "schedule must have a legal instruction: mma.sync",
        ),
    ],
)
def test_what_a_schedule_must_satisfy(schedule, types, message):
    complaint = schedule.complaint(types, Target.of("sm_120a"))
    assert complaint is None if message is None else message in complaint


@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_120"])
def test_a_chip_needs_tma_and_setmaxnreg(chip):
    complaint = of(64, 64, 64).complaint(Types("bf16", "bf16", "bf16"), Target.of(chip))
    assert complaint == f"a schedule of mma.sync with TMA needs a chip with TMA and setmaxnreg, got {chip}"
