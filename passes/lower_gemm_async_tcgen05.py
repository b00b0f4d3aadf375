"""The candidates that lower `tile.gemm_async` to `tcgen05.mma`, where C is in tensor memory."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from weft.dialects import tcgen05, tile
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import PTX_INPUTS, TMEM, is_tensor_buffer
from weft.isa.tcgen05 import mma_rows as isa
from weft.isa.tcgen05.descriptors import KINDS, PLAIN_FIELDS
from weft.isa.tcgen05.mma_forms import Mma, MmaWs
from weft.isa.wgmma.descriptors import one_of
from weft.mlir import arith, nvvm
from weft.passes.analysis import active_threads
from weft.passes.builders import emit, matrix_descriptors, tensor_tiles
from weft.passes.builders.tcgen05_operands import SharedOperand
from weft.passes.builders.tcgen05_products import Product, kind_of
from weft.passes.registry.candidates import Candidate, Predicate

PRIORITY = 10


# Predicates of the op


def _accumulator_memory(op: GemmAsyncOp) -> str | None:
    if is_tensor_buffer(op.c):
        return None
    return f"needs C in tensor memory, got {op.c.type}"


def _exec_scope(op: GemmAsyncOp) -> str | None:
    """One thread, or a warp of which one is elected."""
    scope = active_threads.scope(op)
    return None if scope in ("thread", "warp") else f"unsupported exec_scope {scope}"


def _unscaled(op: GemmAsyncOp) -> str | None:
    return None if op.scales is None else "needs no scales, got scales of A and B"


def _memory_of_a(op: GemmAsyncOp) -> str | None:
    if op.a.type.space in ("shared", TMEM):
        return None
    where = "the CTA's own shared memory or in tensor memory"
    return f"needs A in {where}, got a buffer in {op.a.type.space} memory"


def _memory_of_b(op: GemmAsyncOp) -> str | None:
    if op.b.type.space == "shared":
        return None
    return f"needs B in the CTA's own shared memory, got a buffer in {op.b.type.space} memory"


def _types(op: GemmAsyncOp) -> str | None:
    if kind_of(op) is not None:
        return None
    got = " and ".join(str(each.type.element_type) for each in (op.a, op.b))
    known = {ptx: mlir for mlir, ptx in PTX_INPUTS.items()}
    kinds = (kind for kind in KINDS.values() if (kind.scales is None) == (op.scales is None))
    legal = (f"{kind.name} ({', '.join(known[e] for e in kind.elements if e in known)})" for kind in kinds)
    return f"needs A and B of types of one kind of {', '.join(legal)}, got {got}"


def _accumulator_type(op: GemmAsyncOp) -> str | None:
    name, kind = str(op.c.type.element_type), KINDS[_product(op).kind]
    mlir = {"f32": "f32", "f16": "f16", "s32": "i32"}
    legal = [mlir[each] for each in kind.accumulators]
    if name not in legal:
        return f"needs C of {' or '.join(legal)} for kind {kind.name}, got {name}"
    return None


# Predicates of the product: its kind is known


def _product(op: GemmAsyncOp) -> Product:
    kind = kind_of(op)
    assert kind is not None
    return Product(op, kind)


def _form_is_legal(op: GemmAsyncOp) -> str | None:
    """What the tables say about the instruction on this chip."""
    product = _product(op)
    family = isa.MMA_WS if product.weight_stationary else isa.MMA
    verdict = family.judge(_form(product), _chip(op))
    return None if verdict is None else f"{family.name} {verdict}"


def _m(op: GemmAsyncOp) -> str | None:
    product = _product(op)
    return _divides("M", product.shape[0], product.legal_m, product)


def _n(op: GemmAsyncOp) -> str | None:
    product = _product(op)
    return _divides("N", product.shape[1], product.legal_n, product)


def _divides(name: str, extent: int, legal: Iterable[int], product: Product) -> str | None:
    """Why no legal extent of an instruction divides that of the product."""
    if any(extent % each == 0 for each in legal):
        return None
    step = min(legal)
    return f"needs {name} % {step} == 0 with cta_group {product.group}, got {name} = {extent}"


def _k(op: GemmAsyncOp) -> str | None:
    product = _product(op)
    step, k = KINDS[product.kind].k, product.shape[2]
    return f"needs K % {step} == 0 for kind {product.kind}, got K = {k}" if k % step else None


def _mma_shape(op: GemmAsyncOp) -> str | None:
    product = _product(op)
    for name, extent, legal in zip("mn", product.shape, (product.legal_m, product.legal_n), strict=False):
        stated = op.attribute(f"mma_{name}")
        if not stated:
            continue
        if verdict := one_of(f"mma_{name}", stated, legal, f" with cta_group {product.group}"):
            return verdict.reason
        if extent % stated:
            return f"needs {name.upper()} % mma_{name} == 0, got {extent} and {stated}"
    return None


def _run_time_n(op: GemmAsyncOp) -> str | None:
    product = _product(op)
    if op.n is None or any(each.n == product.shape[1] for each in product.shapes()):
        return None
    return f"needs one instruction along N where N is known at run time, got N = {product.shape[1]}"


def _accumulator_layout(op: GemmAsyncOp) -> str | None:
    if _shaped(op) is not None:
        return None
    product = _product(op).shapes()[0]
    what = f"each {product.rows}x{product.n} of C" if product.shape[1] > product.n else "C"
    return f"needs {what} in layout {product.layout_of_d}, got {op.c.type.layout}"


def _shaped(op: GemmAsyncOp) -> Product | None:
    """The product on the largest shape for which C has D's layout."""
    return next((each for each in _product(op).shapes() if each.has_layout_of_d()), None)


