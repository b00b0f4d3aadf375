"""Moves what follows a branch that returns into the other side, so that a branch of the GPU may return.

    if i >= n:                          if i >= n:
        return                              pass
    y[i] = x[i]           becomes       else:
                                            y[i] = x[i]

Where both sides need what follows, as after `if a: if b: return`, a name has whether one of them returned.
Functions return the value of a name that the sides assign. Returns in loops and in `with` blocks stay.

In the body of a loop, `continue` is such a return. So is `break`, which also sets a name that ends the loop.

In a kernel, what follows may have roles, which can't be in a branch. There, a branch that returns ends the
kernel's threads instead.
"""

import ast
import copy

from weft.language.capture.carried import RESULT
from weft.language.capture.liveness import End, scope

_RETURNED = "_weft_returned"
"""The name that has whether a branch returned."""


def moved(body: list[ast.stmt], *, kernel: bool = False) -> list[ast.stmt]:
    """The body of a function without returns in branches, or as it is where that isn't possible. That of a
    kernel may have an `End` in branches. Its loops have no `break` and `continue` that can be moved.
    """
    loops = _Loops()
    body = [each for statement in body for each in loops.replaced(statement)]
    if kernel:
        last = max((number for number, each in enumerate(body) if isinstance(each, ast.With)), default=0)
        body = [*_all_ended(body[:last]), *body[last:]]
    if not any(isinstance(each, ast.If) and _returns(each) for each in body):
        return body
    has_value = any(each.value is not None for each in _found(body))
    statements = _tail(copy.deepcopy(body), has_value)
    if statements is None:
        return body
    if has_value:
        end = ast.Return(ast.Name(RESULT, ast.Load()))
        statements.append(ast.copy_location(end, statements[-1]))
    return statements


LEFT = "_weft_left_"
"""How names begin that have whether `break` has left a loop."""


