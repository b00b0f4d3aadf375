"""Rules that relate an operation of upstream's `nvvm` dialect to one of ours, in both directions."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft import mlir
from weft.isa.computed import computed
from weft.isa.suggest import did_you_mean
from weft.mlir import ir, llvm, nvvm


class Inexpressible(Exception):
    """Why upstream's dialect can't express an operation of ours."""


@dataclass
class Draft:
    """An operation before it is built: its operands with our names, its attributes with its own."""

    operands: dict[str, list[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


class Rule:
    """One property of an operation, as both dialects express it."""

    axis: str

    @property
    def axes(self) -> list[str]:
        """Our attributes (or operands) that the rule reads and writes: the words of `axis`."""
        return self.axis.split()

    @property
    def attributes(self) -> tuple[str, ...]:
        """Upstream's attributes that the rule reads."""
        return ()

    def to_ours(self, op: ir.OpView, draft: Draft) -> None:
        """Sets the property in a draft of ours from upstream's `op`."""
        raise NotImplementedError

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        """Sets the property in a draft of upstream's from our `op`, unless upstream infers it. Raises
        Inexpressible.
        """


class OfAttribute(Rule):
    """A rule that reads upstream's attribute `name`."""

    name: str

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class Pair:
    """An operation of ours and one of upstream's with the same meaning.

    `operands` lists ours in upstream's order, with `*` for any number of registers, `?` for one or none, and
    `:i32` for a constant of that type that is an attribute of ours (`?:i64` if it is optional). `vectors` are
    the operands and results that are vectors upstream, even of a single register. `broken` returns why
    upstream translates a form of ours to wrong LLVM IR, or None. `later` maps attributes of later releases of
    upstream's to what they mean.
    """

    ours: Any
    theirs: Any
    operands: str = ""
    rules: tuple[Rule, ...] = ()
    vectors: tuple[str, ...] = ()
    broken: Callable[[Any], str | None] = lambda form: None
    later: Mapping[str, str] = field(default_factory=dict)

    def slots(self) -> list[tuple[str, str]]:
        """Name and kind (`*`, `?`, `:i32`, `?:i64` or nothing) of each operand."""
        return re.findall(r"(\w+)(\S*)", self.operands)

    @property
    def segmented(self) -> bool:
        """Whether upstream's operation has the number of operands of each slot in an attribute."""
        return getattr(self.theirs, "_ODS_OPERAND_SEGMENTS", None) is not None


@dataclass(frozen=True)
class Token(OfAttribute):
    """An attribute `name` of upstream's enumeration `kind`. It corresponds to all axes.

    `values` maps its tokens to our values; without it, both are equal. `absent` is our value if upstream's
    attribute is absent, or None if another rule sets it. If `needed` is true of our operation, upstream
    requires the attribute even for the value `absent`.
    """

    axis: str
    name: str
    kind: str
    values: Mapping[str, int | str] | None = None
    absent: int | str | None = None
    needed: Callable[[Any], bool] = lambda op: False

    @computed
    def _values(self) -> Mapping[str, int | str]:
        return {str(t): str(t) for t in getattr(nvvm, self.kind)} if self.values is None else self.values

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        attribute = op.attributes.get(self.name)
        value = self.absent if attribute is None else self._values[_token(attribute)]
        if value is not None:
            draft.attributes |= dict.fromkeys(self.axes, value)

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        values = {axis: op.attribute(axis) for axis in self.axes}
        value = values[self.axes[0]]
        if len(set(values.values())) > 1:
            raise Inexpressible(f"the nvvm operation has one {self.name} for {_listed(values)}")
        if value == self.absent and not self.needed(op):
            return
        token = next((t for t, ours in self._values.items() if ours == value), None)
        if token is None:
            raise Inexpressible(f"the nvvm operation has no {_listed(values)}")
        draft.attributes[self.name] = _enumerator(self.kind, token)


