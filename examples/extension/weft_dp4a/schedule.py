"""The schedules `{dot_warps = 4}`: which are legal, which one is chosen, and their kernel."""

from dataclasses import dataclass
from typing import Any, ClassVar

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.schedule import AnySchedule, Types
from weft.isa.chips import LANES, ChipSet
from weft.mlir import arith, gpu, ir, memref, scf, vector
from weft.passes.builders import emit
from weft.passes.kernels.matrices import member, size
from weft.schedules.choice import Chooser, Request
from weft.target import Target
from weft_dp4a.instruction import DP4A
from weft_dp4a.lowering import layouts

N, K = 4, 8  # of the tile that a warp multiplies at a time


@dataclass(frozen=True)
class DotSchedule(AnySchedule):
    """A warp computes 32 x 4 elements of D, a CTA those of `dot_warps` warps below each other."""

    dot_warps: int
    stages: int = 1
    group: int = 1

    key: ClassVar[str] = "dot_warps"
    instruction: ClassVar[str] = "dp4a"

    @property
    def block(self) -> tuple[int, int, int]:  # type: ignore[override]
        return self.threads, N, K

    @property
    def threads(self) -> int:
        return LANES * self.dot_warps

    def shared_bytes(self, types: Types) -> int:
        return 0

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        plain = (types.a, types.b, types.d, types.grouped) == ("i8", "i8", "i32", False)
        return DP4A.chips() if plain else frozenset()

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        if not 1 <= self.dot_warps <= 32:
            return f"expects dot_warps in 1..32; got {self.dot_warps}"
        if not self.chips(types):
            return f"has a schedule for A and B of i8 and D of i32; got {types.a}, {types.b} and {types.d}"
        return None


def choose(request: Request) -> DotSchedule | None:
    """A schedule for i8 on sm_70, whose tensor cores don't multiply it."""
    return DotSchedule(4) if request.chip == "sm_70" else None


CHOOSER = Chooser(choose)


def expand(op: Any) -> None:
    """Writes the kernel: each warp loads its tiles of A and B for `tile.gemm`, and stores its sums."""
    if op.roles or op.attribute("activation"):
        raise refuse(op, "has an epilogue, which kernels of dp4a don't have")
    product = emit.as_i32(gpu.block_id(gpu.Dimension.z)) if op.d.type.rank == 3 else None
    a, b, d = (member(matrix, product) for matrix in (op.a, op.b, op.d))
    rows, columns = size(d, 0), size(d, 1)
    depth = size(a, 0 if op.attribute("transpose_a") else 1)
    row = emit.add(emit.mul(emit.as_i32(gpu.block_id(gpu.Dimension.x)), op.schedule.threads), emit.thread())
    column = emit.mul(emit.as_i32(gpu.block_id(gpu.Dimension.y)), N)
    kinds = {name: _fragment(name, layout) for name, layout in layouts(N, K).items()}
    zero = tile.from_lane(emit.constant(kinds["D"].lane_type, 0), kinds["D"])
    index = ir.IndexType.get()
    bounds = arith.constant(index, 0), emit.as_index(depth), arith.constant(index, K)
    loop = scf.ForOp(*bounds, [zero])
    with ir.InsertionPoint(loop.body):
        start = emit.as_i32(loop.induction_variable)
        ks = [emit.add(start, i) for i in range(K)]
        # Beyond K, zeros of A make the products zero. Beyond M and N, no sum is stored.
        of_a = []
        for k in ks:
            loaded = _load(a, op.attribute("transpose_a"), (row, rows), (k, depth))
            of_a.append(arith.select(emit.less(k, depth), loaded, emit.constant(loaded.type, 0)))
        elements = [(k, emit.add(column, j)) for j in range(N) for k in ks]
        of_b = [_load(b, op.attribute("transpose_b"), (k, depth), (j, columns)) for k, j in elements]
        left, right = _tile(kinds["A"], of_a), _tile(kinds["B"], of_b)
        scf.yield_([tile.gemm(left, right, loop.inner_iter_args[0], kinds["D"])])
    for j, value in enumerate(emit.elements(tile.to_lane(loop.results[0]))):
        here = emit.add(column, j)
        inside = scf.IfOp(arith.andi(emit.less(row, rows), emit.less(here, columns)))
        with ir.InsertionPoint(inside.then_block):
            memref.store(value, d, [emit.as_index(row), emit.as_index(here)])
            scf.yield_([])


def _fragment(name: str, layout: Any) -> Any:
    shape = {"A": (LANES, K), "B": (K, N), "D": (LANES, N)}[name]
    element = ir.IntegerType.get_signless(32 if name == "D" else 8)
    return tile.FragmentType.of(shape, element, layout)


def _tile(kind: Any, elements: list[Any]) -> Any:
    return tile.from_lane(vector.from_elements(kind.lane_type, elements), kind)


def _load(matrix: Any, transposed: bool, *positions: tuple[Any, Any]) -> Any:
    """An element of a matrix at (coordinate, size) pairs; the last one where a coordinate is beyond it."""
    inside = [emit.as_index(emit.minimum(at, emit.sub(count, 1))) for at, count in positions]
    return memref.load(matrix, inside[::-1] if transposed else inside)
