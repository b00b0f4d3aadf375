"""Hooks of launches in the emulator: where they are called, with what, by both the interpreter and compiled
code.
"""

import numpy as np
import pytest

from weft import emulator
from weft.emulator.launch import Shape
from weft.emulator.machine import Machine
from weft.emulator.watching.variables import Line, SourceMap, Variables
from weft.errors import WeftError

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
# sum of x[0..n-1] * thread, with a loop, a branch that divides warps, shared memory and a barrier
KERNEL = (
    HEAD
    + """.visible .entry total(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .pred %p<4>;
  .shared .align 8 .b8 buffer[512];
  .loc 1 10 4
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  .loc 1 11 4
  ld.param.u32 %r2, [n];
  mov.u32 %r3, 0;
  mov.u32 %r4, 0;
again:
  .loc 1 12 4
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd3, %rd3, %rd1;
  ld.global.u32 %r5, [%rd3];
  .loc 1 13 4
  mad.lo.u32 %r3, %r5, %r1, %r3;
  .loc 1 0 0
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, %r2;
  @%p1 bra again;
  .loc 1 14 4
  setp.lt.u32 %p2, %r1, 7;
  @%p2 bra small;
  .loc 1 15 4
  add.u32 %r3, %r3, 1000;
small:
  .loc 1 16 4
  shl.b32 %r6, %r1, 2;
  mov.u32 %r7, buffer;
  add.u32 %r7, %r7, %r6;
  st.shared.u32 [%r7], %r3;
  .loc 1 17 4
  bar.sync 0;
  .loc 1 18 4
  setp.eq.u32 %p3, %r1, 3;
  xor.b32 %r8, %r6, 128;
  mov.u32 %r9, buffer;
  add.u32 %r9, %r9, %r8;
  ld.shared.u32 %r10, [%r9];
  .loc 1 19 4
  cvt.u64.u32 %rd4, %r6;
  add.u64 %rd4, %rd4, %rd2;
  st.global.u32 [%rd4], %r10;
  @%p3 st.global.u32 [%rd4], %r3;
  ret;
}
.file 1 "/home/user/total.py"
"""
)


def launch(compiled, hooks=None, module=None, **options):
    module = module or emulator.Module(KERNEL)
    x, y = np.arange(1, 9, dtype=np.uint32), np.zeros(64, np.uint32)
    options = {"grid": 1, "block": 64, "args": [x, y, 8], "compiled": compiled, **options}
    return y, module.launch("total", hooks=hooks, **options)


def expected():
    thread = np.arange(64)
    own = 36 * thread + np.where(thread < 7, 0, 1000)
    return np.where(thread == 3, own, own[thread ^ 32]).astype(np.uint32)


def recorded(compiled, **options):
    """What hooks of every kind are told, with the results."""
    log, hooks = [], emulator.Hooks()

    def note(kind):
        def hook(stopped):
            log.append((kind, stopped.line, str(stopped.source), stopped.opcode, stopped.threads.tobytes()))
            log.append(stopped.register("%r3")[stopped.threads].tolist())

        return hook

    hooks.on_line(13, note("line"), file="total.py")
    hooks.on_line(15, note("line"))
    hooks.on_instruction(note("before"), "st.")
    hooks.on_instruction(note("before"), "bar")
    hooks.after_instruction(note("after"), "bar")
    hooks.on_access(
        lambda stopped, e: log.append(
            (e.kind, e.unit, e.space, e.cta, e.addresses.tolist(), e.width, e.line)
        ),
        ["shared", "global"],
    )
    y, report = launch(compiled, hooks, **options)
    return log, y, report


@pytest.mark.parametrize("seed", [None, 3])
def test_both_paths_call_the_same_hooks_and_compute_the_same(seed):
    plain, report = launch(False, seed=seed)
    logs = []
    for compiled in (False, True):
        log, y, hooked = recorded(compiled, seed=seed)
        logs.append(log)
        assert np.array_equal(y, plain) and np.array_equal(y, expected())
        assert hooked == report
    assert logs[0] == logs[1]
    if seed is None:
        lines = [each for each in logs[0] if each[0] == "line"]
        assert [each[2] for each in lines] == ["/home/user/total.py:13"] * 8 + ["/home/user/total.py:15"]
        assert sum(each[0] == "store" for each in logs[0]) == 3


