"""Schedules for `tcgen05.mma`: which are legal, and what they take of a chip."""

from dataclasses import replace
from random import Random

import pytest

from weft.dialects.schedule import TensorMemorySchedule, Types
from weft.target import Target

BYTES_OUT = Types("bf16", "bf16", "f8E5M2")
MN_MAJOR = Types("f32", "f32", "f32", (True, True))
GROUPED = Types("f16", "f16", "f16", grouped=True)
BF16 = Types("bf16", "bf16", "bf16")
MXFP8 = Types("f8E4M3FN", "f8E4M3FN", "bf16", scale="f8E8M0FNU")
NVFP4 = Types("f4E2M1FN", "f4E2M1FN", "f32", scale="f8E4M3FN")
WORDS = Types("f8E4M3FN", "f8E4M3FN", "bf16", scale="f8E8M0FNU", words=32)
FP8 = Types("f8E4M3FN", "f8E5M2", "bf16", promoted=True, scaled=True)
CHIP = Target.of("sm_100a")


def of(
    m: int, n: int, k: int, accumulators: int = 1, stages: int = 2, **fields: object
) -> TensorMemorySchedule:
    return TensorMemorySchedule((m, n, k), accumulators, stages, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "types", "complaint"),
    [
        (of(256, 256, 64, 2, 5, cta_group=2), BF16, None),
        (of(128, 256, 64, 2, 3), BF16, None),
        (of(256, 256, 64, 1, 2), BF16, None),
        (of(512, 256, 64, 1, 3, cta_group=2, epilogues=2), BF16, None),
        (of(128, 128, 128), FP8, None),
        (of(128, 256, 128, 2), MXFP8, None),
        (of(256, 256, 256, 2, cta_group=2), NVFP4, None),
        (of(256, 128, 128, 2), MXFP8, "got 524 (2 of 2 x 128, and 12 of scales)"),
        (of(128, 256, 1536, 2), MXFP8, "got 656 (2 of 1 x 256, and 144 of scales)"),
        (of(96, 128, 64), BF16, "block M must be 64, 128 or 256 with cta_group 1, got 96"),
        (of(256, 256, 64, 2), BF16, "accumulators must take at most 512 columns of tensor memory, got 1024"),
        (of(128, 260, 64), BF16, "tcgen05.mma n must be"),
        (of(128, 24, 64), BYTES_OUT, "block N must be a multiple of 16 for D of f8E5M2"),
        (of(128, 24, 64, epilogues=2), BF16, "columns of tensor memory must be a multiple of 16 with 2"),
        (of(128, 128, 64, 3), BF16, "accumulators must be 1 or 2, got 3"),
        (of(128, 0, 64), BF16, "block must have numbers of at least 1, got 128 x 0 x 64"),
        (of(128, 128, 64, cluster=(1, -1)), BF16, "cluster must have numbers of at least 1, got 1 x -1"),
        (of(128, 128, 64, cta_group=0), BF16, "cta_group must be at least 1, got 0"),
        (of(128, 128, 64, epilogues=0), BF16, "epilogues must be at least 1, got 0"),
        (of(128, 128, 64, global_splits=0), BF16, "global_splits must be at least 1, got 0"),
        (of(128, 128, 64, cta_group=3), BF16, "cta_group must be 1 or 2, got 3"),
        (of(128, 128, 64, epilogues=3), BF16, "epilogues must be 1 or 2, got 3"),
        (of(128, 128, 48), BF16, "block K must have 32, 64 or a multiple of 128 bytes, got 96"),
        (of(128, 256, 64, 2, 6), BF16, "shared memory must be at most 232448 bytes on sm_100a, got"),
        (of(128, 256, 128), FP8, "must hold at most 128 promoted sums in its 248 registers, got 256"),
        (of(256, 96, 128, epilogues=2), FP8, None),
        (of(128, 48, 128, swap=True), FP8, None),
        (of(128, 64, 128, swap=True), FP8, "at most 48 promoted sums with as many factors"),
        (of(256, 128, 128, epilogues=2), FP8, "at most 96 promoted sums in its 216 registers, got 128"),
        (of(128, 128, 64), FP8, "block K must be 128, after which sums are promoted, got 64"),
        (of(256, 128, 64, cluster=(3, 1)), BF16, "cluster must have 1, 2, 4 or 8 CTAs, got 3"),
        (of(256, 256, 64, cta_group=2), GROUPED, "must divide 128 with groups"),
        (of(128, 128, 32), MN_MAJOR, None),
        (of(128, 48, 32), MN_MAJOR, "block N must be a multiple of 32 for an MN-major operand, got 48"),
    ],
)  # fmt: skip
def test_legal_schedules(schedule: TensorMemorySchedule, types: Types, complaint: str | None) -> None:
    found = schedule.complaint(types, CHIP)
    assert found == complaint if complaint is None else complaint in (found or "")


