"""`--lower-gemm-async`: `tile.gemm_async` becomes unrolled `wgmma.mma_async` of one group, or unrolled
`tcgen05.mma` where C is in tensor memory. `tile.wait_gemm` becomes the wait for wgmma. What `tile.pin` pins
goes through an empty instruction at that point.
"""

from itertools import product
from typing import Any

from weft.dialects import tile, wgmma
from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.instruction import struct_of
from weft.dialects.op import refuse
from weft.dialects.tile import is_buffer, is_tensor_buffer
from weft.dialects.tile_async import GemmAsyncOp, PinOp, WaitGemmOp
from weft.dialects.tile_sums import AddProductsOp, ClearSumsOp, ReadSumsOp
from weft.isa import wgmma as isa
from weft.isa.family import Registers
from weft.isa.types import ELEMENT_TYPES
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, vector
from weft.passes import lower_gemm_async_tcgen05
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, matrix_descriptors, named_sums
from weft.passes.builders.fragment_registers import words_of
from weft.passes.builders.instructions import LETTERS, assembly, join
from weft.passes.builders.tf32 import to_tf32
from weft.passes.builders.wgmma_operands import SharedOperand
from weft.passes.registry.candidates import Candidate, dispatch, predicates
from weft.passes.registry.pass_ import Lowering, Pass, rewrite

_HALF = 16
_MOST_COLUMNS = 256
SUMS = ("f32", "i32", "f16")
"""Element types of accumulators that are waited for, and of what is pinned."""
_SUMS = f"{', '.join(SUMS[:-1])} or {SUMS[-1]}"


def run(module: ir.Operation) -> None:
    """Lowers every asynchronous product, every wait for one, and what is pinned."""
    named_sums.drop_unused(module)
    named_sums.declare(module)
    with uniformity.remembered():
        rewrite(module, _LOWERINGS)


def _product(op: GemmAsyncOp) -> ir.Value | None:
    result = dispatch(op, CANDIDATES)
    return None if is_tensor_buffer(op.c) else result


def _wait(op: WaitGemmOp) -> list[ir.Value]:
    """LLVM doesn't know that the wait writes the fragments: they are tied to what follows."""
    uniformity.require(op, Scope.WARPGROUP)
    wgmma.wait_group(group=op.attribute("pending"))
    return [_tied(op, fragment) for fragment in op.fragments]


def _accumulator_in_registers(op: GemmAsyncOp) -> str | None:
    return f"needs C in registers, got {op.c.type}" if is_buffer(op.c) else None


def _full_active_threads(op: GemmAsyncOp) -> str | None:
    missing = uniformity.complaint(op, Scope.WARPGROUP)
    return None if missing is None else f"needs {missing}"


def _types(op: GemmAsyncOp) -> str | None:
    legal = [mlir for mlir, ptx in PTX_INPUTS.items() if ptx in isa.MMA_ASYNC.values("a_type")]
    for name, kind in _inputs(op):
        if kind not in legal:
            return f"needs {name} of one of {', '.join(legal)}, got {kind}"
    verdict = isa.MMA_ASYNC.judge(_form(op), op.target.chip.name if op.target else None)
    return None if verdict is None else f"wgmma.mma_async {verdict}"


def _extents(op: GemmAsyncOp) -> str | None:
    m, _, k = op.mnk
    for name, extent, step in (("M", m, isa.M), ("K", k, _step(op))):
        if extent % step:
            return f"needs {name} % {step} == 0, got {name} = {extent}"
    return None


def _own_memory(op: GemmAsyncOp) -> str | None:
    for name, value in (("A", op.a), ("B", op.b)):
        if is_buffer(value) and value.type.space != "shared":
            return f"needs {name} in the CTA's own shared memory, got a buffer in {value.type.space} memory"
    return None


def _major(op: GemmAsyncOp) -> str | None:
    """Only some types have the immediates of operands that aren't K-major."""
    legal = {operand.name for operand in _form(op).operands if operand.role == "immediate"}
    for name, letter, kind in zip("AB", "MN", (op.a, op.b), strict=True):
        if _mn_major(op, name) and f"trans_{name.lower()}" not in legal:
            where = "" if is_buffer(kind) else " in registers"
            element = kind.type.element_type
            return f"needs {name}{where} of type {element} to be K-major, got {letter}-major"
    return None


