"""The candidates that lower `tile.gemm_async` to `tcgen05.mma`, where C is in tensor memory."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from weft.dialects import tcgen05, tile
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import TMEM, is_buffer, is_tensor_buffer
from weft.isa.tcgen05 import mma_rows as isa
from weft.isa.tcgen05.descriptors import KINDS, PLAIN_FIELDS, SCALED_FIELDS
from weft.isa.tcgen05.mma_forms import Mma, MmaBlockScale, MmaWs
from weft.isa.tcgen05.tensor_layouts import SCALES_OF_COLUMN
from weft.isa.wgmma.descriptors import one_of
from weft.mlir import arith, constant, ir
from weft.passes.analysis import active_threads
from weft.passes.builders import addresses, emit, matrix_descriptors, thread_ids
from weft.passes.builders.tcgen05_operands import (
    BYTE,
    SIZES,
    SharedOperand,
    container_bits,
    kind_of,
    scale_columns,
    scale_size,
)
from weft.passes.builders.tcgen05_products import ACCUMULATORS, Product
from weft.passes.registry.candidates import Candidate, predicates

PRIORITY = 10


# Predicates of the op


def _accumulator_memory(op: GemmAsyncOp) -> str | None:
    if is_tensor_buffer(op.c):
        return None
    where = f"{op.c.type.space} memory" if is_buffer(op.c) else "registers"
    return f"needs C in tensor memory, got it in {where}"


def _exec_scope(op: GemmAsyncOp) -> str | None:
    scope = active_threads.scope_of(op, op.c)
    return None if scope in ("thread", "warp") else f"needs one thread or one warp, got exec_scope {scope}"


def _unscaled(op: GemmAsyncOp) -> str | None:
    return None if op.scales is None else "needs no scales, got scales of A and B"


def _scaled(op: GemmAsyncOp) -> str | None:
    return "needs scales of A and B, got none" if op.scales is None else None


def _not_weight_stationary(op: GemmAsyncOp) -> str | None:
    return "needs weight_stationary to be false, got true" if op.attribute("weight_stationary") else None


def _weight_stationary(op: GemmAsyncOp) -> str | None:
    return None if op.attribute("weight_stationary") else "needs weight_stationary to be true, got false"


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
    kinds = (kind for kind in KINDS.values() if kind.scales is None)
    legal = (f"{', '.join(known[element] for element in kind.elements)} ({kind.name})" for kind in kinds)
    return f"needs A and B of types of one kind: {'; '.join(legal)}; got {got}"


def _scaled_types(op: GemmAsyncOp) -> str | None:
    """A and B, their scales and their packing must be those of one kind."""
    assert op.scales is not None
    scale_a, scale_b = (str(each.type.element_type) for each in op.scales)
    if scale_a != scale_b or scale_a not in PTX_SCALES:
        return f"needs scales of one type of {', '.join(PTX_SCALES)}, got {scale_a} and {scale_b}"
    block, kind = op.attribute("scale_block"), kind_of(op)
    if block and kind is not None and KINDS[kind].k != SIZES[0]:
        return f"needs one scale for the K of an instruction with scale_block, got kind {kind}, which has two"
    if (size := scale_size(op)) is None:
        k, columns = op.mnk[2], op.scales[0].type.shape[1]
        if block:
            most = SCALES_OF_COLUMN * block
            what = f"{SCALES_OF_COLUMN} scales in each row, and K a multiple of {block} up to {most}"
            return f"needs {what}, with scale_block, got {columns} and {k}"
        legal = sorted({scale_columns(k, size) for size in SIZES})
        return f"needs {' or '.join(map(str, legal))} scales in each row for K = {k}, got {columns}"
    if kind is not None:
        return None
    types = (str(each.type.element_type) for each in (op.a, op.b))
    packed = ("packed" if container_bits(each.type) < BYTE else "a byte each" for each in (op.a, op.b))
    got = " and ".join(f"{name} ({how})" for name, how in zip(types, packed, strict=True))
    return (
        f"needs A and B of 8, 6 or 4 bits, a byte each, with a scale of f8E8M0FNU for 32; or packed f4E2M1FN "
        f"with one for 32 or 16, or one of f8E4M3FN for 16; got {got} with one of {scale_a} for {size}"
    )


def _accumulator_type(op: GemmAsyncOp) -> str | None:
    name, kind = str(op.c.type.element_type), KINDS[_product(op).kind]
    legal = [mlir for mlir, ptx in ACCUMULATORS.items() if ptx in kind.accumulators]
    if name not in legal:
        return f"needs C of {' or '.join(legal)} for kind {kind.name}, got {name}"
    return None


# Predicates of the product: its kind is known


def _product(op: GemmAsyncOp) -> Product:
    kind = kind_of(op)
    assert kind is not None
    return Product(op, kind)


def _form(op: GemmAsyncOp) -> str | None:
    """Why the instruction isn't legal on this chip."""
    product = _product(op)
    family = _family(product)
    verdict = family.judge(_instruction(product), _chip(op))
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
    """The lane and column of each element of D must not depend on N."""
    product = _product(op)
    if op.n is None:
        return None
    whole = [each for each in product.shapes() if each.n == product.shape[1]]
    if not whole:
        return f"needs one instruction along N where N is known at run time, got N = {product.shape[1]}"
    if all(each.banks > 1 for each in whole):
        return "needs all columns of D in the same lanes where N is known at run time"
    if (n := constant(op.n)) is None:
        return None
    legal = [each for each in product.legal_n if each <= product.shape[1]]
    verdict = one_of("n", n, legal, f" of a C as wide as {product.shape[1]}")
    return None if verdict is None else verdict.reason


