"""The types of numbers that both sides of a branch assign to a name."""

from typing import Any

from weft.language.dtypes import NUMBERS, DType, f32, i1, i32
from weft.language.loaded import Loaded
from weft.language.scalars import Scalar


def common_type(one: Any, other: Any) -> DType | None:
    """The type of the GPU that a number of Python and another number become; None where they stay as they
    are.
    """
    numbers = [each for each in (one, other) if isinstance(each, NUMBERS)]
    if not numbers or (len(numbers) == 2 and type(one) is type(other) and one == other):
        return None
    kinds = {type(each) for each in numbers}
    if len(numbers) == 2:
        if kinds == {bool}:
            return i1
        return None if bool in kinds else f32 if float in kinds else i32
    number, value = numbers[0], other if numbers[0] is one else one
    if not isinstance(value, (Scalar, Loaded)) or (kinds == {bool}) != (value.dtype == i1):
        return None
    return value.dtype if value.dtype.is_float or not isinstance(number, float) else None
