"""The base class of Weft's operations: an op is its fields and a `check`."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any

from weft import mlir
from weft.dialects.effects import Effects
from weft.dialects.kinds import Kind, kind_on, known, module_with_target
from weft.errors import Diagnostic, Location, WeftError, shown
from weft.ir.sound_types import complaint
from weft.isa.suggest import did_you_mean
from weft.mlir import ext, ir
from weft.registry import extensions
from weft.target import Target

# A value that subclasses set. An annotation in the class would make it a field.
UNSET: Any = None

_checks: ContextVar[bool] = ContextVar("checks", default=True)
_chip: ContextVar[str | None] = ContextVar("chip", default=None)

if TYPE_CHECKING:
    Operand = ir.Value
    Result = ir.Value
else:
    Operand, Result = ext.Operand[Any], ext.Result[Any]


@contextmanager
def unchecked() -> Iterator[None]:
    """In the block, operations of this thread are verified against their declarations only, without `check`,
    so that illegal operations can be parsed and judged later.
    """
    token = _checks.set(False)
    try:
        yield
    finally:
        _checks.reset(token)


@contextmanager
def judged_on(chip: str | None) -> Iterator[None]:
    """In the block, the target of every operation is `chip`, whatever target its module has. None changes
    nothing.
    """
    token = _chip.set(chip)
    try:
        yield
    finally:
        _chip.reset(token)


class Op(ext.Operation):
    """An operation whose `check` is its verifier.

    A subclass declares operands, results and mandatory attributes as annotated fields (`ext`), optional
    attributes in `optional`, and returns from `check` the rest of the sentence that begins with its name, or
    None.
    """

    optional = {}  # noqa: RUF012 (an annotation would make it a field)
    returns = UNSET  # of operations on tiles: the types of the results, for the builder
    # Whether `check` depends only on attributes, on the types of operands and results, and on the target.
    decided_by_kind = False

    def check(self) -> str | None:
        """Why this op is illegal, as the rest of the sentence that begins with its name. It doesn't
        depend on constant operands: a legal op stays legal where MLIR folds an operand to a constant.
        """
        return None

    def check_constants(self) -> "str | Related | None":
        """Why the operands are illegal that are constants, or are computed by another operation. This is
        checked by builders, by passes that lower the op, and by `weft lint`, but not by the verifier.
        """
        return None

    @classmethod
    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        groups = [f for f in cls._fields if isinstance(f, ext.OperandDef)]
        varying = [f for f in groups if f.variadicity != ext.Variadicity.single]
        count = groups.index(varying[0]) if varying else len(groups)
        for number, group in enumerate(groups[:count]):
            setattr(cls, group.name, property(lambda self, number=number: self.operands[number]))
        # A single variadic group at the end needs no 'operandSegmentSizes', which the accessors of `ext`
        # would read.
        if len(varying) == 1 and varying[0] is groups[-1]:
            cls._ODS_OPERAND_SEGMENTS = None
            setattr(cls, groups[-1].name, property(lambda self: self.operands[count:]))
        results = [f for f in cls._fields if isinstance(f, ext.ResultDef)]
        if any(f.variadicity != ext.Variadicity.single for f in results[-1:]):
            cls._ODS_RESULT_SEGMENTS = None
            for number, field in enumerate(results[:-1]):
                setattr(cls, field.name, property(lambda self, number=number: self.results[number]))
            rest = len(results) - 1
            setattr(cls, results[-1].name, property(lambda self: self.results[rest:]))
        for trait in cls._traits:
            if isinstance(trait, Effects):
                trait.check_names(cls.OPERATION_NAME, [field.name for field in cls._fields])

    @staticmethod
    def verify_invariants(op: ir.OpView) -> bool:
        """MLIR's entry: emits `check`'s complaint at the op's location, or where it is `Within` the op."""
        if not (op.decided_by_kind and _checks.get()):
            message = _complaint(op)
        else:
            kind, sound = kind_of(op.operation), known(op.operation.context).sound
            message = None if kind in sound else _complaint(op)
            if message is None:
                sound.add(kind)
        if message is None:
            return True
        location_of(op, message).emit_error(f"'{op.operation.name}' op {message}")
        return False

    def attribute(self, name: str) -> Any:
        """The value of an attribute, or its default if it is optional and absent."""
        if name not in self.attributes:
            return self.optional[name]
        attribute = self.attributes[name]
        return attribute.value if isinstance(attribute, _PLAIN) else attribute

    def legal_values(self, name: str) -> str:
        """The values of a mandatory attribute, to append to the message that it is missing."""
        return ""

    @property
    def likely_segments(self) -> list[int] | None:
        """The `operandSegmentSizes` that an operation without it may mean; None if that isn't clear."""
        sizes = [int(group.variadicity == ext.Variadicity.single) for group in _operand_groups(self)]
        return sizes if sum(sizes) == len(self.operation.operands) else None

    @property
    def target(self) -> Target | None:
        """The target of the enclosing `gpu.module`; None without a module, or if it names no chip."""
        return judging_target(self.operation)