def _accumulator_layout(op: GemmAsyncOp) -> str | None:
    if _shaped(op) is not None:
        return None
    product = _product(op).shapes()[0]
    what = f"each {product.rows}x{product.n} of C" if product.shape[1] > product.n else "C"
    return f"needs {what} in layout {product.layout_of_d}, got {op.c.type.layout}"


def _shaped(op: GemmAsyncOp) -> Product | None:
    """The product on the largest shape for which C has D's layout."""
    shapes = _product(op).shapes()
    if op.n is not None:
        shapes = [each for each in shapes if each.blocks[1] == 1 and each.banks == 1]
    product = next((each for each in shapes if each.has_layout_of_d()), None)
    if product is None or op.scales is None or op.n is not None:
        return product
    longer = replace(product, long_rows=True)
    return longer if _fits(longer) else product


def _fits(product: Product) -> bool:
    """Whether the chip is known to have the longer K, and operands are laid out for it."""
    if _chip(product.op) is None:
        return False
    steps = range(len(product.steps))
    if any(product.descriptor(step).complaint(_chip(product.op)) is not None for step in steps):
        return False
    if isinstance(product.shared_b, str) or not all(map(product.has_layout_of_scales, "AB")):
        return False
    if product.memory_of_a == "tensor":
        return product.has_layout_of_a()
    return isinstance(product.shared_a, SharedOperand)


def _operand_a(op: GemmAsyncOp) -> str | None:
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
    return f"needs {what} in layout {product.layout_of_a(depth)}, got {op.a.type.layout}"


def _operand_b(op: GemmAsyncOp) -> str | None:
    product = _shaped(op)
    assert product is not None
    return f"needs B in {product.shared_b}" if isinstance(product.shared_b, str) else None


def _scale_layouts(op: GemmAsyncOp) -> str | None:
    product = _shaped(op)
    assert product is not None and op.scales is not None
    for name, buffer in zip("AB", op.scales, strict=True):
        if not product.has_layout_of_scales(name):
            rows = product.rows if name == "A" else product.n
            layout = product.layout_of_scales(name)
            what = f"scale_{name.lower()} of {rows} rows, laid out as eight scales of each are in {layout}"
            return f"needs {what}; got {buffer.type}"
    return None


def _descriptor(op: GemmAsyncOp) -> str | None:
    """Why an instruction descriptor isn't legal."""
    product = _shaped(op)
    assert product is not None
    verdicts = (product.descriptor(step).complaint(_chip(op)) for step in range(len(product.steps)))
    return next((str(verdict) for verdict in verdicts if verdict is not None), None)


def _chip(op: GemmAsyncOp) -> str | None:
    return op.target.chip.name if op.target else None


def _family(product: Product) -> Any:
    """The table of the instruction."""
    if product.scale_type is not None:
        return isa.MMA_BLOCK_SCALE
    return isa.MMA_WS if product.weight_stationary else isa.MMA


def _instruction(product: Product) -> Any:
    """The instruction."""
    kind, group, memory = product.kind, product.group, product.memory_of_a
    collector = product.op.attribute("collector")
    if product.scale_type is not None:
        return MmaBlockScale(kind, group, product.scale_vec, memory, collector or "discard")
    if not product.weight_stationary:
        return Mma(kind, group, memory, collector or "discard")
    buffer, _, use = collector.rpartition("::")
    return MmaWs(kind, memory, buffer or "b0", use or "discard", cta_group=group)


# Lowering


def _multiply(op: GemmAsyncOp) -> None:
    product = _shaped(op)
    assert product is not None
    issue, (m, n) = _Issue(product), product.blocks
    with thread_ids.elected_if(active_threads.scope(op) == "warp"):
        for i in range(m):
            for j in range(n):
                for step in range(len(product.steps)):
                    issue(i, j, step)


