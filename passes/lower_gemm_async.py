"""`--lower-gemm-async`: `tile.gemm_async` becomes the unrolled `wgmma.mma_async` of one group, and
`tile.wait_gemm` the wait for it. What `tile.pin` fixes in its place goes through an empty instruction there.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile, wgmma
from weft.dialects.instruction import struct_of
from weft.dialects.op import refuse
from weft.dialects.tile import SliceOp, StageOp, is_buffer
from weft.dialects.tile_async import GemmAsyncOp, PinOp, WaitGemmOp
from weft.dialects.tile_types import PTX_INPUTS
from weft.isa import wgmma as isa
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import GROUP, MatrixDescriptor
from weft.isa.wgmma.descriptors import SWIZZLES as MODES
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, vector
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, places
from weft.passes.builders.instructions import LETTERS, assembly, join
from weft.passes.registry.pass_ import Pass, rewrite

UNIT = 16  # the bytes that addresses in a descriptor count
SUMS = ("f32", "i32")  # the elements of accumulators that are waited for, and of what is pinned


def run(module: Any) -> None:
    """Lowers every asynchronous product, every wait for one, and what is pinned."""
    rewrite(module, (GemmAsyncOp, WaitGemmOp, PinOp), _lower)


def _lower(op: Any) -> list[Any]:
    if isinstance(op, PinOp):
        return [_tied(op, op.fragment)]
    uniformity.require(op, Scope.WARPGROUP)
    return [_multiply(op)] if isinstance(op, GemmAsyncOp) else _wait(op)


@dataclass(frozen=True)
class Operand:
    """A or B in shared memory as descriptors see it: core matrices of eight rows, swizzled.

    `record` is the descriptor but for the address; `layout` is of `shape`, rows (M or N) by K, in elements of
    `bytes`; `transpose` tells that M or N runs fastest.
    """

    record: MatrixDescriptor
    layout: Layout
    shape: tuple[int, int]
    bytes: int
    transpose: bool

    @classmethod
    def of(cls, op: Any, name: str, kind: Any, outside: bool) -> "Operand":
        """The operand that a buffer of type `kind` holds, with K outside or inside. Raises WeftError where no
        descriptor says how it lies.
        """
        size, swizzle = kind.element_bits // 8, kind.layout.swizzle
        groups = kind.layout.group(kind.shape)
        rows, depth = groups[::-1] if outside else groups
        shape = kind.shape[::-1] if outside else kind.shape
        lines, inner = (depth, rows) if outside else (rows, depth)  # what runs across memory, and along it
        mode = MODES[swizzle.name if swizzle else "none"]
        width = mode.width // size
        together = inner and inner[-1].stride == 1 and inner[-1].extent == width
        apart = len(lines) == 1 and lines[0].stride == width
        if swizzle is None or not together or not apart:
            raise refuse(
                op,
                f"expects {name} in rows of {width} elements that follow each other, as swizzle {mode.name} "
                f"is wide, got {kind.layout}",
            )
        if outside and len(Layout(inner[:-1]).canonical().shard) > 1:
            raise refuse(op, f"expects panels of {name} at one distance, got {kind.layout}")
        panels = inner[-2].stride * size if len(inner) > 1 else 0
        record = MatrixDescriptor(
            leading_byte_offset=panels if outside else 0,
            stride_byte_offset=GROUP * width * size,
            swizzle=mode.name,
        )
        if verdict := record.complaint():
            raise refuse(op, f"has no descriptor of {name}: {verdict}")
        return cls(record, Layout((*rows, *depth)), shape, size, outside)

    def units(self, row: int, k: int) -> int:
        """How far a row and depth lie from the operand's start, before the swizzle, as addresses count."""
        bytes_ = self.layout.apply((row, k), self.shape)["m"] * self.bytes
        assert bytes_ % UNIT == 0
        return bytes_ // UNIT


