"""Debugging kernels of `weft.language`, of wgmma and of tcgen05: variables, fragments, tiles and barriers."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft import emulator
from weft.language.capture import tracing_state
from weft.tools.debugger import expressions, inspection, operands
from weft.tools.debugger.names import Threads
from weft.tools.debugger.session import Session
from weft.tools.debugger.steps import Step

TCGEN05 = Path(__file__).parents[2] / "examples" / "tcgen05_gemm.mlir"


class Script:
    """Does what a list of functions does, one at each stop, each with the session."""

    def __init__(self, *parts):
        self.parts, self.said = list(parts), []
        self.session = Session(self)

    def say(self, text):
        self.said.append(text)

    def interact(self):
        if self.parts:
            self.parts.pop(0)(self.session)

    def run(self, call):
        with emulator.hooked(self.session.hooks), tracing_state.keeping_variables():
            result = call()
        assert not self.parts, f"the kernel has ended before: {self.said}"
        return result


def value(session, text):
    """The value of an expression in the thread in focus."""
    stopped, row, lane = session.thread()
    found = expressions.evaluated(expressions.parsed(text), session.names(Threads.one(stopped, row, lane)))
    return found.matrix if isinstance(found, expressions.Tile) else np.asarray(found).reshape(-1)[0]


def operand(session, name, line=None, dtype=None):
    """An operand of the nearest tensor-core instruction."""
    stopped, row, lane = session.thread()
    site = operands.site(stopped, operands.nearest(stopped, line), row, lane)
    return operands.matrix(site, name, dtype).matrix


def line_of(function, text):
    """The line of a function's source with this text."""
    import inspect

    lines, first = inspect.getsourcelines(getattr(function, "__wrapped__", function))
    return first + next(at for at, line in enumerate(lines) if text in line)


def scaled(x, by):
    y = x * by
    return y + 1.0


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def centered(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, N=16):
    row = w.cta() * 64
    with w.role():
        t = w.load(x[row, 0], (64, N))
        mean = w.sum(t, axis=1) / float(N)
        u = scaled(t - mean, 2.0)
        total = w.f32(0.0)
        for i in w.range(x.columns):
            total = total + i.to(w.f32)
        w.store(u + total, y[row, 0])


def test_variables_of_a_language_kernel():
    x = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)
    y = np.zeros_like(x)
    mean = x.mean(1, keepdims=True)
    u = 2 * (x - mean) + 1
    body = line_of(centered, "total = total +")

    def start(session):
        session.add_breakpoint("scaled", "cta == 1 and warp == 2", temporary=True)

    def in_helper(session):
        assert session.focus.cta == (1, 0, 0) and session.focus.warp == 2
        assert np.allclose(value(session, "x"), (x - mean)[64:], atol=1e-6)
        assert value(session, "by") == 2.0
        with pytest.raises(weft.WeftError, match=r"'total' has no value here: .* N, row, t, mean"):
            value(session, "total")
        session.step(Step("finish", session.thread()[0]))

    def back(session):
        assert np.allclose(value(session, "t"), x[64:])
        assert np.allclose(value(session, "mean"), mean[64:, 0], atol=1e-6)
        assert np.allclose(value(session, "u[3, 0:4]"), u[67, :4], atol=1e-5)
        assert value(session, "row") == 64 and value(session, "N") == 16
        session.add_breakpoint(str(body), "i == 5", temporary=True)

    def in_loop(session):
        assert value(session, "i") == 5 and value(session, "total") == 10.0
        assert "i = 5" in inspection.variables(session)
        session.step(Step("next", session.thread()[0]))

    def again(session):
        assert session.thread()[0].source.line in (body - 1, body)

    report = Script(start, in_helper, back, in_loop, again).run(lambda: centered.emulate(x, y))
    assert not report.findings
    assert np.allclose(y, u + 120, atol=1e-4)
    plain = np.zeros_like(y)
    centered.emulate(x, plain)
    assert np.array_equal(plain, y)
    assert "weft.variable" not in centered.compile().ptx


