"""`weft debug`: sessions from scripts and stdin, on PTX, .mlir files and Python files."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import warm_tools
from test_hooks import KERNEL

from weft.errors import WeftError
from weft.tools import weft as tool
from weft.tools.debugger import expressions

KERNEL_LINES = KERNEL.replace("/home/user/total.py", "total.py")


class Typed(io.StringIO):
    """What a user types. The key Ctrl-C at the end of a line is pressed 0.3 s later."""

    def readline(self):
        line = super().readline()
        if line.endswith("^C\n"):
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        return line.replace("^C\n", "\n")


@pytest.fixture
def session(tmp_path, patch, capsys):
    """Runs `weft debug` on a file of this text with commands on stdin; returns what it printed, and its
    status.
    """
    patch.chdir(tmp_path)

    def run(name, text, commands, *options):
        (tmp_path / name).write_text(text)
        patch.setattr(sys, "stdin", Typed("\n".join(commands) + "\n"))
        status = tool.main(["debug", name, *options])
        printed = capsys.readouterr()
        return printed.out + printed.err, status

    return run


TOTAL = ("--arg", "zeros:8xu32", "--arg", "zeros:64xu32", "--arg", "u32:8", "--block", "64")


def answers(text):
    """What each command answered, by the command."""
    parts = re.split(r"^\(weft\) (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)) | {"": parts[0]}


def each(text, command):
    """What each of several equal commands answered."""
    parts = re.split(r"^\(weft\) (.*)\n", text, flags=re.MULTILINE)
    return [answer for said, answer in zip(parts[1::2], parts[2::2], strict=True) if said == command]


def test_breaks_steps_and_shows_a_ptx_kernel(session):
    commands = ["break 13", "continue", "print %r4", "print/x %rd1", "next", "step", "stepi", "where", "quit"]
    text, status = session("total.ptx", KERNEL_LINES, commands, *TOTAL)
    said = answers(text)
    assert said[""] == "kernel total is about to run: grid (1, 1, 1), block (64, 1, 1), 1 CTA\n"
    assert said["break 13"] == "breakpoint 1 at total.py:13\n"
    assert said["continue"].startswith(
        "breakpoint 1, cta (0, 0, 0) warp 0 lanes 0-31 and 1 more warp\n"
        "[cta (0, 0, 0) warp 0 lane 0] total at total.py:13\n"
    )
    assert said["print %r4"] == "%r4 = 0\n"
    assert said["print/x %rd1"] == "%rd1 = 0x0000000200000000\n"
    assert "total.py:12\n" in said["next"]
    assert "breakpoint 1" in said["step"]  # line 13 again, in the next iteration
    assert said["stepi"].endswith("PTX 26  add.u32 %r4, %r4, 1;\n") or "add.u32 %r4" in said["stepi"]
    assert "total at " in said["where"]
    assert status == 0


def test_conditions_counts_and_focus(session):
    commands = [
        "break 13 if warp == 1 and lane in_error",
        "break 13 if warp == 1 and lane == 5 and %r4 == 3",
        "tbreak 15 if tid.x > 40",
        "info breakpoints",
        "continue",
        "print cta, lane",
        "print (cta.x, lane)",
        "print/w lane + 100",
        "continue",
        "print tid",
        "focus warp 0 lane 2",
        "info threads",
        "info warps",
        "info breakpoints",
        "delete",
        "continue",
    ]
    text, status = session("total.ptx", KERNEL_LINES, commands, *TOTAL)
    said = answers(text)
    assert said["break 13 if warp == 1 and lane in_error"].startswith("error: expects an expression")
    assert "breakpoint 1, cta (0, 0, 0) warp 1 lane 5\n[cta (0, 0, 0) warp 1 lane 5]" in text
    assert said["print (cta.x, lane)"] == "(cta.x, lane) = (0, 5)\n"
    assert "lanes  8-15 108  109  110  111" in said["print/w lane + 100"]
    assert "temporary breakpoint 2, cta (0, 0, 0) warp 1 lanes 9-31" in text
    assert said["print tid"] == "tid = (41, 0, 0)\n"
    assert said["focus warp 0 lane 2"].startswith("[cta (0, 0, 0) warp 0 lane 2] total at total.py:16")
    assert "lanes 0-6 (threads (0, 0, 0) to (6, 0, 0)): total.py:16" in said["info threads"]
    assert "* cta (0, 0, 0) warp 0 lanes 0-6: total.py:16" in said["info warps"]
    assert text.count("temporary breakpoint 2 ") == 1 and text.count("hit 1 time") == 1
    assert "kernel total has ended" in text and status == 0


def test_watchpoints(session):
    commands = [
        "watch y[3]",
        "step",
        "watch y[3]",
        "rwatch shared buffer",
        "rwatch shared 12",
        "watch shared 0xc 4",
        "awatch y[70]",
        "info breakpoints",
        "continue",
        "x shared 12 4",
        "continue",
        "continue",
        "continue",
        "continue",
    ]
    options = ("--arg", "random:8xu32", *TOTAL[2:])
    text, _ = session("total.ptx", KERNEL_LINES, commands, *options)
    said = answers(text)
    assert "error: no thread runs yet: continue to a breakpoint, or step to the first line" in text
    assert (
        said["awatch y[70]"]
        == "error: y has 64 elements: index 70 is out of bounds for axis 0 with size 64\n"
    )
    assert "no variable 'buffer' here" in said["rwatch shared buffer"]
    assert said["info breakpoints"].split("\n")[:3] == [
        "1  watch y[3]",
        "2  rwatch shared 0xc of cta (0, 0, 0)",
        "3  watch shared 0xc of cta (0, 0, 0)",
    ]
    stops = [answer.split("[cta")[0] for answer in each(text, "continue")]
    assert stops[0].startswith(
        "watchpoint 3: shared 0xc of cta (0, 0, 0), cta (0, 0, 0) warp 0 lane 3\n  old "
    )
    assert stops[1].startswith("rwatch 2: shared 0xc of cta (0, 0, 0): load, cta (0, 0, 0) warp 1 lane")
    assert stops[2].startswith("watchpoint 1: y[3], cta (0, 0, 0) warp 0 lane 3\n  old 0\n  new ")
    assert stops[3].startswith("watchpoint 1: y[3], ") and stops[4].startswith("kernel total has ended\n")
    lines = [re.findall(r"total.py:\d+", answer) for answer in each(text, "continue")]
    assert lines == [["total.py:16"], ["total.py:18"], ["total.py:19"], ["total.py:19"], []]
    new = re.search(r"watchpoint 3: .*\n  old 00 00 00 00\n  new (.*)\n", text)
    assert new is not None and said["x shared 12 4"] == f"0x0000000c  {new[1]}\n"


def test_bad_input_gets_answers(session):
    commands = [
        "break 9",
        "break total.py:120",
        "break other.py:3",
        "break ptx:3",
        "break nowhere",
        "break 13 if wrap == 1",
        "break 13 if %r77 == 1",
        "frobnicate",
        "contnue",
        "print x",
        "step",
        "print nosuch",
        "print %r99",
        "print 1 +",
        "print __import__('os')",
        "print y[0:2, 5]",
        "print/q 1",
        "info nosuch",
        "info registers [",
        "warp 9",
        "lane 32",
        "cta 4",
        "x shared 600",
        "tile shared 0 8x8xbf17",
        "tile shared 0 64x64xf32",
        "matrix d",
        "delete 7",
        "finish",
        "until 2",
        "continue 0",
        "watch nothing",
        "help nosuch",
        "help step",
        "help",
        "list 900",
        "quit",
    ]
    text, status = session("total.ptx", KERNEL_LINES, commands, *TOTAL)
    said = answers(text)
    expected = {
        "break 9": "error: total.py:9 has no code: the nearest line with code is 10",
        "break total.py:120": "error: total.py:120 has no code: the nearest line with code is 19",
        "break other.py:3": "error: no file 'other.py': total has code of total.py",
        "break ptx:3": "error: PTX line 3 has no instruction: the nearest line with code is 9",
        "break nowhere": "error: expects LINE, FILE:LINE, ptx:LINE or a function, got 'nowhere'",
        "break 13 if wrap == 1": "error: no variable 'wrap' in total: there are block, cluster, cta",
        "break 13 if %r77 == 1": "error: no variable '%r77' in total",
        "frobnicate": "error: no command 'frobnicate': help lists them",
        "contnue": "error: no command 'contnue'; did you mean 'continue'?: help lists them",
        "print x": "error: no thread runs yet",
        "print nosuch": "error: no variable 'nosuch' here: there are x, y",
        "print %r99": "error: no register '%r99' is used in total",
        "print 1 +": "error: expects an expression",
        "print __import__('os')": "error: expects numbers, got 'os'",
        "print y[0:2, 5]": "error: a tile of 64: too many indices",
        "print/q 1": "error: no format 'q': there are x (hexadecimal)",
        "info nosuch": "error: expects info warps | threads",
        "info registers [": "error: expects a regular expression",
        "warp 9": "error: a CTA has 64 threads, in warps 0..1, got warp 9 lane 0",
        "lane 32": "error: lane must be in 0..31, got 32",
        "cta 4": "error: CTA (4, 0, 0) doesn't run now",
        "x shared 600": "error: the CTA has 512 bytes of shared memory, got 0x258 and 64 bytes",
        "tile shared 0 8x8xbf17": "error: type must be one of f64, f32",
        "tile shared 0 64x64xf32": "error: the tile has 16384 bytes, but only 512 are left there",
        "matrix d": "error: total has no tensor-core instructions",
        "delete 7": "error: no breakpoint '7': there are none",
        "finish": "error: the thread is in the kernel itself",
        "until 2": "error: total.py:2 has no code: the nearest line with code is 10",
        "continue 0": "error: expects a number of at least 1, got '0'",
        "watch nothing": "error: expects shared ADDRESS [BYTES]",
        "help nosuch": "error: no command 'nosuch'",
        "help step": "step [COUNT]: goes on to the next line",
        "list 900": "error: the source file 'total.py' can't be read",
    }
    for command, answer in expected.items():
        assert said[command].startswith(answer), (command, said[command])
    assert "  break [FILE:]LINE | ptx:LINE | FUNCTION [if CONDITION]   (b)" in said["help"]
    assert status == 0


def test_the_end_of_the_input_ends_the_session(session):
    text, status = session("total.ptx", KERNEL_LINES, ["break 15", "continue"], *TOTAL)
    assert text.endswith("end of input: the session ends\n") and status == 0
    assert "has ended" not in text


def test_commands_of_files_and_options(session, tmp_path):
    (tmp_path / "script").write_text("# a comment\n\nbreak 17\n")
    options = ("-x", "script", "--command", "continue", "--command", "info warps", "--batch")
    text, _ = session("total.ptx", KERNEL_LINES, ["never read"], *TOTAL, *options)
    assert "(weft) break 17\nbreakpoint 1 at total.py:17\n(weft) continue\n" in text
    assert "* cta (0, 0, 0) warps 0-1 lanes 0-31: total.py:17" in text
    assert "never read" not in text


def test_findings_stop_the_kernel_where_they_are(session):
    racy = KERNEL_LINES.replace("  bar.sync 0;\n", "  mov.u32 %r11, 0;\n")
    text, status = session("total.ptx", racy, ["continue"], *TOTAL)
    assert text.endswith("end of input: the session ends\n") and status == 1
    _, status = session("total.ptx", racy, ["continue", "quit"], *TOTAL)
    assert status == 1
    text, status = session("total.ptx", racy, ["continue", "info findings", "continue"], *TOTAL)
    said = answers(text)
    assert "finding: line 45 (total.py:18): shared-race: " in text
    assert "[cta (0, 0, 0) warp 0 lane 0] total at total.py:18" in text
    assert said["info findings"].startswith("line 45 (total.py:18): shared-race")
    assert status == 1
    text, _ = session("total.ptx", racy, ["findings off", "continue"], *TOTAL)
    assert "finding:" not in text and "shared-race" in text


def test_a_fault_stops_the_kernel_where_it_is(session):
    bad = KERNEL_LINES.replace("[%rd3];", "[%rd3+4096];")
    text, status = session("total.ptx", bad, ["continue", "print %r4", "info warps", "continue"], *TOTAL)
    assert "the kernel can't continue: out-of-bounds global access of 4 bytes" in text
    assert "total at total.py:12" in text
    assert answers(text)["print %r4"] == "%r4 = 0\n"
    assert status == 1


SPIN = """.version 8.4
.target sm_80
.address_size 64
.visible .entry spin()
{
  .reg .b64 %rd<3>; .reg .pred %p;
  mov.u64 %rd1, 0;
again:
  add.u64 %rd1, %rd1, 1;
  setp.lt.u64 %p, %rd1, 1000000000000;
  @%p bra again;
  ret;
}
"""


def test_ctrl_c_stops_a_kernel_that_runs(session):
    text, status = session("spin.ptx", SPIN, ["continue^C", "print %rd1 > 100", "stepi", "quit"])
    said = answers(text)
    assert said["continue"].startswith("interrupted\n[cta (0, 0, 0) warp 0 lane 0] spin at PTX line ")
    assert said["print %rd1 > 100"] == "%rd1 > 100 = True\n"
    assert "spin at PTX line" in said["stepi"] and status == 0


CALLS = """.version 8.4
.target sm_80
.address_size 64
.func (.reg .u32 %o) twice(.reg .u32 %i)
{
  add.u32 %o, %i, %i;
  ret;
}
.visible .entry calls(.param .u64 y)
{
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  mov.u32 %r1, 21;
  call (%r2), twice, (%r1);
  ld.param.u64 %rd1, [y];
  st.global.u32 [%rd1], %r2;
  ret;
}
"""


def test_calls_are_stepped_into_and_over(session):
    commands = ["step", "step", "step", "where", "finish", "print %r2", "quit"]
    text, _ = session("calls.ptx", CALLS, commands, "--arg", "zeros:1xu32")
    assert "#0  twice at PTX line 6\n#1  calls at PTX line 13\n" in answers(text)["where"]
    assert answers(text)["print %r2"] == "%r2 = 42\n"
    text, _ = session("calls.ptx", CALLS, ["step", "next", "next", "quit"], "--arg", "zeros:1xu32")
    assert "calls at PTX line 14" in text and "twice at" not in text


COUNTING = """import numpy as np
import weft.language as w