def test_only_hooked_blocks_leave_compiled_code(patch):
    interpreted, compiled = [], []
    execute, run = Machine._execute, Machine._execute_compiled
    patch.setattr(Machine, "_execute", lambda *a: (interpreted.append(a[1].block), execute(*a))[1])
    patch.setattr(Machine, "_execute_compiled", lambda *a: (compiled.append(a[2].block), run(*a))[1])
    hooks, hits = emulator.Hooks(), []
    hooks.on_line(15, lambda stopped: hits.append(stopped.position[0]))
    launch(True, hooks)
    assert len(hits) == 1
    assert hits[0] not in compiled and compiled
    several = emulator.Hooks()
    several.on_line(12, lambda stopped: hits.append(stopped.position[0]))
    del compiled[:]
    launch(True, several)
    assert hits[1:] == [hits[1]] * 8 and hits[1] not in compiled and compiled


def test_a_hook_that_is_removed_isnt_called_again():
    hooks, calls = emulator.Hooks(), []

    def once(stopped):
        calls.append(int(stopped.register("%r4")[stopped.first()]))
        if len(calls) == 3:
            hook.remove()

    hook = hooks.on_line(12, once)
    for compiled in (False, True):
        launch(compiled, hooks)
    assert calls == [0, 1, 2]


def test_compiled_code_runs_on_where_a_hook_was_removed(patch):
    hooks, entered = emulator.Hooks(), []
    execute = Machine._execute
    patch.setattr(Machine, "_execute", lambda *a: (entered.append(a[1].block), execute(*a))[1])
    hook = hooks.on_line(12, lambda stopped: hook.remove())
    hooks.on_line(19, lambda stopped: None)
    launch(True, hooks)
    assert len(entered) == len(set(entered))  # no iteration of the loop returns to the machine


def test_a_hook_may_add_another_one():
    hooks, calls = emulator.Hooks(), []

    def first(stopped):
        hook.remove()
        hooks.on_line(16, lambda stopped: calls.append(stopped.source.line))

    hook = hooks.on_line(13, first)
    launch(True, hooks)
    assert calls == [16]


def test_lanes_that_wait_for_others_are_there_once():
    """Lanes below 7 branch around line 15, so the barrier sees two groups of lanes of the first warp."""
    hooks, seen = emulator.Hooks(), np.zeros((2, 32), int)

    def count(stopped):
        seen[:] += stopped.threads

    hooks.on_instruction(count, "bar.sync")
    for seed in (None, 1, 2):
        launch(False, hooks, seed=seed, strict=True)
    assert (seen == 3).all()


def test_lanes_that_wait_again_are_there_again():
    """Lanes of a warp meet at different `bar.warp.sync`s, three times."""
    text = HEAD + (
        ".visible .entry k()\n{ .reg .pred %p<3>; .reg .b32 %r<3>;\n mov.u32 %r1, %tid.x;\n mov.u32 %r2, 0;\n"
        " setp.lt.u32 %p1, %r1, 7;\nagain:\n @%p1 bra low;\n bar.warp.sync -1;\n bra next;\n"
        "low:\n bar.warp.sync -1;\nnext:\n add.u32 %r2, %r2, 1;\n setp.lt.u32 %p2, %r2, 3;\n"
        " @%p2 bra again;\n ret;\n}\n"
    )
    hooks, seen = emulator.Hooks(), np.zeros((1, 32), int)
    hooks.on_instruction(lambda stopped: np.add(seen, stopped.threads, out=seen), "bar.warp.sync")
    emulator.Module(text).launch("k", block=32, hooks=hooks)
    assert (seen == 3).all()


