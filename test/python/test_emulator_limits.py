"""Progress, time limits and interrupts of launches, also of those that other functions make."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from emulator_ptx import module

import weft
from weft import WeftError, emulator

ENDLESS = """.visible .entry k(.param .u64 data) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [data]; mov.u32 %r1, %ctaid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, 64, %r3; mad.wide.u32 %rd2, %r1, 4, %rd1; mov.u32 %r2, 0;
L: add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; ret; }"""
SHORT = ".visible .entry k(.param .u64 data) { ret; }"


def launch(text, **options):
    return module(text).launch("k", grid=150, block=64, args=[np.zeros(9600, np.uint32)], **options)


def test_limits_are_those_of_launches_inside():
    seen, own = [], []
    with emulator.limits(progress=lambda done, total: seen.append((done, total)), threads=1):
        launch(SHORT)
        assert seen[-1] == (150, 150)
        count = len(seen)
        launch(SHORT, progress=lambda done, total: own.append(done))
        assert own[-1] == 150 and len(seen) == count
        with emulator.limits(max_seconds=0.2):
            launch(SHORT)
            assert len(seen) > count
            with pytest.raises(emulator.TimeLimit):
                launch(ENDLESS)
    count = len(seen)
    launch(SHORT)
    assert len(seen) == count


def test_numbers_beyond_those_of_floats_are_no_limit():
    launch(SHORT, max_seconds=10**400)


def test_other_threads_have_their_own_limits():
    seen = []
    with emulator.limits(progress=lambda done, total: seen.append(done)):
        thread = threading.Thread(target=launch, args=(SHORT,))
        thread.start()
        thread.join()
    assert not seen


def test_products_have_limits():
    a, seen = np.ones((64, 64), np.float16), []
    with emulator.limits(progress=lambda done, total: seen.append((done, total))):
        weft.matmul(a, a, arch="sm_90a")
    assert seen and seen[-1][0] == seen[-1][1]
    with emulator.limits(max_seconds=0), pytest.raises(emulator.TimeLimit):
        weft.matmul(a, a, arch="sm_90a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seconds": -1}, "max_seconds must be a number of at least 0, got -1"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"progress": 3}, "progress must be a function of two numbers, got 3"),
    ],
)
def test_limits_are_checked(options, message):
    with pytest.raises(WeftError, match=message), emulator.limits(**options):
        raise AssertionError


TOOL = "import sys; from weft.tools import weft; sys.exit(weft.main())"


def _descendants(process):
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [process]
    for each in found:
        found += [pid for pid, parent in parents if parent == each]
    return found[1:]


def _runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs ps and processes that are copied")
@pytest.mark.parametrize("tool", [False, True], ids=["python", "weft emulate"])
def test_an_interrupt_ends_a_launch_at_once(tool, tmp_path):
    path = tmp_path / "endless.ptx"
    path.write_text(".version 9.0\n.target sm_90\n.address_size 64\n" + ENDLESS)
    if tool:
        line = ["-c", TOOL, "emulate", str(path), "--grid", "150", "--block", "64"]
        line += ["--arg", "zeros:9600xu32", "--threads", "2", "--max-instructions", "0"]
    else:
        text = (
            f"import numpy as np; from weft import emulator; m = emulator.Module(open({str(path)!r}).read());"
        )
        line = ["-c", text + "m.launch('k', grid=150, block=64, args=[np.zeros(9600, np.uint32)], threads=2)"]
    with subprocess.Popen([sys.executable, *line], stderr=subprocess.PIPE, text=True) as process:
        try:
            children, end = [], time.monotonic() + 60
            while len(children) < 1 + tool and time.monotonic() < end and process.poll() is None:
                time.sleep(0.2)
                children = _descendants(process.pid)
            time.sleep(0.5)
            children = _descendants(process.pid)
            assert len(children) >= 1 + tool, process.poll()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(60)
            assert time.monotonic() - began < 10
            assert not any(map(_runs, children))
        finally:
            process.kill()
    assert process.returncode in ((130,) if tool else (1, -signal.SIGINT))
