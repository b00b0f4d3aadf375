"""`--expand-matmul="chip=…"`: writes the body of a kernel whose `tile.matmul` has a schedule, in tile ops.

Without `chip`, kernels are for the target of their module, or for a chip that has what the schedule needs.
"""

from collections.abc import Callable
from importlib import import_module

from weft.dialects.op import judged_on, refuse
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    WmmaSchedule,
)
from weft.dialects.tile import MatmulOp
from weft.mlir import gpu, ir
from weft.passes.kernels.short_forms import erase, products
from weft.passes.registry.pass_ import Pass
from weft.registry import extensions


def _in(name: str) -> Callable[[MatmulOp], None]:
    """`expand` in a module, imported for the first kernel of its family. All take 40 ms, and most processes
    need one, or find their kernels on disk.
    """

    def expand(op: MatmulOp) -> None:
        import_module(name).expand(op)

    return expand


KERNELS: dict[type[AnySchedule], Callable[[MatmulOp], None]] = {
    WmmaSchedule: _in("weft.passes.kernels.wmma_kernel"),
    Schedule: _in("weft.passes.kernels.mma_kernel"),
    DirectSchedule: _in("weft.passes.kernels.direct_kernel"),
    TmaMmaSchedule: _in("weft.passes.kernels.tma_mma_kernel"),
    WarpgroupSchedule: _in("weft.passes.kernels.wgmma_kernel"),
    TensorMemorySchedule: _in("weft.passes.kernels.tcgen05_kernel"),
}
"""Functions that write the kernel of a `tile.matmul` at the insertion point, by the schedule's family."""


def run(module: ir.Operation, chip: str) -> None:
    """Expands every `tile.matmul` in a `gpu.func`."""
    with judged_on(chip or None):
        _expand(module)


def _expand(module: ir.Operation) -> None:
    for op in products(module):
        parent = op.operation.parent.opview
        if not isinstance(parent, gpu.GPUFuncOp):
            raise refuse(op, "must be in a gpu.func: run --outline-matmul before --expand-matmul")
        if (schedule := op.schedule) is None:
            raise refuse(op, "must have a schedule: run --select-schedule before --expand-matmul")
        attributes = parent.operation.attributes
        known = list(attributes["known_block_size"]) if "known_block_size" in attributes else None
        if known != [schedule.threads, 1, 1]:
            wanted = f"'known_block_size' of [{schedule.threads}, 1, 1], as its schedule needs"
            raise refuse(op, f"must be in a kernel with {wanted}, got {known or 'none'}")
        if wrong := op.check():
            raise refuse(op, wrong)
        with ir.InsertionPoint(op), op.location:
            if (expand := KERNELS.get(type(schedule))) is None:
                raise refuse(
                    op, f"has a schedule of {schedule.instruction}, for which no kernel is registered"
                )
            source = extensions.source("schedule", schedule.key)
            with extensions.blamed(f"the kernel of schedule '{schedule.key}'", source):
                expand(op)
        erase(op)


EXPAND_MATMUL = Pass("expand-matmul", "write a tile.matmul's kernel as tile ops", run, {"chip": ""})
