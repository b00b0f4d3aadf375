"""`w.range`: the numbers of a loop of the GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.language.alike import not_negative
from weft.language.debugging import check
from weft.language.dtypes import i32
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar
from weft.passes.builders import emit


@dataclass(frozen=True)
class Range:
    """Every `step`-th number from `begin` on, below `end`."""

    begin: Any
    end: Any
    step: Any
    unroll: int = 1

    def loops(self) -> Iterator["Part"]:
        """The loops that go through the numbers: one, or with `unroll` a second one for what is left."""
        begin, end, step = (as_scalar(each, i32).value for each in (self.begin, self.end, self.step))
        if not not_negative(step):  # a loop would run without end
            check(Scalar(step) > 0, "step of w.range must be positive")
        if self.unroll == 1:
            yield Part(begin, end, step, (0,))
            return
        known = all(isinstance(each, int) for each in (self.begin, self.end, self.step))
        if known and len(range(self.begin, self.end, self.step)) % self.unroll == 0:
            middle = end
        else:
            span = emit.maximum(emit.sub(end, begin), 0)
            count = emit.div(emit.div(emit.add(span, emit.sub(step, 1)), step), self.unroll)
            middle = emit.value(emit.add(begin, emit.mul(emit.mul(count, self.unroll), step)))
        each_step = emit.value(emit.mul(step, self.unroll))
        yield Part(begin, middle, each_step, tuple(emit.mul(step, n) for n in range(self.unroll)))
        if middle is not end:
            yield Part(middle, end, step, (0,))

    def item(self, number: Scalar) -> Scalar:
        """What a number of the loop is for its body."""
        return number


@dataclass(frozen=True)
class Part:
    """A loop from `begin` on, below `end`, and the distances of the numbers of one iteration from its own."""

    begin: Any
    end: Any
    step: Any
    distances: tuple[Any, ...]


def range_(first: Any, end: Any = None, step: Any = 1, *, unroll: int = 1) -> Range:
    """A loop of the GPU over every `step`-th number from `first` on, below `end`: `for i in w.range(n)`.

    With one argument, it begins at 0. The step must be positive: the kernel stops if it isn't. With `unroll`,
    the body is repeated this number of times in an iteration, and a second loop executes the rest. A loop
    over Python's `range` is unrolled completely.
    """
    if not isinstance(unroll, int) or isinstance(unroll, bool) or unroll < 1:
        raise mistake(f"unroll of w.range must be a positive number that Python knows, got {unroll}")
    begin, stop = (0, first) if end is None else (first, end)
    for name, value in (("first", begin), ("end", stop), ("step", step)):
        if isinstance(value, float) or (isinstance(value, Scalar) and value.dtype != i32):
            remedy = ": convert it with .to(w.i32)" if isinstance(value, Scalar) else ""
            raise mistake(f"{name} of w.range must be a w.i32, got {value}{remedy}")
    if isinstance(step, int) and step < 1:
        raise mistake(f"step of w.range must be positive, got {step}: count up, and subtract in the loop")
    return Range(begin, stop, step, unroll)