def test_guards_limit_who_executes_an_instruction():
    hooks, threads = emulator.Hooks(), []
    hooks.on_instruction(lambda stopped: threads.append(int(stopped.threads.sum())), "st.global")
    hooks.on_instruction(lambda stopped: threads.append(int(stopped.threads.sum())), "st")
    launch(False, hooks)
    hooks.on_instruction(lambda stopped: threads.append(stopped.opcode), "st.global.u32x")
    assert sorted(threads) == [1, 1, 64, 64, 64]


def test_hooks_around_a_call():
    hooks, lines = emulator.Hooks(), []
    hooks.on_line(17, lambda stopped: lines.append(stopped.source.line))
    hooks.on_launch(lambda launched: lines.append((launched.kernel, sorted(launched.arrays))))
    hooks.on_end(lambda launched: lines.append("end"))
    with emulator.hooked(hooks):
        launch(False)
    launch(False)
    assert lines == [("total", ["x", "y"]), 17, "end"]


def test_what_a_hook_raises_ends_the_launch():
    hooks = emulator.Hooks()

    def fail(stopped):
        raise KeyError("enough")

    hooks.on_line(15, fail)
    with pytest.raises(KeyError, match="enough"):
        launch(True, hooks)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_hook_may_launch_a_kernel(compiled):
    text = emulator.Module(
        """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1; ret; }"""
    )

    def launch(hooks=None):
        data = np.zeros(32, np.uint32)
        text.launch("k", block=32, args=[data], compiled=compiled, hooks=hooks)
        return data.tolist()

    hooks, inner = emulator.Hooks(), []
    hooks.on_instruction(lambda stopped: inner.append(launch()), "st.global")
    assert launch(hooks) == list(range(32))
    with emulator.hooked(hooks):
        assert launch() == list(range(32))
    assert inner == [list(range(32))] * 2


def test_findings_and_errors_are_told_where_they_are():
    text = KERNEL.replace("  bar.sync 0;\n", "")
    for compiled in (False, True):
        told, hooks = [], emulator.Hooks()
        hooks.on_finding(lambda stopped, each, told=told: told.append((each.rule, stopped.line == each.line)))
        _, report = launch(compiled, hooks, emulator.Module(text))
        assert told == [(finding.rule, True) for finding in report.findings] == [("shared-race", True)]
    fault = emulator.Module(KERNEL.replace("[%rd3]", "[%rd3+4096]"))
    for compiled in (False, True):
        told, hooks = [], emulator.Hooks()
        hooks.on_error(lambda stopped, e, told=told: told.append((e.rule, stopped.line, stopped.source.line)))
        with pytest.raises(emulator.Fault) as caught:
            launch(compiled, hooks, fault)
        assert told == [("out-of-bounds", caught.value.line, 12)]


def arrays(count):
    return np.arange(1, 9, dtype=np.uint32), np.zeros(count, np.uint32)


def test_a_deadlock_is_told_with_who_waits():
    text = HEAD + (
        ".visible .entry k()\n{ .reg .pred %p; .reg .b32 %r<2>;\n mov.u32 %r1, %tid.x;\n"
        " setp.lt.u32 %p, %r1, 32;\n @%p bar.sync 1, 64;\n @!%p bar.sync 2, 64;\n ret;\n}\n"
    )
    hooks, told = emulator.Hooks(), []
    hooks.on_error(lambda stopped, error: told.append([(w.warp, w.waits, w.line) for w in stopped.warps()]))
    with pytest.raises(emulator.Deadlock):
        emulator.Module(text).launch("k", block=64, hooks=hooks)
    assert told == [[(0, "waits at barrier 1", 8), (1, "waits at barrier 2", 9)]]


