"""Stages of rings that are lent, filled again after reads, and released by their takers."""

import linecache
import re

import ml_dtypes
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


FENCE = "fence.proxy.async.shared::cta"


@w.kernel(grid=lambda x: x.size(0))
def sums_beside_stores(
    x: w.In["ctas m k", w.bf16],
    noise: w.Out["ctas n lanes", w.f32],
    out: w.Out["ctas rows", w.f32],
):
    """Sums of rows, from stages that are released at once. Meanwhile, stores delay loads of shared memory."""
    ring = w.ring(2, x=(64, 64, w.bf16))
    with w.role():
        for i in w.range(x.size("m") // 64):
            with ring.take() as slot:
                part = w.load(slot.x, like=w.zeros((64, 64), w.bf16))
            w.store_column(w.sum(part.to(w.f32), axis=1), out[w.cta(), i * 64])
    with w.role():
        zeros = w.by_lanes(w.zeros((64, 32)))
        for i in w.range(0, noise.size("n"), 64):
            w.store(zeros, noise[w.cta(), i, 0])
    with w.role(), w.one_thread():
        for i in w.range(x.size("m") // 64):
            ring.fill(x=x[w.cta(), i * 64, 0])


@w.kernel(grid=lambda x: x.size(0))
def squares(x: w.In["ctas m k", w.bf16], out: w.Out["ctas rows columns", w.f32], *, takes, writes):
    """x @ x.T of tiles, plus the tile itself where `takes`, of its copy where `writes`."""
    ring = w.ring(2, x=(64, 64, w.bf16))
    copies = w.ring(2, x=(64, 64, w.bf16))
    with w.role():
        for i in w.range(x.size("m") // 64):
            with ring.take() as slot:
                more = w.zeros((64, 64))
                if takes:
                    tile = w.load(slot.x, like=w.zeros((64, 64), w.bf16))
                    more = tile.to(w.f32)
                if writes:
                    with copies.write() as copy:
                        w.store(tile, copy.x)
                    with copies.take() as copy:
                        total = w.wait(w.gemm(copy.x, copy.x.T))
                else:
                    total = w.wait(w.gemm(slot.x, slot.x.T))
            w.store(total + more, out[w.cta(), i * 64, 0])
    with w.role(), w.one_thread():
        for i in w.range(x.size("m") // 64):
            ring.fill(x=x[w.cta(), i * 64, 0])


def arrays(m=512):
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, m, 64), np.float32).astype(ml_dtypes.bfloat16)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a", "sm_120a"])
def test_loads_of_a_stage_are_fenced_before_its_release(chip):
    x, noise, out = arrays(), np.ones((2, 128, 32), np.float32), np.zeros((2, 512), np.float32)
    ptx = sums_beside_stores.compile(x, noise, out, arch=chip).ptx
    assert re.search(rf"ldmatrix[^@]*{FENCE};\s*bar\.warp\.sync[^@]*@.*\s*[^@]*mbarrier\.arrive\.shared", ptx)
    report = sums_beside_stores.emulate(x, noise, out, arch=chip)
    assert not report.findings
    np.testing.assert_allclose(out, x.astype(np.float32).sum(2), rtol=1e-5, atol=1e-5)
    assert not noise.any()


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("takes", "writes", "fences"), [(False, False, 0), (True, False, 1), (True, True, 1)]
)
def test_stages_are_fenced_once_and_only_for_loads(takes, writes, fences):
    """The fence of what is written after the loads orders these, too."""
    x, out = arrays(), np.zeros((2, 512, 64), np.float32)
    meta = {"takes": takes, "writes": writes, "arch": "sm_90a"}
    assert squares.compile(x, out, **meta).ptx.count(FENCE) == fences
    assert not squares.emulate(x, out, **meta).findings
    tiles = x.astype(np.float32).reshape(2, -1, 64, 64)
    want = tiles @ tiles.transpose(0, 1, 3, 2) + tiles * takes
    np.testing.assert_allclose(out.reshape(want.shape), want, rtol=1e-3, atol=1e-3)


def changed(kernel, x, **meta):
    """What a kernel of 8 tiles of 64 x 32 stores for its threads. None of its accesses is unordered."""
    out = np.zeros((x.shape[0], 128), np.float32)
    report = kernel.emulate(x, out, **meta)
    assert not report.findings, str(report.findings[0])
    return out


@pytest.mark.each_value(2)
@pytest.mark.parametrize("how", ["element", "tile", "vector", "after a load and a fence", "ready"])
def test_stores_to_a_stage_are_fenced_before_its_release(how):
    """Otherwise TMA could fill the stage before what was stored to it arrives."""

    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["1 m 32", w.f32], y: w.Out["1 128", w.f32], *, how):
        ring = w.ring(2, x=(64, 32, w.f32), row=(1, 32, w.f32))
        with w.role(), w.one_thread():
            for i in w.range(x.size("m") // 64):
                ring.fill(x=x[0, i * 64, 0], row=x[0, i * 64, 0])
        with w.role():
            zeros, total = w.zeros((64, 32)), w.f32(0)
            for _ in w.range(x.size("m") // 64):
                if how == "ready":
                    w.store(zeros, ring.ready().x)
                with ring.take() as slot:
                    if how == "element":
                        slot.x[w.thread() % 64, w.thread() // 64] = 2.0
                    elif how == "tile":
                        w.store(zeros, slot.x)
                    elif how == "vector":
                        w.store_row(w.sum(zeros, axis=0), slot.row)
                    elif how.startswith("after"):
                        total += w.sum(w.load(slot.x))
                        w.fence()
                        w.barrier()
                        w.store(zeros, slot.x)
            y[0, w.thread()] = total

    x = np.ones((1, 512, 32), np.float32)
    assert (changed(kernel, x, how=how) == (512 * 32 if how.startswith("after") else 0)).all()


def test_loads_of_a_peers_stage_are_fenced():
    @w.kernel(grid=lambda x: x.size(0), cluster=(2,), arch="sm_90a")
    def kernel(x: w.In["ctas m 32", w.f32], y: w.Out["ctas 128", w.f32]):
        ring = w.ring(1, x=(64, 32, w.f32))
        with w.role():
            total = w.f32(0)
            for i in w.range(x.size("m") // 64):
                ring.fill(x=x[w.cta(), i * 64, 0])
                with ring.take() as slot:
                    w.cluster_barrier()
                    total += w.sum(w.load(slot.x.peer(1 - w.cta())))
                    w.cluster_barrier()
            y[w.cta(), w.thread()] = total

    x = np.stack([np.full((512, 32), each, np.float32) for each in (1, 2)])
    assert np.array_equal(changed(kernel, x)[:, 0], [2 * 512 * 32, 512 * 32])


def test_a_stage_that_was_only_awaited_cannot_be_released_in_a_loop():
    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m 32", w.f32], y: w.Out["128", w.f32]):
        ring = w.ring(2, x=(64, 32, w.f32))
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0])
        with w.role():
            slot = ring.ready()
            for _ in w.range(2):
                y[w.thread()] = slot.x[0, 0]
                slot.release()
                slot = ring.ready()

    with pytest.raises(weft.WeftError, match=r"this stage wasn't taken: ready\(\) only waits for it"):
        kernel.compile()


def tiles(takers, warpgroups, taking, *, writes=False):
    """A kernel of a role whose warpgroups run `taking(ring, me, x)`, beside one that fills the ring."""

    @w.kernel()
    def kernel(x: w.In["m k", w.f16], y: w.Out["m k", w.f32]):
        ring = w.ring(3, a=(64, 64, w.f16), takers=takers)
        if writes:
            with w.role():
                for _ in w.range(0, x.columns, 64):
                    with ring.write() as stage:
                        w.store(w.zeros((64, 64), w.f16), stage.a)
        with w.role(warpgroups=warpgroups) as me:
            taking(ring, me, x)
        if not writes:
            with w.role(), w.one_thread():
                for k in w.range(0, x.columns, 64):
                    ring.fill(a=x[0, k])

    return kernel


@w.inline
def each_stage(ring, me, x):
    for _ in w.range(0, x.columns, 64):
        with ring.take():  # here
            pass


@w.inline
def each_in_its_loop(ring, me, x):
    for _ in w.range(w.cta(0), x.columns + w.cta(0), 64):
        if x.rows > 8:
            ring.take().release()  # here


@w.inline
def by_one_thread(ring, me, x):
    with w.one_thread():
        each_stage(ring, me, x)


@pytest.mark.parametrize(
    ("takers", "warpgroups", "taking", "message"),
    [
        (1, 2, each_stage, "takers=1, and 2 warpgroups release each stage: write takers=2 in w.ring"),
        (2, 1, each_stage, "takers=2, and 1 warpgroup releases each stage: write takers=1 in w.ring"),
        (3, 2, each_in_its_loop, "takers=3, and 2 warpgroups release each stage: write takers=2 in w.ring"),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_wrong_number_of_takers_is_refused(takers, warpgroups, taking, message, arch):
    refused(tiles(takers, warpgroups, taking), message, arch)


def test_threads_of_two_warpgroups_that_take_each_stage_are_refused():
    message = "takers=1, and a thread of each of 2 warpgroups releases each stage: let one of them take it"
    refused(tiles(1, 2, by_one_thread, writes=True), message, "sm_90a")


def refused(kernel, message, arch):
    with pytest.raises(weft.WeftError, match=re.escape(message)) as caught:
        kernel.compile(arch=arch)
    assert "# here" in linecache.getline(__file__, caught.value.diagnostics[0].location.line)


@w.inline
def by_the_first(ring, me, x):
    if me == 0:
        each_stage(ring, me, x)


@w.inline
def by_the_second(ring, me, x):
    for _ in w.range(0, me * x.columns, 64):
        with ring.take():
            pass


@w.inline
def by_the_first_while(ring, me, x):
    left = x.columns * (1 - me)
    while left > 0:
        ring.take().release()
        left = left - 64


@w.inline
def once(ring, me, x):
    ring.take()  # nothing fills it again


@pytest.mark.parametrize("taking", [by_the_first, by_the_second, by_the_first_while, once])
def test_stages_that_one_of_two_warpgroups_releases_are_left_alone(taking):
    x = np.zeros((64, 64 if taking is once else 320), np.float16)
    assert not tiles(1, 2, taking).emulate(x, np.zeros_like(x, np.float32), arch="sm_90a").findings


def test_takers_of_two_roles_add_up():
    def kernel_of(takers):
        @w.kernel()
        def kernel(x: w.In["m k", w.f16]):
            ring = w.ring(2, a=(64, 64, w.f16), takers=takers)
            with w.role():
                each_stage(ring, 0, x)
            with w.role(warpgroups=2):
                each_stage(ring, 0, x)
            with w.role(), w.one_thread():
                for k in w.range(0, x.columns, 64):
                    ring.fill(a=x[0, k])

        return kernel

    assert not kernel_of(3).emulate(np.zeros((64, 320), np.float16), arch="sm_90a").findings
    with pytest.raises(weft.WeftError, match="takers=2, and 3 warpgroups release each stage: write takers=3"):
        kernel_of(2).compile(arch="sm_90a")


@w.inline
def by_the_first(ring, me, x):
    if me == 0:
        each_stage(ring, me, x)


def test_too_few_releases_are_found_where_a_branch_decides():
    """Only with more K blocks than stages, a deadlock would show them."""
    x, y = np.zeros((64, 128), np.float16), np.zeros((64, 128), np.float32)
    findings = tiles(2, 2, by_the_first).emulate(x, y, arch="sm_90a").findings
    assert {finding.rule for finding in findings} == {"mbarrier-arrivals"}
    assert "1 of 2 arrivals of the first phase" in str(findings[0])
    assert not tiles(1, 2, by_the_first).emulate(x, y, arch="sm_90a").findings


def test_one_of_two_roles_may_release_each_stage():
    @w.kernel(grid=lambda x: 2)
    def kernel(x: w.In["m k", w.f16]):
        ring = w.ring(2, a=(64, 64, w.f16))
        with w.role():
            if w.cta() == 0:
                each_stage(ring, 0, x)
        with w.role():
            if w.cta() != 0:
                each_stage(ring, 0, x)
        with w.role(), w.one_thread():
            for k in w.range(0, x.columns, 64):
                ring.fill(a=x[0, k])

    assert not kernel.emulate(np.zeros((64, 320), np.float16), arch="sm_90a").findings


def test_conditions_of_unsigned_arguments_are_those_of_all_warpgroups():
    @w.kernel()
    def kernel(x: w.In["m k", w.f16], n: w.u32):
        ring = w.ring(3, a=(64, 64, w.f16))
        with w.role(warpgroups=2):
            if n > 2**31:
                ring.take().release()
        with w.role(), w.one_thread():
            ring.fill(a=x[0, 0])

    with pytest.raises(weft.WeftError, match="takers=1, and 2 warpgroups release each stage"):
        kernel.compile(arch="sm_90a")
