"""Runs a host function of a module."""

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from weft.compiler.reproducer import RUNNING
from weft.host.emulated import Emulated
from weft.host.lowered import Launched, Lowered
from weft.host.on_gpu import Gpu
from weft.host.runtime import C_TYPES, Device, Runtime
from weft.launch.cuda_driver import entered, primary
from weft.system import phase


@dataclass(frozen=True)
class Ran:
    """What a function did: its launches, what it returned, and how long that took."""

    launches: Sequence[Launched]
    result: int | float | None
    seconds: float


def run(lowered: Lowered, on: str, say: Callable[[str], None], options: dict[str, Any] | None = None) -> Ran:
    """Runs the function `on` "gpu" or in the "emulator", with options of its launches. `say` gets what the
    function and its kernels print. Raises WeftError for what goes wrong in it.
    """
    device: Device = Gpu() if on == "gpu" else Emulated(say, options or {})
    with entered(primary(0)) if on == "gpu" else nullcontext():
        runtime = Runtime(device, say, lowered.assertions)
        phase.enter("compiling host code")
        engine = _compiled(lowered.llvm, runtime.callable_of)
        runtime.check()
        prototype = ctypes.CFUNCTYPE(C_TYPES[lowered.result])
        function = prototype(engine.get_function_address(lowered.entry))
        phase.enter(f"{RUNNING}'{lowered.entry}'")
        start = time.perf_counter()
        returned = function()
        runtime.check()
        device.close()
        seconds = time.perf_counter() - start
    return Ran(device.launches, returned, seconds)


def _compiled(text: str, callable_of: Callable[[str, str], Any]) -> Any:
    """LLVM IR in memory, whose functions `get_function_address` finds while the result lives. `callable_of`
    returns what implements a function that the IR declares, by its name and type: a function of ctypes.
    """
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(opt=2, codemodel="jitdefault", cpu=cpu, features=features)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.callables = []  # which live as long as the code
    for each in module.functions:
        if each.is_declaration and not each.name.startswith("llvm."):
            found = callable_of(each.name, str(each.global_value_type))
            engine.callables.append(found)
            engine.add_global_mapping(each, ctypes.cast(found, ctypes.c_void_p).value)
    engine.finalize_object()
    engine.run_static_constructors()
    return engine
