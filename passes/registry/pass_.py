"""A pass: a flag, options, and a function that rewrites an operation; and how most passes rewrite."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.dialects.op import check_constants, refuse
from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.mlir import ir, operations
from weft.registry import extensions
from weft.system import phase

_FLAG = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Pass:
    """`--flag="option=value …"`: `run(op, **options)` rewrites everything below `op` in place.

    `options` maps each option's name to its default. `run` raises WeftError for what it can't lower. `lowers`
    holds the dialects and op classes of which nothing may be left afterwards. `after` is the pass that a
    registered one follows in Weft's pipelines. In a module with host code, a pass that is `of_kernels` runs
    on each `gpu.module` alone; None: where one of Weft's pipelines runs it.
    """

    flag: str
    summary: str
    run: Callable[..., None]
    options: Mapping[str, str] = field(default_factory=dict)
    lowers: Sequence[Any] = ()
    after: str | None = None
    of_kernels: bool | None = None

    def complaint(self) -> str | None:
        """Why this can't be registered."""
        if not (isinstance(self.flag, str) and _FLAG.fullmatch(self.flag)):
            return f"pass flag must be lower-case words with '-' between them; got {shown(self.flag)}"
        subject = f"pass '{self.flag}':"
        if not isinstance(self.summary, str) or len(self.summary.splitlines()) > 1:
            return f"{subject} summary must be a line of text; got {shown(self.summary)}"
        if not callable(self.run):
            return f"{subject} run must be a function; got {shown(self.run)}"
        if not isinstance(self.options, Mapping):
            return f"{subject} options must be a mapping of names to defaults; got {shown(self.options)}"
        for name, default in self.options.items():
            if not (isinstance(name, str) and _FLAG.fullmatch(name.replace("_", "-"))):
                return (
                    f"{subject} names of options must be lower-case words with '-' between; got {shown(name)}"
                )
            if not isinstance(default, str):
                return f"{subject} the default of option '{name}' must be a text; got {shown(default)}"
        legal = "a sequence of dialects and classes of operations"
        if not isinstance(self.lowers, Sequence):
            return f"{subject} lowers must be {legal}; got {shown(self.lowers)}"
        for each in self.lowers:
            if not (isinstance(each, type) and (_is_op(each) or hasattr(each, "operations"))):
                return f"{subject} lowers must be {legal}; one is {shown(each)}"
        return None

    def configured(self, values: Mapping[str, str]) -> Callable[[ir.Operation, object], None]:
        """The pass with its options, as MLIR's manager takes it. Raises WeftError for an unknown option."""
        if unknown := sorted(set(values) - set(self.options)):
            known = ", ".join(self.options) or "none"
            meant = did_you_mean(unknown[0], self.options)
            raise WeftError(
                f"pass '{self.flag}' has no option '{unknown[0]}': its options are {known}{meant}"
            )
        options = {
            name.replace("-", "_"): values.get(name, default) for name, default in self.options.items()
        }

        def run(op: ir.Operation, _: object) -> None:
            phase.enter(f"running pass '{self.flag}'")
            source = extensions.source("pass", self.flag)
            with op.location:
                check_constants(operations(op, *self._kinds) if self.lowers else ())
                with extensions.blamed(f"pass '{self.flag}'", source):
                    self.run(op, **options)
                if self.lowers and (left := operations(op, *self._kinds)):
                    raise refuse(left[0], f"survives --{self.flag}")

        return run

    @property
    def _kinds(self) -> list[type[ir.OpView]]:
        """The classes of the operations that it lowers."""
        return [kind for each in self.lowers for kind in ([each] if _is_op(each) else each.operations)]


def _is_op(kind: object) -> bool:
    return hasattr(kind, "OPERATION_NAME")


Results = Sequence[ir.Value] | ir.Value | None
Lowering = Callable[[Any], Results]
"""Builds what replaces an operation, at the insertion point. Returns values for its results: in a sequence,
or alone if it has one; None if it has none.
"""


def rewrite(module: ir.Operation, lowerings: Mapping[Any, Lowering]) -> None:
    """Replaces every operation of these classes, each by what its lowering builds."""
    for op in operations(module, *lowerings):
        replace(op, lowerings[type(op)])


def replace(op: ir.OpView | ir.Operation, lowering: Lowering) -> None:
    """Replaces an operation by what the lowering builds before it, at its source location."""
    with ir.InsertionPoint(op), op.location:
        made = lowering(op)
    results = [made] if isinstance(made, ir.Value) else made or ()
    for old, new in zip(op.operation.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
