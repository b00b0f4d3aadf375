"""Which candidate lowers a tile op: each has named predicates and a priority."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft import extensions, mlir
from weft.dialects.op import refuse
from weft.errors import Diagnostic
from weft.passes.registry import instrumentation


@dataclass(frozen=True)
class Predicate:
    """A condition on an op. `holds` returns None where it is met, otherwise why it isn't."""

    name: str
    holds: Callable[[Any], str | None]


@dataclass(frozen=True)
class Candidate:
    """A way to lower an op: `lower` builds what replaces the op, and returns the new result."""

    name: str
    priority: int
    predicates: tuple[Predicate, ...]
    lower: Callable[[Any], Any]

    def refusal(self, op: Any) -> str | None:
        """The name of the first predicate that isn't met, and why."""
        for predicate in self.predicates:
            reason = predicate.holds(op)
            if reason is not None:
                return f"{predicate.name}: {reason}"
        return None


registry: extensions.Registry[Candidate] = extensions.Registry("candidate", {})
"""The candidates of other packages, by operation and name."""


def key(op_name: str, candidate: Candidate) -> str:
    """What the registry calls a candidate for an operation of this name."""
    return f"{candidate.name} of {op_name}"


def candidates(op_name: str, own: Sequence[Candidate]) -> list[Candidate]:
    """Weft's `own` candidates for an operation and those of others, in the order in which they are asked."""
    others = [candidate for name, candidate in registry.all().items() if name == key(op_name, candidate)]
    return sorted((*own, *others), key=lambda candidate: -candidate.priority)


def dispatch(op: Any, own: Sequence[Candidate]) -> Any:
    """Lowers `op` by the first candidate (highest priority first) whose predicates are all met, of Weft's
    `own` and the registered ones; returns the new result.

    Raises WeftError that lists every candidate and what refused it, where none fits.
    """
    ordered = candidates(op.operation.name, own)
    refusals = []
    for candidate in ordered:
        refusal = candidate.refusal(op)
        if refusal is None:
            instrumentation.explain(partial(_explanation, op, candidate, ordered))
            return candidate.lower(op)
        refusals.append(f"{candidate.name} ({refusal})")
    raise refuse(op, f"has no candidate that lowers it: {'; '.join(refusals) or 'none is registered'}")


def _explanation(op: Any, taken: Candidate, ordered: Sequence[Candidate]) -> Diagnostic:
    """Which candidate lowers an op, and why the others don't."""
    notes = []
    for candidate in ordered:
        if candidate is taken:
            continue
        refusal = candidate.refusal(op)
        reason = "would lower it too, with a lower priority" if refusal is None else f"refuses it: {refusal}"
        notes.append(Diagnostic(f"{_named(candidate)} {reason}", severity="note"))
    message = f"'{op.operation.name}' op is lowered by {_named(taken)}"
    return Diagnostic(message, mlir.location(op.location), "remark", tuple(notes))


def _named(candidate: Candidate) -> str:
    return f"candidate {candidate.name} (priority {candidate.priority})"
