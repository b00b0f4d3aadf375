"""`--outline-matmul`: turns a function of one `tile.matmul` into a kernel in a `gpu.module`.

What a launch needs stands in attributes of the kernel: `known_block_size`; `weft.grid`, an affine map from
the sizes of all memref arguments (in order) to the grid; `weft.requires`, a map of those sizes whose results
must all be 0.
"""

from typing import Any

from weft import mlir
from weft.dialects.op import refuse
from weft.dialects.tile import MatmulOp
from weft.mlir import func, gpu, ir, operations
from weft.passes.pass_ import Pass


def run(module: Any) -> None:
    """Outlines every function that holds a `tile.matmul`; other functions stay."""
    for function in operations(module, func.FuncOp):
        products = operations(function, MatmulOp)
        if products:
            _outline(function, products)


def _outline(function: Any, products: list[MatmulOp]) -> None:
    product = products[0]
    if function.operation.parent.name != "builtin.module":
        raise refuse(function, f"can't be outlined inside of a '{function.operation.parent.name}'")
    if function.type.results:
        raise refuse(function, "can't become a kernel: it returns values")
    if len(function.body.blocks) > 1:
        raise refuse(function, f"can't become a kernel: it has {len(function.body.blocks)} blocks")
    body = [op.operation for op in function.body.blocks[0].operations]
    if len(products) > 1 or len(body) != 2 or body[0] != product.operation:
        stray = next(op.operation.opview for op in body if op.operation != product.operation)
        raise refuse(
            stray, "can't be outlined beside a tile.matmul: a function holds one product and a return"
        )
    if product.schedule is None:
        raise refuse(product, "expects a schedule: run --select-schedule before --outline-matmul")
    name = function.name.value
    with ir.InsertionPoint(function), function.location:
        holder = gpu.GPUModuleOp(name)
        holder.bodyRegion.blocks.append()
        with ir.InsertionPoint(holder.bodyRegion.blocks[0]):
            kernel = mlir.kernel(name, function.type.inputs)
    entry = kernel.body.blocks[0]
    for old, new in zip(function.arguments, entry.arguments, strict=True):
        old.replace_all_uses_with(new)
    sizes = _Sizes(entry.arguments)
    schedule = product.schedule
    block_m, block_n, _ = schedule.block
    attributes = kernel.operation.attributes
    attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([schedule.threads, 1, 1])
    # A grid has up to 2^31 - 1 blocks along x, and 65535 along y: M, which may be a batch's, takes x.
    attributes["weft.grid"] = sizes.map(
        [
            ir.AffineExpr.get_ceil_div(sizes.of(product.d, 0), block_m),
            ir.AffineExpr.get_ceil_div(sizes.of(product.d, 1), block_n),
            ir.AffineExpr.get_constant(1),
        ]
    )
    attributes["weft.writes"] = ir.DenseI32ArrayAttr.get([ir.BlockArgument(product.d).arg_number])
    attributes["weft.requires"] = sizes.map(_differences(product, sizes))
    with ir.InsertionPoint(entry), product.location:
        gpu.return_([])
    product.operation.move_before(entry.operations[0])
    function.operation.erase()


def _differences(product: MatmulOp, sizes: "_Sizes") -> list[Any]:
    """Pairs of sizes that must be equal, as differences."""
    k, n = (1, 0) if product.attribute("transpose_b") else (0, 1)
    a, b, d = product.a, product.b, product.d
    pairs = [((a, 0), (d, 0)), ((a, 1), (b, k)), ((b, n), (d, 1))]
    for c in product.inputs:
        pairs += [((c, 0), (d, 0)), ((c, 1), (d, 1))]
    return [sizes.of(*left) - sizes.of(*right) for left, right in pairs]


class _Sizes:
    """The sizes of all memref arguments, numbered in order: what the launch attributes speak of."""

    def __init__(self, arguments: Any) -> None:
        self.count = 0
        self.first: dict[int, int] = {}
        for argument in arguments:
            if isinstance(argument.type, ir.MemRefType):
                self.first[argument.arg_number] = self.count
                self.count += argument.type.rank

    def of(self, value: Any, dimension: int) -> Any:
        """The expression for one size of a kernel argument."""
        return ir.AffineExpr.get_dim(self.first[ir.BlockArgument(value).arg_number] + dimension)

    def map(self, expressions: list[Any]) -> Any:
        """The attribute that maps the sizes to these expressions."""
        return ir.AffineMapAttr.get(ir.AffineMap.get(self.count, 0, expressions))


OUTLINE_MATMUL = Pass(
    "outline-matmul", "turn a function of one tile.matmul into a kernel with its launch attributes", run
)
