"""The functions of `host.c` in Python, which read the same structures."""

import ctypes
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char, c_int, c_uint, c_uint64, c_void_p, memmove
from functools import partial
from typing import Any

from weft.system import locks

_NO_WORKSPACE, _MISCOUNTED, _OVERLAP = -1, -2, -3
_CONFIG_BYTES, _STREAM_WORD, _ALIGNMENT = 56, 4, 64
_END, _LAUNCH, _COPY, _SET, _RECORD, _WAIT = range(6)
_PREPARE, _PREPARE_CAPTURED, _SETTLE, _EMULATE = range(4)
_INITIALIZE, _EXECUTE = 2, 3
_ERROR_CREATE, _STREAM_GET, _DEVICE_ORDINAL_GET = 48, 80, 184
_BUCKETS = 1024
# The kinds of the arguments of the driver's functions, in the order of `host.DRIVER`.
_SIGNATURES: tuple[tuple[Any, ...], ...] = (
    *((c_void_p,), (c_uint64,), (c_void_p,)),
    *((c_uint64, *[c_void_p] * 5), (c_uint64, c_void_p), (c_void_p, c_uint64, c_void_p, c_void_p)),
    *((c_uint64,) * 4, (c_uint64, c_uint, c_uint64, c_uint64), (c_uint64,) * 2, (c_uint64, c_uint64, c_uint)),
)
_driver: list[Callable[..., int]] = []
_Queue = Callable[[int, Sequence[int], int], int]


def connect_driver(*addresses: int) -> None:
    _driver[:] = [
        ctypes.CFUNCTYPE(c_int, *kinds)(address)
        for kinds, address in zip(_SIGNATURES, addresses, strict=True)
    ]


def _words(address: int, count: int) -> Any:
    """So many numbers of 64 bits in memory."""
    return (c_uint64 * count).from_address(address)


def _in_context(queue: _Queue, plan: int, given: Sequence[int], stream: int) -> int:
    get, push, pop = _driver[:3]
    context, current = _words(plan, 1)[0], c_uint64()
    status = get(addressof(current))
    if status or current.value == context:
        return status or queue(plan, given, stream)
    if status := push(context):
        return status
    status = queue(plan, given, stream)
    pop(addressof(current))
    return status


def _captured(stream: int) -> tuple[int, int | None]:
    """The driver's status, and the graph that captures a stream, if one does."""
    state, graph = c_int(), c_uint64()
    status = _driver[3](stream, addressof(state), addressof(graph), None, None, None)
    return status, graph.value if state.value == 1 else None


def _space(space: int, count: int, stream: int) -> tuple[int, Sequence[int]]:
    """The driver's status, or that of a stream without workspaces, and their addresses."""
    status, graph = _captured(stream)
    number = c_uint64(stream)
    if not status and graph is None:
        status = _driver[4](stream, addressof(number))
    while not status and space:
        space, *key = _words(at := space, 3)
        if key == [number.value, graph or 0]:
            return 0, _words(at + 3 * 8, count)
    return status or _NO_WORKSPACE, ()


def _queue_here(plan: int, given: Sequence[int], stream: int) -> int:
    fields = _words(plan, 12)
    _, function, config, block, size, offsets, parameters, patches, patched, _, spaced, space = fields
    if spaced:
        status, spaces = _space(space, spaced, stream)
        if status:
            return status
        given = [*given, *spaces]
    room = (c_char * (size + _ALIGNMENT))()
    start = addressof(room) + -addressof(room) % _ALIGNMENT
    memmove(start, block, size)
    numbers = iter(_words(patches, 3 * patched))
    for byte, number, distance in zip(numbers, numbers, numbers, strict=True):
        _words(start + byte, 1)[0] = (given[number] + distance) % 2**64
    pointers = (c_void_p * (parameters + 1))(*(start + offset for offset in _words(offsets, parameters)))
    copied = (c_char * _CONFIG_BYTES).from_buffer_copy(ctypes.string_at(config, _CONFIG_BYTES))
    own = _words(addressof(copied), 7)
    own[_STREAM_WORD] = stream
    return _driver[5](addressof(copied), function, addressof(pointers), None)


