"""Loads and stores of vectors and buffers of which each thread has elements that follow each other."""

from collections.abc import Callable, Sequence
from functools import partial

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.errors import shown
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.isa.mma.fragments import REGISTER_BITS
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.values.bounds import inside, may_begin_before
from weft.language.values.buffers import Buffer
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import DType
from weft.language.values.foreign import Foreign
from weft.language.values.fragments import Fragment
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar, as_scalar
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, vector
from weft.passes.analysis.factors import factor
from weft.passes.builders import addresses, emit, registers, thread_ids

_CONVERSIONS = "arith.", "vector.bitcast", "tile.from_lane", "tile.to_lane"
_RUNS = (8, 4)  # elements of a thread that follow each other


def layout_of(count: int, dtype: DType) -> Layout:
    """The layout of vectors of so many elements, if the first one has this type: a thread has eight, or four,
    that follow each other, and of 64 bits two.
    """
    threads = _threads()
    step = threads * _RUNS[-1]
    if isinstance(count, bool) or count < 1 or count % step:
        raise mistake(
            f"a vector must have a multiple of {step} elements{_of_threads(threads)}, got {count}: use "
            f"{_nearest(count, step)}, as loads and stores leave out what is outside of an array; w.load_row "
            "and w.load_column load vectors for tiles"
        )
    run = 2 if dtype.bits == 64 else next(each for each in _RUNS if count % (threads * each) == 0)
    steps, warps = count // (threads * run), threads // LANES
    return Layout.parse(f"S[({steps},{warps},{LANES},{run}):({run},1@warpid,1@laneid,1)]")


def _threads() -> int:
    """The threads that share a vector: a warpgroup of a role, or outside of roles the kernel's `threads`."""
    current = trace.current()
    return WARPGROUP if current.role is not None else current.cta_threads or WARPGROUP


def _of_threads(threads: int) -> str:
    return "" if threads == WARPGROUP else f" for {threads} threads"


