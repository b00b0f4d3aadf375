"""`w.tile_queue`: tiles that persistent CTAs take from a counter."""

import numpy as np
import pytest
from language_kernels import doubled

import weft
import weft.language as w


@pytest.mark.each_value(2)
@pytest.mark.parametrize("shape", [(320, 64), (64, 32), (130, 96)])
@pytest.mark.parametrize("one_thread, arch", [(False, "sm_90a"), (True, "sm_90a"), (True, "sm_80")])
def test_each_tile_is_taken_once(shape, one_thread, arch):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    tiles = -(-shape[0] // 64) * -(-shape[1] // 32)
    count = np.zeros(1, np.int32)
    for seed in (0, 1):  # the first launch leaves the counter at 0
        y, times = np.zeros_like(x), np.zeros(tiles + 1, np.int32)
        report = doubled.emulate(x, y, times, count, one_thread=one_thread, seed=seed, arch=arch)
        assert not report.findings, report.findings[0]
        assert np.array_equal(y, 2 * x) and count[0] == 0
        assert np.all(times[:-1] == 1) and times[-1] == tiles


def test_a_tile_that_takes_long_delays_none_behind_it():
    """The first one waits for all others but that for which its CTA has asked."""

    @w.kernel(grid=lambda times: times.rows, persistent=1)
    def counted(times: w.Out["tiles", w.i32], done: w.Out["one", w.i32], count: w.Out["one", w.i32]):
        queue = w.tile_queue(count[0])
        with w.role():
            for tile in queue:
                if w.thread() == 0:
                    if tile == 0:
                        while done[0].loaded() < times.rows - 2:
                            w.atomic_add(done[0], 0)
                    w.atomic_add(done[0], 1)
                    times[tile] = w.cta() + 1
                w.warpgroup_barrier()

    times, done, count = np.zeros(20, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = counted.emulate(times, done, count, sanitize=False)
    assert done[0] == 20 and count[0] == 0 and np.all(times > 0), report
    assert np.count_nonzero(times == times[0]) == 2


@w.kernel(grid=lambda x: x.rows, persistent=lambda *, persists=True: 1 if persists else None)
def wrong(x: w.In["m", w.i32], y: w.Out["m", w.i32], z: w.Out["m", w.f32], *, what, persists=True):
    element = {"read": x[0], "type": z[0], "number": 3}.get(what, y[0])
    if what == "late":
        with w.role():
            w.tile_queue(element)
    queue = w.tile_queue(element)
    if what == "no role":
        for _ in queue:
            pass
    with w.role():
        for _ in queue:
            pass
        if what == "twice":
            for _ in queue:
                pass
    with w.role():
        for _ in w.range(2):
            if what == "inside":
                for _ in queue:
                    pass


MISTAKES = {
    "read": "counter must be an element of a w.Out of w.i32, got ",
    "type": "counter must be an element of a w.Out of w.i32, got ",
    "number": "counter must be an element of an array, such as count\\[0\\], got 3",
    "late": "a queue of tiles must be made before the first role",
    "no role": "the tiles of w.tile_queue must be taken in a role",
    "twice": "a role can take the tiles of w.tile_queue in one loop only",
    "inside": "the loop over w.tile_queue must be the outermost one",
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes(what):
    with pytest.raises(weft.WeftError, match=MISTAKES[what]):
        wrong.compile(what=what)


def test_kernels_that_are_not_persistent():
    with pytest.raises(weft.WeftError, match=r"w.tile_queue is for persistent kernels"):
        wrong.compile(what="", persists=False)


def test_ctas_of_a_persistent_kernel_loop_over_their_tiles():
    @w.kernel(grid=lambda y: y.rows, persistent=1, threads=32)
    def kernel(y: w.Out["n", w.f32], *, by_number=False):
        if by_number:
            for i in w.range(w.cta(), y.rows, w.ctas()):
                y[i] = 1.0
        else:
            y[w.cta()] = 1.0

    y = np.zeros(40, np.float32)
    kernel.emulate(y, by_number=True)
    assert y.all()
    with pytest.raises(weft.WeftError, match=r"is persistent: its CTAs must loop over"):
        kernel.emulate(y)


def test_chips_without_mbarriers():
    @w.kernel(grid=4, persistent=1)
    def kernel(y: w.Out["n", w.f32], count: w.Out["one", w.i32]):
        queue = w.tile_queue(count[0])
        with w.role():
            for i in queue:
                y[i] = 1.0

    with pytest.raises(weft.WeftError, match=r"needs sm_80 or later, got sm_75: use w\.tiles there"):
        kernel.compile(arch="sm_75")
