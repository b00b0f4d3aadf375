"""Whether the functions that other packages register can be called as Weft calls them."""

from collections.abc import Iterable

from weft.errors import WeftError, shown


def check(what: str, function: object, arguments: Iterable[str], options: Iterable[str] = ()) -> None:
    """Raises WeftError where a function can't be called with these arguments, and options by keyword."""
    arguments, options = tuple(arguments), tuple(options)
    if not callable(function):
        raise WeftError(f"{what} must be a function; got {shown(function)}")
    import inspect

    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function in C
        return
    try:
        signature.bind(*arguments, **dict.fromkeys(options))
    except TypeError as failure:
        taken = signature.replace(return_annotation=inspect.Signature.empty)
        wanted = ", ".join([*arguments, *(f"{option}=…" for option in options)])
        raise WeftError(f"{what} is called with ({wanted}), but takes {taken}: {failure}") from None
