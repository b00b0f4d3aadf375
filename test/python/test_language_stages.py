"""Stages that TMA fills again after threads have read them."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

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


@pytest.mark.each_value(2)
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
