"""Branches that whole warpgroups take, on `w.warpgroup_any`."""

import numpy as np
import pytest

import weft
import weft.language as w


def kernel(vote):
    @w.kernel()
    def again(x: w.In["m k"], b: w.In["n k"], d: w.Out["m n", w.f32], limit: w.f32):
        """Twice x @ b.T in each 64 rows with a product above the limit, otherwise once."""
        ring = w.ring(1, x=(128, 64, x.dtype), b=(32, 64, b.dtype), takers=2)
        with w.role(warpgroups=2) as me:
            with ring.take() as stage:
                mine = stage.x.rows(64 * me, 64)
                sums = w.wait(w.gemm(mine, stage.b.T))
                if vote(sums > limit):
                    sums = w.wait(w.gemm(mine, stage.b.T, sums))
            w.store(sums, d[64 * me, 0])
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0], b=b[0, 0])

    return again


def test_a_warpgroup_multiplies_in_a_branch():
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (128, 32))
    once = x.astype(np.float32) @ b.astype(np.float32).T
    limit = (once[:64].max() + once[64:].max()) / 2  # one of the warpgroups exceeds it, in few elements
    assert 0 < (once > limit).sum() < 20
    d = np.zeros_like(once)
    assert not kernel(w.warpgroup_any).emulate(x, b, d, float(limit)).findings
    twice = np.repeat([once[:64].max() > limit, once[64:].max() > limit], 64)[:, None]
    assert np.array_equal(d, np.where(twice, 2 * once, once))


def test_a_branch_of_a_warp_has_no_product():
    x, b, d = np.zeros((128, 64), np.float16), np.zeros((32, 64), np.float16), np.zeros((128, 32), np.float32)
    with pytest.raises(weft.WeftError, match="needs all 128 threads of the warpgroup to reach it together"):
        kernel(w.warp_any).compile(x, b, d, 1.0, arch="sm_90a")


@pytest.mark.parametrize(
    "vote, message",
    [
        (lambda t: w.warpgroup_any(t), "w.warpgroup_any expects a condition, such as x < y, got"),
        (lambda t: w.warpgroup_any(True), "w.warpgroup_any expects a condition of the GPU, got True"),
    ],
    ids=["number", "python"],
)
def test_mistakes(vote, message):
    @w.kernel()
    def wrong(y: w.Out["m n", w.f32]):
        with w.role():
            t = w.zeros((64, 8))
            if vote(t):
                t = t + 1.0
            w.store(t, y[0, 0])

    with pytest.raises(weft.WeftError, match=message):
        wrong.compile(np.zeros((64, 8), np.float32))


def test_a_vote_is_in_a_role():
    @w.kernel(threads=128)
    def outside(y: w.Out["n", w.f32]):
        if w.warpgroup_any(w.thread() > 3):
            y[w.thread()] = 1.0

    with pytest.raises(weft.WeftError, match=r"w\.warpgroup_any must be in a role, executed by whole"):
        outside.compile(np.zeros(128, np.float32))
