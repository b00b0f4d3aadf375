"""Stages that TMA fills again after threads have read them."""

import re

import ml_dtypes
import numpy as np
import pytest

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


@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a", "sm_120a"])
def test_loads_of_a_stage_are_fenced_before_its_release(chip):
    x, noise, out = arrays(), np.ones((2, 128, 32), np.float32), np.zeros((2, 512), np.float32)
    ptx = sums_beside_stores.compile(x, noise, out, arch=chip).ptx
    assert re.search(rf"ldmatrix[^@]*{FENCE};\s*bar\.warp\.sync[^@]*@.*\s*[^@]*mbarrier\.arrive\.shared", ptx)
    report = sums_beside_stores.emulate(x, noise, out, arch=chip)
    assert not report.findings
    np.testing.assert_allclose(out, x.astype(np.float32).sum(2), rtol=1e-5, atol=1e-5)
    assert not noise.any()


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
