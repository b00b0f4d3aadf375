"""Tiles in the registers of a warpgroup."""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.errors import WeftError, shown
from weft.ir import callers
from weft.isa.chips import REGISTERS, THREAD_REGISTERS
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import at, check_value, mistake
from weft.language.operations import shared_exchange
from weft.language.values import operators, registers
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
from weft.mlir import ir, tensor, vector
from weft.passes.builders import emit

COLUMN_STEP = 8
"""The columns of the sums of `w.gemm` are a multiple of this."""


class Fragment(operators.Operators, Carried):
    """A tile in the registers of a warpgroup, of rows x columns, or a vector of its rows or of its columns.

    `layout` specifies which lane holds which element. Operators work element by element. Numbers, and vectors
    of the rows or of the columns, apply to the whole tile.
    """

    __hash__ = object.__hash__

    value: ir.Value
    """The SSA value of the fragment as a whole."""

    def __init__(self, value: ir.Value) -> None:
        check_value(value, "Fragment")
        self.value = value
        self.shape: tuple[int, ...] = value.type.shape
        self.layout: Layout = value.type.layout
        self.where = callers.here()
        self._check_fits()

    @staticmethod
    def of_lane(lane: ir.Value, shape: Sequence[int], layout: Layout) -> "Fragment":
        """The fragment of the vectors of each lane's elements."""
        return Fragment(tile.from_lane(lane, FragmentType.of(shape, lane.type.element_type, layout)))

    @staticmethod
    def placed(shape: Sequence[int], layout: Layout) -> "Fragment":
        """A shape and a layout, without a value."""
        made = Fragment.__new__(Fragment)
        made.shape, made.layout, made.where = tuple(shape), layout, callers.here()
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
        return len(self.shape) == 2 or all(it.axis != "warpid" or it.extent == 1 for it in self.layout.shard)

    @property
    def T(self) -> "Fragment":
        """The transposed tile, in the same registers; nothing moves. Of a vector of rows, the vector of
        columns with the same elements, and the other way around, through shared memory.
        """
        if len(self.shape) != 2:
            lane, layout = shared_exchange.transposed(self.lane, self.shape[0], self.layout)
            return Fragment.of_lane(lane, self.shape, layout)
        rows, columns = self.layout.group(self.shape)
        return Fragment.of_lane(self.lane, self.shape[::-1], Layout((*columns, *rows), self.layout.replica))

    @property
    def type(self) -> ir.Type:
        """The type: a tensor with a layout."""
        return FragmentType.of(self.shape, self.dtype.type, self.layout)

    def to(self, dtype: DType) -> "Fragment":
        """The fragment with elements of another type, in the same layout."""
        return Fragment(converted(self.value, checked_type(dtype)))

    def bitcast(self, dtype: DType) -> "Fragment":
        """The bits of each element as an element of another type with as many bits, in the same layout."""
        return Fragment(reinterpreted(self.value, checked_type(dtype)))

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
        return Fragment(operators.apply(name, *(each.value for each in pair)))

    def parts(self) -> list[ir.Value]:
        return [self.value]

    def of_zeros(self) -> "Fragment":
        return Fragment(constant(self.value.type, 0))

    def like(self, parts: Iterator[ir.Value]) -> "Fragment":
        return Fragment(next(parts))

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
        try:
            _, layout = _placed(shape, None)
        except WeftError:
            return False
        return registers.same(self.layout, layout, self.shape)

    def complaint(self, other: "Fragment") -> str | None:
        if (other.shape, other.dtype) != (self.shape, self.dtype):
            hint = f": convert it with .to({self.dtype})" if other.shape == self.shape else ""
            if len(self.shape) < len(other.shape):
                hint = ": a vector of rows and one of columns make a tile; w.zeros((1, n)) is one of columns"
            return f"was {self} and becomes {other}{hint}"
        if not registers.same(self.layout, other.layout, self.shape):
            return f"was in layout {self.layout} and becomes {other.layout}: w.convert it back"
        return None

    def noun(self) -> str:
        return f"a fragment of {' x '.join(map(str, self.shape))} {self.dtype}"

    def __repr__(self) -> str:
        return f"<{self.noun()}, {self.layout}>"

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
        return one, Fragment(constant(one.type, other))
    if isinstance(other, Scalar) or callable(getattr(other, "loaded", None)):
        return one, everywhere(as_scalar(other).value, one)
    return None, None


