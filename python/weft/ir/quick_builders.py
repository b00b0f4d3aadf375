"""Builders of the operations that kernels mostly consist of, in a third of the time of upstream's.

Upstream's builders look up an operation's class, convert each operand and infer the types of results. These
know the types, and build the same operation. They leave to upstream's what they don't know: operands that
aren't values, and options.
"""

import types
from collections.abc import Callable, Iterable
from typing import Any

Builder = Callable[..., Any]

_BINARY = (
    *("addi", "subi", "muli", "divui", "divsi", "remui", "remsi", "minsi", "maxsi", "minui", "maxui"),
    *("andi", "ori", "xori", "shli", "shrui", "shrsi"),
    *("addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf"),
)
_CASTS = ("index_cast", "extui", "extsi", "trunci", "bitcast", "extf", "truncf")


def arith(ir: Any, upstream: Any) -> types.ModuleType:
    """The `arith` dialect of upstream's bindings with quick builders."""
    quick = {name: _binary(ir, f"arith.{name}", getattr(upstream, name)) for name in _BINARY}
    quick |= {name: _cast(ir, f"arith.{name}", getattr(upstream, name)) for name in _CASTS}
    quick |= {"constant": _constant(ir, upstream.constant), "select": _select(ir, upstream.select)}
    return _with(upstream, quick | {"cmpi": _cmpi(ir, upstream.cmpi)})


def llvm(ir: Any, upstream: Any) -> types.ModuleType:
    """The `llvm` dialect of upstream's bindings with quick builders."""
    names = ("bitcast", "ptrtoint", "inttoptr", "load")
    quick = {name: _cast(ir, f"llvm.{name}", getattr(upstream, name)) for name in names}
    quick["extractvalue"] = _extractvalue(ir, upstream.extractvalue)
    return _with(upstream, quick | {"getelementptr": _getelementptr(ir, upstream.getelementptr)})


def _with(upstream: Any, quick: dict[str, Builder]) -> types.ModuleType:
    """A copy of a module in which builders are replaced."""
    copy = types.ModuleType(upstream.__name__, upstream.__doc__)
    vars(copy).update(vars(upstream))
    vars(copy).update(quick)
    return copy


def _are_values(ir: Any, values: Iterable[Any]) -> bool:
    return all(isinstance(value, ir.Value) for value in values)


def _binary(ir: Any, name: str, general: Builder) -> Builder:
    """Builds an operation of two values of its result's type."""
    value = ir.Value

    def build(lhs: Any, rhs: Any, **options: Any) -> Any:
        if options or not (isinstance(lhs, value) and isinstance(rhs, value)):
            return general(lhs, rhs, **options)
        return ir.Operation.create(name, results=[lhs.type], operands=[lhs, rhs]).result

    return build


def _cast(ir: Any, name: str, general: Builder) -> Builder:
    """Builds an operation of one value whose result's type is given."""
    kind, value = ir.Type, ir.Value

    def build(result: Any, operand: Any, **options: Any) -> Any:
        if options or not (isinstance(result, kind) and isinstance(operand, value)):
            return general(result, operand, **options)
        return ir.Operation.create(name, results=[result], operands=[operand]).result

    return build


def _constant(ir: Any, general: Builder) -> Builder:
    def constant(result: Any, value: Any, **options: Any) -> Any:
        if options or not isinstance(value, int):
            return general(result, value, **options)
        attributes = {"value": ir.IntegerAttr.get(result, value)}
        return ir.Operation.create("arith.constant", results=[result], attributes=attributes).result

    return constant


def _select(ir: Any, general: Builder) -> Builder:
    def select(condition: Any, true: Any, false: Any, **options: Any) -> Any:
        operands = [condition, true, false]
        if options or not _are_values(ir, operands):
            return general(*operands, **options)
        return ir.Operation.create("arith.select", results=[true.type], operands=operands).result

    return select


def _cmpi(ir: Any, general: Builder) -> Builder:
    scalars = ir.IntegerType, ir.IndexType

    def cmpi(predicate: Any, lhs: Any, rhs: Any, **options: Any) -> Any:
        if options or not _are_values(ir, (lhs, rhs)) or not isinstance(lhs.type, scalars):
            return general(predicate, lhs, rhs, **options)
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(predicate))
        return ir.Operation.create(
            "arith.cmpi",
            results=[ir.IntegerType.get_signless(1)],
            operands=[lhs, rhs],
            attributes={"predicate": number},
        ).result

    return cmpi


def _extractvalue(ir: Any, general: Builder) -> Builder:
    def extractvalue(result: Any, container: Any, position: Any, **options: Any) -> Any:
        if options or not isinstance(container, ir.Value) or not isinstance(position, list):
            return general(result, container, position, **options)
        attributes = {"position": ir.DenseI64ArrayAttr.get(position)}
        return ir.Operation.create(
            "llvm.extractvalue", results=[result], operands=[container], attributes=attributes
        ).result

    return extractvalue


def _getelementptr(ir: Any, general: Builder) -> Builder:
    def getelementptr(
        result: Any, base: Any, indices: Any, constants: Any, element: Any, flags: Any, **options: Any
    ) -> Any:
        if options or flags != 0 or not _are_values(ir, (base, *indices)):
            return general(result, base, indices, constants, element, flags, **options)
        return ir.Operation.create(
            "llvm.getelementptr",
            results=[result],
            operands=[base, *indices],
            attributes={
                "rawConstantIndices": ir.DenseI32ArrayAttr.get(constants),
                "elem_type": ir.TypeAttr.get(element),
            },
        ).result

    return getelementptr
