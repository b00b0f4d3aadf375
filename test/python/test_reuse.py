"""Compiled kernels that products get in place of those of their chosen schedules."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from fake_driver import GpuArray, two_gpus

import weft
from weft.cache import disk_cache as cache
from weft.cache import loaded
from weft.dialects.schedule import Schedule, Types, WarpgroupSchedule
from weft.multiply import compiled_schedules, product_kernel
from weft.multiply.operands import Operands
from weft.multiply.product import Product
from weft.schedules import choice, wgmma, wgmma_cycles

F16 = Types("f16", "f16", "f16")
CHIP = "sm_90a"
SIZES = 1000, 1000, 1000


def instead(chosen, *compiled, sizes=SIZES, types=F16, members=1):
    return choice.compiled_instead(chosen, compiled, *sizes, types, CHIP, members)


@pytest.fixture
def model(patch):
    """A model in which a schedule takes as many cycles as its block has columns."""
    patch.setattr(wgmma, "modeled", lambda schedules, *_, **__: [s.block[1] for s in schedules])


CHOSEN = WarpgroupSchedule((128, 208, 64), 2, 3)


def test_a_compiled_kernel_is_taken_where_it_is_predicted_to_be_as_fast(model):
    near, far, faster = (replace(CHOSEN, block=(128, n, 64)) for n in (214, 216, 192))
    assert instead(CHOSEN, near) == near
    assert instead(CHOSEN, far) == CHOSEN
    assert instead(CHOSEN, near, faster, far) == faster
    assert instead(CHOSEN, near, faster, CHOSEN) == CHOSEN
    assert instead(CHOSEN) == CHOSEN


def test_compiled_kernels_are_predicted_at_once(patch):
    predicted, cycles = [], wgmma_cycles.cycles
    patch.setattr(wgmma_cycles, "cycles", lambda *of: predicted.append(len(of[0])) or cycles(*of))
    compiled = [replace(CHOSEN, block=(128, n, 64)) for n in (64, 72, 80)]
    assert instead(CHOSEN, *compiled, Schedule((64, 64, 32), (2, 2), 3)) in (CHOSEN, *compiled)
    assert predicted == [3, 1]


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        ({"stages": 2}, True),
        ({"cluster": (2, 1)}, True),
        ({"block": (128, 208, 128)}, True),
        ({"block": (256, 208, 64)}, True),
        ({"splits": 2}, False),
        ({"global_splits": 2}, False),
        ({"swap": True}, False),
        ({"stream_k": True}, False),
        ({"group": 4}, False),
    ],
)
def test_only_kernels_with_the_same_results_are_taken(model, other, taken):
    compiled = replace(CHOSEN, **other)
    assert instead(CHOSEN, compiled) == (compiled if taken else CHOSEN)


def test_slices_are_of_the_same_k_blocks(model):
    sliced = replace(CHOSEN, global_splits=2)
    deeper = replace(sliced, block=(128, 208, 128))
    assert instead(sliced, deeper) == sliced
    assert instead(sliced, replace(sliced, stages=2)) == replace(sliced, stages=2)


def test_groups_dont_matter_where_there_is_only_one(model):
    other = replace(CHOSEN, group=4)
    assert instead(CHOSEN, other, sizes=(4 * 128, 1000, 1000)) == other
    assert instead(CHOSEN, other, sizes=(4 * 128 + 1, 1000, 1000)) == CHOSEN


def test_a_tuned_schedule_is_not_replaced(model, patch):
    near = replace(CHOSEN, stages=2)
    patch.setattr(choice, "_tuned", lambda *_: CHOSEN)
    assert instead(CHOSEN, near) == CHOSEN
    assert instead(CHOSEN, near, members=2) == near  # of which none are tuned


def test_families_without_a_model_keep_the_chosen_schedule():
    chosen = Schedule((64, 64, 64), (2, 2), 3)
    assert instead(chosen, replace(chosen, stages=2)) == chosen


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("types", [F16, Types("f8E4M3FN", "f8E4M3FN", "bf16")])
@pytest.mark.parametrize(
    "fields", [{}, {"swap": True}, {"splits": 2}, {"global_splits": 2}, {"splits": 2, "swap": True}]
)
def test_schedules_that_are_exchanged_have_the_same_results(types, fields):
    """In the emulator, whose tensor cores truncate as hardware does."""
    rng = np.random.default_rng(5)
    kind, depth = (np.float16, 64) if types.a == "f16" else (ml_dtypes.float8_e4m3fn, 128)
    a, b = (rng.standard_normal((rows, 8 * depth)).astype(kind) for rows in (64, 48))
    deeper = depth if "splits" in "".join(fields) else 2 * depth
    one, *others = (
        WarpgroupSchedule((64 * warpgroups, n, k), warpgroups, stages, **fields)
        for warpgroups, n, k, stages in ((1, 16, depth, 3), (2, 32, depth, 2), (1, 64, deeper, 2))
    )
    assert all(each.same_results(one) for each in others)

    def result(schedule):
        options = {"out_dtype": "f32", "transpose_b": True, "arch": CHIP}
        return weft.matmul(a, b, schedule=schedule, **options).tobytes()

    assert {result(each) for each in others} == {result(one)}
    other = replace(one, block=(64, 32, depth), splits=4, global_splits=1)
    assert not other.same_results(one) and result(other) != result(one)


SPLIT = replace(CHOSEN, splits=2)
BY_ROWS = {1000: CHOSEN, 2000: replace(CHOSEN, block=(128, 192, 64)), 3000: SPLIT}


@pytest.fixture
def driver(patch, tmp_path, model):
    """Products whose schedules depend on their rows."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    patch.setattr(choice, "choose", lambda m, *_, **__: BY_ROWS[m])
    with two_gpus(patch) as fake:
        patch.delenv(compiled_schedules.VARIABLE)
        yield fake


