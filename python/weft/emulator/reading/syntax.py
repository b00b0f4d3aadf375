"""The syntax tree of a PTX module. Names are resolved, in their scope, when instructions are decoded.

The fundamental types of PTX, and how NumPy stores a register of each.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""One value for each lane: `[warps, 32]`."""
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Type:
    """`kind` is u, s, b, f or p (predicate); registers store the bits as an unsigned integer."""

    name: str
    bits: int
    kind: str

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy type that stores a register of this type; b128 is a pair of u64 in one element."""
        return STORAGE[self.bits]

    @property
    def view(self) -> np.dtype[Any]:
        """The NumPy type that interprets the bits, if NumPy has one."""
        return np.dtype(f"i{self.bytes}") if self.kind == "s" else STORAGE[self.bits]

    def __str__(self) -> str:
        return self.name


# A wide register is one complex128 per lane: NumPy moves it as 16 bytes, and nothing computes with it.
STORAGE: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype(np.complex128),
}

TYPES = {
    t.name: t
    for t in (
        Type("pred", 1, "p"),
        *(Type(f"{kind}{bits}", bits, kind) for kind in "usb" for bits in (8, 16, 32, 64)),
        Type("b128", 128, "b"),
        *(Type(name, 16, "f") for name in ("f16", "bf16")),
        *(Type(name, 32, "f") for name in ("f16x2", "bf16x2", "tf32", "f32")),
        *(Type(name, 64, "f") for name in ("f32x2", "f64")),
        *(Type(f"{kind}{part}", 32, kind) for part in ("16x2", "8x4") for kind in "us"),
        *(Type(f"{name}x2", 16, "f") for name in ("e4m3", "e5m2", "e2m3", "e3m2", "ue8m0", "s2f6")),
        *(Type(f"{name}x4", 32, "f") for name in ("e4m3", "e5m2", "e2m3", "e3m2")),
        Type("e2m1x2", 8, "f"),
        Type("e2m1x4", 16, "f"),
    )
}

B32, U32, U64, PRED = (TYPES[name] for name in ("b32", "u32", "u64", "pred"))


class SourceLocation(NamedTuple):
    """A position in the PTX text; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; `index` is its slot in the register file of its function."""

    name: str
    type: Type
    index: int


@dataclass(eq=False, slots=True)
class Variable:
    """A variable in memory. `init` has (byte offset, value) pairs; an `external` one gets its size from the
    launch.
    """

    name: str
    space: str
    type: Type
    size: int
    align: int
    location: SourceLocation
    init: list[tuple[int, "bytes | SymbolValue"]] = field(default_factory=list)
    external: bool = False
    declared: bool = False
    """Declared by `.extern`: a definition may follow."""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SymbolValue:
    """An initializer that is an address: that of `name`, in its own space or generic, plus `offset`.

    It uses `size` of the address's bytes, after the first `skip`.
    """

    name: str
    offset: int
    generic: bool
    size: int
    location: SourceLocation
    skip: int = 0


@dataclass(eq=False, slots=True)
class Label:
    """A label; `position` is the index of the instruction that follows."""

    name: str
    location: SourceLocation
    position: int


@dataclass(eq=False, slots=True)
class Targets:
    """A `.branchtargets` or `.calltargets` table."""

    names: list["Name"]


@dataclass(eq=False, slots=True)
class Prototype:
    """A `.callprototype`, which is needed to parse indirect calls."""

    location: SourceLocation


# Operands aren't frozen: a text has thousands, and a frozen one takes twice the time to make.


@dataclass(eq=False, slots=True)
class Name:
    """A register, special register, variable, label or function."""

    text: str
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Integer:
    value: int
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Float:
    """A float constant; `single` if it was written as 0f…, so that its bits are kept."""

    bits: int
    single: bool
    location: SourceLocation

    def as_bits(self, size: int) -> int:
        """Its bits as a number of 4 or 8 bytes."""
        if self.single == (size == 4):
            return self.bits
        if self.single:
            (single,) = struct.unpack("<f", struct.pack("<I", self.bits))
            return int.from_bytes(struct.pack("<d", single), "little")
        (double,) = struct.unpack("<d", struct.pack("<Q", self.bits))
        try:
            return int.from_bytes(struct.pack("<f", double), "little")
        except OverflowError:
            return 0xFF800000 if double < 0 else 0x7F800000


@dataclass(eq=False, slots=True)
class Address:
    """`[base + offset]`; further elements, such as tensor coordinates, are in `more`."""

    base: "Name | Integer"
    offset: int
    more: tuple["Operand", ...]
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Vector:
    items: tuple["Operand", ...]
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Pair:
    """`%r|%p`: two results."""

    first: "Operand"
    second: "Operand"
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Negated:
    """`!%p`."""

    name: Name
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Negative:
    """`-%r.b0`: an operand of vmad."""

    name: Name
    location: SourceLocation


@dataclass(eq=False, slots=True)
class Sink:
    """`_`: a result that is discarded."""

    location: SourceLocation


@dataclass(eq=False, slots=True)
class Group:
    """`(a, b)`: the arguments or results of a call."""

    items: tuple["Operand", ...]
    location: SourceLocation


Operand = Name | Integer | Float | Address | Vector | Pair | Negated | Negative | Sink | Group


class Scope:
    """The names of a `{ }` block. Names of enclosing blocks are looked up through it.

    `registers` is the register file of the function. A name from a range (`.reg .b32 %r<5>`) is added when it
    is first used.
    """

    def __init__(self, parent: "Scope | None" = None, registers: list[Register] | None = None) -> None:
        self.parent = parent
        self.registers: list[Register] = (
            registers if registers is not None else parent.registers if parent else []
        )
        self.names: dict[str, Entity] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}

    def find(self, name: str) -> "Entity | None":
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.ranges and (register := scope._from_range(name)):
                return register
            scope = scope.parent
        return None

    def _from_range(self, name: str) -> Register | None:
        digits = len(name) - len(name.rstrip("0123456789"))
        for count in range(1, min(digits, 9) + 1):
            prefix, number = name[:-count], name[-count:]
            size, kind = self.ranges.get(prefix, (0, None))
            if kind is not None and int(number) < size and str(int(number)) == number:
                register = Register(name, kind, len(self.registers))
                self.registers.append(register)
                self.names[name] = register
                return register
        return None


@dataclass(eq=False, slots=True)
class Instruction:
    location: SourceLocation
    opcode: str
    operands: tuple[Operand, ...]
    guard: Name | None
    negated: bool
    scope: Scope

    def names(self) -> list[Name]:
        """Every name among the operands and the guard, from the last to the first."""
        names: list[Name] = []
        for operand in self.operands:
            if type(operand) is Name:
                names.append(operand)
            else:
                names += _names(operand)
        if self.guard is not None:
            names.append(self.guard)
        names.reverse()
        return names


def _names(operand: Operand) -> Iterator[Name]:
    """The names in an operand, from the first to the last."""
    if isinstance(operand, Name):
        yield operand
    elif isinstance(operand, Negated | Negative):
        yield operand.name
    else:
        parts: tuple[Operand, ...] = ()
        if isinstance(operand, Vector | Group):
            parts = operand.items
        elif isinstance(operand, Pair):
            parts = operand.first, operand.second
        elif isinstance(operand, Address):
            parts = operand.base, *operand.more
        for part in parts:
            yield from _names(part)


@dataclass(eq=False, slots=True)
class Function:
    """An entry or a `.func`; `body` is None for a declaration."""

    name: str
    is_entry: bool
    location: SourceLocation
    scope: Scope
    returns: list[Variable | Register] = field(default_factory=list)
    params: list[Variable | Register] = field(default_factory=list)
    body: list[Instruction] | None = None
    variables: list[Variable] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    address: int = 0
    """Its number among the module's functions, which serves as its address."""


Entity = Register | tuple[Register, ...] | Variable | Label | Targets | Prototype | Function
"""What a name can refer to."""


@dataclass(eq=False, slots=True)
class Tree:
    """A whole module."""

    version: tuple[int, int]
    target: str
    scope: Scope
    functions: dict[str, Function]
    variables: list[Variable]
