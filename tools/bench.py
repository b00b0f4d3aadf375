"""`weft bench`: times Weft's products and those of other libraries in turns, in one run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.target import Target
from weft.tools import cli
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.bench.gpu import TorchGpu
    from weft.bench.implementation import Implementation
    from weft.bench.problem import Inputs, Problem
    from weft.bench.report import Report
    from weft.bench.suites import Shape
    from weft.dialects.schedule import AnySchedule

FEWEST_SAMPLES = 2


def problem_arguments(parser: ArgumentParser, *, grouped: bool) -> None:
    """The options that say which products are meant, `grouped` ones among them."""
    from weft.bench.problem import INPUTS, LAYOUTS, OUTPUTS
    from weft.bench.suites import suites

    written = "MxNxK"
    if grouped:
        written += ", G@MxNxK (G groups of about M rows) or G@M/MOSTxNxK (with room for MOST rows each)"
    cli.declare(
        parser,
        f"""
        what* SUITE|SHAPE  {", ".join(suites(grouped))}, {written} (default: square)
        --types LIST = bf16  types of A and B, from {",".join(INPUTS)} (default: bf16)
        --out-type {{{",".join(OUTPUTS)}}}  the type of D (default: A's; f32 for tf32, bf16 for e4m3,
            s32 for s8)
        --layout {{{",".join(LAYOUTS)}}} = nt  A is M x K (n) or K x M (t), B is N x K (t) or K x N (n)
            (default: nt)
        --seed S:int = 0  the suite random: what draws it (default: 0)
        --count N:int = 100  the suite random: its products (default: 100)
        """,
    )


def _arguments(parser: ArgumentParser) -> None:
    from weft.bench.implementations import PEERS

    problem_arguments(parser, grouped=True)
    cli.declare(
        parser,
        f"""
        --against LIST = cublas  libraries to compare with, from {",".join(PEERS)}; the first has speed 1
            (default: cublas)
        --samples N:int = 20  samples of each implementation, after a rest (default: 20)
        --sustained  time them back to back, too, at the power limit
        --host  measure the host time of calls, with new array objects in every call
        --chip CHIP  Weft's and Triton's kernels for this chip, assembled for the GPU
            (default: those for the GPU)
        --schedule TEXT  the schedule of weft.matmul (default: its own choice)
        --json FILE  keep all samples, the machine and the versions
        --svg FILE  draw speeds and a roofline
        --show FILE  measure nothing: show (and draw) what --json kept
        """,
    )


def _run(options: Namespace) -> int:
    from weft.bench import gpu

    if options.show is not None:
        return _show(options)
    if options.host:
        return _host(options)
    asked, implementations = problems(options), _implementations(options)
    device = _device(options)
    report = _report(options, implementations[1].name, device.describe(), gpu.versions())
    return measure(asked, implementations, device, report, options)


def _device(options: Namespace) -> "TorchGpu":
    """The GPU. Raises WeftError where there is none, or the results can't be kept."""
    from weft.bench import gpu

    cli.check_least(options, samples=FEWEST_SAMPLES)
    if options.json == "-" or options.svg == "-":
        raise WeftError("--json and --svg must be files: the table goes to stdout")
    for path in (options.json, options.svg):
        if path is not None:
            cli.check_writable(path)
    if (reason := gpu.unavailable()) is not None:
        raise WeftError(reason)
    return gpu.TorchGpu()


def problems(options: Namespace, *, grouped: bool = True) -> "list[Problem]":
    """The products that those options mean, each once. Raises WeftError for what isn't known; where none
    should be `grouped`, it advises no groups.
    """
    from weft.bench.problem import INPUTS, Problem

    types = [INPUTS[name] for name in _listed("--types", options.types, INPUTS)]
    cli.check_least(options, seed=0, count=1)
    of_a, of_b = (side == "t" for side in options.layout)
    return [
        Problem(
            **shape._asdict(),
            inputs=row.name,
            output=options.out_type or row.output,
            transpose_a=of_a,
            transpose_b=of_b,
        )
        for row in types
        for shape in dict.fromkeys(_shapes(options, row, grouped))
    ]


def _shapes(options: Namespace, row: "Inputs", grouped: bool) -> "Iterator[Shape]":
    """The shapes that those options mean for one type."""
    from weft.bench.suites import RANDOM, random_shapes, shapes

    for text in options.what or ["square"]:
        if text == RANDOM:
            of_rows, of_columns, of_depth = row.multiples(options.layout.startswith("t"))
            yield from random_shapes(options.seed, options.count, of_columns, of_rows, of_depth)
        else:
            yield from shapes(text, grouped)


def _implementations(options: Namespace) -> "list[Implementation]":
    from weft.bench.implementations import PEERS, weft

    names = _listed("--against", options.against, PEERS)
    if options.schedule is not None:
        schedule_of(options.schedule)
    if options.chip is not None:
        from weft.bench import chip_kernels

        chip = Target.of(options.chip).chip.name
        peers = PEERS | {"triton": (chip_kernels.triton(chip),)}
        return [chip_kernels.weft(chip, options.schedule), *(peer for name in names for peer in peers[name])]
    return [weft(options.schedule), *(peer for name in names for peer in PEERS[name])]


