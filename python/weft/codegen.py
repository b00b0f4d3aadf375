"""LLVM IR text to PTX text, with LLVM in a process of its own, since it aborts on what it can't select."""

import atexit
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from weft import loaded, system
from weft.errors import Diagnostic, Location, WeftError

TIMEOUT_SECONDS = 300
TRIPLE = "nvptx64-nvidia-cuda"
OPT_LEVEL = 3
LAST_PTX = (9, 0)
"""The newest PTX version that LLVM 22.1 writes."""

# Before a worker loads LLVM: what it makes counts as made by the files as they are now.
LIBRARY = "llvmlite"
_spec = find_spec(LIBRARY)
_folders = (_spec and _spec.submodule_search_locations) or ()
loaded.watch(LIBRARY, *(f"{folder}/binding" for folder in _folders))


@dataclass(frozen=True)
class Generated:
    """PTX text, and the optimised LLVM IR that it was made from."""

    ptx: str
    ir: str


def to_ptx(llvm_ir: str, chip: str, ptx_version: tuple[int, int], *, opt_level: int = OPT_LEVEL) -> Generated:
    """Optimise `llvm_ir` (0 to 3) and generate code for `chip` ("sm_90a"), in any thread or forked process.

    Loops aren't unrolled: the passes have done that where it helps. Inline PTX may need a newer version than
    LLVM writes: then the text says so, which is all that changes. Whatever LLVM refuses is a WeftError.
    """
    if "\0" in llvm_ir:
        raise WeftError("LLVM IR: a NUL byte in the text")
    newer = ptx_version > LAST_PTX and ptx_version[0] == LAST_PTX[0]
    written = LAST_PTX if newer else ptx_version
    request = _Request(llvm_ir, chip, "".join(map(str, written)), opt_level)
    with _lock:
        answer, said = _ask(request)
    if unknown := _unknown_target(said, request):
        raise WeftError(unknown)
    if "invalid" in answer:
        raise WeftError(_invalid(answer["invalid"], llvm_ir))
    # To LLVM an intrinsic that it doesn't know is an external function like any other.
    if external := re.search(r"^\.extern \.func\b.*?\b(llvm\.[\w.]+)", answer["ptx"], re.MULTILINE):
        raise WeftError(f"LLVM has no intrinsic {external[1]}")
    return Generated(answer["ptx"].replace(_directive(written), _directive(ptx_version), 1), answer["ir"])


def _directive(version: tuple[int, int]) -> str:
    return f".version {version[0]}.{version[1]}\n"


@dataclass(frozen=True)
class _Request:
    ir: str
    chip: str
    ptx: str
    opt_level: int

    @property
    def target(self) -> str:
        return f"{self.chip} with PTX {self.ptx[:-1]}.{self.ptx[-1]}"


# The modules that this process would load, from wherever it does.
_SERVE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from weft.codegen import serve; serve()"


class _Worker:
    """The process that holds LLVM; it ends when our end of its socket closes, however that comes about."""

    def __init__(self) -> None:
        """Raises WeftError where the system has no room for one more process."""
        with ExitStack() as undo:
            try:
                self._socket, theirs = socket.socketpair()
                undo.callback(self._socket.close)
                # A file, not a pipe: nobody need drain it. The two ends share its offset, so one rewinds for
                # both.
                self._said = os.fdopen(os.memfd_create("weft-llvm"), "w+b")
                undo.callback(self._said.close)
                with theirs:
                    # A group of its own: Ctrl-C in the terminal is for us to handle.
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-c", _SERVE, json.dumps([str(p) for p in sys.path if p])],
                        stdin=theirs.fileno(),
                        stdout=self._said,
                        stderr=self._said,
                        process_group=0,
                    )
            except OSError as error:
                raise system.refusal("LLVM's process doesn't start", error) from None
            undo.pop_all()

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: _Request) -> dict[str, str]:
        self._said.seek(0)
        self._said.truncate()
        self._socket.settimeout(TIMEOUT_SECONDS)
        _send(self._socket, vars(request) | {"timeout": TIMEOUT_SECONDS})
        answer = _receive(self._socket)
        if answer is None:
            raise EOFError
        return answer

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")

    def status(self) -> int:
        """Exit status of a worker that has hung up."""
        return int(self._process.wait(10))

    def stop(self, *, kill: bool) -> None:
        self._socket.close()
        if kill:
            self._process.kill()
        self._process.wait()
        self._said.close()

    def forget(self) -> None:
        """Let go of it in a forked child: the process stays the parent's, to use and to reap."""
        self._socket.close()
        self._said.close()
        self._process.returncode = 0


_worker: _Worker | None = None
_lock = threading.Lock()


