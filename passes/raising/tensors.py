"""Rewrites a function on memrefs as one on tensors, which returns what it leaves in its arguments."""

from collections.abc import Callable
from typing import Any

from weft import mlir
from weft.mlir import func, ir
from weft.passes.raising.expressions import Unraisable


def on_tensors(function: ir.OpView) -> tuple[ir.OpView, list[int]]:
    """A function before `function` that takes tensors for its memrefs. It returns the function's results, and
    then the contents of the arguments that it writes, which have these numbers. Different arguments must be
    different memory.

    Raises Unraisable, and leaves no function, for operations on memrefs that have no form on tensors.
    """
    return _Rewriter(function).run()


def has_memrefs(function: ir.OpView) -> bool:
    """Whether a function takes or uses memrefs."""
    kinds = [each.type for each in function.arguments]
    for view in function.body.blocks[0].operations:
        kinds += [each.type for each in (*view.operation.operands, *view.operation.results)]
    return any(isinstance(kind, ir.MemRefType) for kind in kinds)


class _Rewriter:
    def __init__(self, function: ir.OpView) -> None:
        self._function = function
        self._values: dict[ir.Value, ir.Value] = {}
        self._contents: dict[ir.Value, ir.Value] = {}  # of memrefs that aren't views
        self._views: dict[
            ir.Value, tuple[ir.Value, ir.OpView]
        ] = {}  # a view's memref, and the operation that makes it
        self._written: dict[ir.Value, None] = {}

    def run(self) -> tuple[ir.OpView, list[int]]:
        old = list(self._function.arguments)
        with ir.InsertionPoint(self._function), self._function.location:
            kinds = [_tensor(each.type, self._function) for each in old]
            made = func.FuncOp(f"{mlir.symbol(self._function)}__tensors", ir.FunctionType.get(kinds, []))
        entry = made.add_entry_block()
        for argument, new in zip(old, entry.arguments, strict=True):
            (self._contents if _is_memref(argument) else self._values)[argument] = new
        try:
            with ir.InsertionPoint(entry):
                returned = self._body()
                numbers = [i for i, each in enumerate(old) if each in self._written]
                returned += [self._contents[old[i]] for i in numbers]
                with self._function.location:
                    func.return_(returned)
        except Unraisable:
            made.operation.erase()
            raise
        kind = ir.FunctionType.get(kinds, [each.type for each in returned])
        made.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
        return made, numbers

    def _body(self) -> list[ir.Value]:
        for view in self._function.body.blocks[0].operations:
            op = view.operation
            with op.location:
                if op.name == "func.return":
                    return [self._value(each, op) for each in op.operands]
                self._rewrite(op)
        return []

    def _rewrite(self, op: ir.Operation) -> None:
        shaped = any(map(_is_memref, (*op.operands, *op.results)))
        if op.name in _RULES:
            _RULES[op.name](self, op)
        elif not shaped:
            mlir.clone(op, self._values)
        elif op.name.startswith("linalg.") and len(op.regions) == 1:
            self._structured(op)
        else:
            raise Unraisable("on memrefs isn't part of a product or of what is between products", op)

    def _value(self, value: ir.Value, op: ir.Operation) -> ir.Value:
        """A value of the new function: for a memref, the tensor that it contains."""
        if not _is_memref(value):
            return self._values[value]
        if value in self._views:
            base, made = self._views[value]
            kind = _tensor(made.results[0].type, made)
            operands = [self._value(base, op), *(self._value(each, made) for each in list(made.operands)[1:])]
            attributes = {each: made.attributes[each] for each in made.attributes}
            name = made.name.replace("memref.", "tensor.")
            return ir.Operation.create(name, [kind], operands, attributes).result
        if value not in self._contents:
            raise Unraisable("uses a memref whose contents aren't known", op)
        return self._contents[value]

    def _write(self, memref: ir.Value, contents: ir.Value, op: ir.Operation) -> None:
        while memref in self._views:
            memref, made = self._views[memref]
            if made.name != "memref.cast":
                raise Unraisable("writes to a reshaped memref", op)
            kind = self._contents[memref].type
            contents = ir.Operation.create("tensor.cast", [kind], [contents]).result
        if memref not in self._contents:
            raise Unraisable("writes to a memref that no argument or allocation defines", op)
        self._contents[memref] = contents
        self._written[memref] = None

    def _structured(self, op: ir.Operation) -> None:
        """A linalg operation on memrefs as one on tensors, with a result for the memref that it writes."""
        operands = [self._value(each, op) for each in op.operands]
        attributes = {each: op.attributes[each] for each in op.attributes}
        outs = len(op.operands) - 1
        if "operandSegmentSizes" in op.attributes:
            outs = next(iter(op.attributes["operandSegmentSizes"]))
        kinds = [each.type for each in operands[outs:]]
        made = ir.Operation.create(op.name, kinds, operands, attributes, regions=1)
        old = op.regions[0].blocks[0]
        block = made.regions[0].blocks.append(*(each.type for each in old.arguments))
        inside = dict(self._values) | dict(zip(old.arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for each in old.operations:
                mlir.clone(each.operation, inside)
        for memref, result in zip(list(op.operands)[outs:], made.results, strict=True):
            self._write(memref, result, op)

    def _allocate(self, op: ir.Operation) -> None:
        kind = _tensor(op.results[0].type, op)
        count = sum(kind.is_dynamic_dim(i) for i in range(kind.rank))
        sizes = [self._values[each] for each in list(op.operands)[:count]]
        self._contents[op.results[0]] = ir.Operation.create("tensor.empty", [kind], sizes).result

    def _view(self, op: ir.OpView) -> None:
        self._views[op.results[0]] = op.operands[0], op

    def _copy(self, op: ir.OpView) -> None:
        contents, kind = self._value(op.operands[0], op), _tensor(op.operands[1].type, op)
        if contents.type != kind:
            contents = ir.Operation.create("tensor.cast", [kind], [contents]).result
        self._write(op.operands[1], contents, op)
        if op.results:
            self._values[op.results[0]] = contents

    def _read(self, op: ir.OpView) -> None:
        operands = [self._value(each, op) for each in op.operands]
        name = {"memref.dim": "tensor.dim", "memref.load": "tensor.extract"}[op.name]
        self._values[op.results[0]] = ir.Operation.create(name, [op.results[0].type], operands).result

    def _to_tensor(self, op: ir.OpView) -> None:
        self._values[op.results[0]] = self._value(op.operands[0], op)

    def _to_buffer(self, op: ir.OpView) -> None:
        self._contents[op.results[0]] = self._values[op.operands[0]]

    def _materialize(self, op: ir.OpView) -> None:
        if _is_memref(op.operands[1]):
            self._write(op.operands[1], self._value(op.operands[0], op), op)
        else:
            self._values[op.results[0]] = self._value(op.operands[0], op)

    def _ignore(self, op: ir.OpView) -> None:
        pass


def _is_memref(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)


def _tensor(kind: ir.Type, op: ir.Operation) -> ir.Type:
    if not isinstance(kind, ir.MemRefType | ir.UnrankedMemRefType):
        return kind
    identity = isinstance(kind, ir.MemRefType) and kind.layout == ir.AffineMapAttr.get(
        ir.AffineMap.get_identity(kind.rank)
    )
    if not identity:
        raise Unraisable(f"uses a memref with a layout, {kind}, outside of a product", op)
    return ir.RankedTensorType.get(kind.shape, kind.element_type)


_RULES: dict[str, Callable[[_Rewriter, Any], None]] = {
    name: rule
    for rule, names in (
        (_Rewriter._allocate, "memref.alloc memref.alloca gpu.alloc"),
        (_Rewriter._ignore, "memref.dealloc"),
        (_Rewriter._view, "memref.cast memref.expand_shape memref.collapse_shape"),
        (_Rewriter._copy, "memref.copy"),
        (_Rewriter._read, "memref.dim memref.load"),
        (_Rewriter._to_tensor, "bufferization.to_tensor"),
        (_Rewriter._to_buffer, "bufferization.to_buffer"),
        (_Rewriter._materialize, "bufferization.materialize_in_destination"),
    )
    for name in names.split()
}