def _accumulator(op: GemmAsyncOp) -> str | None:
    """C and D have the layout of the instruction's, 64 rows after the other."""
    kind, registers = op.d.type, _form(op).operands[0]
    layout = Layout.parse(registers.layout).tile_to(kind.shape, registers.shape)
    if str(kind.element_type) not in SUMS or kind.layout.canonical() != layout.canonical():
        return f"needs C and D of {_SUMS} in layout {layout}, got {kind}"
    return None


def _operand_a(op: GemmAsyncOp) -> str | None:
    if is_buffer(op.a):
        return _shared(op, "A", op.a)
    kind, registers = op.a.type, _form(op).operands[1]
    layout = Layout.parse(registers.layout).tile_to(kind.shape, registers.shape)
    if kind.layout.canonical() != layout.canonical():
        return f"needs A in registers in layout {layout}, got {kind.layout}"
    return None


def _operand_b(op: GemmAsyncOp) -> str | None:
    return _shared(op, "B", op.b)


def _shared(op: GemmAsyncOp, name: str, value: ir.Value) -> str | None:
    operand = SharedOperand.of(value.type, _mn_major(op, name))
    return f"needs {name} in {operand}" if isinstance(operand, str) else None


def _mn_major(op: GemmAsyncOp, name: str) -> bool:
    """Whether an operand is M x K (or N x K) as K x M (or K x N), contiguous along M (or N)."""
    return bool(op.attribute("transpose_a")) if name == "A" else not op.attribute("transpose_b")


def _inputs(op: GemmAsyncOp) -> tuple[tuple[str, str], ...]:
    return ("A", str(op.a.type.element_type)), ("B", str(op.b.type.element_type))


def _step(op: GemmAsyncOp) -> int:
    """The K of one instruction."""
    return isa.depth(ELEMENT_TYPES[PTX_INPUTS[str(op.a.type.element_type)]])


def _columns(op: GemmAsyncOp) -> int:
    """The N of one instruction. ptxas takes three times as long for 256 columns as for 128. With A of fp8 in
    registers, kernels with two instructions of 128 columns take 0.3% more time.
    """
    n, kind = op.mnk[1], str(op.a.type.element_type)
    return n // 2 if n == _MOST_COLUMNS and not is_buffer(op.a) and kind.startswith("f8") else n


def _form(op: GemmAsyncOp, columns: int | None = None) -> isa.MmaAsync:
    """The instruction of a product, by default of all columns."""
    (_, a), (_, b) = _inputs(op)
    d = str(op.d.type.element_type)
    shape = f"m{isa.M}n{columns or op.mnk[1]}k{_step(op)}"
    return isa.MmaAsync(shape, PTX_INPUTS[a], PTX_INPUTS[b], {"i32": "s32"}.get(d, d), not is_buffer(op.a))