class Within(str):
    """A complaint of `check` about an operation in the op's region."""

    def __new__(cls, message: str, inner: ir.OpView) -> "Within":
        """The complaint, to be reported at the source location of `inner`."""
        complaint = super().__new__(cls, message)
        complaint.location = inner.location
        return complaint

    location: ir.Location


def location_of(op: ir.OpView, wrong: object) -> ir.Location:
    """The source location at which a complaint about an op is reported."""
    return wrong.location if isinstance(wrong, Within) else op.location


def judging_target(op: ir.Operation) -> Target | None:
    """The target for an operation's checks: that of `judged_on`, otherwise that of the enclosing module."""
    chip = _chip.get()
    return target_of(op) if chip is None else Target.of(chip)


def kind_of(op: ir.Operation) -> Kind:
    """The key of an operation: operations with equal keys are verified and lowered alike."""
    module = _chip.get() or module_with_target(op)
    target = module if module is None or isinstance(module, str) else hash(module.attributes["targets"])
    return kind_on(op, target)


def _complaint(op: ir.OpView) -> str | None:
    """Why an op is illegal, by its declaration or by its `check`."""
    with op.location:
        operation = op.operation
        kinds = (value.type for value in (*operation.operands, *operation.results))
        unsound = complaint(ir, (*kinds, *operation.attributes.values()))
        try:
            wrong = _miscounted(op) or _undeclared(op) or unsound
            return wrong or (op.check() if _checks.get() else None)
        except WeftError as error:  # the enclosing module names an unknown chip
            return error.diagnostics[0].message
        except Exception:
            name = str(op.operation.name)
            with extensions.blamed(f"the verifier of '{name}'", extensions.of_dialect(name)):
                raise


def kernel_of(op: ir.OpView) -> Any:
    """The `gpu.func` around an op; None without one."""
    kernel = op.operation.parent
    while kernel is not None and kernel.name != "gpu.func":
        kernel = kernel.parent and kernel.parent.operation
    return kernel


def target_of(op: ir.Operation) -> Target | None:
    """The target of the `gpu.module` around `op`, or None. Raises WeftError for an unknown chip."""
    module = module_with_target(op)
    if module is None:
        return None
    targets = module.attributes["targets"]
    cached = known(op.context).targets
    if hash(targets) not in cached:
        cached[hash(targets)] = _named_target(module, targets)
    return cached[hash(targets)]


