"""CUDA graphs: kernels that a stream records once, and launches together at each replay."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from weft.launch.arrays import Array, library
from weft.launch.cuda_driver import api, call, context, entered, release
from weft.launch.runtime import stream_handle

if TYPE_CHECKING:
    import cupy
    import torch

_ACTION = "capturing a graph"


class Graph:
    """A captured sequence of kernels. `results` is what the call that was captured returned: each replay
    writes to it again.
    """

    def __init__(self, results: Any, kept: Any, captured: Any, executable: Any, default: object) -> None:
        self.results = results
        self._kept = kept  # memory that the kernels use
        self._captured, self._executable, self._default = captured, executable, default
        self._context = context(None)

    def replay(self, stream: object = None) -> Any:
        """Queues all kernels on a stream, and returns `results`. For tensors of PyTorch, the default is the
        stream that was PyTorch's current one.
        """
        handle = stream_handle(self._default if stream is None else stream)
        if stream is not None:
            keep_until(stream, self._kept)
        with entered(self._context):
            call("replaying a graph", api().cuGraphLaunch, self._executable, handle)
        return self.results

    __call__ = replay

    def __del__(self) -> None:
        driver = api()
        release(self._context, driver.cuGraphExecDestroy, self._executable)
        release(self._context, driver.cuGraphDestroy, self._captured)


def keep_until(stream: object, used: Iterable[Any]) -> None:
    """Keeps the memory of PyTorch's tensors from being used again before a stream, which isn't its own, is
    done.
    """
    for each in used:
        if library(type(each)) == "torch" and each.is_cuda:
            each.record_stream(_external(stream, each.device))


def torch_stream(stream: object, device: "torch.device") -> Any:
    """A block in which PyTorch queues its own kernels for a GPU on a stream."""
    if stream is None or device.type != "cuda":
        return contextlib.nullcontext()
    import torch

    return torch.cuda.stream(_external(stream, device))


def queued_on(stream: object, like: Array) -> Any:
    """A block in which the library of an array, PyTorch or CuPy, queues its own kernels for the array's GPU
    on a stream; an empty block for arrays of other libraries.

    What a call makes beside its results must be made on the stream of its launches. They don't wait for
    another one, on which the library would also use the memory again while they still run.
    """
    name = library(type(like))
    if name == "torch":
        return torch_stream(stream, like.device)
    if name == "cupy" and stream is not None:
        return _cupy_stream(stream, like.device)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _cupy_stream(stream: object, device: "cupy.cuda.Device") -> Iterator[None]:
    import cupy

    with device, cupy.cuda.ExternalStream(stream_handle(stream)):
        yield


def _external(stream: object, device: object) -> Any:
    import torch

    return torch.cuda.ExternalStream(stream_handle(stream), device)


def captured(run: Callable[[int], tuple[object, object]], default: object) -> Graph:
    """The graph of what `run` queues on a stream. It returns its results, and memory that must be kept.

    Nothing runs. Memory that `run` allocates is allocated beside the graph, since the capture is relaxed.
    """
    driver = api()
    stream = call(_ACTION, driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    try:
        call(_ACTION, driver.cuStreamBeginCapture, stream, relaxed)
        try:
            results, kept = run(int(stream))
        except BaseException:
            _, unfinished = driver.cuStreamEndCapture(stream)
            if unfinished:
                driver.cuGraphDestroy(unfinished)
            raise
        recorded = call(_ACTION, driver.cuStreamEndCapture, stream)
    finally:
        driver.cuStreamDestroy(stream)
    executable = call(_ACTION, driver.cuGraphInstantiate, recorded, 0)
    return Graph(results, kept, recorded, executable, default)
