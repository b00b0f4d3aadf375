"""Writes functions of this host with loops, conditions and typed memory, on llvmlite's IR builder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()
Value = Any


class Code:
    """The body of a function under construction. Numbers are 64-bit unless something else is said."""

    def __init__(self, module: ir.Module, name: str, arguments: Sequence[Any], result: Any = I64) -> None:
        self.function = ir.Function(module, ir.FunctionType(result, arguments), name)
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self._entry = self.function.entry_basic_block
        self.arguments = self.function.args

    def number(self, value: int, kind: Any = I64) -> Value:
        return ir.Constant(kind, value)

    def _value(self, value: "Value | int", kind: Any = I64) -> Value:
        return ir.Constant(kind, value) if isinstance(value, int) else value

    # Memory

    def at(self, pointer: Value, index: "Value | int", kind: Any = I64) -> Value:
        """The address of an element."""
        return self.b.gep(pointer, [self._value(index)], source_etype=kind)

    def load(self, pointer: Value, index: "Value | int" = 0, kind: Any = I64) -> Value:
        return self.b.load(self.at(pointer, index, kind), typ=kind)

    def store(self, value: "Value | int", pointer: Value, index: "Value | int" = 0, kind: Any = I64) -> None:
        self.b.store(self._value(value, kind), self.at(pointer, index, kind))

    def pointer(self, pointer: Value, index: "Value | int" = 0) -> Value:
        """The pointer at an index of an array of pointers."""
        return self.load(pointer, index, POINTER)

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """Adds instructions to the first block, which always runs."""
        with self.b.goto_block(self._entry):
            if self._entry.is_terminated:
                self.b.position_before(self._entry.terminator)
            yield

    def variable(self, value: "Value | int", kind: Any = I64) -> Value:
        """A variable with its first value, whose address this returns."""
        with self.at_entry():
            place = self.b.alloca(kind)
        self.b.store(self._value(value, kind), place)
        return place

    def add(self, place: Value, by: "Value | int", kind: Any = I64) -> None:
        """Adds to a variable, or to another number in memory."""
        self.b.store(self.b.add(self.b.load(place, typ=kind), self._value(by, kind)), place)

    # Numbers

    def wide(self, value: Value) -> Value:
        """An unsigned number as 64 bits."""
        return self.b.zext(value, I64)

    def is_(self, order: str, a: Value, b: "Value | int") -> Value:
        """A comparison of unsigned numbers."""
        return self.b.icmp_unsigned(order, a, self._value(b, a.type))

    def more(self, a: Value, b: "Value | int") -> Value:
        """Whether a signed number is greater."""
        return self.b.icmp_signed(">", a, self._value(b, a.type))

    # Control

    @contextmanager
    def loop(self, end: "Value | int", begin: "Value | int" = 0) -> Iterator[Value]:
        """Runs for each number from `begin` to before `end`, which may be none."""
        b, at = self.b, self.variable(begin)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        number = b.load(at, typ=I64)
        b.cbranch(self.is_("<", number, end), body, after)
        b.position_at_end(body)
        yield number
        if not b.block.is_terminated:
            b.store(b.add(number, self.number(1)), at)
            b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def bits(self, mask: Value) -> Iterator[Value]:
        """Runs for the number of each bit that is set in 32."""
        b, left = self.b, self.variable(mask, I32)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        rest = b.load(left, typ=I32)
        b.cbranch(self.is_("!=", rest, 0), body, after)
        b.position_at_end(body)
        yield self.wide(b.cttz(rest, self.number(1, I1)))
        if not b.block.is_terminated:
            now = b.load(left, typ=I32)
            b.store(b.and_(now, b.sub(now, self.number(1, I32))), left)
            b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Runs if a condition holds."""
        with self.b.if_then(condition):
            yield

    def give(self, value: "Value | int", kind: Any = I64) -> None:
        """Returns; what follows in the block never runs."""
        self.b.ret(self._value(value, kind))

    def give_when(self, condition: Value, value: "Value | int", kind: Any = I64) -> None:
        """Returns if a condition holds."""
        with self.b.if_then(condition):
            self.b.ret(self._value(value, kind))
