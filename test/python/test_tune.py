"""`weft tune` on a fake GPU: the search, its continuation after a stop, and its database."""

import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_fakes import SMALL, WRONG, FakeGpu

from weft.bench import compiling
from weft.bench.compiling import product_of, written
from weft.bench.implementation import Implementation, Refusal
from weft.bench.problem import Problem
from weft.dialects.schedule import (
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
    read_schedule,
)
from weft.errors import WeftError
from weft.schedules import choice, database, tuned_files, wgmma
from weft.schedules.database import Product
from weft.schedules.h200 import H200
from weft.target import Target
from weft.tools import tune
from weft.tuning import partial, search
from weft.tuning.search import Fault, Result, Search, first_tries, variants
from weft.tuning.tuner import Tuner

PRODUCT = product_of(SMALL, "sm_90a")
OWN = written(wgmma.choose(512, 512, 512, PRODUCT.types, H200))
LIMIT, FEW = 20, 5

Cost = Callable[[WarpgroupSchedule], float]


def by_area(schedule: WarpgroupSchedule) -> float:
    """Milliseconds that make one variant of one block the fastest, though the model wouldn't say so."""
    away = abs(schedule.block[0] - 128) + abs(schedule.block[1] - 64) + schedule.block[2] - 64
    alike = schedule.ctas + schedule.global_splits + schedule.group / 1e5 + schedule.swap / 1e6
    return 0.01 * (1 + away / 100 + schedule.stages / 1000 + alike)


class Compiler:
    """Compiles nothing; notes what it is asked."""

    def __init__(self, complaints: dict[str, str] | None = None) -> None:
        self.asked: list[tuple[Product, str]] = []
        self.complaints = complaints or {}

    def ahead(self, product: Product, schedules: Sequence[str]) -> None:
        self.asked += [(product, schedule) for schedule in schedules]

    def complaint(self, product: Product, schedule: str) -> str | None:
        return self.complaints.get(schedule)


class Bench:
    """A fake GPU whose calls cost what a function of their schedule says; `runs` counts samples."""

    def __init__(self, cost: Cost = by_area) -> None:
        self.fake = FakeGpu()
        self.cost = cost
        self.prepared: list[str] = []
        self.at: dict[int, BaseException] = {}

    def implementation(self, text: str) -> Implementation:
        inner = self.fake.implementation(text, self.cost(read_schedule(text)))

        def prepare(problem: Problem, sets: Any) -> Any:
            self.prepared.append(text)
            if (error := self.at.pop(len(self.prepared), None)) is not None:
                raise error
            return inner.prepare(problem, sets)

        return replace(inner, prepare=prepare)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(search.implementations, "weft", made.implementation)
    return made


@pytest.fixture
def records(tmp_path: Path) -> Iterator[partial.Partial]:
    with partial.opened(tmp_path / "kept", PRODUCT, "a GPU") as made:
        assert made is not None
        yield made


def searched(bench: Bench, records: partial.Partial, **more: Any) -> Result:
    given = {"compiler": Compiler(), "samples": 5, "limit": LIMIT} | more
    return Search(SMALL, PRODUCT, bench.fake, partial=records, **given).run()


def tuner(bench: Bench, path: Path, **more: Any) -> Tuner:
    given = {"gpu_name": "a GPU", "compiler": Compiler(), "samples": 5, "limit": LIMIT} | more
    return Tuner(path, bench.fake, **given)


def quietly(done: int, total: int) -> None:
    assert 0 < done <= total


# What is searched


@pytest.mark.parametrize(
    ("inputs", "output", "types"),
    [
        ("bf16", "f32", Types("bf16", "bf16", "f32")),
        ("tf32", "f32", Types("f32", "f32", "f32")),
        ("e4m3", "bf16", Types("f8E4M3FN", "f8E4M3FN", "bf16")),
        ("e4m3-promoted", "bf16", Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True)),
        ("e4m3-block", "bf16", Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True, scaled=True)),
        ("s8", "s32", Types("i8", "i8", "i32")),
    ],
)
def test_types_of_a_problem(inputs: str, output: str, types: Types) -> None:
    made = product_of(Problem(1, 2, 3, inputs, output), "sm_90a")
    assert made == Product(1, 2, 3, types, "sm_90a")
    outside = product_of(Problem(1, 2, 3, inputs, output, transpose_b=False), "sm_90a")
    assert outside.types == replace(types, transposed=(False, True))


@pytest.mark.slow
def test_the_model_s_choice_is_tried_first_then_what_it_takes_for_fastest() -> None:
    tries = first_tries(PRODUCT, 10)
    every = first_tries(PRODUCT, None)
    assert tries[0] == every[0] == wgmma.choose(512, 512, 512, PRODUCT.types, H200)
    assert len(tries) in (10, 11)
    cycles = [wgmma.modeled((s,), 512, 512, 512, PRODUCT.types, H200)[0] for s in every[1:]]
    assert cycles == sorted(cycles)
    assert set(every) == set(wgmma.ranked(512, 512, 512, PRODUCT.types, H200))


