"""Printing and checking in kernels."""

from typing import Any

from weft.errors import shown
from weft.language import exchanges, trace
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.scalars import NUMBERS, Scalar, as_scalar, condition, converted, f64, i1, i32, i64
from weft.mlir import gpu, ir


def print_(*values: Any) -> None:
    """Prints strings and numbers, separated by spaces, once for each thread that executes it."""
    trace.current()
    texts, numbers = list[str](), list[Any]()
    for value in values:
        if isinstance(value, (str, *NUMBERS)):
            texts.append(str(value).replace("%", "%%"))
            continue
        if not isinstance(value, Scalar) and not callable(getattr(value, "loaded", None)):
            tiles = ": weft debug shows the elements of tiles" if hasattr(value, "layout") else ""
            raise mistake(
                f"w.print takes strings and numbers, got {shown(value) if value is None else value}{tiles}"
            )
        scalar = as_scalar(value)
        if scalar.dtype.is_float:
            texts.append("%g")
            numbers.append(converted(scalar.value, f64))
        else:
            wide = scalar.dtype.bits > i32.bits
            texts.append("%lld" if wide else "%d")
            numbers.append(converted(scalar.value, i64 if wide else i32))
    with trace.current().effects():
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
