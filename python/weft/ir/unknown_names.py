"""Diagnostics of names in MLIR's text that no dialect has: what they may have meant."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from weft.errors import Diagnostic
from weft.isa.suggest import did_you_mean

_OPERATION = re.compile(r"unregistered operation '([\w.]+)'|custom op '([\w.]+)' is unknown")
_CUSTOM_OF_UNKNOWN_DIALECT = re.compile(r"Dialect `\w+' not found for custom op '([\w.]+)'")
_OF_UNKNOWN_DIALECT = re.compile(
    r'(operation being parsed with an|.*?[!#]"(?P<dialect>\w+)".* created with) unregistered dialect'
)
_NOT_OF_DIALECT = re.compile(r"expected dynamic (type|attribute)$")
_QUOTED = re.compile(r'"([\w.]+)"$')
_PREFIX = re.compile(r"[!#](\w+)\.$")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    """The names of operations, and by dialect those of types and of attributes."""

    operations: Collection[str]
    types: Mapping[str, Collection[str]]
    attributes: Mapping[str, Collection[str]]

    def like(self, operation: str) -> str:
        """A suggestion for an operation's name, if possible one of the same dialect."""
        dialect = operation.partition(".")[0]
        same = [each for each in self.operations if each.partition(".")[0] == dialect]
        return did_you_mean(operation, same) or did_you_mean(operation, self.operations)

    @property
    def dialects(self) -> set[str]:
        return {each.partition(".")[0] for each in self.operations} | set(self.types)


def operation(message: str) -> str | None:
    """The operation that a message of MLIR's is about, because no dialect has it."""
    match = _OPERATION.match(message)
    return match and (match[1] or match[2])


def explained(diagnostic: Diagnostic, text: str, known: Known) -> Diagnostic:
    """A parser's diagnostic about `text`, with more words if it is about a name of a Python-defined dialect,
    or of no dialect: MLIR names neither the operation nor the type.
    """
    where, message = diagnostic.location, diagnostic.message.rstrip()
    lines = text.splitlines()
    if where is None or not 0 < where.line <= len(lines):
        return diagnostic
    before, rest = lines[where.line - 1][: where.column - 1], lines[where.line - 1][where.column - 1 :]
    if (custom := _CUSTOM_OF_UNKNOWN_DIALECT.match(message)) is not None:
        return replace(diagnostic, message=f"{message}{known.like(custom[1])}")
    if (unknown := _OF_UNKNOWN_DIALECT.match(message)) is not None:
        if unknown["dialect"]:
            meant = did_you_mean(unknown["dialect"], known.dialects)
            return replace(diagnostic, message=f"{message}{meant}")
        if (quoted := _QUOTED.search(before)) is None:
            return diagnostic
        at = replace(where, column=quoted.start() + 1)
        said = f"{message}: no dialect has an operation '{quoted[1]}'{known.like(quoted[1])}"
        return replace(diagnostic, message=said, location=at)
    if (other := _NOT_OF_DIALECT.match(message)) is None:
        return diagnostic
    dialect, name = _PREFIX.search(before), _NAME.match(rest)
    if dialect is None or name is None:
        return diagnostic
    names = (known.types if other[1] == "type" else known.attributes).get(dialect[1], ())
    has = f"its {other[1]}s are {', '.join(sorted(names))}" if names else f"it has no {other[1]}s"
    said = f"dialect '{dialect[1]}' has no {other[1]} '{name[0]}': {has}{did_you_mean(name[0], names)}"
    return replace(diagnostic, message=f"{message}: {said}")
