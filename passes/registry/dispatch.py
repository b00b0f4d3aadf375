"""Which instruction lowers a tile op: a registry of candidates, each with named predicates and a priority."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects.op import refuse


@dataclass(frozen=True)
class Predicate:
    """A condition on an op. `holds` returns None where it does, else why not, with what it saw."""

    name: str
    holds: Callable[[Any], str | None]


@dataclass(frozen=True)
class Candidate:
    """A way to lower an op: `lower` writes what replaces it and returns the new result."""

    name: str
    priority: int
    predicates: tuple[Predicate, ...]
    lower: Callable[[Any], Any]

    def refusal(self, op: Any) -> str | None:
        """The first predicate that doesn't hold, by name, and why."""
        for predicate in self.predicates:
            reason = predicate.holds(op)
            if reason is not None:
                return f"{predicate.name}: {reason}"
        return None


def dispatch(op: Any, candidates: Sequence[Candidate]) -> Any:
    """Lowers `op` by the first candidate (highest priority first) whose predicates all hold; returns the new
    result.

    Raises WeftError that lists every candidate and what refused it, where none fits.
    """
    refusals = []
    for candidate in sorted(candidates, key=lambda c: -c.priority):
        refusal = candidate.refusal(op)
        if refusal is None:
            return candidate.lower(op)
        refusals.append(f"{candidate.name} ({refusal})")
    raise refuse(op, f"has no candidate that lowers it: {'; '.join(refusals)}")