def _token(attribute: ir.Attribute) -> str:
    """`f16` of `#nvvm.mma_type<f16>`, `min` of `#nvvm<reduction_kind min>`."""
    return re.split(r"[< ]", str(attribute).rstrip(">"))[-1]


def _enumerator(kind: str, token: str) -> ir.Attribute:
    return ir.AttrBuilder.get(f"nvvm.{kind}Attr")(token, ir.Context.current)


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(spelled(axis, value) for axis, value in values.items())


def spelled(axis: str, value: bool | str) -> str:
    """An axis and its value, for a message."""
    return axis if value is True else f"{axis} {value or 'none'}"


@dataclass(frozen=True)
class Flag(OfAttribute):
    """A unit attribute of upstream's. Our axis is true if it is present."""

    axis: str
    name: str

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        draft.attributes[self.axis] = op.attributes.get(self.name) is not None

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        if op.attribute(self.axis):
            draft.attributes[self.name] = ir.UnitAttr.get()


@dataclass(frozen=True)
class Number(Rule):
    """An integer attribute, upstream of `bits` bits."""

    axis: str
    bits: int

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.axis,)

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        draft.attributes[self.axis] = int(op.attributes[self.axis].value)

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        draft.attributes[self.axis] = integer(self.bits, op.attribute(self.axis))