def _named_target(module: ir.Operation, targets: ir.Attribute) -> Target | None:
    texts = [str(entry) for entry in targets]
    # The bindings have no class for the attribute. Upstream's default chip is sm_75.
    labels = (text.partition('chip = "')[2] for text in texts if "#nvvm.target" in text)
    chips = list(dict.fromkeys(label.partition('"')[0] or "sm_75" for label in labels))
    if len(chips) > 1:
        message = f"gpu.module must have one NVVM target, got {', '.join(chips)}"
        raise WeftError(Diagnostic(message, mlir.location(module.location)))
    if texts and not chips:
        message = f"gpu.module must have an NVVM target, got {', '.join(texts)}"
        raise WeftError(Diagnostic(message, mlir.location(module.location)))
    if not chips:
        return None
    try:
        return Target.of(chips[0])
    except WeftError as error:
        raise WeftError(Diagnostic(error.diagnostics[0].message, mlir.location(module.location))) from None


def _miscounted(op: ir.OpView) -> str | None:
    """A complaint about the number of operands, results or regions: the accessors would read past their
    ends.
    """
    operation = op.operation
    values_of = (operation.operands, operation.results, operation.regions)
    for (what, needed, varies), values in zip(_declared_counts(op.__class__), values_of, strict=True):
        if len(values) < len(needed) or (len(values) > len(needed) and not varies):
            least = "at least " if varies else ""
            named = f" ({', '.join(needed)})" if needed else ""
            plural = "" if len(needed) == 1 else "s"
            return f"expects {least}{len(needed)} {what}{plural}{named}, got {len(values)}"
    return None


@cache
def _declared_counts(kind: "type[Op]") -> tuple[tuple[str, list[str], bool], ...]:
    """For operands, results and regions of a class: what they are, the names of those that must be there, and
    whether there may be more.
    """
    counts = []
    for field, what in ((ext.OperandDef, "operand"), (ext.ResultDef, "result"), (ext.RegionDef, "region")):
        groups = [f for f in kind._fields if isinstance(f, field)]
        needed = [f.name for f in groups if f.variadicity == ext.Variadicity.single]
        counts.append((what, needed, len(needed) < len(groups)))
    return tuple(counts)


@cache
def _declared_attributes(kind: "type[Op]") -> tuple[Any, ...]:
    """The fields of a class that are attributes."""
    return tuple(field for field in kind._fields if isinstance(field, ext.AttributeDef))


def _undeclared(op: ir.OpView) -> str | None:
    """A complaint about a declared attribute that is missing or of the wrong class. IRDL's own verifier runs
    later.
    """
    attributes = op.operation.attributes
    for field in _declared_attributes(op.__class__):
        if field.name not in attributes:
            return f"expects the attribute '{field.name}'{op.legal_values(field.name)}"
        kind = field.constraint
        attribute = attributes[field.name]
        if kind is not Any and not _is(attribute, kind):
            return f"expects attribute '{field.name}' to be {_words(kind, attribute)}, got {attribute}"
    for name, default in op.optional.items():
        if name not in attributes:
            continue
        attribute = attributes[name]
        # With a default of None, any class is allowed.
        kind = type(attribute) if default is None else _CLASSES[type(default)]
        if not _is(attribute, kind):
            return f"expects attribute '{name}' to be {_words(kind, attribute)}, got {attribute}"
    return _bad_segments(op) or _unknown(op)


def _unknown(op: ir.OpView) -> str | None:
    """A complaint about an unknown attribute, such as a misspelled one. Names with a dot are allowed."""
    known = [field.name for field in _declared_attributes(op.__class__)] + list(op.optional)
    for name in op.operation.attributes:
        if "." not in name and name not in known and name != "operandSegmentSizes":
            legal = ", ".join(known) or "none"
            return f"has no attribute '{name}': it has {legal}{did_you_mean(name, known)}"
    return None


