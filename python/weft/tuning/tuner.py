"""What `weft tune` does for one product: a search where the database has none, and its result kept there."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from weft.bench.compiling import written
from weft.bench.measure import Gpu, Progress
from weft.bench.problem import Problem
from weft.errors import WeftError
from weft.schedules import database
from weft.schedules.database import Entry, Product
from weft.tuning import partial
from weft.tuning.search import Compiler, Found, Search, first_tries
from weft.version import VERSION

_ALL = "all"


@dataclass(frozen=True)
class Tuner:
    """How searches are made on a GPU that calls itself `gpu_name`, and the file that their results go to.

    `limit` is None for all schedules; `again` is whether what the database has is searched once more.
    """

    path: Path
    gpu: Gpu
    gpu_name: str
    compiler: Compiler
    samples: int
    limit: int | None
    again: bool = False

    def tune(
        self, problem: Problem, product: Product, following: Sequence[Product], progress: Progress
    ) -> tuple[Entry | None, list[str]]:
        """The product's entry, and what else is to be told; no entry while another process searches.

        The compiler goes on with the `following` products once it has no more to do for this one. Raises
        WeftError where no schedule gives a right result.
        """
        with partial.opened(self.path, product, self.gpu_name) as records:
            if records is None:
                return None, ["another weft tune searches this one"]
            if (there := self._there(product)) is not None:
                return there, []
            asked = (self.path, *database.sources(product.chip))
            known = database.tuned(product, asked)
            search = Search(
                problem,
                product,
                self.gpu,
                self.compiler,
                records,
                self.samples,
                self.limit,
                [written(known)] if known else [],
                progress,
            )
            found = search.run(lambda: self._ahead(following))
            if found.best is None:
                raise WeftError("; ".join(["no schedule gives a right result", *_remarks(found)]))
            database.keep(self.path, self._entry(product, found, found.best), found.times)
            return database.read(self.path)[product], _remarks(found)

    def _there(self, product: Product) -> Entry | None:
        """What the database has, of a search on such a GPU that tried as much."""
        there = None if self.again else database.read(self.path).get(product)
        if there is None or there.search.get("gpu") != self.gpu_name:
            return None
        limit = there.search.get("limit")
        enough = limit == _ALL or (self.limit is not None and isinstance(limit, int) and limit >= self.limit)
        return there if enough else None

    def _ahead(self, following: Sequence[Product]) -> None:
        for product in following:
            if self._there(product) is None:
                try:
                    tries = first_tries(product, self.limit)
                except WeftError:
                    continue  # said when its turn comes
                self.compiler.ahead(product, [written(schedule) for schedule in tries])

    def _entry(self, product: Product, found: Found, best: str) -> Entry:
        own = found.times.get(found.own)
        search = {
            "model": {"schedule": found.own, "microseconds": None if own is None else round(own, 3)},
            "tried": found.tried,
            "limit": _ALL if self.limit is None else self.limit,
            "samples": self.samples,
            "gpu": self.gpu_name,
            "weft": VERSION,
            "date": datetime.now(UTC).date().isoformat(),
        }
        if found.failed:
            search["failed"] = found.failed
        return Entry(product, best, round(found.times[best], 3), search)


def _remarks(found: Found) -> list[str]:
    """Each reason why schedules failed, once."""
    return [f"left out {count}: {reason}" for reason, count in Counter(found.failed.values()).items()]
