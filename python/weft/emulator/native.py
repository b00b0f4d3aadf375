"""Compiles functions from LLVM IR for the CPU that the emulator runs on."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()  # llvmlite's objects are shared by the threads of a process
_engines: list[Any] = []


def compiled(ir: str, name: str, *, pointers: int, numbers: int) -> Callable[..., None]:
    """A function of LLVM IR. It takes addresses and then 64-bit numbers, runs without Python's lock, and
    lives until the process ends.
    """
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(ir)
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        machine = target.create_target_machine(cpu=cpu, features=features, opt=2)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        _engines.append(engine)
    kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers
    return ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(name))
