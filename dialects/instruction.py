"""The base class of operations that spell one instruction. An op is its operands and its table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from inspect import get_annotations
from typing import Any

from weft.dialects.effects import ORDERS
from weft.dialects.op import UNSET, Op, Operand, Related, Result, build
from weft.errors import WeftError
from weft.isa.family import Family, Registers, choice, number_choice
from weft.mlir import ext, ir

# From a name to the registers of an operand, or to an attribute's value, of an op or of one that is to be
# built.
Lookup = Callable[[str], Any]


@dataclass(frozen=True)
class SpaceOf:
    """The state space of an address, from its pointer type: a derived axis."""

    operand: str
    spaces: Mapping[str, str]

    def __call__(self, lookup: Lookup) -> str:
        return self.spaces.get(str(lookup(self.operand)[0].type), "unknown")

    def complaint(self, lookup: Lookup) -> str | None:
        """A complaint about the address's type, or None."""
        got = str(lookup(self.operand)[0].type)
        if got in self.spaces:
            return None
        return f"expects {self.operand} of type {' or '.join(self.spaces)}, got {got}"


_MOST_LISTED = 16  # values of an attribute in a message
_INPUTS: tuple[Any, Any] = (Operand, Sequence[Operand])
_RESULTS: tuple[Any, Any] = (Result, Sequence[Result])


def judge(family: Family[Any], op: ir.OpView) -> str | None:
    """The table's complaint about the op's form on the op's target, or None."""
    verdict = family.judge(op.form, op.target.chip.name if op.target else None)
    return None if verdict is None else str(verdict)


