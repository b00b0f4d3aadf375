"""What each stage's output depends on besides its input: a part of the cache's keys."""

from typing import Any

from weft import mlir, passes
from weft.compiler import codegen, identity, loaded, ptxas
from weft.compiler.cache import Key
from weft.errors import warn

_DECIDE = ("weft.isa", "weft.dialects", "weft.passes", "weft.schedules")
_warned_of: set[str] = set()


def lowering() -> Key | None:
    """The key for LLVM IR from a module: Weft's code, the bindings, the registered passes and candidates, and
    functions that somebody put in the place of Weft's.

    None, with one warning, if it is unknown whether these do the same in another process.
    """
    code = loaded.identity(mlir.DISTRIBUTION)
    if code is None:
        return None
    own, replaced = _own()
    try:
        return code if own and not replaced else [*code, identity.digest(passes.registered(), replaced)]
    except identity.UnidentifiedError as error:
        if str(error) not in _warned_of:
            _warned_of.add(str(error))
            warn(f"weft compiles uncached: a registered pass or candidate depends on {error}")
        return None


def as_imported() -> bool:
    """Whether a process that imports Weft now would lower a module as this one does."""
    own, replaced = _own()
    return own and not replaced and loaded.identity(mlir.DISTRIBUTION) is not None


def _own() -> tuple[bool, list[tuple[str, Any]]]:
    """Whether only Weft's own passes are registered, and the functions that replace Weft's."""
    return passes.registered() == passes.OWN, identity.replaced(_DECIDE)


def generating() -> Key | None:
    """The key for PTX from LLVM IR: Weft's code, LLVM and its optimisation level."""
    code = loaded.identity(codegen.LIBRARY)
    return code and [*code, str(codegen.OPT_LEVEL)]


def assembling() -> Key | None:
    """The key for cubins from PTX: Weft's code and every ptxas that may be run."""
    code = loaded.identity()
    return code and [*code, *ptxas.identity()]
