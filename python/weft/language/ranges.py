"""`w.range`: the numbers of a loop of the GPU."""

from dataclasses import dataclass
from typing import Any

from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar, i32


@dataclass(frozen=True)
class Range:
    """Every `step`-th number from `begin` on, below `end`."""

    begin: Any
    end: Any
    step: Any

    def bounds(self) -> tuple[Scalar, Scalar, Scalar]:
        """Its three numbers as values of the GPU."""
        one, other, step = (as_scalar(each, i32) for each in (self.begin, self.end, self.step))
        return one, other, step

    def item(self, number: Scalar) -> Any:
        """What a number of the loop is for its body."""
        return number


def range_(first: Any, end: Any = None, step: Any = 1) -> Range:
    """A loop of the GPU over every `step`-th number from `first` on, below `end`: `for i in w.range(n)`.

    With one argument it begins at 0. The step must be positive. A loop over Python's `range` is unrolled.
    """
    begin, stop = (0, first) if end is None else (first, end)
    for name, value in (("first", begin), ("end", stop), ("step", step)):
        if isinstance(value, float) or (isinstance(value, Scalar) and value.dtype != i32):
            raise mistake(f"{name} of w.range must be an integer of 32 bits, got {value}")
    if isinstance(step, int) and step < 1:
        raise mistake(f"step of w.range must be positive, got {step}: count up, and subtract in the loop")
    return Range(begin, stop, step)
