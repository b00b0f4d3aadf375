"""`weft kernels`: how many kernels `weft.matmul` needs for products, and their compilation in advance."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError, about
from weft.tools import bench, cli
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.schedules.database import Product
    from weft.schedules.needed import Needed

_HEADING = f"{'types':21}  {'products':>8}  {'schedules':>9}  {'kernels':>7}  {'slower %':>8}"


def _arguments(parser: ArgumentParser) -> None:
    bench.problem_arguments(parser, grouped=False)
    cli.declare(
        parser,
        """
        --arch CHIP = sm_90a  the chip (default: sm_90a)
        --compile  compile the kernels into the cache of weft.matmul
        --jobs N:int  processes that compile (default: one less than there are cores)
        """,
    )


def _run(options: Namespace) -> int:
    from weft.bench.compiling import product_of
    from weft.schedules.needed import needed
    from weft.schedules.transposing import multiplied
    from weft.target import Target

    cli.check_least(options, jobs=1)
    Target.of(options.arch)  # which must be known
    by_types: dict[str, list[Product]] = {}
    for problem in bench.problems(options, grouped=False):
        if problem.groups is not None:
            raise WeftError(f"weft kernels counts those of single products, got the groups '{problem.shape}'")
        product = product_of(problem, options.arch)
        multiplies = multiplied(product)
        name = problem.types if multiplies is product else f"{problem.types}, copied"
        by_types.setdefault(name, []).append(multiplies)
    found = []
    cli.say(_HEADING)
    for types, products in by_types.items():
        with Bar(types) as bar, about("weft kernels"):
            found.append(needed(products, bar))
        (*_, last) = found
        numbers = f"{last.products:8}  {len(last.chosen):9}  {len(last.kernels):7}"
        cli.say(f"{types:21}  {numbers}  {100 * (last.slower - 1):8.2f}")
    if options.compile:
        _compile([each[0] for each in by_types.values()], found, options.jobs)
    return 0


def _compile(products: "Sequence[Product]", needed: "Sequence[Needed]", jobs: int | None) -> None:
    """Compiles the kernels of each types' product. Raises WeftError if nothing is kept, or one can't be."""
    from weft.bench.compiling import Compiler, default_jobs, written
    from weft.cache import disk_cache as cache

    if cache.default().directory is None:
        raise WeftError("--compile needs a cache: WEFT_CACHE is 0")
    asked = [(p, written(s)) for p, each in zip(products, needed, strict=True) for s in each.kernels]
    with Compiler(min(jobs or default_jobs(), len(asked))) as compiler, Bar("compiling") as bar:
        for product, schedule in asked:
            compiler.ahead(product, [schedule])
        for number, (product, schedule) in enumerate(asked, 1):
            if complaint := compiler.complaint(product, schedule):
                raise WeftError(f"{schedule}: {complaint}")
            bar(number, len(asked))
    cli.say(f"compiled {len(asked)} kernels into {cache.default().directory}")


KERNELS = Command("kernels", "count the kernels that products need, and compile them", _arguments, _run)
