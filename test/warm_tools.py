"""Runs weft, weft-opt, FileCheck and Python in forks of a process that has imported them.

A tool's imports take half a second of CPU time, and lit calls tools about six hundred times: `Popen`, by
which lit starts programs, forks lit's own process. For other tests there are programs in `folder()`, which
send their arguments, directory, environment and standard streams to a server that forks. Workers of the
tools, for LLVM and MLIR, are forks too; other tests start them as users' processes do.
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
import traceback
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
TOOLS = ("weft", "weft-opt", "warm-python")
# What most calls, or a tenth of them, import only when they need it.
_LATE = (
    "weft.emulator",
    "weft.compiler.stages",
    "weft.tools.findings",
    "weft.tools.inputs",
    "weft.tools.isa_patterns",
    "weft.tools.opt",
    "weft.tools.product",
    "weft.bench.gpu",
    "weft.bench.implementations",
    "weft.bench.suites",
    "weft.launch.kernel",
    "cuda.pathfinder",
    "llvmlite.binding",
    "numpy.ma",
    "rich.console",
    "rich.table",
    "torch_mlir.dialects.linalg",
    "torch_mlir.dialects.tensor",
)
# Where test/run.py has started a server for all processes.
VARIABLE = "WEFT_WARM_TOOLS"


@functools.cache
def folder() -> Path:
    """A folder with programs that call the server of this run of tests, which this starts if none runs."""
    return Path(os.environ.get(VARIABLE) or start())


@functools.cache
def start() -> str:
    """Starts a server that ends with this process, and returns its folder. It imports when it is called."""
    made = tempfile.mkdtemp(prefix="weft-tools-")
    atexit.register(_remove, made, os.getpid())
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{made}/socket")
    listening.listen(64)
    for tool in TOOLS:
        program = Path(made, tool)
        program.write_text(_CLIENT.format(python=sys.executable, path=f"{made}/socket", tool=tool))
        program.chmod(0o755)
    number = listening.fileno()
    # The pipe closes when this process ends, even if it is killed.
    subprocess.Popen([sys.executable, __file__, str(number)], stdin=subprocess.PIPE, pass_fds=[number])
    listening.close()
    return made


def _remove(made: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(made, ignore_errors=True)


def serve(listening: socket.socket) -> None:
    """Forks for each call, until stdin closes."""
    select.select([listening, 0], [], [])  # imports take time, and there may be no call
    mains = _mains()
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
    for late in _LATE:
        importlib.import_module(late)
    importlib.import_module("weft.compiler.channels").start = _start_worker
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
    requests, answers = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            for number, descriptor in enumerate((requests[0], answers[1], said.fileno())):
                os.dup2(descriptor, number)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
            kept = {0, 1, 2, *phases.inherited}
            for number in {int(each.name) for each in Path("/dev/fd").iterdir()} - kept:
                with contextlib.suppress(OSError):
                    os.close(number)
            importlib.import_module(command[-1]).serve([phases.path])
            status = 0
        finally:
            os._exit(status)
    os.close(requests[0])
    os.close(answers[1])
    ours = os.fdopen(answers[0], "rb", buffering=0), os.fdopen(requests[1], "wb", buffering=0)
    return _Worker(pid), channels.Channel(*ours)


def _run_code() -> None:
    """`warm-python -c CODE ARGUMENTS` or `warm-python FILE ARGUMENTS`"""
    if sys.argv[1] == "-c":
        code = sys.argv[2]
        sys.argv = ["-c", *sys.argv[3:]]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
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
    os.chdir(directory)
    called = os.getpid()
    status = _run(tool, mains[tool], arguments, dict(each.split("=", 1) for each in environment))
    if os.getpid() == called:  # a process that the tool has forked returns here, too
        call.send(bytes([status]))
    return status


def _run(tool, main, arguments, environment) -> int:
    """Runs a tool in this process, which then ends, and returns its exit status."""
    # What the imports have registered takes longer than to fork, and frees what the end of the process frees.
    atexit._clear()
    atexit.register(importlib.import_module("weft.compiler.worker")._stop_all)
    # As Python creates them at its start.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace", buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [tool, *arguments]
    try:
        status = main()
    except SystemExit as exit_:
        status = exit_.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # the reader has closed the pipe
        sys.stdout.flush()
        sys.stderr.flush()
    return int(status or 0) & 255


@functools.cache
def tools_of_lit():
    """The tools that lit calls, by their programs. They have looked for extensions, dialects and passes, and
    read Weft's files, which are in the keys of the cache. A crash ends the fork, with no message.
    """
    mains = _mains()
    with tempfile.NamedTemporaryFile(suffix=".mlir") as empty:
        if mains["weft-opt"]([empty.name, "--lower-mma", "-o", os.devnull]):
            raise SystemExit("weft-opt refuses an empty module")
    importlib.import_module("weft.compiler.cache_keys").lowering()
    importlib.import_module("weft.system.phase").share(bytearray(1 << 13))
    mains["filecheck"] = importlib.import_module("filecheck.main").main
    gc.freeze()
    beside = Path(sys.executable).parent
    return {str(beside / tool): main for tool, main in mains.items()}


class Popen(subprocess.Popen):
    """`subprocess.Popen`, which starts tools of this environment by forks of this process."""

    def __init__(self, args, *, executable=None, env=None, **options) -> None:
        if (main := tools_of_lit().get(executable)) is not None:
            # Called in the fork, with its streams and directory; no program is executed.
            options["preexec_fn"] = functools.partial(_become, executable, main, args[1:], env)
        super().__init__(args, executable=executable, env=env, **options)


def _become(program, main, arguments, environment) -> None:
    status = 1
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        status = _run(Path(program).name, main, arguments, environment)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
