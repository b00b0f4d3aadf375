"""The results of `weft bench`: ratios, JSON, table, drawing, and the tool itself."""

import json
import math
import re
import shlex
import shutil
import subprocess
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import figures_docs
import pytest
from bench_fakes import RIGHT, SMALL, WRONG, FakeGpu, refusing

from weft.bench import compiling, gpu
from weft.bench.drawing import draw
from weft.bench.implementation import Implementation
from weft.bench.measure import Result, Timing
from weft.bench.problem import INPUTS, Buffers, Check, Problem
from weft.bench.report import Report, table
from weft.errors import WeftError
from weft.tools import bench, weft

ROOT = Path(__file__).parents[2]
DEVICE = {
    "name": "A GPU",
    "chip": "sm_90a",
    "multiprocessors": 132,
    "copy_gb_s": 4250.0,
    "settings": {"clocks.max.sm": "1980 MHz"},
}


def timed(name: str, microseconds: float, check: Check = RIGHT, **changed: Any) -> Result:
    made = Timing(10, tuple(microseconds * factor / 100 for factor in (1.0, 0.99, 1.02)))
    return Result(replace(SMALL, **changed), name, burst=made, sustained=made, check=check)


def report(*results: Result) -> Report:
    return Report(["weft", "bench"], "2026-11-21T08:00:00+00:00", "cublas", DEVICE, {"weft": "1"}, [*results])


RESULTS = (
    timed("weft", 10.0),
    timed("cublas", 8.0),
    Result(SMALL, "triton", "Triton isn't installed [here]"),
    timed("weft", 10.0, m=1024),
    timed("cublas", 20.0, m=1024),
    timed("weft", 1.0, WRONG, m=2048),
    timed("cublas", 40.0, Check(None, 1e-2), m=2048),
    timed("weft", 30.0, inputs="e4m3"),
    timed("cublas", 30.0, inputs="e4m3"),
    timed("deepgemm", 40.0, inputs="e4m3"),
)


def test_ratios_are_of_right_results_to_the_reference() -> None:
    made = report(*RESULTS)
    ratios = [made.speed(result, "burst") for result in made.results]
    assert ratios == pytest.approx([0.8, 1.0, None, 2.0, 1.0, None, None, 1.0, 1.0, 0.75])
    lines = list(made.means())
    assert len(lines) == 6
    mean = math.sqrt(0.8 * 2.0)
    assert f"bf16 to bf16, burst: weft is {mean:.3f} times as fast as cublas (geometric mean of 2)" in lines


def test_json_keeps_everything() -> None:
    made = report(replace(RESULTS[0], schedule="{}"), *RESULTS[1:])
    made.readings.append({"clocks.sm": "1980 MHz"})
    assert Report.of_json(made.json()) == made
    kept = json.loads(made.json())
    assert kept["results"][0]["burst"]["replays"] == [*RESULTS[0].burst.replays]
    for entry in kept["results"]:  # as earlier versions of Weft wrote them
        del entry["schedule"]
    assert [each.schedule for each in Report.of_json(json.dumps(kept)).results] == [""] * len(RESULTS)


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.pop("device"),
        lambda kept: kept.update(format="weft-bench 0"),
        lambda kept: kept["results"][0].pop("burst"),
        lambda kept: kept["results"][0]["problem"].update(batch=3),
    ],
)
def test_another_json_is_refused(change: Any) -> None:
    kept = json.loads(report(*RESULTS).json())
    change(kept)
    with pytest.raises(WeftError, match="must be a file from weft bench --json"):
        Report.of_json(json.dumps(kept))
    for text in ("", "[]", "{}", "3", "null", "[" * 100_000):
        with pytest.raises(WeftError, match="must be a file from weft bench --json"):
            Report.of_json(text)


def test_the_table_lists_wrong_and_missing_implementations() -> None:
    lines = table(report(*RESULTS), RESULTS, heading=True).split("\n")
    heading = "M x N x K types by µs TFLOP/s ± % speed µs sustained ± % speed error"
    assert " ".join(lines[0].split()) == heading
    assert "0.800" in lines[1]
    assert lines[3].endswith("not measured: Triton isn't installed [here]")
    assert lines[6].endswith("WRONG: 5.0e-01, where 1e-02 is allowed")
    assert lines[7].endswith("WRONG: some elements aren't finite or weren't written")


def test_tables_of_one_run_stand_under_each_other() -> None:
    made = report(*RESULTS)
    parts = [table(made, RESULTS[:3], heading=True), table(made, RESULTS[3:], heading=False)]
    assert "\n".join(parts) == table(made, RESULTS, heading=True)


