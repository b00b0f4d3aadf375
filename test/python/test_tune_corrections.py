"""Corrections of the time model: what they are fitted to, how they are found, and what they apply to."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import fit_model
import model_corrections as correct
import model_fit as fit
import model_times as times
import numpy as np
import pytest
from model_times import Times
from test_tune_fit import ONE, made

from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.errors import WeftError
from weft.schedules import h200, wgmma_cycles
from weft.schedules.h200 import H200
from weft.schedules.wgmma_kernels import Kernels

NAMES = list(H200.corrections)
NUMBERS = MappingProxyType({name: 0.03 * (-1) ** n for n, name in enumerate(NAMES)})
OTHER = replace(H200, corrections=NUMBERS)
BF16 = Types("bf16", "bf16", "bf16")


@cache
def measured(count: int = 40) -> Times:
    """Times of a chip with other corrections, whose products take a time of their own in addition."""
    drawn = made(count, "tn")
    source = np.random.default_rng(3)
    products = []
    for each in drawn.products:
        schedules = [drawn.schedules[index] for index in each.microseconds]
        kernels = Kernels.of(schedules, drawn.types, OTHER)
        cycles = wgmma_cycles.cycles(kernels, *each.size) * source.uniform(0.7, 1.5)
        us = map(float, cycles / OTHER.clock_mhz)
        products.append(replace(each, microseconds=dict(zip(each.microseconds, us, strict=True))))
    return replace(drawn, products=tuple(products))


def test_corrections_that_made_the_times_are_found() -> None:
    """Whatever all schedules of a product take longer."""
    found = correct.corrected(H200, [measured()], 0, all_=True)
    less = dict(NUMBERS) | {wgmma_cycles.LEVEL: found.corrections[wgmma_cycles.LEVEL]}
    assert dict(found.corrections) == pytest.approx(less, abs=2e-3)
    assert correct.corrected(H200, [measured()], 0, all_=True).corrections == found.corrections


def test_what_fences_took_is_no_part_of_the_corrections() -> None:
    def later(index: int, us: float) -> float:
        s = measured().schedules[index]
        return us + (0.5 if s.ctas > 1 else 0.0) + (0.2 if s.global_splits > 1 else 0.0)

    products = tuple(
        replace(each, microseconds={index: later(index, us) for index, us in each.microseconds.items()})
        for each in measured().products
    )

    def found(fenced: bool) -> dict[str, float]:
        older = replace(measured(), products=products, fenced=fenced)
        return dict(correct.corrected(H200, [measured(), older], 0, all_=True).corrections)

    right = dict(correct.corrected(H200, [measured()], 0, all_=True).corrections)
    off, worse = (
        max(abs(numbers[name] - right[name]) for name in right) for numbers in (found(True), found(False))
    )
    assert off < 0.05 < 0.3 < worse


def test_corrections_change_no_time_in_the_mean() -> None:
    """In that of products, each with that of its schedules, which count as in the fit."""
    sample = fit.Sample.of(measured(), 0)
    weights = sample.closeness / np.bincount(sample.product, sample.closeness)[sample.product]
    changes = [
        np.log(sample.cycles(correct.corrected(H200, [measured()], 0, all_=True)) / sample.cycles(model))
        for model in (correct.plain(H200), OTHER)
    ]
    ours, others = (abs(np.sum(weights * each)) / len(set(sample.product)) for each in changes)
    assert ours < 0.002 and others > 0.01


def test_a_corrected_model_chooses_better_among_the_measured() -> None:
    sample = fit.Sample.of(measured(), 0, checked=True)
    found = correct.corrected(H200, [measured()], 0)
    before, after = fit.quality(correct.plain(H200), sample), fit.quality(found, sample)
    assert before and after and after.regret <= 1.001 < before.regret


def test_only_kernels_of_16_bits_are_corrected() -> None:
    schedule = WarpgroupSchedule((128, 128, 128), 2, 3, cluster=(4, 1))
    fp8 = Types("f8E4M3FN", "f8E4M3FN", "bf16")
    for types, same in ((fp8, True), (BF16, False)):
        one, other = (
            wgmma_cycles.cycles(Kernels.of([schedule], types, model), 512, 512, 512)
            for model in (correct.plain(H200), OTHER)
        )
        assert (one == other).all() == same
    with pytest.raises(WeftError, match=r"^corrections need times of products of 16-bit elements"):
        correct.corrected(H200, [replace(ONE, inputs="e4m3", layout="nt")], 0)


@pytest.mark.parametrize(
    ("transposed", "shape", "able"),
    [
        ((False, False), (511, 512, 512), True),
        ((False, False), (512, 511, 512), False),
        ((False, False), (512, 512, 511), False),
        ((True, False), (511, 512, 512), False),
        ((True, True), (512, 512, 511), True),
    ],
)
def test_only_products_with_aligned_rows_are_corrected(transposed, shape, able) -> None:
    kernels = Kernels.of(
        [WarpgroupSchedule((128, 128, 64), 2, 3)], replace(BF16, transposed=transposed), OTHER
    )
    assert bool((wgmma_cycles.Case(kernels, *shape).factor != 1).all()) == able


@pytest.mark.parametrize(
    ("name", "schedule", "able"),
    [
        ("parted", {"stages": 4}, True),
        ("parted", {"stages": 2}, False),
        ("of_4", {"cluster": (4, 1)}, True),
        ("of_4", {"splits": 4}, False),
        ("of_8", {"cluster": (2, 4)}, True),
        ("clusters_of_odd_rows", {"cluster": (2, 1)}, True),
        ("clusters_of_odd_rows", {}, False),
        ("clusters_of_mn_major_a", {"cluster": (2, 1)}, False),
        ("of_2_stages", {"stages": 2}, True),
        ("of_3_stages", {"stages": 2}, False),
        ("clusters_cycles", {"cluster": (2, 1)}, True),
        ("clusters_cycles", {"splits": 2}, False),
        ("global_splits", {"global_splits": 2}, True),
        ("global_splits", {}, False),
        ("pieces_of_lines", {"block": (128, 240, 64)}, False),  # in strips
        ("pieces_of_lines", {"block": (64, 40, 64), "warpgroups": 1}, True),  # 80 bytes
        ("pieces_of_lines", {}, False),
        ("pieces_of_lines", {"block": (128, 240, 64), "swap": True}, False),
        ("pieces_of_lines", {"block": (256, 192, 64)}, True),  # in two parts
        ("pieces_of_sectors", {}, False),  # rows of D begin at multiples of 32 bytes
        ("written_by_clusters", {"cluster": (2, 1)}, True),
        ("written_by_clusters", {}, False),
    ],
)
def test_a_term_applies_to_its_kernels(name: str, schedule: dict[str, object], able: bool) -> None:
    """With rows of K = 1032 elements, at odd multiples of 16 bytes."""
    s = WarpgroupSchedule(**{"block": (128, 256, 64), "warpgroups": 2, "stages": 3, **schedule})  # type: ignore
    case = wgmma_cycles.Case(Kernels.of([s], BF16, H200), 512, 512, 1032)
    assert bool(np.all(case.terms[name])) == able


def test_multiprocessors_without_a_cta_count_where_memory_bounds_a_product() -> None:
    def term(block: tuple[int, int, int], m: int, n: int, k: int) -> float:
        s = WarpgroupSchedule(block, block[0] // 64, 4, swap=m < 64)
        case = wgmma_cycles.Case(Kernels.of([s], BF16, H200), m, n, k)
        return float(case.terms["idle"][0])

    assert term((64, 16, 128), 16, 64 * H200.multiprocessors, 8192) == 0.0
    assert term((64, 16, 128), 16, 32 * H200.multiprocessors, 8192) < -0.15
    assert term((128, 16, 128), 16, 96 * H200.multiprocessors, 8192) < -0.05
    assert abs(term((128, 256, 64), 4096, 4096, 4096)) < 1e-3


def test_clusters_write_the_pieces_of_a_sector_together() -> None:
    """With rows of D that begin at odd multiples of 16 bytes: CTAs that are beside each other count once."""

    def term(**fields: object) -> float:
        s = WarpgroupSchedule((128, 256, 64), 2, 3, **fields)  # type: ignore[arg-type]
        case = wgmma_cycles.Case(Kernels.of([s], BF16, H200), 512, 1032, 512)
        return float((case.terms["pieces_of_sectors"] * case.cycles)[0])

    assert term() > 0
    assert term(cluster=(1, 2)) == pytest.approx(term() / 2)
    assert term(cluster=(2, 1)) == pytest.approx(term())
    assert term(swap=True) == pytest.approx(4 * term())  # 128 bytes at a time rather than 512
    assert term(swap=True, cluster=(2, 1)) == pytest.approx(2 * term())


def test_the_corrections_of_a_chip_are_replaced() -> None:
    source = Path(h200.__file__).read_text("utf-8")
    assert correct.written(source, H200) == source
    changed = correct.written(source, OTHER)
    assert '    "of_8": 0.03,' in changed and len(changed.splitlines()) == len(source.splitlines())
    assert correct.written(changed, H200) == source
    with pytest.raises(WeftError, match=r"h200\.py must have corrections"):
        correct.written(source.replace("_CORRECTIONS =", "_OTHERS ="), H200)


def test_every_correction_of_a_chip_is_a_term() -> None:
    case = wgmma_cycles.Case(Kernels.of([WarpgroupSchedule((128, 128, 64), 2, 3)], BF16, H200), 512, 512, 512)
    assert list(H200.corrections) == [wgmma_cycles.LEVEL, *case.terms]


@pytest.mark.slow
def test_the_tool_corrects_prints_and_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, copy = tmp_path / "times.jsonl", tmp_path / "h200.py"
    file.write_text(times.written([measured(16)]))
    copy.write_text(Path(h200.__file__).read_text("utf-8"))
    assert fit_model.main(["--correct", str(file), str(file), "--models", str(copy)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["plain", "corrected"]
    row = next(line for line in lines if '"of_8"' in line)
    assert row in copy.read_text().splitlines()
    assert fit_model.main(["square", "--correct", str(file)]) == 1
    assert "--correct can't be used with shapes" in capfd.readouterr().err
