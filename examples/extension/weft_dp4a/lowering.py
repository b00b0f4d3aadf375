"""`--lower-dot`, and the candidate by which `tile.gemm` becomes `dot.dp4a`."""

from typing import Any

from weft.dialects import tile
from weft.isa.chips import LANES
from weft.layout import Layout
from weft.mlir import ir, vector
from weft.passes import Candidate, Pass, Predicate
from weft.passes.builders import emit
from weft.passes.builders.instructions import lower_all
from weft_dp4a.dialect import Dot, dp4a


def run(module: Any) -> None:
    """Lowers every operation of the dialect to inline PTX, as its table specifies."""
    lower_all(module, Dot.operations)


LOWER_DOT = Pass("lower-dot", "lower the dot dialect to PTX", run, lowers=(Dot,))


def layouts(n: int, k: int) -> dict[str, Layout]:
    """Lane i has row i of A and of D, and all of B."""
    texts = {
        "A": f"S[({LANES},{k}):(1@laneid,1)]",
        "B": f"S[({k},{n}):(1,{k})] + R[({LANES}):(1@laneid)]",
        "D": f"S[({LANES},{n}):(1@laneid,1)]",
    }
    return {name: Layout.parse(text) for name, text in texts.items()}


def _types(op: Any) -> str | None:
    types = [str(value.type.element_type) for value in (op.a, op.b, op.d)]
    return None if types == ["i8", "i8", "i32"] else f"needs A and B of i8 and D of i32; got {types}"


def _fragments(op: Any) -> str | None:
    m, n, k = op.mnk
    if m != LANES or k % 4:
        return f"needs M = {LANES} and K % 4 == 0; got M = {m}, K = {k}"
    wanted = layouts(n, k)
    for name, value in (("A", op.a), ("B", op.b), ("D", op.d), *(("D", c) for c in op.c)):
        if not tile.is_fragment(value) or value.type.layout != wanted[name]:
            return f"needs {name} in registers, with layout {wanted[name]}; got {value.type}"
    return None


def _scales(op: Any) -> str | None:
    alpha, beta = op.attribute("alpha"), op.attribute("beta")
    return None if alpha == 1 and beta in (0, 1) else f"needs alpha 1 and beta 0 or 1; got {alpha} and {beta}"


def _words(fragment: Any) -> list[Any]:
    """A lane's bytes, four in each i32."""
    lane = tile.to_lane(fragment)
    kind = ir.VectorType.get([fragment.type.registers // 4], emit.i32())
    return emit.elements(vector.bitcast(kind, lane))


def lower(op: Any) -> Any:
    """Builds the unrolled product, and returns D."""
    _, n, k = op.mnk
    a, b, depth = _words(op.a), _words(op.b), k // 4
    zero = emit.constant(op.d.type.lane_type, 0)
    sums = emit.elements(tile.to_lane(op.c[0]) if op.attribute("beta") else zero)
    for column in range(n):
        for i in range(depth):
            words = {"a": a[i], "b": b[column * depth + i], "c": sums[column]}
            sums[column] = dp4a(**words, a_type="s32", b_type="s32")
    return tile.from_lane(vector.from_elements(op.d.type.lane_type, sums), op.d.type)


CANDIDATE = Candidate(
    "dot.dp4a",
    4,  # products of an instruction
    (Predicate("types", _types), Predicate("fragments", _fragments), Predicate("scales", _scales)),
    lower,
)
