"""Which threads of a CTA may reach an operation, computed thread by thread from the conditions around it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.dialects.instruction import InstructionOp
from weft.dialects.tile_buffers import StageOp
from weft.dialects.tile_roles import RoleOp
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.mlir import constant, ir, nvvm
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import FUNCTIONS, Scope

Threads = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Values:
    """An integer in each thread of the CTA, as far as it is `known`."""

    numbers: npt.NDArray[np.int64]
    known: Threads

    @staticmethod
    def of(numbers: Sequence[int] | npt.NDArray[np.int64]) -> "_Values":
        return _Values(np.asarray(numbers, np.int64), np.ones(len(numbers), np.bool_))


def scope(op: ir.OpView) -> str:
    """Who executes an operation together: "thread" or "warp", or a description of other threads.

    It is "thread" where the conditions around the operation leave one thread of the CTA, "warp" where they
    leave all lanes of one warp.
    """
    threads = may_reach(op)
    if threads is None:
        return "of a kernel without 'known_block_size'"
    numbers = np.flatnonzero(threads)
    if len(numbers) == 1:
        return "thread"
    whole = len(numbers) and len(numbers) == numbers[-1] - numbers[0] + 1
    if whole and len(numbers) == LANES and numbers[0] % LANES == 0:
        return "warp" if uniformity.complaint(op, Scope.WARP) is None else "some lanes of a warp"
    if len(numbers) == len(threads):
        return f"CTA ({len(numbers)} threads)"
    if whole and len(numbers) == WARPGROUP and numbers[0] % WARPGROUP == 0:
        return "warpgroup"
    return f"{len(numbers)} threads"


def scope_of(op: ir.OpView, tensor: ir.Value) -> str:
    """Who executes an operation on a buffer of tensor memory. It is also "thread" for one thread of each
    warpgroup of a role, of the same warp, each with a buffer of its own.
    """
    of_all = scope(op)
    owner = None if isinstance(tensor.owner, ir.Block) else tensor.owner.opview
    if of_all in ("thread", "warp") or not isinstance(owner, StageOp) or not one_of_each_warp(op):
        return of_all
    of_warpgroup = isinstance(owner.index.owner, ir.Block)  # the stage has its number in the role
    role = owner.index.owner.owner.opview if of_warpgroup else None
    alone = isinstance(role, RoleOp) and not role.by_warps and len(warps_in_warpgroups(op) or ()) == 1
    return "thread" if alone else of_all


def one_of_each_warp(op: ir.OpView) -> bool:
    """Whether at most one thread of each warp of the CTA may reach an operation. False outside of a kernel of
    known size.
    """
    threads = may_reach(op)
    if threads is None:
        return False
    warps = np.flatnonzero(threads) // LANES
    return len({*warps.tolist()}) == len(warps)


def is_elected(op: ir.OpView) -> bool:
    """Whether only the thread that an `nvvm.elect.sync` of its whole warp chose reaches an operation."""
    for outer, region in _around(op.operation):
        chooser: Any = outer.operands[0].owner if outer.name == "scf.if" and region == 0 else None
        elects = not isinstance(chooser, ir.Block | None) and isinstance(chooser.opview, nvvm.ElectSyncOp)
        if elects and uniformity.complaint(chooser) is None:
            return True
    return False


def warps_in_warpgroups(op: ir.OpView) -> tuple[int, ...] | None:
    """The numbers in their warpgroups of the warps of which a thread may reach an operation. None outside of
    a kernel of known size.
    """
    threads = may_reach(op)
    return None if threads is None else (*sorted({*(np.flatnonzero(threads) // LANES % WARPS).tolist()}),)


def divided(ops: Iterable[ir.OpView]) -> Iterator[tuple[ir.OpView, str]]:
    """The instructions of whole warps that some lanes of a warp certainly don't reach while others may, each
    with what it expects. Conditions that depend on data aren't judged.
    """
    blocks = dict[ir.Block, bool]()
    for op in ops:
        block = op.operation.block
        if block not in blocks:
            blocks[block] = _divides_warps(op)
        if blocks[block] and isinstance(op, InstructionOp) and op.family and ".aligned" in op.form.ptx:
            yield op, f"expects {uniformity.excluding('scf.if')}"


def _divides_warps(op: ir.OpView) -> bool:
    if all(outer.name != "scf.if" for outer, _ in _around(op.operation)):
        return False
    threads = may_reach(op)
    if threads is None:
        return False
    warps = np.arange(len(threads)) // LANES
    reaching = np.bincount(warps, threads)
    return bool(((reaching > 0) & (reaching < np.bincount(warps))).any())


def may_reach(op: ir.OpView) -> Threads | None:
    """The threads of the CTA that may reach an operation, by their numbers: those for which no condition
    around it is known to be false. None outside of a kernel of known size.
    """
    size = uniformity.block_size(op.operation)
    return None if size is None else _Evaluation(size).reaching(op.operation)


def _around(inner: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """The operations around one in its function, from the inside out, each with the number of its region."""
    while inner.parent is not None and inner.parent.name not in FUNCTIONS:
        outer = inner.parent.operation
        yield outer, list(outer.regions).index(inner.block.region)
        inner = outer


class _Evaluation:
    """Values of threads of a CTA of one size."""

    def __init__(self, size: tuple[int, int, int]) -> None:
        self._size = size
        self._thread = np.arange(size[0] * size[1] * size[2])

    def reaching(self, inner: ir.Operation) -> Threads:
        reach = np.ones(len(self._thread), np.bool_)
        for outer, region in _around(inner):
            if outer.name == "scf.if":
                condition = self._value(outer.operands[0])
                reach &= ~condition.known | (condition.numbers == int(region == 0))
            elif outer.name == "tile.role":
                agent = self._agent(outer.opview)
                reach &= (agent >= 0) & (agent < outer.opview.count)
        return reach

    def _agent(self, role: ir.OpView) -> npt.NDArray[np.int64]:
        """The number in a role of the warp or warpgroup that has each thread."""
        numbers: npt.NDArray[np.int64] = self._thread // (LANES if role.by_warps else WARPGROUP)
        return numbers - int(role.first.value)

    def _value(self, value: ir.Value) -> _Values:
        found = self._argument(value) if isinstance(value.owner, ir.Block) else self._result(value.owner)
        return found or _Values(np.zeros_like(self._thread), np.zeros(len(self._thread), np.bool_))

    def _argument(self, value: ir.Value) -> _Values | None:
        parent = ir.BlockArgument(value).owner.owner
        return _Values.of(self._agent(parent.opview)) if parent.name == "tile.role" else None

    def _result(self, owner: ir.OpView) -> _Values | None:
        op = owner.operation
        if isinstance(number := constant(op.results[0]), int):
            bounded = abs(number) < _MOST
            return _Values.of(np.full(len(self._thread), _as_bit(op, number))) if bounded else None
        if op.name in _IDS:
            return _Values.of(self._id(_IDS[op.name], op))
        if isinstance(op.opview, nvvm.ElectSyncOp):
            # Any thread of a warp that reaches the operation may be elected, but no more than one.
            firsts = np.flatnonzero(self.reaching(op))
            elected = np.zeros(len(self._thread), np.int64)
            elected[firsts[np.diff(firsts // LANES, prepend=-1) > 0]] = 1
            return _Values.of(elected)
        if op.name == "nvvm.shfl.sync":
            if not uniformity.reads_one_lane(op):
                return None
            source, lane = self._value(op.operands[1]), self._value(op.operands[2])
            at = self._thread // LANES * LANES + lane.numbers % LANES
            at = np.minimum(at, len(self._thread) - 1)
            return _Values(source.numbers[at], source.known[at] & lane.known)
        if op.name == "arith.cmpi":
            return self._compared(op)
        if op.name in ("arith.andi", "arith.ori") and _is_bit(op.results[0]):
            return self._logical(op)
        if op.name in _CASTS:
            return self._value(op.operands[0])
        if op.name == "arith.trunci":
            value, width = self._value(op.operands[0]), min(op.results[0].type.width, 31)
            return _Values(value.numbers & (1 << width) - 1, value.known & (value.numbers >= 0))
        if op.name in _BINARY:
            return self._binary(op, _BINARY[op.name])
        return None

    def _id(self, name: str, op: ir.Operation) -> npt.NDArray[np.int64]:
        x, y, _ = self._size
        if name == "dimension":
            name = str(op.attributes["dimension"]).removeprefix("#gpu<dim ").rstrip(">")
        return {
            "x": self._thread % x,
            "y": self._thread // x % y,
            "z": self._thread // (x * y),
            "warp": self._thread // LANES,
            "lane": self._thread % LANES,
        }[name]

    def _compared(self, op: ir.Operation) -> _Values:
        a, b = (self._value(operand) for operand in op.operands)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        known = a.known & b.known
        if predicate > _LAST_SIGNED:  # negative numbers are large there
            known &= (a.numbers >= 0) & (b.numbers >= 0)
        return _Values(_COMPARISONS[predicate](a.numbers, b.numbers).astype(np.int64), known)

    def _logical(self, op: ir.Operation) -> _Values:
        """A conjunction (disjunction), known where one side is false (true)."""
        a, b = (self._value(operand) for operand in op.operands)
        decides = int(op.name == "arith.ori")
        decided = (a.known & (a.numbers == decides)) | (b.known & (b.numbers == decides))
        numbers = a.numbers | b.numbers if decides else a.numbers & b.numbers
        return _Values(np.where(decided, decides, numbers), decided | (a.known & b.known))

    def _binary(self, op: ir.Operation, compute: Callable[[Any, Any], Any]) -> _Values:
        a, b = (self._value(operand) for operand in op.operands)
        known = a.known & b.known & (a.numbers >= 0) & (b.numbers >= 0)
        if op.name in _DIVISIONS:
            known &= b.numbers > 0
            b = _Values(np.maximum(b.numbers, 1), b.known)
        if op.name in _SHIFTS:
            known &= b.numbers < _MOST_SHIFT
            b = _Values(np.minimum(b.numbers, _MOST_SHIFT), b.known)
        numbers = compute(np.where(known, a.numbers, 0), np.where(known, b.numbers, 1))
        # Larger numbers may wrap around in fewer bits.
        return _Values(numbers, known & (np.abs(numbers) < _MOST))


def _as_bit(op: ir.Operation, number: int) -> int:
    """A constant, of which MLIR may sign-extend a single bit."""
    return abs(number) if _is_bit(op.results[0]) else number


def _is_bit(value: ir.Value) -> bool:
    return str(value.type) == "i1"


_IDS = {
    "gpu.thread_id": "dimension",
    "gpu.subgroup_id": "warp",
    "gpu.lane_id": "lane",
    "nvvm.read.ptx.sreg.tid.x": "x",
    "nvvm.read.ptx.sreg.tid.y": "y",
    "nvvm.read.ptx.sreg.tid.z": "z",
    "nvvm.read.ptx.sreg.laneid": "lane",
}
_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extui")
_DIVISIONS = ("arith.divui", "arith.divsi", "arith.floordivsi", "arith.remui", "arith.remsi")
_SHIFTS = ("arith.shli", "arith.shrui", "arith.shrsi")
_MOST = 1 << 31
_MOST_SHIFT = 16  # thread numbers have fewer bits
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.divsi": np.floor_divide,
    "arith.floordivsi": np.floor_divide,
    "arith.remui": np.remainder,
    "arith.remsi": np.remainder,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrui": np.right_shift,
    "arith.shrsi": np.right_shift,
}
# By the numbers of MLIR's predicates: eq, ne, the four signed ones, the four unsigned ones.
_ORDERED = (np.less, np.less_equal, np.greater, np.greater_equal)
_COMPARISONS = (np.equal, np.not_equal, *_ORDERED, *_ORDERED)
_LAST_SIGNED = 5
