"""`--outline-matmul`: turns a function of one `tile.matmul` into a kernel in a `gpu.module`.

The kernel's attributes specify its launch: `known_block_size`, for a cluster `known_cluster_size`, and the
launch contract (`weft.dialects.launch_contract`). With `weft.workspace` or `weft.cta_workspace`, the last
arguments are memory from the launch: memrefs whose first sizes are the attribute's numbers times what
`weft.grid` counts, or times the launch's CTAs. This memory is zero before the first launch, and the next
launch in the stream finds it as the previous one left it.
"""

from typing import Any

from weft import mlir
from weft.dialects import launch_contract as contract
from weft.dialects.op import refuse
from weft.dialects.operand_roles import extents
from weft.dialects.schedule import AnySchedule
from weft.dialects.tile import EpilogueOp, MatmulOp, TeamOp
from weft.isa.tensor_map import JOINED_ROWS
from weft.mlir import arith, func, gpu, ir, operations
from weft.passes.kernels.matrices import element_bytes
from weft.passes.kernels.reduction import workspace_types
from weft.passes.kernels.short_forms import products
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Outlines every function with a `tile.matmul`; other functions stay."""
    for function in operations(module, func.FuncOp):
        if ops := products(function):
            _check(function, ops)
            _set_launch(_kernel(function, ops[0]))
            function.operation.erase()


_BESIDE = EpilogueOp, TeamOp, arith.ConstantOp  # of the epilogue's, which folding hoists
"""The operations that may be beside a product."""


def _check(function: ir.OpView, ops: list[MatmulOp]) -> None:
    """Raises WeftError for a function that can't become a kernel."""
    product = ops[0]
    if function.operation.parent.name != "builtin.module":
        raise refuse(
            function, f"must be at the top of the module, got one in a '{function.operation.parent.name}'"
        )
    if function.type.results:
        raise refuse(function, "must not return values, since it becomes a kernel")
    if len(function.body.blocks) > 1:
        raise refuse(
            function, f"must have one block, since it becomes a kernel, got {len(function.body.blocks)}"
        )
    body = [
        op.operation
        for op in function.body.blocks[0].operations
        if not isinstance(op.operation.opview, _BESIDE)
    ]
    if len(ops) > 1 or len(body) != 2 or body[0] != product.operation:
        stray = next(op.operation.opview for op in body if op.operation != product.operation)
        what = "a function that becomes a kernel has one product and a return"
        raise refuse(stray, f"must not be in a function with a tile.matmul: {what}")
    if product.schedule is None:
        raise refuse(product, "must have a schedule: run --select-schedule before --outline-matmul")


def _kernel(function: ir.OpView, product: MatmulOp) -> MatmulOp:
    """Writes a kernel with a copy of the product on the function's arguments; returns the copy."""
    workspace = _workspace_types(product)
    with ir.InsertionPoint(function), function.location:
        kernel = mlir.kernel(function.name.value, [*function.type.inputs, *workspace])
    entry = kernel.body.blocks[0]
    with ir.InsertionPoint(entry):
        values = dict(zip(function.arguments, entry.arguments, strict=False))
        for op in list(function.body.blocks[0].operations)[:-1]:
            mlir.clone(op.operation, values)
        with product.location:
            gpu.return_([])
    (made,) = operations(kernel, MatmulOp)
    return made


def _workspace_types(product: MatmulOp) -> list[ir.Type]:
    """The arguments that the kernel has after the function's."""
    schedule = product.schedule
    if schedule is None or schedule.workspace is None:
        return []
    return workspace_types(ir.Type.parse(product.types.sums))


def _set_launch(product: MatmulOp) -> None:
    """Writes what a launch of the product's kernel needs."""
    kernel = product.operation.parent.opview
    schedule, arguments = product.schedule, list(kernel.body.blocks[0].arguments)
    arguments = arguments[: len(arguments) - len(_workspace_types(product))]
    sizes = ArgumentSizes(arguments)
    assert schedule is not None
    attributes = kernel.operation.attributes
    attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([schedule.threads, 1, 1])
    if (limit := schedule.resident_ctas) is not None:
        contract.PERSISTENT.set(kernel, ir.IntegerAttr.get(ir.IntegerType.get_signless(32), limit))
    if not schedule.takes_any_rows:
        operands = {"a": product.a, "b": product.b, "d": product.d, **product.roles}
        alignments = [1] * len(arguments)
        for role, value in operands.items():
            number = ir.BlockArgument(value).arg_number
            wanted = schedule.row_alignment(product.types, role, element_bytes(value))
            alignments[number] = max(alignments[number], wanted)
        contract.ALIGNED.set(kernel, ir.DenseI32ArrayAttr.get(alignments))
    if schedule.starts_early:
        contract.DEPENDENT.set(kernel, ir.UnitAttr.get())
    if schedule.ctas > 1:
        attributes["known_cluster_size"] = ir.DenseI32ArrayAttr.get([schedule.ctas, 1, 1])
    contract.GRID.set(kernel, sizes.map(_grid(product, schedule, sizes)))
    if (workspace := schedule.workspace) is not None:
        attribute = contract.CTA_WORKSPACE if workspace.of_each_cta else contract.WORKSPACE
        attribute.set(kernel, ir.DenseI64ArrayAttr.get([workspace.sum_rows, workspace.counters]))
    written = [product.d, *(store.destination for store in product.needs.stores)]
    numbers = sorted(ir.BlockArgument(each).arg_number for each in written)
    contract.WRITES.set(kernel, ir.DenseI32ArrayAttr.get(numbers))
    contract.REQUIRES.set(kernel, sizes.map(_differences(product, sizes)))