class _Issue:
    """Builds instructions, by their numbers along M and N and their step along K."""

    def __init__(self, product: Product) -> None:
        self._product, op = product, product.op
        self._a, self._b = _reads_of_a(product), _SharedMemory(op.b, product.shared_b)
        self._d = tile.address(op.c)
        self._scales = [tile.address(each) for each in op.scales or ()]
        steps = range(len(product.steps))
        records = [product.descriptor(step) for step in steps]
        blocks = [product.block_of(step) if op.attribute("scale_block") else 0 for step in steps]
        keys = list(zip(records, blocks, strict=True))
        built = {key: _built_descriptor(product, *key) for key in dict.fromkeys(keys)}
        self._descriptors = [built[key] for key in keys]
        axes = vars(_instruction(product))
        self._axes = {name: axes[name] for name in _ATTRIBUTES if name in axes}

    def __call__(self, i: int, j: int, step: int) -> None:
        product = self._product
        operands = {
            "d": addresses.offset(self._d, product.part_of_d(i, j)),
            "a": self._a(i, step),
            "b": self._b(j * product.columns, product.steps[step][0]),
            "idesc": self._descriptors[step],
            "enable_input_d": product.op.accumulate if step == 0 else arith.constant(emit.i1(), 1),
        }
        if product.scale_type is not None:
            for name, number, start in zip("AB", (i, j), self._scales, strict=True):
                distance = product.part_of_scales(name, number, step)
                operands[f"scale_{name.lower()}"] = addresses.offset(start, distance)
            tcgen05.mma_block_scale(**operands, **self._axes)
            return
        build = tcgen05.mma_ws if product.weight_stationary else tcgen05.mma
        build(**operands, **self._axes)


_ATTRIBUTES = ("kind", "cta_group", "scale_vec", "collector_a", "collector_buffer", "collector")
_N = next(field for field in PLAIN_FIELDS if field.name == "n")


_ONE_ID = sum(field.put(1) for field in SCALED_FIELDS if field.name in ("a_scale_id", "b_scale_id"))
"""The bits of scale ids of 1 in an instruction descriptor."""


def _built_descriptor(product: Product, record: Any, block: int) -> ir.Value:
    """The instruction descriptor: a constant, unless N or the scale ids are known only at run time."""
    if product.op.number is not None:
        constant = tcgen05.block_scaled_descriptor(**vars(record))
        number = emit.add(product.op.number, block)
        return arith.ori(constant, arith.muli(number, emit.value(_ONE_ID)))
    if product.op.n is None:
        scaled = product.scale_type is not None
        build = tcgen05.block_scaled_descriptor if scaled else tcgen05.instruction_descriptor
        return build(**vars(record))
    rest = record.encode() - _N.put(product.n)
    shift = _N.low - (_N.unit.bit_length() - 1)  # N is a multiple of the unit
    signed = rest - (rest >> 31 << 32)
    return arith.ori(emit.value(signed), arith.shli(product.op.n, emit.value(shift)))


def _reads_of_a(product: Product) -> Callable[[int, int], Any]:
    """The operand of instructions for A, by their number along M and their step along K."""
    if product.memory_of_a == "shared":
        shared = _SharedMemory(product.op.a, product.shared_a)
        return lambda i, step: shared(i * product.rows, product.steps[step][0])
    start = tile.address(product.op.a)
    return lambda i, step: addresses.offset(start, product.part_of_a(i, step))


class _SharedMemory:
    """A or B in shared memory: descriptors of its parts."""

    def __init__(self, buffer: ir.Value, operand: SharedOperand | str) -> None:
        assert isinstance(operand, SharedOperand)
        self._operand = operand
        self._start = matrix_descriptors.start(buffer, tcgen05.shared_memory_descriptor, operand.descriptor)

    def __call__(self, row: int, k: int) -> ir.Value:
        """The descriptor of the part that begins at this row (of M or N) and K."""
        return matrix_descriptors.advance(self._start, self._operand.units(row, k))


_MEMORY = predicates(_accumulator_memory, _exec_scope, _memory_of_a, _memory_of_b)
_PLAIN = predicates(_unscaled, _types)
_SHAPES = (
    *predicates(_form, _accumulator_type, _m, _n, _k, _mma_shape, _run_time_n, _accumulator_layout),
    *predicates(_operand_a, _operand_b),
)
_SCALED = *predicates(_scaled, _scaled_types), *_SHAPES, *predicates(_scale_layouts)
_DESCRIPTOR, _MAY_MOVE_B = predicates(_descriptor), predicates(_not_weight_stationary)
_KEEPS_B = predicates(_weight_stationary)

CANDIDATES = tuple(
    Candidate(name, PRIORITY, (*_MEMORY, *others, *_DESCRIPTOR), _multiply)
    for name, others in (
        ("tcgen05.mma", (*_MAY_MOVE_B, *_PLAIN, *_SHAPES)),
        ("tcgen05.mma.block_scale", (*_MAY_MOVE_B, *_SCALED)),
        ("tcgen05.mma.ws", (*_KEEPS_B, *_PLAIN, *_SHAPES)),
    )
)