def integer(bits: int, value: int) -> ir.Attribute:
    """The attribute of a signless integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), value)


@dataclass(frozen=True)
class Shape(Rule):
    """Our `shape`, such as `m16n8k16`. Upstream it is one attribute, or an integer for each of `letters`."""

    letters: str
    mnemonic: str = ""
    axis: str = "shape"

    @property
    def attributes(self) -> tuple[str, ...]:
        return ("shape",) if self.mnemonic else tuple(self.letters)

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        if self.mnemonic:
            extents = re.findall(r"= (\d+)", str(op.attributes["shape"]))
        else:
            extents = [str(op.attributes[letter].value) for letter in self.letters]
        draft.attributes["shape"] = "".join(f"{a}{b}" for a, b in zip(self.letters, extents, strict=True))

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        extents = dict(zip(self.letters, re.findall(r"\d+", op.attribute("shape")), strict=True))
        if self.mnemonic:
            text = ", ".join(f"{letter} = {extent}" for letter, extent in extents.items())
            draft.attributes["shape"] = ir.Attribute.parse(f"#nvvm.{self.mnemonic}<{text}>")
        else:
            draft.attributes |= {letter: integer(32, int(extent)) for letter, extent in extents.items()}


@dataclass(frozen=True)
class Inferred(Rule):
    """An axis that upstream infers from the type of an operand or result.

    It is inferred only if upstream's attribute `unless` is absent. That attribute has a rule of its own.
    """

    axis: str
    registers: str
    values: Mapping[str, str]
    unless: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.unless,) if self.unless else ()

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        if not self.unless or op.attributes.get(self.unless) is None:
            kind = _register(draft.operands.get(self.registers) or list(op.results))
            draft.attributes[self.axis] = self.values.get(kind, kind)

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        kind = _register(draft.operands.get(self.registers) or list(op.operation.results))
        value, inferred = op.attribute(self.axis), self.values.get(kind, kind)
        if not self.unless and inferred != value:
            raise Inexpressible(f"the nvvm operation infers {self.axis} {inferred}, got {value}")


def _register(values: list[ir.Value]) -> str:
    """The type of the first register, which may be in a struct or a vector."""
    if not values:
        return "none"
    kind = values[0].type
    text = str(kind.body[0] if isinstance(kind, llvm.StructType) else kind)
    return text if text == "vector<2xf16>" else re.sub(r"vector<\d+x(\w+)>", r"\1", text)


@dataclass(frozen=True)
class Count(Rule):
    """Our `num`, which upstream infers from the number of registers."""

    registers: str
    axis: str = "num"

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        draft.attributes["num"] = len(draft.operands[self.registers])


@dataclass(frozen=True)
class Repeats(Rule):
    """Our `num`, which upstream infers from its vector: the ratio of its length to that of `x1`."""

    family: Any
    axis: str = "num"

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        axes = {axis: value for axis, value in draft.attributes.items() if axis in self.family.axes}
        once = self.family.form(**axes | {"num": 1})
        registers = next(o.type for o in once.operands if o.name == "data")
        data = (draft.operands.get("data") or op.results)[0]
        draft.attributes["num"] = _length(str(data.type)) // _length(registers)


def _length(kind: str) -> int:
    match = re.match(r"vector<(\d+)x", kind)
    return int(match[1]) if match else 1


@dataclass(frozen=True)
class Predicate(OfAttribute):
    """Our i1 operand. Upstream it is an attribute `name` of the enumeration `kind`."""

    axis: str
    name: str
    kind: str
    values: Mapping[str, bool]

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        value = self.values[_token(op.attributes[self.name])]
        draft.operands[self.axis] = [llvm.mlir_constant(integer(1, value))]

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        value = constant(draft.operands.pop(self.axis)[0])
        if value is None:
            raise Inexpressible(f"{self.axis} must be a constant, since nvvm's {self.name} is an attribute")
        token = next(t for t, ours in self.values.items() if ours == bool(value))
        draft.attributes[self.name] = _enumerator(self.kind, token)


@dataclass(frozen=True)
class Implied(Rule):
    """An axis of ours that upstream lacks, since the axis `by` implies its only legal value."""

    axis: str
    by: str
    values: Mapping[str, str]

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        draft.attributes[self.axis] = self.values.get(draft.attributes[self.by], "")


@dataclass(frozen=True)
class Run(Rule):
    """Our operands, which upstream has as one list of registers."""

    family: Any
    axis: str

    def to_ours(self, op: ir.Operation, draft: Draft) -> None:
        counts = {operand.name: operand.count for operand in self.family.form(**draft.attributes).operands}
        registers = draft.operands.pop("run")
        for name in self.axes[:-1]:
            draft.operands[name], registers = registers[: counts[name]], registers[counts[name] :]
        draft.operands[self.axes[-1]] = registers

    def to_theirs(self, op: ir.OpView, draft: Draft) -> None:
        draft.operands["run"] = [register for name in self.axes for register in draft.operands.pop(name)]


def discardable(op: ir.Operation) -> dict[str, ir.Attribute]:
    """An operation's discardable attributes: those of other dialects. Weft's own would be ignored upstream,
    or mean something else here.
    """
    attributes = op.operation.attributes
    return {name: attributes[name] for name in attributes if "." in name and not name.startswith(OWN)}


OWN = "weft."
"""The prefix of the names of Weft's attributes."""


_LISTS = {"operandSegmentSizes", "resultSegmentSizes"}


def unread(op: ir.Operation, pair: Pair) -> str | None:
    """A complaint about an attribute of upstream's operation that no rule reads, such as one of a later
    release.
    """
    read = dict.fromkeys(name for rule in pair.rules for name in rule.attributes)
    for name in op.attributes:
        if "." in name or name in _LISTS or name in read:
            continue
        if name in pair.later:
            return f"has attribute '{name}', which means {pair.later[name]}"
        legal = ", ".join(read) or "none"
        return f"has no attribute '{name}': it has {legal}{did_you_mean(name, read)}"
    return None


def constant(value: ir.Value) -> int | None:
    """The integer value of a constant, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("llvm.mlir.constant", "arith.constant"):
        return None
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.BoolAttr) or mlir.is_integer(attribute) else None


_SWEPT = ("llvm.mlir.constant", "arith.constant", "llvm.mlir.undef", "llvm.insertelement")


def sweep(values: Iterable[ir.Value]) -> None:
    """Erases unused constants and unused vectors of one register."""
    for value in dict.fromkeys(values):
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _SWEPT or list(owner.results[0].uses):
            continue
        operands = list(owner.operands)
        owner.erase()
        sweep(operands)
