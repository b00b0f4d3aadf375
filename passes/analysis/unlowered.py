"""Refuses operations that no pass of Weft's pipelines lowers, before any pass runs."""

from weft import mlir
from weft.dialects import dialects
from weft.dialects.tile_types import Tile, is_tile
from weft.errors import Diagnostic, WeftError
from weft.mlir import gpu, ir, operations
from weft.passes.analysis import upstream_operations
from weft.passes.plain.functions import is_plain

# Upstream dialects that the pipelines lower. The translation to LLVM IR refuses operations that remain.
_LOWERED = (
    *("builtin", "func", "gpu", "nvvm", "llvm", "scf", "cf", "arith", "math", "index", "ub"),
    *("memref", "vector", "affine"),
)
_OF_TILES = "tensor.splat"  # which makes a tile
_MOST_REPORTED = 5
_PRODUCTS = ("matmul", "contract", "mmt4d", "matvec", "vecmat", "dot")
_HINTS = {
    "linalg": "lower it to loops with upstream's passes (--convert-linalg-to-loops)",
    "tensor": "bufferize it with upstream's passes (--one-shot-bufferize)",
    "nvgpu": "lower it with upstream's pass --convert-nvgpu-to-nvvm",
    "complex": "lower it with upstream's pass --convert-complex-to-standard",
}


def check(module: ir.Module | ir.OpView, *, tiles: bool = True) -> None:
    """Raises WeftError, with locations, for operations in a module's kernels that no pass lowers; without
    `tiles`, also for those on tiles.

    In a module without kernels and `tile.matmul`, all operations are checked.
    """
    holders = operations(module, gpu.GPUModuleOp)
    kernels = holders or ([] if tiles and _has_product(module) else [module])
    lowered = {*_LOWERED, *(each.DIALECT_NAMESPACE for each in dialects() if tiles or each is not Tile)}
    complaints: list[Diagnostic] = []
    has_library = False
    legal = set[tuple[object, ...]]()

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name == "func.func" and is_plain(op):
            return ir.WalkResult.SKIP  # which --outline-linalg makes a kernel of
        if name.partition(".")[0] not in lowered and not (
            tiles and name == _OF_TILES and is_tile(op.results[0])
        ):
            complaints.append(_complaint(op))
            return ir.WalkResult.SKIP
        wrong = upstream_operations.complaint(op, legal, has_library=has_library, in_kernel=bool(holders))
        if wrong:
            complaints.append(wrong)
        return ir.WalkResult.ADVANCE

    for kernel in kernels:
        has_library = upstream_operations.has_library(kernel)
        kernel.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if complaints:
        # Kernels have several copies of an operation.
        raise WeftError(*list(dict.fromkeys(complaints))[:_MOST_REPORTED])


def _has_product(module: ir.Module | ir.OpView) -> bool:
    from weft.dialects.tile import MatmulOp

    return bool(operations(module, MatmulOp))


def _complaint(op: ir.Operation) -> Diagnostic:
    dialect, _, name = op.name.partition(".")
    if dialect == Tile.DIALECT_NAMESPACE:
        instead = "run --weft instead" if name == "matmul" else "run --weft-to-instructions first"
        message = f"'{op.name}' op must be lowered before --weft-to-llvm: {instead}"
        return Diagnostic(message, mlir.location(op.location))
    hint = _HINTS.get(dialect)
    if any(product in name for product in _PRODUCTS):
        hint = 'write "tile.matmul" instead, which becomes a kernel; --raise-linalg does this in functions'
    message = f"'{op.name}' op isn't lowered by any pass of Weft"
    return Diagnostic(f"{message}: {hint}" if hint else message, mlir.location(op.location))
