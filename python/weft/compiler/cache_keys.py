"""Identifies the tools and options that decide about each stage's output, for the cache's keys."""

from dataclasses import astuple

from weft.cache import loaded
from weft.cache.disk_cache import Key
from weft.compiler import codegen, ptxas
from weft.errors import warn
from weft.ir import bindings
from weft.registry import extensions

_warned_of: set[str] = set()


def lowering() -> Key | None:
    """The key for LLVM IR from a module: Weft's code, the bindings, and installed extensions.

    None, with a warning, where another process that imports Weft may lower a module otherwise: a program has
    registered something, or files have changed. Raises WeftError where an extension can't be loaded.
    """
    installed = extensions.loaded()
    for entry in extensions.entries():
        if not entry.source.installed:
            what = f"{entry.kind} '{entry.name}' is registered by {entry.source}"
            if what not in _warned_of:
                _warned_of.add(what)
                warn(f"weft compiles uncached: {what}, not by an installed extension")
            return None
    code = loaded.identity(*bindings.watched(), packages=[each.package for each in installed])
    return code and [*code, *(part for each in installed for part in astuple(each))]


def generating() -> Key | None:
    """The key for PTX from LLVM IR: Weft's code, LLVM and its optimization level."""
    code = loaded.identity(codegen.LIBRARY)
    return code and [*code, str(codegen.OPT_LEVEL)]


def assembling() -> Key | None:
    """The key for cubins from PTX: Weft's code and every ptxas that may be run."""
    code = loaded.identity()
    return code and [*code, *ptxas.identity()]
