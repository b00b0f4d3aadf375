"""Whether all lanes of a warp reach an operation together: what warp-collective instructions need."""

from typing import Any

from weft.mlir import arith, gpu, ir, nvvm

WARP = 32
# Results that differ between the lanes of a warp.
LANE_SOURCES = (gpu.ThreadIdOp, gpu.LaneIdOp, nvvm.ThreadIdXOp, nvvm.LaneIdOp, nvvm.ElectSyncOp)
# Collectives and loads whose result may differ between lanes whatever their operands are.
BRANCHES = ("scf.if", "scf.for", "scf.while", "scf.index_switch", "scf.parallel")


def narrowing(op: Any) -> Any | None:
    """The innermost operation around `op` that not all lanes of the warp may enter together, else None."""
    inner = op.operation
    while inner.parent is not None and inner.parent.name not in ("gpu.func", "func.func", "gpu.launch"):
        inner = inner.parent.operation
        if inner.name in BRANCHES and not all(_uniform(value, set()) for value in _deciders(inner)):
            return inner.opview
    return None


def block_threads(op: Any) -> int | None:
    """The number of threads of the kernel around `op`, where the IR says it."""
    inner = op.operation
    while inner is not None:
        if inner.name == "gpu.func":
            if "known_block_size" not in inner.attributes:
                return None
            x, y, z = inner.attributes["known_block_size"]
            return int(x * y * z)
        inner = inner.parent and inner.parent.operation
    return None


def _deciders(op: Any) -> list[Any]:
    """The values that decide whether, and how often, an operation's region runs."""
    if op.name == "scf.for":
        return list(op.operands)[:3]
    return list(op.operands)


def _uniform(value: Any, seen: set[Any]) -> bool:
    """Whether a value is the same in all lanes of a warp, as far as its computation shows."""
    if value in seen:
        return True
    seen.add(value)
    if isinstance(value.owner, ir.Block):
        return _uniform_argument(value, seen)
    owner = value.owner.operation
    if isinstance(owner.opview, LANE_SOURCES):
        return False
    if _drops_lanes(owner):
        return True
    if owner.name.startswith(("memref.load", "llvm.load", "nvvm.shfl", "gpu.shuffle")) or list(owner.regions):
        return owner.name == "memref.load" and all(_uniform(v, seen) for v in owner.operands)
    return all(_uniform(v, seen) for v in owner.operands)


def _uniform_argument(value: Any, seen: set[Any]) -> bool:
    """A kernel's argument is uniform; a loop's is where all that flows into it is."""
    parent = ir.BlockArgument(value).owner.owner.operation
    if parent.name in ("gpu.func", "func.func"):
        return True
    if parent.name != "scf.for":
        return False
    if ir.BlockArgument(value).arg_number == 0:
        return all(_uniform(v, seen) for v in list(parent.operands)[:3])
    place = ir.BlockArgument(value).arg_number - 1
    terminator = list(parent.regions[0].blocks[0].operations)[-1]
    flows = [parent.operands[3 + place], terminator.operands[place], *list(parent.operands)[:3]]
    return all(_uniform(v, seen) for v in flows)


def _drops_lanes(op: Any) -> bool:
    """A division or shift of the x thread index by a multiple of the warp's size."""
    if op.name not in ("arith.divui", "arith.divsi", "arith.shrui", "arith.floordivsi"):
        return False
    if not _is_thread(op.operands[0]):
        return False
    constant = op.operands[1].owner
    if isinstance(constant, ir.Block) or not isinstance(constant.opview, arith.ConstantOp):
        return False
    number = constant.opview.literal_value
    return bool(number >= 5 if op.name == "arith.shrui" else number % WARP == 0)


def _is_thread(value: Any) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    owner = value.owner.operation
    if owner.name in ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.extsi", "arith.trunci"):
        return _is_thread(owner.operands[0])
    if isinstance(owner.opview, gpu.ThreadIdOp):
        return str(owner.attributes["dimension"]) == "#gpu<dim x>"
    return isinstance(owner.opview, nvvm.ThreadIdXOp)
