"""Compiles functions from LLVM IR for the CPU that the emulator runs on.

Identifies the emulator's code, for the keys of the cache on disk.
"""

import ctypes
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from weft import isa
from weft.cache import disk_cache
from weft.cache.disk_cache import Key
from weft.cache.loaded import Files, sources
from weft.system import locks

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
    packages = {value.__module__.partition(".")[0] for value in values if isinstance(value, FunctionType)}
    return not all(each in _KNOWN or each.startswith("namedtuple_") for each in packages)


_lock = locks.lock()  # llvmlite's objects are shared by the threads of a process
_engines: list[Any] = []


def function_at(address: int, *, pointers: int, numbers: int) -> Callable[..., None]:
    """The function at an address, which takes addresses and then 64-bit numbers."""
    kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def addresses(ir: str, names: Sequence[str], *, code: int, whole: bool = False) -> Mapping[str, int]:
    """The addresses of functions of LLVM IR, which live until the process ends. `code` is the level of the
    code generator, from 0 to 3; `whole`: the IR is optimized before. The user's cache keeps the code.
    """
    return linked(object_file(ir, code=code, whole=whole), names)


def object_file(ir: str, *, code: int, whole: bool = False) -> bytes:
    """The object file of LLVM IR, see `addresses`."""
    with _lock:
        key = ir, *_host(), f"{code} {whole}"
        return disk_cache.default().get_or_make("host", key, lambda: _object(ir, machine(code), whole=whole))


class Library:
    """Functions of the LLVM IR that `text` returns, which is optimized. It depends only on `name` and on the
    emulator's code: `text` isn't called if the user's cache has the code.
    """

    def __init__(self, name: str, text: Callable[[], str], functions: Sequence[str]) -> None:
        self._name, self._text, self._functions = name, text, functions
        self._lock = locks.lock()
        self._made: Mapping[str, int] | None = None

    def addresses(self) -> Mapping[str, int]:
        """The addresses of the functions, which live until the process ends."""
        with self._lock:
            if self._made is None:
                self._made = linked(self._object(), self._functions)
            return self._made

    def _object(self) -> bytes:
        code = identity()
        if code is None:  # only its text identifies it
            return object_file(self._text(), code=2, whole=True)
        key = self._name, *code, *_host()
        with _lock:
            return disk_cache.default().get_or_make(
                "library", key, lambda: _object(self._text(), machine(2), whole=True)
            )


def linked(data: bytes, names: Sequence[str]) -> Mapping[str, int]:
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    with _lock:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine(0))
        engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
        _engines.append(engine)
        return {name: engine.get_function_address(name) for name in names}


def _host() -> tuple[str, str, str]:
    """The key of compiled code, together with its input: the host's CPU and its features, and llvmlite.

    AVX-512 isn't used, because LLVM 22.1 compiles some code for it wrong: masked bits that are chosen
    (`vpternlog`), and the upper half of a product by a vector that it finds to be 1. Most kernels are as fast
    without; conversions of unsigned integers take twice as long.
    """
    import llvmlite
    from llvmlite import binding as llvm

    features = re.sub(r"\+(?=avx512|avx10)", "-", llvm.get_host_cpu_features().flatten())
    return llvm.get_host_cpu_name(), features, llvmlite.__version__


def machine(code: int) -> Any:
    """LLVM's code generator for this host, at a level from 0 to 3."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(*_host()[:2], code, codemodel="jitdefault", jit=True)


def _object(ir: str, machine: Any, *, whole: bool) -> bytes:
    """The object file of LLVM IR."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if whole:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        builder.getModulePassManager().run(module, builder)
    made: bytes = machine.emit_object(module)
    return made
