"""Processes for code that may crash: each answers requests on a channel, and is replaced when it dies."""

import atexit
import contextlib
import json
import mmap
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from weft.compiler import channels
from weft.compiler.channels import Message
from weft.errors import WeftError
from weft.system import locks, memory_files, phase, processes

# Imports what this process would import, from the same folders.
_SERVE = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).serve(sys.argv[3:])"
)
_GRACE_SECONDS = 10


class DeathError(Exception):
    """A worker ended with `status` (negative: of that signal) in `phase`, having printed `said`."""

    def __init__(self, status: int, said: str, phase: str) -> None:
        super().__init__(status, said, phase)
        self.status = status
        self.said = said
        self.phase = phase

    @property
    def cause(self) -> str:
        """The name of the signal that ended it, or its status."""
        if self.status < 0:
            return signal.Signals(-self.status).name
        return f"status {processes.status_text(self.status)}"

    @property
    def killed(self) -> bool:
        """Whether another process ended it. On Windows, it then has the status 1."""
        return self.cause == ("status 1" if sys.platform == "win32" else "SIGKILL")


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
        """Starts the process if there is none, and nobody asks. If the system can't, `ask` reports it."""
        if self.process is None and not self._lock.locked():
            with self._lock, contextlib.suppress(WeftError):
                self.process = self.process or _Process(self._module, self._name)

    def ask(self, request: Message, timeout: float) -> tuple[Message, str]:
        """The answer, and what the process printed. Raises DeathError or TimeoutError."""
        with self._lock:
            if self.process is not None and not self.process.alive():
                self.process.stop()
                self.process = None
            process, self.process = self.process or _Process(self._module, self._name), None
            self._answering = process
            try:
                answer = process.ask(request, timeout)
                said = process.said()
                self.process = process
                return answer, said
            finally:
                self._answering = None
                # Also after an interrupt: the next caller needs a process that isn't answering a request.
                if self.process is None:
                    process.stop()

    def interrupt(self) -> None:
        """Ends the request of another thread, if there is one: its `ask` raises DeathError."""
        if (process := self._answering) is not None:
            process.interrupt()

    def stop(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def after_fork(self) -> None:
        """Lets go of the parent's process, in a forked child."""
        self._lock = threading.Lock()
        self._answering = None
        if self.process is not None:
            self.process.forget()
            self.process = None


class _Process:
    """A worker's process; it ends when our end of its channel closes."""

    def __init__(self, module: str, name: str) -> None:
        """Raises WeftError if the system can't start one more process."""
        with ExitStack() as files:
            try:
                # Files, not pipes: nobody has to drain them. Both ends share an offset.
                self._said = files.enter_context(memory_files.unnamed())
                # Less than any limit on the size of files that lets anything run.
                self._phases = files.enter_context(memory_files.memory_file(bytes(512)))
                path = json.dumps([str(folder) for folder in sys.path if folder])
                command = [sys.executable, "-P", "-c", _SERVE, path, module]
                self._process, self._channel = channels.start(command, self._phases, self._said)
            except OSError as error:
                raise processes.refusal(f"{name} doesn't start", error) from None
            files.callback(self._channel.close)
            self._opened = files.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Message, timeout: float) -> Message:
        """The answer. Raises DeathError or TimeoutError."""
        self._said.seek(0)
        self._said.truncate()
        try:
            self._channel.send({"timeout": timeout, "request": request})
            answer = self._channel.receive_within(timeout)
            if answer is None:
                raise EOFError
            return answer
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise DeathError(self.status(), self.said(), self.phase()) from None

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    def phase(self) -> str:
        return phase.read(self._phases.content())

    def status(self) -> int:
        """Exit status of a process that has hung up."""
        return int(self._process.wait(_GRACE_SECONDS))

    def interrupt(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self.interrupt()
        self._process.wait()
        self._opened.close()

    def forget(self) -> None:
        """Let go of it in a forked child: the process stays the parent's, to use and to reap."""
        self._opened.close()
        self._process.returncode = 0


_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


def _stop_all() -> None:
    for worker in list(_workers):
        worker.stop()


def _after_fork() -> None:
    for worker in list(_workers):
        worker.after_fork()


atexit.register(_stop_all)
locks.at_fork(after_in_child=_after_fork)


def serve(answer: Callable[[Message], Message], opened: list[str]) -> None:
    """Runs in the worker: answers the requests on its channel, until the other end closes.

    `opened` is what the module's own `serve` got.
    """
    (phases,) = opened
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with Path(phases).open("r+b") as file:
        phase.share(mmap.mmap(file.fileno(), 0))
    channel = channels.inherited()
    while message := channel.receive():
        with _ends_after(int(message["timeout"]) + _GRACE_SECONDS):
            reply = answer(message["request"])
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            channel.send(reply)


@contextlib.contextmanager
def _ends_after(seconds: int) -> Iterator[None]:
    """Ends a worker that hangs in the block after its parent was killed."""
    if sys.platform == "win32":
        import faulthandler

        faulthandler.dump_traceback_later(seconds, exit=True)  # by a thread that doesn't need Python's lock
        yield
        faulthandler.cancel_dump_traceback_later()
    else:
        signal.alarm(seconds)
        yield
        signal.alarm(0)
