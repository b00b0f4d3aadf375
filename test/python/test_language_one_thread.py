"""What acts once for each role, warp or CTA, on every chip: changes in `w.one_thread`, and signals."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.isa.chips import CHIPS
from weft.language.operations import roles

ROWS = 3  # of the tiles that a block fills, if it does


@w.inline
def changed(to, buffer, n):
    """Each change of an element by one thread, whose result the next one depends on."""
    u64, i32, f32, f16 = to
    i32[0] = 5 + n
    i32[1] = w.atomic_add(i32[0], 2) + i32[0]  # 5 + 7
    i32[2] = w.atomic_max(i32[1], 20) + w.atomic_min(i32[1], 3)  # 12 + 20
    i32[3] = w.atomic_or(i32[0], 24) + w.atomic_and(i32[0], 30)  # 7 + 31
    u64[0] = w.atomic_xor(u64[1], 3) + w.atomic_xchg(u64[1], 9)  # 0 + 3
    while w.atomic_cas(i32[4], 0, 1) != 0:  # a lock, which this thread releases
        pass
    i32[5] += 1
    i32[4] = 0
    f32[0] = w.atomic_add(f32[1], 1.5) + w.atomic_max(f32[1], 4.0)  # 0 + 1.5
    w.atomic_add(f16[0], w.f16(2.5))
    buffer[0, 0] = 1 + n
    f32[2] = (w.atomic_add(buffer[0, 0], 4) + buffer[0, 0]).to(w.f32)  # 1 + 5
    i32[7] = w.thread()
    w.print("changed", buffer[0, 0])


@w.kernel
def once(
    x: w.In["m n", w.f16],
    y: w.Out["m n", w.f16],
    u64: w.Out["n2", w.u64],
    i32: w.Out["n8", w.i32],
    f32: w.Out["n3", w.f32],
    f16: w.Out["n1", w.f16],
    *,
    fills=False,
):
    ring = w.ring(2, x=(64, 32, x.dtype)) if fills else None
    buffer = w.shared(1, 8, w.i32)
    with w.role():
        if fills:
            for row in w.range(0, x.rows, 64):
                with ring.take() as stage:
                    w.store(w.load(stage.x), y[row, 0])
    with w.role(), w.one_thread(warp=2):
        if fills:
            ring.fill(x=x[0, 0])
        changed((u64, i32, f32, f16), buffer, 0)
        w.signal(i32[6])
        w.await_signals(i32[6], 1)
        i32[6] = 10  # of which no thread may wait for 1 any more
        if fills:
            for row in w.range(64, x.rows, i32[6] + 54):
                ring.fill(x=x[row, 0])
        for _ in w.range(f32[2].to(w.i32)):  # 6 times
            w.signal(i32[6])


def check_once(run, fills):
    """Runs the kernel by `run`, and checks what it changed."""
    x = np.random.default_rng(0).standard_normal((64 * ROWS, 32)).astype(np.float16)
    y = np.zeros_like(x)
    u64, i32, f32, f16 = (
        np.zeros(n, t) for n, t in ((2, np.uint64), (8, np.int32), (3, np.float32), (1, np.float16))
    )
    run(x, y, u64, i32, f32, f16, fills=fills)
    assert u64.tolist() == [3, 9]
    assert i32.tolist() == [30, 3, 32, 38, 0, 1, 16, 64]
    assert f32.tolist() == [1.5, 4, 6] and f16.tolist() == [2.5]
    assert np.array_equal(y, x) or not fills


def emulated(arch):
    def run(*arrays, **options):
        report = once.emulate(*arrays, **options, arch=arch)
        assert not report.findings, report.findings[0]
        assert report.printed.splitlines() == ["changed 5"]

    return run


@pytest.mark.sampled(13)
@pytest.mark.parametrize("arch", CHIPS)
def test_one_thread_changes_elements_once(arch):
    check_once(emulated(arch), fills=False)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_one_thread_that_also_copies_changes_elements_once(arch):
    check_once(emulated(arch), fills=True)


@w.kernel
def decided(x: w.In["m n", w.f16], y: w.Out["m n", w.f16], c: w.Out["n6", w.i32]):
    """Loops and branches, in which a thread copies, that depend on results of its changes."""
    ring = w.ring(2, x=(64, 32, x.dtype))
    with w.role():
        for row in w.range(0, x.rows, 64):
            with ring.take() as stage:
                w.store(w.load(stage.x), y[row, 0])
    with w.role(), w.one_thread():
        n, m, times = w.i32(0), w.i32(1), w.i32(0)
        for row in w.range(0, x.rows, 64):
            n += w.atomic_add(c[0], 1)
            if n % 2 == 0:
                m = m * 2 + w.atomic_add(c[1], 3)
                ring.fill(x=x[row, 0])
            else:
                ring.fill(x=x[row, 0])
                n += w.atomic_xchg(c[2], n)
            while w.atomic_add(c[3], 1) < 5:
                times += 1
        c[4], c[5] = n * 100 + m, times


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_results_of_changes_decide_what_a_thread_copies(arch):
    x = np.random.default_rng(0).standard_normal((64 * 4, 32)).astype(np.float16)
    y, c = np.zeros_like(x), np.zeros(6, np.int32)
    assert not decided.emulate(x, y, c, arch=arch).findings
    n, m, old, added = 0, 1, 0, 0
    for number in range(4):
        n += number
        if n % 2 == 0:
            m, added = m * 2 + added, added + 3
        else:
            n, old = n + old, n
    assert np.array_equal(x, y) and c.tolist() == [4, added, old, 9, n * 100 + m, 5]


def test_changes_in_a_condition_are_noted_once(monkeypatch):
    """A condition is built to see what it is, erased, and built again. Erased operations can't be read."""
    noted, execute = [], roles._execute_whole

    def counted(branch, single, meet):
        noted.append(len(single.changes))
        execute(branch, single, meet)

    monkeypatch.setattr(roles, "_execute_whole", counted)
    x = np.zeros((64, 32), np.float16)
    decided.emulate(x, x.copy(), np.zeros(6, np.int32), arch="sm_86")
    assert noted == [6]  # four atomics and two stores


