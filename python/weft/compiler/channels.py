"""How a process and its worker exchange messages: over a socket, or over pipes on Windows, where the standard
input can't be a socket.
"""

import contextlib
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any, Protocol

from weft.system import locks, processes
from weft.system.memory_files import MemoryFile

Message = dict[str, Any]
_SIZE = struct.Struct("<Q")
_INTERRUPTIBLE_SECONDS = 0.1  # Windows notices Ctrl-C between two waits
_SOCKET, _PIPES = "socket", "pipes"


class Channel(Protocol):
    """One end of a channel."""

    def send(self, message: Message) -> None:
        """Raises OSError if the other end has been closed."""

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None after the last one. Raises EOFError for a part of one, TimeoutError and
        OSError.
        """

    def close(self) -> None: ...


class _Socket:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, message: Message) -> None:
        # Not SIGPIPE: tools that set it back to its default would die with the worker.
        self._socket.sendall(_encoded(message), getattr(socket, "MSG_NOSIGNAL", 0))

    def receive(self, timeout: float | None = None) -> Message | None:
        self._socket.settimeout(timeout)
        with self._socket.makefile("rb", buffering=0) as stream:
            return _read(stream)

    def close(self) -> None:
        self._socket.close()


class _Pipes:
    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Message) -> None:
        self._writer.write(_encoded(message))
        self._writer.flush()

    def receive(self, timeout: float | None = None) -> Message | None:
        if timeout is None:
            return _read(self._reader)
        # A pipe has no time limit. Who has waited too long ends the other process, which ends the thread.
        arrived: queue.Queue[Message | Exception | None] = queue.Queue()
        threading.Thread(target=self._forward, args=(arrived,), daemon=True).start()
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                message = arrived.get(timeout=min(left, _INTERRUPTIBLE_SECONDS))
                if isinstance(message, Exception):
                    raise message
                return message
        raise TimeoutError

    def _forward(self, arrived: "queue.Queue[Message | Exception | None]") -> None:
        try:
            arrived.put(_read(self._reader))
        except (EOFError, OSError, ValueError) as error:
            arrived.put(error)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what is still buffered for a dead process
            self._writer.close()
        self._reader.close()


def start(
    command: Sequence[str], phases: MemoryFile, said: IO[bytes]
) -> tuple["subprocess.Popen[bytes]", Channel]:
    """Starts a worker, which gets words for `inherited` and the path of `phases` as its last arguments, and
    prints to `said`. Raises OSError.
    """
    if sys.platform == "win32":
        process = subprocess.Popen(
            [*command, _PIPES, phases.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            **processes.own_group(),
        )
        assert process.stdin and process.stdout
        return process, _Pipes(process.stdout, process.stdin)
    with locks.whole_process():
        return _connected([*command, _SOCKET, phases.path], phases, said)


def _connected(
    command: Sequence[str], phases: MemoryFile, said: IO[bytes]
) -> tuple["subprocess.Popen[bytes]", Channel]:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=said,
                stderr=said,
                pass_fds=phases.inherited,
                **processes.own_group(),
            )
    except BaseException:
        ours.close()
        raise
    return process, _Socket(ours)


def inherited(word: str) -> Channel:
    """The worker's end of the channel that `start` has made."""
    if word == _SOCKET:
        return _Socket(socket.socket(fileno=0))
    writer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not get among the messages
    return _Pipes(os.fdopen(os.dup(0), "rb"), writer)


def _encoded(message: Message) -> bytes:
    data = json.dumps(message).encode()
    return _SIZE.pack(len(data)) + data


def _read(stream: Any) -> Message | None:
    """The next message of a stream; None at an end between messages."""
    size = stream.read(_SIZE.size)
    if not size:
        return None
    data = bytearray(_SIZE.unpack(size)[0])
    got = 0
    while got < len(data):
        count = stream.readinto(memoryview(data)[got:])
        if not count:
            raise EOFError
        got += count
    message: Message = json.loads(data)
    return message
