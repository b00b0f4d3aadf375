"""The coordinates of a fragment's elements, as masks need them."""

from weft.ir import callers
from weft.language.messages.mistakes import mistake
from weft.language.values import operators, registers
from weft.language.values.dtypes import NUMBERS, DType, i32
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Scalar, as_scalar
from weft.layout import Layout
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit, fragment_registers


class Coordinates(Fragment):
    """Row or column numbers: one number of the lane, plus a constant for each of its registers.

    Adding a number changes the lane's only, and comparing needs no arithmetic for each element.
    """

    __hash__ = object.__hash__

    def __init__(
        self, base: Scalar, offsets: tuple[int, ...], shape: tuple[int, ...], layout: Layout
    ) -> None:
        self.shape, self.layout, self.where = shape, layout, callers.here()
        self.base, self.offsets = base, offsets

    @property
    def value(self) -> ir.Value:  # type: ignore[override]
        return Fragment.of_lane(self.lane, self.shape, self.layout).value

    @property
    def lane(self) -> ir.Value:
        base = vector.broadcast(self._kind, self.base.value)
        return arith.addi(base, _constants(self._kind, self.offsets))

    @property
    def dtype(self) -> DType:
        return i32

    @property
    def _kind(self) -> ir.Type:
        return ir.VectorType.get([len(self.offsets)], i32.type)

    def binary(self, name: str, other: object, swapped: bool) -> Fragment:
        single = isinstance(other, (*NUMBERS, Scalar)) or callable(getattr(other, "loaded", None))
        if single and (name == "add" or (name == "sub" and not swapped)):
            base = self.base.binary(name, other, False)
            return Coordinates(base, self.offsets, self.shape, self.layout)
        if name in operators.COMPARISONS and not swapped:
            if single:
                return self._compared(
                    name, as_scalar(other, None if isinstance(other, Scalar) else i32), None
                )
            if isinstance(other, Coordinates) and (other.shape, other.layout) == (self.shape, self.layout):
                return self._compared(name, other.base, other.offsets)
        return super().binary(name, other, swapped)

    def _compared(self, name: str, limit: Scalar, offsets: tuple[int, ...] | None) -> Fragment:
        """A comparison with a number, or with other coordinates of the same layout."""
        left = [a - b for a, b in zip(self.offsets, offsets or (0,) * len(self.offsets), strict=True)]
        right = vector.broadcast(self._kind, (limit - self.base).value)
        lane = operators.apply(name, _constants(self._kind, tuple(left)), right)
        return Fragment.of_lane(lane, self.shape, self.layout)


def _constants(kind: ir.Type, numbers: tuple[int, ...]) -> ir.Value:
    elements = [ir.IntegerAttr.get(kind.element_type, each) for each in numbers]
    return arith.constant(kind, ir.DenseElementsAttr.get(elements, kind))


def row(like: Fragment) -> Coordinates:
    """The row number of each element of a fragment, in i32."""
    return _along(like, 0)


def column(like: Fragment) -> Coordinates:
    """The column number of each element of a fragment, in i32."""
    return _along(like, 1)


def _along(like: Fragment, axis: int) -> Coordinates:
    if not isinstance(like, Fragment) or len(like.shape) <= axis:
        hint = ": w.row(v) has the indices of a vector" if axis and isinstance(like, Fragment) else ""
        raise mistake(f"expects a fragment with {'columns' if axis else 'rows'}, got {like}{hint}")
    digits = fragment_registers.lane_digits(like.layout, like.shape)
    if digits is None:
        raise mistake(f"the lanes of {like} have no regular coordinates: its layout is {like.layout}")
    base = Scalar(emit.value(fragment_registers.lane_coordinate(digits[axis])))
    offsets = tuple(at[axis] for at in registers.registers_of(like.layout, like.shape))
    return Coordinates(base, offsets, like.shape, like.layout)
