"""Small changes of the source that a test should notice: each is one node of a file's syntax tree."""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

_SWAPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change at a line of a file, from 1 on: `before` becomes `after`."""

    path: str
    scope: str
    """The class and function around it, "" for a module's own code."""
    occurrence: int
    """Which one it is of the same changes in its scope, from 1 on."""
    line: int
    before: str
    after: str
    span: tuple[int, int]
    """The bytes of the line that are replaced."""
    source: str = field(repr=False)
    """The whole file, unchanged."""

    @property
    def text(self) -> str:
        """The whole file, changed."""
        lines = self.source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        start, end = self.span
        lines[self.line - 1] = (line[:start] + f"({self.after})".encode() + line[end:]).decode()
        return "".join(lines)

    @property
    def compiles(self) -> bool:
        """Whether the file is still Python: some places take no parentheses."""
        try:
            compile(self.text, self.path, "exec")
        except SyntaxError:
            return False
        return True

    def __str__(self) -> str:
        """A name that stays when other code moves."""
        scope = f" {self.scope}:" if self.scope else ""
        occurrence = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.path}:{scope} {self.before} -> {self.after}{occurrence}"


def of_file(root: Path, path: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its syntax tree."""
    source = (root / path).read_text("utf-8")
    lines = source.splitlines(keepends=True)
    occurrences: Counter[tuple[str, str, str]] = Counter()
    for node, scope in _code(ast.parse(source), ""):
        for change in _changes(node):
            part, new = change()
            if part.end_lineno != part.lineno:  # type: ignore[attr-defined]
                continue
            line, span = part.lineno, (part.col_offset, part.end_col_offset)  # type: ignore[attr-defined]
            before, after = lines[line - 1].encode()[slice(*span)].decode(), ast.unparse(new)
            occurrences[same := (scope, before, after)] += 1
            yield Mutant(path, scope, occurrences[same], line, before, after, span, source)


def chosen(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them. A change of the source changes the choice only where it adds or takes away mutants."""

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant}".encode()).digest()

    return list(islice((each for each in sorted(mutants, key=place) if each.compiles), count))


def _code(tree: ast.AST, scope: str) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that run, each with its scope: no docstrings, no annotations, no text of messages and no
    imports for checkers.
    """
    if isinstance(tree, ast.ClassDef | ast.FunctionDef):
        scope = f"{scope}.{tree.name}".removeprefix(".")
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.AST):
                yield child, scope
                yield from _code(child, scope)


def _changes(node: ast.AST) -> Iterator[Callable[[], tuple[ast.AST, ast.AST]]]:
    """Functions that return the part of the source that is replaced, and by what."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        yield lambda: (node, ast.Compare(node.left, [_SWAPPED[type(node.ops[0])]()], node.comparators))
    elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED and not _is_text(node):
        yield lambda: (node, ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right))
    elif isinstance(node, ast.BoolOp):
        yield lambda: (node, ast.BoolOp(_SWAPPED[type(node.op)](), node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield lambda: (node, node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda: (node, ast.Constant(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield lambda: (node, ast.Constant(node.value + 1))
        if node.value > 1:
            yield lambda: (node, ast.Constant(node.value - 1))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _EXTREMES:
        yield lambda: (node.func, ast.Name(_EXTREMES[node.func.id]))
    elif isinstance(node, ast.If | ast.IfExp):
        yield lambda: (node.test, ast.Constant(True))
        yield lambda: (node.test, ast.Constant(False))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield lambda: (node.value, ast.Constant(None))


def _is_text(node: ast.BinOp) -> bool:
    """Whether strings or lists are joined, so that another operator could only raise."""
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
