"""What the kernels of a `tile.matmul` share: the order of their tiles, sizes and types."""

from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile_types import FP8_TYPES, FragmentType
from weft.isa import wgmma
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, memref, nvvm, vector
from weft.passes.builders import emit


def grouped(linear: Any, rows: Any, columns: Any, group: int) -> tuple[Any, Any]:
    """The row and column of a tile by its number: down `group` rows, then to the next column."""
    group = emit.minimum(rows, group)  # with fewer rows, `columns * group` might exceed 32 bits
    per_group = emit.mul(columns, group)
    first = emit.mul(emit.div(linear, per_group), group)
    height = emit.minimum(emit.sub(rows, first), group)
    inside = emit.rem(linear, per_group)
    return emit.add(first, emit.rem(inside, height)), emit.div(inside, height)


def panels(rows: int, columns: int, element_bytes: int, outer: int) -> str:
    """The layout of `outer` tiles one after the other, each in panels as wide as a swizzle: those of 128
    bytes where they divide the columns, else of 64 or 32.
    """
    width = next(w // element_bytes for w in SWIZZLES if columns * element_bytes % w == 0)
    strides = f"{rows * columns},{width},{rows * width},1"
    swizzle = SWIZZLES[width * element_bytes]
    return f"S[({outer},{rows},{columns // width},{width}):({strides})] xor {swizzle}"


def size(matrix: Any, dimension: int) -> Any:
    """One of a matrix's sizes, as i32; a negative dimension counts from the last."""
    place = dimension % matrix.type.rank
    return emit.as_i32(memref.dim(matrix, arith.constant(ir.IndexType.get(), place)))


def member(matrix: Any, index: Any) -> Any:
    """One matrix of a batch, a memref of rank 3; a memref of rank 2 is every product's."""
    if matrix.type.rank == 2:
        return matrix
    dynamic = ir.ShapedType.get_dynamic_size()
    apart = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(apart, [apart, 1])
    kind = ir.MemRefType.get([dynamic] * 2, matrix.type.element_type, layout, matrix.type.memory_space)
    sizes = [memref.dim(matrix, arith.constant(ir.IndexType.get(), place)) for place in (1, 2)]
    return memref.SubViewOp(
        kind,
        matrix,
        offsets=[emit.as_index(index)],
        sizes=sizes,
        strides=[],
        static_offsets=[dynamic, 0, 0],
        static_sizes=[1, dynamic, dynamic],
        static_strides=[1, 1, 1],
    ).result


def map_of_member(matrix: Any, map_: Any, index: Any) -> Any:
    """The map of one matrix of a batch, given that of all; a memref of rank 2 is every product's."""
    return map_ if matrix.type.rank == 2 else tile.member(map_, emit.value(index))


def sum_type(form: wgmma.MmaAsync) -> Any:
    """The type of the sums that an instruction makes."""
    return emit.i32() if form.d_type == "s32" else ir.F32Type.get()


def turned(kind: Any) -> Any:
    """The type of a fragment with rows for columns, in the same registers."""
    rows, columns = kind.layout.group(kind.shape)
    return FragmentType.of(kind.shape[::-1], kind.element_type, Layout((*columns, *rows)))


def unset(kind: Any) -> Any:
    """A fragment for what is computed first: registers that hold nothing yet."""
    return tile.from_lane(llvm.mlir_undef(kind.lane_type), kind)


def add(a: Any, b: Any) -> Any:
    """The sum of two vectors."""
    return arith.addi(a, b) if isinstance(a.type.element_type, ir.IntegerType) else arith.addf(a, b)


def element_bytes(matrix: Any) -> int:
    """Bytes of an element."""
    return int(matrix.type.element_type.width) // 8


def pair_bytes(matrix: Any) -> int:
    """Bytes of two elements."""
    return 2 * element_bytes(matrix)


def convert(lane: Any, kind: Any) -> Any:
    """A vector of floats in another width. What is beyond the range of fp8 becomes its largest."""
    if lane.type == kind:
        return lane
    if str(kind.element_type) in FP8_TYPES:
        return _to_fp8(lane, kind)
    if str(lane.type.element_type) in FP8_TYPES:
        return _from_fp8(lane, kind)
    wider = kind.element_type.width > lane.type.element_type.width
    return arith.extf(kind, lane) if wider else arith.truncf(kind, lane)


def _to_fp8(lane: Any, kind: Any) -> Any:
    """A vector of an even number of f32 in fp8, two at a time."""
    i16, numbers = ir.IntegerType.get_signless(16), emit.elements(lane)
    nearest, finite = (
        ir.Attribute.parse(f"#nvvm.{mode}>") for mode in ("fp_rnd_mode<rn", "sat_mode<satfinite")
    )
    # The first operand becomes the upper byte.
    pairs = [
        nvvm.convert_f32x2_to_f8x2(i16, high, low, kind.element_type, rnd=nearest, sat=finite)
        for low, high in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    words = vector.from_elements(ir.VectorType.get([len(pairs)], i16), pairs)
    return arith.bitcast(kind, vector.bitcast(_bytes(kind), words))


def _from_fp8(lane: Any, kind: Any) -> Any:
    """A vector of an even number of fp8 in a wider type, by way of f16, which has all their values."""
    pair, halves = ir.VectorType.get([2], ir.IntegerType.get_signless(8)), list[Any]()
    two = ir.VectorType.get([2], ir.F16Type.get())
    source = ir.TypeAttr.get(lane.type.element_type)
    elements = emit.elements(arith.bitcast(_bytes(lane.type), lane))
    for low, high in zip(elements[::2], elements[1::2], strict=True):
        found = nvvm.convert_f8x2_to_f16x2(two, vector.from_elements(pair, [low, high]), source)
        halves += emit.elements(found)
    return convert(vector.from_elements(ir.VectorType.get(kind.shape, ir.F16Type.get()), halves), kind)


def _bytes(kind: Any) -> Any:
    """A vector type's elements as bytes."""
    return ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(8))
