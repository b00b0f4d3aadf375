"""The part of the parser that reads tokens, operands, registers and variables with their initializers."""

import struct
from collections.abc import Callable
from typing import NoReturn, TypeVar

from weft.emulator.errors import PtxError
from weft.emulator.reading.lexer import Token, tokens
from weft.emulator.reading.syntax import (
    TYPES,
    Address,
    Entity,
    Float,
    Integer,
    Name,
    Negated,
    Negative,
    Operand,
    Pair,
    Register,
    Scope,
    Sink,
    SourceLocation,
    SymbolValue,
    Type,
    Variable,
    Vector,
)
from weft.errors import shown
from weft.isa.text import constants
from weft.isa.text.identifiers import PREDEFINED

_T = TypeVar("_T")
_MAX_VARIABLE = 1 << 30
_MAX_ALIGN = 1 << 16
_INTEGER_BITS = 64
_MOST_DIGITS = 70
_OPAQUE = {".texref", ".samplerref", ".surfref"}
_OPERATORS = frozenset("+-*/%&|^<>=!?:")
"""Characters that continue an expression of constants."""


class DeclarationReader:
    """A recursive-descent reader; `scope` is the module's. `whole`: instructions are tokens, if possible."""

    def __init__(self, text: str, whole: bool = False) -> None:
        self.names = self.scope = Scope()
        """The names that operands see, and those of the module."""
        self.tokens = tokens(text, self.scope if whole else None)
        self.next = 0

    # Tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    @property
    def location(self) -> SourceLocation:
        return self.location_of(self.tokens[self.next])

    @staticmethod
    def location_of(token: Token) -> SourceLocation:
        return SourceLocation(token.line, token.column)

    def take(self) -> Token:
        token = self.token
        if token.instruction is not None:
            self.fail("a token")
        if token.kind != "end":
            self.next += 1
        return token

    def accept(self, text: str) -> bool:
        token = self.tokens[self.next]
        matches = token.text == text and token.kind != "string"
        self.next += matches
        return matches

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"'{text}'")

    def kind(self, kind: str, wanted: str) -> Token:
        if self.token.kind != kind:
            self.fail(wanted)
        return self.take()

    def listed(self, item: Callable[[], _T]) -> list[_T]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        return items

    def enclosed(self, brackets: str, item: Callable[[], _T]) -> list[_T]:
        """Items between these brackets, with commas after all but perhaps the last."""
        items: list[_T] = []
        self.expect(brackets[0])
        while not self.accept(brackets[1]):
            items.append(item())
            if self.token.text != brackets[1]:
                self.expect(",")
        return items

    def skip_statement(self) -> None:
        while not self.accept(";"):
            if self.take().kind == "end":
                self.fail("';'")

    def refuse(self, message: str) -> NoReturn:
        """Raises PtxError for the next token."""
        raise PtxError(message, self.token.line, self.token.column)

    def fail(self, wanted: str) -> NoReturn:
        token = self.token
        got = f"'{token.text}'" if token.text else "the end of the text"
        raise PtxError(f"expected {wanted}, got {got}", token.line, token.column)

    def declare(self, scope: Scope, name: str, entity: Entity, location: SourceLocation) -> None:
        if name in scope.names:
            raise PtxError(f"'{name}' is declared twice", *location)
        scope.names[name] = entity

    # Numbers and operands

    def integer(self, wanted: str) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * self._constant(wanted)

    def _constant(self, wanted: str) -> int:
        """The value of an integer, which must fit 64 bits."""
        token = self.kind("integer", wanted)
        text, value = token.text.rstrip("U"), 0
        octal = len(text) > 1 and text[0] == "0" and not set(text) & set("89")
        long = len(text) > _MOST_DIGITS
        if not long:
            value = int(text, 0 if text[:2].lower() in ("0x", "0b") else 8 if octal else 10)
        if long or value >> _INTEGER_BITS:
            what = f"a constant must have at most {_INTEGER_BITS} bits, got {shown(token.text)}"
            raise PtxError(what, token.line, token.column)
        return value

    def with_suffixes(self, name: str) -> str:
        """A name with the modifiers or the part that follow it after blanks."""
        while self.token.kind == "directive":
            name += self.take().text
        return name

    def number(self, wanted: str) -> Integer | Float:
        """A constant, or an expression of constants."""
        begin = at = self.next
        while self.tokens[at].text in ("-", "+", "~"):
            at += 1
        plain = self.tokens[at].text not in ("(", "!") and self.tokens[at].text not in PREDEFINED
        literal = self._literal(wanted) if plain else None
        if literal is not None and self.token.text not in _OPERATORS:
            return literal
        first, self.next = self.tokens[begin], begin
        text = self._expression(wanted)
        value = constants.expression(text)
        if value is None:
            raise PtxError(f"'{text}' has no value", *self.location_of(first))
        if isinstance(value, int):
            return Integer(value, self.location_of(first))
        return Float(int.from_bytes(struct.pack("<d", value), "little"), False, self.location_of(first))

    def _expression(self, wanted: str) -> str:
        """The text of an expression of constants."""
        text, depth, ends = "", 0, False  # whether it may end here
        while True:
            token = self.token
            if not ends and token.text == "(" and self.tokens[self.next + 1].kind == "directive":
                text += "".join(self.take().text for _ in range(3))  # `(.s64)`
            elif not ends and (token.text in ("(", "-", "+", "~", "!")):
                depth += token.text == "("
                text += self.take().text
            elif not ends:
                if token.kind not in ("integer", "float") and token.text not in PREDEFINED:
                    self.fail(wanted)
                text += self.take().text
                ends = True
            elif token.text == ")" and depth:
                depth -= 1
                text += self.take().text
            elif token.text in _OPERATORS:
                last = self.take()
                text += f" {last.text}"
                after = self.token
                joined = (after.line, after.column) == (last.line, last.column + 1)
                if joined and last.text in "<>=!&|" and after.text in "<>=&|":
                    text += self.take().text
                text, ends = text + " ", False
            else:
                break
        if depth:
            self.fail("')'")
        return text

    def _literal(self, wanted: str) -> Integer | Float:
        location = self.location
        negative = flip = False
        while self.token.text in ("-", "+", "~"):
            text = self.take().text
            negative ^= text == "-"
            flip |= text == "~"
        if self.token.kind == "integer":
            value = self._constant("a number")
            value = ~value if flip else value
            return Integer(-value if negative else value, location)
        text = self.kind("float", wanted).text
        if text[:2] in ("0f", "0F"):
            return Float(int(text[2:], 16) ^ negative << 31, True, location)
        if text[:2] in ("0d", "0D"):
            return Float(int(text[2:], 16) ^ negative << 63, False, location)
        (bits,) = struct.unpack("<Q", struct.pack("<d", -float(text) if negative else float(text)))
        return Float(bits, False, location)

    def simple_operand(self) -> Operand:
        token, location = self.token, self.location
        if token.text == "[":
            return self._address()
        if token.text == "{":
            vector = self._vector()
            return Pair(vector, self._item(), location) if self.accept("|") else vector
        if token.text == "!" and self.tokens[self.next + 1].kind == "name":
            self.take()
            name = self.kind("name", "a predicate")
            return Negated(Name(name.text, self.location_of(name)), location)
        first = self._item()
        if self.accept("|"):
            return Pair(first, self._item(), location)
        if isinstance(first, Name) and self.token.text in ("+", "-"):
            return Address(first, self._offset(), (), location)
        if isinstance(first, Name) and self.token.text == "[":
            return self._element(first)
        return first

    def _vector(self) -> Vector:
        location = self.location
        return Vector(tuple(self.enclosed("{}", self._item)), location)

    def _item(self) -> Operand:
        token, location = self.token, self.location
        if token.text == "_":
            self.take()
            return Sink(location)
        if token.kind == "name":
            if token.text in PREDEFINED and self.tokens[self.next + 1].text in _OPERATORS:
                return self.number("an operand")
            self.take()
            return Name(self.with_suffixes(token.text), location)
        after = self.tokens[min(self.next + 1, len(self.tokens) - 1)]
        if token.text == "-" and after.kind == "name" and after.text not in PREDEFINED:
            self.take()
            name = self.take()
            return Negative(Name(self.with_suffixes(name.text), self.location_of(name)), location)
        return self.number("an operand")

    def _address(self) -> Address:
        location = self.location
        self.expect("[")
        token, base = self.token, self._item()
        if not isinstance(base, Name | Integer):
            raise PtxError(f"'{token.text}' is not an address", *self.location_of(token))
        offset = self._offset()
        more: list[Operand] = []
        while self.accept(","):
            more.append(self._vector() if self.token.text == "{" else self._item())
        self.expect("]")
        self.accept(".unified")  # a hint for ld
        return Address(base, offset, tuple(more), location)

    def _offset(self) -> int:
        return self._whole("an offset") if self.token.text in ("+", "-") else 0

    def _whole(self, wanted: str) -> int:
        """The value of an expression of constants, which must be an integer."""
        location, value = self.location, self.number(wanted)
        if not isinstance(value, Integer):
            raise PtxError(f"expected {wanted}, got a floating-point constant", *location)
        return value.value

    def _element(self, array: Name) -> Address:
        """The address of `array[2]`."""
        variable = self.names.find(array.text)
        if not isinstance(variable, Variable):
            raise PtxError(f"'{array.text}' is not an array", *array.location)
        self.expect("[")
        if self.token.kind == "name" and self.token.text not in PREDEFINED:
            what = f"the index of '{array.text}' must be a constant: compute the address of the element"
            self.refuse(f"{what}, got the register '{self.token.text}'")
        offset = self._whole("an index") * variable.type.bytes
        self.expect("]")
        return Address(array, offset, (), array.location)

    # Registers and variables

    def type(self) -> Type:
        token = self.kind("directive", "a type")
        if token.text in _OPAQUE:
            return TYPES["b64"]
        if token.text[1:] not in TYPES:
            self.next -= 1
            self.fail("a type")
        return TYPES[token.text[1:]]

    def vector_width(self) -> int:
        return int(self.take().text[2:]) if self.token.text in (".v2", ".v4", ".v8") else 1

    def register_declaration(self, scope: Scope) -> list[Variable | Register]:
        """`.reg .b32 %r<5>, %x`; returns those that are declared individually."""
        self.expect(".reg")
        width = self.vector_width()
        kind = self.type()
        single: list[Variable | Register] = []
        while True:
            name = self.kind("name", "a register")
            if self.accept("<"):
                count = self.integer("a number of registers")
                self.expect(">")
                if width != 1 or name.text in scope.ranges:
                    raise PtxError(f"can't declare the range '{name.text}'", *self.location_of(name))
                scope.ranges[name.text] = (count, kind)
            else:
                parts = [f"{name.text}.{c}" for c in "xyzw"[:width]] if width > 1 else [name.text]
                registers = tuple(self.register(scope, part, kind, self.location_of(name)) for part in parts)
                single += registers
                if width > 1:
                    self.declare(scope, name.text, registers, self.location_of(name))
                    scope.names |= {f"{name.text}.{c}": r for c, r in zip("rgba", registers, strict=False)}
            if self.token.text != "," or self.tokens[self.next + 1].kind != "name":
                return single
            self.take()

    def register(self, scope: Scope, name: str, kind: Type, location: SourceLocation) -> Register:
        register = Register(name, kind, len(scope.registers))
        scope.registers.append(register)
        self.declare(scope, name, register, location)
        return register

    def state_space(self) -> str:
        return self.kind("directive", "a state space").text[1:].partition("::")[0]

    def variables(self, scope: Scope, external: bool) -> list[Variable]:
        """A statement that declares variables, with its `;`."""
        align = self._alignment() if self.token.text == ".align" else 0
        declared = self.variable_list(scope, self.state_space(), external, align=align)
        self.expect(";")
        return declared

    def variable_list(
        self, scope: Scope, space: str, external: bool = False, single: bool = False, align: int = 0
    ) -> list[Variable]:
        kind, width = None, 1
        while self.token.kind == "directive":
            text = self.token.text
            if text == ".align":
                align = self._alignment()
            elif text in (".v2", ".v4", ".v8"):
                width = self.vector_width()
            elif text in (".ptr", ".global", ".shared", ".const", ".local", ".noalias"):
                self.take()
                # The alignment after `.ptr` is that of the memory that the pointer refers to.
                if self.token.text == ".align":
                    self.take()
                    self.integer("an alignment")
            elif text == ".attribute":
                self.take()
                self.expect("(")
                while not self.accept(")"):
                    if self.take().kind == "end":
                        self.fail("')'")
            else:
                kind = self.type()
        if kind is None or kind.bits < 8:
            self.fail("a type")
        declared = [self._variable(scope, space, kind, width, align, external)]
        while not single and self.accept(","):
            declared.append(self._variable(scope, space, kind, width, align, external))
        return declared

    def _alignment(self) -> int:
        self.expect(".align")
        align = self.integer("an alignment")
        if align < 1 or align & (align - 1) or align > _MAX_ALIGN:
            self.next -= 1
            self.fail(f"a power of two up to {_MAX_ALIGN}")
        return align

    def _variable(
        self, scope: Scope, space: str, kind: Type, width: int, align: int, external: bool
    ) -> Variable:
        name = self.kind("name", "a variable's name")
        location = self.location_of(name)
        element = kind.bytes * width
        counts: list[int] = []
        while self.accept("["):
            counts.append(0 if self.token.text == "]" else self._whole("a number of elements"))
            self.expect("]")
        size = element
        for count in counts:
            size *= count
        variable = Variable(name.text, space, kind, size, align or element, location)
        if self.accept("="):
            if space not in ("global", "const"):
                what = f"only variables in global or const space have initial values, got '{name.text}' in"
                raise PtxError(f"{what} {space} space", *location)
            end = self._initializer(variable, kind.bytes, 0, 0)
            if not size and counts:
                variable.size = -(-end // element) * element
            elif end > size:
                raise PtxError(f"'{name.text}' has {size} bytes, but its initializer has {end}", *location)
        if not 0 <= variable.size <= _MAX_VARIABLE:
            raise PtxError(f"'{name.text}' has {variable.size} bytes", *location)
        variable.external = external and variable.size == 0
        known = scope.names.get(name.text)
        if external and known is not None:
            return variable
        if isinstance(known, Variable) and known.declared:
            del scope.names[name.text]  # this one defines it
        variable.declared = external
        self.declare(scope, name.text, variable, location)
        return variable

    def _initializer(self, variable: Variable, element: int, at: int, depth: int) -> int:
        """Reads values for the bytes from `at`; returns the end of the last."""
        if not self.accept("{"):
            return self._initial_value(variable, element, at)
        if depth > 16:
            self.fail("fewer nested initializers")
        while not self.accept("}"):
            at = self._initializer(variable, element, at, depth + 1)
            if self.token.text != "}":
                self.expect(",")
        return at

    def _initial_value(self, variable: Variable, element: int, at: int) -> int:
        location = self.location
        if self.token.kind == "name" and self.token.text not in PREDEFINED:
            variable.init.append((at, self._symbol(element, 0, location)))
            return at + element
        value = self.number("a value")
        if isinstance(value, Integer) and self.accept("("):
            # `0xFF00(name)`: the byte of the address that the mask selects.
            mask = value.value
            shift = (mask & -mask).bit_length() - 1
            if mask <= 0 or mask != 0xFF << shift or shift % 8 or shift > 56:
                raise PtxError(f"0x{mask:x} is not a mask of one byte", *location)
            variable.init.append((at, self._symbol(element, shift // 8, location)))
            self.expect(")")
            return at + element
        bits = value.value if isinstance(value, Integer) else value.as_bits(element)
        mask = (1 << 8 * element) - 1
        variable.init.append((at, (bits & mask).to_bytes(element, "little")))
        return at + element

    def _symbol(self, size: int, skip: int, location: SourceLocation) -> SymbolValue:
        """`name`, `name + 4`, `generic(name)` or `generic(name) + 4`."""
        generic = self.token.text == "generic" and self.tokens[self.next + 1].text == "("
        if generic:
            self.take()
            self.expect("(")
        name = self.kind("name", "a symbol").text
        offset = self._offset()
        if generic:
            self.expect(")")
            offset += self._offset()
        return SymbolValue(name, offset, generic, size, location, skip)
