"""Identifies the emulator's code, for the keys of the cache on disk."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType

import numpy as np

from weft import isa
from weft.cache.disk_cache import Key
from weft.cache.loaded import Files, sources

_WRITERS = f"{__package__}.compiled"
_KNOWN = {"weft", "numpy", "llvmlite", *sys.stdlib_module_names} - {"__main__"}


_FOLDERS = [Path(str(file)).parent for file in (__file__, isa.__file__)]
_files = Files(path for folder in _FOLDERS for path in sources(folder))


def identity() -> Key | None:
    """What this process's code makes depends on, besides its input and libraries of LLVM: the emulator's and
    the tables' files, Python and NumPy. None if files have changed since the process loaded them, or if
    somebody has replaced a function that writes code, as tests do.
    """
    digest = None if _replaced() else _files.digest()
    return None if digest is None else [sys.version, np.__version__, digest]


def _replaced() -> bool:
    """Whether a function of another package is in a module or class that writes code."""
    modules = [module for name, module in sys.modules.copy().items() if name.startswith(_WRITERS)]
    places: list[Mapping[str, object]] = [vars(module) for module in modules]
    places += [vars(value) for each in places for value in list(each.values()) if isinstance(value, type)]
    values = (value for place in places for value in list(place.values()))
    return not all(_known(value.__module__) for value in values if isinstance(value, FunctionType))


def _known(module: str) -> bool:
    package = module.partition(".")[0]
    return package in _KNOWN or package.startswith("namedtuple_")
