"""Tensors that plain kernels compute, and the functions that these are made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft import mlir
from weft.mlir import arith, func, ir, memref, shape_of
from weft.passes.plain.functions import PLAIN
from weft.passes.raising.expressions import Buffer
from weft.passes.raising.numbers import Number, spelled
from weft.passes.raising.reading import Shape

_WIDENS = ("arith.extf", "arith.extsi")


@dataclass(frozen=True)
class Source:
    """Where an argument of a kernel comes from: an array by its label, and its shape if the kernel uses it,
    or a number from the host. `sizes` has the sizes as numbers, if the host can compute them.
    """

    label: str
    shape: Shape | None = None
    number: Number | None = None
    sizes: tuple[Number, ...] | None = None


@dataclass(frozen=True)
class Plain:
    """A tensor that a plain kernel computes by the operations `ops`, in order, from `inputs` in memory. `op`
    is the operation that no product takes, and `reason` states why. A scalar comes from the host.
    """

    d: Buffer
    tensor: ir.Value
    inputs: dict[ir.Value, Buffer]
    ops: tuple[ir.OpView, ...]
    op: Any
    reason: str
    sizes: tuple[Number, ...] = ()
    scalars: dict[ir.Value, Number] = field(default_factory=dict)

    @property
    def buffers(self) -> list[Buffer]:
        """All operands in memory, D last."""
        return [*self.inputs.values(), self.d]


def widened_from(value: ir.Value) -> ir.Value | None:
    """The tensor whose elements an operation only extends; None for other values."""
    op = value.owner
    if isinstance(op, ir.Block) or not op.name.startswith("linalg.") or len(op.operands) != 2:
        return None
    maps = mlir.indexing_maps(op)
    if maps is None or len(op.regions) != 1 or maps[0] != maps[1] or not maps[0].is_permutation:
        return None
    body = [each.operation for each in op.regions[0].blocks[0].operations]
    argument = op.regions[0].blocks[0].arguments[0]
    if len(body) != 2 or body[0].name not in _WIDENS or body[0].operands[0] != argument:
        return None
    return op.operands[0] if body[1].operands[0] == body[0].results[0] else None


def tensors_of(op: ir.OpView, root: ir.OpView) -> list[ir.Value]:
    """The tensors that an operation uses, also inside its regions."""
    found: dict[ir.Value, None] = {}
    for each in mlir.within(op):
        for number, operand in enumerate(each.operands):
            if isinstance(operand.type, ir.RankedTensorType) and not is_blank(each, number, root):
                found[operand] = None
    return [each for each in found if isinstance(each.owner, ir.Block) or each.owner not in inner(op)]


def is_blank(op: ir.Operation, number: int, root: ir.OpView) -> bool:
    """Whether an operand of a linalg operation is only the memory of its result. That of others than the last
    one, `root`, must have known sizes.
    """
    if (
        not op.name.startswith("linalg.")
        or len(op.regions) != 1
        or number < len(op.operands) - len(op.results)
    ):
        return False
    arguments = op.regions[0].blocks[0].arguments
    used = number < len(arguments) and any(True for _ in arguments[number].uses)
    return not used and (op == root or op.operands[number].type.has_static_shape)


def inner(op: ir.OpView) -> set[ir.Operation]:
    """The operations in the regions of one."""
    return set(mlir.within(op)[1:])


def written(
    function: ir.OpView, name: str, plain: Plain, labels: Mapping[Any, str]
) -> tuple[ir.OpView, tuple[Source, ...]]:
    """A plain function `name` before `function`, and where its arguments come from."""
    order = list(labels)
    buffers = sorted(plain.inputs.items(), key=lambda each: order.index(each[1].source))
    sources = [
        Source(labels[buffer.source], shape_of(value.type), sizes=buffer.sizes) for value, buffer in buffers
    ]
    sources += [Source(spelled(number), number=number) for number in plain.scalars.values()]
    sources.append(Source(labels[plain.d.source], shape_of(plain.tensor.type), sizes=plain.sizes))
    kinds = [_memory(value, buffer) for value, buffer in buffers]
    kinds += [value.type for value in plain.scalars]
    kinds.append(_memory(plain.tensor, plain.d))
    with ir.InsertionPoint(function), function.location:
        made = func.FuncOp(name, ir.FunctionType.get(kinds, []))
    made.operation.attributes[PLAIN] = ir.UnitAttr.get()
    entry = made.add_entry_block()
    arguments = list(entry.arguments)
    with ir.InsertionPoint(entry), plain.op.location:
        values: dict[ir.Value, ir.Value] = {}
        for (value, _), argument in zip(buffers, arguments, strict=False):
            values[value] = _to_tensor(argument, value.type)
        values |= zip(plain.scalars, arguments[len(buffers) : -1], strict=True)
        for op in plain.ops:
            _blanks(op, values, arguments[-1])
            _cloned(op, values)
        _write(values[plain.tensor], arguments[-1])
        func.return_([])
    return made, tuple(sources)


def _blanks(op: ir.OpView, values: dict[ir.Value, ir.Value], target: ir.Value) -> None:
    """Adds empty tensors for the memory of an operation's result; that of the last one has D's sizes."""
    for number, operand in enumerate(op.operands):
        if (
            isinstance(operand.type, ir.RankedTensorType)
            and operand not in values
            and (is_blank(op, number, op))
        ):
            kind = operand.type
            sizes = [
                memref.dim(target, arith.constant(ir.IndexType.get(), i))
                for i in range(kind.rank)
                if kind.is_dynamic_dim(i)
            ]
            values[operand] = ir.Operation.create("tensor.empty", [kind], sizes).result


def _memory(value: ir.Value, buffer: Buffer) -> ir.Type:
    """The type of a tensor's memory. That of a memref of the same shape keeps its layout."""
    kind = getattr(buffer.source, "type", None)
    shape, element = value.type.shape, value.type.element_type
    if isinstance(kind, ir.MemRefType) and (list(kind.shape), kind.element_type) == (list(shape), element):
        return kind
    return ir.MemRefType.get(shape, element)


def _to_tensor(memory: ir.Value, kind: ir.Type) -> ir.Value:
    attributes = {"restrict": ir.UnitAttr.get()}
    return ir.Operation.create("bufferization.to_tensor", [kind], [memory], attributes).result


def _write(tensor: ir.Value, memory: ir.Value) -> None:
    attributes = {"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()}
    name = "bufferization.materialize_in_destination"
    ir.Operation.create(name, [], [tensor, memory], attributes)


def _cloned(op: ir.OpView, values: dict[ir.Value, ir.Value]) -> None:
    """Copies an operation, and the scalars that it uses, with other operands."""
    inside = inner(op)
    for operand in (operand for each in mlir.within(op) for operand in each.operands):
        owner = operand.owner
        if operand not in values and not isinstance(owner, ir.Block) and owner not in inside:
            _cloned(owner, values)
    with op.location:
        mlir.clone(op, values)
