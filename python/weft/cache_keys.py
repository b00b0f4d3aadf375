"""What decides, beside the input, what each stage makes of it: a part of the cache's keys."""

from typing import Any

from weft import codegen, identity, loaded, mlir, passes, ptxas
from weft.cache import Key
from weft.errors import warn

_DECIDE = ("weft.isa", "weft.dialects", "weft.passes")
_told: set[str] = set()


def lowering() -> Key | None:
    """For LLVM IR from a module: Weft's code and the bindings', what passes and candidates are registered,
    and functions that somebody put in the place of Weft's.

    None, and a warning once, where it can't be told whether these do the same in another process.
    """
    code = loaded.identity(mlir.DISTRIBUTION)
    if code is None:
        return None
    own, replaced = _own()
    try:
        return code if own and not replaced else [*code, identity.digest(passes.registered(), replaced)]
    except identity.UnidentifiedError as error:
        if str(error) not in _told:
            _told.add(str(error))
            warn(f"weft compiles uncached: a registered pass or candidate depends on {error}")
        return None


def as_imported() -> bool:
    """Whether a process that imports Weft now would lower a module as this one does."""
    own, replaced = _own()
    return own and not replaced and loaded.identity(mlir.DISTRIBUTION) is not None


def _own() -> tuple[bool, list[tuple[str, Any]]]:
    """Whether nothing but Weft's own is registered, and what stands in the place of Weft's functions."""
    return passes.registered() == passes.OWN, identity.replaced(_DECIDE)


def generating() -> Key | None:
    """For PTX from LLVM IR: Weft's code, LLVM, and how much it optimises."""
    code = loaded.identity(codegen.LIBRARY)
    return code and [*code, str(codegen.OPT_LEVEL)]


def assembling() -> Key | None:
    """For cubins from PTX: Weft's code and each ptxas that may serve."""
    code = loaded.identity()
    return code and [*code, *ptxas.identity()]