def schedule_of(text: str) -> "AnySchedule":
    """The schedule that `--schedule` states. Raises WeftError for a text that is none."""
    from weft.dialects.schedule import read_schedule

    try:
        return read_schedule(text)
    except WeftError as error:
        raise WeftError(f"--schedule '{text}': {error.diagnostics[0].message}") from None


def report_of(path: str) -> "Report":
    """The report that `weft bench --json` wrote to a file. Raises WeftError for another file."""
    from weft.bench.report import Report

    text = cli.read(path)
    try:
        return Report.of_json(text)
    except WeftError as error:
        raise WeftError(f"cannot read '{path}': {error.diagnostics[0].message}") from None


def _listed(option: str, text: str, known: Collection[str]) -> list[str]:
    """The names of a list between commas, each once. Raises WeftError for one that isn't known."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise WeftError(
                f"{option} must be among {','.join(known)}, got '{name}'{did_you_mean(name, known)}"
            )
    return names


def _report(options: Namespace, first: str, device: cli.Record, versions: dict[str, str]) -> "Report":
    from datetime import UTC, datetime

    from weft.bench.report import Report
    from weft.bench.suites import RANDOM

    command = ["weft", "bench", *(options.what or ["square"]), "--types", options.types]
    if RANDOM in options.what:
        command += ["--seed", str(options.seed), "--count", str(options.count)]
    command += ["--layout", options.layout, "--against", options.against, "--samples", str(options.samples)]
    command += ["--sustained"] if options.sustained else []
    for option in ("out_type", "chip", "schedule", "json", "svg"):
        if (value := getattr(options, option)) is not None:
            command += [f"--{option.replace('_', '-')}", value]
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(command, started, first, device, versions)


def measure(
    problems: "Sequence[Problem]",
    implementations: "Sequence[Implementation]",
    device: "TorchGpu",
    report: "Report",
    options: Namespace,
) -> int:
    """Measures, prints and keeps one problem after another, and returns 1 if a result is wrong, else 0."""
    from weft.bench.compiling import compile_ahead
    from weft.bench.measure import run
    from weft.bench.report import table

    _keep(report, options)  # so that a file that can't be written is known now
    cli.say(f"{report.device['name']}, {' '.join(f'{k} {v}' for k, v in report.versions.items())}")
    with Bar("compiling") as bar:
        compile_ahead(problems, options.chip or report.device["chip"], options.schedule, bar)
    for problem in problems:
        able = [i for i in implementations if problem.inputs in i.inputs]
        first = not report.results
        with Bar(f"{problem.shape} {problem.types}") as bar:
            measured = run(
                problem, able, device, samples=options.samples, sustained=options.sustained, progress=bar
            )
        report.readings.append(device.reading())
        report.results += measured
        _keep(report, options)
        cli.say(table(report, measured, heading=first))
    return _end(report)


def _keep(report: "Report", options: Namespace) -> None:
    """Writes the files that were asked for."""
    from weft.bench.drawing import draw

    if options.json:
        cli.write(options.json, report.json())
    if options.svg:
        cli.write(options.svg, draw(report))


def _host(options: Namespace) -> int:
    """Measures the host time of calls, for each library that is installed."""
    from weft.bench import gpu, host

    if options.what or options.svg is not None or options.chip is not None:
        raise WeftError("--host can't be used with shapes, --svg or --chip: it times calls of its own")
    device = _device(options).describe()
    with Bar("timing calls") as bar:
        figures = host.measure(host.pairs(host.LIBRARIES), options.samples, bar)
    cli.say(f"{device['name']}, us of host time a call, {host.M} x {host.N} x {host.K}")
    cli.say(host.table(figures))
    if options.json is not None:
        cli.write(options.json, host.as_json(figures, device, gpu.versions()))
    return 0


def _show(options: Namespace) -> int:
    from weft.bench.report import table

    if options.json is not None or options.what:
        raise WeftError("--show can be used with --svg only: it measures nothing")
    report = report_of(options.show)
    _keep(report, options)
    cli.say(f"{' '.join(report.command)}\n{report.device.get('name', '')}, {report.started}")
    cli.say(table(report, report.results, heading=True))
    return _end(report)


def _end(report: "Report") -> int:
    """Prints the means; 1 if a result is wrong, else 0."""
    for line in report.means():
        cli.say(line)
    wrong = [result for result in report.results if result.check is not None and not result.check.passed]
    if wrong:
        cli.say(f"{len(wrong)} of {len(report.results)} results are WRONG")
    return 1 if wrong else 0


BENCH = Command("bench", "compare the times of products with those of cuBLAS and others", _arguments, _run)
