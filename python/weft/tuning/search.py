"""The search for a product's fastest schedule: few samples of many schedules, more samples of the better
ones, measured as `weft bench` measures.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from weft.bench import implementations, measure
from weft.bench.compiling import Compiler, written
from weft.bench.gpu import TorchGpu
from weft.bench.implementation import Call, Implementation
from weft.bench.problem import Buffers, Check, Problem
from weft.dialects.product_types import ceil_div
from weft.dialects.schedule import AnySchedule
from weft.errors import Diagnostic, WeftError
from weft.schedules import choice, wgmma
from weft.schedules.database import Product
from weft.target import Target
from weft.tuning.partial import Partial

LIMIT = 32  # candidates of the model to try
_FEW, _SOME = 3, 8  # samples of all schedules, and of the better ones
_BATCH = 16  # schedules that are measured in turns
_LEADERS, _BETTER, _LAST = 4, 8, 4  # schedules with variants, with more samples, and with all samples
_VARIANTS = 4  # of a leader, about
_GROUPS = wgmma.GROUPS  # 1: along rows of blocks


class Fault(WeftError):
    """The GPU can't be used any more in this process."""


@dataclass
class Result:
    """The microseconds of the last schedules by their text, the fastest first, the reasons why others failed,
    and the number of schedules that were tried. `own` is the model's choice.
    """

    own: str
    times: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    tried: int = 0

    @property
    def best(self) -> str | None:
        """The fastest schedule with a right result, or None."""
        return next(iter(self.times), None)


def first_tries(product: Product, limit: int | None) -> list[AnySchedule]:
    """The model's choice, then the most promising candidates: `limit` of them, or all. Raises WeftError where
    none is legal.
    """
    size = product.m, product.n, product.k
    own = choice.choose(*size, product.types, product.chip, tuned=False)
    return list(dict.fromkeys([own, *choice.candidates(product)[:limit]]))


def variants(schedule: AnySchedule, product: Product) -> Iterator[AnySchedule]:
    """The schedule with other groups that change the order of tiles, and with one stage less."""
    rows, _ = schedule.swapped(product.m, product.n)
    tiles = ceil_div(rows, schedule.block[0])
    orders = {min(group, tiles): group for group in _GROUPS[::-1]}
    orders.pop(min(schedule.group, tiles), None)
    every = [
        *(replace(schedule, group=group) for group in sorted(orders.values())),
        replace(schedule, stages=schedule.stages - 1),
    ]
    target = Target.of(product.chip)
    yield from (s for s in every if s.complaint(product.types, target) is None)


