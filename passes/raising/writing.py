"""Writes recognized products as functions of one `tile.matmul`."""

from collections.abc import Sequence
from typing import Any

from weft.dialects import tile
from weft.errors import WeftError
from weft.mlir import func, ir
from weft.passes.raising.expressions import Buffer, Unraisable
from weft.passes.raising.products import Matmul


def write(function: ir.OpView, name: str, matmul: Matmul, arguments: Sequence[Any]) -> ir.OpView:
    """A function `name` before `function` with one product. `arguments` are sources of buffers, in order;
    what the product doesn't use keeps its type.

    Raises Unraisable where `tile.matmul` doesn't take the operands. Nothing is left then.
    """
    used = _views(matmul)
    kinds = [_type(used[source], source) if source in used else source.type for source in arguments]
    with ir.InsertionPoint(function), function.location:
        kind = ir.FunctionType.get([_memref(each) for each in kinds], [])
        written = func.FuncOp(name, kind)
    entry = written.add_entry_block()
    values = dict(zip(arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry), matmul.op.location:
        operands = {role: values[each.source] for role, each in matmul.roles.items()}
        a, b, d = (values[each.source] for each in (matmul.a, matmul.b, matmul.d))
        try:
            tile.matmul(a, b, d, operands.pop("c", None), **operands, **matmul.attributes)
        except WeftError as error:
            written.operation.erase()
            raise Unraisable(_rule(error), matmul.op) from None
        func.return_([])
    return written


def _rule(error: WeftError) -> str:
    """What is wrong, for a sentence that begins with the name of the operation that was to be raised."""
    rule = error.diagnostics[0].message.removeprefix("'tile.matmul' op ")
    return f"can't become a tile.matmul{', which ' if rule.startswith('expects') else ': '}{rule}"


def _views(matmul: Matmul) -> dict[Any, Buffer]:
    """The only way in which each argument is used. Raises Unraisable for two."""
    used: dict[Any, Buffer] = {}
    for buffer in matmul.buffers:
        if used.setdefault(buffer.source, buffer) != buffer:
            raise Unraisable("reads an argument in two shapes; give the function two arguments", matmul.op)
    return used


def _type(buffer: Buffer, source: Any) -> ir.Type:
    """The memref type of a buffer. A memref of the same shape keeps its type, with its layout."""
    kind = getattr(source, "type", None)  # memory between kernels has none
    if isinstance(kind, ir.MemRefType) and (_shape(kind), str(kind.element_type)) == (
        buffer.shape,
        buffer.element,
    ):
        return kind
    sizes = "".join(f"{'?' if size is None else size}x" for size in buffer.shape)
    return ir.Type.parse(f"memref<{sizes}{buffer.element}>")


def _shape(kind: ir.Type) -> tuple[int | None, ...]:
    return tuple(None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(kind.rank))


def _memref(kind: ir.Type) -> ir.Type:
    """A tensor's memref; any other type as it is."""
    if isinstance(kind, ir.RankedTensorType):
        return ir.MemRefType.get(kind.shape, kind.element_type)
    return kind