class InstructionOp(Op):
    """An operation that spells one form of `family`.

    `signature` has the names of the table's operands, and then of its results, with `*` for any number of
    registers: "a* b* c* -> d"; fields may do the same. Without `traits`, it orders all accesses to memory.
    The axes of the table become attributes: mandatory, or optional with the form's default. Immediates become
    optional attributes with their own defaults, flags become optional attributes that are false by default.
    `derived` contains the axes that follow from operands, as functions. Registers that an instruction updates
    are the operand `inouts`, which has the type of a result.
    """

    family = UNSET
    signature = ""
    derived = {}  # noqa: RUF012 (an annotation would make it a field)
    decided_by_kind = True

    @classmethod
    def __init_subclass__(
        cls,
        *,
        family: Family[Any] | None = None,
        immediates: Mapping[str, int | None] | None = None,
        traits: Sequence[Any] = (ORDERS,),
        **arguments: object,
    ) -> None:
        if family is not None:
            cls.family = family
            cls.immediates = tuple(immediates or ())
            cls.optional = {**cls.__dict__.get("optional", {}), **(immediates or {})}
            inputs, _, results = cls.signature.partition("->")
            declared = {each.rstrip("*"): _INPUTS["*" in each] for each in inputs.split()}
            declared |= {each.rstrip("*"): _RESULTS["*" in each] for each in results.split()}
            declared |= get_annotations(cls)
            for field in fields(family.form):
                if field.name in cls.derived:
                    continue
                if field.default is not MISSING:
                    cls.optional[field.name] = field.default
                elif field.type in (bool, "bool"):
                    cls.optional[field.name] = False
                else:
                    declared[field.name] = attribute_class(field.type)
            cls.__annotations__ = declared
            arguments["traits"] = list(traits)
        super().__init_subclass__(**arguments)

    @classmethod
    def make(cls, *unnamed: object, **named: object) -> ir.OpView | ir.Value:
        """Builds the op from its operands (a value, or a list of registers) and attributes by name. Returns
        its result if it has one, otherwise the op. Raises WeftError if the form isn't legal.
        """
        names = [f.name for f in cls._fields if isinstance(f, ext.OperandDef)]
        if unnamed:
            declared = [f.name for f in cls._fields if not isinstance(f, ext.OperandDef | ext.ResultDef)]
            raise WeftError(
                f"'{cls.OPERATION_NAME}' op takes operands and attributes by name: operands "
                f"{', '.join(names) or 'none'}; attributes {', '.join([*declared, *cls.optional]) or 'none'}"
            )
        groups = {name: _listed(named.pop(name, None)) for name in names}
        results = cls._results(groups, named)
        op = build(
            cls,
            operands=list(groups.values())
            if cls._ODS_OPERAND_SEGMENTS
            else [value for group in groups.values() for value in group],
            results=results,
            attributes=named,
        )
        return op.operation.results[0] if len(results) == 1 else op

    @classmethod
    def _results(
        cls, groups: Mapping[str, list[ir.Value]], attributes: Mapping[str, object]
    ) -> list[ir.Type]:
        """The types of the results. For an illegal form, placeholders, so that the verifier can give the
        reason.
        """
        form = cls._spelled(groups, attributes)
        if form is None or form not in cls.family.table:
            return [ir.IntegerType.get_signless(32) for f in cls._fields if isinstance(f, ext.ResultDef)]
        return [struct_of(operand) for operand in _results_of(form)]

    @classmethod
    def _spelled(cls, groups: Mapping[str, list[ir.Value]], attributes: Mapping[str, object]) -> Any:
        """The form of these operands and attributes; None if one of them is missing or of the wrong type."""
        operands = [f for f in cls._fields if isinstance(f, ext.OperandDef)]
        needed = [f.name for f in operands if f.variadicity == ext.Variadicity.single]
        values = [value for group in groups.values() for value in group]
        if not all(groups[name] for name in needed) or not all(isinstance(v, ir.Value) for v in values):
            return None
        axes = {
            axis: cls.derived[axis](lambda name: groups.get(name, attributes.get(name)))
            if axis in cls.derived
            else attributes.get(axis, cls.optional.get(axis))
            for axis in cls.family.axes
        }
        return cls.family.form(**axes) if all(isinstance(v, str | int) for v in axes.values()) else None

    @property
    def form(self) -> Any:
        """The form of the op, legal or not."""
        return self.family.form(
            **{
                axis: self.derived[axis](self._lookup) if axis in self.derived else self.attribute(axis)
                for axis in self.family.axes
            }
        )

    @property
    def ptx_version(self) -> tuple[int, int]:
        """The first PTX version that has the op's form, which must be legal."""
        version: tuple[int, int] = self.family.table[self.form].ptx
        return version

    def _lookup(self, name: str) -> Any:
        if any(f.name == name and isinstance(f, ext.OperandDef) for f in self._fields):
            return self.values(name)
        return self.attribute(name) if name in self.operation.attributes else None

    def values(self, name: str) -> list[ir.Value]:
        """The registers of one operand."""
        return _listed(getattr(self, name))

    def check(self) -> str | None:
        for axis in self.derived.values():
            if isinstance(axis, SpaceOf) and (wrong := axis.complaint(self._lookup)):
                return wrong
        form = self.form
        if complaint := judge(self.family, self):
            return complaint
        results = list(self.operation.results)
        for operand in form.operands:
            if operand.role == "immediate":
                complaint = _immediate_complaint(operand, self.attribute(operand.name))
            elif operand.role in ("out", "inout"):
                want, got = struct_of(operand), results.pop(0).type if results else None
                if got is None or got != want:
                    return f"expects to return {want}, got {got or 'nothing'}"
                if operand.role == "inout" and self.inouts.type != want:
                    return f"expects inouts of type {want}, got {self.inouts.type}"
            else:
                values = self.values(operand.name)
                complaint = registers_complaint(operand, [value.type for value in values])
            if complaint:
                return complaint
        if results:
            total = len(self.operation.results)
            count = total - len(results)
            return f"expects {count} result{'' if count == 1 else 's'}, got {total}"
        return self._stray_operand(form)

    def legal_values(self, name: str) -> str:
        values = self.family.values(name, self.target.chip.name if self.target else None)
        if not 0 < len(values) <= _MOST_LISTED:
            return ""
        return f": {choice(str(each) or 'none' for each in values)}"

    def check_constants(self) -> str | Related | None:
        kind: Any = type(self)
        if not _limits_operands(kind):
            return None
        limited = [o for o in self.form.operands if o.role == "in" and o.values]
        return next((wrong for o in limited if (wrong := _constant_complaint(o, self.values(o.name)))), None)

    def _stray_operand(self, form: Any) -> str | None:
        """A complaint about an operand or immediate that this form of the instruction doesn't have."""
        known = [operand.name for operand in form.operands]
        present = [name for name in self.immediates if name in self.operation.attributes]
        present += [f.name for f in self._fields if isinstance(f, ext.OperandDef) and self.values(f.name)]
        for name in present:
            if name not in known and name != "inouts":
                legal = self._legal_with(name, form)
                return f"takes no {name} in this form: its operands are {', '.join(known)}{legal}"
        return None

    def _legal_with(self, operand: str, form: Any) -> str:
        """The nearest instruction with this operand, to append to a message, or, where it is spelled like the
        op's own, the types of the operands by which they differ.
        """
        near = self.family.closest_with(operand, form, self.target.chip.name if self.target else None)
        if near is None:
            return ""
        if near.ptx != form.ptx:
            return f"; nearest legal with {operand}: {near.ptx}"
        own = [(each.name, each.count, each.type) for each in form.operands]
        other = [o for o in near.operands if (o.name, o.count, o.type) not in own and o.name != operand]
        return f"; legal with {' and '.join(f'{o.name} of type {o.type}' for o in other)}" if other else ""


