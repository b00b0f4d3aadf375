"""Runs what CuTe DSL compiles in Weft's emulator, on tensors of PyTorch in host memory.

CuTe DSL compiles for any chip without a GPU, and its host code makes a launch's parameters and tensor maps.
`activate(chip)` must come before CuTe DSL is imported. It builds a library that has the functions of CUDA
which the host code calls.
"""

import ctypes
import os
import struct
import subprocess
import tempfile
import traceback
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import harness
import numpy as np
import torch
from host_cuda import PROCESSORS, pretend_cuda, storage_from

from weft.emulator import Module, Struct, TensorMap
from weft.emulator.launch import Shape
from weft.isa import tensor_map as isa

_FAILED = 719  # cudaErrorLaunchFailure
_CLUSTER, _DEPENDENT = 4, 6  # of cudaLaunchAttributeID
_folder = tempfile.TemporaryDirectory(prefix="foreign-cute-")
_made = Path(_folder.name)
_storages: dict[int, torch.UntypedStorage] = {}  # that kernels may get addresses of
_modules: dict[bytes, Module] = {}  # by their fat binary


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16))


class Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


def _module(image: int) -> Module:
    """The module of a fat binary. CuTe DSL has written its PTX and its machine code to files."""
    start, size = struct.unpack_from("<6xHQ", ctypes.string_at(image, 16))
    binary = ctypes.string_at(image, start + size)
    if binary not in _modules:
        files = [f for f in _made.glob("*.cubin") if f.read_bytes() in binary]
        if not files:
            raise LookupError("CuTe DSL has kept no PTX of a launched kernel")
        _modules[binary] = harness.parse(files[0].with_suffix(".ptx").read_text().rstrip("\0"))
    return _modules[binary]


def _memory(address: int) -> np.ndarray | None:
    """The memory of a tensor from an address on."""
    for begin, storage in _storages.items():
        if begin <= address < begin + storage.nbytes():
            return storage_from(storage, address)
    return None


def _shifted_map(data: bytes) -> TensorMap | None:
    """A tensor map that begins as many rows before its tensor as it has: rows end in the middle of it."""
    try:
        fields = isa.TensorMap.decode(data)
    except ValueError:
        return None
    for rows, stride in zip(fields.dims[1:], fields.strides, strict=True):
        memory = _memory(fields.address + rows * stride)
        if memory is not None:
            return TensorMap(replace(fields, address=-rows * stride), memory)
    return None


def _argument(data: bytes) -> Struct | TensorMap:
    """A parameter. Addresses in it become those of the emulator."""
    fields, start = {}, 0
    for at in range(0, len(data) - 7, 8):
        memory = _memory(int.from_bytes(data[at : at + 8], "little"))
        if memory is not None:
            fields |= {start: data[start:at], at: memory}
            start = at + 8
    if not fields and len(data) == isa.BYTES and (map_ := _shifted_map(data)) is not None:
        return map_
    return Struct(len(data), fields | {start: data[start:]})


@ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.POINTER(Config),
    ctypes.POINTER(ctypes.c_void_p),
)
def _launch(image, name, config, args) -> int:
    """Launches a kernel. The result is an error of CUDA, since C can't raise one."""
    try:
        kernel, config = name.decode(), config.contents
        values = {a.id: a.value for a in config.attributes[: config.count]}
        cluster = tuple(values.get(_CLUSTER, (1, 1, 1))[:3])
        module = _module(image)
        shape = Shape(tuple(config.grid), tuple(config.block), cluster, config.shared)
        program, _ = module.prepared(kernel, shape)
        harness.launch(
            module,
            kernel,
            shape.grid,
            shape.block,
            [_argument(ctypes.string_at(args[i], p.size)) for i, p in enumerate(program.params)],
            cluster=cluster,
            shared_bytes=config.shared,
            dependent=bool(values.get(_DEPENDENT, (0,))[0]),
        )
    except Exception:  # of the emulator, in the records of the launches, or of this function
        if os.environ.get("FOREIGN_SHOW"):
            traceback.print_exc()
        return _FAILED
    return 0


_to_dlpack, _data_ptr = torch.utils.dlpack.to_dlpack, torch.Tensor.data_ptr
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _known_data_ptr(tensor: torch.Tensor) -> int:
    storage = tensor.untyped_storage()
    _storages[storage.data_ptr()] = storage
    return _data_ptr(tensor)


def _cuda_to_dlpack(tensor: torch.Tensor, *_: object, **__: object) -> object:
    """A capsule that says that the tensor's memory is a GPU's."""
    _known_data_ptr(tensor)
    capsule = _to_dlpack(tensor)
    ctypes.c_int.from_address(_pointer(capsule, b"dltensor") + 8).value = 2  # kDLCUDA
    return capsule


def activate(chip: str) -> None:
    """Makes CuTe DSL compile for a chip such as sm_90a, and run its kernels in Weft's emulator."""
    library = _made / "cuda.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", source, "-o", library], check=True)
    (folder,) = find_spec("nvidia_cutlass_dsl").submodule_search_locations
    (runtime,) = Path(folder).glob("cu*/lib/libcute_dsl_runtime.so")
    os.environ |= {
        "CUTE_DSL_ARCH": chip,
        "CUTE_DSL_KEEP": "ptx,cubin",
        "CUTE_DSL_DUMP_DIR": str(_made),
        "CUTE_DSL_NO_CACHE": "1",
        "CUTE_DSL_LIBS": f"{library}:{runtime}",
        "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",
    }
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).set_launch(_launch)
    pretend_cuda(int(chip.strip("sm_af")))
    custom_op = torch.library.custom_op
    torch.library.custom_op = lambda *args, device_types=None, **options: custom_op(*args, **options)
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    del torch.Tensor.__dlpack_c_exchange_api__  # which TVM FFI prefers
    torch.utils.dlpack.to_dlpack = _cuda_to_dlpack
    torch.Tensor.__dlpack__ = _cuda_to_dlpack
    torch.Tensor.__dlpack_device__ = lambda tensor: (2, 0)
    torch.Tensor.data_ptr = _known_data_ptr

    from cutlass import utils
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    CudaDialectJitCompiledFunction.num_devices = 1
    utils.HardwareInfo.__init__ = lambda self, device_id=0: None
    utils.HardwareInfo.get_device_multiprocessor_count = lambda self: PROCESSORS
    utils.HardwareInfo.get_max_active_clusters = lambda self, cluster_size, stream=None: max(
        1, PROCESSORS // cluster_size
    )
    utils.HardwareInfo.get_l2_cache_size_in_bytes = lambda self: 50 << 20
