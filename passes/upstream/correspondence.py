"""How an operation of upstream's `nvvm` dialect and one of ours say the same: rules, read both ways."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft import mlir
from weft.isa.computed import computed
from weft.mlir import ir, llvm, nvvm


class Inexpressible(Exception):
    """Why upstream's dialect can't say what an operation of ours says."""


@dataclass
class Draft:
    """An operation in the making: its operands by our names, its attributes by its own."""

    operands: dict[str, list[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


class Rule(Protocol):
    """How one thing is said on both sides."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Our attributes (or operands) that the rule reads and writes."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Upstream's attributes that the rule reads."""

    def to_ours(self, op: Any, draft: Draft) -> None:
        """Says in a draft of ours what upstream's `op` says."""

    def to_theirs(self, op: Any, draft: Draft) -> None:
        """Says in a draft of upstream's what our `op` says. Raises Inexpressible."""


@dataclass(frozen=True)
class Pair:
    """An operation of ours and upstream's with the same meaning.

    `operands` names ours in upstream's order, with `*` for any number of registers, `?` for one or none,
    and `:i32` for a constant of that type that is an attribute of ours (`?:i64` if it may be missing).
    `vectors` are the registers that upstream has in a vector even where there is one. `broken` says of a form
    of ours why upstream, which spells it, makes no right LLVM IR of it; None where it does.
    """

    ours: Any
    theirs: Any
    operands: str = ""
    rules: tuple[Rule, ...] = ()
    vectors: tuple[str, ...] = ()
    broken: Callable[[Any], str | None] = lambda form: None

    def slots(self) -> list[tuple[str, str]]:
        """Name and kind (`*`, `?`, `:i32`, `?:i64` or nothing) of each operand."""
        return re.findall(r"(\w+)(\S*)", self.operands)

    @property
    def segmented(self) -> bool:
        """Whether upstream's operation says how many operands each slot has."""
        return getattr(self.theirs, "_ODS_OPERAND_SEGMENTS", None) is not None


@dataclass(frozen=True)
class Token:
    """An attribute `name` of upstream's enumeration `kind`, which says what the axes `said` (words) do.

    `values` are ours of its tokens, the tokens themselves where there are none. `absent` is our value where
    upstream has no such attribute, None where another rule knows it; where `needed` of our operation,
    upstream wants the attribute even so.
    """

    said: str
    name: str
    kind: str
    values: Mapping[str, Any] | None = None
    absent: Any = None
    needed: Callable[[Any], bool] = lambda op: False

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.said.split())

    @computed
    def _values(self) -> Mapping[str, Any]:
        return {str(t): str(t) for t in getattr(nvvm, self.kind)} if self.values is None else self.values

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.name,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        attribute = op.attributes.get(self.name)
        value = self.absent if attribute is None else self._values[_token(attribute)]
        if value is not None:
            draft.attributes |= dict.fromkeys(self.axes, value)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        said = {axis: op.attribute(axis) for axis in self.axes}
        value = said[self.axes[0]]
        if len(set(said.values())) > 1:
            raise Inexpressible(f"upstream's has one {self.name} for {_listed(said)}")
        if value == self.absent and not self.needed(op):
            return
        token = next((t for t, ours in self._values.items() if ours == value), None)
        if token is None:
            raise Inexpressible(f"upstream's has no {_listed(said)}")
        draft.attributes[self.name] = _enumerator(self.kind, token)


def _token(attribute: Any) -> str:
    """`f16` of `#nvvm.mma_type<f16>`, `min` of `#nvvm<reduction_kind min>`."""
    return re.split(r"[< ]", str(attribute).rstrip(">"))[-1]


def _enumerator(kind: str, token: str) -> Any:
    return ir.AttrBuilder.get(f"nvvm.{kind}Attr")(token, ir.Context.current)


def _listed(said: Mapping[str, Any]) -> str:
    return ", ".join(spelled(axis, value) for axis, value in said.items())


def spelled(axis: str, value: Any) -> str:
    """An axis and its value in words."""
    return axis if value is True else f"{axis} {value or 'none'}"


@dataclass(frozen=True)
class Flag:
    """A unit attribute of upstream's, and our axis that is true where it is there."""

    axis: str
    name: str

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.name,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = op.attributes.get(self.name) is not None

    def to_theirs(self, op: Any, draft: Draft) -> None:
        if op.attribute(self.axis):
            draft.attributes[self.name] = ir.UnitAttr.get()


@dataclass(frozen=True)
class Number:
    """An integer attribute, of so many bits upstream."""

    axis: str
    bits: int

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = int(op.attributes[self.axis].value)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = integer(self.bits, op.attribute(self.axis))


