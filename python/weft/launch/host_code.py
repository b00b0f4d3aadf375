"""Compiles functions from LLVM IR for this host, without a C compiler."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from weft import locks

_METH_FASTCALL = 0x0080


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# A separate prototype, since other libraries may change that of `ctypes.pythonapi`.
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_lock = locks.reentrant()
_engines: dict[str, Any] = {}


def functions(file: str, names: Sequence[str]) -> list[Callable[..., Any]]:
    """Functions of an .ll file of Weft as Python callables. They follow METH_FASTCALL of Python's C API, and
    live until the process ends.
    """
    callables = []
    for name in names:
        # The definition is the function's `self`, so that it lives as long as the function, which reads it.
        method = _MethodDef(name.encode(), address(file, name), _METH_FASTCALL, None)
        callables.append(_new_function(ctypes.addressof(method), method, None))
    return callables


def address(file: str, name: str, uses: Sequence[str] = ()) -> int:
    """The address of a function of an .ll file of Weft. `uses` lists the files whose functions it calls."""
    with _lock:
        if file not in _engines:
            _engines[file] = _compiled(file, uses)
        return int(_engines[file].get_function_address(name))


def _compiled(file: str, uses: Sequence[str]) -> Any:
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(resources.files("weft").joinpath(file).read_text("utf-8"))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    for name in (f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")):
        if name.startswith("Py"):
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
        else:
            llvm.add_symbol(name, next(a for other in uses if (a := address(other, name))))
    if sys.platform == "win32":  # where functions call this before they use stack of variable size
        llvm.add_symbol("__chkstk", ctypes.cast(ctypes.windll.ntdll["__chkstk"], ctypes.c_void_p).value)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
