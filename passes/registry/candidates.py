"""Which candidate lowers a tile op: each has named predicates and a priority."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.dialects.op import refuse
from weft.errors import Diagnostic, shown
from weft.ir import instrumentation
from weft.mlir import ir
from weft.passes.registry import remarks
from weft.registry import extensions

_NAME = re.compile(r"[A-Za-z0-9][\w.:+ -]*", re.ASCII)


@dataclass(frozen=True)
class Predicate:
    """A condition on an op. `holds` returns None where it is met, otherwise why it isn't."""

    name: str
    holds: Callable[[Any], str | None]


def predicates(*conditions: Callable[[Any], str | None]) -> tuple[Predicate, ...]:
    """Predicates with the names of these functions."""
    return tuple(Predicate(each.__name__.strip("_"), each) for each in conditions)


@dataclass(frozen=True)
class Candidate:
    """A way to lower an op: `lower` builds what replaces the op, and returns the new result."""

    name: str
    priority: int
    predicates: tuple[Predicate, ...]
    lower: Callable[[Any], Any]

    def complaint(self) -> str | None:
        """Why this can't be registered."""
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):
            legal = "a letter or digit, then letters, digits, spaces and any of _.:+-"
            return f"candidate name must be {legal}; got {shown(self.name)}"
        subject = f"candidate '{self.name}':"
        if not isinstance(self.priority, int):
            return f"{subject} priority must be an integer; got {shown(self.priority)}"
        if not isinstance(self.predicates, tuple):
            return f"{subject} predicates must be a tuple; got {shown(self.predicates)}"
        for each in self.predicates:
            if not isinstance(each, Predicate):
                return (
                    f"{subject} predicates must be instances of weft.passes.Predicate; one is {shown(each)}"
                )
            if not (isinstance(each.name, str) and each.name.isprintable() and callable(each.holds)):
                return (
                    f"{subject} a predicate must have a line of text and a function; got {shown(each.name)}"
                )
        if not callable(self.lower):
            return f"{subject} lower must be a function; got {shown(self.lower)}"
        return None

    def refusal(self, op: ir.OpView) -> str | None:
        """The name of the first predicate that isn't met, and why. Raises WeftError where a predicate returns
        anything else than None or a text.
        """
        for predicate in self.predicates:
            with self._blamed(op):
                reason = predicate.holds(op)
            if isinstance(reason, str):
                return f"{predicate.name}: {reason}"
            if reason is not None:
                what = f"predicate '{predicate.name}' of {self._subject(op)}"
                raise refuse(op, f"needs None or a reason from {what}; got {shown(reason)}")
        return None

    def result(self, op: ir.OpView) -> ir.Value | None:
        """The value that `lower` builds. Raises WeftError where that can't replace the op's result."""
        with self._blamed(op):
            new = self.lower(op)
        results = op.operation.results
        if len(results) == 1 and not (isinstance(new, ir.Value) and new.type == results[0].type):
            got = new.type if isinstance(new, ir.Value) else shown(new)
            what = f"is lowered by candidate {self.name}, which must return a value of {results[0].type}"
            raise refuse(op, f"{what}; got {got}")
        return new

    def _subject(self, op: ir.OpView) -> str:
        return f"candidate '{key(op.operation.name, self)}'"

    def _blamed(self, op: ir.OpView) -> AbstractContextManager[None]:
        source = registry.source(key(op.operation.name, self))
        return extensions.blamed(self._subject(op), source)


registry: extensions.Registry[Candidate] = extensions.Registry("candidate", {})
"""The candidates of other packages, by operation and name."""


def key(op_name: str, candidate: Candidate) -> str:
    """The registry's name of a candidate for an operation of this name."""
    return f"{candidate.name} of {op_name}"


def candidates(op_name: str, own: Sequence[Candidate]) -> list[Candidate]:
    """Weft's `own` candidates for an operation and those of others, in the order in which they are asked."""
    others = [candidate for name, candidate in registry.all().items() if name == key(op_name, candidate)]
    return sorted((*own, *others), key=lambda candidate: -candidate.priority)


def dispatch(op: ir.OpView, own: Sequence[Candidate]) -> ir.Value | None:
    """Lowers `op` by the first candidate (highest priority first) whose predicates are all met, of Weft's
    `own` and the registered ones; returns the new result.

    Raises WeftError that lists every candidate and what refused it, where none fits: candidates with the same
    reason together.
    """
    ordered = candidates(op.operation.name, own)
    refused: dict[str, list[str]] = {}
    for candidate in ordered:
        refusal = candidate.refusal(op)
        if refusal is None:
            instrumentation.explain(partial(_explanation, op, candidate, ordered))
            return candidate.result(op)
        refused.setdefault(refusal, []).append(candidate.name)
    listed = "; ".join(f"{', '.join(names)} ({refusal})" for refusal, names in refused.items())
    raise refuse(op, f"has no candidate that lowers it: {listed or 'none is registered'}")


def _explanation(op: ir.OpView, taken: Candidate, ordered: Sequence[Candidate]) -> Diagnostic:
    """Which candidate lowers an op, and why the others don't."""
    notes = []
    for candidate in ordered:
        if candidate is taken:
            continue
        refusal = candidate.refusal(op)
        reason = "would lower it too, with a lower priority" if refusal is None else f"refuses it: {refusal}"
        notes.append(f"{_named(candidate)} {reason}")
    return remarks.remark(op, f"is lowered by {_named(taken)}", notes)


def _named(candidate: Candidate) -> str:
    return f"candidate {candidate.name} (priority {candidate.priority})"
