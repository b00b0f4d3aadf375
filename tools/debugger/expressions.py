"""Expressions of the debugger's user: evaluated for several threads at once, without running any Python."""

import ast
import operator
import re
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from weft.emulator.reading.syntax import Array
from weft.errors import WeftError

Plain = Array | np.generic | int | float
"""A number, or one for each thread."""
Numbers = Plain | tuple[Plain, ...]
Value: TypeAlias = "Numbers | Tile"
Index = int | slice | tuple[int | slice, ...]
_REGISTER = re.compile(r"%([A-Za-z_$][\w$.]*)")
_PREFIX = "register__"
_BINARY: dict[type, Callable[..., Plain]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARED: dict[type, Callable[..., Plain]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type, Callable[..., Plain]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: np.logical_not,
}
_MOST_SHIFT = 1 << 12


class Names(Protocol):
    """What names mean. Methods raise WeftError for unknown names, with those that there are."""

    def value(self, name: str) -> Value:
        """A number, an array with one for each thread, a tuple of such arrays, or a `Tile`."""

    def has(self, name: str) -> bool:
        """Whether there is such a name, which may have dots and brackets."""

    def call(self, function: str, value: Value) -> Value:
        """A function of a value, such as `f32(%r1)`."""


class Tile:
    """A matrix of one tile, which all threads share: `sums[0:4, 3]` is a part of it."""

    def __init__(self, matrix: Array, title: str = "") -> None:
        self.matrix, self.title = matrix, title

    def __getitem__(self, index: Index) -> Value:
        try:
            part: Value = self.matrix[index]
        except IndexError as error:
            raise WeftError(f"a tile of {' x '.join(map(str, self.matrix.shape))}: {error}") from None
        return Tile(part, self.title) if isinstance(part, np.ndarray) and part.ndim else part


def parsed(text: str) -> ast.expr:
    """The expression. Raises WeftError for what isn't one."""
    try:
        return ast.parse(_REGISTER.sub(rf"{_PREFIX}\1", text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise WeftError(f"expects an expression, such as k > 3 or %r5 + 1, got '{text}'") from None


def shown(node: ast.AST) -> str:
    """The text of a part of an expression."""
    return ast.unparse(node).replace(_PREFIX, "%")


def names_in(node: ast.AST) -> list[str]:
    """The names that an expression begins with: of `stage.a[0]`, it is `stage`."""
    called = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each not in called]
    return [shown(each) for each in found]


def evaluated(node: ast.AST, names: Names) -> Value:
    """The value of an expression. Raises WeftError for what it can't have, and unknown names."""
    with np.errstate(all="ignore"):
        try:
            return _value(node, names)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise WeftError(f"{shown(node)}: {error}") from None


def _value(node: ast.AST, names: Names) -> Value:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool | int | float):
            return node.value
        raise WeftError(f"expects numbers, got {shown(node)}")
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return _named(node, names)
    if isinstance(node, ast.Tuple):
        return tuple(_plain(each, names) for each in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_number(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _number(node.left, names), _number(node.right, names)
        if isinstance(node.op, ast.LShift) and np.any(np.asarray(right) > _MOST_SHIFT):
            raise WeftError(f"{shown(node)}: the shift is too large")
        return _BINARY[type(node.op)](_wide(left), _wide(right))
    if isinstance(node, ast.BoolOp):
        values = [_plain(each, names) for each in node.values]
        combine: Callable[..., Plain] = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        total = values[0]
        for each in values[1:]:
            total = combine(total, each)
        return total
    if isinstance(node, ast.Compare):
        return _compared(node, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return names.call(node.func.id, _value(node.args[0], names))
    raise WeftError(f"an expression can't have {shown(node)}")


def _named(node: ast.Name | ast.Attribute | ast.Subscript, names: Names) -> Value:
    text = shown(node)
    if names.has(text) or isinstance(node, ast.Name):
        return names.value(text)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and names.has(node.value.id):
            whole = _value(node.value, names)
            if isinstance(whole, tuple) and node.attr in "xyz":
                return whole["xyz".index(node.attr)]
        return names.value(text)
    whole = _value(node.value, names)
    if not isinstance(whole, tuple | Tile):
        raise WeftError(f"{shown(node.value)} is a number, and has no elements")
    index = _index(node.slice, names)
    if isinstance(whole, tuple):
        if isinstance(index, tuple):
            raise WeftError(f"{shown(node)}: coordinates have one index")
        return whole[index]
    return whole[index]


def indices(node: ast.AST, names: Names) -> Index:
    """The indices of `array[…]`. Raises WeftError for another expression."""
    if not isinstance(node, ast.Subscript):
        raise WeftError(f"expects an element such as d[3, 5], got {shown(node)}")
    return _index(node.slice, names)


def _index(node: ast.AST, names: Names) -> Index:
    if isinstance(node, ast.Tuple):
        return tuple(_one_index(each, names) for each in node.elts)
    return _one_index(node, names)


def _one_index(node: ast.AST, names: Names) -> int | slice:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else _whole(part, names) for part in parts))
    return _whole(node, names)


def _whole(node: ast.AST, names: Names) -> int:
    value = np.asarray(_value(node, names)).reshape(-1)
    if len(value) != 1 or value.dtype.kind not in "iu":
        raise WeftError(f"an index must be one whole number, got {shown(node)}")
    return int(value[0])


def _number(node: ast.AST, names: Names) -> Numbers:
    value = _value(node, names)
    return value.matrix if isinstance(value, Tile) else value


def _plain(node: ast.AST, names: Names) -> Plain:
    value = _number(node, names)
    if isinstance(value, tuple):
        raise WeftError(f"expects a number, got {shown(node)}")
    return value


def _wide(value: Numbers) -> Numbers:
    """Whole numbers as 64-bit ones, so that sums of small ones don't wrap around."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iub":
        return value.astype(np.int64)
    return value


def _compared(node: ast.Compare, names: Names) -> Plain:
    left, total = _number(node.left, names), None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if type(op) not in _COMPARED:
            raise WeftError(f"an expression can't have {shown(node)}")
        right = _number(right_node, names)
        one = _equal(op, left, right)
        total = one if total is None else np.logical_and(total, one)
        left = right
    assert total is not None
    return total


def _equal(op: ast.cmpop, left: Numbers, right: Numbers) -> Plain:
    if not isinstance(left, tuple) and not isinstance(right, tuple):
        return _COMPARED[type(op)](_wide(left), _wide(right))
    if not isinstance(op, ast.Eq | ast.NotEq):
        raise WeftError("coordinates can be compared by == and != only")
    one, other = (each if isinstance(each, tuple) else (each,) for each in (left, right))
    same: Plain = True
    for at in range(3):
        mine, theirs = (each[at] if at < len(each) else 0 for each in (one, other))
        same = np.logical_and(same, mine == theirs)
    return same if isinstance(op, ast.Eq) else np.logical_not(same)
