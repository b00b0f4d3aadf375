"""`--outline-linalg`: turns functions that `--raise-linalg` marks as plain into kernels.

Such a function computes one tensor and writes it to its last argument. In its kernel, each thread computes
elements of that tensor, one after the other, with loops for reductions. Numbers of f16 and bf16 are computed
in f32, and rounded where they are stored.
"""

from typing import Any

from weft import mlir
from weft.dialects import launch_contract as contract
from weft.dialects.op import refuse
from weft.isa.chips import LANES
from weft.mlir import PassManager, func, gpu, ir, memref, operations, scf
from weft.passes.builders import emit
from weft.passes.lower_conversions import convert_once
from weft.passes.outline_matmul import ArgumentSizes
from weft.passes.plain import indices
from weft.passes.plain.elements import Elements, indexed_by, maps_of, memory_type, to_memory
from weft.passes.plain.functions import is_plain
from weft.passes.plain.indices import Number, UnknownSizeError
from weft.passes.plain.reductions import ByLanes, by_lanes
from weft.passes.registry.pass_ import Pass

THREADS = 256
_CTAS = 8  # on each multiprocessor
_X = gpu.Dimension.x
_FLOATS = (
    "gpu.module(math-extend-to-supported-types{target-type=f32},"
    "arith-emulate-unsupported-floats{source-types=bf16,f16 target-type=f32})"
)


def run(module: ir.Operation) -> None:
    """Outlines every plain function; others stay."""
    for function in operations(module, func.FuncOp):
        if is_plain(function):
            _outline(function)


def _outline(function: ir.OpView) -> None:
    written = [
        op.operation
        for op in function.body.blocks[0].operations
        if op.operation.name == "bufferization.materialize_in_destination"
    ]
    if len(written) != 1 or len(function.body.blocks) != 1:
        raise refuse(function, f"must write one tensor to an argument, got {len(written)}")
    last = written[0]
    with ir.InsertionPoint(function), function.location:
        kernel = mlir.kernel(mlir.symbol(function), [_parameter(each.type) for each in function.arguments])
    entry = kernel.body.blocks[0]
    with ir.InsertionPoint(entry), function.location:
        elements = Elements(dict(zip(function.arguments, entry.arguments, strict=True)))
        target = entry.arguments[last_number(last)]
        try:
            elements.prepare(function)
            shared = _shared(elements, last.operands[0])
            _write(elements, last.operands[0], target, shared)
        except UnknownSizeError as unknown:
            raise refuse(function, f"needs {unknown}") from None
        gpu.return_([])
    _set_launch(kernel, function, last, 1 if shared is None else LANES)
    function.operation.erase()
    convert_once(kernel.operation.parent)
    PassManager.parse(_FLOATS, kernel.context).run(kernel.operation.parent)


def last_number(written: ir.Operation) -> int:
    """The number of the argument that is written."""
    return int(ir.BlockArgument(written.operands[1]).arg_number)


def _parameter(kind: ir.Type) -> ir.Type:
    """A function's argument type as that of a kernel."""
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(kind.shape, memory_type(kind.element_type), kind.layout)
    return kind


def _shared(elements: Elements, tensor: ir.Value) -> ByLanes | None:
    """How the lanes of a warp compute an element together; None where each thread computes elements."""
    op = tensor.owner
    return None if isinstance(op, ir.Block) else by_lanes(op, list(op.results).index(tensor), elements.sizes)


def _write(elements: Elements, tensor: ir.Value, target: ir.Value, shared: ByLanes | None) -> None:
    """A loop over the elements that each thread computes, or the lanes of each warp together."""
    op = tensor.owner
    sizes = elements.sizes.shape(tensor)
    lanes = 1 if shared is None else LANES
    lane = emit.value(0) if shared is None else emit.rem(gpu.thread_id(_X), lanes)
    first = emit.add(emit.mul(gpu.block_id(_X), THREADS // lanes), emit.div(gpu.thread_id(_X), lanes))
    step = emit.mul(gpu.grid_dim(_X), THREADS // lanes)
    loop = scf.ForOp(first, indices.value(indices.product(sizes)), step)
    with ir.InsertionPoint(loop.body):
        at = indices.coordinates(loop.induction_variable, sizes)

        def store(element: ir.Value) -> None:
            memref.store(element, target, [indices.value(each) for each in at])

        if shared is None:
            store(to_memory(elements.of(tensor, at)))
        else:
            number = list(op.results).index(tensor)
            with op.location:
                element = to_memory(elements.over_lanes(op, number, at, lane, shared))
            with emit.when(emit.equal(lane, 0)):
                store(element)
        scf.yield_([])


def _set_launch(kernel: ir.OpView, function: ir.OpView, last: ir.Operation, lanes: int) -> None:
    """Writes what a launch needs, where so many lanes compute an element."""
    number = last_number(last)
    sizes = _ArgumentSizes(list(function.arguments))
    target = function.arguments[number]
    kernel.operation.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([THREADS, 1, 1])
    contract.PERSISTENT.set(kernel, ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _CTAS))
    contract.GRID.set(kernel, sizes.map(_ctas([sizes.of(target, i) for i in range(target.type.rank)], lanes)))
    contract.WRITES.set(kernel, ir.DenseI32ArrayAttr.get([number]))
    contract.REQUIRES.set(kernel, sizes.map(sizes.differences(function, last)))


def _ctas(sizes: list[Number], lanes: int) -> list[ir.AffineExpr]:
    """Three numbers whose product is about the number of CTAs with `lanes` threads for each element. Fewer
    do as well.
    """
    static, dynamic = lanes, []
    for size in sizes:
        number = mlir.cast(ir.AffineConstantExpr, size)
        static = static * number.value if number is not None else static
        dynamic += [size] if number is None else []
    last = dynamic.pop() if dynamic else ir.AffineExpr.get_constant(1)
    ctas = [ir.AffineExpr.get_ceil_div(last * static, THREADS), *dynamic[::-1]]
    return (ctas + [ir.AffineExpr.get_constant(1)] * 2)[:3]


class _ArgumentSizes(ArgumentSizes):
    def of(self, value: ir.Value, dimension: int) -> Any:
        """The expression of a size: a constant where it is known."""
        if not value.type.is_dynamic_dim(dimension):
            return ir.AffineExpr.get_constant(value.type.shape[dimension])
        return super().of(value, dimension)

    def differences(self, function: ir.OpView, last: ir.Operation) -> list[Any]:
        """Numbers that must be 0: the differences of sizes that one loop has."""
        found = []
        tensors = {}
        for view in function.body.blocks[0].operations:
            op = view.operation
            if op.name == "bufferization.to_tensor":
                tensors[op.results[0]] = op.operands[0]
            elif op.name.startswith("linalg."):
                if op.results[0] == last.operands[0]:
                    tensors[list(op.operands)[-1]] = last.operands[1]
                for loop in range(maps_of(op)[-1].n_dims):
                    known = [(tensors[v], i) for v, i in indexed_by(op, loop) if v in tensors]
                    found += [self.of(*known[0]) - self.of(*other) for other in known[1:]]
        return [each for each in found if mlir.cast(ir.AffineConstantExpr, each) is None]


OUTLINE_LINALG = Pass(
    "outline-linalg", "turn the plain functions that --raise-linalg makes into kernels", run
)
