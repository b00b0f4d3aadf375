"""Makes PyTorch pretend to have one GPU, whose tensors stay in host memory."""

import contextlib
import ctypes
import types

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from torch.overrides import TorchFunctionMode

PROCESSORS = 4


class Event:
    """An event of a stream that has happened."""

    def __init__(self, *args: object, **options: object) -> None:
        pass

    def record(self, stream: object = None) -> None:
        pass

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: object) -> float:
        return 1.0


def memory(value: object) -> np.ndarray:
    """The storage of a tensor, from its first element. Libraries may wrap tensors."""
    tensor = (
        value
        if isinstance(value, torch.Tensor)
        else next(t for t in vars(value).values() if hasattr(t, "numel"))
    )
    return storage_from(tensor.untyped_storage(), value.data_ptr())


def storage_from(storage: torch.UntypedStorage, address: int) -> np.ndarray:
    """An array whose first element has an address in a storage, and whose strides reach both of its ends."""
    size, offset = storage.nbytes(), address - storage.data_ptr()
    if not size:
        return np.zeros(0, np.uint8)
    whole = np.frombuffer((ctypes.c_uint8 * size).from_address(storage.data_ptr()), np.uint8)
    return as_strided(whole[offset:], (2, 2), (size - 1 - offset, -offset))


def _is_cuda(value: object) -> bool:
    return str(value).startswith("cuda") if isinstance(value, str | torch.device) else False


class OnHost(TorchFunctionMode):
    """Tensors that a call puts on the GPU stay on the host."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        args = tuple(torch.device("cpu") if _is_cuda(arg) else arg for arg in args)
        kwargs = {k: torch.device("cpu") if _is_cuda(v) else v for k, v in (kwargs or {}).items()}
        if function is torch.Tensor.cuda:
            return args[0]
        return function(*args, **kwargs)


def pretend_cuda(chip: int) -> None:
    """PyTorch says that it has a GPU, and keeps what is put there on the host."""
    properties = types.SimpleNamespace(
        name="NVIDIA H200",
        major=chip // 10,
        minor=chip % 10,
        multi_processor_count=PROCESSORS,
        total_memory=1 << 37,
        L2_cache_size=50 << 20,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        warp_size=32,
        gcnArchName="",
    )
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None)
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": lambda device=0: divmod(chip, 10),
        "get_device_name": lambda device=0: properties.name,
        "get_device_properties": lambda device=0: properties,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "device": lambda device: contextlib.nullcontext(),
        "device_of": lambda tensor: contextlib.nullcontext(),
        "stream": lambda stream: contextlib.nullcontext(),
        "is_bf16_supported": lambda *args: True,
        "is_current_stream_capturing": lambda: False,
        "Event": Event,
        "Stream": lambda *args, **options: stream,
        "default_generators": (torch.default_generator,),
    }.items():
        setattr(torch.cuda, name, value)
    torch.Tensor.is_cuda = property(lambda tensor: True)
    OnHost().__enter__()
