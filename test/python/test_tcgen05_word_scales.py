"""Products for `tcgen05` whose block scales come as words of four, as DeepGEMM has them, in the emulator with
its sanitizer. Elements are small integers and scales powers of two, so that results are exact.
"""

import contextlib
import re
from dataclasses import dataclass, replace
from itertools import cycle

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import emulator
from weft.dialects.schedule import TensorMemorySchedule, TmaMmaSchedule, Types
from weft.errors import WeftError
from weft.launch import arrays, kernel
from weft.launch.kernel_arguments import packed_copy
from weft.multiply import product_kernel
from weft.passes.builders import emit
from weft.passes.kernels import tcgen05_scales
from weft.schedules import choice
from weft.target import Target

CHIP = "sm_100a"
NAN = 0xFF
"""What no byte after the last scale may lead to."""


def of(m: int, n: int, accumulators: int = 2, stages: int = 2, **fields: object) -> TensorMemorySchedule:
    """A schedule with K blocks of 128 elements, unless told otherwise."""
    depth = fields.pop("k", 128)
    return TensorMemorySchedule((m, n, depth), accumulators, stages, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """A product of sizes M, N, K of some elements with scales of `block` elements. With `groups`, each row of
    A has a number of one of so many B; `rows` are those of each product of a batch that are computed.
    """

    schedule: TensorMemorySchedule
    shape: tuple[int, int, int]
    block: int = 128
    elements: tuple[str, str] = ("float8_e4m3fn", "float8_e4m3fn")
    d: str = "f32"
    batch: int = 0
    groups: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    chip: str = CHIP

    @property
    def batches(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first dimensions of A and of B."""
        of_b = (self.batch,) if self.batch else ()
        return () if self.groups else of_b, of_b

    @property
    def types(self) -> Types:
        a, b = (arrays.mlir_type(np.dtype(getattr(ml_dtypes, name))) for name in self.elements)
        grouped = bool(self.groups or self.rows)
        return Types(a, b, self.d, grouped=grouped, scale="f8E8M0FNU", words=self.block)

    def kernel(self) -> weft.Kernel:
        assert self.schedule.complaint(self.types) is None, self.schedule.complaint(self.types)
        of_a, of_b = (2 + len(batch) for batch in self.batches)
        added = [("scale_a", "i32", of_a), ("scale_b", "i32", of_b)]
        added += [("groups", "i32", 1)] if self.types.grouped else []
        asked = product_kernel.Asked(self.types, (of_a, of_b, of_a), tuple(added), (False, True))
        return product_kernel.compiled(asked, self.schedule, self.chip)

    def operand(self, rows: int, element: str, batch: tuple[int, ...], seed: int) -> tuple[np.ndarray, ...]:
        """Elements, the words of their scales as the kernel has them, and the exact values."""
        chance, k = np.random.default_rng(seed), self.shape[2]
        elements = chance.integers(-2, 3, (*batch, rows, k)).astype(getattr(ml_dtypes, element))
        exponents = chance.integers(-3, 4, (*batch, rows, -(-k // self.block)))
        powers = (exponents + 127).astype(np.uint8)
        values = elements.astype(np.float64) * np.exp2(exponents).repeat(self.block, -1)[..., :k]
        return elements, words_of(powers), values

    def complaint(self, **options: object) -> str | None:
        """What is wrong with the product in the emulator."""
        m, n, _ = self.shape
        (a, words_a, left), (b, words_b, right) = (
            self.operand(*each)
            for each in ((m, self.elements[0], self.batches[0], 1), (n, self.elements[1], self.batches[1], 2))
        )
        out = np.full((*self.batches[0], m, n), -7, arrays.numpy_dtype(self.d))
        numbers = [np.array(self.groups or self.rows, np.int32)] if self.types.grouped else []
        report = self.kernel().emulate(packed(a), packed(b), out, words_a, words_b, *numbers, **options)
        if report.findings:
            return str(report.findings[0])
        if self.groups:
            wanted = np.stack([row @ right[group].T for row, group in zip(left, self.groups, strict=True)])
            kept = np.array(self.groups) >= 0
        else:
            wanted, kept = left @ right.swapaxes(-1, -2), np.ones(out.shape[:-1], bool)
        for index, count in enumerate(self.rows):
            kept[index, count:] = False
        rounded = wanted.astype(out.dtype)
        if np.array_equal(out[kept], rounded[kept]):
            return None
        wrong = np.argwhere(out[kept] != rounded[kept])
        return f"{len(wrong)} of {out[kept].size} differ, first at {wrong[0]}"


def words_of(powers: np.ndarray) -> np.ndarray:
    """Scales in words, ceil(groups / 4) x rows. Bytes after the last scale of a row are NaN."""
    *batch, rows, groups = powers.shape
    padded = np.full((*batch, rows, -(-groups // 4) * 4), NAN, np.uint8)
    padded[..., :groups] = powers
    return np.ascontiguousarray(padded.view("<i4").swapaxes(-1, -2))


def packed(elements: np.ndarray) -> object:
    view = arrays.view(elements)
    return packed_copy(view) if view.bits < 8 else elements


SHAPES = cycle(((300, 144, 640), (130, 80, 1152), (5, 48, 128), (140, 144, 1536), (128, 128, 512)))
SCHEDULES = (
    of(128, 128),
    of(128, 64, stages=3),
    of(128, 32, 1),
    of(128, 256, 1),
    of(128, 96),
    of(256, 64),
    of(256, 128, 1, epilogues=2),
    of(256, 128, cta_group=2),
    of(256, 256, 1, cta_group=2),
    of(256, 256, 2, cta_group=2),
    of(512, 64, 1, cta_group=2, epilogues=2),
    of(128, 32, swap=True),
    of(256, 64, cta_group=2, swap=True),
    of(128, 64, global_splits=2),
    of(128, 64, global_splits=3),
    of(256, 64, cta_group=2, global_splits=2),
    of(128, 64, cluster=(2, 1)),
    of(128, 64, cluster=(1, 2)),
    of(256, 64, cta_group=2, cluster=(1, 2)),
    of(128, 64, dynamic=True),
    of(256, 64, cta_group=2, dynamic=True),
    of(128, 64, 1, k=256),
    of(128, 32, 1, k=512),
    of(256, 64, 1, k=256, cta_group=2),
    # Words are written where a tile of D begins, which may be anywhere.
    of(128, 24),
    of(128, 48, swap=True),
    of(256, 144, cta_group=2),
)
CASES = (
    *(Case(schedule, next(SHAPES), block) for schedule in SCHEDULES for block in (128, 32)),
    Case(of(128, 64), (130, 72, 208)),
    Case(of(128, 64), (130, 72, 208), 32),
    Case(of(128, 64), (40, 72, 368), 32, d="bf16"),
    Case(of(128, 64), (130, 72, 640), elements=("float8_e5m2", "float8_e4m3fn")),
    Case(of(128, 64), (130, 72, 640), elements=("float8_e4m3fn", "float4_e2m1fn")),
    Case(of(128, 64), (130, 72, 640), elements=("float6_e3m2fn", "float8_e4m3fn")),
    Case(of(128, 64, k=256), (130, 72, 640), 32, elements=("float4_e2m1fn", "float4_e2m1fn")),
    *(  # on sm_103a with K = 96, whose scales begin in one word and end in the next
        Case(
            of(256, 128, k=256, cta_group=2), (130, 144, 640), 32, elements=("float4_e2m1fn",) * 2, chip=chip
        )
        for chip in ("sm_100a", "sm_103a")
    ),
    *(Case(of(128, 64), (130, 72, 640), block, batch=3) for block in (128, 32)),
    *(Case(of(256, 64, cta_group=2), (130, 72, 640), block, batch=2) for block in (128, 32)),
    *(
        Case(schedule, (384, 80, 640), block, batch=4, groups=(3,) * 128 + (-1,) * 128 + (1,) * 128)
        for schedule in (of(128, 64), of(128, 32, swap=True))
        for block in (128, 32)
    ),
    *(
        Case(schedule, (256, 80, 640), block, batch=4, rows=(256, 0, 1, 130))
        for schedule in (of(128, 64), of(128, 32, swap=True))
        for block in (128, 32)
    ),
)


@pytest.mark.each_value(1)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case):
    assert case.complaint() is None


PAIR = Case(of(256, 64, cta_group=2), (260, 72, 1152))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_warps_multiplies_the_same(seed):
    assert PAIR.complaint(seed=seed) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "chip"),
    [
        (of(256, 256, 1, 4, cta_group=2), "sm_100a"),
        (of(256, 224, 2, 4, cta_group=2, dynamic=True), "sm_103a"),
        (of(256, 128, 1, 3, epilogues=2), "sm_110a"),
    ],
    ids=str,
)
@pytest.mark.parametrize("block", [128, 32])
def test_ptxas_takes_the_kernels_without_spills(schedule, chip, block):
    kernel = Case(schedule, (512, 512, 1024), block, d="bf16", chip=chip).kernel()
    assert not kernel.resources.spill_stores and "block_scale" in kernel.ptx


_WRITTEN = r"(?=fence\.proxy\.async[^;]*;\s*tcgen05\.fence[^;]*;\s*bar\.warp\.sync)"
FAULTS = {
    "words that aren't written": (r"st\.shared\.v4[^;]*;\s*" + _WRITTEN, ""),
    "no fence for the async proxy": (_WRITTEN + r"fence\.proxy\.async[^;]*;", ""),
    "scales that aren't copied": (r"tcgen05\.cp[^;]*;", ""),
    "a stage of words that isn't released": (r"(tcgen05\.cp[^;]*;[^}]*?)tcgen05\.commit[^;]*;", r"\1"),
    "always the first scale of a word": (r"(mul\.lo\.s32 \t?%r\d+, %r\d+, )536870928;", r"\g<1>0;"),
    "a scale for A and the first for B": (r"(mul\.lo\.s32 \t?%r\d+, %r\d+, )536870928;", r"\g<1>536870912;"),
}


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("case", [replace(PAIR, schedule=of(128, 64)), PAIR], ids=["alone", "pair"])
def test_faults_in_what_brings_words_are_found(case, fault, monkeypatch):
    pattern, new = FAULTS[fault]
    right = case.kernel()
    text, count = re.subn(pattern, new, right.ptx)
    assert count
    wrong = kernel.Kernel(right.compiled, right.launch)
    wrong._module = emulator.Module(text)
    monkeypatch.setattr(Case, "kernel", lambda _: wrong)
    with contextlib.suppress(emulator.Fault, emulator.Deadlock):
        assert case.complaint(max_instructions=400_000) is not None


@pytest.mark.slow
@pytest.mark.parametrize("block", [128, 32])
def test_bytes_after_the_last_scale_are_ignored(block, monkeypatch):
    # With more slices than K blocks, some slices have a block beyond K, whose scales are such bytes.
    shape = 40, 72, 208
    assert Case(of(128, 64, global_splits=4), shape, block).complaint() is None
    monkeypatch.setattr(tcgen05_scales, "_mask", lambda left: emit.value(-1))
    assert Case(of(128, 64, global_splits=4, group=7), shape, block).complaint() is not None


@pytest.mark.parametrize(
    ("block", "schedule", "said"),
    [
        (
            128,
            of(128, 64, 1, k=384),
            "block K must divide 512, which have one word of scales of 128, got 384",
        ),
        (128, of(128, 64, k=64), "block K must be a multiple of 128"),
        (
            32,
            TmaMmaSchedule((64, 64, 128), (2, 2), 2),
            "in the 128x4 layout with a schedule of mma.sync with TMA",
        ),
        (32, of(128, 64, 1, k=384), None),
    ],
)
def test_schedules_that_do_not_fit_words_are_refused(block, schedule, said):
    found = schedule.complaint(Case(schedule, (1, 1, 1), block).types)
    assert found is None if said is None else said in found


@pytest.mark.parametrize(("chip", "tiles"), [("sm_90a", False), ("sm_120a", True)])
def test_other_chips_need_tiles(chip, tiles):
    with pytest.raises(
        WeftError, match=rf"has no schedule for {chip} that multiplies .* in words of .*: it needs .*sm_100a"
    ) as error:
        choice.choose(512, 512, 512, Case(of(128, 64), (1, 1, 1)).types, chip)
    assert ("or scales in the 128x4 layout (weft.tiled_scales)" in str(error.value)) == tiles


@pytest.mark.each_value(11)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
@pytest.mark.parametrize("sizes", [(16, 8192, 8192), (1000, 1000, 1024), (8192, 8192, 8192), (1, 1, 32)])
@pytest.mark.parametrize("block", [128, 32])
def test_each_product_has_a_schedule(sizes, chip, block):
    types = Case(of(128, 64), (1, 1, 1), block, d="bf16").types
    schedule = choice.choose(*sizes, types, chip)
    assert isinstance(schedule, TensorMemorySchedule)
    assert schedule.complaint(types, Target.of(chip)) is None


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    "schedule", [of(128, 64), of(256, 128, 1, epilogues=2), of(256, 64, cta_group=2, dynamic=True)]
)
def test_a_schedule_knows_the_shared_memory_of_its_kernel(schedule):
    case = Case(schedule, (1, 1, 1))
    assert case.kernel().launch.shared_bytes == schedule.shared_bytes(case.types)
