"""Stages of rings that are lent for something else."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel()
def negated(x: w.In["m k", w.f16], y: w.Out["m k", w.f16], *, N=80, times=2, waits=True):
    """A tile goes through one stage of a ring on its way in, and through the next one on its way out."""
    ring = w.ring(1, x=(N, 64, x.dtype))
    with w.role():
        for _ in w.range(times):
            with ring.take() as stage:
                t = w.load(stage.x.rows(0, 64))
            with ring.take() as stage:
                w.store(-t, y[0, 0], via=stage.x.rows(0, 64), waits=waits)
    with w.role(), w.one_thread():
        for _ in w.range(times):
            ring.fill(x=x[0, 0])
            ring.lend()


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_a_stage_is_lent_for_a_store(arch):
    x = np.random.default_rng(0).standard_normal((70, 64)).astype(np.float16)
    y = np.zeros_like(x)
    assert not negated.emulate(x, y, arch=arch).findings
    assert np.array_equal(y[:64], -x[:64]) and not y[64:].any()


@pytest.mark.slow
def test_a_store_need_not_wait_for_tma_if_nothing_fills_its_stage_again():
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    for times, waits, wanted in ((1, False, set()), (2, False, {"async-source-overwritten"})):
        y = np.zeros_like(x)
        findings = negated.emulate(x, y, times=times, waits=waits).findings
        assert {each.rule for each in findings} == wanted
        assert findings or np.array_equal(y, -x)


@w.kernel()
def multiplied_later(x: w.In["m k", w.f16], y: w.Out["m k", w.f32], z: w.Out["m k", w.f16], *, idle="always"):
    """A stage is taken and released before the one of the product, in which nothing makes warps meet."""
    ring = w.ring(1, x=(64, 64, x.dtype))
    with w.role() as me:
        if idle == "always":
            ring.take().release()
        if idle == "in a branch":
            with ring.take() as stage:
                if me == x.rows:
                    w.store(w.zeros((64, 64), w.f16), z[0, 0], via=stage.x)
        with ring.take() as stage:
            t = w.wait(w.gemm(stage.x, stage.x.T))
        w.store(t, y[0, 0])
    with w.role(), w.one_thread():
        ring.lend()
        ring.fill(x=x[0, 0])


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("idle", ["always", "in a branch"])
def test_all_warps_see_a_stage_before_it_is_filled_again(idle):
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    for seed in range(30):
        assert not multiplied_later.emulate(x, y, np.zeros_like(x), seed=seed, idle=idle).findings
        assert np.array_equal(y, np.full_like(y, 64))


@w.kernel()
def differences(x: w.In["m k", w.f16], y: w.Out["m k", w.f16]):
    """Differences of two buffers, of which the first tiles are the same, and then only one is filled."""
    ring = w.ring(1, a=(64, 64, x.dtype), b=(64, 64, x.dtype))
    with w.role():
        for i in range(2):
            with ring.take() as stage:
                t = w.load(stage.a) - w.load(stage.b)
            w.store(t, y[64 * i, 0])
    with w.role(), w.one_thread():
        ring.fill(a=x[0, 0], b=x[0, 0])
        ring.fill(a=x[64, 0], b=None)


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_a_stage_is_filled_in_part(arch):
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float16)
    y = np.zeros_like(x)
    assert not differences.emulate(x, y, arch=arch).findings
    assert not y[:64].any() and np.array_equal(y[64:], x[64:] - x[:64])


@pytest.mark.parametrize(
    "part, match",
    [
        (lambda x: x.rows(0, 60), "a part must divide the 80 rows of the tile, got 60"),
        (lambda x: x.rows(0, 88), "a part must divide the 80 rows of the tile, got 88"),
        (lambda x: x.columns(0, 48), "a part must divide the 64 columns of the tile, got 48"),
    ],
)
def test_wrong_parts(part, match):
    @w.kernel()
    def kernel(y: w.Out["m", w.f32]):
        ring = w.ring(2, x=(80, 64, w.bf16))
        with w.role():
            part(ring.take().x)

    with pytest.raises(weft.WeftError, match=match):
        kernel.compile()


def test_a_written_ring_isnt_lent():
    @w.kernel()
    def kernel(y: w.Out["m", w.f32]):
        ring = w.ring(2, x=(64, 64, w.f16))
        with w.role():
            with ring.write() as stage:
                w.store(w.zeros((64, 64), w.f16), stage.x)
            ring.lend()

    with pytest.raises(weft.WeftError, match="ring 'x' is written: a stage is lent by the role that fills"):
        kernel.compile()


@w.kernel()
def doubled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    """y = 2 x: a role changes the stages in place between those that copy and those that store."""
    copies = w.ring(2, x=(64, 32, x.dtype))
    made = w.ring(2, y=(64, 32, x.dtype), over=copies)
    with w.role():
        for row in w.range(0, x.rows, 64):
            copies.fill(x=x[row, 0])
    with w.role():
        for _ in w.range(0, x.rows, 64):
            block = copies.take()
            with made.write(block) as to:
                w.store(w.load(block.x) * 2.0, to.y)
    with w.role():
        for row in w.range(0, x.rows, 64):
            with made.take() as stage:
                w.store(w.load(stage.y), y[row, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_stages_of_a_ring_over_another_one_are_changed_in_place(arch):
    x = np.random.default_rng(0).standard_normal((300, 32)).astype(np.float32)
    y = np.zeros_like(x)
    report = doubled.emulate(x, y, arch=arch)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, 2 * x)


@w.kernel
def awaited_later(x: w.In["m n", w.f16], y: w.Out["m n", w.f16], *, how):
    """Takes stages before it waits for them."""
    ring = w.ring(2, x=(64, 64, x.dtype))
    with w.role():
        held = ring.take(waits=False)
        for row in w.range(0, x.rows, 64):
            if how == "unread":
                held.release()
            elif how == "multiplied":
                w.gemm(held.x, held.x)
            elif how == "alone":
                with w.one_thread():
                    held.ready()
            elif how == "peeked":
                ring.ready().ready()
            elif how != "unready":
                held.ready()
            w.store(w.load(held.x), y[row, 0])
            if how == "released alone":
                with w.one_thread():
                    held.release()
            held.release()
            if how == "late":
                held.ready()
            held = ring.take(waits=how == "other")
        if how != "other":
            held.ready()
        held.release()
    with w.role(), w.one_thread():
        for row in w.range(0, x.rows + 64, 64):
            ring.fill(x=x[row, 0])


def test_a_stage_is_taken_before_it_is_awaited():
    x = np.random.default_rng(0).standard_normal((192, 64)).astype(np.float16)
    y = np.zeros_like(x)
    findings = awaited_later.emulate(x, y, how="").findings
    assert not findings, findings[0]
    assert np.array_equal(y, x)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "unready",
            r"this stage is read before it is full, since waits=False took it .*: call its ready\(\)",
        ),
        ("multiplied", "this stage is read before it is full"),
        ("unread", "this stage is released before it is full"),
        ("late", "this stage was released"),
        ("peeked", r"this stage wasn't taken: only one from take\(\) can be waited for"),
        ("alone", r"whole warpgroups took this stage, so its ready\(\) can't be in w.one_thread\(\)"),
        ("released alone", r"so its release\(\) can't be in w.one_thread\(\)"),
        ("other", "isn't awaited before, and is awaited at the end"),
    ],
)
def test_a_stage_that_is_never_awaited_is_refused(how, message):
    x = np.zeros((192, 64), np.float16)
    with pytest.raises(weft.WeftError, match=message):
        awaited_later.emulate(x, np.zeros_like(x), how=how)
