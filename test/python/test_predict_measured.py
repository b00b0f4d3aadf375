"""Times that weft bench measured, next to those that the models predict."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from weft.bench.compiling import written
from weft.bench.measure import Result, Timing
from weft.bench.problem import Check, Problem
from weft.bench.report import Report
from weft.dialects.schedule import (
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
)
from weft.errors import WeftError
from weft.schedules import choice, wgmma
from weft.schedules.blackwell import B200
from weft.schedules.gpus import GPUS
from weft.schedules.h200 import H200
from weft.schedules.predict import predict_schedule
from weft.tools import predict_measured

FILES = [
    p
    for p in sorted((Path(__file__).parents[2] / "benchmarks").glob("h200-*.json"))
    if "grouped" not in p.name
]
ALLOWED = 0.12
BF16 = Types("bf16", "bf16", "bf16")
SCHEDULE = WarpgroupSchedule((128, 256, 64), 2, 3)


def read(path: Path) -> Report:
    return Report.of_json(path.read_text())


@pytest.mark.each_value(3)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_some_times_of_an_h200_are_predicted_within_12_percent_in_the_median(path: Path) -> None:
    compared = list(predict_measured.comparisons(read(path), step=5))
    assert {each.mode for each in compared} == {"burst", "sustained"}
    assert median(abs(each.error) for each in compared) < ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["burst", "sustained"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_times_of_an_h200_are_predicted_within_12_percent_in_the_median(path: Path, mode: str) -> None:
    errors = [abs(each.error) for each in predict_measured.comparisons(read(path)) if each.mode == mode]
    assert median(errors) < ALLOWED


def test_predictions_for_wgmma_start_from_the_model_that_chooses() -> None:
    """So that they can't contradict the choice of schedules, except where power is the limit."""
    gpu = replace(GPUS["H200"], caps={}, burst_caps={})
    predicted = predict_schedule(SCHEDULE, 4096, 4096, 4096, BF16, gpu)
    cycles = wgmma.modeled((SCHEDULE,), 4096, 4096, 4096, BF16, H200)[0]
    assert predicted.microseconds == pytest.approx(cycles / 1980)
    assert predicted.bound in ("tensor cores", "TMA") and "power" not in predicted.parts
    assert (predicted.counts.tiles, predicted.counts.waves, predicted.counts.k_blocks) == (512, 4, 64)
    assert predict_schedule(SCHEDULE, 4096, 4096, 4096, BF16, GPUS["H200"]).bound == "power"


def test_bursts_have_limits_of_their_own() -> None:
    sizes = 8192, 8192, 8192
    burst, sustained = (
        predict_schedule(SCHEDULE, *sizes, BF16, GPUS["H200"], burst=burst) for burst in (True, False)
    )
    assert burst.microseconds < sustained.microseconds


def test_families_without_a_model_on_a_gpu_are_refused() -> None:
    for schedule, gpu, needed in (
        (
            Schedule((128, 128, 64), (2, 2), 3),
            B200,
            "for a model of B200, got one of mma.sync: compile for sm_100a",
        ),
        (Schedule((128, 128, 64), (2, 2), 3), GPUS["H200"], "schedule must be of wgmma for a model of H200"),
        (TensorMemorySchedule((128, 128, 64), 1, 3), GPUS["RTX 5090"], "schedule must be of mma.sync for a"),
        (SCHEDULE, B200, "schedule must be of tcgen05 for a model of B200, got one of wgmma: compile for"),
    ):
        with pytest.raises(WeftError, match=needed):
            predict_schedule(schedule, 64, 64, 64, BF16, gpu)


def test_unit_scales_double_the_rate_of_fp8_on_geforce_alone() -> None:
    types, plain = Types("f8E4M3FN", "f8E5M2", "bf16"), TmaMmaSchedule((128, 128, 128), (4, 2), 3)
    for name, faster in (("RTX 5090", True), ("RTX PRO 6000", False)):
        gpu = replace(GPUS[name], caps={})
        times = [
            predict_schedule(replace(plain, unit_scales=unit), 4096, 4096, 4096, types, gpu).parts
            for unit in (False, True)
        ]
        assert (times[1]["tensor cores"] < 0.6 * times[0]["tensor cores"]) == faster
        assert times[1]["L2"] == times[0]["L2"]


