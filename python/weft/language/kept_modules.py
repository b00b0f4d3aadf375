"""The modules of Weft's own kernel functions, kept on disk: a process that finds one there doesn't trace."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from weft.compiler import identity, kept_kernels
from weft.language import kept_variables
from weft.language.signatures import Specialization
from weft.language.surroundings import Read
from weft.launch.kernel import Kernel, compile_unlocated, compiled_before

if TYPE_CHECKING:
    from weft.construction.module import Module

_TRACE = ("weft.attend", "weft.int4", "weft.language", "weft.nn")
"""The packages that have kernels, and what traces them."""


def kernel_of(
    function: Callable[..., Any],
    special: Specialization,
    chip: str,
    reads: Iterable[Read],
    trace: "Callable[[], Module]",
) -> Kernel:
    """The kernel of a function in one of Weft's files, which reads these names. `trace` makes its module."""
    described = _described(function, special, chip, reads)
    return kept_kernels.found_or_made(
        "traced",
        lambda _: described,
        load=lambda bytecode: compiled_before(bytecode, chip),
        make=lambda: compile_unlocated(trace(), chip),
        entry_of=lambda made: made.compiled.bytecode,
    )


def _described(
    function: Callable[..., Any], special: Specialization, chip: str, reads: Iterable[Read]
) -> list[str | bytes] | None:
    """What the trace of a function depends on besides Weft's files; None where that isn't known."""
    if kept_variables.are_kept() or identity.replaced(_TRACE):
        return None
    try:
        values = identity.digest([(each.name, each.steps, each.content) for each in reads], special)
    except identity.UnidentifiedError:
        return None
    return [f"{function.__module__}.{function.__qualname__}", chip, values]
