"""Processes for code that may crash: each answers requests on a socket, and is replaced when it dies."""

import atexit
import contextlib
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from weft import phase, system
from weft.errors import WeftError

# Imports what this process would import, from the same folders.
_SERVE = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).serve(int(sys.argv[3]))"
)
_PHASE_BYTES = 512  # less than any limit on the size of files that lets anything run
_GRACE_SECONDS = 10
Message = dict[str, Any]


class DeathError(Exception):
    """A worker ended before it answered: with `status` (negative: of that signal), having printed `said`, in
    the phase `phase`.
    """

    def __init__(self, status: int, said: str, phase: str) -> None:
        super().__init__(status, said, phase)
        self.status = status
        self.said = said
        self.phase = phase

    @property
    def cause(self) -> str:
        """What it ended with: the signal's name, or the status."""
        return signal.Signals(-self.status).name if self.status < 0 else f"status {self.status}"


class Worker:
    """A process that calls `module.serve`: started by the first request, one request at a time.

    Any thread may ask. A forked child has a process of its own. Each ends with the process that uses it,
    however that one ends.
    """

    def __init__(self, module: str, name: str) -> None:
        """`name` is what messages call the process."""
        self._module = module
        self._name = name
        self._lock = threading.Lock()
        self.process: _Process | None = None
        self._answering: _Process | None = None
        _workers.add(self)

    def start(self) -> None:
        """Starts the process if there is none, without waiting. If the system can't, `ask` says so."""
        if self.process is None and self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(WeftError):
                    self.process = self.process or _Process(self._module, self._name)
            finally:
                self._lock.release()

    def ask(self, request: Message, timeout: float) -> tuple[Message, str]:
        """The answer, and what the process printed. Raises DeathError or TimeoutError."""
        with self._lock:
            if self.process is not None and not self.process.alive():
                self.process.stop(kill=False)
                self.process = None
            process, self.process = self.process or _Process(self._module, self._name), None
            self._answering = process
            try:
                answer = process.ask(request, timeout)
                said = process.said()
                self.process = process
                return answer, said
            except TimeoutError:
                raise
            except (EOFError, OSError):
                raise DeathError(process.status(), process.said(), process.phase()) from None
            finally:
                self._answering = None
                # Also after an interrupt: the next caller needs a process that isn't answering a request.
                if self.process is None:
                    process.stop(kill=True)

    def interrupt(self) -> None:
        """Ends the request of another thread, if there is one: its `ask` raises DeathError."""
        if (process := self._answering) is not None:
            process.interrupt()

    def stop(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.stop(kill=True)
            self.process = None

    def after_fork(self) -> None:
        """Lets go of the parent's process, in a forked child."""
        self._lock = threading.Lock()
        self._answering = None
        if self.process is not None:
            self.process.forget()
            self.process = None


class _Process:
    """A worker's process; it ends when our end of its socket closes."""

    def __init__(self, module: str, name: str) -> None:
        """Raises WeftError if the system can't start one more process."""
        with ExitStack() as undo:
            try:
                self._socket, theirs = socket.socketpair()
                undo.callback(self._socket.close)
                # Files, not pipes: nobody has to drain them. Both ends share an offset.
                self._said = os.fdopen(os.memfd_create("weft-said"), "w+b")
                undo.callback(self._said.close)
                self._phases = os.fdopen(os.memfd_create("weft-phases"), "w+b", buffering=0)
                undo.callback(self._phases.close)
                self._phases.truncate(_PHASE_BYTES)
                descriptor = self._phases.fileno()
                path = json.dumps([str(folder) for folder in sys.path if folder])
                with theirs:
                    # A group of its own: Ctrl-C in the terminal is for us to handle.
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-c", _SERVE, path, module, str(descriptor)],
                        stdin=theirs.fileno(),
                        stdout=self._said,
                        stderr=self._said,
                        pass_fds=[descriptor],
                        process_group=0,
                    )
            except OSError as error:
                raise system.refusal(f"{name} doesn't start", error) from None
            undo.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Message, timeout: float) -> Message:
        self._said.seek(0)
        self._said.truncate()
        self._socket.settimeout(timeout)
        _send(self._socket, {"timeout": timeout, "request": request})
        answer = _receive(self._socket)
        if answer is None:
            raise EOFError
        return answer

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    def phase(self) -> str:
        self._phases.seek(0)
        return phase.read(self._phases.read())

    def status(self) -> int:
        """Exit status of a process that has hung up."""
        return int(self._process.wait(_GRACE_SECONDS))

    def interrupt(self) -> None:
        self._process.kill()

    def stop(self, *, kill: bool) -> None:
        if kill:
            self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Let go of it in a forked child: the process stays the parent's, to use and to reap."""
        self._close()
        self._process.returncode = 0

    def _close(self) -> None:
        for each in (self._socket, self._said, self._phases):
            each.close()


_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


def _stop_all() -> None:
    for worker in list(_workers):
        worker.stop()


def _after_fork() -> None:
    for worker in list(_workers):
        worker.after_fork()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_after_fork)


def serve(answer: Callable[[Message], Message], phases: int) -> None:
    """Runs in the worker: answers the requests on the socket that is its stdin, until that closes.

    `phases` is the descriptor that the module's own `serve` got.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    phase.share(mmap.mmap(phases, _PHASE_BYTES))
    with socket.socket(fileno=0) as channel:
        while message := _receive(channel):
            # Ends a worker that hangs after its parent was killed.
            signal.alarm(int(message["timeout"]) + _GRACE_SECONDS)
            reply = answer(message["request"])
            signal.alarm(0)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _send(channel, reply)


def _send(channel: socket.socket, message: Message) -> None:
    data = json.dumps(message).encode()
    # Not SIGPIPE: tools that set it back to its default would die with the worker.
    channel.sendall(struct.pack("<Q", len(data)) + data, socket.MSG_NOSIGNAL)


def _receive(channel: socket.socket) -> Message | None:
    """The next message; None at an end between messages."""
    with channel.makefile("rb", buffering=0) as stream:
        size = stream.read(8)
        if not size:
            return None
        data = bytearray(struct.unpack("<Q", size)[0])
        got = 0
        while got < len(data):
            count = stream.readinto(memoryview(data)[got:])
            if not count:
                raise EOFError
            got += count
    message: Message = json.loads(data)
    return message
