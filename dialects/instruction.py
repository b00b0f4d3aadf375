"""The base of the operations that are one instruction each: an op is its operands and its table."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from weft.dialects.op import Op, build
from weft.isa.family import Family, Registers
from weft.mlir import ext, ir

_ATTRIBUTES = {str: ir.StringAttr, int: ir.IntegerAttr, bool: ir.BoolAttr, "str": ir.StringAttr}


class InstructionOp(Op):
    """An operation that spells one form of `family`.

    A subclass declares operands and results as fields, named as the table's operands are. The axes of the
    table become attributes: mandatory, or optional with the default that the form has. An axis that the
    operands already say is given in `derived`, as a function of the op.
    """

    family = None
    derived = {}  # noqa: RUF012 (an annotation would make it a field)

    @classmethod
    def __init_subclass__(cls, *, family: Family[Any] | None = None, **arguments: Any) -> None:
        if family is not None:
            cls.family = family
            cls.optional = dict(cls.__dict__.get("optional", {}))
            annotations = cls.__dict__.get("__annotations__", {})
            for field in fields(family.form):
                if field.name in cls.derived:
                    continue
                if field.default is MISSING:
                    annotations[field.name] = _attribute_class(field.type)
                else:
                    cls.optional[field.name] = field.default
            cls.__annotations__ = annotations
        super().__init_subclass__(**arguments)

    @property
    def form(self) -> Any:
        """What the op spells, legal or not."""
        return self.family.form(**{axis: self._axis(axis) for axis in self.family.axes})

    def _axis(self, name: str) -> Any:
        if name in self.derived:
            return self.derived[name](self)
        return self.attribute(name)

    def values(self, name: str) -> list[Any]:
        """The registers of one operand of the form; an immediate is its attribute's value."""
        found = getattr(self, name)
        if found is None:
            return []
        return list(found) if isinstance(found, Sequence | ir.OpOperandList) else [found]

    def check(self) -> str | None:
        chip = self.target.chip.name if self.target else None
        form = self.form
        verdict = self.family.judge(form, chip)
        if verdict is not None:
            return str(verdict)
        for operand in form.operands:
            if found := self._operand_complaint(operand):
                return found
        return self.check_more(form)

    def check_more(self, form: Any) -> str | None:
        """What a subclass has to say beyond the table, as `check` does."""
        return None

    def _operand_complaint(self, operand: Registers) -> str | None:
        """Why an operand isn't what the row says."""
        if operand.role == "immediate":
            got = self.attribute(operand.name)
            if not operand.values or got in operand.values:
                return None
            return f"expects {operand.name} to be {_one_of(operand.values)}, got {got}"
        if operand.role == "out":
            want, result = struct_of(operand), getattr(self, operand.name).type
            return None if result == want else f"expects to return {want}, got {result}"
        return registers_complaint(operand, [value.type for value in self.values(operand.name)])


def _attribute_class(annotation: Any) -> Any:
    names = {"str": ir.StringAttr, "int": ir.IntegerAttr, "bool": ir.BoolAttr}
    return names[annotation if isinstance(annotation, str) else annotation.__name__]


def _one_of(values: Sequence[int]) -> str:
    step = values[1] - values[0] if len(values) > 2 else 0
    if step and tuple(range(values[0], values[-1] + 1, step)) == tuple(values):
        by = "" if step == 1 else f" by {step}"
        return f"{values[0]} to {values[-1]}{by}"
    return " or ".join(map(str, values))


def registers_complaint(wanted: Registers, got: Sequence[Any]) -> str | None:
    """Why the registers of one operand aren't what the row says."""
    types = sorted({str(kind) for kind in got})
    if len(got) == wanted.count and types == [wanted.type]:
        return None
    if wanted.count == len(got) == 1:
        return f"expects {wanted.name} of type {wanted.type}, got {types[0]}"
    found = f"{len(got)} of {' and '.join(types)}" if got else "none"
    return f"expects {wanted.count} {wanted.name.upper()} registers of {wanted.type}, got {found}"


def struct_of(registers: Registers) -> Any:
    """The result type of an instruction: a struct of registers, or the bare register where there is one."""
    return _type(
        registers.type
        if registers.count == 1
        else f"!llvm.struct<({', '.join([registers.type] * registers.count)})>"
    )


def _type(text: str) -> Any:
    return ir.Type.parse(text)
