"""The kernels of a function in the order in which they run, the memory between them, and products as
functions of one `tile.matmul`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.dialects import tile
from weft.errors import WeftError
from weft.mlir import func, ir, shape_of
from weft.passes.raising.expressions import Buffer, Expression, Sum, Unraisable
from weft.passes.raising.plain import Plain
from weft.passes.raising.products import Matmul, recognized
from weft.passes.raising.reading import Output, Shape, argument_buffer, is_shaped


def write(function: ir.OpView, name: str, matmul: Matmul, arguments: Sequence[Any]) -> ir.OpView:
    """A function `name` before `function` with one product. `arguments` are sources of buffers, in order;
    what the product doesn't use keeps its type.

    Raises Unraisable where `tile.matmul` doesn't take the operands. Nothing is left then.
    """
    used: dict[object, Buffer] = {}
    for buffer in matmul.buffers:
        if used.setdefault(buffer.source, buffer) != buffer:
            raise Unraisable("reads an argument in two shapes; give the function two arguments", matmul.op)
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
    """The complaint, for a sentence that begins with the name of the operation that was to be raised."""
    rule = error.diagnostics[0].message.removeprefix("'tile.matmul' op ")
    return f"can't become a tile.matmul{', which ' if rule.startswith('expects') else ': '}{rule}"


def _type(buffer: Buffer, source: object) -> ir.Type:
    """The memref type of a buffer. A memref of the same shape keeps its type, with its layout."""
    kind = getattr(source, "type", None)  # memory between kernels has none
    wanted = buffer.shape, buffer.element
    if isinstance(kind, ir.MemRefType) and (shape_of(kind), str(kind.element_type)) == wanted:
        return kind
    sizes = "".join(f"{'?' if size is None else size}x" for size in buffer.shape)
    return ir.Type.parse(f"memref<{sizes}{buffer.element}>")


def _memref(kind: ir.Type) -> ir.Type:
    """A tensor's memref; any other type as it is."""
    if isinstance(kind, ir.RankedTensorType):
        return ir.MemRefType.get(kind.shape, kind.element_type)
    return kind


@dataclass(frozen=True)
class Memory:
    """Memory that the kernel of this number writes for later ones."""

    number: int


@dataclass(frozen=True)
class Result:
    """The memory of a function's result."""

    number: int


class Steps:
    """Collects the kernels of one function: products and plain ones."""

    def __init__(self) -> None:
        self._kernels: list[Matmul | Plain] = []
        self._outputs: dict[Memory, ir.Value | Result] = {}  # memory that the function leaves
        self._written: dict[object, tuple[Expression, Buffer]] = {}

    @property
    def kernels(self) -> list[Matmul | Plain]:
        """The kernels in order."""
        return [_moved(each, self._outputs) for each in self._kernels]

    @property
    def memory(self) -> dict[Memory, str]:
        """The memory between kernels, with names."""
        named = {}
        for each in self.kernels:
            if isinstance(each.d.source, Memory):
                what = "tensor" if isinstance(each, Plain) else "product"
                named[each.d.source] = f"{what} {each.d.source.number}"
        return named

    def materialize(self, expression: Expression, shape: Shape, op: ir.Operation) -> Buffer:
        """Writes an expression to memory, once. Raises Unraisable where no product computes it."""
        key = _key(expression)
        if key in self._written:
            return self._written[key][1]
        provisional = Buffer(Memory(-1), shape, expression.kind)
        matmul = recognized(expression, provisional, op, self.materialize)
        source = Memory(len(self._kernels))  # which kernels before it have raised
        buffer = replace(provisional, source=source)
        self._kernels.append(replace(matmul, d=replace(matmul.d, source=source)))
        self._written[key] = expression, buffer
        return buffer

    def plain(self, tensor: ir.Value, collect: Callable[[Buffer], Plain]) -> Buffer:
        """Has a plain kernel write a tensor to memory. `collect` makes the kernel for its memory, after those
        that write its operands. Raises Unraisable where no kernel computes it.
        """
        d = argument_buffer(tensor)
        plain = collect(replace(d, source=Memory(-1)))
        buffer = replace(d, source=Memory(len(self._kernels)))
        self._kernels.append(replace(plain, d=buffer))
        return buffer

    def leave(self, buffer: Buffer, target: ir.Value | Result) -> bool:
        """Has what is in memory between kernels left in the memory `target` of the function instead. Returns
        False, and leaves it, where that isn't possible: a kernel may read what `target` was.
        """
        source = buffer.source
        if not isinstance(source, Memory) or source in self._outputs or target in self._outputs.values():
            return False
        readers = self._kernels[source.number :]
        if any(each.source == target for kernel in readers for each in kernel.buffers[:-1]):
            return False
        self._outputs[source] = target
        return True

    def place(self, buffer: Buffer) -> Buffer:
        """Where what was in memory between kernels is left."""
        return _placed(buffer, self._outputs)

    def output(self, output: Output) -> ir.Value:
        """Writes what the function leaves in memory. Returns its memory."""
        if not is_shaped(output.value):
            raise Unraisable("must leave matrices only, as tensors or memrefs of known rank", output.op)
        if any(matmul.d.source == output.value for matmul in self.kernels):
            raise Unraisable("returns a matrix twice", output.op)
        d = argument_buffer(output.value)
        used = {buffer.source for matmul in self._kernels for buffer in matmul.buffers}
        _, buffer = self._written.get(_key(output.expression), (None, None))
        if buffer and output.value not in used and (buffer.shape, buffer.element) == (d.shape, d.element):
            # What later products read is also what the function leaves.
            self._outputs[buffer.source] = output.value
            self._written.pop(_key(output.expression))
            return output.value
        matmul = recognized(output.expression, d, output.op, self.materialize)
        self._kernels.append(matmul)
        return output.value

    def check_order(self) -> None:
        """Raises Unraisable where a kernel reads an argument that an earlier one has written."""
        written: set[object] = set()
        for kernel, final in zip(self._kernels, self.kernels, strict=True):
            read = {buffer.source for buffer in kernel.buffers[:-1]}
            if isinstance(kernel, Matmul) and kernel.attributes["beta"] and "c" not in kernel.roles:
                read.add(kernel.d.source)
            if read & written:
                raise Unraisable("reads what an earlier product has written over", kernel.op)
            if not isinstance(final.d.source, Memory):
                written.add(final.d.source)


def _key(expression: Expression) -> object:
    """The key that two expressions for the same elements have in common."""
    if isinstance(expression, Sum) and expression.dims == tuple(range(len(expression.dims))):
        return expression.product, expression.kind
    return id(expression)


def _placed(buffer: Buffer, targets: Mapping[Memory, ir.Value | Result]) -> Buffer:
    return replace(buffer, source=targets.get(buffer.source, buffer.source))


def _moved(kernel: Matmul | Plain, targets: Mapping[Memory, ir.Value | Result]) -> Matmul | Plain:
    """The kernel with other memory for some."""

    def moved(buffer: Buffer) -> Buffer:
        return _placed(buffer, targets)

    if isinstance(kernel, Plain):
        inputs = {value: moved(buffer) for value, buffer in kernel.inputs.items()}
        return replace(kernel, inputs=inputs, d=moved(kernel.d))
    roles = {role: moved(buffer) for role, buffer in kernel.roles.items()}
    return replace(kernel, a=moved(kernel.a), b=moved(kernel.b), d=moved(kernel.d), roles=roles)
