"""CUDA graphs: kernels that a stream records once, and launches together at each replay."""

from collections.abc import Callable
from typing import Any

from weft.launch import libraries
from weft.launch.cuda_driver import api, call, context, entered, release
from weft.launch.runtime import stream_handle

_ACTION = "capturing a graph"


class Graph:
    """A captured sequence of kernels. `results` is what the call returned; each replay writes to it again."""

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
            libraries.keep_until(stream, self._kept)
        with entered(self._context):
            call("replaying a graph", api().cuGraphLaunch, self._executable, handle)
        return self.results

    __call__ = replay

    def __del__(self) -> None:
        driver = api()
        release(self._context, driver.cuGraphExecDestroy, self._executable)
        release(self._context, driver.cuGraphDestroy, self._captured)


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
