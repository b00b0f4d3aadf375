"""Printing and checking in kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import shown
from weft.language import exchanges, trace
from weft.language.coordinates import column, row
from weft.language.dtypes import NUMBERS, f64, i1, i32, i64, u32, u64
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar, condition, converted
from weft.language.single_threads import once
from weft.mlir import gpu, ir
from weft.passes.builders import emit


def print_(*values: Any) -> None:
    """Prints strings and numbers, separated by spaces, once for each thread that executes it. With a tile or
    vector among them, a line for each of its elements, with row and column: `t [3, 5] 0.25`.
    """
    trace.current()
    fragments = [each for each in values if isinstance(each, Fragment)]
    if len(fragments) > 1:
        raise mistake("w.print takes one tile or vector: print others by calls of their own")
    if not fragments:
        once(lambda: _printed(values))
        return
    trace.current().check_whole_warps("w.print of a tile or vector")
    (fragment,) = fragments
    axes = [axis(fragment) for axis in (row, column)[: len(fragment.shape)]]
    with emit.when(exchanges.first_of_copies(fragment.layout)):
        for register, element in enumerate(fragment.elements()):
            at = [Scalar(emit.value(emit.add(each.base.value, each.offsets[register]))) for each in axes]
            _printed([_At(at, Scalar(element)) if each is fragment else each for each in values])


@dataclass(frozen=True)
class _At:
    """An element of a fragment, and its row and column, or its number in a vector."""

    coordinates: list[Scalar]
    element: Scalar


def _printed(values: Sequence[Any]) -> None:
    """Prints strings and numbers in a line."""
    texts, numbers = list[str](), list[Any]()

    def add(scalar: Scalar) -> str:
        if scalar.dtype.is_float:
            numbers.append(converted(scalar.value, f64))
            return "%g"
        kinds = (u32, u64) if scalar.dtype.is_unsigned else (i32, i64)
        wide = scalar.dtype.bits > i32.bits
        numbers.append(emit.signless(converted(scalar.value, kinds[wide])))
        return ("%ll" if wide else "%") + ("u" if scalar.dtype.is_unsigned else "d")

    for value in values:
        if isinstance(value, (str, *NUMBERS)):
            texts.append(str(value).replace("%", "%%"))
        elif isinstance(value, _At):
            texts.append(f"[{', '.join(map(add, value.coordinates))}] {add(value.element)}")
        elif isinstance(value, Scalar) or callable(getattr(value, "loaded", None)):
            texts.append(add(as_scalar(value)))
        else:
            got = shown(value) if value is None else value
            raise mistake(f"w.print takes strings, numbers, and a tile or vector, got {got}")
    gpu.PrintfOp(" ".join(texts) + "\n", numbers)


def check(holds: Any, message: str) -> None:
    """Stops the kernel with the message and this source line if a condition is false on the GPU, or that of
    an element of a fragment. A condition that Python knows is checked during tracing.
    """
    trace.current()
    if not isinstance(message, str) or not message:
        raise mistake(f"the message of w.check must be a string, got {shown(message)}")
    is_of_elements = isinstance(holds, Fragment) and holds.dtype == i1
    known = Scalar(exchanges.folded("and", holds.elements())) if is_of_elements else condition(holds)
    if isinstance(known, Scalar):
        attributes = {"msg": ir.StringAttr.get(message)}
        ir.Operation.create("cf.assert", operands=[known.value], attributes=attributes)
    elif not known:
        raise mistake(f"check failed: {message}")
