"""A tool's work in a new process that starts the tool again, for systems where forks aren't safe.

As `forked` does, the parent waits and passes on the exit status, and stderr of native code is held back.
"""

import contextlib
import io
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import IO

from weft.errors import WeftError
from weft.system import memory_files, phase, processes
from weft.tools import cli, work_process

_PATIENCE_SECONDS = 2.0  # after an interrupt, for the work to end by itself
_POLL_SECONDS = 0.05
_WORK = (
    "import json, sys; given = json.loads(sys.argv.pop(1)); sys.path[:] = given.pop('path'); "
    "from weft.tools import spawned; sys.exit(spawned.work(**given))"
)


def run(tool: str) -> int:
    """The exit status of `tool` with this process's arguments. Where the process that does its work dies, or
    there is none to be had, prints why and returns 1.
    """
    sys.stdout.flush() if sys.stdout else None
    try:
        with (
            memory_files.memory_file() as said,
            memory_files.memory_file() as kept,
            memory_files.memory_file(bytes(8192)) as phases,
        ):
            process = _started(tool, said, kept, phases)
            status = _ended(process, tool)
            if work_process.crashed(status):
                printed = said.content().decode("utf-8", "replace")
                told = io.BytesIO(kept.content())
                where = phase.read(phases.content())
                cli.report(work_process.death(status, where, printed, cli.Kept.read(told)), tool)
                return 1
            if sys.stderr is not None:
                sys.stderr.flush()
                os.write(2, said.content())
            return status
    except WeftError as error:
        cli.report(error.diagnostics, tool)
        return 1


def _started(tool: str, *files: memory_files.MemoryFile) -> "subprocess.Popen[bytes]":
    """The process that does the work. Raises WeftError if it doesn't start."""
    said, kept, phases = files
    given = {
        "path": [str(Path(folder).absolute()) for folder in sys.path if folder],
        "tool": tool,
        "program": sys.argv[0],
        "parent": os.getpid(),
        "said": None if work_process.prints_ir() else said.path,
        "kept": kept.path,
        "phases": phases.path,
    }
    command = processes.python("-c", _WORK, json.dumps(given), *sys.argv[1:])
    inherited = [descriptor for file in files for descriptor in file.inherited]
    try:
        return subprocess.Popen(command, pass_fds=inherited)
    except OSError as error:
        raise processes.refusal("cannot start a process", error) from None


def _ended(process: "subprocess.Popen[bytes]", tool: str) -> int:
    """The exit status of the process; 130 if the user interrupted it, and it was killed for that."""
    interrupted: float | None = None
    while True:
        try:
            status = process.wait(_POLL_SECONDS)
            return 130 if interrupted and work_process.crashed(status) else status
        except subprocess.TimeoutExpired:
            if interrupted is not None and time.monotonic() > interrupted + _PATIENCE_SECONDS:
                process.kill()
                cli.tell_interrupted(tool)
                interrupted = float("inf")
        except KeyboardInterrupt:
            # A terminal interrupts both processes, `kill` only this one. The work ignores a second interrupt.
            interrupted = interrupted or time.monotonic()
            if sys.platform != "win32":
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)


def work(tool: str, program: str, parent: int, said: str | None, kept: str, phases: str) -> int:
    """Runs in the new process: `tool` with its arguments, and returns its exit status."""
    phase.end_with_parent(parent)
    with contextlib.ExitStack() as files:
        opened = files.enter_context(Path(phases).open("r+b"))
        work_process.hold_back(None if said is None else files.enter_context(_appended(said)))
        phase.share(mmap.mmap(opened.fileno(), 0))
        cli.keep_for_crash(files.enter_context(_appended(kept)))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, work_process.interrupt_once)
        sys.argv[0] = program
        status: int = import_module(f"weft.tools.{tool.replace('-', '_')}").main()
        phase.enter("ending")
        return status


def _appended(path: str) -> IO[bytes]:
    return Path(path).open("ab", buffering=0)
