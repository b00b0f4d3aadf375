"""What `weft tune` does for one product: a search, unless the database has one, and its entry."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from weft.bench.compiling import Compiler, written
from weft.bench.gpu import TorchGpu
from weft.bench.measure import Progress
from weft.bench.problem import Problem
from weft.errors import WeftError
from weft.schedules import database, tuned_files
from weft.schedules.database import Entry, Product
from weft.tuning import partial
from weft.tuning.search import Result, Search, first_tries
from weft.version import VERSION

_ALL = "all"
SEARCHED = "another weft tune is searching this product"


@dataclass(frozen=True)
class Tuner:
    """Searches on a GPU named `gpu_name`, whose results go to the database `path`.

    `limit` is the number of schedules to try, None for all. `again` repeats searches that the database has.
    """

    path: Path
    gpu: TorchGpu
    gpu_name: str
    compiler: Compiler
    samples: int
    limit: int | None
    again: bool = False

    def tune(
        self, problem: Problem, product: Product, following: Sequence[Product], progress: Progress
    ) -> tuple[Entry | None, list[str]]:
        """The product's entry, and remarks; no entry while another process searches.

        The compiler continues with the `following` products once it has nothing to do for this one. Raises
        WeftError if no schedule gives a right result.
        """
        with partial.opened(self.path, product, self.gpu_name) as records:
            if records is None:
                return None, [SEARCHED]
            if (entry := self._existing(product)) is not None:
                return entry, []
            files = (self.path, *tuned_files.sources(product.chip))
            known = database.tuned(product, files)
            search = Search(
                *(problem, product, self.gpu, self.compiler, records, self.samples, self.limit),
                [written(known)] if known else [],
                progress,
            )
            result = search.run(lambda: self._ahead(following))
            if result.best is None:
                raise WeftError("; ".join(["no schedule gives a right result", *_remarks(result)]))
            database.keep(self.path, self._entry(product, result, result.best), result.times)
            return database.read(self.path)[product], _remarks(result)

    def _existing(self, product: Product) -> Entry | None:
        """The database's entry, if it is from such a GPU and a search that tried at least as much."""
        entry = None if self.again else database.read(self.path).get(product)
        if entry is None or entry.search.get("gpu") != self.gpu_name:
            return None
        limit = entry.search.get("limit")
        enough = limit == _ALL or (self.limit is not None and isinstance(limit, int) and limit >= self.limit)
        return entry if enough else None

    def _ahead(self, following: Sequence[Product]) -> None:
        for product in following:
            if self._existing(product) is None:
                try:
                    tries = first_tries(product, self.limit)
                except WeftError:
                    continue  # reported by its own search
                self.compiler.ahead(product, [written(schedule) for schedule in tries])

    def _entry(self, product: Product, result: Result, best: str) -> Entry:
        own = result.times.get(result.own)
        search = {
            "model": {"schedule": result.own, "microseconds": None if own is None else round(own, 3)},
            "tried": result.tried,
            "limit": _ALL if self.limit is None else self.limit,
            "samples": self.samples,
            "gpu": self.gpu_name,
            "weft": VERSION,
            "date": datetime.now(UTC).date().isoformat(),
        }
        if result.failed:
            search["failed"] = result.failed
        return Entry(product, best, round(result.times[best], 3), search)


def _remarks(result: Result) -> list[str]:
    """Each reason why schedules failed, once."""
    return [f"left out {count}: {reason}" for reason, count in Counter(result.failed.values()).items()]
