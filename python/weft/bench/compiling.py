"""Compiles schedules in processes of their own, into the cache that `weft.matmul` looks into."""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from types import TracebackType
from typing import Self

from weft.bench.problem import INPUTS, Problem
from weft.cache import disk_cache as disk
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.product_types import Types
from weft.dialects.schedule import AnySchedule, read_schedule
from weft.errors import WeftError
from weft.isa.block_scales import FORMATS
from weft.mlir import ir
from weft.multiply import product_kernel
from weft.schedules import choice, transposing
from weft.schedules.database import Product
from weft.system import processes

_SCALES = {ptx: scale for scale, ptx in PTX_SCALES.items()}
_ELEMENTS = {ptx: element for element, ptx in PTX_INPUTS.items()} | {"s32": "i32", "f32": "f32"}


def product_of(problem: Problem, chip: str) -> Product:
    """What the database calls a problem, which has no groups."""
    assert problem.groups is None, problem.shape
    row = INPUTS[problem.inputs]
    element = _ELEMENTS[row.element.name]
    mn_major = problem.transpose_a, not problem.transpose_b
    scale = _SCALES[FORMATS[row.format].scale] if row.format else ""
    types = Types(
        *(element, element, _ELEMENTS[problem.output], mn_major),
        promoted=row.promoted,
        scaled=row.block_scales,
        scale=scale,
    )
    return Product(problem.m, problem.n, problem.k, types, chip)


def written(schedule: AnySchedule) -> str:
    """A schedule as `read_schedule` reads it."""
    with _context():
        return str(schedule.attribute())


@cache
def _context() -> ir.Context:
    """One for all, which a search writes more than a thousand schedules in."""
    return ir.Context()


class Compiler:
    """`jobs` processes, and for each product and schedule whether it can be compiled."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._executor = _executor(jobs)
        self._asked: dict[tuple[Product, str], Future[str | None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def ahead(self, product: Product, schedules: Sequence[str]) -> None:
        """Begins to compile."""
        for schedule in schedules:
            if (product, schedule) not in self._asked:
                self._asked[product, schedule] = self._submit(product, schedule)

    def complaint(self, product: Product, schedule: str) -> str | None:
        """Why a schedule can't be compiled for a product, once that is known."""
        self.ahead(product, [schedule])
        try:
            return self._asked[product, schedule].result()
        except BrokenProcessPool:
            with _executor(1) as single:  # of several, nobody says which schedule has ended the process
                try:
                    return _begun(single, product, schedule).result()
                except BrokenProcessPool:
                    return "ends the process that compiles it"

    def _submit(self, product: Product, schedule: str) -> "Future[str | None]":
        try:
            return _begun(self._executor, product, schedule)
        except BrokenProcessPool:
            self._executor = _executor(self._jobs)
            return _begun(self._executor, product, schedule)


def compile_ahead(
    problems: Sequence[Problem], chip: str, schedule: str | None, progress: Callable[[int, int], None]
) -> None:
    """Compiles what `weft.matmul` takes for each problem without groups, by its own choice or by `schedule`.

    What can't be compiled is reported when it is measured. Where nothing is kept on disk, nothing is done.
    """
    if disk.default().directory is None:
        return
    asked: dict[tuple[Types, str], Product] = {}  # sizes don't show in a kernel
    for product in (product_of(problem, chip) for problem in problems if problem.groups is None):
        with suppress(WeftError):
            product = product if schedule else transposing.multiplied(product)
            asked.setdefault((product.types, schedule or chosen(product)), product)
    if len(asked) < 2:  # which the first call compiles as fast
        return
    with Compiler(min(default_jobs(), len(asked))) as compiler:
        for (_, text), product in asked.items():
            compiler.ahead(product, [text])
        for number, ((_, text), product) in enumerate(asked.items(), 1):
            compiler.complaint(product, text)
            progress(number, len(asked))


def chosen(product: Product) -> str:
    """The schedule that is chosen for a product, as `read_schedule` reads it."""
    return written(choice.choose(product.m, product.n, product.k, product.types, product.chip))


def default_jobs() -> int:
    """The processors that this process may use, less the one that measures."""
    return max(processes.cores() - 1, 1)


def compiled(product: Product, schedule: str) -> str | None:
    """Compiles a schedule for a product; returns why it can't be, or can't be measured, else None."""
    try:
        kernel = product_kernel.plain(product.types, read_schedule(schedule), product.chip)
        _ = kernel.cubin
    except WeftError as error:
        return error.diagnostics[0].message
    m, n, k, types = product.m, product.n, product.k, product.types
    a = (k, m) if types.transposed[0] else (m, k)
    b = (k, n) if types.transposed[1] else (n, k)
    sizes = (types.input_bytes, types.input_bytes, types.output_bytes)
    aligned = kernel.launch.aligned  # where rows aren't, `weft.matmul` would take another kernel
    for name, (rows, columns), size, wanted in zip("ABD", (a, b, (m, n)), sizes, aligned, strict=False):
        if rows > 1 and columns * size % wanted:
            return f"rows of {name} must begin at multiples of {wanted} bytes, got {columns * size}"
    return None


def _begun(executor: ProcessPoolExecutor, product: Product, schedule: str) -> "Future[str | None]":
    try:
        return executor.submit(compiled, product, schedule)
    except OSError as error:
        raise processes.refusal("cannot start a process that compiles", error) from None


def _executor(jobs: int) -> ProcessPoolExecutor:
    # Not forked: this process holds a GPU. An interrupt is for this one to handle.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=signal.signal, initargs=ignored)
