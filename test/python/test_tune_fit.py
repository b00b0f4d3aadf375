"""Fits of the time model: files of measured times, what is measured, and how well known numbers are found."""

from dataclasses import replace
from pathlib import Path

import fit_model
import model_fit as fit
import model_record as record
import model_times as times
import pytest
from bench_fakes import FakeGpu
from model_times import ProductTimes, Times
from model_trials import Trials

from weft.bench import implementations
from weft.bench.compiling import product_of, written
from weft.bench.problem import Problem
from weft.bench.suites import random_shapes
from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError
from weft.schedules import h200, wgmma, wgmma_cycles, wgmma_kernels
from weft.schedules.h200 import H200
from weft.target import Target

SCHEDULE = WarpgroupSchedule((128, 128, 64), 2, 4, swap=True, cluster=(2, 1), global_splits=3)
ONE = Times("bf16", "tn", (SCHEDULE,), (ProductTimes((8, 64, 128), {0: 3.25}, None),))
OTHER = replace(H200, memory=1500.0, start=3000.0, rows_16=1.0, factor_16=1.3)


def made(count: int = 24, layout: str = "nt") -> Times:
    """Times as a chip with other numbers would take them."""
    empty = Times("bf16", layout, (), ())
    trials, schedules, products = Trials(), {}, []
    for m, n, k, *_ in random_shapes(5, count, 8, 8):
        found = trials.of(product_of(Problem(m, n, k, "bf16", "bf16"), "sm_90a"))
        index = [schedules.setdefault(s, len(schedules)) for s in found]
        kernels = wgmma_kernels.Kernels.of(found, empty.types, OTHER)
        cycles = wgmma_cycles.cycles(kernels, m, n, k) / OTHER.clock_mhz
        products.append(ProductTimes((m, n, k), dict(zip(index, map(float, cycles), strict=True)), 10.0))
    return replace(empty, schedules=tuple(schedules), products=tuple(products))


def test_times_are_read_as_they_were_written() -> None:
    other = replace(ONE, layout="nt", products=(ProductTimes((1, 2, 3), {0: 1.5}, 2.5),))
    older = replace(ONE, fenced=True)
    assert list(times.read(times.written([ONE, other, older]))) == [ONE, other, older]
    assert ONE.types.transposed == (True, True)


@pytest.mark.parametrize("text", ["{", "{}", '{"inputs": "bf17", "layout": "nt"}', "[]"])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(WeftError, match=r"^line 2 must have times of schedules: "):
        list(times.read(times.written([ONE]) + text))


@pytest.mark.slow
def test_a_fit_finds_the_numbers_that_made_the_times() -> None:
    sample = fit.Sample.of(made(10), 0)
    before, found = fit.quality(H200, sample), fit.fit(H200, [sample])
    after = fit.quality(found, sample)
    assert before and after and before.error > 0.05 and after.error < 0.01 and after.regret < 1.01
    assert found.memory == pytest.approx(OTHER.memory, rel=0.1)


@pytest.mark.slow
def test_a_fit_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_STEPS", 1)
    first, second = (fit.fit(H200, [fit.Sample.of(made(6), 0)]) for _ in range(2))
    assert fit.numbers(first) == fit.numbers(second) != fit.numbers(H200)


@pytest.mark.slow
def test_a_seed_divides_the_products() -> None:
    measured = made(40)
    parts = [set(fit.Sample.of(measured, 3, checked=checked).product) for checked in (False, True)]
    assert not parts[0] & parts[1] and parts[0] | parts[1] == set(range(40))
    assert 3 <= len(parts[1]) <= 20
    assert set(fit.Sample.of(measured, 4, checked=True).product) != parts[1]


def test_regret_is_the_time_of_the_chosen_schedule_over_the_fastest() -> None:
    schedules = WarpgroupSchedule((128, 256, 64), 2, 3), WarpgroupSchedule((64, 8, 64), 1, 4)
    measured = Times(
        "bf16", "nt", schedules, (ProductTimes((4096, 4096, 4096), {0: 200.0, 1: 160.0}, 320.0),)
    )
    quality = fit.quality(H200, fit.Sample.of(measured, 0))
    assert quality and (quality.products, quality.regret, quality.worst) == (1, pytest.approx(1.25), 1.25)
    assert (quality.against, quality.best_against) == (pytest.approx(1.6), pytest.approx(2.0))


