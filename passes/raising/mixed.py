"""Reads functions on tensors of which plain kernels compute what no product does."""

from dataclasses import dataclass, field, replace

from weft import mlir
from weft.mlir import ir
from weft.passes.plain.elements import COMPUTED, maps_of
from weft.passes.raising.expressions import (
    Buffer,
    Element,
    Expression,
    Opaque,
    Reshaped,
    Sum,
    Unraisable,
    exact,
    leaves,
)
from weft.passes.raising.numbers import Numbers
from weft.passes.raising.plain import Plain, collected, widened_from
from weft.passes.raising.reading import Reader, shape_of, whole
from weft.passes.raising.steps import Steps

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape")
_NO_PRODUCT = "computes a result that contains no product"


class RestartError(Exception):
    """A tensor that was read as part of something else must be in memory: the function is read again."""


@dataclass
class Decisions:
    """Conclusions from reading a function: tensors that must be in memory, and contractions that no product
    computes, with the reasons.
    """

    cuts: set[object] = field(default_factory=set)
    refused: dict[object, Unraisable] = field(default_factory=dict)

    def learn(self, reason: Unraisable) -> bool:
        """Draws a conclusion from a product that can't be written. Returns whether there is a new one."""
        op = None if reason.op is None else reason.op.operation
        if op is None or op in self.refused or not op.results or not _structured(op):
            return False
        if op.results[0] in self.cuts:
            self.refused[op] = reason
        self.cuts.add(op.results[0])
        return True


class MixedReader(Reader):
    """Reads one function, and has its tensors written by products and plain kernels."""

    def __init__(self, function: ir.OpView, steps: Steps, decisions: Decisions) -> None:
        super().__init__(function, steps.materialize)
        self._steps, self._decisions = steps, decisions
        self._done: set[object] = set()
        self._reasons: dict[object, Unraisable] = {}
        self._order = {view.operation: i for i, view in enumerate(self._block.operations)}
        self._return = self._block.operations[-1].operation
        self._numbers = Numbers({each: i for i, each in enumerate(self._block.arguments)})

    def in_memory(self, value: ir.Value) -> Buffer | None:
        """Where a tensor is in memory, if it is."""
        found = self._known.get(self._base(value))
        if not isinstance(found, Element) or found.unsigned:
            return None
        buffer = found.buffer
        shape = shape_of(value.type), str(value.type.element_type), tuple(range(value.type.rank))
        return buffer if (buffer.shape, buffer.element, found.dims) == shape else None

    def needed(self, value: ir.Value, op: ir.Operation, within: set[ir.OpView]) -> Buffer:
        """Has a tensor written to memory, also where other operations than these use it."""
        if (found := self.in_memory(value)) is not None:
            return found
        if (product := self.as_product(value, op, within)) is not None:
            return product
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.name in _RESHAPES:
            base = self.needed(owner.operands[0], owner, within | {owner})
            sizes = self._numbers.known_shape(value)
            return self._remember(value, replace(base, shape=shape_of(value.type), sizes=sizes), within)
        return self._remember(value, self._plain(value), within)

    def as_product(self, value: ir.Value, op: ir.Operation, within: set[ir.OpView]) -> Buffer | None:
        """Has a tensor written to memory if a product computes it."""
        contents = self._contents(value)
        owner = op if isinstance(value.owner, ir.Block) else value.owner
        parts = _leaves(contents)
        if not any(isinstance(leaf, Sum) for leaf in parts):
            opaque = [leaf for leaf in parts if isinstance(leaf, Opaque)]
            reason = Unraisable(opaque[0].reason, opaque[0].op) if opaque else Unraisable(_NO_PRODUCT, owner)
            self._reasons.setdefault(value, reason)
            return None
        try:
            buffer = self._steps.materialize(contents, shape_of(value.type), owner)
        except Unraisable as failure:
            self._reasons.setdefault(value, failure)
            return None
        return self._remember(value, buffer, within)

    def is_elementwise(self, op: ir.Operation) -> bool:
        """Whether an operation computes each element of its result from some of its operands' elements."""
        if not _structured(op):
            return False
        maps = maps_of(op)
        outs = maps[len(maps) - len(op.results) :]
        return all(each.is_permutation for each in outs)

    def copied(self, value: ir.Value) -> Buffer:
        """Has a tensor that is in memory copied to other memory."""
        owner = self._return if isinstance(value.owner, ir.Block) else value.owner
        self._reasons[value] = Unraisable("is a tensor that must be in two places", owner)
        return self._plain(value)

    def _plain(self, value: ir.Value) -> Buffer:
        reason = self._reasons[value]

        def collect(d: Buffer) -> Plain:
            return collected(value, d, reason, self, self._numbers, self._order)

        return self._steps.plain(value, collect)

    def _remember(self, value: ir.Value, buffer: Buffer, within: set[ir.OpView]) -> Buffer:
        """Reads a tensor from memory from here on. Raises RestartError where operations have read it."""
        self._known[self._base(value)] = whole(buffer)
        users = {use.owner for use in value.uses} & self._done - within
        if users and value not in self._decisions.cuts:
            self._decisions.cuts.add(value)
            raise RestartError
        return buffer

    def _read(self, op: ir.Operation) -> None:
        if op.name in ("tensor.extract", "cf.assert"):
            return  # what uses such a number has the tensor written
        try:
            super()._read(op)
        except Unraisable as reason:
            self._foreign(op, reason)
        self._done.add(op)
        for result in op.results:
            if result in self._decisions.cuts:
                self.needed(result, op, set())

    def _reshape(self, op: ir.Operation) -> None:
        super()._reshape(op)
        result = op.results[0]
        if isinstance(known := self._known[result], Element):
            sizes = self._numbers.known_shape(result)
            self._known[result] = replace(known, buffer=replace(known.buffer, sizes=sizes))

    def sized(self, value: ir.Value, buffer: Buffer) -> Buffer:
        """A tensor's memory with the sizes of the tensor."""
        return replace(buffer, shape=shape_of(value.type), sizes=self._numbers.known_shape(value))

    def _foreign(self, op: ir.Operation, reason: Unraisable) -> None:
        """Has the results of an operation that products don't contain written, unless those that use them
        compute them.
        """
        if not op.results:
            raise reason
        for result in op.results:
            if not isinstance(result.type, ir.RankedTensorType):
                raise reason
            self._reasons[result] = reason
            if op.name in COMPUTED or self.is_elementwise(op):
                self._known[result] = Opaque(str(result.type.element_type), reason.message, op)
            elif any(True for _ in result.uses):
                self._remember(result, self._plain(result), set())

    def _contraction(
        self, op: ir.Operation, operands: list[ir.Value], places: list[tuple[int, ...]], loops: int
    ) -> Expression:
        if op in self._decisions.refused:
            raise self._decisions.refused[op]
        return super()._contraction(op, operands, places, loops)

    def _in_memory(self, operand: ir.Value, op: ir.Operation) -> Expression:
        contents = exact(self._contents(operand))
        if isinstance(contents, Element):
            return contents
        while (inner := widened_from(operand)) is not None:
            operand = inner
        return whole(self.needed(operand, op, set()))


def _leaves(expression: Expression) -> list[Expression]:
    """The leaves, also of what is reshaped."""
    found = []
    for leaf in leaves(expression):
        found += _leaves(leaf.inner) if isinstance(leaf, Reshaped) else [leaf]
    return found


def _structured(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and len(op.regions) == 1 and mlir.indexing_maps(op) is not None