def _multiply(op: GemmAsyncOp) -> ir.Value:
    """One group: for each 64 rows and the columns of an instruction, the steps of K in turn."""
    (m, n, k), columns, depth = op.mnk, _columns(op), _step(op)
    form = _form(op, columns)
    b = _SharedMemory(op, "B", op.b)
    a = _SharedMemory(op, "A", op.a) if is_buffer(op.a) else _InRegisters(op.a, form.operands[1])
    registers, first = form.operands[0], op.attribute("first_sum")
    kind, results, named = struct_of(registers), list[ir.Value](), first >= 0
    sums = iter(() if named else _sums(op.c))
    wgmma.fence()
    for number, (row, column) in enumerate(product(range(0, m, isa.M), range(0, n, columns))):
        struct = llvm.mlir_undef(kind) if named else join(kind, sums)
        for step in range(k // depth):
            struct = wgmma.mma_async(
                inouts=struct,
                a=a.slice(row, step * depth),
                b=b.slice(column, step * depth),
                scale_d=op.accumulate if step == 0 else arith.constant(emit.i1(), 1),
                **{name: value for name, value in vars(form).items() if name != "a_registers"},
                trans_a=int(_mn_major(op, "A")),
                trans_b=int(_mn_major(op, "B")),
                first_sum=first + number * registers.count if named else -1,
            )
        results += [] if named else _members(struct, registers, op.d.type)
    wgmma.commit_group()
    return op.c if named else tile.from_lane(_lane(results, op.d.type), op.d.type)


def _sums(fragment: ir.Value) -> list[ir.Value]:
    """The registers of a fragment's sums, words for f16."""
    lane = tile.to_lane(fragment)
    return words_of(lane) if fragment.type.element_type == ir.F16Type.get() else emit.elements(lane)


def _members(struct: ir.Value, registers: Registers, kind: ir.Type) -> list[ir.Value]:
    """The registers of a struct of a fragment's sums, words for f16."""
    register = ir.Type.parse(registers.type)
    members = [llvm.extractvalue(register, struct, [i]) for i in range(registers.count)]
    halves = kind.element_type == ir.F16Type.get()
    return [llvm.bitcast(emit.i32(), member) for member in members] if halves else members


def _lane(registers: list[ir.Value], kind: ir.Type) -> ir.Value:
    """The vector of a fragment's sums from its registers, words for elements of 16 bits."""
    if kind.element_type.width == _HALF:
        return vector.bitcast(kind.lane_type, emit.vector_of(registers))
    return vector.from_elements(kind.lane_type, registers)


class _SharedMemory:
    """A or B in a buffer: descriptors of its slices."""

    def __init__(self, op: GemmAsyncOp, name: str, buffer: ir.Value) -> None:
        operand = SharedOperand.of(buffer.type, _mn_major(op, name))
        assert isinstance(operand, SharedOperand)
        self._operand = operand
        self._start = matrix_descriptors.start(buffer, wgmma.descriptor, operand.descriptor)

    def slice(self, row: int, k: int) -> list[ir.Value]:
        """The descriptor of the operand from this row (of M or N) and K on."""
        return [matrix_descriptors.advance(self._start, self._operand.units(row, k))]


class _InRegisters:
    """A in a fragment."""

    def __init__(self, fragment: ir.Value, registers: Registers) -> None:
        kind, self._registers = fragment.type, registers
        words = ir.VectorType.get([kind.registers * kind.element_type.width // 32], emit.i32())
        self._words = emit.elements(vector.bitcast(words, to_tf32(tile.to_lane(fragment))))
        self._steps = kind.shape[1] // registers.shape[1]

    def slice(self, row: int, k: int) -> list[ir.Value]:
        """The four registers of the operand from this row and K on."""
        height, depth = self._registers.shape
        first = (row // height * self._steps + k // depth) * self._registers.count
        words = self._words[first : first + self._registers.count]
        kind = ir.Type.parse(self._registers.type)
        return [word if word.type == kind else llvm.bitcast(kind, word) for word in words]


def _tied(op: ir.OpView, fragment: ir.Value) -> ir.Value:
    """A fragment as an empty instruction returns it, which LLVM moves across no other that has effects."""
    kind, values = fragment.type, _sums(fragment)
    if str(kind.element_type) not in SUMS:
        raise refuse(op, f"expects fragments of {_SUMS}, got {kind}")
    kinds = [str(value.type) for value in values]
    letters = [*(f"={LETTERS[each]}" for each in kinds), *(str(i) for i in range(len(kinds)))]
    elements = assembly("", letters, values, kinds)
    return tile.from_lane(_lane(elements, kind), kind)


CANDIDATES = (
    *lower_gemm_async_tcgen05.CANDIDATES,
    Candidate(
        "wgmma.mma_async",
        0,
        (
            *predicates(_accumulator_in_registers, _full_active_threads, _types, _extents, _own_memory),
            *predicates(_major, _accumulator, _operand_a, _operand_b),
        ),
        _multiply,
    ),
)

_LOWERINGS: dict[Any, Lowering] = {
    GemmAsyncOp: _product,
    WaitGemmOp: _wait,
    PinOp: lambda op: _tied(op, op.fragment),
    ReadSumsOp: lambda op: tile.from_lane(_lane(named_sums.read(op), op.sums.type), op.sums.type),
    ClearSumsOp: named_sums.clear,
    AddProductsOp: named_sums.add,
}

LOWER_GEMM_ASYNC = Pass(
    "lower-gemm-async", "lower tile.gemm_async to wgmma or tcgen05", run, lowers=tuple(_LOWERINGS)
)
