"""Builders of operations, with signatures for `help`, editors and type checkers."""

import builtins
from functools import cached_property
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from typing import Any

from weft.dialects.op import build
from weft.mlir import ext, ir

_TYPES = {ir.StringAttr: str, ir.IntegerAttr: int, ir.BoolAttr: bool}
_REGISTERS = "ir.Value | Sequence[ir.Value]"


class Builder:
    """A function that builds the operation of an instruction. Its signature is read from the operation's
    table on demand. Its name has an underscore where Python uses that of the operation.
    """

    def __init__(self, op: Any) -> None:
        self.op, self.__doc__, self.__module__ = op, op.__doc__, op.__module__
        name = str(op.OPERATION_NAME).partition(".")[2]
        self.__name__ = self.__qualname__ = name + "_" * (iskeyword(name) or hasattr(builtins, name))

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


class TileBuilder(Builder):
    """A function that builds an operation on tiles. It takes the operands in their order, what the types of
    the results are made of, mandatory attributes, and then what is optional. It returns the result, a tuple
    of several, or the operation if there is none.

    `returns` of the operation has the types of the results, or is a function that computes them from operands
    and from other arguments, which the builder then takes. Without it, the builder takes the types.
    """

    def __call__(self, *unnamed: object, **named: object) -> Any:
        given = self.__signature__.bind(*unnamed, **named)
        given.apply_defaults()
        values, groups = given.arguments, list[list[Any]]()
        for field in self._operands:
            value = values[field.name]
            several = value if isinstance(value, list | tuple) else [value]
            absent = value is None and field.variadicity != ext.Variadicity.single
            groups.append([] if absent else list(several))
        flat = [each for group in groups for each in group]
        op = build(
            self.op,
            operands=groups if self.op._ODS_OPERAND_SEGMENTS else flat,
            results=lambda: self._results(values),
            attributes={name: _array(values[name]) for name in (*self._mandatory, *self.op.optional)},
        )
        results = tuple(op.operation.results)
        return op if not results else results if len(results) > 1 else results[0]

    @cached_property
    def _operands(self) -> list[Any]:
        return [field for field in self.op._fields if isinstance(field, ext.OperandDef)]

    @cached_property
    def _mandatory(self) -> dict[str, Any]:
        """The types of the mandatory attributes."""
        fields = (field for field in self.op._fields if isinstance(field, ext.AttributeDef))
        return {field.name: _TYPES[field.constraint] for field in fields}

    @cached_property
    def _made_of(self) -> dict[str, Any]:
        """The arguments of which the types of the results are made, with their types."""
        if callable(self.op.returns):
            parameters = signature(self.op.returns).parameters.values()
            return {p.name: "ir.Type" if p.annotation is ir.Type else p.annotation for p in parameters}
        results = (field.name for field in self.op._fields if isinstance(field, ext.ResultDef))
        return {} if self.op.returns else dict.fromkeys(results, "ir.Type")

    def _results(self, values: dict[str, Any]) -> list[Any]:
        """The types of the results, from the arguments."""
        if isinstance(self.op.returns, tuple):
            return [ir.Type.parse(each) for each in self.op.returns]
        made_of = [values[name] for name in self._made_of]
        return list(self.op.returns(*made_of)) if self.op.returns else made_of

    @cached_property
    def __signature__(self) -> Signature:
        operands = {f.name: "ir.Value" for f in self._operands if f.variadicity == ext.Variadicity.single}
        needed = {**operands, **self._made_of, **self._mandatory, **operands}
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters = [Parameter(name, kind, annotation=each) for name, each in needed.items()]
        for field in (f for f in self._operands if f.name not in operands):
            one = field.variadicity == ext.Variadicity.optional
            values = "ir.Value" if one else _REGISTERS
            parameters.append(Parameter(field.name, kind, default=None, annotation=f"{values} | None"))
        for name, default in self.op.optional.items():
            each = "object" if default is None else type(default)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=each))
        results = ["ir.Value"] * sum(isinstance(f, ext.ResultDef) for f in self.op._fields)
        several = f"tuple[{', '.join(results)}]"
        returned = several if len(results) > 1 else (*results, "ir.OpView")[0]
        return Signature(parameters, return_annotation=returned)


def _array(value: object) -> object:
    """A list of integers as an attribute. Any other value is returned unchanged."""
    return ir.DenseI64ArrayAttr.get(value) if isinstance(value, list) else value


def builders(dialect: Any, kind: type[Builder] = Builder) -> dict[str, Builder]:
    """The builders of a dialect's operations, by name."""
    return {builder.__name__: builder for builder in map(kind, dialect.operations)}