def everywhere(value: ir.Value, like: Fragment) -> Fragment:
    """The fragment in the layout of another whose elements all have a value."""
    return Fragment(tensor.splat(FragmentType.of(like.shape, value.type, like.layout), value, []))


def from_first(x: object, axis: Any) -> Any:
    """An axis of a fragment, of which negative ones count from the last, as in NumPy; others as they are."""
    if isinstance(x, Fragment) and isinstance(axis, int) and -len(x.shape) <= axis < 0:
        return axis + len(x.shape)
    return axis


def common(fragments: Sequence[Fragment]) -> Fragment:
    """A fragment with the shape and layout that all of these have together: of one with most dimensions, or
    where they are vectors of rows and of columns, of a tile.
    """
    largest = max(fragments, key=lambda each: len(each.shape))
    for each in fragments:
        if len(largest.shape) == 1:
            largest, _ = together(largest, each)
    return largest


def _fitted(one: Fragment, other: Fragment) -> tuple[Fragment, Fragment]:
    if one.shape == other.shape and registers.same(one.layout, other.layout, one.shape):
        return one, other
    if len(one.shape) == 2 and len(other.shape) == 1:
        return one, spread(other, one.shape, one.layout)
    if len(one.shape) == 1 and len(other.shape) == 2:
        return spread(one, other.shape, other.layout), other
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
        if fragment.has_columns:
            return f"a vector of {rows} columns"
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
            lane = vector.shuffle(vector_.lane, vector_.lane, list(numbers))
            return Fragment.of_lane(lane, shape, layout)
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
    It has the layout of `like` (a vector: that of the rows or columns of `like`), by default that of the sums
    of `w.gemm`.
    """
    if not isinstance(shape, (int, tuple, list)):
        raise mistake(f"shape must be one or two numbers that Python knows, got {shown(shape)}")
    shape, dtype = (shape,) if isinstance(shape, int) else tuple(shape), checked_type(dtype)
    shape, layout = _placed(shape, like)
    if isinstance(value, Fragment):
        if len(value.shape) != 1:
            raise mistake(f"expects a number, or a vector of rows or columns, to fill a tile, got {value}")
        tile_ = spread(value, shape, layout)
        # In registers of their own: a product that begins with copies would wait for those before it.
        return Fragment(tile.pin(tile_.value)) if dtype == f32 else tile_
    if isinstance(value, NUMBERS):
        check_fits(value, dtype)
        return Fragment(constant(FragmentType.of(shape, dtype.type, layout), value))
    return everywhere(as_scalar(value, dtype).value, Fragment.placed(shape, layout))


def pin(x: Fragment) -> Fragment:
    """The same tile of f32 or i32, which the compiler computes before any later operation that waits,
    multiplies or writes memory.

    Without it, the compiler may compute the tile only where it is used, for example after a later `w.wait`,
    where the computation doesn't overlap with the product.
    """
    if not isinstance(x, Fragment) or len(x.shape) != 2 or x.dtype not in (f32, i32):
        raise mistake(f"w.pin expects a tile of {f32} or {i32}, got {x}")
    return Fragment(tile.pin(x.value))


def zeros(shape: Any, dtype: DType = f32, *, like: Fragment | None = None) -> Fragment:
    """A fragment of zeros, as `full`."""
    return full(shape, 0, dtype, like=like)


def check_like(like: object) -> None:
    """Raises WeftError for a `like` that has no layout."""
    if like is not None and not isinstance(like, Fragment):
        raise mistake(f"like must be a fragment, got {shown(like)}")


def _placed(shape: tuple[int, ...], like: Fragment | None) -> tuple[tuple[int, ...], Layout]:
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
        columns = f"; a vector of columns is (1, {shape[0]})" if len(shape) == 1 else ""
        raise mistake(
            f"a fragment must have a multiple of {registers.WGMMA_ROWS} rows and of {COLUMN_STEP} columns, "
            f"got {shape}: use {nearest}, as loads and stores leave out what is outside of an array, or like="
            f"{columns}"
        )
    current = trace.current()
    current.check_warpgroups("a tile" if len(shape) == 2 else "a vector of rows")
    return current.sums(shape)