@dataclass
class Search:
    """One problem's search. Measurements are recorded in `partial` and not repeated.

    `known` are schedules that, like the model's choice, stay to the last round. `limit` is None for all
    candidates. `progress` is called with the number of finished steps and their total, which changes.
    """

    problem: Problem
    product: Product
    gpu: TorchGpu
    compiler: Compiler
    partial: Partial
    samples: int
    limit: int | None = LIMIT
    known: Sequence[str] = ()
    progress: measure.Progress = lambda done, total: None
    _failed: dict[str, str] = field(default_factory=dict)
    _tried: set[str] = field(default_factory=set)
    _done: int = 0
    _total: int = 0

    def run(self, before_last: Callable[[], None] = lambda: None) -> Result:
        """Searches. `before_last` is called once all is compiled: the compiler may then do other work."""
        records = self.partial.records  # of an earlier run
        self._failed |= {r["schedule"]: r["reason"] for r in records if "reason" in r}
        if "began" in records[-1]:
            self._fail(records[-1]["began"], "ended the run, or never finished")
        by_text = {written(s): s for s in first_tries(self.product, self.limit)}
        always = list(dict.fromkeys([next(iter(by_text)), *self.known]))
        later = _LEADERS * _VARIANTS * (1 + _FEW) + _BETTER * _SOME + (_LAST + 1) * self.samples
        first = list(dict.fromkeys([*by_text, *self.known]))
        times = self._round(first, _FEW, later)
        leaders = [by_text[text] for text in _fastest(times, _LEADERS) if text in by_text]
        more = [written(v) for leader in leaders for v in variants(leader, self.product)]
        self.compiler.ahead(self.product, more)
        before_last()
        times |= self._round(more, _FEW, _BETTER * _SOME + (_LAST + 1) * self.samples)
        better = self._round(_fastest(times, _BETTER), _SOME, (_LAST + 1) * self.samples, together=True)
        last = list(dict.fromkeys([*always, *_fastest(better, _LAST)]))
        final = self._round(last, self.samples, 0, together=True)
        return Result(always[0], {t: final[t] for t in _fastest(final, None)}, self._failed, len(self._tried))

    def _round(
        self, texts: Iterable[str], samples: int, later: int, together: bool = False
    ) -> dict[str, float]:
        """The microseconds of schedules with right results, from this number of samples. `together`: all are
        measured in this run, unless an earlier run measured all of them.
        """
        texts = list(dict.fromkeys(texts))
        self._tried |= set(texts)
        self.compiler.ahead(self.product, texts)
        recorded = (record for record in self.partial.records if record.get("samples") == samples)
        times = {record["schedule"]: record["microseconds"] for record in recorded}
        wanted = [text for text in texts if text not in self._failed]
        if together and not set(wanted) <= set(times):
            times = {}
        missing = [text for text in wanted if text not in times]
        self._total = self._done + len(missing) * (1 + samples) + later
        compiled = [text for text in missing if self._compiles(text)]
        for start in range(0, len(compiled), _BATCH):
            times |= self._measured(compiled[start : start + _BATCH], samples)
        return {text: times[text] for text in texts if text in times}

    def _compiles(self, text: str) -> bool:
        reason = self.compiler.complaint(self.product, text)
        self._done += 1
        self.progress(self._done, self._total)
        if reason is not None:
            self._fail(text, reason)
        return reason is None

    def _measured(self, texts: Sequence[str], samples: int) -> dict[str, float]:
        """Measures in turns, and records the results."""
        done = self._done

        def progress(steps: int, _: int) -> None:
            if steps == 1:
                self.partial.add({"timing": len(texts)})  # all have run once
            self._done = done + steps
            self.progress(self._done, self._total)

        try:
            noting = list(map(self._noting, texts))
            results = measure.run(
                self.problem, noting, self.gpu, samples=samples, sustained=False, progress=progress
            )
        except KeyboardInterrupt:
            self.partial.add({"stopped": True})
            raise
        except WeftError as error:  # a fault of the GPU
            note = Diagnostic("the measurements are kept: run it again to continue", severity="note")
            first, *rest = error.diagnostics
            raise Fault(replace(first, notes=(*first.notes, note)), *rest) from None
        self._done = done + len(texts) * samples
        times = {r.implementation: r.burst.microseconds for r in results if r.right and r.burst}
        for result in results:
            if result.implementation not in times:
                self._fail(result.implementation, result.reason or _wrong(result.check))
        self.partial.add(
            *({"schedule": text, "samples": samples, "microseconds": time} for text, time in times.items())
        )
        return times

    def _noting(self, text: str) -> Implementation:
        """An implementation that is recorded before it first runs, since it may end the process."""
        inner = implementations.weft(text)

        def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
            self.partial.add({"began": text})
            return inner.prepare(problem, sets)

        return Implementation(text, prepare)

    def _fail(self, text: str, reason: str) -> None:
        self._failed[text] = reason
        self.partial.add({"schedule": text, "reason": reason})


def _fastest(times: dict[str, float], count: int | None) -> list[str]:
    return sorted(times, key=lambda text: times[text])[:count]


def _wrong(check: Check | None) -> str:
    if check is None:
        return "wasn't measured"
    if check.error is None:
        return "is wrong: some elements aren't finite or weren't written"
    return f"is wrong: a relative error of {check.error:.1e}, where {check.allowed:.0e} is allowed"
