"""Lines of source files, and the functions of Python files."""

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_KEPT = 64


@dataclass(frozen=True)
class Function:
    """A function of a Python file: its first and last line, and the names that it calls."""

    name: str
    first: int
    last: int
    calls: frozenset[str]


def line_of(file: str, line: int) -> str:
    """A line of a source file, without its end; empty if it can't be read."""
    return linecache.getline(file, line).rstrip("\n")


def lines_of(file: str) -> list[str]:
    """The lines of a source file; none if it can't be read."""
    return [line.rstrip("\n") for line in linecache.getlines(file)]


@lru_cache(_KEPT)
def functions(file: str) -> tuple[Function, ...]:
    """The functions of a Python file; none of another file."""
    if Path(file).suffix != ".py":
        return ()
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    listed = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            called = frozenset(name for each in ast.walk(node) for name in _called_here(each))
            listed.append(Function(node.name, first, node.end_lineno or node.lineno, called))
    return tuple(listed)


def _called_here(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr


def function_at(file: str, line: int) -> Function | None:
    """The innermost function that has a line of a Python file."""
    around = [each for each in functions(file) if each.first <= line <= each.last]
    return max(around, key=lambda each: each.first, default=None)


def calls_of(file: str, name: str) -> list[tuple[int, Function]]:
    """The lines that call functions of a name, and the functions that these lines are in."""
    tree = ast.parse("".join(linecache.getlines(file)))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and name in _called_here(node))
    lines = sorted({call.lineno for call in calls})
    found = ((line, function_at(file, line)) for line in lines)
    return [(line, function) for line, function in found if function is not None]


def called_by(file: str, function: Function) -> set[str]:
    """The names of functions that a function calls, and that these call in the same file."""
    known = {each.name: each for each in functions(file)}
    found, waiting = set[str](), [function]
    while waiting:
        for name in waiting.pop().calls - found:
            found.add(name)
            if name in known:
                waiting.append(known[name])
    return found


def shown_path(file: str) -> str:
    """A path as short as it can be: relative to the working directory, if it is inside."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
