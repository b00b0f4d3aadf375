"""Arithmetic on i32 and index values that may also be Python numbers (then it is folded), constants, elements
of vectors, their bits as other types, branches and loops.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.isa.chips import LANES
from weft.mlir import arith, gpu, ir, nvvm, scf, vector

Number = Any  # an i32 or index Value or a Python int


def i32() -> ir.Type:
    """The type of all coordinates in a kernel."""
    return ir.IntegerType.get_signless(32)


def i64() -> ir.Type:
    """The type of addresses."""
    return ir.IntegerType.get_signless(64)


def i1() -> ir.Type:
    """The type of conditions."""
    return ir.IntegerType.get_signless(1)


_built: ContextVar[tuple[ir.InsertionPoint, dict[tuple[object, ...], ir.Value]] | None] = ContextVar(
    "built", default=None
)


@contextmanager
def reused() -> Iterator[None]:
    """In the `with` block, sums and the like of the same numbers are built once at the current insertion
    point: for code that computes many addresses from few numbers.
    """
    token = _built.set((ir.InsertionPoint.current, {}))
    try:
        yield
    finally:
        _built.reset(token)


def _once(build: Callable[..., ir.Value], *operands: ir.Value | ir.Type | int) -> ir.Value:
    """The result of an operation of these operands, which may have been built before."""
    built = _built.get()
    if built is None or ir.InsertionPoint.current is not built[0]:
        return build(*operands)
    key = build, *operands
    if (known := built[1].get(key)) is None:
        known = built[1][key] = build(*operands)
    return known


def value(number: Number, other: Number = 0) -> ir.Value:
    """The number as an SSA value, of the type of another one."""
    if not isinstance(number, int):
        return number
    return _once(_number, number, i32() if isinstance(other, int) else other.type)


def _number(number: int, kind: ir.Type) -> ir.Value:
    return arith.constant(kind, number)


def add(*numbers: Number) -> Number:
    """The sum."""
    known = sum(n for n in numbers if isinstance(n, int))
    total: Number = None
    for number in numbers:
        if not isinstance(number, int):
            total = number if total is None else _once(arith.addi, total, number)
    if total is None:
        return known
    return total if known == 0 else _once(arith.addi, total, value(known, total))


def mul(a: Number, b: Number) -> Number:
    """The product."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b in (0, 1):
        return a if b else 0
    return _once(arith.muli, a, value(b, a))


