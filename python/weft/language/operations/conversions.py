"""Fragments in other layouts, and by parts of their registers."""

from collections.abc import Callable, Sequence

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES
from weft.errors import shown
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import shared_exchange
from weft.language.values.buffers import buffer_type
from weft.language.values.dtypes import i1, i32
from weft.language.values.fragments import Fragment, layout_for, zeros
from weft.language.values.scalars import Scalar, as_scalar
from weft.layout import Layout
from weft.mlir import ir, nvvm, vector
from weft.passes.builders import emit, registers
from weft.passes.kernels.epilogue import Piece, pieces

_ROW_LANES = 8  # whose accesses are 128 bytes, once through the banks of shared memory


def convert(x: object, *, like: Fragment | None = None) -> Fragment:
    """The fragment in the layout of `like`, or of its rows or columns for a vector; without `like`, in that
    of the sums of `w.gemm`.

    If each lane holds the same elements in both layouts, nothing moves. Otherwise the fragment goes through
    shared memory, and all threads of the warpgroup must execute the call.
    """
    if not isinstance(x, Fragment):
        raise mistake(f"w.convert expects a fragment, got {x}")
    if like is not None and not isinstance(like, Fragment):
        raise mistake(f"like must be a fragment, got {like}")
    layout = layout_for(x.shape, like)
    if registers.same(x.layout, layout, x.shape):
        return x
    numbers = registers.reordered(x.layout, layout, x.shape)
    if numbers is not None:
        return Fragment.of_lane(vector.shuffle(x.lane, x.lane, list(numbers)), x.shape, layout)
    return _through_shared(x, layout)


def shuffle(
    x: object, lane: object = None, *, xor: object = None, up: object = None, down: object = None
) -> Scalar | Fragment:
    """The value that another lane of the warp has where this one has `x` (`shfl.sync`): lane `lane`, the lane
    whose number is this one's xor `xor`, or the one that is `up` lanes before or `down` lanes after this one,
    which keeps its own value if there is none.

    Of a fragment, each lane gets the other lane's elements, in the same registers. All lanes of the warp must
    execute the call.
    """
    chosen = {
        nvvm.ShflKind.idx: lane,
        nvvm.ShflKind.bfly: xor,
        nvvm.ShflKind.up: up,
        nvvm.ShflKind.down: down,
    }
    (kind, number), *others = [*((k, n) for k, n in chosen.items() if n is not None), (None, 0)]
    if kind is None or len(others) > 1:
        raise mistake("w.shuffle expects one of lane, xor, up and down, as in w.shuffle(x, xor=1)")
    if isinstance(number, int) and not 0 <= number < LANES:
        raise mistake(f"lanes of w.shuffle are in 0..{LANES - 1}, got {number}")
    trace.current().check_whole_warps("w.shuffle")
    other = as_scalar(number, i32).value
    if not isinstance(x, Fragment):
        return Scalar(emit.of_lane(as_scalar(x).value, other, kind))
    moved = [emit.of_lane(each, other, kind) for each in x.elements()]
    return Fragment.of_lane(emit.vector_of(moved), x.shape, x.layout)


def by_lanes(x: object) -> Fragment:
    """The registers of a fragment as a tile whose rows have 16 bytes of each of 8 lanes, in order. Nothing
    moves, and loads and stores of the tile are as wide as they can be. `w.from_lanes` is the inverse.
    """
    if not isinstance(x, Fragment):
        raise mistake(f"w.by_lanes expects a fragment, got {x}")
    trace.current().check_warpgroups("w.by_lanes")
    if (warps := x.layout.span("warpid")) > WARPS:
        raise mistake(
            f"w.by_lanes expects a fragment of one warpgroup, got {x} of {warps} warps: store it whole"
        )
    count, run = x.lane.type.shape[0], 0 if x.dtype == i1 else registers.MOST_BYTES // x.dtype.bytes
    if not run or count % run:
        raise mistake(f"a lane must hold a multiple of {registers.MOST_BYTES} bytes of the fragment, got {x}")
    return _of_lanes(x.lane, run)