def kernels_for(driver, *rows):
    """How many kernels there are after products of so many rows."""
    for m in rows:
        weft.matmul(GpuArray(driver, 0, m, 64), GpuArray(driver, 0, 64, 512))
    return product_kernel.compiled.cache_info().currsize


def test_a_kernel_serves_several_sizes(driver):
    assert kernels_for(driver, 2000, 1000) == 1
    assert kernels_for(driver, 3000) == 2


@pytest.mark.slow
def test_a_kernel_serves_several_sizes_in_later_processes(driver):
    kernels_for(driver, 2000, 3000)
    product_kernel.compiled.cache_clear()
    compiled_schedules._known.cache_clear()
    assembled = len(list(cache.default().directory.glob("cubin-*")))
    kernels_for(driver, 1000)
    assert len(list(cache.default().directory.glob("cubin-*"))) == assembled == 2


def test_a_later_process_knows_the_schedules_that_were_compiled(patch, tmp_path):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    patch.delenv(compiled_schedules.VARIABLE, raising=False)
    added = SPLIT, CHOSEN
    for schedule in added:
        compiled_schedules.add("a kind", schedule)
    compiled_schedules._known.cache_clear()
    assert set(compiled_schedules.of("a kind")) == set(added)
    assert compiled_schedules.of("another kind") == ()


def test_what_is_known_of_a_kind_costs_no_look_at_files(driver, patch):
    assert compiled_schedules.of("a kind") == ()
    patch.setattr(loaded, "unchanged", lambda: pytest.fail("looks"))
    compiled_schedules.add("another kind", CHOSEN)
    assert compiled_schedules.of("another kind") == (CHOSEN,)


def test_no_compiled_schedule_is_known_with_the_variable(patch):
    patch.setenv("WEFT_CACHE", "0")
    schedule = Schedule((64, 64, 32), (2, 2), 2)
    compiled_schedules.add("a kind", schedule)
    assert compiled_schedules.of("a kind") == (schedule,)
    patch.setenv(compiled_schedules.VARIABLE, "0")
    assert compiled_schedules.of("a kind") == ()


@pytest.mark.slow
def test_the_variable_gives_each_product_its_own_kernel(driver, patch):
    patch.setenv(compiled_schedules.VARIABLE, "0")
    assert kernels_for(driver, 2000, 1000) == 2


@pytest.mark.slow
def test_arrays_on_the_cpu_get_the_chosen_kernel(driver):
    kernels_for(driver, 2000)
    zeros = np.zeros((1000, 64), np.float16), np.zeros((64, 512), np.float16)
    before = product_kernel.compiled.cache_info().currsize
    product_kernel.of(Operands.of(*zeros, None, {}, Product(arch=CHIP)), CHIP)
    assert product_kernel.compiled.cache_info().currsize == before + 1