_launch = partial(_in_context, _queue_here)


def queue(plan: int, stream: int, *given: int, apart: bool = False) -> int:
    """Queues the plan at an address; returns the status."""
    expected, extents, written = (_words(plan, 14)[n] for n in (9, 12, 13))
    if len(given) != expected:
        return _MISCOUNTED
    (c_uint64 * len(given))(*given)  # raises TypeError for what isn't a number
    if any(not 0 <= each < 2**64 for each in (stream, *given)):
        raise OverflowError("addresses and streams must be in 0..2**64 - 1")
    if apart:
        spans = _words(extents, 2 * expected)
        start, end = given[written], given[written] + spans[2 * written]
        for address, size, in_place in zip(given, spans[::2], spans[1::2], strict=True):
            if address < end and start < address + size and not (in_place and address == start):
                return _OVERLAP
    return _launch(plan, given, stream)


queue_apart = partial(queue, apart=True)


def _place(words: Sequence[int], given: Sequence[int]) -> int:
    return words[1] if words[0] == 2**64 - 1 else given[words[0]] + words[1]


def _queue_steps(sequence: int, given: Sequence[int], stream: int) -> int:
    _, lane, calls, *steps, _ = _words(sequence, 6)
    _, _, _, other, *events = _words(lane, 6)
    streams, call = (stream, other), 0
    copy, set_, record, wait = _driver[6:]
    if calls:
        call = _words(calls, 1)[0] = _words(calls, 1)[0] + 1
    step = steps[call % 2]
    while (what := _words(step, 1)[0]) != _END:
        if what == _LAUNCH:
            _, plan, count = _words(step, 3)
            places = _words(step + 3 * 8, 2 * count)
            size = 3 + 2 * count
            addresses = [_place(places[2 * n : 2 * n + 2], given) for n in range(count)]
            status = _launch(plan, addresses, stream)
        elif what == _COPY:
            _, on, *places, count = _words(step, size := 7)
            status = copy(_place(places[:2], given), _place(places[2:], given), count, streams[on])
        elif what == _SET:
            status = set_(_place(_words(step + 8, 2), given), call % 2**32, 1, stream)
            size = 3
        elif what == _RECORD:
            _, on = _words(step, size := 2)
            status = record(events[on], streams[on])
        else:
            _, on, awaited = _words(step, size := 3)
            status = wait(streams[on], events[awaited], 0)
        if status:
            return status
        step += 8 * size
    return 0


_alone = locks.lock()


def _queue_alone(sequence: int, given: Sequence[int], stream: int) -> int:
    lane = _words(_words(sequence, 2)[1], 3)
    _, last, ended = lane
    *_, record, wait = _driver
    with _alone:
        status = wait(stream, ended, 0) if last not in (0, stream) else 0
        status = status or _queue_steps(sequence, given, stream)
        if not status:
            lane[1] = stream
            status = record(ended, stream)
        return status


_run_sequence = partial(_in_context, _queue_alone)


def run_sequence(sequence: int, stream: int, *given: int) -> int:
    """Queues the sequence at an address; returns the status."""
    return _run_sequence(sequence, given, stream)


_xla = {"table": 0, "python": 0, "running": 0}


def connect_xla(table: int, python: int) -> None:
    _xla.update(table=table, python=python)


def asking_threads() -> int:
    """How many threads ask Python."""
    return _xla["running"]


def _call_xla(frame: Any, function: int, arguments: Any) -> int:
    call = ctypes.CFUNCTYPE(c_void_p, c_void_p)(_words(frame[2] + function, 1)[0])
    return call(addressof(arguments)) or 0