def _of_lanes(lane: ir.Value, run: int) -> Fragment:
    """A tile of lanes' elements, of which `run` are 16 bytes."""
    count = lane.type.shape[0]
    lanes = f"{count // run},{WARPS},{LANES // _ROW_LANES},{_ROW_LANES},{run}"
    layout = Layout.parse(f"S[({lanes}):({run},1@warpid,{_ROW_LANES}@laneid,1@laneid,1)]")
    return Fragment.of_lane(lane, (count * WARPGROUP // run // _ROW_LANES, run * _ROW_LANES), layout)


def lane_parts(x: Fragment) -> list[Fragment]:
    """The tile `w.by_lanes(x)` in parts of 16 bytes of each lane. Where registers are scarce, store these one
    by one: the addresses differ by constants, which the compiler doesn't find out of those of the whole tile.
    """
    by_lanes(x)  # or its message
    run = registers.MOST_BYTES // x.dtype.bytes
    elements = x.elements()
    lanes = (emit.vector_of(elements[first : first + run]) for first in range(0, len(elements), run))
    return [_of_lanes(lane, run) for lane in lanes]


def from_lanes(x: object, shape: tuple[int, int]) -> Fragment:
    """The fragment of this shape, in the layout of the sums of `w.gemm`, of which `x` is `w.by_lanes`."""
    if not isinstance(x, Fragment):
        raise mistake(f"w.from_lanes expects what w.by_lanes makes, got {shown(x)}")
    like = zeros(shape, x.dtype)
    if by_lanes(like).shape != x.shape or not registers.same(by_lanes(like).layout, x.layout, x.shape):
        raise mistake(f"w.from_lanes expects what w.by_lanes makes of {like}, got {x}")
    return Fragment.of_lane(x.lane, like.shape, like.layout)


def _through_shared(x: Fragment, layout: Layout) -> Fragment:
    one_row = len(x.shape) == 1
    rows, columns = (1, *x.shape) if one_row else x.shape
    layouts = (shared_exchange.row(x.layout), shared_exchange.row(layout)) if one_row else (x.layout, layout)
    widths = [_vector_bytes(x, each) for each in (x.layout, layout)]

    def scratch(warpgroups: int) -> ir.Type:
        # A tile of each warpgroup, with rows in swizzled panels where they fill some.
        if rows > 1 and any(columns * x.dtype.bytes % width == 0 for width in SWIZZLES):
            return buffer_type(rows, columns, x.dtype, warpgroups)
        return shared_exchange.tiles_type((warpgroups, rows, columns), x.dtype.type)

    lane = shared_exchange.moved(x.lane, (rows, columns), layouts, widths, scratch)
    return Fragment.of_lane(lane, x.shape, layout)


def _vector_bytes(x: Fragment, layout: Layout) -> int:
    """The bytes that a lane accesses at once; 0 where that is for the instructions that move matrices."""
    if len(x.shape) == 2 and registers.same(layout, trace.current().sums(x.shape), x.shape):
        return 0
    bytes_ = min(registers.run(layout, x.shape) * x.dtype.bytes, registers.MOST_BYTES)
    return bytes_ if bytes_ > 1 else 0


def by_parts(
    function: Callable[..., Sequence[Fragment]], *tiles: Fragment, count: int
) -> tuple[Fragment, ...]:
    """The tiles that a function of single elements makes of tiles in one layout: of `count` parts, one after
    the other, so that only one part's intermediate results need registers.
    """
    inputs = [each.elements() for each in tiles]
    divided = [pieces(each.type, count) for each in tiles]
    outputs = list[list[ir.Value]]()
    for parts in zip(*divided, strict=True):
        registers = parts[0].registers
        results = function(*(_part(*each) for each in zip(inputs, parts, strict=True)))
        outputs = outputs or [list(inputs[0]) for _ in results]
        for elements, result in zip(outputs, results, strict=True):
            for register, element in zip(registers, result.elements(), strict=True):
                elements[register] = element
    like = tiles[0]
    return tuple(Fragment.of_lane(emit.vector_of(each), like.shape, like.layout) for each in outputs)


def _part(elements: list[ir.Value], part: Piece) -> Fragment:
    lane = vector.from_elements(part.kind.lane_type, [elements[each] for each in part.registers])
    return Fragment(tile.from_lane(lane, part.kind))
