"""Fragments as kernels use them: types of sums, transposed fragments, conversions between element types."""

from collections.abc import Sequence
from typing import Any

from weft.dialects import tile
from weft.dialects.element_types import FP8_TYPES
from weft.dialects.schedule import COPY
from weft.dialects.tile_types import FragmentType
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, nvvm, vector
from weft.passes.builders import emit, fragment_registers, small_floats


def transposed(kind: ir.Type) -> ir.Type:
    """The type of the transposed fragment, in the same registers."""
    rows, columns = kind.layout.group(kind.shape)
    return FragmentType.of(kind.shape[::-1], kind.element_type, Layout((*columns, *rows)))


PAIR = 2
"""Sums of `mma.sync` that follow each other in a row, in one lane."""
QUAD = 4
"""Lanes that hold a row of its sums."""
ALTERNATING_RUN = 4
"""As PAIR, where the columns of halves of 16 alternate."""
_LONGEST_RUN = 8


def longest_run(rows: int, columns: int, bytes_: int) -> int:
    """Sums of a lane that can follow each other in a row of D, in up to 16 bytes, if the columns of B have
    another order. `rows` are those of the instruction, `columns` those of a warp, `bytes_` an element of D's.
    """
    run = min(16 // bytes_, _LONGEST_RUN)
    while run > PAIR and columns % (QUAD * run):
        run //= 2
    return run if rows == 16 and run > PAIR else PAIR


def of_atoms(atom: Registers, shape: tuple[int, int], element: ir.Type) -> ir.Type:
    """The type of a fragment that consists of an instruction's operands."""
    return FragmentType.of(shape, element, Layout.parse(atom.layout).tile_to(shape, atom.shape))


def load_atoms(
    stage: ir.Value, start: ir.Value | int, k: int, kind: ir.Type, atom: Registers, k_major: bool
) -> ir.Value:
    """A warp's part of A or B in a buffer, from a row or column and a depth on."""
    row, column = (start, k) if k_major else (k, start)
    # A is M x K: an MN-major A is transposed in memory. B is K x N: a K-major B is transposed.
    transpose = k_major == (atom.name == "b")
    return tile.load(stage, emit.value(row), emit.value(column), kind, transpose=transpose)


_MOST_REGISTERS = 208
"""The registers of a thread for values that stay in them, beside what ptxas computes in the others."""


def fit_ahead(sums_bits: int, operand_bits: int, stage_bytes: int, threads: int, sets: int = 2) -> bool:
    """Whether a warp's sums, `sets` of the operands of a step, and the addresses of 16-byte copies of a stage
    by all threads fit in registers: then operands are loaded a step before their products.
    """
    addresses = 2 * stage_bytes // (COPY.bytes * threads)
    values = (sums_bits + sets * operand_bits) // (REGISTER_BITS * LANES)
    return values + addresses <= _MOST_REGISTERS


def sorted_sums(sums: ir.Value, rows: bool, columns: bool, run: int = PAIR) -> ir.Value:
    """Sums of `mma.sync` in the order of D's rows and columns: a lane's elements of a row follow each other.
    `rows` and `columns`: these alternate between the two halves of 16. `run`: that of columns which don't.
    """
    if not rows and not columns and run == PAIR:
        return sums
    (m, n), kind = sums.type.shape, sums.type
    run = ALTERNATING_RUN if columns else run
    per_row, across = n // QUAD, QUAD * run
    tall = (8, 2) if rows else (2, 8)
    strides = {8: "4@laneid", 2: str(per_row)}
    layout = Layout.parse(
        f"S[({m // 16},{tall[0]},{tall[1]},{n // across},4,{run}):"
        f"({2 * per_row},{strides[tall[0]]},{strides[tall[1]]},{run},1@laneid,1)]"
    )
    held = {at: number for number, at in enumerate(fragment_registers.coordinates(kind))}
    wanted = fragment_registers.lane_elements(layout, kind.shape)[0]
    elements = emit.elements(tile.to_lane(sums))
    lane = []
    for row, column in wanted:
        row = _alternating(row) if rows else row
        column = _alternating(column) if columns else _in_runs(column, run)
        lane.append(elements[held[row, column]])
    return tile.from_lane(emit.vector_of(lane), FragmentType.of((m, n), kind.element_type, layout))


def _alternating(number: int) -> int:
    """Where a row or column is among 16 of which the halves alternate."""
    high, low = divmod(number, 16)
    return 16 * high + 8 * (low % 2) + low // 2


def reread(
    fragment: ir.Value,
    kind: ir.Type | None = None,
    registers: Sequence[int] | None = None,
    rounds: bool = False,
) -> Any:
    """The result of `tile.read_sums`, read again here: as another type, only some of its registers in this
    order, or rounded. None for a fragment that another operation returned.
    """
    if (read := tile.reading(fragment)) is None:
        return None
    order = read.attribute("order")
    if registers is not None:
        order = [read.order[number] for number in registers]
    first = read.attribute("first_sum")
    return tile.read_sums(kind or fragment.type, first, order=order, rounds=rounds)


def widened(sums: ir.Value) -> ir.Value:
    """Sums as the epilogue has them: those of f16 in f32."""
    kind = sums.type
    if kind.element_type != ir.F16Type.get():
        return sums
    wide = FragmentType.of(kind.shape, ir.F32Type.get(), kind.layout)
    return tile.from_lane(arith.extf(wide.lane_type, tile.to_lane(sums)), wide)


def _in_runs(number: int, run: int) -> int:
    """Which column of the products is this one of D, where lanes have runs of its columns."""
    group, within = divmod(number, QUAD * run)
    lane, at = divmod(within, run)
    return QUAD * run * group + QUAD * PAIR * (at // PAIR) + PAIR * lane + at % PAIR


def undefined(kind: ir.Type) -> ir.Value:
    """A fragment of undefined values: the first product overwrites it."""
    return tile.from_lane(llvm.mlir_undef(kind.lane_type), kind)


def zeros(kind: ir.Type) -> ir.Value:
    """A fragment of zeros."""
    return tile.from_lane(emit.constant(kind.lane_type, 0), kind)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    """The sum of two scalars or vectors."""
    return arith.addi(a, b) if isinstance(emit.element_of(a.type), ir.IntegerType) else arith.addf(a, b)


def convert(lane: ir.Value, kind: ir.Type) -> ir.Value:
    """A vector of an even number of floats in another type, rounded once. Values out of the range of fp8
    become its largest value.
    """
    if lane.type == kind:
        return lane
    old, new = lane.type.element_type, kind.element_type
    if str(new) in FP8_TYPES:
        return _to_fp8(small_floats.as_f32(lane), kind)
    if str(old) in FP8_TYPES:
        return _from_fp8(lane, kind)
    if old.width == new.width:  # f16 and bf16: neither holds the other's values
        return arith.truncf(kind, arith.extf(emit.with_elements(kind, ir.F32Type.get()), lane))
    return arith.extf(kind, lane) if new.width > old.width else arith.truncf(kind, lane)


def _to_fp8(lane: ir.Value, kind: ir.Type) -> ir.Value:
    """A vector of an even number of f32 in fp8, two at a time."""
    i8, i16 = (ir.IntegerType.get_signless(bits) for bits in (8, 16))
    numbers = emit.elements(lane)
    nearest, finite = (
        ir.Attribute.parse(f"#nvvm.{mode}>") for mode in ("fp_rnd_mode<rn", "sat_mode<satfinite")
    )
    # The first operand becomes the upper byte.
    pairs = [
        nvvm.convert_f32x2_to_f8x2(i16, high, low, kind.element_type, rnd=nearest, sat=finite)
        for low, high in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    words = vector.from_elements(ir.VectorType.get([len(pairs)], i16), pairs)
    return arith.bitcast(kind, vector.bitcast(emit.with_elements(kind, i8), words))


def _from_fp8(lane: ir.Value, kind: ir.Type) -> ir.Value:
    """A vector of an even number of fp8 in a wider type, through f16, which holds all values of fp8."""
    two, halves = ir.VectorType.get([2], ir.F16Type.get()), list[ir.Value]()
    source = ir.TypeAttr.get(lane.type.element_type)
    elements = emit.elements(
        arith.bitcast(emit.with_elements(lane.type, ir.IntegerType.get_signless(8)), lane)
    )
    for low, high in zip(elements[::2], elements[1::2], strict=True):
        halves += emit.elements(nvvm.convert_f8x2_to_f16x2(two, emit.vector_of([low, high]), source))
    return convert(emit.vector_of(halves), kind)