def _folded(
    compute: Callable[[int, int], int], build: Callable[..., ir.Value], neutral: int | None = None
) -> Callable[[Number, Number], Number]:
    """A function of two numbers, which nothing is built for if both are known, or the second is `neutral`."""

    def result(a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        return a if isinstance(b, int) and b == neutral else _once(build, value(a, b), value(b, a))

    return result


sub = _folded(operator.sub, arith.subi, 0)
xor = _folded(operator.xor, arith.xori, 0)
div = _folded(operator.floordiv, arith.divui, 1)
"""The quotient of non-negative numbers, rounded down."""
shift_right = _folded(operator.rshift, arith.shrui, 0)
"""`a >> b` of non-negative numbers."""
minimum = _folded(min, arith.minsi)
"""The smaller, as signed numbers."""
maximum = _folded(max, arith.maxsi)


def rem(a: Number, b: Number) -> Number:
    """The remainder of non-negative numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if isinstance(b, int) and b == 1 else _once(arith.remui, value(a, b), value(b, a))


def ceil_div(a: Number, b: Number) -> Number:
    """The quotient of non-negative numbers, rounded up."""
    return div(add(a, sub(b, 1)), b)


def bit_and(a: Number, b: int) -> Number:
    """`a & b`."""
    if isinstance(a, int):
        return a & b
    return 0 if b == 0 else _once(arith.andi, a, value(b))


def less(a: Number, b: Number) -> ir.Value:
    """Whether `a < b`, as signed numbers: an i1 value."""
    return arith.cmpi(arith.CmpIPredicate.slt, value(a, b), value(b, a))


def equal(a: Number, b: Number) -> ir.Value:
    """Whether `a == b`: an i1 value."""
    return arith.cmpi(arith.CmpIPredicate.eq, value(a, b), value(b, a))


def negate(condition: ir.Value) -> ir.Value:
    """The opposite of a condition, an i1 value."""
    return arith.xori(condition, arith.constant(i1(), 1))


def select(condition: ir.Value, a: Number, b: Number) -> ir.Value:
    """`a` where the condition is true, otherwise `b`."""
    return arith.select(condition, value(a), value(b))


def as_i32(index: ir.Value) -> ir.Value:
    """An index as i32."""
    return arith.index_cast(i32(), index)


def index(number: int) -> ir.Value:
    """A constant index."""
    return arith.constant(ir.IndexType.get(), number)


def as_index(number: Number) -> ir.Value:
    """The number as an index."""
    return arith.index_cast(ir.IndexType.get(), value(number))


def thread() -> ir.Value:
    """The thread's number in its CTA (blocks have one dimension)."""
    return as_i32(gpu.thread_id(gpu.Dimension.x))


def either(
    condition: ir.Value,
    kinds: list[ir.Type],
    then: Callable[[], list[ir.Value]],
    otherwise: Callable[[], list[ir.Value]],
) -> list[ir.Value]:
    """The values of `then` where the condition, an i1 value, is true, otherwise those of `otherwise`. Both
    return values of types `kinds`.
    """
    branch = scf.IfOp(condition, kinds, has_else=True)
    for block, values in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            scf.yield_(values())
    return list(branch.results)


def branch(condition: ir.Value, then: Callable[[], object], otherwise: Callable[[], object]) -> None:
    """Builds the ops of `then` for where the condition, an i1 value, is true, otherwise those of
    `otherwise`.
    """
    op = scf.IfOp(condition, has_else=True)
    for block, build in ((op.then_block, then), (op.else_block, otherwise)):
        with ir.InsertionPoint(block):
            build()
            scf.yield_([])


def uniform(number: ir.Value) -> ir.Value:
    """A number that is the same in all lanes of a warp, read from lane 0, so that ptxas knows that it is. It
    then uses uniform registers, whose instructions are free and which matrix descriptors need.
    """
    return of_lane(number, 0)


def of_lane(own: ir.Value, lane: Number, kind: nvvm.ShflKind = nvvm.ShflKind.idx) -> ir.Value:
    """The value that another lane of the warp has where this one has `own` (`shfl.sync`): the lane of this
    number; with `bfly`, that of this lane's number xor `lane`; with `up`, that `lane` lanes before, or this
    one if there is none. Values of less than 32 bits are sent as a word, those of 64 bits as two.
    """
    last = value(0 if kind == nvvm.ShflKind.up else LANES - 1)

    def moved(word: ir.Value) -> ir.Value:
        return nvvm.ShflOp(value(-1), word, value(lane), last, kind, results=[word.type]).res

    return by_words(own, moved)


Combine = Callable[[ir.Value, ir.Value], ir.Value]


def folded(values: list[ir.Value], combine: Combine) -> ir.Value:
    """The reduction of values, neighbors first, so that few operations wait for each other."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def across_lanes(value: ir.Value, distances: Sequence[int], combine: Combine) -> ir.Value:
    """The reduction over the lanes at these distances, in all of them."""
    for distance in distances:
        value = combine(value, of_lane(value, distance, nvvm.ShflKind.bfly))
    return value


def by_words(own: ir.Value, moved: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The result of a function of words for a value, which is extended to a word or consists of two."""
    width = own.type.width
    whole = ir.IntegerType.get_signless(width)
    if width == i32().width:
        other = moved(signless(own))
    elif width < i32().width:
        other = arith.trunci(whole, moved(arith.extui(i32(), bits(own, whole))))
    else:
        number, half = bits(own, whole), constant(whole, i32().width)
        words = arith.trunci(i32(), number), arith.trunci(i32(), arith.shrui(number, half))
        low, high = (arith.extui(whole, moved(each)) for each in words)
        other = arith.ori(low, arith.shli(high, half))
    return bits(other, own.type)


@contextmanager
def when(condition: ir.Value) -> Iterator[None]:
    """In the block, ops are built for where the condition, an i1 value, is true."""
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


def loop(
    first: Number,
    end: Number,
    step: Number,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """A loop over every `step`-th number from `first` on, below `end`. `body` takes a number and the carried
    values and returns the next carried values. Returns the last ones.
    """
    op = scf.ForOp(value(first), value(end), value(step), carried)
    with ir.InsertionPoint(op.body):
        scf.yield_(body(op.induction_variable, list(op.inner_iter_args)))
    return list(op.results)


@contextmanager
def each(first: Number, end: Number, step: Number = 1) -> Iterator[ir.Value]:
    """As `loop`, without carried values: in the block, ops are built for a number, which is yielded."""
    op = scf.ForOp(value(first), value(end), value(step))
    with ir.InsertionPoint(op.body):
        yield op.induction_variable
        scf.yield_([])


def repeat(
    carried: list[ir.Value],
    before: Callable[..., tuple[ir.Value, list[ir.Value]]],
    after: Callable[..., list[ir.Value]] = lambda *passed: list(passed),
    kinds: list[ir.Type] | None = None,
) -> list[ir.Value]:
    """A loop. `before` takes the carried values and returns whether to continue, an i1, and the values that
    it passes on (of types `kinds`, by default those of the carried values). `after` takes these and returns
    the next carried values. Returns the values that the last `before` passed on.
    """
    types = [each.type for each in carried]
    loop = scf.WhileOp(types if kinds is None else kinds, carried)
    block_before = loop.before.blocks.append(*types)
    block_after = loop.after.blocks.append(*(types if kinds is None else kinds))
    with ir.InsertionPoint(block_before):
        scf.ConditionOp(*before(*block_before.arguments))
    with ir.InsertionPoint(block_after):
        scf.yield_(after(*block_after.arguments))
    return list(loop.results)


def constant(kind: ir.Type, number: float) -> ir.Value:
    """A number as a value of an integer or float type, or in every element of a vector or tile."""
    given, kind = kind, signless_type(kind)
    element = element_of(kind)
    if isinstance(element, ir.IntegerType):
        one = ir.IntegerAttr.get(element, int(number))
    else:
        one = ir.FloatAttr.get(element, number)
    made = arith.constant(kind, one if element == kind else ir.DenseElementsAttr.get_splat(kind, one))
    return bits(made, given)


def retype(value: ir.Value, kind: ir.Type) -> None:
    """Changes the type of a value. A constant keeps its number, which all elements have."""
    value.set_type(kind)
    owner = value.owner
    if not isinstance(owner, ir.Block) and isinstance(op := owner.opview, arith.ConstantOp):
        owner.attributes["value"] = ir.DenseElementsAttr.get_splat(kind, op.value.get_splat_value())


def element_of(kind: ir.Type) -> ir.Type:
    """The type of the elements of a vector or tile, or of a scalar."""
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind


def with_elements(kind: ir.Type, element: ir.Type) -> ir.Type:
    """The type of a vector or tile like this one, with other elements; of a scalar, that of an element."""
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(list(kind.shape), element, kind.encoding)
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element


def signless_type(kind: ir.Type) -> ir.Type:
    """A type with signless integers in place of unsigned ones."""
    element = element_of(kind)
    if not isinstance(element, ir.IntegerType) or element.is_signless:
        return kind
    return with_elements(kind, ir.IntegerType.get_signless(element.width))


def signless(value: ir.Value) -> ir.Value:
    """A value as operations of `arith` take it, whose integers are signless."""
    return bits(value, signless_type(value.type))


def bits(value: ir.Value, kind: ir.Type) -> ir.Value:
    """The bits of a scalar, or of each element of a vector or tile, as those of another type, which may also
    be that of the whole. Nothing is executed for it.
    """
    if isinstance(value.type, ir.ShapedType) and not isinstance(kind, ir.ShapedType):
        kind = with_elements(value.type, kind)
    if value.type == kind:
        return value
    owner = value.owner
    made = None if isinstance(owner, ir.Block) else owner.operation
    if made is not None and made.name in CASTS and made.operands[0].type == kind:
        return made.operands[0]
    if isinstance(kind, ir.VectorType):
        return vector.bitcast(kind, value)
    if signless_type(value.type) == signless_type(kind):
        return ir.Operation.create(SIGN_CAST, results=[kind], operands=[value]).result
    return bits(arith.bitcast(signless_type(kind), signless(value)), kind)


SIGN_CAST = "builtin.unrealized_conversion_cast"
"""The operation between integers of a sign and signless ones."""
CASTS = (SIGN_CAST, "vector.bitcast", "arith.bitcast")


def vector_of(scalars: list[ir.Value]) -> ir.Value:
    """The vector of values of one type."""
    return vector.from_elements(ir.VectorType.get([len(scalars)], scalars[0].type), scalars)


def elements(value: ir.Value) -> list[ir.Value]:
    """The elements of a vector; of a scalar, the scalar itself."""
    if not isinstance(value.type, ir.VectorType):
        return [value]
    if value.type.rank > 1:  # of which LLVM has no vectors
        rows = [vector.extract(value, [], [i]) for i in range(value.type.shape[0])]
        return [element for row in rows for element in elements(row)]
    results = vector.to_elements(value)
    return [results] if isinstance(results, ir.Value) else list(results)
