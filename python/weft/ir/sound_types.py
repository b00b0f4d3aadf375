"""Verifies types and attributes of Python-defined dialects, by a method `complaint` of their classes, which
MLIR's parser can't call.
"""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Union

from weft.errors import Diagnostic, Location
from weft.registry import extensions

if TYPE_CHECKING:
    from weft.ir import classes
Kind = Union["classes.Type", "classes.Attribute"]


def complaint(ir: ModuleType, kinds: Iterable[Kind]) -> str | None:
    """Describes a mistake in one of these types and attributes, or in one inside them."""
    return next(iter(_complaints(ir, kinds, set())), None)


def diagnostics(
    ir: ModuleType,
    root: "classes.Operation | classes.Module",
    location: Callable[["classes.Location"], Location | None],
) -> list[Diagnostic]:
    """The complaints about all types and attributes in an operation, each once."""
    seen: set[int] = set()
    found: list[Diagnostic] = []

    def verify(op: "classes.Operation", kinds: Iterable[Kind], at: "classes.Location") -> None:
        found.extend(Diagnostic(f"'{op.name}' op {w}", location(at)) for w in _complaints(ir, kinds, seen))

    def visit(op: "classes.Operation") -> object:
        verify(op, op.attributes.values(), op.location)
        verify(op, (result.type for result in op.results), op.location)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    verify(op, (argument.type,), argument.location)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _complaints(ir: ModuleType, kinds: Iterable[Kind], seen: set[int]) -> Iterable[str]:
    for kind in kinds:
        # The hash is the address of what MLIR has once.
        if (key := hash(kind)) in seen:
            continue
        seen.add(key)
        if not hasattr(kind, "complaint"):
            yield from _complaints(ir, _inner(ir, kind), seen)
        elif wrong := _complaint(kind):
            yield wrong


def _complaint(kind: Kind) -> str | None:
    try:
        wrong: str | None = kind.complaint()
        return wrong
    except Exception:
        name = str(getattr(kind, "type_name", None) or kind.attr_name)
        with extensions.blamed(f"the complaint of '{name}'", extensions.of_dialect(name)):
            raise


def _inner(ir: ModuleType, kind: Kind) -> Iterable[Kind]:
    if isinstance(kind, ir.FunctionType):
        return (*kind.inputs, *kind.results)
    if isinstance(kind, ir.TupleType):
        return [kind.get_type(number) for number in range(kind.num_types)]
    if isinstance(kind, ir.ShapedType):
        return [kind.element_type]
    if isinstance(kind, ir.ArrayAttr):
        return list(kind)
    if isinstance(kind, ir.DictAttr):
        return [named.attr for named in kind]
    return [kind.value] if isinstance(kind, ir.TypeAttr) else ()
