"""What a call of a kernel in the emulator shows: what it printed, and mistakes with what to do about them."""

import inspect
import re

import numpy as np
import pytest

import weft
import weft.emulator as emulator
import weft.language as w


def line_of(kernel, text):
    """The line of a kernel, and the column, at which a text of its source is."""
    lines, first = inspect.getsourcelines(kernel.__wrapped__)
    number = next(n for n, line in enumerate(lines) if text in line)
    return first + number, lines[number].index(text) + 1


@w.kernel(threads=32)
def prints(x: w.In["n", w.f32], limit: w.f32):
    i = w.thread()
    if i < 2:
        w.print("x is", x[i])
    w.check(x[i] < limit, "x must be small")


def test_a_call_prints_what_the_kernel_prints(capsys):
    x = np.arange(32, dtype=np.float32)
    prints(x, 100.0, on="emulator")
    assert capsys.readouterr().out == "x is 0\nx is 1\n"


def test_a_call_that_fails_prints_what_came_before(capsys):
    with pytest.raises(weft.WeftError, match="x must be small"):
        prints(np.arange(32, dtype=np.float32), 10.0, on="emulator")
    assert capsys.readouterr().out == "x is 0\nx is 1\n"


@w.kernel(threads=64)
def unguarded(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    i = w.thread()
    y[i] = x[i] * 2.0


def test_a_fault_is_at_the_line_and_column_of_the_kernel():
    line, column = line_of(unguarded, "x[i] * 2.0")
    x = np.zeros(40, np.float32)
    with pytest.raises(emulator.Fault) as raised:
        unguarded(x, x.copy(), on="emulator")
    where = raised.value.diagnostics[0].location
    assert (where.file, where.line, where.column) == (__file__, line, column)
    assert "past the end of argument 'x'" in str(raised.value)
    assert "note: guard elements by a condition, as 'if i < x.rows'" in str(raised.value)


@w.kernel()
def races(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    buffer = w.shared(64, 64, w.f32)
    with w.role():
        w.store(w.load(x[0, 0], (64, 64)), buffer)
        w.store(w.load(buffer.T), y[0, 0])


def test_findings_of_a_line_are_one_entry_with_both_lines_and_a_remedy():
    stored, read = (line_of(races, text)[0] for text in ("w.store(w.load(x", "w.load(buffer.T)"))
    x = np.ones((64, 64), np.float32)
    with pytest.raises(weft.WeftError) as raised:
        races(x, x.copy(), on="emulator")
    text = str(raised.value)
    # LLVM gives loads that it moves to a store the store's column.
    assert text.count("shared-race") == 1 and re.search(
        rf"{re.escape(__file__)}:{read}:\d+: shared-race: ", text
    )
    assert re.search(rf"written by another warp at line \d+ \({re.escape(__file__)}:{stored}\)", text)
    assert re.search(r"and \d+ like it at this line: put w.barrier\(\)", text)


@w.kernel()
def starves(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role():
        for _ in range(2):
            with ring.take() as stage:
                w.store(w.load(stage.x), y[0, 0])
    with w.role(), w.one_thread():
        ring.fill(x=x[0, 0])


def test_sums_of_a_warp_in_two_branches_get_the_remedy_of_exchanges():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        i = w.thread()
        if i < 16:
            y[i] = w.sum(x[i], within="warp")
        else:
            y[i] = w.sum(w.exp(x[i]), within="warp") * 2.0

    x = np.zeros(32, np.float32)
    with pytest.raises(emulator.Deadlock, match="lanes of warp 0 wait for each other at") as raised:
        kernel(x, x.copy())
    assert "let all threads of the warp get there: none of them" in str(raised.value)


def test_a_deadlock_names_its_lines_and_a_remedy():
    x = np.zeros((64, 64), np.float16)
    with pytest.raises(emulator.Deadlock) as raised:
        starves(x, x.copy(), on="emulator")
    text = str(raised.value)
    assert f"{__file__}:{line_of(starves, 'ring.take')[0]})" in text
    assert "is never filled" in text and "note: each taker of a ring must take as many stages" in text


@w.kernel()
def leaves_a_stage(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    ring = w.ring(2, x=(64, 64, w.f16))
    with w.role(), ring.take() as stage:
        w.store(w.load(stage.x), y[0, 0])
    with w.role(), w.one_thread():
        for _ in range(2):
            ring.fill(x=x[0, 0])


def test_a_stage_that_nobody_takes_is_at_its_fill_with_a_remedy():
    x = np.zeros((64, 64), np.float16)
    with pytest.raises(weft.WeftError) as raised:
        leaves_a_stage(x, x.copy(), on="emulator")
    line = line_of(leaves_a_stage, "ring.fill")[0]
    for rule in ("async-at-exit", "cluster-exit"):
        (found,) = (each for each in str(raised.value).split("\n") if f": {rule}: " in each)
        assert f"{__file__}:{line}:" in found and "take each stage of a ring that is filled" in found


def test_columns_of_mistakes_count_from_1():
    @w.kernel(threads=32)
    def wrong(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        y[0] = x[0] + w.thread()

    with pytest.raises(weft.WeftError) as raised:
        wrong.compile()
    where = raised.value.diagnostics[0].location
    assert (where.line, where.column) == line_of(wrong, "x[0] + w.thread()")


def test_a_report_has_one_line_for_each_mistake():
    @w.kernel
    def kernel(x: w.In["64 64", w.f16], y: w.Out["64 64", w.f16]):
        buffer = w.shared(64, 64, w.f16)
        with w.role():
            w.store(w.load(x[0, 0], (64, 64)), buffer)
            w.barrier()
            w.store(w.wait(w.gemm(buffer, buffer.T)).to(w.f16), y[0, 0])

    x = np.zeros((64, 64), np.float16)
    report = kernel.emulate(x, x.copy())
    first, *found = str(report).splitlines()
    assert first.endswith(f"warp instructions, {len(report.findings)} findings:") and len(report.findings) > 1
    assert len(found) == 1 and f", and {len(report.findings) - 1} like it at this line" in found[0]
    assert "missing-proxy-fence" in found[0]


def test_a_report_counts_one_finding_as_one():
    @w.kernel(threads=64)
    def kernel(y: w.Out["1", w.i32]):
        y[0] = w.thread()

    assert ", 1 finding:\n" in str(kernel.emulate(np.zeros(1, np.int32)))
    w_kernel = w.kernel(threads=32)(quiet)
    assert str(w_kernel.emulate(np.zeros(1, np.int32))).endswith(", no findings")


def quiet(y: w.Out["1", w.i32]):
    y[0] = 1


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def negated(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    row = w.cta() * 64
    w.store((-w.load(x[row, 0], (64, 64)).to(w.f32)).to(w.f16), y[row, 0])


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 512))
def incremented(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    first = w.cta() * 512
    w.store(w.load(x[first], 512) + 1.0, y[first])


@w.kernel(grid=lambda x: x.rows, threads=64)
def by_each_warp(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    i = w.cta()
    y[i] = x[i] + 1.0


@pytest.mark.each_value(2)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize(
    ("kernel", "shape"), [(negated, (70, 1)), (negated, (129, 63)), (incremented, 1), (incremented, 600)]
)
def test_kernels_may_work_in_place(kernel, shape, seed):
    """Masked lanes load the first element, which another warp or CTA writes."""
    x = np.ones(shape, np.float32 if kernel is incremented else np.float16)
    assert kernel.emulate(x, x, seed=seed).findings == ()
    assert (x == (2 if kernel is incremented else -1)).all()


def test_two_warps_that_update_the_same_element_race():
    x = np.ones(8, np.float32)
    assert {found.rule for found in by_each_warp.emulate(x, x).findings} == {"global-race"}
    assert by_each_warp.emulate(x, x.copy()).findings == ()


@w.kernel(threads=32)
def sum_of_some(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    i = w.thread()
    if i < x.rows:
        y[i] = w.sum(x[i], within="warp")


def test_a_reduction_in_a_branch_that_only_some_threads_take_is_reported():
    x = np.ones(20, np.float32)
    with pytest.raises(weft.WeftError) as raised:
        sum_of_some(x, x.copy(), on="emulator")
    message = str(raised.value)
    assert "shuffle-source: lane 20, which doesn't run, is read by shfl.sync in thread (16, 0, 0)" in message
    assert "let all threads of the warp get there" in message
    x = np.ones(32, np.float32)
    sum_of_some(x, x.copy(), on="emulator")
