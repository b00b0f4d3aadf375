"""Runs a host function of a module."""

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from weft.compiler.reproducer import RUNNING
from weft.host.emulated import Emulated
from weft.host.lowered import Lowered
from weft.host.on_gpu import Gpu
from weft.host.runtime import C_TYPES, Device, Launched, Runtime
from weft.launch import host_code
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
        engine = host_code.called(lowered.llvm, runtime.callable_of)
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
