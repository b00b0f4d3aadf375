"""Measures schedules of `wgmma` on a GPU, and fits the time model to such times: docs/tune.md#the-model."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

import model_corrections
import model_fit
import model_record
import model_times
from model_times import Times

from weft.bench import gpu
from weft.bench.compiling import Compiler, default_jobs, product_of
from weft.errors import WeftError
from weft.schedules.h200 import H200, FittedGpu
from weft.tools import bench, cli, tune
from weft.tools.bar import Bar

_NAME = "fit_model"
_QUALITIES = (
    f"{'':18}  {'products':>8}  {'error %':>7}  {'regret %':>8}  {'worst %':>7}  {'cuBLAS':>6}  {'best':>6}"
)


def _options(arguments: Sequence[str]) -> Namespace:
    parser = cli.Parser(_NAME, description=__doc__, allow_abbrev=False)
    bench.problem_arguments(parser, grouped=False)
    add = parser.add_argument
    add("--samples", type=int, default=20, metavar="N", help="with --record: samples of each (default: 20)")
    add("--jobs", type=int, metavar="N", help="with --record: processes that compile")
    what = parser.add_mutually_exclusive_group(required=True)
    add = what.add_argument
    add("--record", metavar="FILE", help="measure schedules for --fit, and keep their times")
    add("--fit", metavar="FILE", help="fit the model to the times that --record kept")
    add("--correct", metavar="FILE", nargs="+", help="fit the corrections to such times, of several files")
    parser.add_argument(
        "--models",
        metavar="FILE",
        help="with --fit or --correct: the copy of h200.py that gets the numbers",
    )
    return parser.parse_args(arguments)


def _run(options: Namespace) -> int:
    if options.record is not None:
        return _record(options)
    if options.what:
        name = "--fit" if options.fit is not None else "--correct"
        raise WeftError(f"{name} can't be used with shapes: it measures nothing")
    _keep(options, *(_fitted if options.fit is not None else _corrected)(options))
    return 0


def _fitted(options: Namespace) -> tuple[Iterator[str], Iterator[str], FittedGpu]:
    """How well a fit does, the lines of its numbers, and the model with them."""
    measured = list(model_times.read(cli.read(options.fit)))
    samples = [model_fit.Sample.of(each, options.seed, checked=False) for each in measured]
    model = model_fit.fit(H200, samples)
    parts = (("fit", False), ("check", True))
    lines = (
        _line(times, options.seed, model, what, checked=checked)
        for times in measured
        for what, checked in parts
    )
    return lines, model_fit.row(model), model


def _corrected(options: Namespace) -> tuple[Iterator[str], Iterator[str], FittedGpu]:
    """How well the model does on products that check it, without corrections and with those that are fitted
    to the others; the lines of the latter; and the model with corrections that are fitted to all times.
    """
    measured = [each for file in options.correct for each in model_times.read(cli.read(file))]
    model = model_corrections.corrected(H200, measured, options.seed, all_=True)
    found = model_corrections.corrected(model, measured, options.seed)
    models = (("plain", model_corrections.plain(model)), ("corrected", found))
    lines = (
        _line(times, options.seed, each, what, checked=True)
        for times in filter(model_corrections.is_able, measured)
        for what, each in models
    )
    return lines, model_corrections.row(model), model


def _line(times: Times, seed: int, model: FittedGpu, what: str, *, checked: bool) -> str:
    """How well a model does on some of the times; "" where there are none."""
    quality = model_fit.quality(model, model_fit.Sample.of(times, seed, checked=checked))
    if quality is None:
        return ""
    ratios = (quality.against, quality.best_against)
    others = "  ".join(f"{'–' if ratio is None else f'{ratio:.3f}':>6}" for ratio in ratios)
    shares = (
        f"{100 * quality.error:7.1f}  {100 * (quality.regret - 1):8.1f}  {100 * (quality.worst - 1):7.0f}"
    )
    return f"{times.name:18}  {quality.products:8}  {shares}  {others}  {what}"


def _keep(options: Namespace, lines: Iterator[str], row: Iterator[str], model: FittedGpu) -> None:
    """Prints how well a model does, and its numbers; writes these if --models names a file."""
    for line in (_QUALITIES, *filter(None, lines), f"{model.chip}:", *row):
        cli.say(line)
    if options.models is not None:
        written = model_fit.written if options.fit is not None else model_corrections.written
        cli.write(options.models, written(cli.read(options.models, python=True), model))


def _record(options: Namespace) -> int:
    """Measures schedules, and keeps their times."""
    asked = tune.problems(options)
    cli.check_least(options, samples=bench.FEWEST_SAMPLES, jobs=1)
    cli.check_writable(options.record)
    if (reason := gpu.unavailable(_NAME)) is not None:
        raise WeftError(reason)
    device = gpu.TorchGpu()
    chip = device.describe()["chip"]
    products = [(problem, product_of(problem, chip)) for problem in asked]
    planned = model_record.planned(products, options.seed)

    def keep(found: Sequence[Times]) -> None:
        cli.write(options.record, model_times.written(found))

    with Compiler(options.jobs or default_jobs()) as compiler, Bar("measuring schedules") as bar:
        model_record.recorded(planned, device, compiler, options.samples, keep, bar)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Runs the script, and returns its exit status."""
    return cli.guarded(_NAME, lambda: _run(_options(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
