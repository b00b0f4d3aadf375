"""`--lower-subgroups`: lowers what upstream's pass makes something else of: shuffles among fewer than 32
lanes, differences and negations by `gpu.subgroup_mma_elementwise`, integers of `gpu.printf` that aren't whole
words, and `gpu.all_reduce` in loops, or by minnumf or maxnumf; and `gpu.subgroup_reduce`, for which it has no
pass in pipelines of text.
"""

from weft import mlir
from weft.dialects.op import refuse
from weft.isa.chips import LANES
from weft.mlir import arith, gpu, ir, llvm, nvvm, operations, vector
from weft.passes.analysis import active_threads, uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.analysis.upstream_operations import element_of_matrix
from weft.passes.builders import emit
from weft.passes.registry.pass_ import Pass, replace, rewrite


def run(module: ir.Operation) -> None:
    """Lowers the operations in all kernels."""
    for op in operations(module, gpu.ShuffleOp):
        if mlir.constant(op.width) != LANES or isinstance(op.value.type, ir.VectorType):
            replace(op, _shuffled)
    for op in operations(module, gpu.AllReduceOp):
        _check_threads(op)
        with ir.InsertionPoint(op), op.location:
            gpu.barrier()  # in a loop, threads may still read the last result, which the next one replaces
            _write_region(op)
    rewrite(module, {gpu.SubgroupReduceOp: _reduced})
    for op in operations(module, gpu.PrintfOp):
        with ir.InsertionPoint(op), op.location:
            for at, value in enumerate(op.args):
                op.operation.operands[at] = _promoted(value)
    for op in operations(module, gpu.SubgroupMmaElementwiseOp):
        if op.operation.attributes["opType"] == _named("subf"):
            replace(op, lambda op: _elementwise("addf", op.args[0], _negative(op.args[1])))
        elif op.operation.attributes["opType"] == _named("negatef"):
            replace(op, lambda op: _negative(op.args[0]))


def _promoted(value: ir.Value) -> ir.Value:
    """An argument of printf, which reads 32 or 64 bits of each, as C promotes it."""
    kind = value.type
    if not isinstance(kind, ir.IntegerType) or kind.width in (32, 64):
        return value
    wide = ir.IntegerType.get_signless(32 if kind.width < 32 else 64)
    return (arith.extui if kind.width == 1 else arith.extsi)(wide, value)


def _check_threads(op: ir.OpView) -> None:
    """Refuses a reduction that some threads of the CTA certainly don't reach while others may, and one in a
    `func.func`, in which upstream's pass doesn't lower it.
    """
    function = uniformity.function(op.operation)
    if function is not None and function.name == "func.func":
        raise refuse(op, "must be in a gpu.func: move it to the kernel that calls the function")
    threads = active_threads.may_reach(op)
    if threads is not None and threads.any() and not threads.all():
        raise refuse(op, f"expects {uniformity.excluding('scf.if', Scope.CTA)}")


def _write_region(op: ir.OpView) -> None:
    """Gives a reduction by minnumf or maxnumf a region, which `--lower-math` lowers: upstream's pass would
    call CUDA's device library.
    """
    combine = _NUMBERS.get(str(op.operation.attributes["op"])) if "op" in op.operation.attributes else None
    if combine is not None:
        del op.operation.attributes["op"]
        block = ir.Block.create_at_start(op.operation.regions[0], [op.value.type] * 2)
        with ir.InsertionPoint(block):
            gpu.yield_([combine(*block.arguments)])


_NUMBERS = {"#gpu<all_reduce_op minnumf>": arith.minnumf, "#gpu<all_reduce_op maxnumf>": arith.maxnumf}


def _reduced(op: ir.OpView) -> ir.Value:
    """A value of all lanes of a subgroup, or of each cluster of them, combined: pairs of lanes exchange what
    they have. All lanes must take part.
    """
    size, stride = (default if each is None else each.value for each, default in _cluster(op))
    if size * stride > LANES:
        raise refuse(op, f"must have a cluster within {LANES} lanes, got {size} lanes {stride} apart")
    name = str(op.operation.attributes["op"]).split()[-1].rstrip(">")

    def combined(value: ir.Value) -> ir.Value:
        spelled = name + "f" * isinstance(value.type, ir.FloatType) if name in ("add", "mul") else name
        distances = [stride << step for step in range(size.bit_length() - 1)]
        return emit.across_lanes(value, distances, getattr(arith, _INTEGER.get(spelled, spelled)))

    kind = op.value.type
    if not isinstance(kind, ir.VectorType):
        return combined(op.value)
    return vector.from_elements(kind, [combined(each) for each in emit.elements(op.value)])


