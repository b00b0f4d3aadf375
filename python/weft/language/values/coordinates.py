"""The coordinates of a fragment's elements, as masks need them."""

from weft.dialects import tile
from weft.ir import callers
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import NUMBERS, DType, i32
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Scalar
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit, fragment_registers, registers


class Coordinates(Fragment):
    """Row or column numbers: one number of the lane, plus a constant for each of its registers.

    Adding a number changes the lane's only.
    """

    __hash__ = object.__hash__

    def __init__(
        self, base: Scalar, offsets: tuple[int, ...], shape: tuple[int, ...], layout: Layout
    ) -> None:
        self.shape, self._layout, self.where = shape, layout, callers.here()
        self.base, self.offsets = base, offsets

    @property
    def value(self) -> ir.Value:  # type: ignore[override]
        return Fragment.of_lane(self.lane, self.shape, self.layout).value

    @property
    def lane(self) -> ir.Value:
        return registers.offset(self.offsets, self.base.value)

    @property
    def dtype(self) -> DType:
        return i32

    def binary(self, name: str, other: object, swapped: bool) -> Fragment:
        single = isinstance(other, (*NUMBERS, Scalar)) or callable(getattr(other, "loaded", None))
        if single and name == "add":
            return Coordinates(self.base.binary(name, other, False), self.offsets, self.shape, self.layout)
        return super().binary(name, other, swapped)


def of_lanes(like: Fragment, axis: int = 0) -> Coordinates:
    """The coordinates of each lane's elements, in the layout of the fragment."""
    if (found := registers.coordinates(like.layout, like.shape, axis)) is None:
        raise mistake(f"the lanes of {like} have no regular coordinates: its layout is {like.layout}")
    offsets, base = found
    return Coordinates(Scalar(emit.value(base)), offsets, like.shape, like.layout)


def row(like: Fragment) -> Fragment:
    """The row number of each element of a fragment, in i32."""
    return _along(like, 0)


def column(like: Fragment) -> Fragment:
    """The column number of each element of a fragment, in i32."""
    return _along(like, 1)


def _along(like: Fragment, axis: int) -> Fragment:
    if not isinstance(like, Fragment) or len(like.shape) <= axis:
        hint = ": w.row(v) has the indices of a vector" if axis and isinstance(like, Fragment) else ""
        raise mistake(f"expects a fragment with {'columns' if axis else 'rows'}, got {like}{hint}")
    if not like.is_free and fragment_registers.lane_digits(like.layout, like.shape) is None:
        raise mistake(f"the lanes of {like} have no regular coordinates: its layout is {like.layout}")
    return Fragment(tile.coordinate(emit.with_elements(like.type, i32.type), axis), like.axis)
