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
    from weft.schedules.database import Product
    from weft.tuning import gpus
    from weft.tuning.tuner import Tuner


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
    from weft.tuning import gpus, report
    from weft.tuning.tuner import SEARCHED

    _check_gpu()
    visible = gpus.names(options.gpus, _count_gpus())
    cli.say(f"{len(visible)} GPUs; results go to {path}")
    cli.say(report.HEADING)
    shown, known, failed = [], set[int](), False
    with Bar(f"{len(asked)} products") as bar:
        for found in gpus.search(visible, partial(_share, options)):
            if isinstance(found, str):
                cli.say(found)
                failed = True
            elif found.number not in known:
                known.add(found.number)
                problem, failed = asked[found.number], failed or found.line is None
                if found.line is not None:
                    entry = Entry.read(found.line)
                    shown.append((problem, entry))
                    cli.say(report.row(problem, entry))
                for remark in found.remarks:
                    cli.say(f"{problem.shape:17}  {problem.types:21}  {remark}")
            bar(len(known), len(asked))
    for line in report.means(shown):
        cli.say(line)
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
