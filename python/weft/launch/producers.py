"""The streams on which other libraries still compute arrays: a launch on another stream waits for them."""

from collections.abc import Iterable

from weft.launch.cuda_driver import api, call, context, entered

LEGACY = 1
"""The legacy default stream, in DLPack and `__cuda_array_interface__`. The driver also calls it 0."""
PER_THREAD = 2


def order(ordinal: int | None, consumer: int, producers: Iterable[int]) -> None:
    """Makes a stream of a GPU wait for all that is queued on others so far. A stream that a graph captures
    doesn't wait: when the graph runs, its arrays may have any contents.
    """
    others = [each for each in producers if each != (consumer or LEGACY)]
    if not others:
        return
    driver, action = api(), "waiting for the stream of an array"
    with entered(context(ordinal)):
        status, *_ = call(action, driver.cuStreamGetCaptureInfo, consumer)
        if status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return
        event = call(action, driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        try:
            for each in others:
                call(action, driver.cuEventRecord, event, each)
                call(action, driver.cuStreamWaitEvent, consumer, event, 0)
        finally:
            driver.cuEventDestroy(event)
