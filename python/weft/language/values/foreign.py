"""Refuses values of a kernel in functions of NumPy and PyTorch, and names the functions to call."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn, Self

from weft.errors import Diagnostic, Location, WeftError
from weft.isa.suggest import did_you_mean
from weft.language.messages import names
from weft.language.messages.mistakes import mistake

# Ufuncs that numbers of NumPy call for operators, `np.float32(2) * x`.
_OPERATORS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
_LIBRARIES = ("jax", "numpy", "torch")


class Foreign:
    """A value of a kernel, as functions of other libraries see it."""

    def __deepcopy__(self, _: object) -> Self:
        """The value itself: only what holds it, which `dataclasses.asdict` copies, too, can change."""
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: object, **options: object) -> object:
        name, binary = _OPERATORS.get(ufunc.__name__), getattr(self, "binary", None)
        if name and callable(binary) and method == "__call__" and len(inputs) == 2 and inputs[1] is self:
            result = binary(name, inputs[0], True)
            if result is not NotImplemented:
                return result
        raise _refused("np", ufunc.__name__)

    def __array_function__(self, function: Callable[..., object], *_: object) -> NoReturn:
        raise _refused("np", function.__name__)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise mistake(
            f"only the GPU knows {self}: NumPy can't make an array of it, nor take it as an index; an array "
            "that is an argument of the kernel can"
        )

    @classmethod
    def __torch_function__(cls, function: object, *_: object) -> NoReturn:
        raise _refused("torch", getattr(function, "__name__", str(function)))


def _refused(library: str, name: str) -> WeftError:
    """The error for a function of a library, with that of `weft.language` in its place."""
    language = sys.modules["weft.language"]  # which imports this module
    public = [each for each in language.__all__ if each.islower()]
    hint = f"w.{name}" if name in public else names.INSTEAD.get(name, names.METHODS.get(name))
    hint = hint or f"functions of w{did_you_mean(name, public)}"
    function, where = f"{library}.{name}", _user()
    if where is not None and where[0] == "jax":
        function, hint = "a function of JAX", "one of w, such as w.exp in place of jnp.exp"
    message = f"{function} can't be applied to a value of the GPU: use {hint}"
    return mistake(message) if where is None else WeftError(Diagnostic(message, where[1]))


def _user() -> tuple[str, Location] | None:
    """The library that called this module in Python, and the line that called the library; None if the caller
    did so itself.
    """
    frame, library = sys._getframe(1), ""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("weft", *_LIBRARIES):
            break
        library = package if package in _LIBRARIES else library
        frame = frame.f_back  # type: ignore[assignment]
    if not library or frame is None:
        return None
    return library, Location(frame.f_code.co_filename, frame.f_lineno, 1)