def test_the_state_of_a_stopped_wave():
    hooks, pages = emulator.Hooks(), []

    def look(stopped):
        pages.append(stopped._repr_html_())
        assert stopped.ctas() == [(0, 0, 0), (1, 0, 0)]
        assert [state.line for state in stopped.warps()] == [stopped.line] * 4
        shared = stopped.shared(1)[: 4 * 64].view(np.uint32)
        own = 36 * np.arange(64) + np.where(np.arange(64) < 7, 0, 1000)
        assert np.array_equal(shared, own)
        assert stopped.cta_number((1,)) == 1
        with pytest.raises(WeftError, match=r"CTA \(2, 0, 0\) doesn't run now"):
            stopped.cta_number((2,))
        with pytest.raises(WeftError, match=r"no register '%r77' is used in total: it has .*mean '%r7'"):
            stopped.register("%r77")
        with pytest.raises(WeftError, match="no register '3' is used in total"):
            stopped.register(3)

    hooks.on_line(18, look)
    launch(False, hooks, grid=2, args=[*arrays(64), 8], sanitize=False)
    assert len(pages) == 1 and "total has stopped" in pages[0]


def test_hooks_refuse_what_they_cant_use():
    hooks = emulator.Hooks()
    with pytest.raises(WeftError, match="line must be a number from 1 on, got 0"):
        hooks.on_line(0, print)
    with pytest.raises(WeftError, match="a hook must be a function, got 3"):
        hooks.on_line(1, 3)
    with pytest.raises(WeftError, match=r"spaces must be among shared, global, .*, got 'registers'"):
        hooks.on_access(print, ["registers"])
    for spaces, got in (("global", "'global'"), (None, "None")):
        with pytest.raises(WeftError, match=rf"spaces must be a list of names, .*, got {got}"):
            hooks.on_access(print, spaces)
    for add in (hooks.on_instruction, hooks.after_instruction):
        with pytest.raises(WeftError, match="opcode must be text, got 3"):
            add(print, 3)
    with pytest.raises(WeftError, match="file must be text, got 3"):
        hooks.on_line(1, print, file=3)
    with pytest.raises(WeftError, match=r"hooks must be emulator\.Hooks, got 3"):
        launch(False, 3)


def program(text, kernel):
    module = emulator.Module(text)
    return module.prepared(kernel, Shape(1, 1, 1, 0))[0]


def test_lines_begin_where_threads_come_from_another_line():
    found = SourceMap.of(KERNEL, program(KERNEL, "total"))
    assert found.files == ["/home/user/total.py"]
    assert found.lines_of("/home/user/total.py") == list(range(10, 20))
    assert all(len(positions) == 1 for positions in found.begins.values())
    spin = HEAD + (
        ".visible .entry k()\n{ .reg .pred %p; .reg .b32 %r<2>;\n .loc 1 5\n mov.u32 %r1, 0;\n"
        "again:\n add.u32 %r1, %r1, 1;\n setp.lt.u32 %p, %r1, 9;\n @%p bra again;\n"
        ' .loc 1 6\n ret;\n}\n.file 1 "k.py"\n'
    )
    map_ = SourceMap.of(spin, program(spin, "k"))
    assert map_.begins[Line("k.py", 5)] == [(0, 0)]
    assert map_.begins[Line("k.py", 6)] == [(2, 0)]


VARIABLES = (
    HEAD
    + """.visible .entry k(.param .u32 n)
{
  .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u32 %r1, [n];
  // weft.variable k.n|scalar|i32|%r1
  // weft.variable k.size|constant|64|
  mov.u32 %r2, 0;
  // weft.variable k.i|scalar|i32|%r2
again:
  // weft.variable k.t|fragment|f32|16x8|S[(2,8,4,2):(2,4@laneid,1@laneid,1)]|%r1 %r2 %r1 %r2
  // weft.variable k.lost|scalar|i32|%r5555
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1;
  @%p bra again;
  ret;
}
"""
)


def test_variables_are_known_until_their_registers_are_written():
    found = Variables(VARIABLES, program(VARIABLES, "k"))

    def at(block, number):
        return {variable.name: variable.kind for variable in found.at((block, number)).values()}

    assert at(0, 0) == {}
    assert at(0, 1) == {"n": "scalar", "size": "constant"}
    # i is in %r2 before the loop; in it, %r2 has been written
    assert at(1, 0) == {"n": "scalar", "size": "constant", "t": "fragment"}
    assert at(1, 1) == {"n": "scalar", "size": "constant"}
    assert at(2, 0) == {"n": "scalar", "size": "constant"}
