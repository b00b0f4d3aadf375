"""The emulator as the device of host code."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import emulator
from weft.emulator.errors import advise
from weft.errors import WeftError
from weft.host.lowered import Bytes, Launched, Shape, new_bytes

_ALLOCATED = "gpu.alloc"
_REGISTER = "kernels access memory of gpu.alloc, and what gpu.host_register has registered"


class Emulated:
    """Memory that kernels and the host share, and launches that end before they return."""

    def __init__(self, say: Callable[[str], None], options: dict[str, Any]) -> None:
        """`options` are those of the emulator's launches."""
        self.launches: list[Launched] = []
        self._say, self._options = say, options
        self._memory: dict[int, tuple[str, Bytes]] = {}
        self._modules: list[emulator.Module] = []
        self._kernels: list[tuple[emulator.Module, str]] = []
        self._allocated = 0

    def alloc(self, size: int, shared: bool) -> int:
        self._allocated += 1
        data = new_bytes(max(size, 1))
        address = int(data.ctypes.data)
        self._place(f"{_ALLOCATED} {self._allocated}", address, data)
        return address

    def free(self, address: int) -> None:
        if address and not self._memory.get(address, ("",))[0].startswith(_ALLOCATED):
            raise WeftError("gpu.dealloc: memory must come from gpu.alloc, and be freed once")
        self.unregister(address)

    def register(self, address: int, size: int) -> None:
        if address not in self._memory and size:
            data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
            self._place(f"registered memory of {size} bytes", address, data)

    def unregister(self, address: int) -> None:
        if self._memory.pop(address, None) is not None:
            for module in self._modules:
                module.device.remove(address)

    def _place(self, name: str, address: int, data: Bytes) -> None:
        self._memory[address] = name, data
        for module in self._modules:
            module.device.place(name, address, data)

    def _check(self, what: str, address: int, size: int) -> None:
        """Raises WeftError for memory that ends within `size` bytes of an address."""
        for name, data in self._memory.values():
            begin = int(data.ctypes.data)
            if begin <= address < begin + data.nbytes < address + size:
                past = address + size - begin - data.nbytes
                raise WeftError(
                    f"{what} of {size} bytes ends {past} bytes past {name} of {data.nbytes} bytes"
                )

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        self._check("gpu.memcpy", to, size)
        self._check("gpu.memcpy", source, size)
        ctypes.memmove(to, source, size)

    def fill(self, address: int, pattern: bytes, count: int, stream: int) -> None:
        self._check("gpu.memset", address, len(pattern) * count)
        ctypes.memmove(address, pattern * count, len(pattern) * count)

    def load(self, code: bytes) -> int:
        if code.startswith(b"\x7fELF"):
            raise WeftError("the emulator runs PTX, got machine code: use --weft-to-binary=format=isa")
        module = emulator.Module(code.decode())
        for address, (name, data) in self._memory.items():
            module.device.place(name, address, data)
        self._modules.append(module)
        return len(self._modules)

    def kernel(self, module: int, name: str) -> int:
        self._kernels.append((self._modules[module - 1], name))
        return len(self._kernels)

    def launch(self, kernel: int, shape: Shape, stream: int, parameters: int) -> None:
        module, name = self._kernels[kernel - 1]
        sizes = module.parameter_bytes(name)
        pointers = (ctypes.c_void_p * len(sizes)).from_address(parameters) if sizes else ()
        values = [ctypes.string_at(at, size) for at, size in zip(pointers, sizes, strict=True)]
        try:
            report = module.launch(name, **shape._asdict(), args=values, **self._options)
        except (emulator.Fault, emulator.Deadlock) as error:
            self._say(error.printed)
            if error.rule == "out-of-bounds":
                advise(error, _REGISTER)
            raise
        self._say(report.printed)
        self.launches.append(Launched(name, shape.grid, shape.block, report))

    def stream(self) -> int:
        return 1

    event = stream

    def wait(self, stream: int) -> None:
        """Every launch has ended."""

    destroy = wait_for_event = wait

    def record(self, event: int, stream: int) -> None:
        """Nothing is behind in any stream."""

    wait_for = record

    def close(self) -> None:
        """Nothing of it is anybody else's."""
