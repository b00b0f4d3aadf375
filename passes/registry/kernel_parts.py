"""The parts of a module with host code that passes for kernels run on: each `gpu.module` by itself."""

from collections.abc import Iterator

from weft.mlir import gpu, ir, operations


def has_host_code(module: ir.Operation) -> bool:
    """Whether a module has a `gpu.module`, and something beside those at its top."""
    if module.operation.name != "builtin.module":
        return False
    names = {op.operation.name for op in module.operation.regions[0].blocks[0].operations}
    return names != {gpu.GPUModuleOp.OPERATION_NAME} and bool(operations(module, gpu.GPUModuleOp))


def apart(module: ir.Operation) -> Iterator[ir.Operation]:
    """Each `gpu.module`, also of nested modules, in a module of its own while passes run on it."""
    for holder in operations(module, gpu.GPUModuleOp):
        with holder.location, ir.InsertionPoint(holder.operation):
            alone, place = ir.Module.create(), ir.Operation.create("builtin.module", regions=1)
        place.regions[0].blocks.append()
        alone.body.append(holder.operation)
        try:
            yield alone.operation
        finally:
            for part in list(alone.body.operations):
                part.operation.move_before(place)
            place.erase()