@w.kernel(grid=1)
def product(a: w.In["m k", w.bf16], b: w.In["n k", w.bf16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, w.bf16), b=(64, 64, w.bf16))
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(0, a.columns, 64):
            with ring.take() as stage:
                started = w.gemm(stage.a, stage.b.T, sums)
                sums = w.wait(started)
        w.store(sums, d[0, 0])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, 64):
            ring.fill(a=a[0, k], b=b[0, k])


def test_variables_whose_layouts_a_pass_decides():
    @w.kernel()
    def tiles(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            u, z, p = t.T, w.zeros((64, 64)), w.convert(t)
            for _ in w.range(2):
                z = z + p
            w.store(z + u, y[0, 0])

    @w.kernel()
    def divided(x: w.In["m k", w.f16], y: w.Out["m n", w.f32]):
        sums = w.zeros((64, 64))
        for k in w.range(0, x.columns, 32):
            a = w.load(x[0, k], (64, 32))
            sums = w.gemm(a, w.load(x[0, k], (64, 32)).T, sums)
        w.store(sums, y[0, 0])

    with tracing_state.keeping_variables():
        ptx = tiles.compile(arch="sm_80").ptx
        assert "weft.variable" not in divided.compile(arch="sm_90a").ptx
    assert all(f"weft.variable tiles.{name}|fragment|f32|64x64|" in ptx for name in "tuzp")


def test_wgmma_with_its_ring_and_barriers():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((64, 192)).astype(ml_dtypes.bfloat16) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    d = np.zeros((64, 64), np.float32)
    multiply, store = line_of(product, "w.gemm("), line_of(product, "w.store(")

    def start(session):
        session.add_breakpoint(str(multiply), "warp == 1", temporary=True)

    def first(session):
        assert np.array_equal(value(session, "stage.a"), a[:, :64].astype(np.float64))
        assert np.array_equal(value(session, "ring.b[0]"), b[:, :64].astype(np.float64))
        with pytest.raises(weft.WeftError, match="no tensor-core instruction is above PTX line"):
            operand(session, "a")
        text = inspection.barriers(session)
        line = line_of(product, "w.ring(")
        assert f": stage 0 full, phase 1, 0 of 1 arrived (made at test_language_debugging.py:{line})" in text
        assert ": stage 0 empty, phase 0, 0 of 1 arrived" in text
        session.step(Step("until", session.thread()[0], "<ptx>", first_wgmma(session)))

    def about_to_multiply(session):
        assert np.array_equal(operand(session, "a"), a[:, :16].astype(np.float64))
        assert "sums: 64 x 64 f32 in registers of warps 0-3" in inspection.variables(session)
        assert np.array_equal(operand(session, "b"), b[:, :16].astype(np.float64))
        session.add_breakpoint(str(multiply + 1), "", temporary=True)

    def multiplying(session):
        assert "started: a pending product of 64 x 64 w.f32" in inspection.variables(session)
        with pytest.raises(weft.WeftError, match=r"'started' is a pending product of .*: matrix d"):
            value(session, "started")
        session.add_breakpoint(str(multiply), "", temporary=True)

    def first_wgmma(session):
        rows = session.launched.text.split("\n")
        return next(number for number, row in enumerate(rows, 1) if row.strip().startswith("wgmma.mma_async"))

    def second(session):
        partial = a[:, :64].astype(np.float64) @ b[:, :64].astype(np.float64).T
        assert np.allclose(operand(session, "d", first_wgmma(session)), partial, atol=1e-3)
        assert np.array_equal(value(session, "stage.b"), b[:, 64:128].astype(np.float64))
        session.add_breakpoint(str(store), "", temporary=True)

    def last(session):
        assert np.allclose(value(session, "sums"), exact, atol=1e-3)
        assert value(session, "a[3, 5]") == float(a[3, 5])

    report = Script(start, first, about_to_multiply, multiplying, second, last).run(
        lambda: product.emulate(a, b, d, arch="sm_90a")
    )
    assert not report.findings and np.allclose(d, exact, atol=1e-3)


def test_who_waits_for_an_mbarrier():
    """The warps that multiply wait for the first stage before it is filled."""

    def start(session):
        session.add_breakpoint(str(line_of(product, "ring.fill(")), "k == 0", temporary=True)

    def filling(session):
        session.step(Step("stepi", session.thread()[0]))

    def look(session):
        text = inspection.warps(session)
        line = line_of(product, "ring.take()")
        place = f"cta (0, 0, 0) warps 0-3 lanes 0-31: test_language_debugging.py:{line}"
        assert f"{place}, waits for the mbarrier at 0x8000" in text
        assert "mbarrier 0x8000: stage 0 full, phase 0, 0 of 1 arrived; warps 0-3 wait" in (
            inspection.barriers(session)
        )

    a, b = np.zeros((64, 192), ml_dtypes.bfloat16), np.zeros((64, 192), ml_dtypes.bfloat16)
    Script(start, filling, look).run(
        lambda: product.emulate(a, b, np.zeros((64, 64), np.float32), arch="sm_90a")
    )


def test_hooks_of_tcgen05_are_the_same_on_both_paths(patch):
    """Also where the sanitizer would record several loads of tensor memory at once: hooks wouldn't see
    these.
    """
    kernel = weft.compile(TCGEN05.read_text(), arch="sm_100a")
    a, b = (np.random.default_rng(4).standard_normal((128, 64)).astype(np.float16) for _ in range(2))
    logs, results = [], []
    for compiled in ("0", "1"):
        patch.setenv("WEFT_EMULATOR_COMPILED", compiled)
        hooks, log, d = emulator.Hooks(), [], np.zeros((128, 128), np.float32)

        def note(stopped, *event, log=log):
            log.append((stopped.line, stopped.opcode, stopped.threads.tobytes()))
            log.extend((e.kind, e.unit, e.space, e.addresses.tobytes()) for e in event)

        hooks.on_instruction(note, "tcgen05")
        hooks.after_instruction(note, "mbarrier")
        hooks.on_instruction(note, "add")
        hooks.on_access(note, ["tensor"])
        with emulator.hooked(hooks):
            report = kernel.emulate(a, b, d)
        logs.append(log)
        results.append((d.tobytes(), report))
    plain = np.zeros((128, 128), np.float32)
    assert kernel.emulate(a, b, plain) == results[0][1]
    assert logs[0] == logs[1] and results[0] == results[1] and results[0][0] == plain.tobytes()
    assert {("load", "tcgen05"), ("store", "tcgen05"), ("load", "tcgen05.ld")} <= {
        each[:2] for each in logs[0]
    }


def test_tensor_memory_and_operands_of_tcgen05():
    text = TCGEN05.read_text()
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((128, 64)).astype(np.float16) for _ in range(2))
    d = np.zeros((128, 128), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    kernel = weft.compile(text, arch="sm_100a")
    rows = text.split("\n")
    commit, store = (
        next(n for n, row in enumerate(rows, 1) if f'"tile.{op}"' in row) for op in ("commit", "store")
    )

    def start(session):
        session.add_breakpoint(str(commit), "", temporary=True)

    def multiplied(session):
        assert np.allclose(operand(session, "d"), exact, atol=1e-3)
        assert np.array_equal(operand(session, "a"), a[:, 48:].astype(np.float64))
        assert np.array_equal(operand(session, "b"), b[:, 48:].astype(np.float64))
        assert "tensor memory: 512 from column 0" in inspection.cta(session)
        shown = inspection.tile(session, ["tensor", "256", "128x128xf32"])
        assert shown.startswith("128 x 128 f32 in tensor memory at lane 0, column 256\n[[")
        assert f"{exact[0, 0]:.3g}"[:4] in shown
        session.add_breakpoint(str(store), "", temporary=True)

    def loaded(session):
        assert np.allclose(operand(session, "data"), exact[:32, 64:], atol=1e-3)  # the last of two loads

    report = Script(start, multiplied, loaded).run(lambda: kernel.emulate(a, b, d))
    assert not report.findings and np.allclose(d, exact, atol=1e-3)


@pytest.mark.slow
def test_accesses_of_units_are_the_same_on_both_paths(patch):
    a, b = (np.random.default_rng(3).standard_normal((64, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    logs, results = [], []
    for compiled in ("0", "1"):
        patch.setenv("WEFT_EMULATOR_COMPILED", compiled)
        log, hooks, d = [], emulator.Hooks(), np.zeros((64, 64), np.float32)
        hooks.on_access(
            lambda stopped, e, log=log: log.append((e.kind, e.unit, e.space, e.addresses.tolist(), e.line)),
            ["shared", "global"],
        )
        with emulator.hooked(hooks):
            report = product.emulate(a, b, d, arch="sm_90a")
        logs.append(log)
        results.append((d.tobytes(), report))
    assert logs[0] == logs[1] and results[0] == results[1]
    units = {(kind, unit) for kind, unit, *_ in logs[0]}
    assert {("store", "bulk"), ("load", "wgmma"), ("store", "")} <= units


@pytest.mark.each_value(2)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_warps_that_wait_are_there_once(seed):
    a, b = (np.zeros((64, 128), ml_dtypes.bfloat16) for _ in range(2))
    hooks, seen, waited = emulator.Hooks(), np.zeros((8, 32), int), np.zeros((8, 32), int)
    hooks.on_instruction(lambda stopped: np.add(seen, stopped.threads, out=seen), "wgmma.mma_async")
    hooks.on_instruction(lambda stopped: np.add(waited, stopped.threads, out=waited), "mbarrier.try_wait")
    with emulator.hooked(hooks):
        product.emulate(a, b, np.zeros((64, 64), np.float32), arch="sm_90a", seed=seed, sanitize=False)
    assert (seen[:4] == 8).all() and (seen[4:] == 0).all()
    if seed is None:
        assert (waited[:4] == 2).all()  # one wait for each stage, though the first one isn't full at once


def test_layouts_are_drawn_while_a_kernel_is_traced(tmp_path, capsys):
    drawn = {}

    @w.kernel
    def drawing(x: w.In["m n", w.f16], y: w.Out["m n", w.f32]):
        ring = w.ring(3, a=(64, 64, w.f16), b=(32, 64, w.f16), takers=1)
        with w.role(), ring.take() as stage:
            t = w.load(stage.a)
            drawn["fragment"], drawn["buffer"] = w.show(t), w.show(stage.b, file=tmp_path / "b.svg")
            drawn["ring"], drawn["stage"], drawn["layout"] = w.show(ring), w.show(stage), w.show(t.layout)
            w.store(t.to(w.f32), y[0, 0])
        with w.role(), w.one_thread():
            ring.fill(a=x[0, 0], b=x[0, 0])

    kernel = drawing.compile(arch="sm_90a")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("a fragment of 64 x 64 w.f16, S[(")
    assert len(printed) == 4 and all(
        each.endswith(": file= of w.show writes the drawing") for each in printed
    )
    texts = {name: svg.text() for name, svg in drawn.items()}
    assert "T31:" in texts["fragment"] and "w: warp" in texts["fragment"]
    assert "xor 128B" in texts["buffer"] and (tmp_path / "b.svg").read_text("utf-8") == texts["buffer"]
    for text in ("ring of 3 stages of 12288 bytes", "a: 64 x 64 w.f16", "stage 2", "full: 12288 bytes"):
        assert text in texts["ring"] and text in texts["stage"]
    assert "T31:" in texts["layout"] and "w.show" not in kernel.ptx


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda x: w.show(3), "w.show draws a layout, a fragment, a buffer or a ring, got 3"),
        (lambda x: w.show(w.zeros((64, 8)), file=3), "file of w.show must be a path, got 3"),
        (lambda x: w.show(w.zeros((64, 8)), file="/nowhere/x.svg"), "cannot write '/nowhere/x.svg'"),
    ],
)
def test_what_cant_be_drawn_is_refused(what, message):
    @w.kernel(threads=128)
    def drawing(x: w.Out["n", w.f32]):
        what(x)

    with pytest.raises(weft.WeftError, match=re.escape(message)):
        drawing.compile()
