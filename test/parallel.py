"""Runs pytest's tests in several processes: `python test/parallel.py ARGUMENTS`

One process collects the tests, then forks. Processes that each collect all tests, as those of pytest-xdist,
would take as long for that as for many tests: it is used where a GPU is. A test fails if its process ends
or if it runs for too long; the process is then replaced.
"""

import atexit
import contextlib
import fcntl
import mmap
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from itertools import groupby
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from weft.launch import runtime
from weft.system import processes

# The number of a process of tests, in its environment.
VARIABLE = "WEFT_TEST_PROCESS"
MOST_PROCESSES = 8  # because of memory
# Besides one for each core, since tests wait: for other programs, and for time to pass.
MORE_PROCESSES = 1
# Seconds after which a test has hung; the second is of slow tests, such as hours of mutated input.
LIMITS = 600, 7200
_DYING = 10  # seconds in which a process must end that was asked to print its stacks and end
_NONE = -1


class _Queue:
    """What is left of the tests, in memory that all processes share. Tests are numbered in order."""

    def __init__(self, files: list[str], processes: int) -> None:
        ends = [0]
        for _, tests in groupby(files):
            ends.append(ends[-1] + len(list(tests)))
        self._ends = [end for end, before in zip(ends[1:], ends, strict=False) for _ in range(end - before)]
        self._processes = processes
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 (a lock of it ends with its process)
        # The first test that nobody has taken, then what each process runs, runs next, and has taken up to.
        self._shared = memoryview(mmap.mmap(-1, 8 * (1 + 3 * processes))).cast("q")
        for process in range(processes):
            self.write(process, _NONE, _NONE, 0)

    def read(self, process: int) -> tuple[int, int, int]:
        running, following, end = self._shared[1 + 3 * process : 4 + 3 * process]
        return running, following, end

    def write(self, process: int, running: int, following: int, end: int) -> None:
        for place, value in enumerate((running, following, end), 1 + 3 * process):
            self._shared[place] = value

    def proceed(self, process: int) -> tuple[int, int]:
        """The test that `process` runs now, and the one after it; `_NONE` where there is none."""
        _, running, end = self.read(process)
        if running == _NONE:
            running, end = self._take()
        following, after = (running + 1, end) if running + 1 < end else self._take()
        self.write(process, running, following, after)
        return running, following

    def _take(self) -> tuple[int, int]:
        """The rest of a file's tests, whose fixtures are shared, or fewer of them when few tests are left."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            begin, left = self._shared[0], len(self._ends) - self._shared[0]
            if not left:
                return _NONE, 0
            end = min(self._ends[begin], begin + max(1, left // (4 * self._processes)))
            self._shared[0] = end
            return begin, end
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def clear(self) -> None:
        """Leaves out what no process has taken."""
        self._shared[0] = len(self._ends)


class _Process:
    """One that runs tests, in the process that started it."""

    def __init__(self, pid: int, number: int, messages: multiprocessing.connection.Connection) -> None:
        self.pid, self.number, self.messages = pid, number, messages
        self.running, self._since, self.hung = _NONE, 0.0, False

    def watch(self, running: int, limit: float) -> None:
        """Ends the process if its test has run for longer than `limit`."""
        if running != self.running:
            self.running, self._since, self.hung = running, time.monotonic(), False
        elif running != _NONE and time.monotonic() - self._since > limit + _DYING * self.hung:
            children = list(_descendants(self.pid))  # such as a tool, for which the test waits
            # SIGABRT makes pytest's faulthandler print the stacks.
            os.kill(self.pid, signal.SIGKILL if self.hung else signal.SIGABRT)
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.hung = True

    def received(self):
        with contextlib.suppress(EOFError, OSError):  # OSError: it was killed while it sent
            while self.messages.poll():
                yield self.messages.recv()

    def status(self) -> int | None:
        """What it has ended with; None as long as it runs. Negative for a signal, as in `subprocess`."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # `status` has said that it ended
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _descendants(pid: int):
    """The children of a process, and theirs; none where the system doesn't list them."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            for child in map(int, path.read_text().split()):
                yield from _descendants(child)
                yield child


class Processes:
    """A plugin of pytest that runs the collected tests in forks."""

    def __init__(self, count: int, limits: tuple[float, float] = LIMITS) -> None:
        self._count, self._limits = count, limits
        self._send = None  # in a fork, what sends a message to the process that forked

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        option = session.config.option
        if option.collectonly or session.testsfailed or getattr(option, "dist", "no") != "no":
            return None  # pytest itself stops there, and pytest-xdist has processes of its own with -n
        bridge = sys.modules.get("jax._src.xla_bridge")
        if bridge is not None and bridge.backends_are_initialized():
            raise pytest.UsageError(
                "files of tests must not make arrays of JAX when they are imported: "
                "its threads don't exist in forks"
            )
        if (reporter := session.config.pluginmanager.get_plugin("terminalreporter")) is not None:
            reporter.showfspath = False  # tests of several files run at once
        session.config._tmp_path_factory.getbasetemp()  # the forks' folders are in it
        queue = _Queue([item.nodeid.partition("::")[0] for item in session.items], self._count)
        living = []
        try:
            for number in range(self._count):
                living.append(self._start(session, queue, number, living))
            while living:
                multiprocessing.connection.wait([each.messages for each in living], timeout=0.2)
                time.sleep(0.05)  # reads several messages at once
                for process in list(living):
                    status = process.status()
                    for kind, *values in process.received():
                        getattr(self, f"_{kind}")(session, *values)
                    running, _, _ = queue.read(process.number)
                    if status is None:
                        process.watch(running, self._limit(session, running))
                        continue
                    living.remove(process)
                    if status or running != _NONE:
                        self._failed(session, running, status, process.hung)
                        living.append(self._start(session, queue, process.number, living))
                if session.shouldfail or session.shouldstop:
                    queue.clear()
        finally:
            for process in living:
                process.kill()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _report(self, session, data):
        hook = session.config.hook
        report = hook.pytest_report_from_serializable(config=session.config, data=data)
        hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)

    def _warning(self, session, text, category, filename, line, values):
        made = warnings.WarningMessage(text, type(category, (Warning,), {}), filename, line)
        session.config.hook.pytest_warning_recorded.call_historic(kwargs=values | {"warning_message": made})

    def _exit(self, session, message, status):
        """Ends the run, as a test has asked."""
        pytest.exit(message, status)

    def _limit(self, session, running) -> float:
        slow = running != _NONE and session.items[running].get_closest_marker("slow") is not None
        return self._limits[slow]

    def _failed(self, session, running, status, hung):
        """Reports that a process has ended in a test, whatever its status."""
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        if running == _NONE:
            raise RuntimeError(f"a process of tests has ended with {how} and ran no test")
        item = session.items[running]
        said = f"the process that ran this test has ended with {how}"
        if hung:
            limit = self._limit(session, running)
            said = f"a test must end within {limit:g} s, or be marked as slow; this one was ended with {how}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        session.config.hook.pytest_runtest_logreport(report=report)

    def _start(self, session, queue, number, others):
        receives, sends = multiprocessing.connection.Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        if pid := os.fork():
            sends.close()
            return _Process(pid, number, receives)
        status = 1
        try:
            for messages in (receives, *(each.messages for each in others)):
                messages.close()
            self._send = sends.send
            try:
                self._run(session, queue, number)
            except pytest.exit.Exception as error:
                self._send(("exit", error.msg, error.returncode))
            atexit._run_exitfuncs()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _run(self, session, queue, number):
        """Runs tests in a fork until none is left."""
        config = session.config
        os.environ[VARIABLE] = str(number)
        # These processes use all cores. Emulators that spread CTAs would compute them at the same time, and
        # some a second time.
        processes.cores = lambda: 1
        atexit._clear()  # what the collecting process does at its end
        if (reporter := config.pluginmanager.get_plugin("terminalreporter")) is not None:
            config.pluginmanager.unregister(reporter)
        if (capture := config.pluginmanager.get_plugin("capturemanager")) is not None:
            # Forks would write to the same files at the same places.
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        factory = config._tmp_path_factory
        factory._basetemp = factory.getbasetemp() / f"process-{number}"
        factory._basetemp.mkdir(mode=0o700, exist_ok=True)
        while (pair := queue.proceed(number))[0] != _NONE:
            item, following = (None if each == _NONE else session.items[each] for each in pair)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """In a fork, reports a test's call, and its setup and teardown if they don't pass or are timed."""
        if self._send is None:
            return None
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or item.config.option.durations is not None:
                hook = item.config.hook
                data = hook.pytest_report_to_serializable(config=item.config, report=report)
                self._send(("report", data))
        return True

    def pytest_warning_recorded(self, warning_message, when, nodeid, location):
        if self._send is not None:
            kept = {"when": when, "nodeid": nodeid, "location": location}
            category = warning_message.category.__name__
            place = warning_message.filename, warning_message.lineno
            self._send(("warning", str(warning_message.message), category, *place, kept))


def main(arguments: list[str]) -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if runtime.available() is None:
        # CUDA doesn't work in forks of a process that has looked for a GPU, which collecting does.
        count = str(min(usable, MOST_PROCESSES))
        return pytest.main(["-n", count, "--dist", "worksteal", *arguments])
    count = min(usable + MORE_PROCESSES, MOST_PROCESSES)
    return pytest.main(arguments, plugins=[Processes(count)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
