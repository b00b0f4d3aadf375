"""Functions for Python that are compiled for this host from LLVM IR, without a C compiler."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

_METH_FASTCALL = 0x0080


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_lock = threading.Lock()
# Engines own code, and method definitions are read for as long as there are functions of them.
_kept: list[Any] = []


def functions(file: str, names: Sequence[str]) -> list[Callable[..., Any]]:
    """Compiles a file of this package, and returns functions of it that follow METH_FASTCALL of Python's C
    API. They are kept until the process ends.
    """
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(resources.files("weft").joinpath(file).read_text("utf-8"))
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        for name in (function.name for function in module.functions if function.name.startswith("Py")):
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        _kept.append(engine)
        return [_function(name, engine.get_function_address(name)) for name in names]


def _function(name: str, address: int) -> Any:
    method = _MethodDef(name.encode(), address, _METH_FASTCALL, None)
    _kept.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return make(ctypes.addressof(method), None, None)
