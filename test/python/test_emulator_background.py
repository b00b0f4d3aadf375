"""Code of the emulator is compiled by another process, for which no launch waits."""

import contextlib
import copy
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from weft import WeftError, emulator
from weft.cache import disk_cache
from weft.emulator import background, native
from weft.emulator.compiled import tiers

pytestmark = pytest.mark.skipif(not background.forks(), reason="copies of a process don't work here")
ALONE = background.alone
COUNT = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n) {
  .reg .b32 %r<10>; .reg .b64 %rd<9>; .reg .pred %p;
  ld.param.u64 %rd1, [data]; ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r4, 0; mov.u32 %r5, 0;
L: xor.b32 %r5, %r5, %r4; mad.lo.u32 %r5, %r5, 5, %r1; add.u32 %r4, %r4, 1;
  setp.lt.u32 %p, %r4, %r9; @%p bra L;
  st.global.u32 [%rd1], %r5; ret; }"""


@pytest.fixture(autouse=True)
def without_other_threads(monkeypatch):
    """The process that runs tests in parallel has a thread for that, which does no harm here."""
    monkeypatch.setattr(background, "alone", lambda: True)
    monkeypatch.delenv("WEFT_EMULATOR_BACKGROUND", raising=False)


def waited(work, seconds=20):
    """The result, once it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (data := work.result()) is not None:
            return data
        time.sleep(0.005)
    return pytest.fail("no result")


def children():
    """The processes that this one has to wait for."""
    folder = Path(f"/proc/{os.getpid()}/task")
    return {each for task in folder.iterdir() for each in (task / "children").read_text().split()}


