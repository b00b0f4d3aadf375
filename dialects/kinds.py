"""What is known about operations of one kind: those with the same name, attributes, types and target.

A kernel repeats a few kinds of instructions hundreds of times. What depends only on the kind is
computed once for each context.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.target import Target

Kind = tuple[Any, ...]
Check = Callable[[Any], str | None]


@dataclass(frozen=True)
class Known:
    """What is known in one context; like the context, it belongs to one thread at a time.

    `sound` holds the kinds that the verifier has passed, each with the checks that depend on more than the
    kind; `targets` the target that a `targets` attribute names.
    """

    sound: dict[Kind, tuple[Check, ...]] = field(default_factory=dict)
    targets: dict[int, Target | None] = field(default_factory=dict)


def known(context: Any) -> Known:
    """What is known in a context."""
    facts: Known = context.__dict__.setdefault("weft_known", Known())
    return facts


def kind_on(op: Any, target: Any) -> Kind:
    """The kind of an operation on a target.

    The hash of an attribute or type is its address, which no other value has while the context lives.
    The objects themselves in a table of the context would keep the context alive forever.
    """
    attributes = op.attributes
    return (
        op.name,
        target,
        *attributes,
        *map(hash, attributes.values()),
        len(op.operands),
        *[hash(value.type) for value in op.operands],
        *[hash(value.type) for value in op.results],
    )


def module_with_target(op: Any) -> Any | None:
    """The `gpu.module` around `op`, or `op` itself, that names targets."""
    while op is not None:
        if op.name == "gpu.module" and "targets" in op.attributes:
            return op
        op = op.parent and op.parent.operation
    return None
