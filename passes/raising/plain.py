"""Tensors that plain kernels compute: which operations one takes, and the function that it is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft import mlir
from weft.mlir import arith, func, ir, memref
from weft.passes.plain.elements import COMPUTED, is_splat
from weft.passes.plain.functions import PLAIN
from weft.passes.raising.expressions import Buffer, Unraisable
from weft.passes.raising.numbers import Number, Numbers, spelled
from weft.passes.raising.reading import Shape, shape_of

# What costs little more to compute again than to read.
_VIEWS = (
    *("tensor.empty", "bufferization.alloc_tensor", "arith.constant", "tensor.splat", "tensor.from_elements"),
    *(
        "tensor.cast",
        "tensor.expand_shape",
        "tensor.collapse_shape",
        "tensor.reshape",
        "tensor.extract_slice",
    ),
    *("linalg.fill", "linalg.broadcast", "linalg.transpose"),
)
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


class Values(Protocol):
    """The values of a function while it is read."""

    def in_memory(self, value: ir.Value) -> Buffer | None:
        """Where a tensor is in memory, if it is."""

    def needed(self, value: ir.Value, op: ir.OpView, within: set[ir.Operation]) -> Buffer:
        """Has a tensor written to memory, also where other operations than these use it."""

    def as_product(self, value: ir.Value, op: ir.OpView, within: set[ir.Operation]) -> Buffer | None:
        """Has a tensor written to memory if a product computes it."""

    def is_elementwise(self, op: ir.OpView) -> bool:
        """Whether an operation computes each element of its result from some of its operands' elements."""


def collected(
    tensor: ir.Value,
    d: Buffer,
    reason: Unraisable,
    values: Values,
    numbers: Numbers,
    order: dict[ir.Operation, int],
) -> Plain:
    """The plain kernel that writes a tensor to `d`. Operands that it can't compute itself are written before.

    Raises Unraisable for operations that no kernel computes. `order` numbers the function's operations.
    """
    root = tensor.owner
    if isinstance(root, ir.Block) or (buffer := values.in_memory(tensor)) is not None:
        buffer = values.in_memory(tensor)
        assert buffer is not None
        return Plain(d, tensor, {tensor: buffer}, (), reason.op, reason.message, numbers.shape(tensor))
    _check(root)
    group, inputs = {root}, dict[ir.Value, Buffer]()
    scalars: dict[ir.Value, Number] = {}
    pending = set(_tensors(root, root))
    while pending:
        operand = max(pending, key=lambda each: -1 if isinstance(each.owner, ir.Block) else order[each.owner])
        pending.remove(operand)
        owner = operand.owner
        if (buffer := values.in_memory(operand)) is not None:
            inputs[operand] = buffer
        elif _fuses(operand, root, group, values) and (
            (buffer := values.as_product(operand, owner, group)) is None
        ):
            _check(owner)
            group.add(owner)
            pending |= set(_tensors(owner, root)) - inputs.keys()
        else:
            inputs[operand] = buffer or values.needed(operand, owner, group)
    ops = tuple(sorted(group, key=lambda each: order[each]))
    made = Plain(d, tensor, inputs, ops, root, reason.message, numbers.shape(tensor), scalars)
    _find_scalars(made, values, numbers)
    return made


def _check(op: ir.OpView) -> None:
    """Raises Unraisable for an operation that no plain kernel computes."""
    structured = op.name.startswith("linalg.") and len(op.regions) == 1 and mlir.indexing_maps(op) is not None
    if not structured and op.name not in COMPUTED:
        raise Unraisable("isn't part of a product, and no plain kernel computes it", op)
    if op.name == "arith.constant" and not is_splat(op.attributes["value"]):
        raise Unraisable("is a constant of the module; make it an argument of the function", op)


def _fuses(value: ir.Value, root: ir.OpView, group: set[ir.OpView], values: Values) -> bool:
    """Whether a kernel computes a tensor's elements where it needs them."""
    owner = value.owner
    if owner.name in _VIEWS or widened_from(value) is not None:
        return True
    if not (values.is_elementwise(owner) or owner.name in COMPUTED):
        return False
    if any(use.owner not in group and not _in_group(use.owner, group) for use in value.uses):
        return False
    return values.is_elementwise(root) or root.name in COMPUTED or _once(value, root, group)


def _in_group(op: ir.OpView, group: set[ir.OpView]) -> bool:
    """Whether an operation is in a region of one of the group."""
    while op is not None and op.name != "func.func":
        if op in group:
            return True
        op = op.parent
    return False


def _once(value: ir.Value, root: ir.OpView, group: set[ir.OpView]) -> bool:
    """Whether a reduction reads each element once: all loops index the operand that it comes from."""
    maps = mlir.indexing_maps(root)
    return maps is not None and all(
        len({str(x) for x in each.results if mlir.cast(ir.AffineDimExpr, x) is not None}) == each.n_dims
        for operand, each in zip(root.operands, maps, strict=True)
        if operand not in list(root.operands)[len(root.operands) - len(root.results) :]
        and isinstance(operand.type, ir.RankedTensorType)
    )


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


def _tensors(op: ir.OpView, root: ir.OpView) -> list[ir.Value]:
    """The tensors that an operation uses, also inside its regions."""
    found: dict[ir.Value, None] = {}
    for each in mlir.within(op):
        for number, operand in enumerate(each.operands):
            if isinstance(operand.type, ir.RankedTensorType) and not _is_blank(each, number, root):
                found[operand] = None
    return [each for each in found if isinstance(each.owner, ir.Block) or each.owner not in _inner(op)]


def _is_blank(op: ir.Operation, number: int, root: ir.OpView) -> bool:
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


def _inner(op: ir.OpView) -> set[ir.Operation]:
    return set(mlir.within(op)[1:])


def _find_scalars(made: Plain, values: Values, numbers: Numbers) -> None:
    """Adds what a kernel gets from the host, and tensors of which single elements are read."""
    for op in made.ops:
        inner = _inner(op)
        for operand in (operand for each in mlir.within(op) for operand in each.operands):
            if operand.owner not in inner and not _belongs(operand, inner):
                _find_scalar(operand, made, values, numbers)


def _belongs(value: ir.Value, inner: set[ir.Operation]) -> bool:
    """Whether a value is an argument of a block in a region of the operation."""
    owner = value.owner
    return isinstance(owner, ir.Block) and owner.owner.operation.name != "func.func"


def _find_scalar(value: ir.Value, made: Plain, values: Values, numbers: Numbers) -> None:
    if isinstance(value.type, ir.ShapedType) or value in made.scalars:
        return
    if isinstance(value.owner, ir.Block):
        made.scalars[value] = numbers.of(value)
        return
    op = value.owner
    if op.name == "tensor.dim":
        if op.operands[0] not in made.inputs:
            made.scalars[value] = numbers.of(value)
        return
    if op.name == "tensor.extract":
        made.inputs.setdefault(op.operands[0], values.needed(op.operands[0], op, set()))
    for operand in op.operands:
        _find_scalar(operand, made, values, numbers)


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
            and (_is_blank(op, number, op))
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
    inner = _inner(op)
    for operand in (operand for each in mlir.within(op) for operand in each.operands):
        owner = operand.owner
        if operand not in values and not isinstance(owner, ir.Block) and owner not in inner:
            _cloned(owner, values)
    with op.location:
        mlir.clone(op, values)
