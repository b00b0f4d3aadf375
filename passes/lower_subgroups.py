"""`--lower-subgroups`: lowers what upstream's pass makes something else of: shuffles among fewer than 32
lanes, and differences and negations by `gpu.subgroup_mma_elementwise`; and `gpu.subgroup_reduce`, for which
it has no pass in pipelines of text.
"""

from functools import partial
from typing import Any

from weft import mlir
from weft.dialects.op import refuse
from weft.isa.chips import LANES
from weft.mlir import arith, gpu, ir, llvm, nvvm, operations, vector
from weft.passes.analysis.upstream_operations import element_of_matrix
from weft.passes.builders import emit
from weft.passes.registry.pass_ import Pass


def run(module: Any) -> None:
    """Lowers the operations in all kernels."""
    for op in operations(module, gpu.ShuffleOp):
        if mlir.constant(op.width) != LANES:
            with ir.InsertionPoint(op), op.location:
                _replace(op, *_shuffled(op))
    for op in operations(module, gpu.SubgroupReduceOp):
        with ir.InsertionPoint(op), op.location:
            _replace(op, _reduced(op))
    for op in operations(module, gpu.SubgroupMmaElementwiseOp):
        name, matrices = op.operation.attributes["opType"], list(op.args)
        with ir.InsertionPoint(op), op.location:
            if name == _named("subf"):
                _replace(op, _elementwise("addf", matrices[0], _negative(matrices[1])))
            elif name == _named("negatef"):
                _replace(op, _negative(matrices[0]))


def _replace(op: Any, *results: Any) -> None:
    for old, new in zip(op.operation.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()


def _reduced(op: Any) -> Any:
    """A value of all lanes of a subgroup, or of each cluster of them, combined: pairs of lanes exchange what
    they have. All lanes must take part.
    """
    size, stride = (default if each is None else each.value for each, default in _cluster(op))
    if size * stride > LANES:
        raise refuse(op, f"must have a cluster within {LANES} lanes, got {size} lanes {stride} apart")
    name = str(op.operation.attributes["op"]).split()[-1].rstrip(">")

    def combined(value: Any) -> Any:
        spelled = name + "f" * isinstance(value.type, ir.FloatType) if name in ("add", "mul") else name
        combine = getattr(arith, _INTEGER.get(spelled, spelled))
        for step in range(size.bit_length() - 1):
            value = combine(value, emit.by_words(value, partial(_of_partner, stride << step)))
        return value

    kind = op.value.type
    if not isinstance(kind, ir.VectorType):
        return combined(op.value)
    return vector.from_elements(kind, [combined(each) for each in emit.elements(op.value)])


_INTEGER = {name: f"{name}i" for name in ("add", "mul", "and", "or", "xor")}


def _cluster(op: Any) -> tuple[tuple[Any, int], ...]:
    return (op.cluster_size, LANES), (op.cluster_stride, 1)


def _of_partner(distance: int, word: Any) -> Any:
    """The word of the lane whose number differs in one bit."""
    all_lanes, end = emit.value(-1), emit.value(LANES - 1)
    moved = nvvm.ShflOp(all_lanes, word, emit.value(distance), end, nvvm.ShflKind.bfly, results=[word.type])
    return moved.res


def _negative(matrix: Any) -> Any:
    """-1 times a matrix, which is exact."""
    one = arith.constant(element_of_matrix(matrix.type), -1.0)
    return _elementwise("mulf", matrix, gpu.subgroup_mma_constant_matrix(matrix.type, one))


def _elementwise(name: str, *matrices: Any) -> Any:
    return gpu.subgroup_mma_elementwise(matrices[0].type, matrices, _named(name))


def _named(name: str) -> Any:
    return ir.Attribute.parse(f"#gpu<mma_element_wise {name}>")


_KINDS = {
    f"#gpu<shuffle_mode {name}>": kind
    for name, kind in {
        "xor": nvvm.ShflKind.bfly,
        "up": nvvm.ShflKind.up,
        "down": nvvm.ShflKind.down,
        "idx": nvvm.ShflKind.idx,
    }.items()
}


def _shuffled(op: Any) -> tuple[Any, Any]:
    """The value from another lane, and whether it is in the segment. Each segment of so many lanes shuffles
    on its own: all of its lanes must take part, those of others needn't.
    """
    width, number = op.width, mlir.constant(op.width)
    if number is not None and (not 0 < number < LANES or number & (number - 1)):
        raise refuse(op, f"must have a width of 1, 2, 4, 8, 16 or {LANES}, got {number}")
    lane = nvvm.read_ptx_sreg_laneid(results=[emit.i32()])
    others = arith.subi(emit.value(LANES), width)
    first = arith.andi(lane, arith.subi(emit.value(0), width))
    members = arith.shli(arith.shrui(emit.value(-1), others), first)
    kind = _KINDS[str(op.operation.attributes["mode"])]
    end = arith.shli(others, emit.value(8))  # the bits of a lane's number that stay
    end = end if kind == nvvm.ShflKind.up else arith.ori(end, emit.value(LANES - 1))
    offset, near = op.offset, None
    if kind == nvvm.ShflKind.bfly:  # which would read lanes before the segment
        near = arith.cmpi(arith.CmpIPredicate.ult, offset, width)
        offset = arith.select(near, offset, emit.value(0))
    flags: list[Any] = []

    def moved(word: Any) -> Any:
        pair = llvm.StructType.get_literal([word.type, emit.i1()])
        both = nvvm.ShflOp(members, word, offset, end, kind, return_value_and_is_valid=True, results=[pair])
        flags.append(_member(emit.i1(), both.res, 1))
        return _member(word.type, both.res, 0)

    found = emit.by_words(op.value, moved)
    return found, flags[0] if near is None else near


def _member(kind: Any, pair: Any, number: int) -> Any:
    return llvm.extractvalue(kind, pair, ir.DenseI64ArrayAttr.get([number]))


LOWER_SUBGROUPS = Pass(
    "lower-subgroups", "lower narrow shuffles, and what upstream makes something else of", run
)