def _nearest(count: int, step: int) -> int:
    return max(-(-count // step), 1) * step


def shape_complaint(shape: object) -> str:
    """Says why this is the shape neither of a tile nor of a vector."""
    parts = shape if isinstance(shape, tuple) else (shape,)
    number = next((each for each in parts if isinstance(each, Foreign)), None)
    if number is not None:
        return (
            f"shape must be numbers that Python knows, got {number}: write a meta-parameter after '*', which "
            "may have the name of a size"
        )
    if len(parts) == 2 and isinstance(parts[1], int):
        return (
            f"a tile must have several rows and columns, got {shape}: a part of one row is a vector, of "
            f"{_nearest(parts[1], _threads() * _RUNS[-1])} in place of the shape, or of w.load_row for a tile"
        )
    instead = "w.load_row and w.load_column load vectors for tiles"
    if shape is None:
        instead = f"one element is x[i, j], without w.load; {instead}"
    return (
        f"shape must be (rows, columns), or the number of elements of a vector, got {shown(shape)}: {instead}"
    )


def load(source: Place, count: int, like: Fragment | None, outside: object) -> Fragment:
    """Loads elements along the last dimension of an array, from one on."""
    if like is not None:
        layout = like.layout
    else:
        key, first_layout = (count, _threads()), layout_of(count, source.dtype)
        layout = trace.current().vector_layouts.setdefault(key, first_layout)
    # One number for all loads of such rows; with that of stores, comparisons would stay in registers.
    first = trace.current().row_arrays.setdefault(source.matrix.sizes[-1], source.matrix.value)
    elements = _Vector(source, count, layout, first)
    default = as_scalar(outside, source.dtype).value
    default = emit.bits(default, addresses.stored_type(default.type))
    lane = elements.load(default)
    return Fragment.of_lane(emit.bits(lane, source.dtype.type), (count,), layout)


def store(fragment: Fragment, to: Place, via: object, rows: object) -> None:
    """Stores a vector along the last dimension of an array, from an element on."""
    if via is not None or rows is not None:
        raise mistake("via and rows are for tiles of an array, not for vectors")
    vector_ = _Vector(to, fragment.shape[0], fragment.layout)
    elements = emit.elements(emit.bits(fragment.lane, addresses.stored_type(fragment.dtype.type)))
    stores = (partial(vector_.store, elements, width) for width in (vector_.width, 1))
    with emit.when(thread_ids.first_of_copies(fragment.layout)):
        vector_.either([], *stores)


def load_contiguous(buffer: object) -> Fragment:
    """Loads a buffer by a warpgroup so that each thread holds contiguous elements, in the order of the
    threads: those of the first row come first. Where that makes 16 bytes, one instruction loads them.
    """
    if not isinstance(buffer, Buffer) or buffer.transposed:
        raise mistake(f"w.load_contiguous expects a buffer that isn't transposed, got {buffer}")
    trace.current().check_warpgroups("w.load_contiguous")
    rows, columns = buffer.shape
    run = rows * columns // WARPGROUP
    if rows * columns % WARPGROUP or columns % run:
        raise mistake(
            f"a buffer must divide into parts of rows for {WARPGROUP} threads, got {rows} x {columns}"
        )
    buffer.read_by_lanes()
    layout = Layout.parse(f"S[({WARPS},{LANES},{run}):(1@warpid,1@laneid,1)]")
    kind = FragmentType.of(buffer.shape, buffer.dtype.type, layout)
    width = min(run * buffer.dtype.bytes, registers.MOST_BYTES)
    zero = emit.value(0)
    loaded = tile.load(buffer.value, zero, zero, kind, vector_bytes=width if run > 1 else 0)
    return Fragment(loaded)


class _Vector:
    """The elements that a lane has, by runs that it accesses at once where their addresses are aligned."""

    def __init__(self, place: Place, count: int, layout: Layout, like: ir.Value | None = None) -> None:
        matrix = place.matrix
        matrix.check_element(place.indices, "a vector's first index")
        _, outer, limit = place.row(like)
        self.start = place.indices[-1].value if len(place.indices) == matrix.rank else emit.value(0)
        self.limit = emit.value(limit)
        self.element = addresses.stored_type(matrix.dtype.type)
        self.bytes, self.count = matrix.dtype.bytes, count
        row_of = [emit.as_index(each) for each in (*outer, 0)]
        self._row = addresses.element(matrix.value, row_of)
        numbers = of_lanes(Fragment.of_layout((count,), layout))
        self.first: ir.Value = (numbers.base + Scalar(self.start)).value
        self.offsets = numbers.offsets
        self._address = self._at(self.first)
        self.run = registers.run(layout, (count,))
        self.width = min(self.run, registers.MOST_BYTES // self.bytes) if self.run in (2, *_RUNS) else 1
        self.is_whole = matrix.whole and factor(self.start) % self.width == 0
        """Whether each run is known to be aligned, and inside of the row or outside."""

    def either(
        self, kinds: list[ir.Type], runs: Callable[[], list[ir.Value]], single: Callable[[], list[ir.Value]]
    ) -> list[ir.Value]:
        """Accesses runs where the first one is aligned and none ends beyond the row, otherwise single
        elements.
        """
        if self.width == 1:
            return single()
        if self.is_whole:
            return runs()
        address = addresses.low_bits(self._at(self.start))
        left = emit.sub(self.limit, self.start)
        aligned = emit.equal(emit.bit_and(address, self.width * self.bytes - 1), 0)
        within = arith.ori(emit.equal(emit.bit_and(left, self.width - 1), 0), emit.less(self.count - 1, left))
        begins = arith.andi(emit.less(emit.value(0), left), aligned)
        if may_begin_before(self.start):
            begins = arith.andi(begins, emit.less(emit.value(-1), self.start))
        return emit.either(arith.andi(begins, within), kinds, runs, single)

    def load(self, default: ir.Value) -> ir.Value:
        """A lane's elements, those outside of the row with the default."""
        count = len(self.offsets)
        kind, bits = ir.VectorType.get([count], self.element), count * int(self.element.width)
        if self.width == 1 or bits % REGISTER_BITS:
            return self._loaded(self.offsets, 1, default)
        step = self.offsets[min(self.run, count - 1)]
        even = all(at == n // self.run * step + n % self.run for n, at in enumerate(self.offsets))
        # As registers, which elements then share after the branch.
        words = ir.VectorType.get([bits // REGISTER_BITS], emit.i32())

        def single() -> list[ir.Value]:
            if even and count > 2 * self.run:
                return [self._loaded_by_runs(step, words.shape[0], default)]
            return [vector.bitcast(words, self._loaded(self.offsets, 1, default))]

        def runs() -> list[ir.Value]:
            return [vector.bitcast(words, self._loaded(self.offsets, self.width, default))]

        (lane,) = self.either([words], runs, single)
        _overlap(lane.owner.operation)
        return vector.bitcast(kind, lane)

    def _loaded(
        self, offsets: Sequence[int], width: int, default: ir.Value, first: ir.Value | None = None
    ) -> ir.Value:
        """Elements at these distances from one of the lane's, by default from its first one."""
        elements = list[ir.Value]()
        kind = self.element if width == 1 else ir.VectorType.get([width], self.element)
        fill = default if width == 1 else vector.broadcast(kind, default)
        address = self._address if first is None else self._at(first)
        first = self.first if first is None else first

        for offset in offsets[::width]:
            value = addresses.loaded(*self._run(offset, first, address, width), kind, fill)
            elements += emit.elements(value) if width > 1 else [value]
        return emit.vector_of(elements)

    def _loaded_by_runs(self, step: int, count: int, default: ir.Value) -> ir.Value:
        """A lane's elements as `count` registers, from one run after the other: the addresses and elements of
        all at once would need more registers than all else.
        """
        each = count * self.run // len(self.offsets)

        def loaded(number: ir.Value, words: list[ir.Value]) -> list[ir.Value]:
            first = emit.value(emit.add(self.first, emit.mul(number, step)))
            run = self._loaded(range(self.run), 1, default, first)
            new = emit.elements(vector.bitcast(ir.VectorType.get([each], emit.i32()), run))
            return [
                arith.select(emit.equal(number, n // each), new[n % each], old) for n, old in enumerate(words)
            ]

        zeros = [emit.value(0)] * count
        return emit.vector_of(emit.loop(0, len(self.offsets) // self.run, 1, zeros, loaded))

    def store(self, elements: list[ir.Value], width: int) -> list[ir.Value]:
        """Stores a lane's elements that are inside of the row. Returns nothing: []."""
        for number in range(0, len(elements), width):
            at, is_inside = self._run(self.offsets[number], self.first, self._address, width)
            part = elements[number : number + width]
            with emit.when(is_inside):
                llvm.store(part[0] if width == 1 else emit.vector_of(part), at)
        return []

    def _run(self, offset: int, first: ir.Value, address: ir.Value, width: int) -> tuple[ir.Value, ir.Value]:
        """The address of the element at a distance from the first one, and whether it is in the row."""
        number = emit.value(emit.add(first, offset))
        is_inside = inside(number, self.limit, self.start)
        if width == 1 and len(self.offsets) <= 2 * self.run and not may_begin_before(self.start):
            # Around a loop, one number then stays in registers instead of that of each element.
            is_inside = emit.less(offset, emit.sub(self.limit, first))
        return addresses.offset(address, offset * self.bytes), is_inside

    def _at(self, number: ir.Value) -> ir.Value:
        wide = arith.extsi(emit.i64(), emit.value(number))
        return addresses.offset(self._row, arith.muli(wide, arith.constant(wide.type, self.bytes)))


def _overlap(load: ir.Operation) -> None:
    """Moves conversions of what an earlier load of the block returned behind this load. Otherwise, threads
    would wait for the earlier one before this one begins.
    """
    loads = trace.current().loads
    earlier = next((each for each in reversed(loads) if each.block == load.block), None)
    loads.append(load)
    if earlier is None:
        return
    operations, moved = [each.operation for each in load.block.operations], list[ir.Operation]()
    for each in reversed(operations[operations.index(earlier) + 1 : operations.index(load)]):
        is_conversion = each.name.startswith(_CONVERSIONS) and len(each.operands) == 1
        if is_conversion and all(use.owner.operation in moved for use in each.result.uses):
            moved.append(each)
    for each in moved:
        each.move_after(load)