def _bad_segments(op: ir.OpView) -> str | None:
    """A complaint about 'operandSegmentSizes': with wrong sizes, the accessors would read past the
    operands.
    """
    if not op._ODS_OPERAND_SEGMENTS:
        return None
    groups = [group.name for group in _operand_groups(op)]
    attributes = op.operation.attributes
    if "operandSegmentSizes" not in attributes:
        sizes = op.likely_segments
        meant = f": write operandSegmentSizes = array<i32: {', '.join(map(str, sizes))}>" if sizes else ""
        return f"expects 'operandSegmentSizes' with the number of operands in {', '.join(groups)}{meant}"
    sizes = attributes["operandSegmentSizes"]
    if not isinstance(sizes, ir.DenseI32ArrayAttr):
        return f"expects 'operandSegmentSizes' to be array<i32>, got {sizes}"
    if len(sizes) != len(groups) or min(sizes) < 0 or sum(sizes) != len(op.operation.operands):
        return (
            f"expects 'operandSegmentSizes' of {len(groups)} groups ({', '.join(groups)}) that sum to "
            f"{len(op.operation.operands)}, got {sizes}"
        )
    for name, group, size in zip(groups, _operand_groups(op), sizes, strict=True):
        if group.variadicity == ext.Variadicity.single and size != 1:
            return f"expects one operand in the group {name} of 'operandSegmentSizes', got {size}"
        if group.variadicity == ext.Variadicity.optional and size > 1:
            return f"expects at most one operand in the group {name} of 'operandSegmentSizes', got {size}"
    return None


def _operand_groups(op: ir.OpView) -> list[Any]:
    return [field for field in op._fields if isinstance(field, ext.OperandDef)]


_KINDS = {
    "StringAttr": "a string",
    "FloatAttr": "a float",
    "IntegerAttr": "an integer",
    "BoolAttr": "true or false",
    "DenseI64ArrayAttr": "array<i64: ...>",
}


def _words(kind: Any, attribute: ir.Attribute) -> str:
    """A class of attributes in words, for a message about an attribute that isn't of that class."""
    if kind is ir.IntegerAttr and isinstance(attribute, kind):
        return mlir.INTEGER
    return _KINDS.get(kind.__name__, str(kind.__name__))


_CLASSES: dict[type, Any] = {
    bool: ir.BoolAttr, int: ir.IntegerAttr, float: ir.FloatAttr, str: ir.StringAttr,
}  # fmt: skip
"""The class of an optional attribute by the type of its default."""
_PLAIN = tuple(_CLASSES.values())


def _is(attribute: ir.Attribute, kind: Any) -> bool:
    """Whether an attribute is of a class. An integer must also have at most 64 bits."""
    return mlir.is_integer(attribute) if kind is ir.IntegerAttr else isinstance(attribute, kind)


_INTEGER_BITS = 64