@pytest.mark.parametrize(
    ("schedule", "columns", "stage", "staging"),
    [
        (of(256, 256, 64, 2, 5, cta_group=2), 512, 32 << 10, 32 << 10),
        (of(512, 256, 64, 1, 3, cta_group=2, epilogues=2), 512, 48 << 10, 64 << 10),
        (of(128, 256, 64, 2), 512, 48 << 10, 32 << 10),
        (of(128, 192, 64, 1, cta_group=2), 128, 20 << 10, 16 << 10),
        (of(64, 24, 64), 32, 11 << 10, 2 * 64 * 8 * 2),
    ],
)
def test_what_a_cta_holds(schedule: TensorMemorySchedule, columns: int, stage: int, staging: int) -> None:
    assert schedule.tensor_columns == columns
    assert schedule.stage_bytes(BF16) == stage
    assert schedule.staging_bytes(BF16) == staging
    most = schedule.most_stages(BF16, CHIP.chip.shared_bytes)
    fullest = TensorMemorySchedule(schedule.block, 1, most, schedule.cta_group, epilogues=schedule.epilogues)
    assert fullest.complaint(BF16, CHIP) is None


@pytest.mark.parametrize(
    ("schedule", "types", "shared", "slices"),
    [
        (of(128, 256, 128, 2), MXFP8, 16, 1),
        (of(128, 256, 256, 2), NVFP4, 48, 2),
        (of(256, 256, 256, 2, cta_group=2, epilogues=2), NVFP4, 48, 2),
        (of(128, 256, 128, 1), MXFP8, 0, 4),
        (of(128, 128, 128, 2), MXFP8, 0, 2),
        (of(128, 256, 64, 2), BF16, 0, 4),
    ],
)
def test_accumulators_share_columns_where_scales_need_some(
    schedule: TensorMemorySchedule, types: Types, shared: int, slices: int
) -> None:
    assert schedule.complaint(types) is None
    assert schedule.shared_columns(types) == shared
    assert schedule.kept_slices(types) == slices


@pytest.mark.parametrize("types", [BF16, BYTES_OUT, MN_MAJOR, FP8, MXFP8, NVFP4, WORDS])
def test_one_more_stage_than_the_most_does_not_fit(types: Types) -> None:
    random, found = Random(5), set()
    for _ in range(60):
        cta_group, accumulators, epilogues = (random.choice((1, 2)) for _ in range(3))
        block = cta_group * random.choice((64, 128, 256)), random.randrange(16, 257, 16), 128
        fields = {"cta_group": cta_group, "epilogues": epilogues, "dynamic": random.random() < 0.5}
        schedule = of(*block, accumulators, **fields, swap=random.random() < 0.5)
        room = random.randrange(10_000, 232_448)
        fitting = [n for n in range(1, 40) if replace(schedule, stages=n).shared_bytes(types) <= room]
        most = schedule.most_stages(types, room)
        assert most == max(fitting, default=0), schedule
        found.add(most)
    assert found >= {0, 1, 2}


def test_chips_of_the_kinds() -> None:
    assert {"sm_100a", "sm_100f", "sm_103a", "sm_110a", "sm_110f"} <= TensorMemorySchedule.chips(BF16)
    integers = TensorMemorySchedule.chips(Types("i8", "ui8", "i32"))
    assert integers == {"sm_100a", "sm_110a"}
    assert not TensorMemorySchedule.chips(Types("f16", "f8E5M2", "f32"))