def integer(bits: int, value: int) -> Any:
    """The attribute of a signless integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), value)


@dataclass(frozen=True)
class Shape:
    """Our `shape`, `m16n8k16` for the letters `mnk`: upstream one attribute, or an integer of each letter."""

    letters: str
    mnemonic: str = ""
    axes: tuple[str, ...] = ("shape",)

    @property
    def attributes(self) -> tuple[str, ...]:
        return ("shape",) if self.mnemonic else tuple(self.letters)

    def to_ours(self, op: Any, draft: Draft) -> None:
        if self.mnemonic:
            extents = re.findall(r"= (\d+)", str(op.attributes["shape"]))
        else:
            extents = [str(op.attributes[letter].value) for letter in self.letters]
        draft.attributes["shape"] = "".join(f"{a}{b}" for a, b in zip(self.letters, extents, strict=True))

    def to_theirs(self, op: Any, draft: Draft) -> None:
        extents = dict(zip(self.letters, re.findall(r"\d+", op.attribute("shape")), strict=True))
        if self.mnemonic:
            text = ", ".join(f"{letter} = {extent}" for letter, extent in extents.items())
            draft.attributes["shape"] = ir.Attribute.parse(f"#nvvm.{self.mnemonic}<{text}>")
        else:
            draft.attributes |= {letter: integer(32, int(extent)) for letter, extent in extents.items()}


@dataclass(frozen=True)
class Inferred:
    """What upstream infers from the type of registers, a result or an operand of ours.

    It holds where upstream's attribute `unless` isn't there; that one has a rule of its own.
    """

    axis: str
    registers: str
    values: Mapping[str, str]
    unless: str = ""

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.unless,) if self.unless else ()

    def to_ours(self, op: Any, draft: Draft) -> None:
        if not self.unless or op.attributes.get(self.unless) is None:
            kind = _register(draft.operands.get(self.registers) or list(op.results))
            draft.attributes[self.axis] = self.values.get(kind, kind)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        kind = _register(draft.operands.get(self.registers) or list(op.operation.results))
        said, inferred = op.attribute(self.axis), self.values.get(kind, kind)
        if not self.unless and inferred != said:
            raise Inexpressible(f"upstream's has no {self.axis} {said}: it takes {inferred}")


def _register(values: list[Any]) -> str:
    """The type of the first register, which may be in a struct or (32 bits of it) in a vector."""
    if not values:
        return "none"
    kind = values[0].type
    text = str(kind.body[0] if isinstance(kind, llvm.StructType) else kind)
    return text if text == "vector<2xf16>" else re.sub(r"vector<\d+x(\w+)>", r"\1", text)


@dataclass(frozen=True)
class Count:
    """Our `num`, which upstream counts by its registers."""

    registers: str
    axes: tuple[str, ...] = ("num",)

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes["num"] = len(draft.operands[self.registers])

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


@dataclass(frozen=True)
class Repeats:
    """Our `num`, which upstream reads off its vector: how often that has what x1 of the shape has."""

    family: Any
    axes: tuple[str, ...] = ("num",)

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def to_ours(self, op: Any, draft: Draft) -> None:
        said = {axis: value for axis, value in draft.attributes.items() if axis in self.family.axes}
        once = self.family.form(**said | {"num": 1})
        registers = next(o.type for o in once.operands if o.name == "data")
        data = (draft.operands.get("data") or op.results)[0]
        draft.attributes["num"] = _length(str(data.type)) // _length(registers)

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


def _length(kind: str) -> int:
    match = re.match(r"vector<(\d+)x", kind)
    return int(match[1]) if match else 1


@dataclass(frozen=True)
class Predicate:
    """Our i1 operand, an attribute `name` of the enumeration `kind` upstream."""

    operand: str
    name: str
    kind: str
    values: Mapping[str, bool]

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.operand,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.name,)

    def to_ours(self, op: Any, draft: Draft) -> None:
        value = self.values[_token(op.attributes[self.name])]
        draft.operands[self.operand] = [llvm.mlir_constant(integer(1, value))]

    def to_theirs(self, op: Any, draft: Draft) -> None:
        value = constant(draft.operands.pop(self.operand)[0])
        if value is None:
            raise Inexpressible(f"upstream's {self.name} is an attribute, {self.operand} isn't constant")
        token = next(t for t, ours in self.values.items() if ours == bool(value))
        draft.attributes[self.name] = _enumerator(self.kind, token)


@dataclass(frozen=True)
class Implied:
    """An axis of ours that upstream has no word for, since the axis `by` tells its one legal value."""

    axis: str
    by: str
    values: Mapping[str, str]

    @property
    def axes(self) -> tuple[str, ...]:
        return (self.axis,)

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def to_ours(self, op: Any, draft: Draft) -> None:
        draft.attributes[self.axis] = self.values.get(draft.attributes[self.by], "")

    def to_theirs(self, op: Any, draft: Draft) -> None:
        pass


@dataclass(frozen=True)
class Run:
    """Our operands `axes`, which upstream has in one run of registers without saying where each ends."""

    family: Any
    axes: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        return ()

    def to_ours(self, op: Any, draft: Draft) -> None:
        counts = {operand.name: operand.count for operand in self.family.form(**draft.attributes).operands}
        registers = draft.operands.pop("run")
        for name in self.axes[:-1]:
            draft.operands[name], registers = registers[: counts[name]], registers[counts[name] :]
        draft.operands[self.axes[-1]] = registers

    def to_theirs(self, op: Any, draft: Draft) -> None:
        draft.operands["run"] = [register for name in self.axes for register in draft.operands.pop(name)]


def discardable(op: Any) -> dict[str, Any]:
    """The attributes that others put on an operation, which its dialect knows nothing of."""
    attributes = op.operation.attributes
    return {name: attributes[name] for name in attributes if "." in name}


_LISTS = {"operandSegmentSizes", "resultSegmentSizes"}


def unread(op: Any, pair: Pair) -> list[str]:
    """The attributes of upstream's operation that no rule of the pair reads: a later release may add some."""
    read = {name for rule in pair.rules for name in rule.attributes}
    return [name for name in op.attributes if "." not in name and name not in _LISTS | read]


def constant(value: Any) -> int | None:
    """The integer that a value always is, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("llvm.mlir.constant", "arith.constant"):
        return None
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.BoolAttr) or mlir.is_integer(attribute) else None


_SWEPT = ("llvm.mlir.constant", "arith.constant", "llvm.mlir.undef", "llvm.insertelement")


def sweep(values: Iterable[Any]) -> None:
    """Erases constants, and vectors built of one register, that nothing uses any more."""
    for value in dict.fromkeys(values):
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _SWEPT or list(owner.results[0].uses):
            continue
        held = list(owner.operands)
        owner.erase()
        sweep(held)