def string_complaint(text: str) -> str | None:
    """Why a string can't be an MLIR string, which must be UTF-8; None if it can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"must be text that UTF-8 can encode, got {text!a} with a lone surrogate at {error.start}"
    return None


def as_attribute(value: object) -> object:
    """A Python value as an MLIR attribute: str, bool, int (i64), float (f32), or an attribute. Any other
    value is returned unchanged.
    """
    if isinstance(value, str):
        return value if string_complaint(value) else ir.StringAttr.get(value)
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int) and value.bit_length() < _INTEGER_BITS:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(_INTEGER_BITS), value)
    if isinstance(value, float):
        return ir.FloatAttr.get(ir.F32Type.get(), value)
    return value


def _is_default(value: object, default: object) -> bool:
    # NumPy's == returns an array, and an MLIR attribute cannot be compared with None.
    comparable = default is not None and isinstance(value, (str, int, float, ir.Attribute))
    return comparable and bool(default == value)


def build(
    kind: type[Op],
    *,
    operands: Sequence[Any] = (),
    results: Sequence[object] | Callable[[], Sequence[object]] = (),
    attributes: Mapping[str, object] | None = None,
) -> Any:
    """Builds an op at the insertion point and verifies it. Raises WeftError with the verifier's message.

    `operands` is a flat list, or a list of groups for an op with operand segments. Attributes that are None
    or equal to the op's default are omitted. `results` are types, or a function that computes them from the
    operands; it is called only if the operands are values.
    """
    check_in_a_module(kind)
    stated = {
        name: as_attribute(value)
        for name, value in (attributes or {}).items()
        if value is not None and not _is_default(value, kind.optional.get(name))
    }
    if kind._ODS_OPERAND_SEGMENTS:
        stated["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(group) for group in operands])
        operands = [value for group in operands for value in group]
    if wrong := _unusable(stated, operands):
        raise WeftError(Diagnostic(f"'{kind.OPERATION_NAME}' op {wrong}", _here()))
    types = _result_types(results)
    if wrong_types := [each for each in types if not isinstance(each, ir.Type)]:
        complaint = f"expects result types to be MLIR types, got {shown(wrong_types[0])}"
        raise WeftError(Diagnostic(f"'{kind.OPERATION_NAME}' op {complaint}", _here()))
    op = ir.Operation.create(kind.OPERATION_NAME, results=types, operands=list(operands), attributes=stated)
    try:
        op.verify()
        check_constants([op.opview])
    except mlir.MLIRError as failure:
        op.erase()
        raise mlir.error(failure) from None
    except WeftError:
        op.erase()
        raise
    return op.opview


def check_constants(ops: Iterable[ir.OpView]) -> None:
    """Raises WeftError for an operation with a constant operand that it can't have."""
    for op in ops:
        if isinstance(op, Op) and (message := op.check_constants()):
            raise refuse(op, message)


def as_float(value: object) -> object:
    """A number as a float, for an attribute. Any other value is returned unchanged; the verifier
    refuses it.
    """
    if not isinstance(value, Real):
        return value
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _result_types(results: Sequence[object] | Callable[[], Sequence[object]]) -> list[object]:
    """The types of results. If operands have types from which they can't be computed, a placeholder: the
    verifier then complains about the operands.
    """
    placeholder = ir.IntegerType.get_signless(1)
    try:
        types = results() if callable(results) else results
    except AttributeError:
        return [placeholder]
    return [placeholder if each is None else each for each in types]


def check_in_a_module(kind: type[Op]) -> None:
    """Raises WeftError if there is no insertion point."""
    try:
        _ = ir.InsertionPoint.current
    except ValueError:
        name = kind.OPERATION_NAME
        raise WeftError(f"'{name}' op must be built in a module: use `with weft.Module()`") from None


def _unusable(attributes: Mapping[str, object], operands: Iterable[object]) -> str | None:
    """A complaint about attributes or operands from which MLIR can't build an op."""
    for name, value in attributes.items():
        if isinstance(value, str):
            return f"attribute '{name}' {string_complaint(value)}"
        if not isinstance(value, ir.Attribute):
            legal = "a string, a number or an MLIR attribute"
            return f"expects attribute '{name}' to be {legal}, got {shown(value)}"
    for value in operands:
        if not isinstance(value, ir.Value):
            return f"expects operands to be MLIR values, got {shown(value)}"
    return None


def _here() -> Location | None:
    """The source location of ops that are built now."""
    probe = ir.Operation.create("builtin.unrealized_conversion_cast")
    try:
        return mlir.location(probe.location)
    finally:
        probe.erase()


@dataclass(frozen=True)
class Related:
    """A complaint about an operation that doesn't fit to another one, and a note about that one."""

    message: str
    other: ir.OpView
    note: str


def refuse(op: ir.Operation, wrong: str | Related) -> WeftError:
    """A pass's error about `op`, with its source location and name."""
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(wrong, Related):
        notes = (Diagnostic(wrong.note, mlir.location(wrong.other.location), "note"),)
        wrong = wrong.message
    message = f"'{op.operation.name}' op {wrong}"
    return WeftError(Diagnostic(message, mlir.location(op.location), notes=notes))
