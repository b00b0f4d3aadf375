"""Rewrites a kernel's Python so that its loops and branches can depend on values of the GPU.

Only `for`, `while`, `if`, conditional expressions, `and`, `or`, `not` and chains of comparisons change: they
become calls of `weft.language.capture.runtime`, which decide by the type of the value. Everything else is
ordinary Python, and so is a loop or branch over Python's own values. Statements stay where they are, with
their lines and columns, so that a debugger and the source locations of operations show the original code.
"""

import ast
import copy
import inspect
import tokenize
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from weft.errors import Diagnostic, Location, WeftError
from weft.language.capture import matching, returns, runtime
from weft.language.capture.liveness import End, Liveness, assigned, changed, changes, own_names, passed
from weft.system import syntax

_RUNTIME = "__weft__"
_FUNCTION = "__weft_function__"
_YIELD = (
    "neither a kernel nor a function with @w.inline can contain 'yield': use a list, a generator of Python "
    "without loops of the GPU, or loop over w.range where the values are used"
)
_CHANGED = "the source of {} has changed since Python read it: import it again, or start Python again"
_MAY_NOT_RUN = "a kernel can't assign with ':=' in a part that may not run: assign before the statement"
_TRUTH = "weft_truth"
"""The attribute of an expression of which only the truth matters."""
_F = TypeVar("_F", bound=Callable[..., object])


def captured(function: _F, *, kernel: bool = False) -> _F:
    """The function, or kernel, with its control flow rewritten. Raises WeftError for one whose source isn't
    known, or that can't be traced.
    """
    code = function.__code__
    if is_captured(function):
        return function
    definition = _definition(function)
    rewritten = _Rewriter(code.co_filename, code.co_freevars).function(definition, kernel)
    names = [name for name in code.co_freevars if name != _RUNTIME]
    inner = _compiled(rewritten, [_RUNTIME, *names], code)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[_RUNTIME] = types.CellType(runtime)
    closure = tuple(cells[name] for name in inner.co_freevars)
    result = types.FunctionType(inner, function.__globals__, code.co_name, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__annotations__ = function.__annotations__
    result.__doc__, result.__module__ = function.__doc__, function.__module__
    result.__qualname__ = function.__qualname__
    return result  # type: ignore[return-value]


def is_captured(function: Callable[..., object]) -> bool:
    """Whether the control flow of a function is rewritten."""
    return is_captured_code(function.__code__)


def is_captured_code(code: types.CodeType) -> bool:
    """Whether the control flow of a function's code is rewritten."""
    return _RUNTIME in code.co_freevars


def _definition(function: Callable[..., object]) -> ast.FunctionDef:
    """The function's definition, with the lines and columns of its file."""
    code = function.__code__
    if code.co_name == "<lambda>":
        raise _refused(code, "a lambda can't be a kernel or have @w.inline: write a function with 'def'")
    try:
        lines, first = inspect.getsourcelines(code)
    except tokenize.TokenError:
        raise _refused(code, _CHANGED.format(code.co_name)) from None
    except (OSError, TypeError):
        raise _refused(
            code,
            f"the source of {code.co_name} isn't known, so its loops and branches can't be captured: write "
            "it in a file or a notebook",
        ) from None
    nested = lines[0][:1].isspace()
    text = ("if True:\n" if nested else "") + "".join(lines)
    try:
        tree = syntax.parse(text, code.co_filename)
    except SyntaxError:
        raise _refused(code, _CHANGED.format(code.co_name)) from None
    ast.increment_lineno(tree, first - 1 - int(nested))
    outer = tree.body[0]
    definition = outer.body[0] if nested and isinstance(outer, ast.If) else outer
    if isinstance(definition, ast.AsyncFunctionDef):
        raise _refused(code, "a kernel must be defined by 'def', got 'async def'")
    if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
        raise _refused(code, _CHANGED.format(code.co_name))
    return definition


def _refused(code: types.CodeType, message: str) -> WeftError:
    """The error for a function whose definition can't be captured."""
    return WeftError(Diagnostic(message, Location(code.co_filename, code.co_firstlineno, 1)))


def _compiled(definition: ast.FunctionDef, free: list[str], code: types.CodeType) -> types.CodeType:
    """The code of a definition whose free variables are among these names."""
    # Under another name: its own may be that of a global variable that it reads.
    definition.name = _FUNCTION
    parameters = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    factory = ast.FunctionDef("factory", parameters, [definition], [])
    if "type_params" in ast.FunctionDef._fields:
        factory.type_params = []  # type: ignore[attr-defined,unused-ignore]
    module = ast.Module([ast.copy_location(factory, definition)], [])
    module_code = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    outer = next(each for each in module_code.co_consts if isinstance(each, types.CodeType))
    inner = next(
        each for each in outer.co_consts if isinstance(each, types.CodeType) and each.co_name == _FUNCTION
    )
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname)


