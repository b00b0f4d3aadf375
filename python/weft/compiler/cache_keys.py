"""What each stage's output depends on besides its input: a part of the cache's keys.

With `present` false, files that were unchanged once aren't looked at again (`loaded.identity`).
"""

from dataclasses import astuple

from weft.cache import loaded
from weft.cache.disk_cache import Key
from weft.compiler import codegen, identity, ptxas
from weft.errors import warn
from weft.ir import bindings
from weft.registry import extensions
from weft.system import late_imports

_DECIDE = ("weft.isa", "weft.dialects", "weft.passes", "weft.schedules")
_warned_of: set[str] = set()


def lowering(present: bool = True) -> Key | None:
    """The key for LLVM IR from a module: Weft's code, the bindings, installed extensions, what is registered,
    and functions that somebody put in the place of Weft's.

    None, with one warning, if it is unknown whether these do the same in another process. Raises WeftError
    where an installed extension can't be loaded.
    """
    installed = extensions.loaded()
    packages = [each.package for each in installed]
    code = loaded.identity(*bindings.watched(), packages=packages, present=present)
    if code is None:
        return None
    for package in packages:
        identity.know(package)
    for each in installed:
        code += astuple(each)
    entries = [(each.kind, each.name, each.value) for each in extensions.entries()]
    replaced = identity.replaced(_DECIDE)
    if extensions.own_tables() and not entries and not replaced:
        return code
    with late_imports.whole():
        from weft import passes

    try:
        return [*code, identity.digest(passes.own(), entries, replaced)]
    except identity.UnidentifiedError as error:
        if str(error) not in _warned_of:
            _warned_of.add(str(error))
            warn(f"weft compiles uncached: something that is registered depends on {error}")
        return None


def as_imported(present: bool = True) -> bool:
    """Whether a process that imports Weft now would lower a module as this one does. Raises WeftError where
    an installed extension can't be loaded.
    """
    packages = [each.package for each in extensions.loaded()]
    if not extensions.own_tables() or identity.replaced(_DECIDE):
        return False
    others = [each for each in extensions.entries() if not each.source.installed]
    if others:
        return False
    return loaded.identity(*bindings.watched(), packages=packages, present=present) is not None


def generating(present: bool = True) -> Key | None:
    """The key for PTX from LLVM IR: Weft's code, LLVM and its optimization level."""
    code = loaded.identity(codegen.LIBRARY, present=present)
    return code and [*code, str(codegen.OPT_LEVEL)]


def assembling(present: bool = True) -> Key | None:
    """The key for cubins from PTX: Weft's code and every ptxas that may be run."""
    code = loaded.identity(present=present)
    return code and [*code, *ptxas.identity()]
