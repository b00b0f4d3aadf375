"""Reads functions on tensors of which plain kernels compute what no product does."""

from dataclasses import dataclass, field, replace
from functools import partial

from weft import mlir
from weft.mlir import ir, shape_of
from weft.passes.plain.elements import COMPUTED, is_splat, maps_of
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
from weft.passes.raising.plain import Plain, inner, tensors_of, widened_from
from weft.passes.raising.reading import Reader, whole
from weft.passes.raising.steps import Steps

# What costs little more to compute again than to read.
_VIEWS = (
    *("tensor.empty", "bufferization.alloc_tensor", "arith.constant", "tensor.splat", "tensor.from_elements"),
    *("tensor.cast", "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape"),
    *("tensor.extract_slice", "linalg.fill", "linalg.broadcast", "linalg.transpose"),
)
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
        return self._steps.plain(value, partial(self._collected, value))

    def _collected(self, tensor: ir.Value, d: Buffer) -> Plain:
        """The plain kernel that writes a tensor to `d`. Operands that it can't compute itself are written
        before. Raises Unraisable for operations that no kernel computes.
        """
        root = tensor.owner
        reason = self._reasons[tensor]
        shape = partial(self._numbers.shape, tensor)
        if (buffer := self.in_memory(tensor)) is not None:
            return Plain(d, tensor, {tensor: buffer}, (), reason.op, reason.message, shape())
        _check(root)
        group = {root}
        inputs = dict[ir.Value, Buffer]()
        pending = set(tensors_of(root, root))
        while pending:
            operand = max(pending, key=lambda each: self._order.get(each.owner, -1))
            pending.remove(operand)
            owner = operand.owner
            if (buffer := self.in_memory(operand)) is not None:
                inputs[operand] = buffer
            elif self._fuses(operand, root, group) and (
                (buffer := self.as_product(operand, owner, group)) is None
            ):
                _check(owner)
                group.add(owner)
                pending |= set(tensors_of(owner, root)) - inputs.keys()
            else:
                inputs[operand] = buffer or self.needed(operand, owner, group)
        ops = tuple(sorted(group, key=self._order.__getitem__))
        made = Plain(d, tensor, inputs, ops, root, reason.message, shape())
        for op in ops:
            inside = inner(op)
            for value in (value for each in mlir.within(op) for value in each.operands):
                of_region = isinstance(value.owner, ir.Block) and value.owner != self._block
                if value.owner not in inside and not of_region:
                    self._add_scalar(value, made)
        return made

    def _fuses(self, value: ir.Value, root: ir.OpView, group: set[ir.OpView]) -> bool:
        """Whether a kernel computes a tensor's elements where it needs them."""
        owner = value.owner
        if owner.name in _VIEWS or widened_from(value) is not None:
            return True
        if not (self.is_elementwise(owner) or owner.name in COMPUTED):
            return False
        if any(use.owner not in group and not _in_group(use.owner, group) for use in value.uses):
            return False
        return self.is_elementwise(root) or root.name in COMPUTED or _once(root)

    def _add_scalar(self, value: ir.Value, made: Plain) -> None:
        """Adds what a kernel gets from the host, and tensors of which single elements are read."""
        if isinstance(value.type, ir.ShapedType) or value in made.scalars:
            return
        if isinstance(value.owner, ir.Block):
            made.scalars[value] = self._numbers.of(value)
            return
        op = value.owner
        if op.name == "tensor.dim":
            if op.operands[0] not in made.inputs:
                made.scalars[value] = self._numbers.of(value)
            return
        if op.name == "tensor.extract":
            made.inputs.setdefault(op.operands[0], self.needed(op.operands[0], op, set()))
        for operand in op.operands:
            self._add_scalar(operand, made)

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


def _check(op: ir.OpView) -> None:
    """Raises Unraisable for an operation that no plain kernel computes."""
    if not _structured(op) and op.name not in COMPUTED:
        raise Unraisable("isn't part of a product, and no plain kernel computes it", op)
    if op.name == "arith.constant" and not is_splat(op.attributes["value"]):
        raise Unraisable("is a constant of the module; make it an argument of the function", op)


def _in_group(op: ir.OpView, group: set[ir.OpView]) -> bool:
    """Whether an operation is in a region of one of the group."""
    while op is not None and op.name != "func.func":
        if op in group:
            return True
        op = op.parent
    return False


def _once(root: ir.OpView) -> bool:
    """Whether a reduction reads each element once: all loops index the operand that it comes from."""
    maps = mlir.indexing_maps(root)
    return maps is not None and all(
        len({str(x) for x in each.results if mlir.cast(ir.AffineDimExpr, x) is not None}) == each.n_dims
        for operand, each in zip(root.operands, maps, strict=True)
        if operand not in list(root.operands)[len(root.operands) - len(root.results) :]
        and isinstance(operand.type, ir.RankedTensorType)
    )


def _structured(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and len(op.regions) == 1 and mlir.indexing_maps(op) is not None