_T = TypeVar("_T", bound=ast.AST)


def _at(node: ast.stmt | ast.expr, part: _T) -> _T:
    """Gives a part of the result the source location of a node's first line. If it had several lines, Python
    would report the last one for a call of a method.
    """
    ast.copy_location(part, node)
    if node.end_lineno != node.lineno:
        part.end_lineno, part.end_col_offset = node.lineno, node.col_offset + 1  # type: ignore[attr-defined]
    return part


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _call(of: ast.expr, method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(of, method, ast.Load()), list(arguments), [])


def _runtime(function: str, *arguments: ast.expr) -> ast.expr:
    return _call(_load(_RUNTIME), function, *arguments)


def _locals() -> ast.expr:
    return ast.Call(_load("locals"), [], [])


def _names(names: tuple[str, ...]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _thunk(value: ast.expr) -> ast.expr:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


def _mark_conditions(function: ast.AST) -> None:
    """Marks the expressions in a function of which only the truth matters."""

    def mark(node: ast.expr) -> None:
        setattr(node, _TRUTH, True)
        for each in node.values if isinstance(node, ast.BoolOp) else ():
            mark(each)

    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            mark(node.test)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            mark(node.operand)
        elif isinstance(node, ast.comprehension):
            for each in node.ifs:
                mark(each)
        elif isinstance(node, ast.match_case) and node.guard is not None:
            mark(node.guard)


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function, and those inside it."""

    def __init__(self, file: str, free: Sequence[str]) -> None:
        self.file = file
        self.outer = frozenset(free)  # the names of the functions around the current one
        self.count = 0
        self.liveness: Liveness
        self.own: frozenset[str]
        self.open: list[
            tuple[str, bool]
        ] = []  # names of enclosing loops and branches; whether each is a loop

    def function(self, definition: ast.FunctionDef, kernel: bool) -> ast.FunctionDef:
        """The definition, rewritten, without decorators, defaults and annotations."""
        definition.decorator_list, definition.returns = [], None
        for each in ast.walk(definition.args):
            if isinstance(each, ast.arg):
                each.annotation = None
        # Only their number matters: the function gets the original values.
        definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
        definition.args.kw_defaults = [each and ast.Constant(None) for each in definition.args.kw_defaults]
        definition = matching.branches(definition, _RUNTIME)
        _mark_conditions(definition)
        definition.body = returns.moved(definition.body, kernel=kernel)
        self.liveness, self.own = Liveness(definition), own_names(definition)
        definition.body = self._block(definition.body)
        return definition

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            done += result if isinstance(result, list) else [result]
        return done

    def _fresh(self, kind: str) -> str:
        self.count += 1
        return f"_weft_{kind}_{self.count}"

    def _refuse(self, node: ast.stmt | ast.expr, message: str) -> WeftError:
        return WeftError(Diagnostic(message, Location(self.file, node.lineno, node.col_offset + 1)))

    # Scopes inside the function

    def visit_FunctionDef(self, node: ast.FunctionDef) -> object:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.body = returns.moved(node.body)
        before = self.open, self.liveness, self.outer
        self.open, self.liveness, self.outer = [], Liveness(node), self.outer | self.own
        own, self.own = self.own, own_names(node)
        node.body = self._block(node.body)
        self.open, self.liveness, self.outer = before
        self.own = own
        return node

    def visit_Lambda(self, node: ast.Lambda) -> object:
        outer, self.open = self.open, []
        self.generic_visit(node)
        self.open = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> object:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> object:
        raise self._refuse(node, "a kernel can't contain 'async def'")

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> object:
        raise self._refuse(node, _YIELD)

    visit_YieldFrom = visit_Yield

    # Statements

    def visit_For(self, node: ast.For) -> object:
        name, targets = self._fresh("loop"), assigned([node.target])
        names = self._carried(node, tuple(each for each in assigned(node.body) if each not in targets))
        left: str | None = getattr(node, returns.LEFT, None)
        flags = ast.Constant(bool(node.orelse)), ast.Constant(left)
        values = *self._loop_names(names, node.body), _names(targets), *flags
        begun = self._assign(node, name, _runtime("loop", self.visit(node.iter), *values))
        body = self._inside(name, True, node.body)
        node.iter = _at(node.iter, _load(name))
        node.body = [*self._rebind(node, name, names, "begin", _locals()), *body]
        node.body += self._traced(node, name, ast.Expr(_call(_load(name), "end", _locals())))
        if left is not None:
            test = _call(_load(name), "has_left", _load(left))
            node.body.append(_at(node, ast.If(test, [ast.Break()], [])))
        node.orelse = self._block(node.orelse)
        return [begun, node, *self._rebind(node, name, (*names, *targets), "after")]

    def visit_While(self, node: ast.While) -> object:
        name = self._fresh("while")
        names = self._carried(node, assigned([*node.body, node.test]))
        values = *self._loop_names(names, [*node.body, node.test]), ast.Constant(bool(node.orelse))
        again = self.visit(copy.deepcopy(node.test))
        begun = self._assign(node, name, _runtime("While", *values))
        body = self._inside(name, True, node.body)
        entry = [
            *self._rebind(node, name, names, "begin", _locals()),
            *self._traced(node, name, ast.Expr(_call(_load(name), "condition", again, _locals()))),
            *self._rebind(node, name, names, "body"),
        ]
        attempt = _call(_load(name), "attempt", _locals())
        test = _at(node.test, _call(_load(name), "test", self.visit(node.test)))
        node.test = _at(node.test, ast.BoolOp(ast.And(), [_at(node.test, attempt), test]))
        end = ast.Expr(_call(_load(name), "end", _locals()))
        node.body = [*entry, *body, *self._traced(node, name, end, ast.Break())]
        node.orelse = self._block(node.orelse)
        return [begun, node, *self._rebind(node, name, names, "after")]

    def visit_If(self, node: ast.If) -> object:
        if isinstance(node.body[-1], End):
            return self._ending(node)
        name = self._fresh("branch")
        every = assigned([*node.body, *node.orelse])
        names = self._carried(node, every)
        again = tuple(each for each in self._again(node) if each not in names)
        values = _names(names), _names(again), _names(every)
        begun = self._assign(node, name, _runtime("Branch", self.visit(node.test), *values))
        then = self._inside(name, False, node.body)
        otherwise = self._inside(name, False, node.orelse)
        # A branch of its own for each side: both are traced where the condition is known on the GPU only.
        first = ast.If(
            ast.Attribute(_load(name), "then", ast.Load()),
            [*then, *self._rebind(node, name, (*names, *again), "end_then", _locals())],
            [],
        )
        second = ast.If(
            ast.Attribute(_load(name), "otherwise", ast.Load()),
            [*otherwise, *self._traced(node, name, ast.Expr(_call(_load(name), "end_else", _locals())))],
            [],
        )
        placed = [_at(node, each) for each in (first, second)]
        begin = self._traced(node, name, ast.Expr(_call(_load(name), "begin", _locals())))
        return [begun, *begin, *placed, *self._rebind(node, name, names, "after")]

    def _ending(self, node: ast.If) -> object:
        """A branch at the end of which the kernel ends."""
        name = self._fresh("branch")
        again = self._again(node)
        test = self.visit(node.test)
        around = [_load(each) for each, _ in self.open]
        begun = self._assign(node, name, _runtime("Ending", test, _names(again), *around))
        *body, end = node.body
        rest = self._rebind(node, name, again, "end_then", _locals())
        leaving = _at(end, ast.If(_call(_load(name), "ends"), [ast.Return(None)], []))
        rest[0].orelse = [leaving]  # type: ignore[attr-defined]
        begin = self._traced(node, name, ast.Expr(_call(_load(name), "begin", _locals())))
        taken = ast.Attribute(_load(name), "then", ast.Load())
        return [begun, *begin, _at(node, ast.If(taken, [*self._inside(name, False, body), *rest], []))]

    def _loop_names(self, names: tuple[str, ...], body: Sequence[ast.AST]) -> list[ast.expr]:
        """The arguments of a loop: the names that it carries, of objects that its body changes in place, and
        those that functions may change.
        """
        return [_names(names), _names(changed(body)), _names(self._variables(passed(body)))]

    def _carried(self, node: ast.stmt, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the names that a loop or branch has to carry."""
        return self._variables(each for each in names if each in self.liveness.live[node])

    def _again(self, node: ast.If) -> tuple[str, ...]:
        """The names that the first side of a branch assigns, and the second one reads as they were before."""
        return self._variables(each for each in assigned(node.body) if each in self.liveness.otherwise[node])

    def _variables(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that are of the function, or of functions around it, not of the module."""
        return tuple(each for each in names if each in self.own or each in self.outer)

    def _inside(self, name: str, loop: bool, statements: list[ast.stmt]) -> list[ast.stmt]:
        self.open.append((name, loop))
        try:
            return self._block(statements)
        finally:
            self.open.pop()

    def visit_With(self, node: ast.With) -> object:
        name, names = self._fresh("block"), self._variables(assigned(node.body))
        begun = self._assign(node, name, _runtime("ThreadBlock", _names(names), _locals()))
        enter = _at(node, ast.Expr(_call(_load(name), "enter")))
        node.items = [self.visit(each) for each in node.items]
        node.body = [enter, *self._block(node.body)]
        return [begun, node, *self._rebind(node, name, names, "after", _locals())]

    def visit_Break(self, node: ast.Break) -> object:
        return self._leaving(node, "break")

    def visit_Continue(self, node: ast.Continue) -> object:
        return self._leaving(node, "continue")

    def visit_Return(self, node: ast.Return) -> object:
        self.generic_visit(node)
        return self._leaving(node, "return")

    def _leaving(self, node: ast.stmt, word: str) -> object:
        """A statement that leaves loops or branches: those known on the GPU only can't be left so."""
        left = list[str]()
        for name, loop in reversed(self.open):
            left.append(name)
            if loop and word != "return":
                break
        loops = [_load(name) for name, loop in self.open if loop and name in left]
        calls = (_call(_load(name), "leave", ast.Constant(word), *loops) for name in left)
        return [*(_at(node, ast.Expr(each)) for each in calls), node]

    def visit_Raise(self, node: ast.Raise) -> object:
        self.generic_visit(node)
        return self._failing(node)

    def _failing(self, node: ast.Raise | ast.Assert) -> object:
        """A statement that fails while it is traced: of the GPU's loops and branches it can't be a part."""
        around = [_load(name) for name, _ in reversed(self.open)]
        return [_at(node, ast.Expr(_runtime("failing", *around))), node]

    def visit_Assert(self, node: ast.Assert) -> object:
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return self._failing(node)
        self.generic_visit(node)
        node.test = _at(node.test, _runtime("asserted", node.test))
        return node

    # Expressions

    def visit_Attribute(self, node: ast.Attribute) -> object:
        self.generic_visit(node)
        if changes(node) or not isinstance(node.ctx, ast.Load):
            function = "calling" if isinstance(node.ctx, ast.Load) else "changing"
            node.value = ast.copy_location(_runtime(function, node.value), node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> object:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = ast.copy_location(_runtime("changing", node.value), node.value)
        return node

    def visit_Call(self, node: ast.Call) -> object:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "next" and node.args:
            node.args[0] = ast.copy_location(_runtime("taking", node.args[0]), node.args[0])
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> object:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        # A list or set changes in place.
        changing = ast.Expr(_runtime("calling", _load(node.target.id)))
        return [_at(node, changing), node]

    def visit_IfExp(self, node: ast.IfExp) -> object:
        self._no_assignment(node.body, node.orelse)
        self.generic_visit(node)
        return _at(node, _runtime("choose", node.test, _thunk(node.body), _thunk(node.orelse)))

    def visit_BoolOp(self, node: ast.BoolOp) -> object:
        self._no_assignment(*node.values[1:])
        self.generic_visit(node)
        kind = ast.Constant(isinstance(node.op, ast.And)), ast.Constant(hasattr(node, _TRUTH))
        first, *rest = node.values
        return _at(node, _runtime("logical", *kind, first, *map(_thunk, rest)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> object:
        self.generic_visit(node)
        return (
            ast.copy_location(_runtime("negated", node.operand), node)
            if isinstance(node.op, ast.Not)
            else node
        )

    def visit_Compare(self, node: ast.Compare) -> object:
        if len(node.ops) > 1:
            self._no_assignment(*node.comparators)
        self.generic_visit(node)
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            return node
        operators = ast.Tuple([ast.Constant(type(op).__name__) for op in node.ops], ast.Load())
        return ast.copy_location(
            _runtime("chain", operators, node.left, *map(_thunk, node.comparators)), node
        )

    def visit_comprehension(self, node: ast.comprehension) -> object:
        self.generic_visit(node)
        node.ifs = [ast.copy_location(_runtime("chosen", each), each) for each in node.ifs]
        return node

    def _no_assignment(self, *values: ast.expr) -> None:
        """Refuses `:=` in a part that becomes a function of its own."""
        for value in values:
            for each in ast.walk(value):
                if isinstance(each, ast.NamedExpr):
                    raise self._refuse(each, _MAY_NOT_RUN)

    # Parts of the result

    def _assign(self, node: ast.stmt, name: str, value: ast.expr) -> ast.stmt:
        return _at(node, ast.Assign([ast.Name(name, ast.Store())], value))

    def _traced(self, node: ast.stmt, name: str, *statements: ast.stmt) -> list[ast.stmt]:
        """Statements that run only where the loop or branch is one of the GPU."""
        test = ast.Attribute(_load(name), "traced", ast.Load())
        return [_at(node, ast.If(test, [_at(node, each) for each in statements], []))]

    def _rebind(
        self, node: ast.stmt, name: str, names: tuple[str, ...], method: str, *arguments: ast.expr
    ) -> list[ast.stmt]:
        """Assigns what a method of the loop or branch returns to the names."""
        value = _call(_load(name), method, *arguments)
        if not names:
            return self._traced(node, name, ast.Expr(value))
        target = ast.Tuple([ast.Name(each, ast.Store()) for each in names], ast.Store())
        return self._traced(node, name, ast.Assign([target], value))