def _ask(request: _Request) -> tuple[dict[str, str], str]:
    """The worker's answer and what LLVM printed meanwhile; the caller holds the lock."""
    global _worker
    if _worker is not None and not _worker.alive():
        _worker.stop(kill=False)
        _worker = None
    worker, _worker = _worker or _Worker(), None
    try:
        answer = worker.ask(request)
        said = worker.said()
        _worker = worker
        return answer, said
    except TimeoutError:
        raise WeftError(f"LLVM didn't finish within {TIMEOUT_SECONDS} s (for {request.target})") from None
    except (EOFError, OSError):
        raise WeftError(_death(worker.status(), worker.said(), request)) from None
    finally:
        # Also after an interrupt: a worker in the middle of a conversation is of no use to the next caller.
        if _worker is None:
            worker.stop(kill=True)


def _stop() -> None:
    global _worker
    if _worker is not None:
        _worker.stop(kill=True)
        _worker = None


def _after_fork() -> None:
    global _worker, _lock
    _lock = threading.Lock()
    if _worker is not None:
        _worker.forget()
        _worker = None


def _death(status: int, said: str, request: _Request) -> Diagnostic:
    """LLVM's last words, in ours."""
    if unknown := _unknown_target(said, request):
        return Diagnostic(unknown)
    message = said.partition("LLVM ERROR: ")[2].strip()
    if intrinsic := re.match(r"Cannot select: intrinsic %?([\w.]+)", message):
        return Diagnostic(f"{intrinsic[1]} doesn't exist on {request.target} (LLVM can't select it)")
    if message:
        reason = f"LLVM gave up: {_first_line(message)}"
    elif status < 0:
        reason = f"LLVM crashed ({signal.strsignal(-status)})"
    else:
        message = said.strip()
        reason = f"LLVM ended with status {status}: {message.splitlines()[-1] if message else 'no message'}"
    notes = (Diagnostic(message, severity="note"),) if "\n" in message else ()
    return Diagnostic(f"{reason} (for {request.target})", notes=notes)


def _unknown_target(said: str, request: _Request) -> str | None:
    """A chip or a PTX version that LLVM would go on without, having printed a line."""
    unknown = re.search(r"'(.+)' is not a recognized (processor|feature)", said)
    return f"LLVM doesn't know {unknown[2]} {unknown[1]} (for {request.target})" if unknown else None


def _invalid(message: str, llvm_ir: str) -> Diagnostic:
    """LLVM's complaint about the IR's text, or its verifier's, at its line."""
    if place := re.search(r"<string>:(\d+):(\d+): error: (.*)", message):
        line, column = int(place[1]), int(place[2])
        lines = llvm_ir.splitlines()
        shown = lines[line - 1].strip() if line <= len(lines) else "end of the text"
        note = Diagnostic(f"at: {shown}", severity="note")
        return Diagnostic(f"LLVM IR: {place[3]}", Location("<llvm ir>", line, column), notes=(note,))
    first, _, rest = message.strip().partition("\n")
    notes = (Diagnostic(rest.strip(), severity="note"),) if rest.strip() else ()
    return Diagnostic(f"LLVM IR: {first}", notes=notes)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _send(channel: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    # Not SIGPIPE: tools that set it back to its default would die with the worker.
    channel.sendall(struct.pack("<Q", len(data)) + data, socket.MSG_NOSIGNAL)


def _receive(channel: socket.socket) -> dict[str, Any] | None:
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
    message: dict[str, Any] = json.loads(data)
    return message


def serve() -> None:
    """What the worker does: answers requests on the socket that is its stdin, until that closes."""
    import resource

    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    with socket.socket(fileno=0) as channel:
        while request := _receive(channel):
            # Should we hang while the parent is killed, this ends us.
            signal.alarm(int(request["timeout"]) + 10)
            _send(channel, _generate(llvm, request))
            signal.alarm(0)


def _generate(llvm: Any, request: dict[str, Any]) -> dict[str, str]:
    # A context per module, or the worker would keep every type that it ever saw.
    try:
        module = llvm.parse_assembly(request["ir"], llvm.create_context())
        module.verify()
    except RuntimeError as error:
        return {"invalid": str(error)}
    if module.triple not in ("", "unknown-unknown-unknown") and not module.triple.startswith("nvptx64"):
        return {"invalid": f"expected target triple {TRIPLE}, got {module.triple}"}
    level = request["opt_level"]
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=request["chip"], features=f"+ptx{request['ptx']}", opt=level
    )
    module.triple = TRIPLE
    # The optimiser goes by the module's own layout, and by a generic one where it has none.
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    ir = str(module)
    return {"ptx": machine.emit_assembly(module), "ir": ir}


atexit.register(_stop)
os.register_at_fork(after_in_child=_after_fork)