class _Loops(ast.NodeTransformer):
    """Moves what follows `break` and `continue` in loops that have no returns."""

    def __init__(self) -> None:
        self._count = 0

    def replaced(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements in place of one."""
        result = self.visit(statement)
        return result if isinstance(result, list) else [result]

    def visit_For(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        if node.orelse or _found(node.body):
            return [node]
        self._count += 1
        left = f"{LEFT}{self._count}"
        marking = _Marking(left)
        marked = [each for statement in copy.deepcopy(node.body) for each in marking.replaced(statement)]
        statements = _tail(marked, False) if _found(marked) else None
        if statements is None:
            return [node]
        for each in (name for statement in statements for name in ast.walk(statement)):
            if isinstance(each, ast.Name) and each.id == _RETURNED:
                each.id = f"{_RETURNED}_{self._count}"
        node.body = statements or [ast.copy_location(ast.Pass(), node)]
        if not marking.breaks:
            return [node]
        goes_on = ast.copy_location(ast.UnaryOp(ast.Not(), ast.Name(left, ast.Load())), node)
        if isinstance(node, ast.While):
            node.test = ast.copy_location(ast.BoolOp(ast.And(), [goes_on, node.test]), node.test)
        else:
            node.body = [ast.copy_location(ast.If(goes_on, node.body, []), node)]
            setattr(node, LEFT, left)
        begin = ast.Assign([ast.Name(left, ast.Store())], ast.Constant(False))
        return [ast.copy_location(begin, node), node]

    visit_While = visit_For

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
        return [node]

    visit_ClassDef = visit_FunctionDef


class _Marking(_Loops):
    """Replaces `break` and `continue` of a loop by returns."""

    def __init__(self, left: str) -> None:
        self._left, self.breaks = left, False

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        self.breaks = True
        noted = ast.Assign([ast.Name(self._left, ast.Store())], ast.Constant(True))
        return [ast.copy_location(noted, node), *self.visit_Continue(node)]

    def visit_Continue(self, node: ast.Continue | ast.Break) -> list[ast.stmt]:
        return [ast.copy_location(ast.Return(None), node)]

    def visit_For(self, node: ast.For | ast.While) -> list[ast.stmt]:
        return [node]

    visit_While = visit_For


def _all_ended(statements: list[ast.stmt]) -> list[ast.stmt]:
    done: list[ast.stmt] = []
    for statement in statements:
        done += _ended(statement)
        if done and isinstance(done[-1], ast.Return):
            break  # what follows never runs
    return done


def _ended(statement: ast.stmt) -> list[ast.stmt]:
    """A statement of a kernel before a role; one that returns has an `End`, and its other side follows it."""
    if not isinstance(statement, ast.If):
        return [statement]
    sides, test = (_all_ended(statement.body), _all_ended(statement.orelse)), statement.test
    if not _is_return(sides[0]) and _is_return(sides[1]):
        sides, test = (sides[1], sides[0]), ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
    ending, other = sides
    if any(map(_returns, [*ending[:-1], *(other[:-1] if _is_return(other) else other)])):
        return [statement]
    if not _is_return(ending):
        return [ast.copy_location(ast.If(test, ending, other), statement)]
    end = ast.copy_location(End(None), ending[-1])
    return [ast.copy_location(ast.If(test, [*ending[:-1], end], []), statement), *other]


def _is_return(side: list[ast.stmt]) -> bool:
    """Whether a side of a branch ends with a return without a value."""
    last = side[-1] if side else None
    return isinstance(last, ast.Return) and last.value is None


def _tail(statements: list[ast.stmt], has_value: bool) -> list[ast.stmt] | None:
    """Statements after which the function returns, without returns; None where one can't be moved."""
    done: list[ast.stmt] = []
    for number, statement in enumerate(statements):
        if isinstance(statement, ast.Return):
            return [*done, *_assigned(statement, statement.value, has_value)]
        if not _returns(statement):
            done.append(statement)
            continue
        if not isinstance(statement, ast.If):
            return None
        rest = statements[number + 1 :]
        ends = _ends(statement.body), _ends(statement.orelse)
        if not any(ends) and rest:
            noted = _noted(statement, rest, has_value)
            return noted and [*done, *noted]
        sides = (statement.body, statement.orelse)
        tails = [
            _tail(side if ended else [*side, *rest], has_value)
            for side, ended in zip(sides, ends, strict=True)
        ]
        if tails[0] is None or tails[1] is None:
            return None
        statement.body = tails[0] or [ast.copy_location(ast.Pass(), statement)]
        statement.orelse = tails[1]
        return [*done, statement]
    last = statements[-1] if statements else None
    return [*done, *_assigned(last, None, has_value)]


def _noted(statement: ast.If, rest: list[ast.stmt], has_value: bool) -> list[ast.stmt] | None:
    """A branch of which both sides need what follows, and that under the condition that none returned."""
    if not (after := _tail(rest, has_value)):
        return None if after is None else _tail([statement], False)
    branch = _Noting(has_value).visit(statement)
    noted = _tail([branch], False)
    if noted is None:
        return None
    begin = ast.Assign([ast.Name(_RETURNED, ast.Store())], ast.Constant(False))
    test = ast.UnaryOp(ast.Not(), ast.Name(_RETURNED, ast.Load()))
    end = ast.copy_location(ast.If(test, after, []), statement)
    return [ast.copy_location(begin, statement), *noted, end]


class _Noting(ast.NodeTransformer):
    """Notes each return, and its value, in names."""

    def __init__(self, has_value: bool) -> None:
        self._has_value = has_value

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        noted = ast.Assign([ast.Name(_RETURNED, ast.Store())], ast.Constant(True))
        value = _assigned(node, node.value, self._has_value)
        return [*value, ast.copy_location(noted, node), ast.copy_location(ast.Return(None), node)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node


def _assigned(location: ast.stmt | None, value: ast.expr | None, has_value: bool) -> list[ast.stmt]:
    """The statement that has the result in place of a return, at the line of another one if there is one."""
    if not has_value:
        return []
    assignment = ast.Assign([ast.Name(RESULT, ast.Store())], value or ast.Constant(None))
    return [assignment if location is None else ast.copy_location(assignment, location)]


def _ends(statements: list[ast.stmt]) -> bool:
    """Whether statements always return."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, ast.Return)


def _returns(statement: ast.stmt) -> bool:
    return bool(_found([statement]))


def _found(statements: list[ast.stmt]) -> list[ast.Return]:
    """The returns in statements, without those of functions inside."""
    return [each for each in scope(statements) if isinstance(each, ast.Return) and not isinstance(each, End)]
