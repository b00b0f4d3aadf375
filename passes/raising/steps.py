"""The products of a function in the order in which they run, and the memory between them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.passes.raising.expressions import Buffer, Expression, Unraisable
from weft.passes.raising.products import Matmul, recognised
from weft.passes.raising.reading import Output, Shape, argument_buffer, is_shaped


@dataclass(frozen=True)
class Memory:
    """What the product of this number writes for later ones."""

    number: int


class Steps:
    """Collects the products of one function."""

    def __init__(self) -> None:
        self._matmuls: list[Matmul] = []
        self._outputs: dict[Memory, Any] = {}  # memory that the function leaves
        self._written: dict[int, tuple[Expression, Buffer]] = {}

    @property
    def matmuls(self) -> list[Matmul]:
        """The products in order."""
        return [_moved(matmul, self._outputs) for matmul in self._matmuls]

    @property
    def memory(self) -> list[Memory]:
        """The memory between products."""
        return [each.d.source for each in self.matmuls if isinstance(each.d.source, Memory)]

    def materialize(self, expression: Expression, shape: Shape, op: Any) -> Buffer:
        """Writes an expression to memory, once. Raises Unraisable where no product computes it."""
        if id(expression) in self._written:
            return self._written[id(expression)][1]
        provisional = Buffer(Memory(-1), shape, expression.kind)
        matmul = recognised(expression, provisional, op, self.materialize)
        source = Memory(len(self._matmuls))  # which products before it have raised
        buffer = replace(provisional, source=source)
        self._matmuls.append(replace(matmul, d=replace(matmul.d, source=source)))
        self._written[id(expression)] = expression, buffer
        return buffer

    def output(self, output: Output) -> Any:
        """Writes what the function leaves in memory. Returns its memory."""
        if not is_shaped(output.value):
            raise Unraisable("must leave matrices only, as tensors or memrefs of known rank", output.op)
        if any(matmul.d.source == output.value for matmul in self.matmuls):
            raise Unraisable("returns a matrix twice", output.op)
        d = argument_buffer(output.value)
        used = {buffer.source for matmul in self._matmuls for buffer in matmul.buffers}
        _, buffer = self._written.get(id(output.expression), (None, None))
        if buffer and output.value not in used and (buffer.shape, buffer.element) == (d.shape, d.element):
            # What later products read is also what the function leaves.
            self._outputs[buffer.source] = output.value
            self._written.pop(id(output.expression))
            return output.value
        matmul = recognised(output.expression, d, output.op, self.materialize)
        self._matmuls.append(matmul)
        return output.value

    def check_order(self) -> None:
        """Raises Unraisable where a product reads an argument that an earlier one has written."""
        written: set[Any] = set()
        for matmul, final in zip(self._matmuls, self.matmuls, strict=True):
            read = {buffer.source for buffer in matmul.buffers[:-1]}
            if matmul.attributes["beta"] and "c" not in matmul.roles:
                read.add(matmul.d.source)
            if read & written:
                raise Unraisable("reads what an earlier product has written over", matmul.op)
            if not isinstance(final.d.source, Memory):
                written.add(final.d.source)


def _moved(matmul: Matmul, targets: Mapping[Memory, Any]) -> Matmul:
    """The product with other memory for some."""

    def moved(buffer: Buffer) -> Buffer:
        return replace(buffer, source=targets.get(buffer.source, buffer.source))

    roles = {role: moved(buffer) for role, buffer in matmul.roles.items()}
    return replace(matmul, a=moved(matmul.a), b=moved(matmul.b), d=moved(matmul.d), roles=roles)
