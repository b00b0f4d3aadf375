"""Whether all lanes of a warp, all threads of a warpgroup or all threads of a CTA reach an operation
together, as collective instructions and copies require.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from weft.dialects.op import refuse
from weft.isa.chips import LANES, WARPGROUP
from weft.mlir import constant, gpu, ir, nvvm


class Scope(Enum):
    """The threads that must reach an operation together."""

    WARP = f"all {LANES} lanes of the warp"
    WARPGROUP = f"all {WARPGROUP} threads of the warpgroup"
    CTA = "all threads of the CTA"


FUNCTIONS = ("gpu.func", "func.func", "gpu.launch")
# Operations whose regions depend only on their operands. Any other operation may execute a region
# in a part of the warp.
BRANCHES = ("scf.if", "scf.for", "scf.while", "scf.index_switch", "scf.parallel")
UNCONDITIONAL = ("scf.execute_region", "tile.tensor_memory")
# Operations whose results depend only on their operands or on the CTA. Other results may
# differ between lanes.
PURE_DIALECTS = ("arith", "math", "index")
SAME_IN_A_CTA = (
    *("gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.cluster_id", "gpu.cluster_block_id"),
    *("gpu.num_subgroups", "gpu.subgroup_size", "nvvm.read.ptx.sreg.cluster.ctarank"),
    *(
        f"nvvm.read.ptx.sreg.{name}.{axis}"
        for name in ("ctaid", "nctaid", "ntid", "cluster.ctaid")
        for axis in "xyz"
    ),
    *("memref.dim", "memref.extract_strided_metadata", "memref.extract_aligned_pointer_as_index"),
    *("memref.subview", "memref.cast", "memref.reinterpret_cast", "builtin.unrealized_conversion_cast"),
    *("affine.apply", "affine.min", "affine.max", "llvm.mlir.constant"),
    *("tile.alloc", "tile.address", "llvm.mlir.addressof", "llvm.getelementptr"),
    *("tile.make_ring", "tile.advance", "tile.query_cancel"),
)
SAME = "weft.same_in_a_cta"
"""The attribute of an operation whose results are the same in all threads of the CTA, as those of operations
in `SAME_IN_A_CTA`: who builds it knows.
"""
SAME_IN_A_WARPGROUP = "weft.same_in_a_warpgroup"
"""The attribute of an operation whose results are the same in all threads of each warpgroup."""
SAME_IN_A_WARP = (*SAME_IN_A_CTA, "gpu.subgroup_id", "tile.claim", "tile.await_others")


def require(op: ir.OpView, scope: Scope) -> None:
    """Raises WeftError unless all threads of `scope` reach an operation together."""
    if (unmet := complaint(op, scope)) is not None:
        raise refuse(op, f"expects {unmet}")


def complaint(op: ir.OpView, scope: Scope = Scope.WARP) -> str | None:
    """The condition that `op` lacks for all threads of `scope` to reach it together, to follow "expects" or
    "needs". None if they do.
    """
    known = _reached.get()
    if known is None:
        return _complaint(op, scope)
    block = hash(op.operation.block), scope
    if block in known:
        return None
    if (unmet := _complaint(op, scope)) is None:
        known.add(block)
    return unmet


@contextmanager
def remembered() -> Iterator[None]:
    """In the block, what `complaint` finds to be reached together, it finds only once for each basic block.

    For passes that replace operations by others that compute the same, and that erase no basic block.
    """
    token = _reached.set(set())
    try:
        yield
    finally:
        _reached.reset(token)


_reached: ContextVar[set[tuple[int, Scope]] | None] = ContextVar("reached", default=None)


def _complaint(op: ir.OpView, scope: Scope) -> str | None:
    kernel = function(op.operation)
    if kernel is None or "kernel" not in kernel.attributes:
        return f"to be in a kernel, so that {scope.value} reach it together"
    size = block_size(op.operation)
    if size is None:
        return f"to be in a kernel with 'known_block_size', so that {scope.value} reach it together"
    threads = size[0] * size[1] * size[2]
    if scope is Scope.WARP and threads % LANES:
        return f"a block of full warps of {LANES} lanes, got {threads} threads"
    partial = size[0] % WARPGROUP and not _in_warpgroups(op)
    if scope is Scope.WARPGROUP and (partial or size[1:] != (1, 1)):
        return f"a block of full warpgroups of {WARPGROUP} threads along x, got {size}"
    if (branch := narrowing(op, scope)) is None:
        return None
    return excluding(branch.operation.name, scope)


def excluding(branch: str, scope: Scope = Scope.WARP) -> str:
    """The complaint about an operation that excludes threads of `scope`."""
    by = "lane" if scope is Scope.WARP else "thread"
    return f"{scope.value} to reach it together, but '{branch}' depends on the {by}"


def narrowing(op: ir.OpView, scope: Scope) -> ir.OpView | None:
    """The innermost operation that may exclude threads of `scope` from `op`: a region or a branch."""
    inner = op.operation
    while inner.parent is not None:
        if (branch := _branch_of_blocks(inner.block, scope)) is not None:
            return branch
        if inner.parent.name in FUNCTIONS:
            return None
        inner = inner.parent.operation
        if inner.name in UNCONDITIONAL or (inner.name in BRANCHES and _uniform(_deciders(inner), scope)):
            continue
        if inner.name == "tile.role" and scope in _whole_in_role(inner):
            continue
        if inner.name in ("builtin.module", "gpu.module"):
            return None
        return inner.opview
    return None


def _in_warpgroups(op: ir.OpView) -> bool:
    """Whether an operation is a role of warpgroups, or in one: all of these have all of their threads."""
    inner = op.operation
    while inner is not None and not (inner.name == "tile.role" and "warps" not in inner.attributes):
        inner = inner.parent
    return inner is not None


def _whole_in_role(role: ir.Operation) -> tuple[Scope, ...]:
    """Of which scopes either all threads or none are in a `tile.role`."""
    return (Scope.WARP,) if "warps" in role.attributes else (Scope.WARP, Scope.WARPGROUP)


def _branch_of_blocks(block: ir.Block, scope: Scope) -> ir.OpView | None:
    """A branch in the region of `block` at which threads of `scope` may diverge."""
    blocks = list(block.region.blocks)
    if block == blocks[0]:
        return None
    ends = (each.operations[-1].operation for each in blocks)
    divergent = (end for end in ends if len(end.successors) > 1 and not _uniform(end.operands, scope))
    return next((end.opview for end in divergent), None)


def function(inner: ir.Operation) -> ir.Operation | None:
    """The function or `gpu.launch` that contains an operation."""
    while inner is not None and inner.name not in FUNCTIONS:
        inner = inner.parent and inner.parent.operation
    return inner


def block_size(inner: ir.Operation) -> tuple[int, int, int] | None:
    """The threads along x, y and z of an operation's CTA; None if its kernel doesn't specify them."""
    kernel = function(inner)
    if kernel is None or "known_block_size" not in kernel.attributes:
        return None
    x, y, z = kernel.attributes["known_block_size"]
    return int(x), int(y), int(z)


def _deciders(op: ir.Operation) -> list[ir.Value]:
    """The values that determine whether and how often an operation's region is executed."""
    if op.name == "scf.for":
        return list(op.operands)[:3]
    if op.name == "scf.while":
        return [op.regions[0].blocks[0].operations[-1].operands[0]]
    return list(op.operands)