def test_the_numbers_of_a_fit_replace_those_of_its_chip() -> None:
    source = Path(h200.__file__).read_text("utf-8")
    assert fit.written(source, H200) == source
    changed = fit.written(source, replace(H200, memory=1234.5))
    assert changed.count("    memory: float = 1234.5  #") == 1
    assert len(changed.splitlines()) == len(source.splitlines())
    with pytest.raises(WeftError, match=r"h200\.py must have the numbers memory"):
        fit.written(source.replace("    memory:", "    memories:"), H200)


@pytest.mark.slow
def test_the_tool_fits_prints_and_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, copy = tmp_path / "times.jsonl", tmp_path / "h200.py"
    file.write_text(times.written([made(12)]))
    copy.write_text(Path(h200.__file__).read_text("utf-8"))
    assert fit_model.main(["--fit", str(file), "--models", str(copy)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["products", "error", "%", "regret", "%", "worst", "%", "cuBLAS", "best"]
    assert [line.split()[-1] for line in lines[1:3]] == ["fit", "check"]
    row = next(line for line in lines if line.startswith("    memory: "))
    assert row in copy.read_text()


def test_shapes_beside_a_fit_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert fit_model.main(["square", "--fit", "kept"]) == 1
    message = "--fit can't be used with shapes: it measures nothing"
    assert capfd.readouterr().err.startswith(f"fit_model: error: {message}")


def test_trials_are_legal_differ_and_share_kernels() -> None:
    trials, target = Trials(), Target.of("sm_90a")
    drawn = []
    for m, n, k, *_ in random_shapes(9, 20):
        product = product_of(Problem(m, n, k, "bf16", "bf16"), "sm_90a")
        found = trials.of(product)
        assert 5 <= len(found) == len(set(found)) <= 10
        assert all(s.complaint(product.types, target) is None for s in found)
        drawn += found
    assert len(trials.used) < 0.65 * len(drawn)


class Compiler:
    """Refuses one schedule."""

    def __init__(self, refused: str) -> None:
        self._refused = refused

    def ahead(self, product: object, schedules: list[str]) -> None: ...

    def complaint(self, product: object, schedule: str) -> str | None:
        return "refused" if schedule == self._refused else None


def test_what_was_measured_is_kept_after_each_product(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [Problem(64, 512, 512, "bf16", "bf16"), Problem(96, 512, 512, "bf16", "bf16", False)]
    asked = record.planned([(p, product_of(p, "sm_90a")) for p in problems], 0)
    texts = [written(s) for _, _, schedules in asked for s in schedules]
    refused = texts[0]
    fake = FakeGpu()
    monkeypatch.setattr(
        implementations, "weft", lambda text: fake.implementation(text, 1.0 + texts.index(text))
    )
    monkeypatch.setattr(record, "_OTHER", fake.implementation("cublas", 0.5))
    kept: list[str] = []
    steps: list[tuple[int, int]] = []
    found = record.recorded(
        *(asked, fake, Compiler(refused), 2),
        lambda each: kept.append(times.written(each)),
        lambda *step: steps.append(step),
    )
    assert steps == [(1, 2), (2, 2)] and kept[-1] == times.written(found)
    assert [(each.layout, [p.size for p in each.products]) for each in found] == [
        ("nt", [(64, 512, 512)]),
        ("nn", [(96, 512, 512)]),
    ]
    assert refused not in map(written, found[0].schedules)
    assert {p.other for each in found for p in each.products} == {500.0}
    assert all(len(each.schedules) == len(each.products[0].microseconds) > 3 for each in found)


def test_the_model_knows_that_misaligned_rows_and_narrow_panels_are_slow() -> None:
    types, s = ONE.types, WarpgroupSchedule((128, 160, 64), 2, 5)
    plain = Times("bf16", "nt", (), ()).types
    even, odd = (wgmma.modeled((s,), 4096, 4096, k, plain, H200)[0] for k in (4096, 4104))
    assert odd > 1.3 * even
    clustered = wgmma.modeled((replace(s, cluster=(2, 1)),), 4096, 4096, 4104, plain, H200)[0]
    assert clustered < 0.9 * odd
    s = WarpgroupSchedule((64, 16, 64), 1, 11)
    narrow, k_major = (wgmma.modeled((s,), 4096, 4096, 4096, t, H200)[0] for t in (types, plain))
    assert narrow > 1.1 * k_major
    padded, whole = (
        wgmma.modeled((WarpgroupSchedule((128, n, 64), 2, 3),), 4096, 32 * n, 4096, types, H200)[0]
        for n in (144, 192)
    )
    assert 0.85 * whole < padded < whole