@pytest.mark.each_value(3)
@pytest.mark.parametrize("inputs", ["bf16", "e4m3", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"])
def test_schedules_of_blackwell_are_tried_and_the_tuned_one_is_used(
    chip: str, inputs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = product_of(Problem(4096, 4096, 4096, inputs, "bf16"), chip)
    own, *others = first_tries(product, 10)
    assert others
    family = TmaMmaSchedule if chip in ("sm_120a", "sm_121a") else TensorMemorySchedule
    for schedule in (own, *others, *variants(own, product)):
        assert isinstance(schedule, family)
        assert schedule.complaint(product.types, Target.of(chip)) is None
    kept = tmp_path / "kept"
    kept.write_text(database.Entry(product, written(others[-1]), 1.0, {}).line() + "\n")
    monkeypatch.setenv(tuned_files.VARIABLE, str(kept))
    assert choice.choose(4096, 4096, 4096, product.types, chip) == others[-1] != own


def test_variants_are_legal_and_change_something() -> None:
    large = replace(PRODUCT, m=4096)
    schedule = WarpgroupSchedule((128, 128, 64), 2, 4)
    groups = [replace(schedule, group=group) for group in (1, 4, 16)]
    assert [*variants(schedule, large)] == [*groups, replace(schedule, stages=3)]
    # 4 tiles are one group anyway, or each is its own.
    assert [*variants(schedule, PRODUCT)] == [replace(schedule, group=1), replace(schedule, stages=3)]
    small = replace(schedule, stages=2, group=1)
    assert [*variants(small, PRODUCT)] == [replace(small, group=4)]
    swapped = WarpgroupSchedule((64, 8, 64), 1, 2, swap=True)
    assert [s.group for s in variants(swapped, replace(PRODUCT, m=1))] == [1, 4]


@pytest.mark.slow
def test_the_fastest_is_found_beyond_the_model_and_its_own_is_timed(
    bench: Bench, records: partial.Partial
) -> None:
    found = searched(bench, records, limit=None)
    every = {*first_tries(PRODUCT, None)}
    fastest = min(every, key=by_area)
    best = read_schedule(found.best or "")
    # A variant of the fastest of all has a stage less, which this GPU likes.
    assert best == replace(fastest, stages=fastest.stages - 1)
    assert found.own == OWN
    assert found.times[OWN] == pytest.approx(1000 * by_area(read_schedule(OWN)))
    assert [*found.times.values()] == sorted(found.times.values())
    assert found.tried > len(every)


@pytest.mark.slow
def test_most_samples_go_to_the_best(bench: Bench, records: partial.Partial) -> None:
    searched(bench, records, samples=50)
    samples: dict[str, int] = {}
    for record in records.records:
        if "samples" in record:
            samples[record["schedule"]] = max(record["samples"], samples.get(record["schedule"], 0))
    counts = Counter(samples.values())
    assert set(counts) == {3, 8, 50}
    assert counts[50] in (4, 5) and 8 <= counts[8] + counts[50] <= 9 and counts[3] >= LIMIT - 8


@pytest.mark.slow
def test_known_schedules_are_timed_to_the_end(bench: Bench, records: partial.Partial) -> None:
    slow = written(WarpgroupSchedule((64, 16, 128), 1, 2))
    assert slow in searched(bench, records, known=[slow]).times


@pytest.mark.parametrize("limit", [FEW, pytest.param(LIMIT, marks=pytest.mark.slow)])
def test_schedules_that_fail_are_left_out_with_their_reason(
    bench: Bench, records: partial.Partial, limit: int
) -> None:
    _, refused, wrong, uncompiled, *_ = map(written, first_tries(PRODUCT, limit))
    bench.fake.checks = {wrong: WRONG}
    bench.at = {2: Refusal("too slow")}
    compiler = Compiler({uncompiled: "no register is left"})
    found = searched(bench, records, limit=limit, compiler=compiler)
    assert found.failed == {
        uncompiled: "no register is left",
        refused: "too slow",
        wrong: "is wrong: a relative error of 5.0e-01, where 1e-02 is allowed",
    }
    assert found.best is not None and not set(found.failed) & set(found.times)


@pytest.mark.slow
def test_the_progress_reaches_its_total(bench: Bench, records: partial.Partial) -> None:
    steps: list[tuple[int, int]] = []
    searched(bench, records, progress=lambda *step: steps.append(step))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]


# A search that is stopped


@pytest.mark.slow
def test_a_stopped_search_goes_on_where_it_was(bench: Bench, tmp_path: Path) -> None:
    wanted, _ = tuner(bench, tmp_path / "whole").tune(SMALL, PRODUCT, [], quietly)
    whole, bench.prepared = bench.prepared, []
    bench.at = {20: KeyboardInterrupt()}
    given = tuner(bench, tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        given.tune(SMALL, PRODUCT, [], quietly)
    batch, bench.prepared = bench.prepared[:16], []
    entry, remarks = given.tune(SMALL, PRODUCT, [], quietly)
    assert entry == wanted and remarks == []
    assert len(bench.prepared) == len(whole) - len(batch)
    assert not partial.path_of(tmp_path / "kept", PRODUCT).exists()


@pytest.mark.slow
def test_a_schedule_that_ended_the_run_is_left_out_of_the_next(bench: Bench, tmp_path: Path) -> None:
    bench.at = {3: WeftError("the GPU doesn't recover from a fault: illegal memory access")}
    given = tuner(bench, tmp_path / "kept")
    with pytest.raises(Fault, match="illegal memory access\nnote: the measurements are kept: run it again"):
        given.tune(SMALL, PRODUCT, [], quietly)
    fault = bench.prepared[2]
    bench.prepared.clear()
    entry, remarks = given.tune(SMALL, PRODUCT, [], quietly)
    assert entry is not None and fault not in bench.prepared
    assert entry.search["failed"] == {fault: "ended the run, or never finished"}
    assert remarks == ["left out 1: ended the run, or never finished"]


@pytest.mark.slow
def test_what_was_measured_on_another_gpu_does_not_count(bench: Bench, tmp_path: Path) -> None:
    bench.at = {20: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        tuner(bench, tmp_path / "kept").tune(SMALL, PRODUCT, [], quietly)
    before = bench.prepared[:16]
    bench.prepared.clear()
    tuner(bench, tmp_path / "kept", gpu_name="another").tune(SMALL, PRODUCT, [], quietly)
    assert set(before) <= set(bench.prepared)


def test_a_record_that_was_half_written_is_dropped(tmp_path: Path) -> None:
    path = partial.path_of(tmp_path / "kept", PRODUCT)
    path.parent.mkdir()
    path.write_text('{"gpu": "a GPU"}\n{"began": "x"}\n{"schedule": "y", "mic')
    with pytest.raises(KeyboardInterrupt), partial.opened(tmp_path / "kept", PRODUCT, "a GPU") as made:
        assert made is not None and made.records == [{"gpu": "a GPU"}, {"began": "x"}]
        made.add({"stopped": True})
        raise KeyboardInterrupt
    assert path.read_text() == '{"gpu": "a GPU"}\n{"began": "x"}\n{"stopped": true}\n'


def test_each_product_has_its_own_file(tmp_path: Path) -> None:
    others = [replace(PRODUCT, m=1), replace(PRODUCT, n=1), replace(PRODUCT, k=1)]
    types = [{"a": "f16"}, {"b": "f16"}, {"d": "f32"}, {"transposed": (False, True)}]
    others += [replace(PRODUCT, types=replace(PRODUCT.types, **change)) for change in types]
    assert len({partial.path_of(tmp_path, each) for each in [PRODUCT, *others]}) == 8


# What is kept


def test_the_result_is_kept_and_used(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    entry, _ = tuner(bench, kept).tune(SMALL, PRODUCT, [], quietly)
    assert entry is not None and entry.model is not None
    assert entry.model[0] == OWN and entry.microseconds < (entry.model[1] or 0)
    assert entry.search["gpu"] == "a GPU" and entry.search["limit"] == LIMIT
    monkeypatch.setenv(tuned_files.VARIABLE, str(kept))
    assert written(choice.choose(512, 512, 512, PRODUCT.types, "sm_90a")) == entry.schedule != OWN


@pytest.mark.slow
@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("before", "after", "searched_again"),
    [
        ({}, {}, False),
        ({}, {"limit": 5}, False),
        ({}, {"limit": LIMIT + 1}, True),
        ({}, {"limit": None}, True),
        ({"limit": None}, {"limit": LIMIT}, False),
        ({}, {"again": True}, True),
        ({}, {"gpu_name": "another"}, True),
    ],
)
def test_what_the_database_has_is_not_searched_again(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Any,
    after: Any,
    searched_again: bool,
) -> None:
    some = list(wgmma.ranked(512, 512, 512, PRODUCT.types, H200))[::20]
    assert len(some) > LIMIT + 1
    monkeypatch.setattr(wgmma, "candidates", lambda *_: some)
    # What was chosen among all candidates isn't one of these, and the reverse.
    monkeypatch.setattr(choice, "_chosen", choice._chosen.__wrapped__)
    first, _ = tuner(bench, tmp_path / "kept", **before).tune(SMALL, PRODUCT, [], quietly)
    bench.prepared.clear()
    second, _ = tuner(bench, tmp_path / "kept", **after).tune(SMALL, PRODUCT, [], quietly)
    assert bool(bench.prepared) == searched_again
    assert first is not None and second is not None
    assert second.microseconds <= first.microseconds


def test_a_product_that_another_process_searches_is_left_to_it(bench: Bench, tmp_path: Path) -> None:
    with partial.opened(tmp_path / "kept", PRODUCT, "a GPU"):
        given = tuner(bench, tmp_path / "kept").tune(SMALL, PRODUCT, [], quietly)
    assert given == (None, ["another weft tune is searching this product"])
    assert bench.prepared == []


@pytest.mark.slow
def test_the_compiler_goes_on_with_the_next_product(bench: Bench, tmp_path: Path) -> None:
    compiler = Compiler()
    following = replace(PRODUCT, m=1)
    tuner(bench, tmp_path / "kept", compiler=compiler).tune(SMALL, PRODUCT, [following], quietly)
    asked = [text for product, text in compiler.asked if product == following]
    assert asked == [written(s) for s in first_tries(following, LIMIT)]


@pytest.mark.slow
def test_no_right_result_is_an_error_and_nothing_is_kept(bench: Bench, tmp_path: Path) -> None:
    class Wrong(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            return WRONG

    bench.fake.checks = Wrong()
    with pytest.raises(
        WeftError, match=r"no schedule gives a right result; left out .*: is wrong: a relative"
    ):
        tuner(bench, tmp_path / "kept").tune(SMALL, PRODUCT, [], quietly)
    assert not (tmp_path / "kept").exists()


# Compiling


@pytest.mark.slow
def test_processes_compile_and_say_what_cannot_be() -> None:
    product = Product(64, 64, 64, Types("bf16", "bf16", "f32"), "sm_90a")
    good, bad = WarpgroupSchedule((64, 32, 64), 1, 2), WarpgroupSchedule((64, 32, 64), 1, 40)
    with compiling.Compiler(1) as compiler:
        compiler.ahead(product, [written(good), written(bad)])
        assert compiler.complaint(product, written(good)) is None
        assert "shared memory" in (compiler.complaint(product, written(bad)) or "")
        odd = replace(product, k=68)
        assert (
            compiler.complaint(odd, written(good)) == "rows of A must begin at multiples of 16 bytes, got 136"
        )
        assert compiler.complaint(replace(product, n=66), written(good)) in (
            None,
            "rows of D must begin at multiples of 16 bytes, got 264",
        )


def killed(product: Product, schedule: str) -> str | None:
    if schedule == "bad":
        os.kill(os.getpid(), signal.SIGKILL)
    return None


@pytest.mark.slow
def test_a_schedule_that_ends_its_process_is_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "compiled", killed)
    with compiling.Compiler(1) as compiler:
        compiler.ahead(PRODUCT, ["good", "bad", "better"])
        found = {text: compiler.complaint(PRODUCT, text) for text in ("good", "bad", "better")}
        assert found == {"good": None, "bad": "ends the process that compiles it", "better": None}
        assert compiler.complaint(PRODUCT, "last") is None


# The tool


@pytest.mark.slow
def test_the_tool_prints_gains_and_their_mean(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    problems = [SMALL, replace(SMALL, m=64), replace(SMALL, k=516), replace(SMALL, inputs="s8", output="s32")]
    problems.append(replace(SMALL, inputs="mxfp8", output="bf16"))
    complaints = {
        written(s): "takes other rows" for s in first_tries(product_of(problems[2], "sm_90a"), LIMIT)
    }
    products = [(problem, product_of(problem, "sm_90a")) for problem in problems]

    class Rows(Compiler):
        def complaint(self, product: Product, schedule: str) -> str | None:
            return complaints.get(schedule) if product.k == 516 else None

    given = tuner(bench, tmp_path / "kept", compiler=Rows())
    assert tune.tune(products, given) == 1
    out = capfd.readouterr().out
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == "M x N x K types model µs tuned µs gain % schedule"
    assert re.match(
        r"512x512x512 +bf16 to bf16 +[\d.]+ +[\d.]+ +[\d.]+  block .* \(the model's: block", lines[1]
    )
    assert re.search(r"512x512x516 .* no schedule gives a right result; left out \d+: takes other rows", out)
    assert re.search(r"512x512x512 +mxfp8 to bf16 +has no schedule for sm_90a .*it needs sm_100f", out)
    found = re.search(
        r"^bf16 to bf16: the model's schedules take ([\d.]+) times as long .*of 2\)$", out, re.M
    )
    assert found and float(found[1]) > 1
    assert len(database.read(tmp_path / "kept")) == 3
    bench.prepared.clear()
    assert tune.tune(products[:2], given) == 0
    assert bench.prepared == []
    assert capfd.readouterr().out.splitlines()[:3] == lines[:3]
