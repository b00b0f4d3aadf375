"""Compiles plain Python functions over numbers and arrays for this host.

Numbers have 64 bits and a sign, also those that arrays have in fewer. Records are `Record`s: a function gets
their addresses, and reads and writes their fields as attributes. `array[i:]` is the rest of an array.
Functions that return a number or nothing are functions of the host, too; those that return anything else
become part of their callers.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.records import Record
from weft.system import syntax

Value = Any
"""What a function gets and returns if it isn't a number: an array or a record."""
_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = ir.PointerType()
_BINARY: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.LShift: "shl"}
_BINARY |= {ast.RShift: "ashr", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_COMPARED: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<="}
_COMPARED |= {ast.Gt: ">", ast.GtE: ">="}
_Kind = Any
"""The kind of a value: `int`, `bool`, a record's class, or the name of the type of an array's elements."""
_DOUBLE = ir.DoubleType()
_RESULTS: dict[type | None, ir.Type] = {int: _I64, bool: _I1, float: _DOUBLE, None: ir.VoidType()}


def bit_count(number: int) -> int:
    """The bits of a number that are set, for compiled functions."""
    return number.bit_count()


def set_bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, for loops of compiled functions."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def view(array: Value, element: str) -> Value:
    """The memory of an array as elements of another type, for compiled functions."""
    return array.view(element)


def memory(address: int) -> Value:
    """The bytes at an address, for compiled functions."""
    raise NotImplementedError


def copy(to: Value, source: Value, size: int) -> None:
    """Copies bytes between arrays that don't overlap, for compiled functions."""
    raise NotImplementedError


def octet_bits(octets: Value) -> int:
    """Which of 32 octets aren't 0, for compiled functions."""
    raise NotImplementedError


def single(bits: int) -> float:
    """The number whose bits as float32 these are, for compiled functions."""
    raise NotImplementedError


def double(bits: int) -> float:
    """The number whose bits as float64 these are, for compiled functions."""
    raise NotImplementedError


def bits_of(number: float) -> int:
    """The bits of a number as float64, for compiled functions."""
    raise NotImplementedError


def call(address: int, *arguments: Value) -> int:
    """Calls the function at an address, for compiled functions."""
    raise NotImplementedError


@dataclass
class _Typed:
    """A value of the host, and what kind it is."""

    value: ir.Value
    kind: _Kind


@dataclass(frozen=True)
class _Fixed:
    """A constant, for which a function is compiled."""

    value: Any
    kind: type

    @classmethod
    def of(cls, value: Any) -> "_Fixed":
        return cls(value, type(value))


def text(functions: Mapping[str, Callable[..., Any]], *kinds: _Kind) -> str:
    """The LLVM IR of functions for arguments of some kinds; of a `partial`, others are constants."""
    module = _Module()
    for name, function in functions.items():
        plain, constants = function, {}
        if isinstance(function, partial):
            plain, constants = function.func, function.keywords
        count = plain.__code__.co_argcount - len(constants)
        module.function(plain, [*kinds[:count], *map(_Fixed.of, constants.values())], name)
    # Lets LLVM keep what no function writes; otherwise, it would load fields again after each store.
    nothing = module.ir.add_metadata([])
    for value, field in module.loaded:
        if not any(field is each for each in module.stored):
            value.set_metadata("invariant.load", nothing)
    return str(module.ir)


class _Module:
    def __init__(self) -> None:
        self.ir = ir.Module()
        self._known: dict[tuple[Any, ...], tuple[ir.Value, _Kind]] = {}
        self.loaded: list[tuple[ir.Value, Record]] = []
        self.stored: list[Record] = []
        """The fields that functions read, and those that they write."""

    def function(
        self, function: Callable[..., Any], given: Sequence[_Kind], name: str = ""
    ) -> tuple[ir.Value, _Kind]:
        """A function for arguments of some kinds, or constants, and the kind of its result."""
        key = name or function, *given
        if key not in self._known:
            result = function.__annotations__["return"]
            types = [_RESULTS.get(each, _POINTER) for each in given if not isinstance(each, _Fixed)]
            made = ir.Function(
                self.ir,
                ir.FunctionType(_RESULTS[result], types),
                name or self.ir.get_unique_name(function.__name__),
            )
            if not name:
                made.linkage = "internal"
            self._known[key] = made, result
            builder = ir.IRBuilder(made.append_basic_block("entry"))
            values = iter(made.args)
            arguments = [each if isinstance(each, _Fixed) else _Typed(next(values), each) for each in given]
            _Body(self, builder, function, arguments).write()
        return self._known[key]


@cache
def _tree(function: Callable[..., Any]) -> ast.FunctionDef:
    (tree,) = syntax.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


class _Body:
    """Writes the statements of one function. `inlined`: as a part of its caller."""

    def __init__(
        self,
        module: _Module,
        builder: ir.IRBuilder,
        function: Callable[..., Any],
        arguments: Sequence[_Typed | _Fixed],
    ) -> None:
        self.module, self.b, self.tree = module, builder, _tree(function)
        self.globals: dict[str, Any] = function.__globals__
        self.result = function.__annotations__["return"]
        self.names: dict[str, tuple[ir.Value, _Kind]] = {}
        self.fixed: dict[str, Any] = {}
        """The arguments that are constants."""
        self._after: ir.Block | None = None
        """Where an inlined function goes on after it has returned."""
        self.returned: tuple[ir.Value, _Kind] | None = None
        self._loops: list[tuple[ir.Block, ir.Block]] = []
        for name, value in zip(self.tree.args.args, arguments, strict=True):
            if isinstance(value, _Fixed):
                self.fixed[name.arg] = value.value
            else:
                self._assign(name.arg, value)

    def write(self) -> None:
        """The whole function."""
        self._each(self.tree.body)
        if not self.b.block.is_terminated:
            self.b.ret_void()

    def inline(self) -> _Typed:
        """The function as a part of another one; its value."""
        self._after = self._block()
        self._each(self.tree.body)
        self.b.position_at_end(self._after)
        assert self.returned is not None
        place, kind = self.returned
        return _Typed(self.b.load(place, typ=_type(kind)), kind)

    def _block(self) -> ir.Block:
        return self.b.function.append_basic_block()

    # Statements

    def _each(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if not self.b.block.is_terminated:
                getattr(self, f"_do_{type(statement).__name__.lower()}")(statement)

    def _do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            assert isinstance(node.value, ast.Tuple)
            for each, value in zip(target.elts, [self.value(one) for one in node.value.elts], strict=True):
                self._assign_to(each, value)
        else:
            self._assign_to(target, self.value(node.value))

    def _assign_to(self, target: ast.expr, value: _Typed) -> None:
        if isinstance(target, ast.Name):
            self._assign(target.id, value)
        else:
            place, element = self._place(target)
            self._store(place, element, value)

    def _assign(self, name: str, value: _Typed) -> None:
        if name in self.fixed:
            raise TypeError(f"{name} of {self.tree.name} is a constant")
        if name not in self.names:
            entry = self.b.function.entry_basic_block
            with self.b.goto_block(entry):
                if entry.instructions:
                    self.b.position_before(entry.instructions[0])
                self.names[name] = self.b.alloca(_type(value.kind)), value.kind
        place, kind = self.names[name]
        if kind != value.kind:
            raise TypeError(f"{name} of {self.tree.name} is {kind}, and then {value.kind}")
        self.b.store(value.value, place)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        self._assign_to(node.target, self.value(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            old = self.value(ast.Name(node.target.id))
            self._assign(node.target.id, self._binary(node.op, old, self.value(node.value)))
        else:
            place, element = self._place(node.target)
            new = self._binary(node.op, self._load(place, element), self.value(node.value))
            self._store(place, element, new)

    def _do_return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.value(node.value)
        if self._after is not None:
            assert value is not None
            if self.returned is None:
                self._assign("return", value)
                self.returned = self.names["return"]
            else:
                self._assign("return", value)
            self.b.branch(self._after)
        elif value is None or self.result is None:
            self.b.ret_void()
        else:
            self.b.ret(value.value if value.kind is self.result else self._number(value))

    def _do_if(self, node: ast.If) -> None:
        constant = self._constant(node.test)
        if constant is not None:
            self._each(node.body if constant else node.orelse)
            return
        then, otherwise, after = self._block(), self._block(), self._block()
        self.b.cbranch(self._truth(node.test), then, otherwise)
        for block, body in ((then, node.body), (otherwise, node.orelse)):
            self.b.position_at_end(block)
            self._each(body)
            if not self.b.block.is_terminated:
                self.b.branch(after)
        self.b.position_at_end(after)

    def _do_while(self, node: ast.While) -> None:
        with self._loop(lambda: self._truth(node.test)):
            self._each(node.body)

    @contextmanager
    def _loop(self, more: Callable[[], ir.Value], step: Callable[[], None] = lambda: None) -> Iterator[None]:
        head, body, end, after = (self._block() for _ in range(4))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(more(), body, after)
        self.b.position_at_end(body)
        self._loops.append((end, after))
        yield
        self._loops.pop()
        if not self.b.block.is_terminated:
            self.b.branch(end)
        self.b.position_at_end(end)
        step()
        self.b.branch(head)
        self.b.position_at_end(after)

    def _do_continue(self, _: ast.Continue) -> None:
        self.b.branch(self._loops[-1][0])

    def _do_break(self, _: ast.Break) -> None:
        self.b.branch(self._loops[-1][1])

    def _do_for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        arguments = [self._number(self.value(each)) for each in node.iter.args]
        if self._constant(node.iter.func) is set_bits:
            self._for_bits(node, *arguments)
            return
        begin, end = arguments if len(arguments) == 2 else (_I64(0), *arguments)
        at, name = self._variable(begin), node.target.id

        def step() -> None:
            self.b.store(self.b.add(self.b.load(at, typ=_I64), _I64(1)), at)

        with self._loop(lambda: self.b.icmp_signed("<", self.b.load(at, typ=_I64), end), step):
            self._assign(name, _Typed(self.b.load(at, typ=_I64), int))
            self._each(node.body)

    def _for_bits(self, node: ast.For, mask: ir.Value) -> None:
        left = self._variable(mask)
        assert isinstance(node.target, ast.Name)

        def step() -> None:
            now = self.b.load(left, typ=_I64)
            self.b.store(self.b.and_(now, self.b.sub(now, _I64(1))), left)

        with self._loop(lambda: self.b.icmp_signed("!=", self.b.load(left, typ=_I64), _I64(0)), step):
            self._assign(node.target.id, _Typed(self.b.cttz(self.b.load(left, typ=_I64), _I1(1)), int))
            self._each(node.body)

    def _variable(self, value: ir.Value) -> ir.Value:
        name = f"number {len(self.names)}"
        self._assign(name, _Typed(value, int))
        return self.names[name][0]

    # Memory

    def _place(self, node: ast.expr) -> tuple[ir.Value, ir.Type]:
        """The address of an element or a field, and its type."""
        if isinstance(node, ast.Attribute):
            record = self.value(node.value)
            return self._at(record.value, _I64(record.kind[node.attr])), record.kind[node.attr]
        assert isinstance(node, ast.Subscript)
        array = self.value(node.value)
        index = self._number(self.value(node.slice))
        return self._at(array.value, index, _element(array.kind)), array.kind

    def _at(self, pointer: ir.Value, index: ir.Value, element: ir.Type = _I64) -> ir.Value:
        return self.b.gep(pointer, [index], source_etype=element)

    def _load(self, place: ir.Value, element: ir.Type) -> _Typed:
        if isinstance(element, Record):
            value = self.b.load(place, typ=_POINTER if element.element else _I64)
            self.module.loaded.append((value, element))
            return _Typed(value, element.element or int)
        value = self.b.load(place, typ=_element(element), align=1)
        if element[1:] == "8":
            return _Typed(value, float if element == "f8" else int)
        wide = self.b.sext if element[0] == "i" else self.b.zext
        return _Typed(wide(value, _I64), int)

    def _store(self, place: ir.Value, element: ir.Type, value: _Typed) -> None:
        if isinstance(element, Record):
            self.module.stored.append(element)
        number, kind = self._number(value), _I64 if isinstance(element, Record) else _element(element)
        self.b.store(number if kind in (_I64, _DOUBLE) else self.b.trunc(number, kind), place, align=1)

    # Expressions

    def value(self, node: ast.expr) -> _Typed:
        """The value of an expression."""
        constant = self._constant(node)
        if isinstance(constant, int | float):
            return _constant(constant)
        written: _Typed = getattr(self, f"_of_{type(node).__name__.lower()}")(node)
        return written

    def _constant(self, node: ast.expr) -> Any:
        """What an expression of the module's names is; None for others."""
        every = list(ast.walk(node))
        if any(isinstance(each, ast.Name) and each.id in self.names for each in every):
            return None
        called = [each.func for each in every if isinstance(each, ast.Call)]
        if any(not (isinstance(each, ast.Name) and each.id == "len") for each in called):
            return None
        return eval(compile(ast.Expression(node), self.tree.name, "eval"), self.globals, self.fixed)

    def _number(self, value: _Typed) -> ir.Value:
        return self.b.zext(value.value, _I64) if value.kind is bool else value.value

    def _truth(self, node: ast.expr) -> ir.Value:
        value = self.value(node)
        if value.kind is bool:
            return value.value
        number = value.value if value.kind is int else self.b.ptrtoint(value.value, _I64)
        return self.b.icmp_signed("!=", number, _I64(0))

    def _of_name(self, node: ast.Name) -> _Typed:
        place, kind = self.names[node.id]
        return _Typed(self.b.load(place, typ=_type(kind)), kind)

    def _of_attribute(self, node: ast.Attribute) -> _Typed:
        place, field = self._place(node)
        return _Typed(place, "i8") if field.count != 1 else self._load(place, field)

    def _of_subscript(self, node: ast.Subscript) -> _Typed:
        if not isinstance(node.slice, ast.Slice):
            return self._load(*self._place(node))
        array = self.value(node.value)
        assert node.slice.lower is not None and node.slice.upper is None
        begin = self._number(self.value(node.slice.lower))
        return _Typed(self._at(array.value, begin, _element(array.kind)), array.kind)

    def _of_binop(self, node: ast.BinOp) -> _Typed:
        return self._binary(node.op, self.value(node.left), self.value(node.right))

    def _binary(self, op: ast.operator, left: _Typed, right: _Typed) -> _Typed:
        if left.kind is right.kind is bool and isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
            return _Typed(getattr(self.b, _BINARY[type(op)])(left.value, right.value), bool)
        a, b = self._number(left), self._number(right)
        if left.kind is float:
            return _Typed(getattr(self.b, f"f{_BINARY[type(op)]}")(a, b), float)
        if type(op) in _BINARY:
            return _Typed(getattr(self.b, _BINARY[type(op)])(a, b), int)
        rest = self.b.srem(a, b)
        other = self.b.icmp_signed("<", self.b.xor(rest, b), _I64(0))  # than the divisor's sign
        below = self.b.and_(other, self.b.icmp_signed("!=", rest, _I64(0)))
        if isinstance(op, ast.FloorDiv):
            return _Typed(self.b.sub(self.b.sdiv(a, b), self.b.zext(below, _I64)), int)
        assert isinstance(op, ast.Mod)
        return _Typed(self.b.select(below, self.b.add(rest, b), rest), int)

    def _of_unaryop(self, node: ast.UnaryOp) -> _Typed:
        if isinstance(node.op, ast.Not):
            return _Typed(self.b.not_(self._truth(node.operand)), bool)
        value = self._number(self.value(node.operand))
        if value.type == _DOUBLE:
            return _Typed(self.b.fneg(value), float)
        return _Typed(self.b.neg(value) if isinstance(node.op, ast.USub) else self.b.not_(value), int)

    def _of_compare(self, node: ast.Compare) -> _Typed:
        values = [self._number(self.value(each)) for each in (node.left, *node.comparators)]
        holds = None
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            compare = self.b.icmp_signed
            if a.type == _DOUBLE:
                compare = self.b.fcmp_unordered if isinstance(op, ast.NotEq) else self.b.fcmp_ordered
            one = compare(_COMPARED[type(op)], a, b)
            holds = one if holds is None else self.b.and_(holds, one)
        return _Typed(holds, bool)

    def _of_boolop(self, node: ast.BoolOp) -> _Typed:
        """Each operand, as long as those before it don't decide."""
        end, is_or = self._block(), isinstance(node.op, ast.Or)
        found = []
        for each in node.values:
            value, following = self._truth(each), self._block()
            found.append((value, self.b.block))
            self.b.cbranch(value, end, following) if is_or else self.b.cbranch(value, following, end)
            self.b.position_at_end(following)
        self.b.branch(end)
        found.append((_I1(not is_or), self.b.block))
        return self._joined(end, found, bool)

    def _of_ifexp(self, node: ast.IfExp) -> _Typed:
        then, otherwise, end = self._block(), self._block(), self._block()
        self.b.cbranch(self._truth(node.test), then, otherwise)
        found, kinds = [], []
        for block, each in ((then, node.body), (otherwise, node.orelse)):
            self.b.position_at_end(block)
            value = self.value(each)
            found.append((value.value, self.b.block))
            kinds.append(value.kind)
            self.b.branch(end)
        assert kinds[0] == kinds[1]
        return self._joined(end, found, kinds[0])

    def _joined(self, end: ir.Block, found: Sequence[tuple[ir.Value, ir.Block]], kind: _Kind) -> _Typed:
        self.b.position_at_end(end)
        joined = self.b.phi(_type(kind))
        for value, block in found:
            joined.add_incoming(value, block)
        return _Typed(joined, kind)

    def _of_call(self, node: ast.Call) -> _Typed:
        function = self._constant(node.func)
        if function is view:
            return _Typed(self.value(node.args[0]).value, self._constant(node.args[1]))
        if isinstance(function, type) and issubclass(function, Record):
            return _Typed(self.value(node.args[0]).value, function)
        if function in _BUILTINS:
            return _BUILTINS[function](self, *(self._number(self.value(each)) for each in node.args))
        given = [self._argument(each) for each in node.args]
        if function.__annotations__["return"] not in _RESULTS:
            return _Body(self.module, self.b, function, given).inline()
        kinds = [each if isinstance(each, _Fixed) else each.kind for each in given]
        made, result = self.module.function(function, kinds)
        values = [each.value for each in given if not isinstance(each, _Fixed)]
        return _Typed(self.b.call(made, values), result)

    def _argument(self, node: ast.expr) -> "_Typed | _Fixed":
        constant = self._constant(node)
        return self.value(node) if constant is None else _Fixed.of(constant)

    # What compiled functions may call besides functions of Python

    def _copy(self, to: ir.Value, source: ir.Value, size: ir.Value) -> _Typed:
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER, _I64, _I1])
        function = self.module.ir.globals.get("llvm.memcpy.p0.p0.i64")
        function = function or ir.Function(self.module.ir, kind, "llvm.memcpy.p0.p0.i64")
        return _Typed(self.b.call(function, [to, source, size, _I1(0)]), None)

    def _single(self, bits: ir.Value) -> _Typed:
        one = self.b.bitcast(self.b.trunc(bits, _I32), ir.FloatType())
        return _Typed(self.b.fpext(one, _DOUBLE), float)

    def _octet_bits(self, octets: ir.Value) -> _Typed:
        vector = ir.VectorType(_I8, 32)
        held = self.b.icmp_unsigned("!=", self.b.load(octets, typ=vector, align=1), ir.Constant(vector, None))
        return _Typed(self.b.zext(self.b.bitcast(held, _I32), _I64), int)

    def _call(self, address: ir.Value, *arguments: ir.Value) -> _Typed:
        kind = ir.FunctionType(_I64, [each.type for each in arguments])
        return _Typed(self.b.call(self.b.inttoptr(address, kind.as_pointer()), arguments), int)


_BUILTINS: dict[Any, Callable[..., _Typed]] = {
    bit_count: lambda body, number: _Typed(body.b.ctpop(number), int),
    min: lambda body, a, b: _Typed(body.b.select(body.b.icmp_signed("<", a, b), a, b), int),
    max: lambda body, a, b: _Typed(body.b.select(body.b.icmp_signed(">", a, b), a, b), int),
    memory: lambda body, address: _Typed(body.b.inttoptr(address, _POINTER), "u1"),
    copy: _Body._copy,
    octet_bits: _Body._octet_bits,
    call: _Body._call,
    float: lambda body, number: _Typed(body.b.sitofp(number, _DOUBLE), float),
    single: _Body._single,
    double: lambda body, bits: _Typed(body.b.bitcast(bits, _DOUBLE), float),
    bits_of: lambda body, number: _Typed(body.b.bitcast(number, _I64), int),
}


def _constant(number: float) -> _Typed:
    if isinstance(number, float):
        return _Typed(_DOUBLE(number), float)
    return _Typed(_I1(number), bool) if isinstance(number, bool) else _Typed(_I64(int(number)), int)


def _type(kind: _Kind) -> ir.Type:
    return _RESULTS[kind] if kind in (int, bool, float) else _POINTER


def _element(name: str) -> ir.Type:
    return _DOUBLE if name == "f8" else ir.IntType(8 * int(name[1:]))