def _a(op: GemmAsyncOp) -> str | None:
    product = _shaped(op)
    assert product is not None
    if product.memory_of_a == "shared":
        return f"needs A in {product.shared_a}" if isinstance(product.shared_a, str) else None
    if op.attribute("transpose_a"):
        return "needs A in tensor memory as M x K, got transpose_a"
    if product.has_layout_of_a():
        return None
    depth = KINDS[product.kind].k
    what = f"each {product.rows}x{depth} of A"
    return f"needs {what} in layout {product.layout_of_a}, got {op.a.type.layout}"


def _b(op: GemmAsyncOp) -> str | None:
    product = _shaped(op)
    assert product is not None
    return f"needs B in {product.shared_b}" if isinstance(product.shared_b, str) else None


def _descriptor_is_legal(op: GemmAsyncOp) -> str | None:
    """What the tables say about the instruction descriptor."""
    product = _shaped(op)
    assert product is not None
    verdict = product.descriptor().complaint(_chip(op))
    return None if verdict is None else str(verdict)


def _chip(op: GemmAsyncOp) -> str | None:
    return op.target.chip.name if op.target else None


def _form(product: Product) -> Any:
    """The instruction without block scale."""
    collector = product.op.attribute("collector")
    if not product.weight_stationary:
        return Mma(product.kind, product.group, product.memory_of_a, collector or "discard")
    buffer, _, use = collector.rpartition("::")
    return MmaWs(product.kind, product.memory_of_a, buffer or "b0", use or "discard", cta_group=product.group)


# Lowering


def _multiply(op: GemmAsyncOp) -> None:
    product = _shaped(op)
    assert product is not None
    a, b = _operand_a(product), _SharedMemory(op.b, product.shared_b)
    c, idesc = tile.address(op.c), _instruction_descriptor(product)
    build = tcgen05.mma_ws if product.weight_stationary else tcgen05.mma
    form = {name: value for name, value in vars(_form(product)).items() if name in _FORM_ATTRIBUTES}
    m, n, _ = product.shape
    with _elected(op):
        for i in range(m // product.m):
            for j in range(n // product.n):
                d = tensor_tiles.advanced(c, product.part_of_d(i, j))
                for step, (k, _depth) in enumerate(product.steps):
                    build(
                        d=d,
                        a=a(i, step),
                        b=b(j * product.columns, k),
                        idesc=idesc,
                        enable_input_d=op.accumulate if step == 0 else arith.constant(emit.i1(), 1),
                        **form,
                    )


_FORM_ATTRIBUTES = ("kind", "cta_group", "collector_a", "collector_buffer", "collector")
_N = next(field for field in PLAIN_FIELDS if field.name == "n")


def _instruction_descriptor(product: Product) -> Any:
    """The instruction descriptor: a constant, unless N is known only at run time."""
    record = product.descriptor()
    if product.op.n is None:
        return tcgen05.instruction_descriptor(**vars(record))
    rest = record.encode() - _N.put(product.n)
    shift = _N.low - (_N.unit.bit_length() - 1)  # N is a multiple of the unit
    return arith.ori(emit.value(rest), arith.shli(product.op.n, emit.value(shift)))


def _elected(op: GemmAsyncOp) -> AbstractContextManager[None]:
    """In the block, ops are built for one thread."""
    if active_threads.scope(op) == "thread":
        return nullcontext()
    return emit.when(nvvm.ElectSyncOp(results=[emit.i1()]).pred)


def _operand_a(product: Product) -> Callable[[int, int], Any]:
    """What instructions read of A: by their number along M and their step along K."""
    if product.memory_of_a == "shared":
        shared = _SharedMemory(product.op.a, product.shared_a)
        return lambda i, step: shared(i * product.rows, product.steps[step][0])
    start = tile.address(product.op.a)
    return lambda i, step: tensor_tiles.advanced(start, product.part_of_a(i, step))


class _SharedMemory:
    """A or B in shared memory: descriptors of its parts."""

    def __init__(self, buffer: Any, operand: SharedOperand | str) -> None:
        assert isinstance(operand, SharedOperand)
        self._operand = operand
        self._start = matrix_descriptors.start(buffer, tcgen05.shared_memory_descriptor, operand.descriptor)

    def __call__(self, row: int, k: int) -> Any:
        """The descriptor of the part that begins at this row (of M or N) and K."""
        return matrix_descriptors.advance(self._start, self._operand.units(row, k))


_COMMON = (
    Predicate("accumulator_memory", _accumulator_memory),
    Predicate("exec_scope", _exec_scope),
    Predicate("memory_of_a", _memory_of_a),
    Predicate("memory_of_b", _memory_of_b),
)
_SHAPES = (
    Predicate("accumulator_type", _accumulator_type),
    Predicate("m", _m),
    Predicate("n", _n),
    Predicate("k", _k),
    Predicate("mma_shape", _mma_shape),
    Predicate("run_time_n", _run_time_n),
    Predicate("accumulator_layout", _accumulator_layout),
    Predicate("operand_a", _a),
    Predicate("operand_b", _b),
    Predicate("descriptor", _descriptor_is_legal),
)

CANDIDATES = (
    Candidate(
        "tcgen05.mma",
        PRIORITY,
        (
            *_COMMON,
            Predicate("unscaled", _unscaled),
            Predicate("types", _types),
            Predicate("form", _form_is_legal),
            *_SHAPES,
        ),
        _multiply,
    ),
)
