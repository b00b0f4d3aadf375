"""`w.signal` and `w.await_signals`: CTAs that wait for what others have written."""

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def one_after_another(
    x: w.In["m n", w.f32],
    y: w.Out["rows n", w.f32],
    z: w.Out["m n", w.f32],
    done: w.Out["one", w.i32],
    *,
    waits=True,
):
    """TMA adds a tile to y, which a CTA stores in z and clears for the next one."""
    staging = w.shared(64, 32, w.f32)
    with w.role():
        tile, number = w.load(x[w.cta() * 64, 0], (64, 32)), 2 * w.cta()
        if waits:
            w.await_signals(done[0], number)
        w.atomic_add(y[0, 0], tile, via=staging)
        w.signal(done[0])
        w.await_signals(done[0], number + 1)
        w.store(w.load(y[0, 0], like=tile), z[w.cta() * 64, 0])
        w.store(w.zeros((64, 32), like=tile), y[0, 0])
        w.signal(done[0])


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    "arch, waits",
    [
        ("sm_75", True),
        ("sm_80", True),
        ("sm_89", True),
        ("sm_90a", True),
        ("sm_90a", False),
        ("sm_100a", True),
        ("sm_120a", True),
    ],
)
def test_ctas_wait_for_those_before(arch, waits):
    x = np.random.default_rng(0).standard_normal((192, 32)).astype(np.float32)
    y, z, done = np.zeros((64, 32), np.float32), np.zeros_like(x), np.zeros(1, np.int32)
    findings = one_after_another.emulate(x, y, z, done, waits=waits, arch=arch).findings
    if not waits:
        assert "global-race" in {each.rule for each in findings}
        return
    assert not findings, findings[0]
    assert np.array_equal(z, x) and not y.any() and done[0] == 6


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 256))
def added_by_one_thread(
    x: w.In["m n", w.f32], y: w.Out["rows n", w.f32], done: w.Out["one", w.i32], *, waits=True
):
    """Each of two warpgroups writes its own stages, which a thread adds to y, in the order of CTAs."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role(warpgroups=2) as me:
        for i in w.range(2):
            with ring.write(own=True) as stage:
                w.store(w.load(x[w.cta() * 256 + (2 * i + me) * 64, 0], (64, 32)), stage.x)
    with w.role():
        if waits:
            w.await_signals(done[0], w.cta())
        with w.one_thread(warp=1):
            for i in w.range(4):
                with ring.take() as stage:
                    w.atomic_add(y[i * 64, 0], stage.x)
            w.signal(done[0])


def test_one_thread_adds_stages():
    x = np.random.default_rng(0).standard_normal((512, 32)).astype(np.float32)
    y, done = np.zeros((256, 32), np.float32), np.zeros(1, np.int32)
    findings = added_by_one_thread.emulate(x, y, done).findings
    assert not findings, findings[0]
    assert np.array_equal(y, x[:256] + x[256:]) and done[0] == 2


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 128))
def stored_by_the_first(
    x: w.In["m n", w.f32], y: w.Out["rows n", w.f32], done: w.Out["tiles", w.i32], *, waits=True
):
    """A thread of the first CTA stores stages in y, to which others add theirs when they see these."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role():
        for i in w.range(2):
            with ring.write() as stage:
                w.store(w.load(x[w.cta() * 128 + i * 64, 0], (64, 32)), stage.x)
    with w.role(), w.one_thread():
        for i in w.range(2):
            if waits and w.cta() > 0:
                w.await_signals(done[i], 1)
            with ring.take() as stage:
                if w.cta() == 0:
                    w.store(stage.x, y[i * 64, 0])
                else:
                    w.atomic_add(y[i * 64, 0], stage.x)
            if w.cta() == 0:
                w.signal(done[i])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("waits", [True, False])
def test_one_thread_stores_stages_and_waits(waits):
    x = np.random.default_rng(0).standard_normal((384, 32)).astype(np.float32)
    y, done = np.full((128, 32), np.nan, np.float32), np.zeros(2, np.int32)
    findings = stored_by_the_first.emulate(x, y, done, waits=waits).findings
    if not waits:
        assert "global-race" in {each.rule for each in findings}
        return
    assert not findings, findings[0]
    assert np.allclose(y, x.reshape(3, 128, 32).sum(0), atol=1e-6) and done.tolist() == [1, 1]


@w.kernel
def misused(y: w.Out["m n", w.f32], *, how):
    ring = w.ring(3 if how == "own" else 2, x=(64, 32, w.f32), takers=2 if how == "takers" else 1)
    with w.role(warpgroups=2):
        with ring.write(own=how == "own"):
            pass
        if how == "whole":
            w.atomic_add(y[0, 0], ring.ready().x)
        if how == "stored":
            w.store(ring.ready().x, y[0, 0])
        if how == "both":
            ring.take().release()
    with w.role(), w.one_thread(warp=4 if how == "warp" else 1), ring.take() as stage:
        if how == "transposed":
            w.store(stage.x.T, y[0, 0])


@pytest.mark.parametrize(
    "how, message",
    [
        ("own", "with own, a ring must have as many stages as the role has warpgroups, 2, got 3"),
        ("takers", "takers of a ring must be 1 if one thread takes its stages, got 2"),
        ("both", "must be taken either by one thread, or by whole warpgroups"),
        ("whole", "a buffer must be added in w.one_thread"),
        ("stored", "a buffer must be stored in w.one_thread"),
        ("transposed", "a buffer of 32 x 64 w.f32 can't be stored transposed"),
        ("warp", "warp must be in 0..3, got 4"),
    ],
)
def test_misuse_of_rings_of_one_thread_is_refused(how, message):
    with pytest.raises(weft.WeftError, match=message):
        misused.emulate(np.zeros((64, 32), np.float32), how=how)


@w.kernel(grid=lambda x: x.rows)
def wrong(x: w.In["m n", w.f32], y: w.In["m", w.i32], z: w.Out["m n", w.i32], d: w.Out["m", w.i32], *, what):
    element = {"read": y[0], "tile": z[0, 0], "number": 3}.get(what, d[0])
    if what == "no role":
        w.signal(element)
    with w.role():
        w.signal(element)


@pytest.mark.parametrize(
    "what, message",
    [
        ("read", "w.signal expects an element of a w.Out of w.i32, got"),
        ("tile", "w.signal expects an element of an array of one dimension, got"),
        ("number", "w.signal expects an element of an array of one dimension, got 3"),
        ("no role", "w.signal must be in a role"),
    ],
)
def test_what_is_no_counter_is_refused(what, message):
    shapes = ((64, 64), np.float32), (64, np.int32), ((64, 64), np.int32), (64, np.int32)
    with pytest.raises(weft.WeftError, match=message):
        wrong.emulate(*(np.zeros(*each) for each in shapes), what=what)


@w.kernel(grid=3)
def reset_when_signaled(done: w.Out["one", w.i32]):
    with w.role():
        if w.cta() < 2:
            w.signal(done[0])
        else:
            w.await_signals(done[0], 2)
            w.barrier()
            if w.thread() == 0:
                done[0] = 0


def test_a_counter_is_reset_by_a_store_after_its_signals():
    done = np.zeros(1, np.int32)
    assert reset_when_signaled.emulate(done, arch="sm_90a").findings == ()
    assert done[0] == 0
