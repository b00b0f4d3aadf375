"""`weft tune`: searches the fastest schedules of products, and keeps them for `weft.matmul` to find."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import bench, cli
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.bench.problem import Problem
    from weft.schedules.database import Entry, Product
    from weft.tuning import gpus
    from weft.tuning.tuner import Tuner

    _Shown = list[tuple[Problem, Entry]]

_HEADING = f"{'M x N x K':17}  {'types':21}  {'model µs':>9}  {'tuned µs':>9}  {'gain %':>6}  schedule"


def _arguments(parser: ArgumentParser) -> None:
    bench.problem_arguments(parser, grouped=False)
    cli.declare(
        parser,
        """
        --limit N:int  try the N schedules that are fastest in the model (default: 32)
        --exhaustive  try all schedules
        --samples N:int = 20  samples of each of the last schedules, after a rest (default: 20)
        --jobs N:int  processes that compile (default: one less than there are cores)
        --gpus N:int = 1  search on N GPUs at once (default: 1)
        --again  search again what the database has
        --database FILE  the file for the results (default: $WEFT_SCHEDULES, otherwise the user's own file)
        """,
    )


def _run(options: Namespace) -> int:
    path, asked = _database(options), problems(options)
    _check(options)
    if options.gpus > 1:
        return _on_several(options, asked, path)
    _check_gpu()
    with _tuner(options, path, asked, 1) as (tuner, products):
        cli.say(f"{tuner.gpu_name}; results go to {path}")
        return tune(list(zip(asked, products, strict=True)), tuner)


@contextmanager
def _tuner(
    options: Namespace, path: Path, asked: "Sequence[Problem]", processes: int
) -> "Iterator[tuple[Tuner, list[Product]]]":
    """What searches on a GPU, beside other such `processes`, and the products that are searched."""
    from weft.bench import gpu
    from weft.bench.compiling import Compiler, default_jobs, product_of
    from weft.tuning.search import LIMIT
    from weft.tuning.tuner import Tuner

    device = gpu.TorchGpu()
    described = device.describe()
    products = [product_of(problem, described["chip"]) for problem in asked]
    limit = None if options.exhaustive else options.limit or LIMIT
    with Compiler(max((options.jobs or default_jobs()) // processes, 1)) as compiler:
        name = described["name"]
        yield Tuner(path, device, name, compiler, options.samples, limit, options.again), products


def _on_several(options: Namespace, asked: "Sequence[Problem]", path: Path) -> int:
    """Searches with a process for each GPU. Prints each product once."""
    from weft.schedules.database import Entry
    from weft.tuning import gpus
    from weft.tuning.tuner import SEARCHED

    _check_gpu()
    visible = gpus.names(options.gpus, _count_gpus())
    cli.say(f"{len(visible)} GPUs; results go to {path}")
    cli.say(_HEADING)
    shown: _Shown = []
    known = set[int]()
    failed = False
    with Bar(f"{len(asked)} products") as bar:
        for found in gpus.search(visible, partial(_share, options)):
            if isinstance(found, str):
                cli.say(found)
                failed = True
            elif found.number not in known:
                known.add(found.number)
                problem, failed = asked[found.number], failed or found.line is None
                _say(problem, None if found.line is None else Entry.read(found.line), found.remarks, shown)
            bar(len(known), len(asked))
    _say_means(shown)
    for number in sorted({*range(len(asked))} - known):
        problem, failed = asked[number], True
        cli.say(f"{problem.shape:17}  {problem.types:21}  {SEARCHED}")
    return int(failed)


def _share(options: Namespace, process: int, send: "gpus.Send") -> None:
    """What one of several processes does: searches products, its own share first."""
    from weft.tuning.gpus import Found, order
    from weft.tuning.search import Fault
    from weft.tuning.tuner import SEARCHED

    asked = problems(options)
    numbers = order(process, options.gpus, len(asked), again=options.again)
    with _tuner(options, _database(options), asked, options.gpus) as (tuner, products):
        for place, number in enumerate(numbers):
            following = [products[each] for each in numbers[place + 1 : place + 2]]
            try:
                entry, remarks = tuner.tune(asked[number], products[number], following, lambda *_: None)
            except Fault:
                raise
            except WeftError as error:
                entry, remarks = None, [error.diagnostics[0].message]
            if remarks != [SEARCHED]:
                send(Found(number, None if entry is None else entry.line(), remarks))


def _check_gpu() -> None:
    """Raises WeftError where nothing can be measured."""
    from weft.bench import gpu

    if (reason := gpu.unavailable()) is not None:
        raise WeftError(reason.replace("weft bench", "weft tune"))


def _count_gpus() -> int:
    import torch

    return int(torch.cuda.device_count())


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
    cli.check_least(options, limit=1, samples=bench.FEWEST_SAMPLES, jobs=1, gpus=1)


def _database(options: Namespace) -> Path:
    from weft.schedules.tuned_files import VARIABLE, own_file

    if (path := Path(options.database) if options.database else own_file()) is None:
        raise WeftError(f"${VARIABLE} is empty, which means no file: use --database FILE")
    return path


def tune(products: "Sequence[tuple[Problem, Product]]", tuner: "Tuner") -> int:
    """Searches, prints and keeps one product after another; returns 1 if one has no result, else 0."""
    from weft.tuning.search import Fault

    cli.say(_HEADING)
    shown: _Shown = []
    status = 0
    for number, (problem, product) in enumerate(products, 1):
        following = [p for _, p in products[number : number + 1]]
        try:
            with Bar(f"{problem.shape} {problem.types} ({number} of {len(products)})") as bar:
                entry, remarks = tuner.tune(problem, product, following, bar)
        except Fault:
            raise
        except WeftError as error:
            entry, remarks, status = None, [error.diagnostics[0].message], 1
        _say(problem, entry, remarks, shown)
    _say_means(shown)
    return status


def _say(problem: "Problem", entry: "Entry | None", remarks: Sequence[str], shown: "_Shown") -> None:
    """Prints the result of a product, if it has one, and remarks about it. Adds the result to those shown."""
    if entry is not None:
        shown.append((problem, entry))
        cli.say(_row(problem, entry))
    for remark in remarks:
        cli.say(f"{problem.shape:17}  {problem.types:21}  {remark}")


def _row(problem: "Problem", entry: "Entry") -> str:
    """The model's choice and the fastest schedule: their times, the gain, and the schedules."""
    from weft.dialects.schedule import read_schedule

    own = entry.model
    ratio = _slower(entry)
    took = f"{own[1]:9.2f}" if own and own[1] else f"{'–':>9}"
    gain = f"{100 * (ratio - 1):6.1f}" if ratio else f"{'–':>6}"
    chosen = str(read_schedule(entry.schedule))
    if own and own[0] == entry.schedule:
        chosen += " (the model's)"
    elif own:
        chosen += f" (the model's: {read_schedule(own[0])})"
    return f"{problem.shape:17}  {problem.types:21}  {took}  {entry.microseconds:9.2f}  {gain}  {chosen}"


def _slower(entry: "Entry") -> float | None:
    """The time of the model's choice relative to the fastest; None if that choice has no time."""
    return entry.model[1] / entry.microseconds if entry.model and entry.model[1] else None


def _say_means(shown: "_Shown") -> None:
    """Prints for each kind of types the geometric mean of the model's times relative to the fastest."""
    from statistics import geometric_mean

    ratios: dict[str, list[float]] = {}
    for problem, entry in shown:
        if (ratio := _slower(entry)) is not None:
            ratios.setdefault(problem.types, []).append(ratio)
    for types, each in ratios.items():
        mean = geometric_mean(each)
        of = f"(geometric mean of {len(each)})"
        cli.say(f"{types}: the model's schedules take {mean:.3f} times as long {of}")


TUNE = Command(
    "tune", "search the fastest schedules of products, which weft.matmul then uses", _arguments, _run
)
