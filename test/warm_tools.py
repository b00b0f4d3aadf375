"""Serves calls of weft, weft-opt, FileCheck and Python from one process that has imported them, by forks.

A tool's imports take half a second of CPU time, and lit calls tools about five hundred times. The programs
in `folder()` send their arguments, directory, environment and standard streams to the server. Workers
of the tools, for LLVM and MLIR, are forks too; other tests start them as users' processes do.
"""

import array
import atexit
import contextlib
import functools
import gc
import importlib
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# Runs without `site` and with built-in modules alone, in a hundredth of a second.
_CLIENT = """#!{python} -IS
import _socket, posix, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({path!r})
arguments = [argument.encode(errors="surrogateescape") for argument in [{tool!r}, *sys.argv[1:]]]
environment = [b"%s=%s" % each for each in posix.environ.items()]
request = b"\\0".join([b"%d" % len(arguments), *arguments, posix.getcwdb(), *environment])
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([len(request).to_bytes(8, "little")], [(1, 1, streams)])  # SOL_SOCKET, SCM_RIGHTS
sent = 0
while sent < len(request):
    sent += server.send(request[sent:])
status = server.recv(1)
posix._exit(status[0] if status else 134)
"""
TOOLS = ("weft", "weft-opt", "filecheck", "warm-python")
# Where test/run.py has started a server for all suites.
VARIABLE = "WEFT_WARM_TOOLS"


@functools.cache
def folder(filled: bool = False) -> Path:
    """A folder with programs that call the server of this run of tests; this process starts it if none runs.

    `filled` is whether the server has looked for extensions, dialects and passes before it forks.
    """
    return Path(os.environ.get(VARIABLE) or start()) / ("filled" if filled else "bare")


@functools.cache
def start() -> str:
    """Starts a server that ends with this process, and returns its folder. It imports when it is called."""
    made = tempfile.mkdtemp(prefix="weft-tools-")
    atexit.register(_remove, made, os.getpid())
    sockets = []
    for name in ("bare", "filled", "filecheck"):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(f"{made}/{name}.socket")
        sockets[-1].listen(64)
    for name in ("bare", "filled"):
        Path(made, name).mkdir()
        for tool in TOOLS:
            program = Path(made, name, tool)
            path = f"{made}/{tool if tool == 'filecheck' else name}.socket"
            program.write_text(_CLIENT.format(python=sys.executable, path=path, tool=tool))
            program.chmod(0o755)
    numbers = [each.fileno() for each in sockets]
    # The pipe closes when this process ends, even if it is killed.
    subprocess.Popen([sys.executable, __file__, *map(str, numbers)], stdin=subprocess.PIPE, pass_fds=numbers)
    for each in sockets:
        each.close()
    return made


def _remove(made: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(made, ignore_errors=True)


def serve(bare: socket.socket, filled: socket.socket, filecheck: socket.socket) -> None:
    """Forks for each call, until stdin closes. Forks of this process serve `filled` and `filecheck`."""
    if os.fork() == 0:
        bare.close()
        filled.close()
        if 0 in select.select([filecheck, 0], [], [])[0]:
            return
        # Without Weft's memory, a fork takes 5 ms less.
        _serve(filecheck, {"filecheck": importlib.import_module("filecheck.main").main})
        return
    filecheck.close()
    select.select([bare, filled, 0], [], [])
    mains = _mains()
    importlib.import_module("weft.compiler.channels").start = _start_worker
    if os.fork():
        filled.close()
        _serve(bare, mains)
    else:
        bare.close()
        if 0 not in select.select([filled, 0], [], [])[0]:
            _fill_caches(mains["weft-opt"])
            _serve(filled, mains)


def _serve(listening: socket.socket, mains) -> None:
    gc.freeze()  # a collection in a fork would copy the memory of all these objects
    while True:
        ready, _, _ = select.select([listening, 0], [], [])
        _reap()
        if 0 in ready:
            return
        call, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os._exit(_answer(call, mains))
        call.close()


def _reap() -> None:
    """Ends the forks that have exited. Their CPU time becomes part of this process's children's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _mains():
    for late in (
        "weft.emulator",
        "weft.compiler.stages",
        "weft.tools.opt",
        "weft.tools.product",
        "weft.tools.inputs",
        "weft.tools.isa_patterns",
        "weft.bench.implementations",
        "weft.bench.suites",
        "weft.launch.kernel",
        "cuda.pathfinder",
        "llvmlite.binding",
        "rich.table",
    ):
        importlib.import_module(late)
    programs = {"weft": "weft.tools.weft", "weft-opt": "weft.tools.weft_opt"}
    mains = {tool: importlib.import_module(program).main for tool, program in programs.items()}
    return mains | {"warm-python": _run_code}


class _Worker:
    """A forked process, as much of `subprocess.Popen` as `weft.compiler.worker` needs."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, None

    def poll(self) -> int | None:
        return self._reaped(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        return self._reaped(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reaped(self, flags: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _start_worker(command, phases, said):
    """`weft.compiler.channels.start` by a fork of this process, which has imported what the worker needs."""
    channels = importlib.import_module("weft.compiler.channels")
    ours, theirs = socket.socketpair()
    if (pid := os.fork()) == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            for number, file in enumerate((theirs, said, said)):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
            kept = {0, 1, 2, *phases.inherited}
            for number in {int(each.name) for each in Path("/dev/fd").iterdir()} - kept:
                with contextlib.suppress(OSError):
                    os.close(number)
            importlib.import_module(command[-1]).serve(["socket", phases.path])
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    return _Worker(pid), channels._Socket(ours)


def _fill_caches(weft_opt) -> None:
    """Runs a pass over an empty module, so that calls find their dialects and passes loaded, and Weft's files
    read, which are in the keys of the cache.
    """
    with tempfile.NamedTemporaryFile(suffix=".mlir") as empty:
        if weft_opt([empty.name, "--lower-mma", "-o", os.devnull]):
            raise SystemExit("weft-opt refuses an empty module")
    importlib.import_module("weft.compiler.cache_keys").lowering()


def _run_code() -> None:
    """`warm-python -c CODE` or `warm-python FILE ARGUMENTS`"""
    if sys.argv[1] == "-c":
        exec(compile(sys.argv[2], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = sys.argv[1:]
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))  # noqa: PTH100, PTH120
        runpy.run_path(sys.argv[0], run_name="__main__")


def _answer(call, mains) -> int:
    """Runs a tool as the caller's process would, and sends its exit status."""
    streams = array.array("i")
    head, ancillary, _, _ = call.recvmsg(8, socket.CMSG_LEN(3 * streams.itemsize))
    streams.frombytes(ancillary[0][2])
    size, data = int.from_bytes(head, "little"), b""
    while len(data) < size:
        data += call.recv(size - len(data))
    count, *fields = map(os.fsdecode, data.split(b"\0"))
    tool, *arguments = fields[: int(count)]
    directory, *environment = fields[int(count) :]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # As Python creates them at its start.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace", buffering=1)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variable.split("=", 1) for variable in environment)
    sys.argv = [tool, *arguments]
    waiting = os.getpid()
    try:
        status = mains[tool]()
    except SystemExit as exit_:
        status = exit_.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    status = int(status or 0) & 255
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # the reader has closed the pipe
        sys.stdout.flush()
        sys.stderr.flush()
    if os.getpid() == waiting:  # a process that the tool has forked returns here, too
        call.send(bytes([status]))
    return status


if __name__ == "__main__":
    serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