def launches(body, **environment):
    """What a script prints that has the kernel `k` of `COUNT` in a module and its `tier`."""
    head = f"""
import os, signal, sys, time
import numpy as np
from weft import emulator
from weft.cache import disk_cache
from weft.emulator import background, launch, native
from weft.emulator.compiled import tiers
tiers._WORTH, tiers._HOT = 50, 2
module = emulator.Module('''{COUNT}''')
def run(n, grid=1, **options):
    data = np.zeros(32 * grid, np.uint32)
    report = module.launch("k", grid=grid, block=32, args=[data, n], **options)
    return data.tobytes(), report
used, tier_of = [], launch.tier_of
launch.tier_of = lambda *args: used.append(tier_of(*args)) or used[-1]
def tier():
    return used[0]
def arrived():
    end = time.monotonic() + 30
    while not tier().ready and time.monotonic() < end:
        time.sleep(0.01)
    return tier().ready
def late(seconds):  # the other process
    detach = background._detach
    background._detach = lambda file: detach(file) or time.sleep(seconds)
"""
    env = {**os.environ, **environment}
    env.pop("WEFT_EMULATOR_COMPILED", None)
    env.pop("WEFT_EMULATOR_BACKGROUND", None)
    command = [sys.executable, "-c", head + body]
    done = subprocess.run(command, env=env | environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_bytes_come_from_another_process():
    before = children()
    works = [background.Work() for _ in range(3)]
    for number, work in enumerate(works):
        work.begin(lambda number=number: bytes([number]) * 300_000 + str(os.getpid()).encode())
    for number, work in enumerate(works):
        data = waited(work)
        assert data[:300_000] == bytes([number]) * 300_000
        assert int(data[300_000:]) != os.getpid()
    assert children() == before


def test_work_that_fails_or_is_killed_is_lost():
    works = [background.Work() for _ in range(2)]
    works[0].begin(lambda: 1 // 0)
    works[1].begin(lambda: os.kill(os.getpid(), signal.SIGKILL))
    for work in works:
        with pytest.raises(background.LostError):
            waited(work)
        assert not work.runs()


def test_work_ignores_interrupts_and_has_no_open_files():
    pipes = [os.pipe()]
    work = background.Work()
    pipes.append(os.pipe())

    def make():
        os.kill(os.getpid(), signal.SIGINT)
        for _, end in pipes:
            with contextlib.suppress(OSError):
                os.write(end, b"x")
                return b"open"
        return b"closed"

    work.begin(make)
    for _, end in pipes:
        os.close(end)
    assert waited(work) == b"closed"
    for end, _ in pipes:
        assert os.read(end, 1) == b""
        os.close(end)


def test_work_lets_go_of_what_the_first_process_has():
    def make():
        null = Path(os.devnull).stat().st_rdev
        streams = all(os.fstat(standard).st_rdev == null for standard in range(3))
        return bytes([streams, gc.isenabled(), signal.set_wakeup_fd(-1) != -1])

    here, there = os.pipe()
    os.set_blocking(there, False)
    old = signal.set_wakeup_fd(there)
    try:
        work = background.Work()
        work.begin(make)
        assert waited(work) == bytes([True, False, False])
    finally:
        signal.set_wakeup_fd(old)
        os.close(here)
        os.close(there)


def test_work_has_a_limit_of_cpu_time():
    resource = pytest.importorskip("resource")
    work = background.Work()
    work.begin(lambda: str(resource.getrlimit(resource.RLIMIT_CPU)[0]).encode())
    assert 0 < int(waited(work)) <= background._MOST_SECONDS


@pytest.mark.each_value(1)
@pytest.mark.parametrize("at", [signal.SIGINT, signal.SIGUSR1])
def test_handlers_of_signals_run_only_in_the_first_process(at, tmp_path, monkeypatch):
    log, before, fork = tmp_path / "log", children(), os.fork

    def handler(*_):
        with log.open("a") as file:
            file.write(f"{os.getpid()} ")

    def forked():
        os.kill(os.getpid(), at)
        made = fork()
        if made == 0 and at == signal.SIGINT:
            os.kill(os.getpid(), at)
        return made

    old = signal.signal(at, handler)
    try:
        monkeypatch.setattr(os, "fork", forked)
        works = [background.Work() for _ in range(2)]
        works[0].begin(lambda: b"done")
        works[1].begin(lambda: os.kill(os.getpid(), signal.SIGUSR1) or b"alive")
        assert waited(works[0]) == b"done"
        with pytest.raises(background.LostError):
            waited(works[1])
    finally:
        signal.signal(at, old)
    assert set(log.read_text().split()) == {str(os.getpid())}
    assert children() == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_an_interrupt_while_work_begins_leaves_it_running(monkeypatch):
    before, fork, this = children(), os.fork, threading.get_ident()  # another thread's signal isn't blocked
    monkeypatch.setattr(os, "fork", lambda: signal.pthread_kill(this, signal.SIGINT) or fork())
    work = background.Work()
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work.begin(lambda: b"done")
    finally:
        signal.signal(signal.SIGINT, old)
    assert waited(work) == b"done"
    assert children() == before


def test_work_is_lost_if_the_second_process_cannot_be_made(monkeypatch):
    here, fork = os.getpid(), os.fork

    def forked():
        if os.getpid() != here:
            raise BlockingIOError
        return fork()

    monkeypatch.setattr(os, "fork", forked)
    work = background.Work()
    work.begin(lambda: b"done")
    with pytest.raises(background.LostError):
        waited(work)


def test_a_result_that_comes_while_one_looks_is_not_lost(monkeypatch):
    work, states = background.Work(), iter([(background._BEGUN, 0), (background._DONE, 0)])
    monkeypatch.setattr(work, "_state", lambda: next(states))
    assert work.result() == b""


def test_copies_of_a_process_do_the_work_once(tmp_path):
    work = background.Work()

    def make():
        with (tmp_path / "made").open("a") as file:
            file.write("x")
        return b"done"

    copies = []
    for _ in range(3):
        if (copy := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                work.begin(make)
                os._exit(waited(work) != b"done")
            os._exit(2)
        copies.append(copy)
    assert [os.waitpid(copy, 0)[1] for copy in copies] == [0, 0, 0]
    assert waited(work) == b"done"
    assert (tmp_path / "made").read_text() == "x"


@pytest.mark.filterwarnings("error")
def test_work_begins_once_and_closes_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "_begun", [])
    work, log = background.Work(), tmp_path / "log"

    def make():
        with log.open("a") as file:
            file.write("x")
        return b"done"

    for _ in range(3):
        work.begin(make)
        assert waited(work) == b"done"
    time.sleep(0.05)
    assert log.read_text() == "x"
    background._begun.clear()
    file = work._file
    del work
    gc.collect()
    assert file.closed


def test_no_more_work_than_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(background.processes, "cores", lambda: 2)
    monkeypatch.setattr(background, "_begun", [])
    works, may_end = [background.Work() for _ in range(2)], tmp_path / "may_end"

    def work_on():
        while not may_end.exists():
            time.sleep(0.01)
        return b""

    for work in works:
        assert not background.busy()
        work.begin(work_on)
    assert background.busy()
    may_end.touch()
    for work in works:
        waited(work)
    assert not background.busy()


@pytest.mark.waits
def test_a_launch_goes_on_until_the_code_is_there():
    said = launches(
        """
late(1)
begin = time.monotonic()
first, report = run(300)
print(time.monotonic() - begin < 1, tier().ready, arrived())
again, counted = run(300)
print(first == again, report == counted)
"""
    )
    assert said.split() == ["True", "False", "True", "True", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("directory", ["", "missing", "read-only"])
def test_code_arrives_in_the_middle_of_a_launch(directory, tmp_path):
    folder = tmp_path / directory
    if directory == "read-only":
        folder.write_text("")  # no directory: users that may write anything can't write here, either
    cache = {"WEFT_CACHE_DIR": str(folder)} if directory else {"WEFT_CACHE": "0"}
    said = launches(
        """
from weft.emulator.compiled import runtime
made, init = [], runtime.Runtime.__init__
runtime.Runtime.__init__ = lambda self, *args: made.append(1) or init(self, *args)
print(run(2_000_000, threads=1)[1].instructions, len(made))
""",
        **cache,
    )
    assert said.split() == ["10000012", "1"]
    assert not list(tmp_path.glob("**/.new-*"))


@pytest.mark.slow
def test_parallel_copies_get_the_code():
    said = launches(
        """
fast = run(2000, grid=400, threads=2)
print(fast[0] == run(2000, grid=400, threads=1, compiled=True)[0], not fast[1].findings)
"""
    )
    assert said.split() == ["True", "True"]


@pytest.mark.slow
def test_a_process_ends_at_once_and_the_cache_gets_the_code(tmp_path):
    begin = time.monotonic()
    launches(
        """
late(3)
run(300)
assert tier()._work is not None
""",
        WEFT_CACHE_DIR=str(tmp_path),
    )
    ended = time.monotonic() - begin
    while not list(tmp_path.glob("library-*")) and time.monotonic() < begin + 60:
        time.sleep(0.05)
    assert ended < time.monotonic() - begin - 1
    assert list(tmp_path.glob("library-*"))


@pytest.mark.slow
def test_a_lost_process_gives_one_warning():
    said = launches(
        """
background._detach = lambda file: os.kill(os.getpid(), signal.SIGKILL)
for _ in range(8):
    run(300)
    time.sleep(0.01)
print(tier().ready)
"""
    )
    assert said.count("ended early") == 1 and "False" in said


def test_threads_and_a_variable_compile_within_the_launch(monkeypatch):
    assert background.possible()
    monkeypatch.setenv("WEFT_EMULATOR_BACKGROUND", "0")
    assert not background.possible()
    monkeypatch.undo()
    monkeypatch.delenv("WEFT_EMULATOR_BACKGROUND", raising=False)
    monkeypatch.setitem(sys.modules, "jax", sys)
    assert not background.possible()


def test_processes_with_threads_are_not_copied(monkeypatch):
    monkeypatch.setattr(background, "_THREADED", {"a_library"})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert ALONE()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "active_count", lambda: 2)
        assert not ALONE()
    monkeypatch.setitem(sys.modules, "a_library", sys)
    assert not ALONE()


@pytest.mark.parametrize("name", ["WEFT_EMULATOR_BACKGROUND", "WEFT_EMULATOR_COMPILED"])
def test_variables_are_checked(name, monkeypatch):
    module = emulator.Module(COUNT)
    for value in ("", "0", "1", "no"):
        monkeypatch.setenv(name, value)
        if value == "no":
            with pytest.raises(WeftError, match=f"{name} must be 0 or 1, got 'no'"):
                module.launch("k", block=32, args=[np.zeros(32, np.uint32), 1])
        else:
            module.launch("k", block=32, args=[np.zeros(32, np.uint32), 1])


def test_a_program_lives_no_longer_for_its_tier():
    class Program:
        codes, tier = (), None

    program = Program()
    first = tiers.tier_of(program, None)
    assert tiers.tier_of(program, None) is first
    assert tiers.tier_of(copy.copy(program), None) is not first
    known = weakref.ref(program)
    del program, first
    gc.collect()
    assert known() is None


@pytest.mark.slow
def test_launches_compile_after_an_interrupt_and_without_processes():
    said = launches(
        """
begin = background.Work.begin
def interrupted(*args):
    background.Work.begin = begin
    raise KeyboardInterrupt
background.Work.begin = interrupted
try:
    run(3000)
except KeyboardInterrupt:
    print("interrupted")
run(30000)
print(arrived())
def refused():
    raise BlockingIOError
os.fork = refused
module = emulator.Module('''TEXT''')
used.clear()
print(run(3000)[0] == run(3000, compiled=False)[0], used[0].ready)
""".replace("TEXT", COUNT)
    )
    assert said.split() == ["interrupted", "True", "True", "True"]


def test_a_library_comes_from_another_process(monkeypatch, tmp_path):
    cache, made = disk_cache.Cache(tmp_path), []
    monkeypatch.setattr(disk_cache, "default", lambda: cache)

    def library():
        text = "define i64 @f() { ret i64 7 }"
        return native.Library("a library", lambda: made.append(1) or text, ["f"])

    first = library()
    assert first.when_ready() is None
    end = time.monotonic() + 20
    while first.when_ready() is None and time.monotonic() < end:
        time.sleep(0.005)
    assert list(first.when_ready()) == ["f"]
    assert list(library().when_ready()) == ["f"]  # at once, by the cache
    assert not made
    monkeypatch.setenv("WEFT_EMULATOR_BACKGROUND", "0")
    cache.directory = None
    assert list(library().when_ready()) == ["f"]
    assert made


def test_a_library_whose_process_is_lost_stays_with_the_interpreter():
    library = native.Library("a library", lambda: os.kill(os.getpid(), signal.SIGKILL), ["f"])
    with pytest.warns(UserWarning, match="ended early"):
        end = time.monotonic() + 20
        while not library._lost and time.monotonic() < end:
            assert library.when_ready() is None
            time.sleep(0.005)
    assert library.when_ready() is None