def _grid(product: MatmulOp, schedule: AnySchedule, sizes: "ArgumentSizes") -> list[ir.AffineExpr]:
    """The CTAs along x, y and z: whole clusters of tiles along M and N, and all CTAs of a tile."""
    d = product.d
    down, across = schedule.cluster
    rows = sizes.of(d, -2)
    if product.grouping == "row_ends":  # each group may have a tile that isn't full
        rows += sizes.of(product.b, 0) * schedule.rows_of_d * schedule.swapped(down, across)[0]
    rows, columns = schedule.swapped(rows, sizes.of(d, -1))
    batch = product.a if product.is_scattered else d
    matrices = sizes.of(batch, 0) if batch.type.rank == 3 else ir.AffineExpr.get_constant(1)
    # A grid has up to 2^31 - 1 blocks along x, and 65535 along y: M, which may be a batch's, takes x.
    return [
        ir.AffineExpr.get_ceil_div(rows, schedule.block[0] * down) * down,
        ir.AffineExpr.get_ceil_div(columns, schedule.block[1] // product.columns_of_b * across) * across,
        matrices * schedule.tile_ctas,
    ]


def _differences(product: MatmulOp, sizes: "ArgumentSizes") -> list[ir.AffineExpr]:
    """Numbers that must be 0: the differences of sizes that must be equal, and what K leaves over."""
    k_a, m = (-2, -1) if product.attribute("transpose_a") else (-1, -2)
    k_b, n = (-1, -2) if product.attribute("transpose_b") else (-2, -1)
    a, b, d = product.a, product.b, product.d
    pairs = [((a, m), (d, -2)), ((a, k_a), (b, k_b)), ((b, n), (d, -1))]
    if d.type.rank == 3:
        # Rows that come from other GPUs may have two halves.
        added = [value for role, value in product.roles.items() if not role.startswith("gathered")]
        pairs += [((x, 0), (d, 0)) for x in (a, b, *added) if x.type.rank == 3]
    elif (scales := product.role("scale_b")) is not None and b.type.rank == 3:
        pairs += [((scales, 0), (b, 0))]
    differences = [sizes.of(*left) - sizes.of(*right) for left, right in pairs]
    differences[2] = sizes.of(b, n) - sizes.of(d, -1) * product.columns_of_b
    mnk = sizes.of(d, -2), sizes.of(d, -1), sizes.of(a, k_a)
    products = ir.AffineExpr.get_constant(1) if product.batch is None else sizes.of(product.batch, 0)
    blocks, of_b = ir.AffineExpr.get_ceil_div, product.columns_of_b
    wanted = extents(*mnk, sizes.of(d, 0), blocks, products, of_b)
    if (unit := product.types.multiple_of_k) > 1:
        differences.append(sizes.of(a, k_a) % unit)
    for (operand, dimension), unit in zip(((a, m), (b, n)), product.types.multiples_of_mn, strict=True):
        if unit > 1:
            differences.append(sizes.of(operand, dimension) % unit)
    if product.schedule is not None and product.schedule.joined:
        differences += [
            ir.AffineExpr.get_floor_div(sizes.of(a, m), JOINED_ROWS + 1),
            sizes.of(a, k_a) % JOINED_ROWS,
        ]
    for _, value, names in product.read:
        differences += [
            sizes.of(value, i - len(names)) - wanted[name]
            for i, name in enumerate(names)
            if wanted[name] is not None
        ]
    return differences


class ArgumentSizes:
    """The sizes of all memref arguments, numbered in order, which the launch attributes use."""

    def __init__(self, arguments: list[ir.Value]) -> None:
        self._count = 0
        self._first: dict[int, int] = {}
        for argument in arguments:
            if isinstance(argument.type, ir.MemRefType):
                self._first[argument.arg_number] = self._count
                self._count += argument.type.rank

    def of(self, value: ir.Value, dimension: int) -> Any:
        """The expression for one size of a kernel argument; a negative dimension counts from the last."""
        first = self._first[ir.BlockArgument(value).arg_number]
        return ir.AffineExpr.get_dim(first + dimension % value.type.rank)

    def map(self, expressions: list[ir.AffineExpr]) -> ir.Attribute:
        """The attribute that maps the sizes to these expressions."""
        return ir.AffineMapAttr.get(ir.AffineMap.get(self._count, 0, expressions))


OUTLINE_MATMUL = Pass(
    "outline-matmul", "turn a function of one tile.matmul into a kernel with its launch attributes", run
)
