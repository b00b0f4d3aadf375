"""Options that control what is printed while passes run: IR, the pipeline, a reproducer, candidates."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from weft.errors import Diagnostic


class Reproducer(Protocol):
    """Keeps what is needed to run a pipeline again, should it fail."""

    def begin(self, text: str) -> None:
        """Called before a pipeline runs, with its module and itself as MLIR's tools read them."""

    def end(self, succeeded: bool) -> Diagnostic | None:
        """Called after it has run; returns a note for the user where it has failed."""


@dataclass(frozen=True)
class Instrumentation:
    """The requests of one user. Sets of passes hold names as pipelines spell them.

    `explain` is called with a remark for each op that `dispatch` lowers, `remark` with one for what a pass
    leaves as it is.
    """

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure: bool = False
    module_scope: bool = False
    debug_info: bool = False
    generic: bool = False
    timing: bool = False
    statistics: str | None = None  # "list" or "pipeline"
    dump: bool = False
    directory: str | None = None  # for printed IR
    reproducer: Reproducer | None = None
    explain: Callable[[Diagnostic], None] | None = None
    remark: Callable[[Diagnostic], None] | None = None
    explained: set[tuple[object, ...]] = field(default_factory=set, compare=False)

    @property
    def prints(self) -> bool:
        """Whether IR, times or statistics of passes are printed."""
        everywhere = self.before_all or self.after_all or self.after_change or self.after_failure
        return everywhere or self.timing or self.statistics is not None or self.selects

    @property
    def selects(self) -> bool:
        """Whether IR is printed around some passes only."""
        return bool(self.before or self.after)

    @property
    def watches(self) -> bool:
        """Whether anything shows that passes run, which results from the cache would hide."""
        return self != replace(_NONE, module_scope=self.module_scope, debug_info=self.debug_info)


_VALUE = re.compile(r"%[\w#:]+")
_NONE = Instrumentation()
_current: ContextVar[Instrumentation] = ContextVar("instrumentation", default=_NONE)


@contextmanager
def instrumented(wanted: Instrumentation) -> Iterator[None]:
    """In the block, passes that this thread runs are instrumented so."""
    token = _current.set(wanted)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Instrumentation:
    """Returns the requests of this thread."""
    return _current.get()


def explain(remark: Callable[[], Diagnostic]) -> None:
    """Hands a remark over where somebody wants it; it is made only then. Of remarks that differ in the names
    of values alone, only the first one is handed over.
    """
    wanted = _current.get()
    if wanted.explain is None:
        return
    said = remark()
    key = said.location, said.message, *(_VALUE.sub("%", note.message) for note in said.notes)
    if key not in wanted.explained:
        wanted.explained.add(key)
        wanted.explain(said)


def remark(said: Diagnostic) -> None:
    """Hands over a remark where somebody listens."""
    if (listener := _current.get().remark) is not None:
        listener(said)


def prepare(manager: Any, names: frozenset[str]) -> None:
    """Has a pass manager print what is wanted around its passes, which have these names."""
    wanted = current()
    if wanted.timing:
        manager.enable_timing()
    if wanted.statistics is not None:
        from weft import mlir  # which is imported already, as the manager is MLIR's

        manager.enable_statistics(mlir.display_mode(wanted.statistics))
    before = wanted.before_all or bool(names & wanted.before)
    after = wanted.after_all or bool(names & wanted.after)
    if before or after or wanted.after_change or wanted.after_failure:
        manager.enable_ir_printing(
            print_before_all=before,
            # Upstream takes the other two as restrictions of printing after all.
            print_after_all=after or wanted.after_change or wanted.after_failure,
            print_after_change=wanted.after_change and not names & wanted.after,
            print_after_failure=wanted.after_failure and not names & wanted.after,
            print_module_scope=wanted.module_scope,
            enable_debug_info=wanted.debug_info,
            print_generic_op_form=wanted.generic,
            tree_printing_dir_path=wanted.directory,
        )


def dump(elements: list[str]) -> None:
    """Prints a pipeline as `mlir-opt --dump-pass-pipeline` does."""
    if current().dump and sys.stderr is not None:
        print(f"Pass Manager with {len(elements)} passes:", file=sys.stderr)
        print(f"builtin.module({','.join(elements)})\n", file=sys.stderr)
