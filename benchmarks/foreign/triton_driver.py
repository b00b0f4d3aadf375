"""A driver for Triton that runs launches in Weft's emulator, on tensors of PyTorch in host memory.

`activate(chip)` also makes PyTorch pretend to have one GPU, whose tensors are those of the host.
"""

import os
from collections.abc import Iterator, Sequence

import harness
import numpy as np
import torch
import triton
from host_cuda import PROCESSORS, memory, pretend_cuda
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.compiler import CUDABackend


def no_benchmark(call: object, quantiles: Sequence[float] | None = None, **_: object) -> list[float] | float:
    """What tuning measures, without a launch: its first choice wins."""
    return [1.0] * len(quantiles) if quantiles else 1.0


def _flat(values: object) -> Iterator[object]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


class Launcher:
    """What Triton calls for each launch of a kernel."""

    def __init__(self, source: object, metadata: object) -> None:
        self.metadata = metadata
        self.signature = list(_flat(source.signature.values()))
        if any(kind.startswith("tensordesc") for kind in self.signature):
            raise NotImplementedError("tensor descriptors of the host")

    def __call__(self, x, y, z, stream, module, packed, launch_metadata, enter, leave, *args) -> None:
        if not x * y * z:
            return
        meta, given, values = self.metadata, [], list(_flat(args))
        kinds = self.signature
        if len(values) < len(kinds):  # FlagGems leaves constants out when it launches a kernel again
            kinds = [kind for kind in kinds if kind != "constexpr"]
        for kind, value in zip(kinds, values, strict=True):
            if kind == "constexpr":
                continue
            if kind.startswith("*") and value is not None:
                given.append(memory(value))
            else:
                given.append(0 if value is None else value)
        blocks = x * y * z * meta.num_ctas
        scratch = [
            np.zeros(max(size, 1) * blocks + 128, np.uint8)
            for size in (meta.global_scratch_size, meta.profile_scratch_size)
        ]
        harness.launch(
            module,
            meta.name,
            (x * meta.num_ctas, y, z),
            32 * meta.num_warps,
            [*given, *scratch],
            shared_bytes=meta.shared,
            cluster=meta.num_ctas,
            dependent=False,
        )


class Utils:
    """The driver's functions that Triton calls."""

    @staticmethod
    def load_binary(name, kernel, shared, device):
        return 1, harness.parse(kernel.decode()), 32, 0, 1024

    @staticmethod
    def unload_module(module) -> None:
        pass

    @staticmethod
    def get_device_properties(device):
        return {
            "max_shared_mem": 232448,
            "max_num_regs": 65536,
            "multiprocessor_count": PROCESSORS,
            "warpSize": 32,
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 1,
        }


class Driver(DriverBase):
    """One GPU that is Weft's emulator."""

    utils, launcher_cls = Utils, Launcher

    def __init__(self, chip: int) -> None:
        self.chip = chip

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.chip, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(self.chip, 10)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_interface(self):
        return torch.cuda

    def get_benchmarker(self):
        return no_benchmark

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.zeros(1)

    def clear_cache(self, cache) -> None:
        pass


def activate(chip: int = 90) -> None:
    """Makes Triton compile for a chip, and run its kernels in Weft's emulator."""
    # With fused multiply-adds, the lanes of Triton's reductions differ in the last bit, and it isn't defined
    # whose value shared memory keeps: the sanitizer reports that. Triton 3.10 will fuse none by default.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")
    os.environ.setdefault("TRITON_CACHE_DIR", f"{os.environ.get('FOREIGN_CACHE', '/tmp')}/triton")
    triton.runtime.driver.set_active(Driver(chip))
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = no_benchmark
    # ptxas isn't needed: the "binary" is the PTX.
    CUDABackend.make_cubin = lambda self, source, metadata, options, capability: source.encode()
    pretend_cuda(chip)
