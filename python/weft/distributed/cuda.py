"""A team of GPUs of PyTorch's process group, by its symmetric memory."""

import ctypes
import functools
import itertools
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.distributed.devices import Devices, Memory, different
from weft.distributed.host import group_of
from weft.errors import WeftError
from weft.launch import arrays, plans, runtime
from weft.launch.arrays import ArrayView
from weft.launch.cuda_driver import api, call, check, context, entered, entry
from weft.launch.kernel import Kernel
from weft.torch.transforms import is_watched

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

_FLAG, _UNIT = 4, 256  # bytes
_barriers: "defaultdict[str, itertools.count[int]]" = defaultdict(
    itertools.count
)  # of a group: all ranks make them together
_ALIGNED = 32  # bytes; kernels need no more
_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: the difference, of 32 bits with a sign, isn't negative
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"  # a variable: how many queues a GPU has for streams
_PRIORITY = -1  # of the stream of pushes: above others


@functools.cache
def _function(name: str, kinds: str) -> Callable[..., int]:
    """A function of the driver, whose arguments are addresses and handles (p) or 32-bit numbers (u). A call
    by ctypes takes a fraction of the time of one by cuda-bindings.
    """
    of_kind = {"p": ctypes.c_void_p, "u": ctypes.c_uint}
    return ctypes.CFUNCTYPE(ctypes.c_int, *map(of_kind.__getitem__, kinds))(entry(name))


class CudaQueue:
    """A stream, by its handle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        driver = api()
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._event = int(call("creating an event", driver.cuEventCreate, flags))
        self._copy = _function("cuMemcpyDtoDAsync", "pppp")
        self._record, self._wait = _function("cuEventRecord", "pp"), _function("cuStreamWaitEvent", "ppu")
        self._await_value = _function("cuStreamWaitValue32", "ppuu")

    def copy(self, to: Memory, source: Memory) -> None:
        if error := self._copy(to.address, source.address, source.size, self.handle):
            _failed(f"copying {source.size} bytes to another GPU", error)

    def fill(self, flags: Memory, value: int) -> None:
        count = flags.size // _FLAG
        call("setting flags", api().cuMemsetD32Async, flags.address, value, count, self.handle)

    def await_value(self, flag: Memory, value: int) -> None:
        if error := self._await_value(self.handle, flag.address, value, _AT_LEAST):
            _failed("waiting for a flag", error)

    def refuses_value(self, flag: Memory) -> bool:
        """Whether a wait can't be added."""
        return bool(self._await_value(self.handle, flag.address, 0, _AT_LEAST))

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        return kernel.plan(list(views))

    def launch(self, prepared: Any, operands: "Sequence[Tensor]", memory: Sequence[Memory]) -> None:
        starts = [each.data_ptr() for each in operands]
        prepared.launch(self.handle, *starts, *[each.address for each in memory])

    def record(self) -> Any:
        """The event is the queue's only one: a wait for it is one for what was recorded last."""
        if error := self._record(self._event, self.handle):
            _failed("recording an event", error)
        return self._event

    def wait(self, event: Any) -> None:
        if error := self._wait(self.handle, event, 0):
            _failed("waiting for an event", error)


def _failed(action: str, error: int) -> None:
    """Raises WeftError for an error of the driver."""
    check(action, api().CUresult(error))


