"""Builders of the operations of instructions, with signatures for `help`, editors and type checkers."""

from functools import cached_property
from inspect import Parameter, Signature
from typing import Any

from weft.mlir import ext, ir

_TYPES = {ir.StringAttr: str, ir.IntegerAttr: int, ir.BoolAttr: bool}
_REGISTERS = "ir.Value | Sequence[ir.Value]"


class Builder:
    """A function that builds an operation. Its signature is read from the operation's table on demand."""

    def __init__(self, op: Any) -> None:
        self.op, self.__doc__, self.__module__ = op, op.__doc__, op.__module__
        self.__name__ = self.__qualname__ = str(op.OPERATION_NAME).partition(".")[2]

    def __call__(self, *unnamed: object, **named: object) -> Any:
        return self.op.make(*unnamed, **named)

    def __get__(self, holder: object, kind: object = None) -> "Builder":
        return self  # as a static method does: `help` recognizes functions by this method

    @cached_property
    def __signature__(self) -> Signature:
        parameters = [_operand(self.op, f) for f in self.op._fields if isinstance(f, ext.OperandDef)]
        for field in self.op._fields:
            if isinstance(field, ext.AttributeDef):
                kind: Any = _TYPES[field.constraint]
                parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, annotation=kind))
        for name, default in self.op.optional.items():
            kind = "int | None" if default is None else type(default)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        results = [f.variadicity for f in self.op._fields if isinstance(f, ext.ResultDef)]
        one = results == [ext.Variadicity.single]
        return Signature(parameters, return_annotation="ir.Value" if one else "ir.OpView")


def _operand(op: Any, field: Any) -> Parameter:
    if not hasattr(op, "family"):  # the address of a descriptor
        return Parameter(field.name, Parameter.POSITIONAL_OR_KEYWORD, annotation="ir.Value")
    if field.variadicity == ext.Variadicity.single or all(
        any(each.name == field.name for each in form.operands) for form in op.family.table
    ):
        return Parameter(field.name, Parameter.KEYWORD_ONLY, annotation=_REGISTERS)
    optional = f"{_REGISTERS} | None"
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=None, annotation=optional)


def builders(dialect: Any) -> dict[str, Builder]:
    """The builders of a dialect's operations, by name."""
    return {builder.__name__: builder for builder in map(Builder, dialect.operations)}
