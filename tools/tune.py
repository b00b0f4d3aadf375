"""`weft tune`: searches the fastest schedules of products, and keeps them for `weft.matmul` to find."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import bench, cli
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.bench.problem import Problem
    from weft.schedules.database import Product
    from weft.tuning.tuner import Tuner

_FEWEST_SAMPLES = 2


def _arguments(parser: ArgumentParser) -> None:
    bench.problem_arguments(parser, grouped=False)
    add = parser.add_argument
    add(
        "--limit",
        type=int,
        metavar="N",
        help="try the N schedules that are fastest in the model (default: 32)",
    )
    add("--exhaustive", action="store_true", help="try all schedules")
    add(
        "--samples",
        type=int,
        default=20,
        metavar="N",
        help="samples of each of the last schedules, after a rest (default: 20)",
    )
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that compile (default: one less than there are cores)",
    )
    add("--again", action="store_true", help="search again what the database has")
    add(
        "--database",
        metavar="FILE",
        help="the file for the results (default: $WEFT_SCHEDULES, otherwise the user's own file)",
    )
    add("--record", metavar="FILE", help="search nothing: measure schedules for --fit, and keep their times")
    add("--fit", metavar="FILE", help="measure nothing: fit the model to the times that --record kept")
    add("--models", metavar="FILE", help="with --fit: the copy of chip_models.py that gets the numbers")


def _run(options: Namespace) -> int:
    if options.fit is not None:
        return _fit(options)
    if options.models is not None:
        raise WeftError("--models can be used with --fit only")
    if options.record is not None:
        return _record(options)
    from weft.bench import gpu
    from weft.bench.compiling import Compiler, default_jobs, product_of
    from weft.tuning.search import LIMIT
    from weft.tuning.tuner import Tuner

    path, asked = _database(options), problems(options)
    _check(options)
    if (reason := gpu.unavailable()) is not None:
        raise WeftError(reason.replace("weft bench", "weft tune"))
    device = gpu.TorchGpu()
    described = device.describe()
    products = [(problem, product_of(problem, described["chip"])) for problem in asked]
    limit = None if options.exhaustive else options.limit or LIMIT
    cli.say(f"{described['name']}; results go to {path}")
    with Compiler(options.jobs or default_jobs()) as compiler:
        tuner = Tuner(path, device, described["name"], compiler, options.samples, limit, options.again)
        return tune(products, tuner)


def _fit(options: Namespace) -> int:
    """Fits the model, and prints how well it does."""
    from weft.schedules.chip_models import H200
    from weft.tuning import fit, report, times

    if options.what:
        raise WeftError("--fit can't be used with shapes: it measures nothing")
    measured = list(times.read(cli.read(options.fit)))
    model = fit.fit(H200, [fit.Sample.of(each, options.seed, checked=False) for each in measured])
    for line in report.fitted(model, measured, options.seed):
        cli.say(line)
    if options.models is not None:
        cli.write(options.models, fit.written(cli.read(options.models), model))
    return 0


def _record(options: Namespace) -> int:
    """Measures schedules, and keeps their times."""
    from weft.bench import gpu
    from weft.bench.compiling import Compiler, default_jobs, product_of
    from weft.tuning import record, times

    asked = problems(options)
    _check(options)
    cli.check_writable(options.record)
    if (reason := gpu.unavailable()) is not None:
        raise WeftError(reason.replace("weft bench", "weft tune"))
    device = gpu.TorchGpu()
    chip = device.describe()["chip"]
    planned = record.planned([(problem, product_of(problem, chip)) for problem in asked], options.seed)

    def keep(found: "Sequence[times.Times]") -> None:
        cli.write(options.record, times.written(found))

    with Compiler(options.jobs or default_jobs()) as compiler, Bar("measuring schedules") as bar:
        record.recorded(planned, device, compiler, options.samples, keep, bar)
    return 0


def problems(options: Namespace) -> "list[Problem]":
    """The products that those options mean. Raises WeftError for groups and matrices that aren't dense."""
    asked = bench.problems(options, grouped=False)
    for problem in asked:
        if problem.groups is not None:
            what = f"weft tune searches single products, got the groups '{problem.shape}'"
            raise WeftError(f"{what}: the model chooses their schedules")
        if problem.shift or problem.gap:
            raise WeftError(f"weft tune searches dense, aligned products, got '{problem.shape}'")
    return asked


def _check(options: Namespace) -> None:
    if options.exhaustive and options.limit is not None:
        raise WeftError("--exhaustive can't be used with --limit: it tries all schedules")
    for name, least in (("limit", 1), ("samples", _FEWEST_SAMPLES), ("jobs", 1)):
        if (value := getattr(options, name)) is not None and value < least:
            raise WeftError(f"--{name} must be at least {least}; got {value}")


def _database(options: Namespace) -> Path:
    from weft.schedules.database import VARIABLE, own_file

    if (path := Path(options.database) if options.database else own_file()) is None:
        raise WeftError(f"${VARIABLE} is empty, which means no file: use --database FILE")
    return path


def tune(products: "Sequence[tuple[Problem, Product]]", tuner: "Tuner") -> int:
    """Searches, prints and keeps one product after another; returns 1 if one has no result, else 0."""
    from weft.tuning import report
    from weft.tuning.search import Fault

    cli.say(report.HEADING)
    shown, status = [], 0
    for number, (problem, product) in enumerate(products, 1):
        following = [p for _, p in products[number : number + 1]]
        try:
            with Bar(f"{problem.shape} {problem.types} ({number} of {len(products)})") as bar:
                entry, remarks = tuner.tune(problem, product, following, bar)
        except Fault:
            raise
        except WeftError as error:
            entry, remarks, status = None, [error.diagnostics[0].message], 1
        if entry is not None:
            shown.append((problem, entry))
            cli.say(report.row(problem, entry))
        for remark in remarks:
            cli.say(f"{problem.shape:17}  {problem.types:21}  {remark}")
    for line in report.means(shown):
        cli.say(line)
    return status


TUNE = Command(
    "tune", "search the fastest schedules of products, which weft.matmul then uses", _arguments, _run
)
