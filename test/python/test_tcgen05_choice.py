"""Which schedules of tcgen05 the model of their times chooses, and in which order it ranks them."""

from collections.abc import Iterator
from typing import Any

import pytest

from weft.dialects.schedule import TensorMemorySchedule, Types
from weft.schedules import choice, tcgen05
from weft.schedules.blackwell import B200
from weft.schedules.database import Product
from weft.schedules.gpus import gpu_of
from weft.schedules.predict import predict_schedule
from weft.target import Target

BF16 = Types("bf16", "bf16", "bf16")
TF32 = Types("f32", "f32", "f32")
E4M3 = Types("f8E4M3FN", "f8E5M2", "bf16")
SCALED = Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True, scaled=True)
S8 = Types("i8", "i8", "i32")
MN_MAJOR = Types("f16", "f16", "f32", transposed=(True, True))
GROUPED = Types("bf16", "bf16", "bf16", grouped=True)

MXFP8 = Types("f8E4M3FN", "f8E5M2", "bf16", scale="f8E8M0FNU")
MXFP6 = Types("f6E2M3FN", "f8E4M3FN", "bf16", scale="f8E8M0FNU")
NVFP4 = Types("f4E2M1FN", "f4E2M1FN", "bf16", scale="f8E4M3FN")

SHAPES = ((1, 64, 64), (16, 8192, 512), (300, 200, 100), (4096, 4096, 4096), (70000, 8, 8), (256, 256, 65536))


def time(schedule: TensorMemorySchedule, shape: tuple[int, int, int], types: Types) -> float:
    return predict_schedule(schedule, *shape, types, B200).microseconds


@pytest.mark.each_value(8)
@pytest.mark.sampled(5)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a", "sm_100f"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("types", [BF16, TF32, E4M3, SCALED, S8, MN_MAJOR, GROUPED, MXFP8, MXFP6, NVFP4])
def test_every_product_gets_a_legal_schedule(types: Types, shape: tuple[int, int, int], chip: str) -> None:
    if chip not in TensorMemorySchedule.chips(types):
        assert types == S8 and chip not in ("sm_100a", "sm_110a")
        return
    chosen = tcgen05.choose(*shape, types, chip)
    assert chosen is not None and chosen.complaint(types, Target.of(chip)) is None


def test_a_choice_does_not_depend_on_earlier_ones() -> None:
    shapes = (200, 4096, 512), (4096, 4096, 512), (40, 256, 4096), (300, 200, 4096)

    def choices() -> list[TensorMemorySchedule | None]:
        return [tcgen05.choose(*shape, BF16, "sm_100a") for shape in shapes]

    def alone() -> Iterator[TensorMemorySchedule | None]:
        for shape in shapes:
            tcgen05._all_tiles.cache_clear()
            yield tcgen05.choose(*shape, BF16, "sm_100a")

    assert choices() == list(alone()) and len({(each.group, each.swap) for each in choices() if each}) > 2


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("shape", "types"),
    [
        ((4096, 4096, 4096), BF16),
        ((64, 4096, 7168), E4M3),
        ((512, 512, 32768), BF16),
        ((16, 7168, 2048), SCALED),
    ],
)
def test_the_choice_is_among_the_fastest_that_are_legal(shape: tuple[int, int, int], types: Types) -> None:
    ranked = tcgen05.ranked(*shape, types, "sm_100a")
    times = [time(s, shape, types) for s in ranked]
    assert times == sorted(times) and len(ranked) > 100
    assert all(s.complaint(types, Target.of("sm_100a")) is None for s in ranked[::97])
    assert {s.dynamic for s in ranked} == {False, True}
    chosen = tcgen05.choose(*shape, types, "sm_100a")
    assert chosen in ranked and time(chosen, shape, types) <= 1.01 * times[0]


def test_few_of_the_schedules_that_take_about_as_long_are_checked(patch: pytest.MonkeyPatch) -> None:
    calls, complaint = [0], TensorMemorySchedule.complaint

    def counted(self: TensorMemorySchedule, *args: Any) -> str | None:
        calls[0] += 1
        return complaint(self, *args)

    patch.setattr(TensorMemorySchedule, "complaint", counted)
    assert tcgen05.choose(16, 8192, 7168, BF16, "sm_100a") is not None and calls[0] < 20


def test_the_model_prefers_what_the_best_kernels_have() -> None:
    large = tcgen05.choose(8192, 8192, 8192, BF16, "sm_100a")
    assert large is not None and (large.block, large.cta_group, large.accumulators) == ((256, 256, 64), 2, 2)
    assert large.cluster == (1, 1) and large.global_splits == 1 and large.stages >= 5
    few = tcgen05.choose(16, 8192, 8192, BF16, "sm_100a")
    assert few is not None and few.swap and few.block[1] == 16
    long = tcgen05.choose(256, 256, 65536, BF16, "sm_100a")
    assert long is not None and long.global_splits > 1
    # 17 columns of tiles make four full waves, 16 wider ones not quite four.
    waves = tcgen05.choose(4096, 4096, 4096, BF16, "sm_100a")
    assert waves is not None and predict_schedule(waves, 4096, 4096, 4096, BF16, B200).parts["tail"] < 3


def test_a_small_chip_and_a_batch_need_fewer_columns_or_ctas() -> None:
    one, many = (tcgen05.choose(256, 256, 4096, BF16, "sm_100a", members=n) for n in (1, 256))
    assert one is not None and many is not None and one != many
    assert one.global_splits > 1 or one.block[0] * one.block[1] < many.block[0] * many.block[1]
    assert gpu_of("sm_110a").multiprocessors == 20
    assert tcgen05.choose(512, 512, 4096, BF16, "sm_110a") != tcgen05.choose(512, 512, 4096, BF16, "sm_100a")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103f", "sm_110a"])
def test_it_is_chosen_where_chips_have_tensor_memory(chip: str) -> None:
    for mnk in ((4096, 4096, 4096), (1, 4096, 4096), (None, None, None)):
        chosen = choice.choose(*mnk, BF16, chip)
        assert isinstance(chosen, TensorMemorySchedule) and chosen.complaint(BF16, Target.of(chip)) is None
    candidates = choice.candidates(Product(64, 4096, 4096, BF16, chip))
    assert isinstance(candidates[0], TensorMemorySchedule)


def test_types_without_a_legal_schedule_get_none() -> None:
    mn_major = Types("f4E2M1FN", "f4E2M1FN", "f32", transposed=(True, False), scale="f8E4M3FN")
    assert tcgen05.choose(4096, 4096, 4096, mn_major, "sm_100a") is None
