"""The modules of Weft's own kernel functions, kept on disk: a process that finds one there doesn't trace."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft import disk_cache, idle
from weft.compiler import cache_keys, identity
from weft.language import kept_variables
from weft.language.signatures import Specialization
from weft.language.surroundings import Read
from weft.launch.kernel import Kernel, compile_unlocated, compiled_before

if TYPE_CHECKING:
    from weft.builder import Module

_TRACE = ("weft.attend", "weft.int4", "weft.language", "weft.nn")
"""The packages that have kernels, and what traces them."""


def kernel_of(
    function: Callable[..., Any],
    special: Specialization,
    chip: str,
    reads: Sequence[Read],
    trace: "Callable[[], Module]",
) -> Kernel:
    """The kernel of a function in one of Weft's files, which reads these names. `trace` makes its module."""
    kept, described = disk_cache.default(), _described(function, special, chip, reads)

    def key(present: bool) -> disk_cache.Key | None:
        decides = cache_keys.lowering(present)
        return decides and [*described, *decides] if described else None

    bytecode = kept.find("traced", key(False))
    if bytecode is not None and (found := compiled_before(bytecode, chip)) is not None:
        return found
    made = compile_unlocated(trace(), chip)
    new = made.compiled.bytecode
    idle.later(lambda: kept.get_or_make("traced", key, lambda: new))
    return made


def _described(
    function: Callable[..., Any], special: Specialization, chip: str, reads: Sequence[Read]
) -> list[str | bytes]:
    """What the trace of a function depends on besides Weft's files; nothing where that isn't known."""
    if kept_variables.are_kept() or identity.replaced(_TRACE):
        return []
    try:
        values = identity.digest([(name, value) for _, name, value in reads], special)
    except identity.UnidentifiedError:
        return []
    return [f"{function.__module__}.{function.__qualname__}", chip, values]