def report(device: dict[str, object], *results: Result, command: tuple[str, ...] = ()) -> Report:
    return Report(["weft", "bench", *command], "2026-11-22", None, device, {}, list(results))


def result(microseconds: float, m: int = 512, name: str = "weft", **fields: object) -> Result:
    timing = Timing(1000, (microseconds,) * 3)
    values: dict[str, object] = {"n": 512, "k": 512, "inputs": "bf16", "output": "bf16"} | fields
    problem = Problem(m, **values)  # type: ignore[arg-type]
    return Result(problem, name, burst=timing, check=Check(1e-3, 1e-2))


def test_the_gpu_of_a_run_is_found_by_name_and_by_chip() -> None:
    for name, chip, gpu in (
        ("NVIDIA B200", "sm_100a", "B200"),
        ("NVIDIA GB200", "sm_100a", "GB200"),
        ("NVIDIA Graphics Device", "sm_103a", "B300"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm_120a", "RTX PRO 6000"),
    ):
        assert predict_measured.gpu_of_report(report({"name": name, "chip": chip})).name == gpu
    with pytest.raises(WeftError, match="arch must be a chip with a model of its GPUs"):
        predict_measured.gpu_of_report(report({"name": "NVIDIA A100", "chip": "sm_80"}))


def test_own_results_without_groups_are_compared() -> None:
    run = report(
        {"name": "NVIDIA H200", "chip": "sm_90a"},
        result(3.0),
        result(2.0, name="cublas"),
        replace(result(1.0), check=Check(0.5, 1e-2)),
        result(5.0, m=1024, groups=4),
        command=("--schedule", "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}"),
    )
    (compared,) = predict_measured.comparisons(run)
    wanted = predict_schedule(
        WarpgroupSchedule((64, 64, 64), 1, 4), 512, 512, 512, BF16, GPUS["H200"], burst=True
    )
    assert compared.predicted == wanted
    assert compared.error == pytest.approx(wanted.microseconds / 3.0 - 1)
    error = f"{abs(compared.error):.1%} off in the median of 1, {compared.error:+.1%} at most"
    assert list(predict_measured.lines([compared]))[-1] == f"bf16 to bf16, burst: {error}"


def test_the_schedule_of_a_file_is_predicted_where_it_has_one() -> None:
    device, slow = {"name": "NVIDIA H200", "chip": "sm_90a"}, WarpgroupSchedule((64, 64, 64), 1, 2)
    run = report(device, replace(result(3.0), schedule=written(slow)), result(3.0, m=1024))
    first, second = predict_measured.comparisons(run)
    assert (first.schedule, first.recorded, second.recorded) == (slow, True, False)
    assert second.schedule == choice.choose(1024, 512, 512, BF16, "sm_90a")
    sizes = 512, 512, 512
    assert first.predicted == predict_schedule(slow, *sizes, BF16, GPUS["H200"], burst=True)
    shown = list(predict_measured.lines([first, second]))
    assert ["  file    " in row for row in shown[1:3]] == [True, False]
    assert shown[-1] == "schedules of 1 of 2 times are those that Weft chooses now: the file has none"


def test_products_of_copied_operands_are_predicted_as_they_are_multiplied() -> None:
    copied = result(90.0, 4096, n=4096, k=4096, inputs="e4m3", transpose_b=False)
    (compared,) = predict_measured.comparisons(report({"name": "NVIDIA H200", "chip": "sm_90a"}, copied))
    assert isinstance(compared.schedule, WarpgroupSchedule)


def test_files_without_own_results_are_refused() -> None:
    with pytest.raises(WeftError, match="must have results of weft without groups, got none"):
        list(predict_measured.lines([]))