@w.kernel(threads=32)
def counting(y: w.Out["n", w.i32]):
    total = w.i32(0)
    for k in w.range(4):
        total = total + k * w.thread()
    y[w.thread()] = total


counting(np.zeros(32, np.int32))
"""


def test_conditions_without_a_value_are_reported_at_the_end(session):
    commands = ["break 10 if k == 1", "break 9 if k == 9", "continue"]
    text, status = session("counting.py", COUNTING, commands)
    assert "breakpoint 1 was reached without a value: 'k' has no value here" in text
    assert "breakpoint 2" not in text.split("reached")[1] and status == 0


READING = """import numpy as np
import weft.language as w


@w.kernel(threads=32)
def reading(x: w.In["n", w.u8], y: w.Out["n", w.u8]):
    buffer = w.shared(1, 32, w.u8)
    first = x[w.thread()]
    buffer[w.thread()] = first
    last = buffer[w.thread()]
    y[w.thread()] = first + last


reading(np.arange(200, 232, dtype=np.uint8), np.zeros(32, np.uint8))
"""


def test_elements_of_arrays_and_buffers_are_variables(session):
    commands = ["break 11", "continue", "print first", "print last", "print buffer[0, 0:3]"]
    text, _ = session("reading.py", READING, commands)
    said = answers(text)
    assert said["print first"] == "first = 200\n" and said["print last"] == "last = 200\n"
    assert "\n[200 201 202]\n" in said["print buffer[0, 0:3]"]


class Names:
    def __init__(self, **values):
        self.values = values

    def has(self, name):
        return name in self.values

    def value(self, name):
        if name not in self.values:
            raise WeftError(f"no {name}")
        return self.values[name]

    def call(self, function, value):
        return abs(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k > 1 and k < 3", [False, False, True, False]),
        ("not k or k == 3", [True, False, False, True]),
        ("cta == (1, 2)", True),
        ("cta != (1, 2, 0)", False),
        ("cta == 1", False),
        ("cta.y * 2 + -k", [4, 3, 2, 1]),
        ("k << 2 | 1", [1, 5, 9, 13]),
        ("%r1 & 0xff", [0x34]),
        ("t[1, 0:2]", [2, 3]),
        ("t[1, 1]", 3),
        ("a.b + abs(-1)", 8),
        ("0 <= k <= 1", [True, True, False, False]),
    ],
)
def test_expressions(text, value):
    names = Names(k=np.arange(4), cta=(1, 2, 0), t=expressions.Tile(np.arange(4).reshape(2, 2)))
    names.values |= {"%r1": np.array([0x1234]), "a.b": 7}
    found = expressions.evaluated(expressions.parsed(text), names)
    found = found.matrix if isinstance(found, expressions.Tile) else found
    assert np.array_equal(found, value)


@pytest.mark.parametrize("text", ["f(1, 2)", "[1]", "lambda: 1", "'a'", "k[0]", "1 << 99999", "t[5]", "t[k]"])
def test_expressions_refuse_anything_else(text):
    names = Names(k=np.arange(4), t=expressions.Tile(np.arange(4).reshape(2, 2)))
    with pytest.raises(WeftError):
        expressions.evaluated(expressions.parsed(text), names)


def test_the_session_of_the_documentation(session):
    page = (Path(__file__).parents[2] / "docs" / "debug.md").read_text("utf-8")
    source, shown = (
        re.search(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1] for kind in ("py", "text")
    )
    commands = re.findall(r"^\(weft\) (.*)$", shown, re.MULTILINE)
    text, status = session("gemm.py", source, commands)
    assert f"$ weft debug gemm.py\n{text}" == shown
    assert status == 0


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("language_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_under_the_debugger(session, example):
    """Comments that name variables change no result, and cause no finding."""
    text, status = session(example.name, example.read_text("utf-8"), ["step 5", "info locals", "continue"])
    assert status == 0 and "has ended" in text and "finding" not in text
    assert "[cta (0, 0, 0) warp 0 lane 0] " in text
    assert "largest error: " in text or "equal to NumPy's" in text


def test_errors_of_the_program_are_shown_as_pythons(session):
    text, status = session("bad.py", "def f():\n    return 1 / 0\n\n\nf()\n", ["continue"])
    assert status == 1 and "internal error" not in text
    assert text.startswith('Traceback (most recent call last):\n  File "bad.py", line 5, in <module>\n')
    assert "ZeroDivisionError: division by zero" in text
    text, status = session("none.py", "import sys\n\nprint(sys.argv)\n", [], "--", "a", "-b")
    assert "['none.py', 'a', '-b']" in text
    assert "none.py has launched no kernel in the emulator" in text and status == 1
    text, status = session("total.ptx", KERNEL_LINES, [], *TOTAL, "--", "a")
    assert "arguments after -- are those of a Python file, got ['a']" in text
    text, status = session("exits.py", "import sys\n\nsys.exit(3)\n", [])
    assert (text, status) == ("", 3)
    text, status = session("empty.ptx", "", [])
    assert "expected a .target directive" in text and "has launched no kernel" not in text and status == 2


def test_a_closed_stdout_is_refused(session, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    text, status = session("total.ptx", KERNEL_LINES, ["continue"], *TOTAL)
    assert (status, text) == (1, "weft: error: cannot write: stdout is closed\n")


def test_a_full_disk_ends_the_session(tmp_path):
    (tmp_path / "total.ptx").write_text(KERNEL_LINES)
    command = [warm_tools.folder() / "weft", "debug", "total.ptx", *TOTAL]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, input=b"break 13\ncontinue\n", stdout=full, stderr=subprocess.PIPE, cwd=tmp_path
        )
    assert done.returncode == 2
    assert done.stderr == b"weft: error: cannot write stdout: No space left on device\n"


@pytest.mark.parametrize(
    ("code", "printed", "status"), [("", "", 0), ("None", "", 0), ("3", "", 3), ("'no file'", "no file\n", 1)]
)
def test_a_program_s_exit_is_the_tool_s(session, code, printed, status):
    program = f"import sys\nimport weft.language\nsys.exit({code})\n"
    text, given = session("program.py", program, [], "--batch")
    if status:
        assert (text, given) == (printed, status)
    else:
        assert (given, "has launched no kernel" in text) == (1, True)
