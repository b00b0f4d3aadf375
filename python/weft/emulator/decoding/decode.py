"""What an instruction's decoder works with: its modifiers one by one, and its operands as register slots.

Everything that an instruction reads is a register of the file: constants and special registers have slots of
their own, which the wave fills when it begins. So a step only indexes the file.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NoReturn

import numpy as np

from weft.emulator.errors import PtxError
from weft.emulator.memory.segments import FRAME_PARAM, Addresses, wrap
from weft.emulator.reading.syntax import (
    PRED,
    TYPES,
    U32,
    U64,
    Address,
    Float,
    Function,
    Group,
    Instruction,
    Integer,
    Label,
    Name,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SourceLocation,
    Targets,
    Type,
    Variable,
    Vector,
)
from weft.emulator.running import special
from weft.emulator.running.function_code import FunctionCode
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Sources, Spread, SpreadShared
from weft.isa import illegal
from weft.isa.availability import need_of_register


@cache
def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@lru_cache(maxsize=4096)
def _modifiers(opcode: str, prefix: str) -> tuple[str, ...]:
    return tuple(opcode[len(prefix) :].split(".")[1:])


class Op:
    """One instruction to decode. Modifiers that the decoder doesn't take, and wrong operands, raise PtxError.

    The module's `target` and PTX `version` decide what is legal; the `chip` that it runs as
    decides the numerical results.
    """

    def __init__(
        self,
        instruction: Instruction,
        prefix: str,
        code: FunctionCode,
        target: str,
        chip: str,
        version: tuple[int, int],
    ) -> None:
        self.instruction = instruction
        self.opcode = instruction.opcode
        self.modifiers = list(_modifiers(instruction.opcode, prefix))
        self.prefix = prefix
        self.reads: list[int] = []
        self.writes: list[int] = []
        """The slots of the registers among the operands that the decoder has taken."""
        self.selects: tuple[int, int, int] | None = None
        self.sources: list[tuple[int, Sources]] = []
        self.stores: tuple[int, ...] = ()
        self.constant = False
        self.space = ""
        self.spread: Spread | None = None
        self.spread_shared: SpreadShared | None = None
        """As in `Traffic`."""
        self.operands = instruction.operands
        self.code = code
        self.slots = code.slots
        self.target, self.chip, self.version = target, chip, version
        self.line = instruction.location.line
        self.next = -1
        """The block after this instruction, if it ends a block; `block` is its own block."""
        self.block = -1

    @property
    def head(self) -> str:
        """The opcode up to its first dot."""
        return self.opcode.partition(".")[0]

    def fail(self, message: str, location: SourceLocation | None = None) -> NoReturn:
        raise PtxError(f"{self.opcode}: {message}", *(location or self.instruction.location))

    # Modifiers

    def flag(self, *names: str) -> bool:
        """Whether any of these modifiers is present; takes them all."""
        before = len(self.modifiers)
        for name in names:
            while name in self.modifiers:
                self.modifiers.remove(name)
        return len(self.modifiers) < before

    def choice(self, names: Iterable[str], default: str | None = None) -> str:
        """The first modifier among `names`, otherwise the default; PtxError without a default."""
        allowed = list(names)
        for modifier in self.modifiers:
            if modifier in allowed:
                self.modifiers.remove(modifier)
                return modifier
        if default is None:
            self.fail(f"needs one of .{', .'.join(allowed)}")
        return default

    def type(self, allowed: str = "") -> Type:
        """The next type among the modifiers; `allowed` lists names, separated by blanks."""
        for name in self.modifiers:
            if name in TYPES:
                break
        else:
            self.fail("needs a type")
        if allowed and name not in _words(allowed):
            self.fail(f"isn't defined for .{name}")
        self.modifiers.remove(name)
        return TYPES[name]

    def done(self) -> None:
        """Rejects modifiers that were not taken."""
        if self.modifiers:
            self.fail(f"unsupported modifier .{self.modifiers[0]}")

    # Operands

    def count(self, least: int, most: int | None = None) -> None:
        """Checks the number of operands."""
        most = least if most is None else most
        if not least <= len(self.operands) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.fail(f"expects {wanted} operands, got {len(self.operands)}")

    def operand(self, index: int) -> Operand:
        if index >= len(self.operands):
            self.fail(f"expects at least {index + 1} operands, got {len(self.operands)}")
        return self.operands[index]

    def entity(self, name: Name) -> "Register | Variable | Label | Targets | Function | object | None":
        return self.instruction.scope.find(name.text)

    def source(self, operand: int | Operand, kind: Type, any_width: bool = False) -> int:
        """The slot of an operand that is read as `kind`; its width must be `kind`'s unless `any_width`."""
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if kind.is_float and (isinstance(operand, Integer) or getattr(operand, "text", "") == "WARP_SZ"):
            self.fail(f"can't use an integer constant as .{kind}", operand.location)
        if isinstance(operand, Integer):
            value = operand.value
            if kind.bits == 1:
                return self.slots.constant(int(value != 0), kind)
            return self.slots.constant(value & ((1 << min(kind.bits, 64)) - 1), kind)
        if isinstance(operand, Float):
            if kind.name not in ("f32", "f64", "b32" if operand.single else "b64"):
                self.fail(f"can't use a floating-point constant as .{kind}", operand.location)
            return self.slots.constant(operand.as_bits(kind.bytes), kind)
        if isinstance(operand, Address) and isinstance(operand.base, Name) and not operand.more:
            variable = self.entity(operand.base)
            if isinstance(variable, Variable) and not self.in_frame(variable):
                return self.symbol(variable, operand.offset, kind)
            self.fail("expects a register or a constant, got a sum: compute it first", operand.location)
        if not isinstance(operand, Name):
            self.fail("expects a register or a constant", operand.location)
        return self._named(operand, kind, any_width)

    def _named(self, name: Name, kind: Type, any_width: bool) -> int:
        entity = self.entity(name)
        if isinstance(entity, Register):
            self._check_width(entity, kind, any_width, name.location)
            self.reads.append(self.code.base + entity.index)
            return self.code.base + entity.index
        if isinstance(entity, Variable) and self.head not in illegal.READ_SYMBOLS:
            self.fail(f"move the address of '{name.text}' to a register first", name.location)
        if isinstance(entity, Variable) and not self.in_frame(entity):
            return self.symbol(entity, 0, kind)
        if isinstance(entity, Function) and kind.bits == 64:
            return self.slots.constant(entity.address, kind)
        if name.text == "WARP_SZ":
            return self.slots.constant(32, kind)
        if name.text not in special.REGISTERS or name.text in special.CLOCKS:
            known = entity is not None or name.text in special.CLOCKS
            self.fail(
                f"can't use '{name.text}' here" if known else f"'{name.text}' is not declared", name.location
            )
        if not illegal.reads_special_registers(self.opcode):
            self.fail(f"move '{name.text}' to a register of integers first", name.location)
        need = need_of_register(name.text)
        if need and (verdict := need.complaint(self.target, self.version)):
            self.fail(f"'{name.text}' {verdict}", name.location)
        return self.slots.special(name.text, kind)

    def _check_width(self, register: Register, kind: Type, any_width: bool, location: SourceLocation) -> None:
        same = register.type.bits == kind.bits
        if not same and not (any_width and kind.bits > 1 and register.type.bits > 1):
            self.fail(f"expects {kind.bits} bits, '{register.name}' is .{register.type}", location)

    def in_frame(self, variable: Variable) -> bool:
        """Whether the variable is in the local frame of this function, not at one address for all threads."""
        function = self.code.function
        if variable.space == "local":
            return variable in function.variables
        return variable.space == "param" and not (function.is_entry and variable in function.params)

    def destination(self, operand: int | Operand, kind: Type, any_width: bool = False) -> int:
        """The slot of an operand that is written as `kind`; for `_` a slot that nothing reads."""
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if isinstance(operand, Sink):
            if operand is self.operands[0] and self.head not in illegal.DISCARD:
                self.fail("can't discard its result", operand.location)
            return self.slots.scrap(kind)
        entity = self.entity(operand) if isinstance(operand, Name) else None
        if not isinstance(entity, Register):
            self.fail("expects a register to write to", operand.location)
        self._check_width(entity, kind, any_width, operand.location)
        self.writes.append(self.code.base + entity.index)
        return self.code.base + entity.index

    def register_type(self, operand: Operand, default: Type) -> Type:
        """The declared type of a register operand; `default` for anything else."""
        entity = self.entity(operand) if isinstance(operand, Name) else None
        return entity.type if isinstance(entity, Register) else default

    def predicate(self, operand: int | Operand) -> tuple[int, bool]:
        """The slot of a predicate that is read, and whether it is negated."""
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if isinstance(operand, Negated):
            return self.source(operand.name, PRED), True
        return self.source(operand, PRED), False

    def items(self, operand: int | Operand) -> tuple[Operand, ...]:
        """The elements of a vector operand; of any other operand, itself."""
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if isinstance(operand, Name):
            entity = self.entity(operand)
            if isinstance(entity, tuple):
                return tuple(Name(r.name, operand.location) for r in entity)
            if entity is None and operand.text in special.VECTORS:
                return tuple(Name(f"{operand.text}.{c}", operand.location) for c in "xyzw")
        return operand.items if isinstance(operand, Vector) else (operand,)

    def registers(self, operand: int | Operand, kind: Type, count: int, *, writes: bool = False) -> list[int]:
        """The slots of the `count` elements of an operand, which are read or written as `kind`."""
        operand = self.operand(operand) if isinstance(operand, int) else operand
        items, slot_of = self.items(operand), self.destination if writes else self.source
        if len(items) != count:
            self.fail(f"expects {count} registers, got {len(items)}", operand.location)
        return [slot_of(item, kind) for item in items]

    def pair(self, index: int) -> tuple[Operand, Operand | None]:
        """Both parts of `a|b`; the second is None if there is only one."""
        operand = self.operand(index)
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def group(self, index: int) -> tuple[Operand, ...]:
        """The elements of `(…)`."""
        operand = self.operand(index)
        return operand.items if isinstance(operand, Group) else (operand,)

    def immediate(self, operand: int | Operand) -> int:
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(operand, Integer):
            self.fail("expects an integer constant", operand.location)
        return operand.value

    def label(self, name: Operand) -> int:
        """The block that a label names."""
        entity = self.entity(name) if isinstance(name, Name) else None
        if not isinstance(entity, Label):
            self.fail("expects a label", name.location)
        return self.code.blocks[entity.position]

    # Addresses

    def address(self, index: int, space: str) -> "AddressOf":
        """The address in an operand's brackets. A symbol's space replaces the generic space."""
        operand = self.operand(index)
        if not isinstance(operand, Address):
            self.fail("expects an address in brackets", operand.location)
        base, offset = operand.base, operand.offset
        if isinstance(base, Integer):
            return AddressOf(self.slots.constant(int(wrap(base.value + offset)), U64), 0, False, space)
        entity = self.entity(base)
        if isinstance(entity, Variable):
            if space not in ("generic", entity.space):
                self.fail(f"'{entity.name}' is in {entity.space} space", base.location)
            if self.in_frame(entity):
                constant = self.slots.constant(int(wrap(entity.offset + offset)), U64)
                return AddressOf(self.code.frame, constant, False, "local")
            return AddressOf(self.symbol(entity, offset, U64), 0, False, entity.space)
        if not isinstance(entity, Register) or entity.type.bits not in (32, 64):
            self.fail(f"'{base.text}' is not an address", base.location)
        slot = self.code.base + entity.index
        self.reads.append(slot)
        narrow = entity.type.bits == 32
        kind, mask = (U32, 0xFFFFFFFF) if narrow else (U64, 0xFFFFFFFFFFFFFFFF)
        constant = self.slots.constant(offset & mask, kind) if offset else 0
        return AddressOf(slot, constant, narrow, space)

    def symbol(self, variable: Variable, offset: int, kind: Type) -> int:
        """The slot of the address of a variable that is not in a frame, in its own space."""
        if variable.space == "shared":
            return self.slots.symbol(variable.offset + offset, kind)
        return self.slots.constant((variable.offset + offset) & ((1 << kind.bits) - 1), kind)

    def frame_address(self, variable: Variable, offset: int) -> "AddressOf":
        """The address of a variable of the frame as a value, in its own space."""
        shift = FRAME_PARAM if variable.space == "param" else 0
        constant = self.slots.constant(int(wrap(variable.offset + offset + shift)), U64)
        return AddressOf(self.code.frame, constant, False, variable.space)


class AddressOf:
    """Computes `base + offset` for all lanes as 64-bit numbers; offset slot 0 means no offset.

    `narrow`: the base is a 32-bit register, whose sum with the offset wraps at 32 bits, as nvcc expects in
    shared memory. `space` is that of the address.
    """

    __slots__ = ("base", "narrow", "offset", "space")

    def __init__(self, base: int, offset: int, narrow: bool, space: str) -> None:
        self.base, self.offset, self.narrow, self.space = base, offset, narrow, space

    def __call__(self, lanes: Lanes) -> Addresses:
        value = lanes.read(self.base)
        if self.offset:
            value = value + lanes.read(self.offset)
        return value.astype(np.uint64) if self.narrow else value
