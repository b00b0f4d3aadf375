"""Messages between a process and its worker, over the worker's standard input and output."""

import contextlib
import json
import os
import queue
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from weft.system import locks, processes
from weft.system.memory_files import MemoryFile

Message = dict[str, Any]
_SIZE = struct.Struct("<Q")
_INTERRUPTIBLE_SECONDS = 0.1  # Windows notices Ctrl-C between two waits


class Channel:
    """One end of a channel: unbuffered files, which have no locks that a forked child would wait for."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Message) -> None:
        """Raises OSError if the other end has been closed."""
        data = json.dumps(message).encode()
        left = memoryview(_SIZE.pack(len(data)) + data)
        while left:
            left = left[self._writer.write(left) :]

    def receive(self) -> Message | None:
        """The next message; None after the last one. Raises EOFError for a part of one, and OSError."""
        if not (size := self._reader.read(_SIZE.size)):
            return None
        data, length = bytearray(), _SIZE.unpack(size)[0]
        while len(data) < length:
            if not (part := self._reader.read(length - len(data))):
                raise EOFError
            data += part
        message: Message = json.loads(data)
        return message

    def receive_within(self, timeout: float) -> Message | None:
        """As `receive`; raises TimeoutError after `timeout` seconds. The caller must then kill the other
        process, which ends the thread that waits for it: pipes have no time limit.
        """
        arrived: queue.Queue[Message | Exception | None] = queue.Queue()

        def forward() -> None:
            try:
                arrived.put(self.receive())
            except (EOFError, OSError, ValueError) as error:
                arrived.put(error)

        threading.Thread(target=forward, daemon=True).start()
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                message = arrived.get(timeout=min(left, _INTERRUPTIBLE_SECONDS))
                if isinstance(message, Exception):
                    raise message
                return message
        raise TimeoutError

    def close(self) -> None:
        """Closes this end."""
        self._writer.close()
        self._reader.close()


def start(
    command: Sequence[str], phases: MemoryFile, said: IO[bytes]
) -> tuple["subprocess.Popen[bytes]", Channel]:
    """Starts a worker, which gets the path of `phases` as its last argument, and prints to `said`. Raises
    OSError.
    """
    with locks.whole_process():
        process = subprocess.Popen(
            [*command, phases.path],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            pass_fds=phases.inherited,
            **processes.own_group(),
        )
    assert process.stdin and process.stdout
    return process, Channel(process.stdout, process.stdin)


def inherited() -> Channel:
    """The worker's end of the channel that `start` has made."""
    reader, writer = (os.fdopen(os.dup(number), mode, buffering=0) for number, mode in ((0, "rb"), (1, "wb")))
    os.dup2(2, 1)  # prints must not get among the messages
    return Channel(reader, writer)
