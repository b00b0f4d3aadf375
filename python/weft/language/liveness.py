"""Which names a loop or branch has to carry: those that are read later, before they are assigned again."""

import ast
from collections.abc import Iterable

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""What has names of its own."""
Names = frozenset[str]
_CHANGES = {"append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}


def _changes(function: ast.expr) -> bool:
    """Whether a function that is called is a method of lists and dictionaries that changes their size."""
    return isinstance(function, ast.Attribute) and function.attr in _CHANGES


def assigned(nodes: Iterable[ast.AST], *, parts: bool = False) -> tuple[str, ...]:
    """The names that nodes assign, in their own scope, in order. With `parts`, also the names of lists,
    dictionaries and objects of which they assign an element or attribute, or call a method that adds or
    removes elements.
    """
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names[node.id] = None
        changed = node.func if isinstance(node, ast.Call) and _changes(node.func) else node
        stored = isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
        if parts and (stored or changed is not node):
            base = changed
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                names[base.id] = None
        if isinstance(node, SCOPES):
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for node in nodes:
        visit(node)
    return tuple(names)


def own_names(function: ast.FunctionDef) -> Names:
    """The parameters and local variables of a function, and the names that it declares to be others'."""
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    own |= {*assigned(function.body)}
    rest: list[ast.AST] = [*function.body]
    while rest:
        node = rest.pop()
        if isinstance(node, (ast.Nonlocal, ast.Global)):
            own |= {*node.names}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            own |= {each.asname or each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        if not isinstance(node, SCOPES):
            rest += ast.iter_child_nodes(node)
    return frozenset(own)


def _changed_for_others(function: ast.FunctionDef) -> Names:
    """The parameters, and names of functions around, of which a function assigns parts."""
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    return frozenset({*assigned(function.body, parts=True)} - (own_names(function) - parameters))


class Liveness:
    """For each loop, the names that are live at its head; for each branch, those that are live after it."""

    def __init__(self, function: ast.FunctionDef, *, kernel: bool = False) -> None:
        self.live: dict[ast.stmt, Names] = {}
        self._otherwise: dict[ast.stmt, Names] = {}  # what is live where the second side of a branch begins
        # A function inside may be called anywhere, so what it reads is always live.
        scopes = [each for each in ast.walk(function) if isinstance(each, SCOPES) and each is not function]
        self._always = frozenset[str]().union(*map(_free, scopes))
        self._breaks: list[tuple[Names, Names]] = []  # what is live after the loop, and at its head
        # Callers see what a function changes in place.
        self._after = frozenset[str]() if kernel else _changed_for_others(function)
        self._block(function.body, self._after)

    def carried(self, statement: ast.stmt, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the names that the loop or branch has to carry: also those of lists and objects that it
        changes in place, which may have other names.
        """
        in_place = {*assigned([statement], parts=True)} - {*assigned([statement])}
        return tuple(name for name in names if name in self.live[statement] or name in in_place)

    def read_otherwise(self, branch: ast.stmt, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the names that the second side of a branch reads as they were before."""
        return tuple(name for name in names if name in self._otherwise[branch])

    def _block(self, statements: list[ast.stmt], after: Names) -> Names:
        """The names that are live before statements."""
        for statement in reversed(statements):
            after = self._before(statement, after)
        return after

    def _before(self, node: ast.stmt, after: Names) -> Names:
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, after)
        if isinstance(node, ast.If):
            self._note(node, after)
            otherwise = self._block(node.orelse, after)
            self._otherwise[node] = self._otherwise.get(node, frozenset()) | otherwise
            return self._block(node.body, after) | otherwise | _read([node.test])
        if isinstance(node, ast.Break):
            return self._breaks[-1][0]
        if isinstance(node, ast.Continue):
            return self._breaks[-1][1]
        if isinstance(node, (ast.Return, ast.Raise)):
            return _read([node]) | self._after
        if isinstance(node, ast.With):
            names = frozenset(assigned(each.optional_vars for each in node.items if each.optional_vars))
            return (self._block(node.body, after) - names) | _read(node.items)
        if isinstance(node, ast.Match):
            self._note(node, after)
            sides = [self._block(case.body, after) for case in node.cases]
            return after.union(*sides) | _read([node.subject, *(c.guard for c in node.cases if c.guard)])
        if isinstance(node, (ast.Try, ast.TryStar)):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            after |= _read(handlers) | self._block(node.finalbody, after)
            return after | self._block([*node.body, *node.orelse], after)
        if isinstance(node, ast.AugAssign):
            return after | _read([node]) | frozenset(assigned([node.target]))
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is None:
                return after
            plain = frozenset(assigned(targets))
            return (after - plain) | _read([*targets, node.value])
        if isinstance(node, SCOPES):
            return after | _read([node])
        return after | _read([node])

    def _loop(self, node: ast.For | ast.While, after: Names) -> Names:
        """Iterates until nothing is added: what the next iteration reads is live at the end of the body."""
        test = _read([node.test]) if isinstance(node, ast.While) else frozenset()
        head, before = frozenset[str](), None
        otherwise = self._block(node.orelse, after)
        while head != before:
            before = head
            self._breaks.append((after, head | otherwise | test))
            body = self._block(node.body, head | otherwise | test)
            self._breaks.pop()
            if isinstance(node, ast.For):
                body -= frozenset(assigned([node.target]))
            head = head | body | otherwise | test
        self._note(node, head)
        return head | (_read([node.iter, node.target]) if isinstance(node, ast.For) else frozenset())

    def _note(self, node: ast.stmt, names: Names) -> None:
        self.live[node] = self.live.get(node, frozenset()) | names | self._always


def _free(scope: ast.AST) -> Names:
    """The names that a function inside reads or assigns in the function around it."""
    inside = ast.iter_child_nodes(scope)
    own = {each.arg for each in ast.walk(scope) if isinstance(each, ast.arg)} | set(assigned(inside))
    outer = {name for each in ast.walk(scope) if isinstance(each, ast.Nonlocal) for name in each.names}
    return (_read([scope]) - own) | outer


def _read(nodes: Iterable[ast.AST]) -> Names:
    """The names that nodes read, also in functions inside them."""
    return frozenset(
        each.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )
