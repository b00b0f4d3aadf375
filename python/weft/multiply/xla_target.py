"""The function that XLA calls for products, registered with JAX: compiled code, which asks Python only for
what it meets for the first time. On the CPU, Python runs the emulator.
"""

import atexit
import ctypes
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from weft.errors import WeftError
from weft.launch import host
from weft.launch.runtime import Prepared
from weft.launch.sequence import Sequence
from weft.multiply.xla_product import Parsed, key_of
from weft.system import locks

TARGET = "weft_matmul"
"""The name in XLA's programs."""
TEAM_TARGET = "weft_team"
"""The name of products over several GPUs."""
OF_TEAMS = '{"team":'
"""How their texts begin. They have a reader of their own."""
_BUCKETS = 1024
_DONE = 1
_OF_RESULT = -1  # marks keys of workspaces: no stream has this number


class _Request(ctypes.Structure):
    """`Request` of host.c."""

    _fields_ = (
        ("what", ctypes.c_uint64),
        ("key", ctypes.c_int64),
        ("gpu", ctypes.c_uint64),
        ("text", ctypes.c_void_p),
        ("length", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("addresses", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("status", ctypes.c_int64),
        ("reply", ctypes.c_uint64),
    )


Launch = Prepared | Sequence


class _Table:
    """The launches by product, GPU and, for those with a workspace of their own, the result's address.
    Compiled code on other threads may read them at any time; entries are never removed.
    """

    def __init__(self) -> None:
        self.launches: dict[tuple[int, int, int], Launch] = {}
        self._buckets = host.words([0] * _BUCKETS)
        self._entries: list[Any] = []
        self._lock = locks.lock()
        self.address = ctypes.addressof(self._buckets)

    def add(self, key: tuple[int, int, int], launch: Launch) -> None:
        product, gpu, result = key
        bucket = (product + gpu + (result >> 8)) % _BUCKETS
        with self._lock:
            after = self._buckets[bucket]
            entry = host.words([after, *key, launch.plan_address, launch.has_workspaces])
            self.launches[key] = launch
            self._entries.append(entry)
            self._buckets[bucket] = ctypes.addressof(entry)


TABLE = _Table()
_preparing, _preparing_teams = locks.reentrant(), locks.reentrant()
_messages: deque[Any] = deque(maxlen=64)  # of errors, which XLA copies


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:
    """A product, or a launch of another kernel: both have `prepared` and `emulate`."""
    readers = [reader for beginning, reader in _readers.items() if text.startswith(beginning)]
    return readers[0](text) if readers else Parsed.of(text)


_readers: dict[str, Callable[[str], Any]] = {}


def add_reader(beginning: str, reader: Callable[[str], object]) -> None:
    """Has texts that begin like this read by another function, which returns something with the methods
    `prepared` and `emulate` of `Parsed`. Operands and results then follow each other, and the call has the
    attribute `results`.
    """
    _readers[beginning] = reader


def prepare(text: str, gpu: int) -> None:
    """Prepares the launch of a product on a GPU. Raises WeftError where no kernel multiplies it."""
    key = key_of(text), gpu, 0
    # What prepares a product of several GPUs may wait for a kernel, and that for a GPU whose thread is here.
    with _preparing_teams if text.startswith(OF_TEAMS) else _preparing:
        if key not in TABLE.launches:
            TABLE.add(key, _parsed(text).prepared(gpu))


def _prepare(request: _Request) -> None:
    prepare(_text(request), request.gpu)


def _prepare_captured(request: _Request) -> None:
    """Prepares a launch with workspaces that only launches with the same result share: others may run at
    the same time in a captured graph.
    """
    result = ctypes.c_uint64.from_address(request.addresses + 2 * 8).value
    with _preparing:
        key = request.key, request.gpu, result
        if key not in TABLE.launches:
            shared = TABLE.launches[request.key, request.gpu, 0]
            assert not isinstance(shared, Sequence)  # which has no workspaces
            TABLE.add(key, shared.with_workspaces((_OF_RESULT, result)))


def _settle(request: _Request) -> None:
    """Provides what a launch with this status lacked."""
    TABLE.launches[request.key, request.gpu, 0].provide(request.status, request.stream)


def _emulate(request: _Request) -> None:
    addresses = (ctypes.c_uint64 * request.count).from_address(request.addresses)
    _parsed(_text(request)).emulate(list(addresses))


def _text(request: _Request) -> str:
    return ctypes.string_at(request.text, request.length).decode()


_ANSWERS = (_prepare, _prepare_captured, _settle, _emulate)


def _answer(address: int) -> None:
    """Does what compiled code asks. The reply is `_DONE` or the address of a message. If an exception other
    than WeftError leaves it at 0, the product fails without a reason. So it may once the program has ended,
    which didn't wait for the result: Python then starts no threads.
    """
    request = _Request.from_address(address)
    try:
        _ANSWERS[request.what](request)
        request.reply = _DONE
    except WeftError as error:
        text = error.diagnostics[0].message
        named = text if text.startswith("weft") else f"weft.jax.matmul: {text}"
        message = ctypes.create_string_buffer(named.encode())
        _messages.append(message)
        request.reply = ctypes.addressof(message)
    except RuntimeError:
        # Python sets its own flag a little before the thread has ended.
        if threading.main_thread().is_alive() and not getattr(threading, "_SHUTTING_DOWN", False):
            raise


_ANSWER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_answer)
"""`_answer`, as compiled code calls it."""


def connect(table: _Table | None) -> None:
    """Lets compiled code search this table, and ask this module; for None, lets it ask nothing any more."""
    function = None if table is None else ctypes.cast(_ANSWER, ctypes.c_void_p).value
    host.functions.connect_xla((table or TABLE).address, function or 0)


def _end() -> None:
    """Lets no thread of XLA ask Python from now on, and waits for those that do: a thread that wanted Python
    after its end would never return, and XLA waits for its threads.
    """
    connect(None)
    while host.functions.asking_threads():
        time.sleep(0.001)


_registering = locks.lock()


def register() -> None:
    """Registers the target with JAX, for the CPU and for CUDA."""
    with _registering:
        _registered()


@functools.cache
def _registered() -> None:
    import jax

    connect(TABLE)
    atexit.register(_end)
    of_gpu, of_team, of_cpu = (getattr(host.functions, f"xla_{name}") for name in ("gpu", "team", "cpu"))
    gpu, team, cpu = map(jax.ffi.pycapsule, (of_gpu, of_team, of_cpu))
    # Loading a kernel would end a capture, and initializing precedes it.
    jax.ffi.register_ffi_target(TARGET, {"initialize": gpu, "execute": gpu}, platform="CUDA")
    jax.ffi.register_ffi_target(TEAM_TARGET, {"initialize": team, "execute": team}, platform="CUDA")
    jax.ffi.register_ffi_target(TARGET, cpu, platform="cpu")


def attributes(text: str) -> dict[str, Any]:
    """The attributes of a call for a product, from its text."""
    import numpy as np

    return {"key": np.int64(key_of(text)), "product": text}