_INTEGER = {name: f"{name}i" for name in ("add", "mul", "and", "or", "xor")}


def _cluster(op: ir.OpView) -> tuple[tuple[ir.Value, int], ...]:
    return (op.cluster_size, LANES), (op.cluster_stride, 1)


def _negative(matrix: ir.Value) -> ir.Value:
    """-1 times a matrix, which is exact."""
    one = arith.constant(element_of_matrix(matrix.type), -1.0)
    return _elementwise("mulf", matrix, gpu.subgroup_mma_constant_matrix(matrix.type, one))


def _elementwise(name: str, *matrices: ir.Value) -> ir.Value:
    return gpu.subgroup_mma_elementwise(matrices[0].type, matrices, _named(name))


def _named(name: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#gpu<mma_element_wise {name}>")


_KINDS = {
    f"#gpu<shuffle_mode {name}>": nvvm.ShflKind["bfly" if name == "xor" else name]
    for name in ("xor", "up", "down", "idx")
}


def _shuffled(op: ir.OpView) -> tuple[ir.Value, ir.Value]:
    """The value from another lane, and whether it is in the segment. Each segment of so many lanes shuffles
    on its own: all of its lanes must take part, those of others needn't.
    """
    width, number = op.width, mlir.constant(op.width)
    if number is not None and not 0 < number <= LANES:
        raise refuse(op, f"must have a width of 1 to {LANES}, got {number}")
    is_power = number is not None and not number & (number - 1)
    lane = nvvm.read_ptx_sreg_laneid(results=[emit.i32()])
    others = arith.subi(emit.value(LANES), width)
    segment, apart = width, others
    if not is_power:
        zeros = llvm.intr_ctlz(arith.subi(width, emit.value(1)), False)
        segment = arith.shli(emit.value(1), arith.subi(emit.value(LANES), zeros))
        apart = arith.subi(emit.value(LANES), segment)
    first = arith.andi(lane, arith.subi(emit.value(0), segment))
    members = arith.shli(arith.shrui(emit.value(-1), others), first)
    kind = _KINDS[str(op.operation.attributes["mode"])]
    end = arith.shli(apart, emit.value(8))  # the bits of a lane's number that stay
    end = end if kind == nvvm.ShflKind.up else arith.ori(end, emit.value(LANES - 1))
    offset, near = op.offset, None
    if kind == nvvm.ShflKind.bfly and is_power:  # which would read lanes before the segment
        near = arith.cmpi(arith.CmpIPredicate.ult, offset, width)
    elif kind != nvvm.ShflKind.up and not is_power:  # which would read lanes behind the width
        near = arith.cmpi(arith.CmpIPredicate.ult, _source(kind, lane, first, segment, offset), width)
    if near is not None:
        offset = arith.select(near, offset, emit.value(0))
    flags: list[ir.Value] = []

    def moved(word: ir.Value) -> ir.Value:
        pair = llvm.StructType.get_literal([word.type, emit.i1()])
        both = nvvm.ShflOp(members, word, offset, end, kind, return_value_and_is_valid=True, results=[pair])
        flags.append(_member(emit.i1(), both.res, 1))
        return _member(word.type, both.res, 0)

    if isinstance(op.value.type, ir.VectorType):
        results = [emit.by_words(each, moved) for each in emit.elements(op.value)]
        found = vector.from_elements(op.value.type, results)
    else:
        found = emit.by_words(op.value, moved)
    return found, flags[0] if near is None else near


def _source(
    kind: ir.Type, lane: ir.Value, first: ir.Value | int, segment: ir.Value, offset: ir.Value
) -> ir.Value:
    """The lane that a lane reads, counted from the segment's first."""
    if kind == nvvm.ShflKind.idx:
        return arith.andi(offset, arith.subi(segment, emit.value(1)))
    own = arith.subi(lane, first)
    return arith.xori(own, offset) if kind == nvvm.ShflKind.bfly else arith.addi(own, offset)


def _member(kind: ir.Type, pair: ir.Value, number: int) -> ir.Value:
    return llvm.extractvalue(kind, pair, ir.DenseI64ArrayAttr.get([number]))


LOWER_SUBGROUPS = Pass(
    "lower-subgroups", "lower narrow shuffles, and what upstream makes something else of", run
)