def _uniform(values: Iterable[ir.Value], scope: Scope) -> bool:
    """Whether values are provably equal in all threads of `scope`."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        is_argument = isinstance(value.owner, ir.Block)
        sources = _argument_sources(value, scope) if is_argument else _sources(value, scope)
        if sources is None:
            return False
        pending += sources
    return True


def _sources(value: ir.Value, scope: Scope) -> list[ir.Value] | None:
    """The values that determine an operation's result; None if threads may get different ones from them."""
    op = value.owner.operation
    if scope is not Scope.CTA and _drops_threads(op, LANES if scope is Scope.WARP else WARPGROUP):
        return []
    same = SAME_IN_A_WARP if scope is Scope.WARP else SAME_IN_A_CTA
    if op.name.partition(".")[0] in PURE_DIALECTS or op.name in same or SAME in op.attributes:
        return list(op.operands)
    if SAME_IN_A_WARPGROUP in op.attributes:
        return None if scope is Scope.CTA else []
    if op.name == "nvvm.vote.sync" and scope is Scope.WARP and constant(op.operands[0]) == -1:
        return []  # all lanes take part, and get one result
    if reads_one_lane(op):
        # In a warpgroup, each warp reads a lane of its own.
        return list(op.operands)[1:3] if scope is not Scope.WARP else [op.operands[2]]
    if op.name == "nvvm.clusterlaunchcontrol.query.cancel" and _is_load(op.operands[0]):
        # Threads that load the answer from one address get the same one.
        return list(op.operands[0].owner.operation.operands)
    if op.name == "memref.load" and isinstance(op.operands[0].owner, ir.Block):
        return list(op.operands)
    if op.name in ("scf.for", "scf.while", "scf.if"):
        index = ir.OpResult(value).result_number
        first, *others = (region.blocks[0].operations[-1] for region in op.regions)
        if op.name == "scf.while":
            return [first.operands[0], first.operands[1 + index]]
        yielded = [end.operands[index] for end in (first, *others)]
        if op.name == "scf.if":
            return [op.operands[0], *yielded]
        return [*list(op.operands)[:3], op.operands[3 + index], *yielded]
    return None