def repeated(op: ir.Operation, operands: Mapping[str, Sequence[ir.Value]]) -> ir.Operation:
    """An operation like `op` with other registers of the same types, in the order of its operands. It isn't
    verified, since `op` was.
    """
    values = [value for registers in operands.values() for value in registers]
    kinds = [result.type for result in op.results]
    return ir.Operation.create(op.name, results=kinds, operands=values, attributes=dict(op.attributes))


@lru_cache(maxsize=1024)
def _results_of(form: Any) -> tuple[Registers, ...]:
    return tuple(operand for operand in form.operands if operand.role in ("out", "inout"))


def attribute_class(annotation: Any) -> Any:
    """The attribute that holds a value of a field of this type."""
    classes = {"str": ir.StringAttr, "int": ir.IntegerAttr}
    return classes[annotation if isinstance(annotation, str) else annotation.__name__]


def _listed(value: Any) -> list[ir.Value]:
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) and not isinstance(value, ir.Value | str) else [value]


@cache
def _limits_operands(kind: Any) -> bool:
    """Whether a form of these ops takes only some values in a register."""
    return any(o.role == "in" and o.values for form in kind.family.table for o in form.operands)


def _immediate_complaint(operand: Registers, got: int) -> str | None:
    if not operand.values or got in operand.values:
        return None
    return f"{operand.name} must be {number_choice(operand.values)}, got {got}"


def _constant_complaint(operand: Registers, values: Sequence[ir.Value]) -> str | None:
    """A complaint about a constant in a register that PTX would accept as an immediate."""
    for value in values:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.name not in (
            "arith.constant",
            "llvm.mlir.constant",
        ):
            continue
        if complaint := _immediate_complaint(operand, owner.operation.attributes["value"].value):
            return complaint
    return None


def registers_complaint(wanted: Registers, got: Sequence[ir.Type]) -> str | None:
    """A complaint about an operand's registers, if their number or type differs from the row's."""
    types = sorted({str(kind) for kind in got})
    if len(got) == wanted.count and types == [wanted.type]:
        return None
    if wanted.count == 1:
        actual = types[0] if len(got) == 1 else f"{len(got)} values" if got else "none"
        return f"expects {wanted.name} of type {wanted.type}, got {actual}"
    actual = f"{len(got)} of {' and '.join(types)}" if got else "none"
    return f"expects {wanted.count} {wanted.name.upper()} registers of {wanted.type}, got {actual}"


def struct_of(registers: Registers) -> ir.Type:
    """The result type of an instruction: a struct of registers, or the type of a single register."""
    return struct_type([registers.type] * registers.count)


def struct_type(kinds: Sequence[str]) -> ir.Type:
    """The type of several registers: a struct, or the type of a single register."""
    return ir.Type.parse(kinds[0] if len(kinds) == 1 else f"!llvm.struct<({', '.join(kinds)})>")
