"""Facts about operations of one kind: those with the same name, attributes, types and target.

A kernel repeats a few kinds of instructions hundreds of times. What depends only on the kind is
computed once for each context.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weft.mlir import ir
from weft.target import Target

Kind = tuple[object, ...]
_Fact = TypeVar("_Fact")


@dataclass(frozen=True)
class Known:
    """The facts of one context; like the context, it belongs to one thread at a time.

    `sound` holds the kinds that the verifier has passed; `targets` the target that a `targets` attribute
    names; `of_types` what `of_type` has computed.
    """

    sound: set[Kind] = field(default_factory=set)
    targets: dict[int, Target | None] = field(default_factory=dict)
    of_types: dict[tuple[Any, int], Any] = field(default_factory=dict)


def known(context: ir.Context) -> Known:
    """The facts of a context."""
    facts: Known | None = context.__dict__.get("weft_known")
    return context.__dict__.setdefault("weft_known", Known()) if facts is None else facts


def of_type(compute: Callable[[Any], _Fact]) -> Callable[[Any], _Fact]:
    """A function of a type, computed once for each type of a context. It must not return a value of MLIR's,
    which would keep the context alive.
    """

    @functools.wraps(compute)
    def get(kind: ir.Type) -> _Fact:
        facts, key = known(kind.context).of_types, (compute, hash(kind))
        if key not in facts:
            facts[key] = compute(kind)
        fact: _Fact = facts[key]
        return fact

    return get


def kind_on(op: ir.Operation, target: Any) -> Kind:
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


def module_with_target(op: ir.Operation) -> ir.Operation | None:
    """The `gpu.module` around `op`, or `op` itself, that names targets."""
    while op is not None:
        if op.name == "gpu.module" and "targets" in op.attributes:
            return op
        op = op.parent and op.parent.operation
    return None
