"""Which names a loop or branch has to carry: those that are read later, before they are assigned again."""

import ast
import builtins
from collections.abc import Iterable, Iterator

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""The nodes that have names of their own."""
Names = frozenset[str]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHANGES = {"append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popitem", "popleft"}
_CHANGES |= {"remove", "reverse", "rotate", "setdefault", "sort", "update", "add", "discard"}
_CHANGES |= {"__setitem__", "__delitem__", "__setattr__"}


class End(ast.Return):
    """A return at the end of a branch of a kernel, before its roles. What follows is traced in any case."""


def changes(node: ast.AST) -> bool:
    """Whether a node is the attribute of a method of lists, dictionaries or sets that changes them."""
    return isinstance(node, ast.Attribute) and node.attr in _CHANGES


def assigned(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """The names that nodes assign, in their own scope, in order."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.Name, ast.Constant)):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names[node.id] = None
            return
        if not isinstance(node, ast.expr):
            names.update(dict.fromkeys(_named(node)))
        if isinstance(node, SCOPES):
            return
        targets = [each.target for each in node.generators] if isinstance(node, _COMPREHENSIONS) else []
        own = [name for name in assigned(targets) if name not in names] if targets else []
        for child in ast.iter_child_nodes(node):
            visit(child)
        for name in own:  # of the comprehension alone
            names.pop(name, None)

    for node in nodes:
        visit(node)
    return tuple(names)


def _named(node: ast.AST) -> Iterable[str]:
    """The names that a node assigns by a text."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    if isinstance(node, ast.ExceptHandler):
        return [node.name] if node.name else []
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [each.asname or each.name.partition(".")[0] for each in node.names]
    return []


def changed(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """The names of lists, dictionaries and objects of which nodes may change parts in place, in their own
    scope, in order: those of which they assign an element or attribute, or call a method that changes them,
    and those from which names of these get their values.
    """
    names: dict[str, None] = {}
    sources = list[tuple[Names, Names]]()  # the names that a statement assigns, and those that it reads

    for node in scope(nodes):
        stored = isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(
            node.ctx, (ast.Store, ast.Del)
        )
        if stored or changes(node):
            base = node
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            names.update(dict.fromkeys(_read([base])))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = None
        if pair := _flow(node):
            sources.append(pair)
    before = -1
    while before != len(names):
        before = len(names)
        for targets, read in sources:
            if targets & names.keys():
                names.update(dict.fromkeys(sorted(read)))
    return tuple(names)


def passed(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """The names of functions that nodes call, of the objects of methods, and those in arguments, in order."""
    calls = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))
    names: dict[str, None] = {}
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in vars(builtins):
            continue
        values = [call.func, *call.args, *(each.value for each in call.keywords)]
        names.update(
            (each.id, None) for value in values for each in ast.walk(value) if isinstance(each, ast.Name)
        )
    return tuple(names)


def _flow(node: ast.AST) -> tuple[Names, Names] | None:
    """The names that a node assigns, and those that it reads, of which it may assign objects."""
    if isinstance(node, ast.Assign):
        return frozenset(assigned(node.targets)), _read([node.value])
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return frozenset(assigned([node.target])), _read([node.value])
    if isinstance(node, (ast.For, ast.comprehension)):
        return frozenset(assigned([node.target])), _read([node.iter])
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return frozenset(assigned([node.optional_vars])), _read([node.context_expr])
    if isinstance(node, ast.Match):
        return frozenset(assigned(node.cases)), _read([node.subject])
    return None


def scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes in some nodes, without those in functions and classes inside, which have their own names."""
    for node in nodes:
        yield node
        if not isinstance(node, SCOPES):
            yield from scope(ast.iter_child_nodes(node))


def _declared(function: ast.FunctionDef, *kinds: type[ast.Global | ast.Nonlocal]) -> Names:
    """The names that statements in a function declare to be those of others."""
    names = set[str]()
    nodes = list[ast.AST](function.body)
    for node in nodes:  # which grows by the statements inside
        if isinstance(node, kinds):
            names.update(node.names)
        if not isinstance(node, SCOPES):
            nodes += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
    return frozenset(names)


def own_names(function: ast.FunctionDef) -> Names:
    """The parameters and local variables of a function, and those of functions around that it assigns."""
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    own |= {*assigned(function.body)} | _declared(function, ast.Nonlocal)
    return frozenset(own - _declared(function, ast.Global))


class Liveness:
    """For each loop, the names that are live at its head; for each branch, those that are live after it."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.live: dict[ast.stmt, Names] = {}
        self.otherwise: dict[ast.stmt, Names] = {}  # what is live where the second side of a branch begins
        # A function inside may be called anywhere, so what it reads is always live.
        scopes = [each for each in ast.walk(function) if isinstance(each, SCOPES) and each is not function]
        self._always = frozenset[str]().union(*map(_free, scopes))
        self._breaks: list[tuple[Names, Names]] = []  # what is live after the loop, and at its head
        self._after = _declared(function, ast.Nonlocal, ast.Global)  # what others read
        self._block(function.body, self._after)

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
            self.otherwise[node] = self.otherwise.get(node, frozenset()) | otherwise
            return self._block(node.body, after) | otherwise | _read([node.test])
        if isinstance(node, ast.Break):
            return self._breaks[-1][0]
        if isinstance(node, ast.Continue):
            return self._breaks[-1][1]
        if isinstance(node, End):
            return after
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