def test_the_tables_of_figures_are_those_of_the_runs() -> None:
    readme = ROOT / "benchmarks" / "README.md"
    assert readme.read_text("utf-8") == figures_docs.page(), "run python docs/generate/figures_docs.py"


def test_the_speeds_in_the_readmes_are_the_means_of_the_runs() -> None:
    """Both summaries are written by hand; the tables below them are not."""
    text = figures_docs.page()
    summary, _, tables = text.partition(figures_docs._BEGIN)
    of_column: dict[str, str] = {}
    for table_text in tables.partition(figures_docs._END)[0].split("\n\n"):
        rows = [line.strip("| ").split(" | ") for line in table_text.split("\n") if line.startswith("| ")]
        if rows:
            of_column |= dict(zip(rows[0], rows[-1], strict=True))
    weft = [
        mean.strip("*")
        for column, mean in of_column.items()
        if column != "M x N x K" and "sustained" not in column and "deepgemm" not in column
    ]
    (speeds,) = (line for line in summary.split("\n") if line.startswith("| speed, geometric mean"))
    readme = (ROOT / "README.md").read_text("utf-8").partition("| A and B | shapes | speed |")[2]
    for shown in (re.findall(r"\d\.\d{3}", speeds), re.findall(r"\| (\d\.\d{3}) \|", readme)):
        assert sorted(shown) == sorted(weft)


def test_each_card_of_the_readme_has_the_figures_of_the_benchmarks() -> None:
    heading = "| kernels | compared with | H200 | H100 | measured |\n"
    rows = (ROOT / "README.md").read_text("utf-8").partition(heading)[2].partition("\n\n")[0].split("\n")[1:]
    page, checked = "", 0
    for row in rows:
        if link := re.search(r"\(([\w/]+\.md)", row):
            page = (ROOT / link[1]).read_text("utf-8")
        assert row.startswith("|---") or re.search(r"\b[0-9a-f]{8}\b|the same", row)  # a commit
        for figure in re.findall(r"\d\.\d+", row.split(" | ", 2)[2]):
            assert figure in page, row
            checked += 1
    assert checked == 16


def test_runs_of_the_same_products_share_a_table(tmp_path: Path) -> None:
    both = [timed("weft", 1234.5, inputs="s8"), timed("cublas", 2469.0, inputs="s8")]
    burst = [replace(result, sustained=None) for result in RESULTS[:2]]
    other = [timed(name, 4.0, inputs="tf32", m=64) for name in ("weft", "cublas")]
    other += [timed("weft", 1.0, inputs="tf32"), Result(replace(SMALL, inputs="tf32"), "cublas", "refuses")]
    for name, results in (("b", burst), ("s", both), ("o", other)):
        (tmp_path / f"{name}.json").write_text(report(*results).json())
    (tmp_path / "README.md").write_text(f"before\n{figures_docs._BEGIN}old\n{figures_docs._END}after\n")
    text = figures_docs.page(tmp_path)
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert "| M x N x K | bf16 to bf16 | s8 to bf16 | s8 to bf16, sustained |" in rows
    assert "| 512 x 512 x 512 | 10.00 (0.80) | 1234 (2.00) | 1234 (2.00) |" in rows
    assert "| 512 x 512 x 512 | 1.000 (–) | 1.000 (–) |" in rows
    assert "| geometric mean | **0.800** | **2.000** | **2.000** |" in rows


def test_each_measured_implementation_has_columns(tmp_path: Path) -> None:
    times = {"cublas": 4.0, "weft": 2.0, "deepgemm": 8.0}
    made = [timed(name, time) for name, time in times.items()] + [
        timed(name, 1.0, m=64) for name in list(times)[:2]
    ]
    (tmp_path / "a.json").write_text(report(*made).json())
    (tmp_path / "README.md").write_text(figures_docs._BEGIN + figures_docs._END)
    rows = [line for line in figures_docs.page(tmp_path).split("\n") if line.startswith("|")]
    assert rows[0].startswith(
        "| M x N x K | bf16 to bf16 | bf16 to bf16, deepgemm | bf16 to bf16, sustained |"
    )
    assert rows[2].startswith("| 512 x 512 x 512 | 2.000 (2.00) | 8.000 (0.50) |")
    assert rows[3].startswith("| 64 x 512 x 512 | 1.000 (1.00) | – |")
    assert rows[4].startswith("| geometric mean | **1.414** | **0.500** |")


def test_runs_of_other_gpus_have_tables_of_their_own(tmp_path: Path) -> None:
    runs = [report(*RESULTS[:2]) for _ in range(2)]
    runs[1].device = DEVICE | {"name": "Another GPU"}
    for name, made in zip("ab", runs, strict=True):
        (tmp_path / f"{name}.json").write_text(made.json())
    (tmp_path / "README.md").write_text(figures_docs._BEGIN + figures_docs._END)
    text = figures_docs.page(tmp_path)
    assert text.index("### A GPU") < text.index("| M x N x K |") < text.index("### Another GPU")
    assert text.count("| M x N x K |") == 2


def test_a_product_that_weft_refused_keeps_its_row(tmp_path: Path) -> None:
    refused = [Result(SMALL, "weft", "refuses"), Result(SMALL, "cublas", "refuses too")]
    (tmp_path / "README.md").write_text(figures_docs._BEGIN + figures_docs._END)
    (tmp_path / "a.json").write_text(report(*refused, timed("weft", 2.0, m=64)).json())
    rows = [line for line in figures_docs.page(tmp_path).split("\n") if line.startswith("|")]
    assert "| 512 x 512 x 512 | – | – |" in rows
    assert "| 64 x 512 x 512 | 2.000 (–) | 2.000 (–) |" in rows
    assert "| geometric mean | – | – |" in rows


@pytest.mark.parametrize("results", [(), (timed("weft", 1.0), timed("weft", 1.0, inputs="e4m3"))])
def test_a_run_that_is_not_of_one_type_is_refused(tmp_path: Path, results: tuple[Result, ...]) -> None:
    (tmp_path / "README.md").write_text(figures_docs._BEGIN + figures_docs._END)
    (tmp_path / "a.json").write_text(report(*results).json())
    with pytest.raises(WeftError, match=r"a\.json: all results must have the same types, got"):
        figures_docs.page(tmp_path)


def test_a_page_without_markers_for_the_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Figures\n")
    with pytest.raises(WeftError, match=r"README\.md: must have a line <!-- figures"):
        figures_docs.page(tmp_path)