def _multiply(op: GemmAsyncOp) -> Any:
    """One group: for each 64 rows, the steps of K in turn."""
    m, n, k = op.mnk
    form = _form(op, n)
    chip = op.target.chip.name if op.target else None
    if verdict := isa.MMA_ASYNC.judge(form, chip):
        raise refuse(op, f"has no instruction: wgmma.mma_async {verdict}")
    depth = form.operands[1].shape[1] if form.a_registers else isa.depth(ELEMENT_TYPES[form.a_type])
    if k % depth:
        raise refuse(op, f"expects K in multiples of {depth}, got {k}")
    _check_accumulators(op, form)
    b = Operand.of(op, "B", op.b.type, not op.attribute("transpose_b"))
    b_start = _descriptor(op.b, b)
    left = _Left(op, form)
    kinds = op.d.type
    sums = emit.elements(tile.to_lane(op.c))
    each = len(sums) // (m // isa.M)
    wgmma.fence()
    results: list[Any] = []
    for block in range(m // isa.M):
        struct = join(struct_of(form.operands[0]), iter(sums[block * each : (block + 1) * each]))
        for step in range(k // depth):
            struct = wgmma.mma_async(
                inouts=struct,
                a=left.values(block, step, depth),
                b=_advance(b_start, b.units(0, step * depth)),
                scale_d=op.accumulate if step == 0 else arith.constant(emit.i1(), 1),
                **{name: value for name, value in vars(form).items() if name != "a_registers"},
                **_transposes(left.transpose, b.transpose),
            )
        element = kinds.element_type
        results += [llvm.extractvalue(element, struct, [i]) for i in range(each)]
    wgmma.commit_group()
    return tile.from_lane(vector.from_elements(kinds.lane_type, results), kinds)


def _transposes(a: bool, b: bool) -> dict[str, int]:
    """The immediates of matrices whose M or N runs fastest, which 16-bit types alone have."""
    return {name: 1 for name, given in (("trans_a", a), ("trans_b", b)) if given}


class _Left:
    """A: descriptors of parts of a buffer, or the registers of a fragment."""

    def __init__(self, op: GemmAsyncOp, form: Any) -> None:
        self.transpose = bool(op.attribute("transpose_a"))
        if is_buffer(op.a):
            self.operand = Operand.of(op, "A", op.a.type, self.transpose)
            self.start = _descriptor(op.a, self.operand)
            return
        self.start, kind = None, op.a.type
        registers = form.operands[1]
        if self.transpose:
            raise refuse(op, f"expects A in shared memory where M runs fastest, got {kind}")
        want = Layout.parse(registers.layout).tile_to(kind.shape, registers.shape)
        if kind.layout.canonical() != want.canonical():
            raise refuse(op, f"expects A in registers as the instruction reads it, {want}, got {kind.layout}")
        words = ir.VectorType.get([kind.registers * kind.element_type.width // 32], emit.i32())
        self.words = emit.elements(vector.bitcast(words, tile.to_lane(op.a)))
        self.steps, self.type = kind.shape[1] // registers.shape[1], registers

    def values(self, block: int, step: int, depth: int) -> list[Any]:
        """What one instruction reads: a descriptor, or four registers."""
        if self.start is not None:
            return [_advance(self.start, self.operand.units(block * isa.M, step * depth))]
        first = (block * self.steps + step) * self.type.count
        found = self.words[first : first + self.type.count]
        kind = ir.Type.parse(self.type.type)
        return [word if word.type == kind else llvm.bitcast(kind, word) for word in found]


def _form(op: GemmAsyncOp, n: int) -> isa.MmaAsync:
    a, b, d = (str(value.type.element_type) for value in (op.a, op.b, op.d))
    for name, kind in (("A", a), ("B", b)):
        if kind not in PTX_INPUTS:
            raise refuse(op, f"expects {name} of a type that tensor cores multiply, got {kind}")
    left, right = PTX_INPUTS[a], PTX_INPUTS[b]
    depth = isa.depth(ELEMENT_TYPES[left])
    sums = {"i32": "s32"}.get(d, d)
    return isa.MmaAsync(f"m{isa.M}n{n}k{depth}", left, right, sums, not is_buffer(op.a))


def _check_accumulators(op: GemmAsyncOp, form: isa.MmaAsync) -> None:
    """Raises WeftError where C and D don't lie as the instruction has them, 64 rows after the other."""
    kind, registers = op.d.type, form.operands[0]
    want = Layout.parse(registers.layout).tile_to(kind.shape, registers.shape)
    if str(kind.element_type) == "f16" or kind.layout.canonical() != want.canonical():
        raise refuse(op, f"expects C and D of f32 or i32 that lie as {want}, got {kind}")


def _descriptor(buffer: Any, operand: Operand) -> Any:
    """The descriptor of a buffer's start. A stage's or a part's is the whole buffer's, moved on: one
    instruction for each block, where an address would be shifted and masked.
    """
    fields = {name: value for name, value in vars(operand.record).items() if name != "address"}
    moves: list[Any] = []
    while isinstance(view := _maker(buffer), StageOp | SliceOp):
        moves.append(view)
        buffer = view.buffer
    start = wgmma.descriptor(tile.address(buffer), **fields)
    # Parts lie alike in all stages, so they come first: what a loop doesn't change is left outside of it.
    for view in sorted(moves, key=lambda view: isinstance(view, StageOp)):
        start = _advance(start, places.distance(view, UNIT))
    return start


def _maker(value: Any) -> Any:
    """The op that a value is a result of; None for a block's argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner


def _advance(descriptor: Any, units: Any) -> Any:
    """The descriptor of what lies so many units on, a number or an i32. Addresses in shared memory have no
    more than the 14 bits of their field, so that nothing is carried out of it.
    """
    if isinstance(units, int) and units == 0:
        return descriptor
    low, high = emit.elements(llvm.bitcast(ir.VectorType.get([2], emit.i32()), descriptor))
    pair = [arith.addi(low, emit.value(units)), high]
    return llvm.bitcast(descriptor.type, vector.from_elements(ir.VectorType.get([2], emit.i32()), pair))


def _wait(op: WaitGemmOp) -> list[Any]:
    """The wait, and the fragments tied to what follows: nothing else tells LLVM that it writes them."""
    wgmma.wait_group(group=op.attribute("pending"))
    return [_tied(op, fragment) for fragment in op.fragments]


def _tied(op: Any, fragment: Any) -> Any:
    """A fragment as an empty instruction returns it, which LLVM moves across no other that has effects."""
    kind, values = fragment.type, emit.elements(tile.to_lane(fragment))
    if str(kind.element_type) not in SUMS:
        raise refuse(op, f"expects fragments of {' or '.join(SUMS)}, got {kind}")
    kinds = [str(value.type) for value in values]
    letters = [*(f"={LETTERS[each]}" for each in kinds), *(str(i) for i in range(len(kinds)))]
    elements = assembly("", letters, values, kinds)
    return tile.from_lane(vector.from_elements(kind.lane_type, elements), kind)


LOWER_GEMM_ASYNC = Pass(
    "lower-gemm-async",
    "lower a warpgroup's tile.gemm_async to wgmma",
    run,
    lowers=(GemmAsyncOp, WaitGemmOp, PinOp),
)