def _is_load(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "llvm.load"


def reads_one_lane(op: ir.Operation) -> bool:
    """Whether an operation copies one lane's value to all lanes."""
    if op.name != "nvvm.shfl.sync":
        return False
    idx = ir.AttrBuilder.get("nvvm.ShflKindAttr")(nvvm.ShflKind.idx, op.context)
    # With a smaller clamp, or with segments, some lanes get another lane's value.
    return bool(op.attributes["kind"] == idx) and constant(op.operands[3]) == LANES - 1


def _argument_sources(value: ir.Value, scope: Scope) -> list[ir.Value] | None:
    """As `_sources`, for a block argument. A kernel's arguments are uniform, and a role's in its warps or
    warpgroups.
    """
    argument = ir.BlockArgument(value)
    parent = argument.owner.owner.operation
    if parent.name == "gpu.func":
        is_entry = argument.owner == parent.regions[0].blocks[0]
        return [] if is_entry and "kernel" in parent.attributes else None
    if parent.name == "tile.role":
        return [] if scope in _whole_in_role(parent) else None
    if parent.name == "scf.while":
        # The arguments of each block come from the other block's end, initially from the loop's operands.
        before, after = (region.blocks[0].operations[-1] for region in parent.regions)
        condition, number = before.operands[0], argument.arg_number
        if argument.owner == parent.regions[0].blocks[0]:
            return [condition, parent.operands[number], after.operands[number]]
        return [condition, before.operands[1 + number]]
    if parent.name != "scf.for":
        return None
    bounds = list(parent.operands)[:3]
    if argument.arg_number == 0:
        return bounds
    index = argument.arg_number - 1
    terminator = parent.regions[0].blocks[0].operations[-1]
    return [parent.operands[3 + index], terminator.operands[index], *bounds]


def _drops_threads(op: ir.Operation, unit: int) -> bool:
    """Whether an operation divides or shifts the x thread index by a multiple of `unit`, and warps lie along
    x.
    """
    if op.name not in ("arith.divui", "arith.divsi", "arith.shrui", "arith.floordivsi"):
        return False
    size = block_size(op)
    if size is None or (size[0] % LANES and (size[1] > 1 or size[2] > 1)) or not _is_thread(op.operands[0]):
        return False
    number = constant(op.operands[1])
    if number is None:
        return False
    if op.name == "arith.shrui":
        return bool(number >= unit.bit_length() - 1)
    return bool(number and number % unit == 0)


def _is_thread(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    owner = value.owner.operation
    if owner.name in ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.extsi"):
        return _is_thread(owner.operands[0])
    if isinstance(owner.opview, gpu.ThreadIdOp):
        return str(owner.attributes["dimension"]) == "#gpu<dim x>"
    return isinstance(owner.opview, nvvm.ThreadIdXOp)