def measured(tmp_path: Path, *arguments: str, fails: str = "nothing") -> tuple[int, list[str]]:
    """The exit status of the script that measures all figures, and the command lines that it runs. Its `weft`
    and `python` only write these down; those that contain `fails` fail.
    """
    folder, stub = tmp_path / "benchmarks", tmp_path / "bin"
    for each in (folder, stub):
        each.mkdir(exist_ok=True)
    text = f'#!/bin/sh\necho {{0}} "$@" >> "{tmp_path}/said"\ncase "$*" in *{fails}*) exit 1;; esac\n'
    for name in ("weft", "python"):
        (stub / name).write_text(text.format(name))
        (stub / name).chmod(0o755)
    shutil.copy(ROOT / "benchmarks" / "measure", folder)
    (tmp_path / "said").write_text("")
    command = ["sh", folder / "measure", *arguments]
    done = subprocess.run(
        command, env={"PATH": f"{stub}:/usr/bin:/bin"}, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 2 or (b"a run failed" in done.stderr) == bool(done.returncode)
    return done.returncode, (tmp_path / "said").read_text().splitlines()


@pytest.mark.parametrize(("name", "formats"), [("h200", False), ("b200", True)])
def test_all_figures_are_measured_by_one_script(tmp_path: Path, name: str, formats: bool) -> None:
    """It makes runs of one type each, then the tables and the comparison with the predictions. Kernels with
    block scales are tested first.
    """
    status, (*runs, tables, compared) = measured(tmp_path, name)
    if formats:
        tested, *runs = runs
        assert tested.startswith("python -m pytest -q -m  ../test/gpu/")
        files = [word for word in tested.split() if word.endswith(".py")]
        assert len(files) == 2 and all((ROOT / "benchmarks" / file).is_file() for file in files)
    assert status == 0
    assert tables == "python docs/generate/figures_docs.py ."
    assert compared == f"weft predict --measured {name}-*.json"
    seen, parser = set(), ArgumentParser()
    bench.BENCH.arguments(parser)
    for line in runs:
        given = parser.parse_args(shlex.split(line)[2:])
        (types,) = {problem.inputs for problem in bench.problems(given)}
        seen.add(types)
        assert given.sustained and given.json == given.svg.replace(".svg", ".json")
        assert given.json.startswith(f"{name}-")
    assert seen == {row.name for row in INPUTS.values() if formats or not row.format}
    written = {path.name for path in (tmp_path / "benchmarks").iterdir()}
    assert f"{name}-predicted.txt" in written and (f"{name}-tests.txt" in written) == formats


def test_integers_are_measured_where_the_chip_multiplies_them(tmp_path: Path) -> None:
    _, lines = measured(tmp_path, "b300")
    assert lines and not any("--types s8 " in line for line in lines)


def test_the_script_that_measures_goes_on_after_a_wrong_result(tmp_path: Path) -> None:
    assert measured(tmp_path) == (2, [])
    assert measured(tmp_path, "--dry-run", "b200") == (0, [])
    right, wrong = (measured(tmp_path, "b200", fails=word) for word in ("nothing", "tf32"))
    assert wrong == (1, right[1])


def marks(svg: str, kind: str) -> int:
    circles = ElementTree.fromstring(svg).findall(".//{*}circle")
    return sum(circle.get("class") == kind for circle in circles)


def test_the_drawing_has_a_mark_for_each_right_result() -> None:
    svg = draw(report(*RESULTS))
    assert marks(svg, "roof") == sum(result.right for result in RESULTS) == 7
    assert marks(svg, "ratio") == 7
    assert marks(draw(report(timed("weft", 1.0))), "ratio") == 0


def test_marks_lie_within_the_drawing_and_faster_is_higher() -> None:
    root = ElementTree.fromstring(draw(report(*RESULTS)))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    circles = root.findall(".//{*}circle")
    assert all(0 < float(c.attrib["cx"]) < width and 0 < float(c.attrib["cy"]) < height for c in circles)
    made = ElementTree.fromstring(draw(report(*RESULTS[:2])))
    places = {c[0].text: float(c.attrib["cy"]) for c in made.findall(".//{*}circle[@class='ratio']")}
    assert places["weft, 512x512x512: 0.800"] > places["cublas, 512x512x512: 1.000"]


@pytest.mark.parametrize("device", [{}, DEVICE | {"chip": "sm_999"}, DEVICE | {"settings": {}}])
def test_a_drawing_needs_neither_results_nor_a_known_gpu(device: dict[str, Any]) -> None:
    made = report(*RESULTS)
    made.device = device
    assert marks(draw(made), "roof") == 7
    assert marks(draw(report()), "roof") == 0


# The tool


def options(**given: Any) -> Namespace:
    return Namespace(
        **{"samples": 3, "sustained": False, "json": None, "svg": None, "schedule": None, "chip": None}
        | given
    )


@pytest.fixture(autouse=True)
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked to be compiled before a run, which nothing here is."""
    asked: list[Any] = []
    monkeypatch.setattr(compiling, "compile_ahead", lambda *given: asked.append(given[:3]))
    return asked


def test_a_run_prints_and_keeps_each_problem(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ahead: list[Any]
) -> None:
    fake, kept, drawn = FakeGpu(), tmp_path / "kept.json", tmp_path / "drawn.svg"
    implementations = [
        fake.implementation("weft", 0.1),
        fake.implementation("cublas", 0.2),
        replace(refusing("fp8 alone"), inputs=("e4m3",)),
    ]
    made = report()
    given = options(json=str(kept), svg=str(drawn))
    assert bench.measure([SMALL, replace(SMALL, m=256)], implementations, fake, made, given) == 0
    assert ahead == [([SMALL, replace(SMALL, m=256)], "sm_90a", None)]
    assert Report.of_json(kept.read_text()) == made
    assert [result.problem.m for result in made.results] == [512, 512, 256, 256]
    assert len(made.readings) == 2
    assert marks(drawn.read_text(), "ratio") == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.svg", "kept.json"]
    printed = capfd.readouterr().out
    assert printed.count("M x N x K") == 1
    assert "weft is 2.000 times as fast as cublas (geometric mean of 2)" in printed
    assert weft.main(["bench", "--show", str(kept)]) == 0
    assert printed.split("\n")[1:] == capfd.readouterr().out.split("\n")[2:]


def test_a_wrong_result_fails(capfd: pytest.CaptureFixture[str]) -> None:
    fake = FakeGpu({"weft": WRONG})
    implementations = [fake.implementation("weft", 0.1), fake.implementation("cublas", 0.2)]
    assert bench.measure([SMALL], implementations, fake, report(), options()) == 1
    assert "1 of 2 results are WRONG" in capfd.readouterr().out


def test_a_file_that_cannot_be_written_is_known_before_anything_is_measured(tmp_path: Path) -> None:
    fake = FakeGpu()
    with pytest.raises(WeftError, match="cannot write"):
        bench.measure([SMALL], [], fake, report(), options(json=str(tmp_path / "none" / "kept.json")))
    assert fake.log == []


def test_an_interrupted_run_keeps_what_was_measured(tmp_path: Path) -> None:
    fake, kept = FakeGpu(), tmp_path / "kept.json"

    def prepare(problem: Problem, sets: list[Buffers]) -> list[Any]:
        if problem.m == 256:
            raise KeyboardInterrupt
        return fake.implementation("weft", 0.1).prepare(problem, sets)

    with pytest.raises(KeyboardInterrupt):
        problems = [SMALL, replace(SMALL, m=256)]
        bench.measure(problems, [Implementation("weft", prepare)], fake, report(), options(json=str(kept)))
    assert [result.problem for result in Report.of_json(kept.read_text()).results] == [SMALL]


def test_the_command_line_is_all_that_a_run_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(gpu, "unavailable", lambda: None)
    monkeypatch.setattr(gpu, "TorchGpu", lambda: SimpleNamespace(describe=lambda: DEVICE))
    monkeypatch.setattr(bench, "measure", lambda *given: asked.append(given) or 0)
    written = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}"
    given = "64x32x16 square --types e4m3,s8 --layout nn --against cublas,triton --samples 5 --sustained"
    assert weft.main(["bench", *given.split(), "--out-type", "f32", "--schedule", written]) == 0
    problems, implementations, _, made, _ = asked[0]
    assert len(problems) == 14
    assert problems[0] == Problem(64, 32, 16, "e4m3", "f32", transpose_b=False)
    assert [i.name for i in implementations] == ["weft", "cublas", "triton"]
    assert made.reference == "cublas"
    assert weft.main(made.command[1:]) == 0
    assert asked[1][0] == problems
    assert asked[1][3].command == made.command


def test_random_products_depend_on_the_seed_and_fit_their_types_and_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(gpu, "unavailable", lambda: None)
    monkeypatch.setattr(gpu, "TorchGpu", lambda: SimpleNamespace(describe=lambda: DEVICE))
    monkeypatch.setattr(bench, "measure", lambda *given: asked.append(given) or 0)
    given = "bench random --types bf16,e4m3,e4m3-block --layout tn --seed 3 --count 40"
    assert weft.main(given.split()) == 0
    problems, _, _, made, _ = asked[0]
    assert weft.main(made.command[1:]) == 0
    assert asked[1][0] == problems
    assert weft.main([*given.split(), "--seed", "4"]) == 0
    assert not set(asked[2][0]) & set(problems)
    for inputs, unit in (("bf16", 8), ("e4m3", 16), ("e4m3-block", 128)):
        mine = [p for p in problems if p.inputs == inputs]
        assert len(mine) == 40 and all(p.transpose_a and not p.transpose_b for p in mine)
        assert not any(size % unit for p in mine for size in (p.m, p.n, p.k))
    given = Namespace(what=["random"], types="bf16,e4m3-block", out_type=None, layout="nt", seed=3, count=9)
    assert any(p.m % 4 for p in bench.problems(given) if p.inputs == "bf16")
    # Which cuBLAS multiplies.
    assert not any(p.m % 4 or p.k % 512 for p in bench.problems(given) if p.inputs == "e4m3-block")


def test_too_few_random_products_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert weft.main(["bench", "random", "--count", "0"]) == 1
    assert "--count must be at least 1; got 0" in capsys.readouterr().err


def test_by_default_d_is_of_the_type_that_its_inputs_suggest(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Namespace(what=["1x1x1"], types=",".join(INPUTS), out_type=None, layout="nt", seed=0, count=1)
    assert [(p.inputs, p.output) for p in bench.problems(given)] == [
        ("bf16", "bf16"),
        ("f16", "f16"),
        ("tf32", "f32"),
        ("e4m3", "bf16"),
        ("e4m3-promoted", "bf16"),
        ("e4m3-block", "bf16"),
        ("s8", "s32"),
        ("mxfp8", "bf16"),
        ("mxfp6", "bf16"),
        ("mxfp4", "bf16"),
        ("nvfp4", "bf16"),
    ]


def test_the_commands_of_the_page_are_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bench.md").read_text("utf-8")
    commands = re.findall(r"^weft (bench.*)$", page, re.MULTILINE)
    assert len(commands) == 8
    for line in commands:
        given = weft._parser().parse_args(shlex.split(line, comments=True))
        assert given.show or (bench.problems(given) and bench._implementations(given))