@w.kernel
def alone(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, what):
    buffer, turns = w.shared(64, 32, w.f32), w.turns(2)
    with w.role():
        t = w.load(x[0, 0], (64, 32))
        with w.one_thread():
            what(t, buffer, y, turns)


WHOLE = {
    "w.sum": lambda t, buffer, y, turns: w.sum(t, axis=1),
    "w.argmax": lambda t, buffer, y, turns: w.argmax(t, axis=1),
    "w.warp_any": lambda t, buffer, y, turns: w.warp_any(t > 1.0),
    "w.clear_rows": lambda t, buffer, y, turns: w.clear_rows(buffer, 3),
    "w.store_column": lambda t, buffer, y, turns: w.store_column(w.zeros(64, like=t), y[0, 0]),
    "w.atomic_add": lambda t, buffer, y, turns: w.atomic_add(y[0, 0], t),
    "w.print": lambda t, buffer, y, turns: w.print(t),
    "w.warpgroup_barrier": lambda t, buffer, y, turns: w.warpgroup_barrier(),
    "turns": lambda t, buffer, y, turns: turns.wait(0),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", WHOLE)
def test_what_needs_all_threads_is_refused_in_one(name, arch):
    with pytest.raises(
        weft.WeftError, match=r"must be executed by all threads|whole warpgroups|for all threads"
    ):
        alone.compile("f32", "f32", what=WHOLE[name], arch=arch)


BF16 = ml_dtypes.bfloat16
slow = pytest.mark.slow


@w.inline
def two_blocks(a, b, row, first, second):
    with w.one_thread():
        first.fill(x=a[row, 0])
    with w.one_thread():
        second.fill(x=b[row, 0])
    for k in w.range(64, a.columns, 64):
        with w.one_thread():
            first.fill(x=a[row, k])
            second.fill(x=b[row, k])


@w.inline
def two_warps(a, b, row, first, second):
    with w.one_thread(warp=3):
        for k in w.range(0, a.columns, 64):
            first.fill(x=a[row, k])
    with w.one_thread(warp=1):
        for k in w.range(0, a.columns, 64):
            second.fill(x=b[row, k])


@w.inline
def all_threads_and_one(a, b, row, first, second):
    first.fill(x=a[row, 0])
    for k in w.range(0, a.columns, 64):
        if k > 0:
            with w.one_thread():
                first.fill(x=a[row, k])
        second.fill(x=b[row, k])


@w.inline
def a_branch_in_a_loop(a, b, row, first, second):
    k = w.i32(0)
    while k < a.columns:
        if k % 128 == 0:
            with w.one_thread(warp=2):
                first.fill(x=a[row, k])
        else:
            with w.one_thread(warp=2):
                first.fill(x=a[row, k])
                second.fill(x=b[row, k - 64])
                second.fill(x=b[row, k])
        k += 64
    if a.columns % 128 > 0:
        with w.one_thread(warp=2):
            second.fill(x=b[row, a.columns - 64])


@w.kernel(grid=lambda a: (w.ceil_div(a.rows, 64) * 2,), cluster=2)
def sums(a: w.In["m k", w.bf16], b: w.In["m k", w.bf16], d: w.Out["m n", w.bf16], *, filled):
    """d = a + b, twice beside each other. Both rings are taken together, by CTAs that share them."""
    first, second = (w.ring(2, x=(64, 64, a.dtype), shared={"x": 0}) for _ in range(2))
    row, half = w.cta(0) // 2 * 64, w.cta(0) % 2
    with w.role():
        for k in w.range(0, a.columns, 64):
            with first.take() as one, second.take() as other:
                w.store(w.load(one.x) + w.load(other.x), d[row, half * a.columns + k])
    with w.role():
        filled(a, b, row, first, second)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "filled, arch",
    [
        (two_blocks, "sm_90a"),
        (two_warps, "sm_90a"),
        (all_threads_and_one, "sm_90a"),
        (a_branch_in_a_loop, "sm_90a"),
        pytest.param(two_blocks, "sm_80", marks=slow),
        pytest.param(a_branch_in_a_loop, "sm_80", marks=slow),
        pytest.param(two_warps, "sm_100a", marks=slow),
        pytest.param(all_threads_and_one, "sm_120a", marks=slow),
    ],
)
def test_positions_and_waits_of_blocks(filled, arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 320)).astype(BF16) for _ in range(2))
    d = np.zeros((128, 640), BF16)
    report = sums.emulate(a, b, d, filled=filled, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert (d == np.concatenate([a + b] * 2, axis=1)).all()


def test_each_ring_has_one_thread():
    @w.inline
    def different_warps(a, b, row, first, second):
        first.fill(x=a[row, 0])
        with w.one_thread(warp=1):
            first.fill(x=a[row, 0])

    @w.inline
    def all_threads_after_one(a, b, row, first, second):
        with w.one_thread(warp=2):
            first.fill(x=a[row, 0])
        first.lend()

    for filled, where in ((different_warps, ""), (all_threads_after_one, "warp=2")):
        message = rf"ring 'x' is filled by another thread .* fill it in w.one_thread\({where}\)"
        with pytest.raises(weft.WeftError, match=message) as caught:
            sums.compile(filled=filled)
        assert caught.value.diagnostics[0].location.file == __file__


@w.kernel
def moved(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, warps=(1, 1)):
    """y = x, stored by one thread in two blocks."""
    ring = w.ring(2, x=(64, 32, w.f32))
    with w.role():
        for i in w.range(0, x.rows, 64):
            with ring.write() as stage:
                w.store(w.load(x[i, 0], (64, 32)), stage.x)
    with w.role():
        with w.one_thread(warp=warps[0]), ring.take() as stage:
            w.store(stage.x, y[0, 0])
        for i in w.range(64, x.rows, 64):
            with w.one_thread(warp=warps[1]), ring.take() as stage:
                w.store(stage.x, y[i, 0])


def test_one_thread_takes_stages_in_several_blocks():
    x = np.random.default_rng(0).standard_normal((320, 32)).astype(np.float32)
    y = np.zeros_like(x)
    assert not moved.emulate(x, y, arch="sm_90a").findings
    assert (y == x).all()
    message = r"'x' are taken by another thread of the role .* take them in w.one_thread\(warp=2\)"
    with pytest.raises(weft.WeftError, match=message):
        moved.compile(x, y, warps=(2, 1))