class CudaDevices(Devices):
    """This process's GPU of a process group."""

    pushes: CudaQueue

    def __init__(self, group: "ProcessGroup | None") -> None:
        import torch
        from torch import distributed

        self._dist, self._group = distributed, group_of(group)
        self.name = self._group.group_name
        self.rank, self.size = distributed.get_rank(self._group), distributed.get_world_size(self._group)
        torch.cuda.current_stream()  # makes the context
        self._set(torch, torch.cuda.current_device())
        self.chip = runtime.device(self._device.index).chip
        ranks: list[Any] = [None] * self.size
        # All ranks agree on whether graphs can wait, and raise the same error.
        own = socket.gethostname(), self.chip, _graphs_wait(self.pushes, self.constant(np.zeros(1, np.int32)))
        self._dist.all_gather_object(ranks, own, group=self._group)
        hosts, chips, waits = zip(*ranks, strict=True)
        if (count := len(set(hosts))) > 1:
            raise WeftError(f"weft.distributed.Team: all ranks must be of one host, got {count} hosts")
        if len(set(chips)) > 1:
            raise WeftError(f"weft.distributed.Team: all GPUs must be of one chip, got {', '.join(chips)}")
        self.graphs_wait = all(waits)

    def _set(self, torch: Any, number: int) -> None:
        """Sets what depends on PyTorch and the GPU's number."""
        self._torch, self._describe = torch, plans.describer()  # compiled code
        self._device = torch.device("cuda", number)
        self._push_stream = torch.cuda.Stream(self._device, priority=_PRIORITY)
        with entered(context(None)):
            self.pushes = CudaQueue(self._push_stream.cuda_stream)
        self._kinds = {"bf16": torch.bfloat16, "f16": torch.float16}
        self._stream = partial(torch._C._cuda_getCurrentRawStream, number)
        self._is_captured = torch._C._cuda_isCurrentStreamCapturing
        self._queues: dict[int, CudaQueue] = {}
        self._makers: dict[tuple[tuple[int, ...], Any], Callable[[], Any]] = {}
        self._last: CudaQueue | None = None
        self._kept: list[Any] = []

    def caller(self) -> CudaQueue:
        handle = self._stream()
        last = self._last
        if last is not None and last.handle == handle:
            return last
        queue = self._queues.get(handle)
        if queue is None:
            queue = self._queues[handle] = CudaQueue(handle)
        if self._is_captured():
            return queue  # the order of a graph's replays is the caller's
        if last is not None:
            queue.wait(last.record())  # calls follow each other on all streams
        self._last = queue
        return queue

    @property
    def captures(self) -> bool:
        return bool(self._is_captured())

    def shared(self, size: int) -> list[Memory]:
        import torch.distributed._symmetric_memory as symmetric

        torch = self._torch
        torch.cuda.synchronize(self._device)
        self._dist.barrier(self._group)  # nobody copies to memory of before any more
        tensor = symmetric.empty(size, dtype=torch.uint8, device=self._device)
        handle = symmetric.rendezvous(tensor, self._group)
        tensor.zero_()
        torch.cuda.synchronize(self._device)
        self._dist.barrier(self._group)
        torch.cuda.synchronize(self._device)
        begin = tensor.data_ptr() - handle.buffer_ptrs[self.rank]
        owner = tensor, handle
        device = "cuda", self._device.index
        return [Memory(each + begin, size, *device, owner) for each in handle.buffer_ptrs]

    def address(self, memory: Memory) -> int:
        return memory.address

    def constant(self, numbers: npt.NDArray[Any]) -> Memory:
        tensor = self._torch.from_numpy(np.ascontiguousarray(numbers)).to(self._device)
        return self.of(tensor)

    def of(self, array: "Tensor") -> Memory:
        size = array.numel() * array.element_size()
        return Memory(array.data_ptr(), size, "cuda", self._device.index, array)

    def array(self, memory: Memory, shape: Sequence[int], dtype: str) -> "Tensor":
        tensor, _ = memory.owner
        kind = self._kinds[dtype]
        begin, size = memory.address - tensor.data_ptr(), prod(shape) * kind.itemsize
        return tensor[begin : begin + size].view(kind).view(tuple(shape))

    def empty(self, shape: tuple[int, ...], like: "Tensor", dtype: str | None = None) -> "Tensor":
        kind = like.dtype if dtype is None else self._kinds[dtype]
        make = self._makers.get((shape, kind))
        if make is None:
            shape = tuple(shape)
            options = {"dtype": kind, "device": self._device}  # in half the time of torch.empty:
            make = partial(self._torch.empty_strided, shape, arrays.contiguous_strides(shape), **options)
            self._makers[shape, kind] = make
        return make()

    def barrier(self, milliseconds: int) -> Callable[[], None]:
        import torch.distributed._symmetric_memory as symmetric

        tensor = symmetric.empty(_UNIT, dtype=self._torch.uint8, device=self._device)
        handle = symmetric.rendezvous(tensor, self._group)
        self._kept.append(tensor)
        # Others begin with channel 0, and teams of one group may share the memory of channels.
        channels = handle.signal_pad_size // (_FLAG * self.size)
        channel = channels - 1 - next(_barriers[self.name]) % channels
        return partial(handle.barrier, channel, milliseconds)

    def key(self, operands: "Sequence[Tensor]") -> Hashable:
        if self._describe is not None and len(operands) > 1:
            a, b, *rest = operands
            if (described := self._describe(a, b, None, *rest)) is not None:
                return described[0]
        kind = self._torch.Tensor
        if not all(isinstance(each, kind) for each in operands):
            raise WeftError("weft.distributed: arrays must be tensors of PyTorch")
        return tuple((x.shape, x.stride(), x.dtype, x.data_ptr() % _ALIGNED) for x in operands)

    def agree(self, key: tuple[object, ...]) -> None:
        keys: list[Any] = [None] * self.size
        self._dist.all_gather_object(keys, (repr(key), str(key[0])), group=self._group)
        if len(kinds := dict(keys)) > 1:
            raise WeftError(different(list(kinds.values())))

    def is_watched(self, operands: "Sequence[Tensor]") -> bool:
        return is_watched(operands)


def _graphs_wait(queue: CudaQueue, flag: Memory) -> bool:
    """Whether the driver captures waits for flags. With one connection for all streams, a wait could precede
    the kernel that ends it.
    """
    if os.environ.get(_CONNECTIONS) == "1":
        return False
    driver = api()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    call("beginning a capture", driver.cuStreamBeginCapture, queue.handle, mode)
    refused = queue.refuses_value(flag)
    error, graph = driver.cuStreamEndCapture(queue.handle)
    if error:  # as the wait has ended the capture
        return False
    call("ending a capture", driver.cuGraphDestroy, graph)
    return not refused