def _error(frame: object, message: int | bytes) -> int:
    text = ctypes.create_string_buffer(ctypes.string_at(message) if isinstance(message, int) else message)
    return _call_xla(frame, _ERROR_CREATE, (c_uint64 * 4)(32, 0, addressof(text), 13))


def _number(frame: Any, function: int) -> tuple[int, int]:
    """An error of XLA or 0, and the number that it tells."""
    arguments = (c_uint64 * 4)(32, 0, frame[3], 0)
    return _call_xla(frame, function, arguments), arguments[3]


def _ask(frame: Any, request: Any, what: int) -> int:
    if not _xla["python"]:
        return _error(frame, b"weft.jax.matmul: the process ends")
    _xla["running"] += 1
    request[0], request[9] = what, 0
    ctypes.CFUNCTYPE(None, c_void_p)(_xla["python"])(addressof(request))
    _xla["running"] -= 1
    unknown = b"weft.jax.matmul: the product failed, and so did the attempt to say why"
    return 0 if request[9] == 1 else _error(frame, request[9] or unknown)


def _lookup(request: Any, result: int) -> tuple[int, int] | None:
    """The plan of a request, and whether it has workspaces."""
    key = [request[1], request[2], result]
    entry = _words(_xla["table"], _BUCKETS)[(sum(key[:2]) + (result >> 8)) % _BUCKETS]
    while entry:
        entry, *found, plan, spaced = _words(entry, 6)
        if found == key:
            return plan, spaced
    return None


def _answer(traits: int, queue: _Queue | None, address: int) -> int:
    frame = _words(address, 21)
    extension, stage = frame[1], frame[4] % 2**32
    operands, results, attributes, values = frame[7], frame[12], frame[17], frame[20]
    if extension and c_int.from_address(extension + 8).value == 1:
        (c_int * 3).from_address(_words(extension, 4)[3] + 24)[:] = [0, 1, traits]
        return 0
    if stage != _EXECUTE and (stage != _INITIALIZE or queue is None):
        return 0
    key, product = _words(values, 2)
    request = (c_uint64 * 10)(0, _words(_words(key, 2)[1], 1)[0], 0, *_words(product, 2))
    found = None
    if queue is not None:
        error, request[2] = _number(frame, _DEVICE_ORDINAL_GET)
        request[2] %= 2**32
        while not error and (found := _lookup(request, 0)) is None:
            error = _ask(frame, request, _PREPARE)
        if error or stage == _INITIALIZE:
            return error
    given, out = (
        [_words(each, 4)[3] for each in _words(frame[at], count)]
        for at, count in ((9, operands), (14, results))
    )
    before = 2 if attributes == 2 else operands
    given[before:before] = out
    request[6], request[7] = addressof(kept := (c_uint64 * (len(given) + 1))(*given)), len(given)
    if queue is None or found is None:
        error = _ask(frame, request, _EMULATE)
    elif any(each % 16 for each in given):
        what = b"weft.jax.matmul: expected buffers of XLA that begin at multiples of 16 bytes"
        error = _error(frame, what)
    else:
        error = _launch_for_xla(frame, request, *found, queue, given)
    del kept
    return error


def _launch_for_xla(
    frame: Any, request: Any, plan: int, spaced: int, queue: _Queue, given: Sequence[int]
) -> int:
    error, request[5] = _number(frame, _STREAM_GET)
    if not error and spaced and _captured(request[5])[1] is not None:
        while (found := _lookup(request, given[2])) is None:
            if error := _ask(frame, request, _PREPARE_CAPTURED):
                return error
        plan, _ = found
    while not error and (status := queue(plan, given, request[5])):
        request[8] = status % 2**64
        error = _ask(frame, request, _SETTLE)
    return error


_handlers = [
    ctypes.CFUNCTYPE(c_void_p, c_void_p)(partial(_answer, traits, queue))
    for traits, queue in ((1, _launch), (0, _run_sequence), (0, None))
]
xla_gpu, xla_team, xla_cpu = (ctypes.cast(each, c_void_p).value for each in _handlers)
