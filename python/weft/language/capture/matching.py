"""Writes `match` as branches, which may be those of the GPU, where its patterns are values, names, and
sequences of these. Other patterns stay Python's.
"""

import ast
from typing import TypeVar

_T = TypeVar("_T", bound=ast.AST)


def branches(function: _T, runtime: str) -> _T:
    """A function with branches in place of `match`. `runtime` is the name of what they call."""
    made: _T = _Branches(runtime).visit(function)
    return made


class _Branches(ast.NodeTransformer):
    def __init__(self, runtime: str) -> None:
        self._runtime, self._count = runtime, 0

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Match(self, node: ast.Match) -> object:
        self.generic_visit(node)
        if not all(map(_is_simple, node.cases)):
            return node
        self._count += 1
        name = f"_weft_subject_{self._count}"
        rest = list[ast.stmt]()
        for case in reversed(node.cases):
            rest = self._case(case, ast.Name(name, ast.Load()), rest)
        begun = ast.Assign([ast.Name(name, ast.Store())], node.subject)
        return [ast.copy_location(begun, node), *rest]

    def _case(self, case: ast.match_case, subject: ast.expr, rest: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a case, and of those after it."""
        test = self._test(case.pattern, subject)
        names: list[ast.stmt] = [
            ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), case.pattern)
            for name, value in _bound(case.pattern, subject)
        ]
        if test is None and case.guard is not None:
            return [*names, ast.copy_location(ast.If(case.guard, case.body, rest), case.pattern)]
        if test is None:
            return [*names, *case.body]
        test = test if case.guard is None else _all([test, case.guard])
        return [ast.copy_location(ast.If(test, [*names, *case.body], rest), case.pattern)]

    def _test(self, pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
        """The condition that a value matches a pattern; None if every value does."""
        test: ast.expr | None = None
        if isinstance(pattern, ast.MatchValue):
            test = ast.Compare(subject, [ast.Eq()], [pattern.value])
        elif isinstance(pattern, ast.MatchSingleton):
            test = ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
        elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
            test = self._test(pattern.pattern, subject)
        elif isinstance(pattern, ast.MatchOr):
            tests = [self._test(each, subject) for each in pattern.patterns]
            conditions = [each for each in tests if each is not None]
            test = ast.BoolOp(ast.Or(), conditions) if len(conditions) == len(tests) else None
        elif isinstance(pattern, ast.MatchSequence):
            count = ast.Constant(len(pattern.patterns))
            is_sequence = ast.Attribute(ast.Name(self._runtime, ast.Load()), "is_sequence", ast.Load())
            begun = ast.copy_location(ast.Call(is_sequence, [subject, count], []), pattern)
            tests = [self._test(*each) for each in _parts(pattern, subject)]
            test = _all([begun, *(each for each in tests if each is not None)])
        return test and ast.copy_location(test, pattern)


def _all(tests: list[ast.expr]) -> ast.expr:
    return ast.copy_location(ast.BoolOp(ast.And(), tests), tests[0]) if len(tests) > 1 else tests[0]


def _parts(pattern: ast.MatchSequence, subject: ast.expr) -> list[tuple[ast.pattern, ast.expr]]:
    """The patterns in one of a sequence, each with the element for it."""
    return [
        (each, ast.copy_location(ast.Subscript(subject, ast.Constant(number), ast.Load()), each))
        for number, each in enumerate(pattern.patterns)
    ]


def _bound(pattern: ast.pattern, subject: ast.expr) -> list[tuple[str, ast.expr]]:
    """The names that a pattern assigns, and their values."""
    if isinstance(pattern, ast.MatchAs):
        inner = _bound(pattern.pattern, subject) if pattern.pattern else []
        return [*inner, (pattern.name, subject)] if pattern.name else inner
    if isinstance(pattern, ast.MatchSequence):
        return [each for part in _parts(pattern, subject) for each in _bound(*part)]
    return []


def _is_simple(case: ast.match_case) -> bool:
    """Whether a case can be a branch: names of alternatives, and those that a guard reads, depend on what
    matches.
    """
    inside = [*ast.walk(case.pattern)]
    kinds = (ast.MatchValue, ast.MatchSingleton, ast.MatchAs, ast.MatchOr, ast.MatchSequence)
    patterns = [each for each in inside if isinstance(each, ast.pattern)]
    alternatives = [each for one in patterns if isinstance(one, ast.MatchOr) for each in one.patterns]
    named = any(_bound(each, ast.Constant(None)) for each in alternatives)
    is_name = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
    read = case.guard is not None and not is_name and bool(_bound(case.pattern, ast.Constant(None)))
    return all(isinstance(each, kinds) for each in patterns) and not named and not read
