"""Tiles in the registers of a warpgroup."""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from weft import mlir
from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.errors import WeftError, shown
from weft.ir import callers
from weft.isa.chips import LANES, REGISTERS, THREAD_REGISTERS, WARPGROUP, WARPS
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import at, check_value, mistake
from weft.language.operations import shared_exchange
from weft.language.values import operators
from weft.language.values.dtypes import NUMBERS, DType, checked_type, f32, i32
from weft.language.values.scalars import (
    Scalar,
    as_scalar,
    check_fits,
    check_sign,
    constant,
    converted,
    dtype_of,
    reinterpreted,
    same,
)
from weft.layout import Layout
from weft.mlir import ir, tensor
from weft.passes.builders import emit, registers

COLUMN_STEP = 8
"""The columns of the sums of `w.gemm` are a multiple of this."""
_OUTSIDE = "as loads and stores leave out what is outside of an array"


class Fragment(operators.Operators, Carried):
    """A tile in the registers of a warpgroup, of rows x columns, or a vector of its rows or of its columns.

    `layout` specifies which lane holds which element. A fragment made without `like=` has no layout until an
    operation needs one; if none does, `--assign-layouts` chooses it. Operators work element by element.
    Numbers, and vectors of the rows or of the columns, apply to the whole tile.
    """

    __hash__ = object.__hash__

    value: ir.Value
    """The SSA value of the fragment as a whole."""
    axis = 0
    """Of a vector without a layout: 0 for one of rows, 1 for one of columns."""

    def __init__(self, value: ir.Value, axis: int = 0) -> None:
        check_value(value, "Fragment")
        self.value = value
        self.shape: tuple[int, ...] = tuple(value.type.shape)
        self.axis = axis
        self._layout: Layout | None = value.type.layout if tile.is_fragment(value) else None
        self.where = callers.here()
        if not self.is_free:
            self._check_fits()

    @property
    def layout(self) -> Layout:
        """Which lane holds which element. A fragment without a layout gets that of the sums of `w.gemm`."""
        if self._layout is None:
            is_row = len(self.shape) == 1 and self.axis == 1
            self.set_layout(_shape_and_layout((1, *self.shape) if is_row else self.shape, None)[1])
        assert self._layout is not None
        return self._layout

    @property
    def is_free(self) -> bool:
        """Whether its layout isn't decided yet."""
        return self._layout is None

    def set_layout(self, layout: Layout) -> None:
        """Gives a fragment that has no layout this one."""
        self.value = _with_layout(self.value, FragmentType.of(self.shape, self.dtype.type, layout))
        self._layout = layout
        self._check_fits()

    @staticmethod
    def of_lane(lane: ir.Value, shape: Sequence[int], layout: Layout) -> "Fragment":
        """The fragment of the vectors of each lane's elements."""
        return Fragment(tile.from_lane(lane, FragmentType.of(shape, lane.type.element_type, layout)))

    @staticmethod
    def of_layout(shape: Sequence[int], layout: Layout) -> "Fragment":
        """A shape and a layout, without a value."""
        made = Fragment.__new__(Fragment)
        made.shape, made._layout, made.where = tuple(shape), layout, callers.here()
        return made

    def _check_fits(self) -> None:
        """Raises WeftError for more registers than a thread has: the compiler would spill them."""
        kind, current = self.value.type, trace.current()
        role, bits = current.role, kind.element_type.width
        needed = kind.registers * bits // 32 if bits > 1 else 0
        share = min(REGISTERS // current.threads, THREAD_REGISTERS)
        most = share if role is None else role.registers or THREAD_REGISTERS
        if needed <= most:
            return
        where = "this role has" if role is not None else f"each of {current.threads} has"
        if most >= THREAD_REGISTERS:
            where = "a thread has"
        fitting = self.columns * most // needed // 8 * 8
        if len(self.shape) == 1:
            remedy = "loop over parts of it"
            if role is not None:
                remedy += ", or divide it among more warpgroups"
            elif most == THREAD_REGISTERS:
                remedy += ", or use more threads"
        else:
            nearest = f", at most {fitting} at once" if fitting else ""
            remedy = f"loop over parts of its columns{nearest}, or divide the rows among more warpgroups"
        raise mistake(f"{self} needs {needed} registers of each thread, and {where} {most}: {remedy}")

    @property
    def lane(self) -> ir.Value:
        """The vector of a lane's elements."""
        _ = self.layout
        owner = self.value.owner
        known = None if isinstance(owner, ir.Block) else owner.opview
        return known.lane if isinstance(known, tile.FromLaneOp) else tile.to_lane(self.value)

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return dtype_of(self.value.type)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """The number of its columns."""
        return self.shape[-1]

    @property
    def has_columns(self) -> bool:
        """Whether it is a tile, or a vector of columns, which all warps have."""
        if self.is_free or len(self.shape) == 2:
            return len(self.shape) == 2 or self.axis == 1
        return all(it.axis != "warpid" or it.extent == 1 for it in self.layout.shard)

    @property
    def T(self) -> "Fragment":
        """The transposed tile, in the same registers; nothing moves. Of a vector of rows, the vector of
        columns with the same elements, and the other way around, through shared memory.
        """
        if (loaded := self._transposed_load()) is not None:
            return loaded
        if len(self.shape) != 2:
            lane, layout = shared_exchange.transposed(self.lane, self.shape[0], self.layout)
            return Fragment.of_lane(lane, self.shape, layout)
        return Fragment.of_lane(self.lane, self.shape[::-1], registers.transposed(self.layout, self.shape))

    def _transposed_load(self) -> "Fragment | None":
        """The tile as the transposed one is loaded, if it is from an array and its layout isn't decided."""
        owner = self.value.owner if self.is_free else None
        if isinstance(owner, (ir.Block, type(None))) or not isinstance(op := owner.opview, tile.LoadOp):
            return None
        kind = ir.RankedTensorType.get(list(self.shape[::-1]), self.value.type.element_type)
        swapped = not op.attribute("transpose")
        bytes_ = op.attribute("vector_bytes")
        with ir.InsertionPoint.after(owner):
            loaded = tile.load(op.source, op.row, op.column, kind, transpose=swapped, vector_bytes=bytes_)
        return Fragment(loaded)

    @property
    def type(self) -> ir.Type:
        """The type: a tensor, with a layout if it is decided."""
        if self._layout is None:
            return self.value.type
        return FragmentType.of(self.shape, self.dtype.type, self._layout)

    def to(self, dtype: DType) -> "Fragment":
        """The fragment with elements of another type, in the same layout."""
        if any(each.is_float and each.bits == 8 for each in (self.dtype, checked_type(dtype))):
            _ = self.layout  # instructions convert pairs of a lane's elements
        return self._with(converted(self.value, dtype))

    def bitcast(self, dtype: DType) -> "Fragment":
        """The bits of each element as an element of another type with as many bits, in the same layout."""
        return self._with(reinterpreted(self.value, checked_type(dtype)))

    def _with(self, value: ir.Value) -> "Fragment":
        return Fragment(value, self.axis)

    def elements(self) -> list[ir.Value]:
        """A lane's elements, in register order."""
        return emit.elements(self.lane)

    def binary(self, name: str, other: object, swapped: bool) -> "Fragment":
        one, second = together(self, other)
        if one is None:
            return NotImplemented
        check_sign(name, other, one.dtype)
        same(one.dtype, second.dtype)
        pair = (second, one) if swapped else (one, second)
        return one._with(operators.apply(name, *(each.value for each in pair)))

    def parts(self) -> list[ir.Value]:
        return [self.value]

    def of_zeros(self) -> "Fragment":
        return self._with(constant(self.value.type, 0))

    def like(self, parts: Iterator[ir.Value]) -> "Fragment":
        return self._with(next(parts))

    def begun(self, number: str) -> str:
        dtype = "" if self.dtype == f32 else f", {self.dtype}"
        shapes = [self.shape] if len(self.shape) == 2 else [self.shape, (1, *self.shape)]
        shape = next((each for each in shapes if self._is_usual(each)), None)
        legal = shape or self.shape
        written = legal[0] if len(legal) == 1 else legal
        end = ")" if shape else ", like=t), with a fragment t in the same layout"
        return f"w.full({written}, {number}{dtype}{end}"

    def _is_usual(self, shape: tuple[int, ...]) -> bool:
        """Whether `w.zeros` of this shape has its layout."""
        if self.is_free:
            return len(self.shape) == 2 or len(shape) == 1 + self.axis
        try:
            _, layout = _shape_and_layout(shape, None)
        except WeftError:
            return False
        return registers.same(self.layout, layout, self.shape)

    def complaint(self, other: "Fragment") -> str | None:
        if (other.shape, other.dtype) != (self.shape, self.dtype):
            hint = f": convert it with .to({self.dtype})" if other.shape == self.shape else ""
            if len(self.shape) < len(other.shape):
                hint = ": a vector of rows and one of columns make a tile; w.zeros((1, n)) is one of columns"
            return f"was {self} and becomes {other}{hint}"
        if (self.is_free or other.is_free) and self.has_columns != other.has_columns:
            return f"was {_along(self)} and becomes {_along(other)}: take .T of one"
        decided = not self.is_free and not other.is_free
        if decided and not registers.same(self.layout, other.layout, self.shape):
            return f"was in layout {self.layout} and becomes {other.layout}: w.convert it back"
        return None

    def noun(self) -> str:
        return f"a fragment of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self.noun()}>" if self.is_free else f"<{self.noun()}, {self.layout}>"

    def __bool__(self) -> bool:
        raise mistake(
            "a condition must be one number, got a fragment: combine conditions of elements by &, | and ~, "
            "choose by w.where, w.maximum or w.minimum, or reduce them by w.warp_any"
        )

    def __float__(self) -> float:
        raise mistake(
            f"Python can't make a number of {self}: use the functions of w, as w.tanh for math.tanh"
        )

    def __getitem__(self, _: object) -> NoReturn:
        raise mistake(
            f"{self} can't be subscripted: its elements are in the registers of several threads. Vectors of "
            "rows and of columns apply to a tile as they are; choose elements by w.where, w.row and w.column"
        )


def together(one: Fragment, other: Any) -> tuple[Any, Any]:
    """A fragment and another operand with the shape and layout of both, broadcast where one is a vector or a
    number; None twice for an operand that isn't a number or fragment.
    """
    if isinstance(other, Fragment):
        return _fitted(one, other)
    if not isinstance(other, NUMBERS) and getattr(other, "ndim", None) == 0 and hasattr(other, "item"):
        other = other.item()  # a number of NumPy
    if isinstance(other, NUMBERS):
        check_fits(other, one.dtype)
        return one, one._with(constant(one.type, other))
    if isinstance(other, Scalar) or callable(getattr(other, "loaded", None)):
        return one, everywhere(as_scalar(other).value, one)
    return None, None


def everywhere(value: ir.Value, like: Fragment) -> Fragment:
    """The fragment in the layout of another whose elements all have a value."""
    kind = emit.with_elements(like.type, value.type)
    return Fragment(tensor.splat(kind, value, []), like.axis)


def from_first(x: object, axis: Any) -> Any:
    """An axis of a fragment, of which negative ones count from the last, as in NumPy; others as they are."""
    if isinstance(x, Fragment) and isinstance(axis, int) and -len(x.shape) <= axis < 0:
        return axis + len(x.shape)
    return axis


def common(fragments: Sequence[Fragment]) -> Fragment:
    """A fragment with the shape and layout that all of these have together: of one with most dimensions, or
    where they are vectors of rows and of columns, of a tile.
    """
    decided_first = sorted(fragments, key=lambda each: each.is_free)
    largest = max(decided_first, key=lambda each: len(each.shape))
    for each in decided_first:
        if len(largest.shape) == 1 or (largest.is_free and not each.is_free):
            largest, _ = together(largest, each)
    return largest


def _fitted(one: Fragment, other: Fragment) -> tuple[Fragment, Fragment]:
    if one.shape == other.shape:
        if one.is_free and other.is_free and (one.axis == other.axis or len(one.shape) > 1):
            return one, other
        if one.is_free != other.is_free and one.has_columns == other.has_columns:
            free, decided = (one, other) if one.is_free else (other, one)
            free.set_layout(decided.layout)
        if not one.is_free and registers.same(one.layout, other.layout, one.shape):
            return one, other
    if len(one.shape) == 2 and len(other.shape) == 1:
        return one, _along_tile(other, one)
    if len(one.shape) == 1 and len(other.shape) == 2:
        return _along_tile(one, other), other
    if len(one.shape) == 1 and one.is_free and other.is_free and one.axis != other.axis:
        down, across = (one, other) if one.axis == 0 else (other, one)
        whole = ir.RankedTensorType.get([*down.shape, *across.shape], one.value.type.element_type)
        return _broadcast(one, whole, one.axis), _broadcast(other, whole, other.axis)
    if len(one.shape) == 1 and (outer := _outer(one, other)) is not None:
        return spread(one, *outer), spread(other, *outer)
    if one.shape != other.shape:
        both = f"{_along(one)} and {_along(other)}"
        raise mistake(f"shapes must be equal, or one that of a vector, got {both}")
    remedy = "bring one to that of the other by w.convert(x, like=y), or make it with like="
    raise mistake(
        f"layouts must be equal, got {one.layout}{at(one.where)} and {other.layout}{at(other.where)}: "
        f"{remedy}",
        ("one was made here", one.where),
        ("the other was made here", other.where),
    )


def _with_layout(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A tile without a layout, in a type with one. One made from a number is built again, not converted."""
    owner = value.owner
    is_argument = isinstance(owner, ir.Block)
    after = ir.InsertionPoint.at_block_begin(owner) if is_argument else ir.InsertionPoint.after(owner)
    with after:
        if (number := mlir.splat(value)) is not None:
            return emit.constant(kind, number)
        if not is_argument and isinstance(owner.opview, tensor.SplatOp):
            return tensor.splat(kind, owner.opview.input, [])
        return tile.convert_layout(value, kind)


def _along_tile(vector_: Fragment, tile_: Fragment) -> Fragment:
    """A vector of rows or of columns as a tile like another one."""
    axis, extent = vector_.axis, vector_.shape[0]
    if vector_.is_free and extent != tile_.shape[axis]:
        raise mistake(
            f"a vector of {'columns' if axis else 'rows'} beside a tile of {list(tile_.shape)} must have "
            f"{tile_.shape[axis]} elements, got {extent}"
        )
    if vector_.is_free and not tile_.is_free:
        vector_.set_layout(registers.without_axis(tile_.layout, tile_.shape, 1 - axis))
    if vector_.is_free:
        kind = emit.with_elements(tile_.value.type, vector_.value.type.element_type)
        return _broadcast(vector_, kind, axis)
    if tile_.is_free and vector_.shape[0] in tile_.shape and tile_.shape[0] % registers.WGMMA_ROWS:
        raise mistake(
            f"a vector is beside tiles of one layout: {_along(vector_)}{at(vector_.where)} has that of other "
            f"tiles than {tile_}: load or compute one for each of them",
            ("the vector was made here", vector_.where),
        )
    return spread(vector_, tile_.shape, tile_.layout)


def _broadcast(vector_: Fragment, kind: ir.Type, axis: int) -> Fragment:
    """A vector along an axis of a tile as that tile: each of its columns, or of its rows."""
    return Fragment(tile.broadcast(vector_.value, kind, 1 - axis))


def _outer(one: Fragment, other: Fragment) -> tuple[tuple[int, int], Layout] | None:
    """The shape and layout of the tile of which one vector has the rows and the other one the columns; None
    where they aren't of the sums of `w.gemm`.
    """
    for down, across in ((one, other), (other, one)):
        shape = down.shape[0], across.shape[0]
        if shape[0] % registers.WGMMA_ROWS or shape[1] % COLUMN_STEP:
            continue
        for layout in (trace.current().sums(shape), registers.sums(shape)):
            parts = ((0, down), (1, across))
            registers_ = (registers.along(layout, shape, n, v.layout, v.shape[0]) for n, v in parts)
            if all(each is not None for each in registers_):
                return shape, layout
    return None


def _along(fragment: Fragment) -> str:
    """A fragment in words: a vector as one of rows or of columns, if its layout shows that."""
    if len(fragment.shape) == 1:
        rows = fragment.shape[0]
        if fragment.has_columns or fragment.is_free:
            return f"a vector of {rows} {'columns' if fragment.has_columns else 'rows'}"
        usual = None if rows % registers.WGMMA_ROWS else trace.current().sums(fragment.shape)
        if usual is not None and registers.same(fragment.layout, usual, fragment.shape):
            return f"a vector of {rows} rows"
    return str(fragment)


def spread(vector_: Fragment, shape: tuple[int, ...], layout: Layout) -> Fragment:
    """A vector of rows or of columns as a tile of this shape and layout: without instructions."""
    for axis in range(len(shape)):
        extent = vector_.shape[0]
        numbers = registers.along(layout, shape, axis, vector_.layout, extent)
        if numbers is not None:
            return _broadcast(vector_, FragmentType.of(shape, vector_.dtype.type, layout), axis)
    wanted = " or ".join(str(extent) for extent in dict.fromkeys(shape))
    if vector_.shape[0] not in shape:
        raise mistake(f"a vector beside a tile of {list(shape)} must have {wanted} elements, got {vector_}")
    raise mistake(
        f"a vector must be one of the tile's rows or columns: {_along(vector_)} in layout {vector_.layout}"
        f"{at(vector_.where)} doesn't fit to a tile of {' x '.join(map(str, shape))} in {layout}: reduce it "
        "from a tile in this layout, or make it with like= the tile",
        ("the vector was made here", vector_.where),
    )


def full(shape: Any, value: object, dtype: DType = f32, *, like: Fragment | None = None) -> Fragment:
    """A fragment whose elements all have this value, or in each row or column that of a vector.

    `shape` is (rows, columns); a number of rows, for a vector of rows; or (1, columns), for one of columns.
    It has the layout of `like` (a vector: that of the rows or columns of `like`). By default, its layout is
    decided later.
    """
    if not isinstance(shape, (int, tuple, list)):
        raise mistake(f"shape must be one or two numbers that Python knows, got {shown(shape)}")
    shape, dtype = (shape,) if isinstance(shape, int) else tuple(shape), checked_type(dtype)
    if like is None and not isinstance(value, Fragment) and (kind := free_type(shape, dtype)) is not None:
        axis = int(len(shape) == 2 and shape[0] == 1)
        if isinstance(value, NUMBERS):
            check_fits(value, dtype)
            return Fragment(constant(kind, value), axis)
        return Fragment(tensor.splat(kind, as_scalar(value, dtype).value, []), axis)
    shape, layout = _shape_and_layout(shape, like)
    if isinstance(value, Fragment):
        if len(value.shape) != 1:
            raise mistake(f"expects a number, or a vector of rows or columns, to fill a tile, got {value}")
        tile_ = spread(value, shape, layout)
        # In registers of their own: a product that begins with copies would wait for those before it.
        return Fragment(tile.pin(tile_.value)) if dtype == f32 else tile_
    if isinstance(value, NUMBERS):
        check_fits(value, dtype)
        return Fragment(constant(FragmentType.of(shape, dtype.type, layout), value))
    return everywhere(as_scalar(value, dtype).value, Fragment.of_layout(shape, layout))


def free_type(shape: tuple[int, ...], dtype: DType) -> ir.Type | None:
    """The type of a tile or vector whose layout is decided later; None for what is no shape. Raises WeftError
    for one that the threads of a warpgroup can't share.
    """
    extents = tuple(each for each in shape if each != 1) if len(shape) == 2 else shape
    if not extents or len(extents) > 2 or not all(isinstance(each, int) and each > 0 for each in extents):
        return None
    is_row = len(shape) == 2 and shape[0] == 1
    columns = -(-extents[-1] // COLUMN_STEP) * COLUMN_STEP
    steps = [WARPGROUP // min(columns & -columns, LANES), COLUMN_STEP]
    rule = f"a tile must have a multiple of {steps[1]} columns, and of {steps[0]} rows with {columns} columns"
    if len(extents) == 2:
        trace.current().check_warpgroups("a tile")
    else:
        steps = [1, COLUMN_STEP] if is_row else [WARPS]
        rule = f"a vector of {'columns' if is_row else 'rows'} must have a multiple of {steps[-1]} elements"
    nearest = tuple(-(-each // step) * step for each, step in zip(shape, steps, strict=False))
    if nearest != shape[: len(nearest)]:
        hint = f"; a vector of columns is (1, {shape[0]})" if len(shape) == 1 else ""
        raise mistake(f"{rule}, got {shape}: use {nearest}, {_OUTSIDE}{hint}")
    return ir.RankedTensorType.get(list(extents), dtype.type)


def pin(x: Fragment) -> Fragment:
    """The same tile of f32 or i32, which the compiler computes before any later operation that waits,
    multiplies or writes memory.

    Without it, the compiler may compute the tile only where it is used, for example after a later `w.wait`,
    where the computation doesn't overlap with the product.
    """
    if not isinstance(x, Fragment) or len(x.shape) != 2 or x.dtype not in (f32, i32):
        raise mistake(f"w.pin expects a tile of {f32} or {i32}, got {x}")
    _ = x.layout
    return Fragment(tile.pin(x.value))


def zeros(shape: Any, dtype: DType = f32, *, like: Fragment | None = None) -> Fragment:
    """A fragment of zeros, as `full`."""
    return full(shape, 0, dtype, like=like)


def check_like(like: object) -> None:
    """Raises WeftError for a `like` that has no layout."""
    if like is not None and not isinstance(like, Fragment):
        raise mistake(f"like must be a fragment, got {shown(like)}")


def _shape_and_layout(shape: tuple[int, ...], like: Fragment | None) -> tuple[tuple[int, ...], Layout]:
    """The shape and layout of a new fragment, of which (rows, 1) and (1, columns) are vectors."""
    if len(shape) == 2 and 1 in shape:
        return _of_vector(shape, like)
    return shape, layout_for(shape, like)


def _of_vector(shape: tuple[int, ...], like: Fragment | None) -> tuple[tuple[int], Layout]:
    """The shape and layout of a vector of rows, (rows, 1), or of columns, (1, columns)."""
    check_like(like)
    axis = shape.index(1)
    extent = shape[1 - axis]
    if like is None:
        tile_shape = (registers.WGMMA_ROWS, extent) if axis == 0 else (extent, COLUMN_STEP)
        layout = layout_for(tile_shape, None)
    elif len(like.shape) == 2 and like.shape[1 - axis] == extent:
        tile_shape, layout = like.shape, like.layout
    else:
        raise mistake(f"like must be a tile with {extent} {'rows' if axis else 'columns'}, got {like}")
    return (extent,), registers.without_axis(layout, tile_shape, axis)


def layout_for(shape: tuple[int, ...], like: Fragment | None) -> Layout:
    """The layout of a new fragment: that of another, or that of the sums of `w.gemm`."""
    check_like(like)
    if like is not None:
        if like.shape == shape:
            return like.layout
        if len(shape) == 1 and len(like.shape) == 2 and shape[0] in like.shape:
            axis = 1 if shape[0] == like.shape[0] else 0
            return registers.without_axis(like.layout, like.shape, axis)
        tiles = f", or be a tile with {shape[0]} rows or columns" if len(shape) == 1 else ""
        raise mistake(
            f"like must have the shape {shape}{tiles}, got {like}: leave it out, or w.convert the result to "
            "the layout of another fragment"
        )
    if len(shape) not in (1, 2) or any(not isinstance(each, int) or each < 1 for each in shape):
        raise mistake(f"shape must be one or two numbers that Python knows, got {shape}")
    if shape[0] % registers.WGMMA_ROWS or (len(shape) == 2 and shape[1] % COLUMN_STEP):
        steps = (registers.WGMMA_ROWS, COLUMN_STEP)[: len(shape)]
        nearest = tuple(-(-each // step) * step for each, step in zip(shape, steps, strict=True))
        raise mistake(
            f"needs the layout of the sums of w.gemm, with a multiple of {registers.WGMMA_ROWS} rows and of "
            f"{COLUMN_STEP} columns, got {shape}: use {nearest}, {_OUTSIDE}, or only load and store others, "
            "compute them by element and reduce them along axis 1"
        )
    current = trace.current()
    current.check_warpgroups("a tile" if len(shape) == 2 else "a vector of rows")
    return current.sums(shape)
