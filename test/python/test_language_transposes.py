"""Tiles of 8 bits in `weft.language`: transposed in shared memory, and as left operand of products."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

E4M3 = ml_dtypes.float8_e4m3fn


@w.kernel()
def transposed(x: w.In["m n", w.e4m3], y: w.Out["n m", w.e4m3], *, m, n, interleaved=False):
    """y = x.T, of one tile."""
    copies, made = w.ring(1, x=(m, n, x.dtype)), w.ring(1, y=(n, m, x.dtype))
    with w.role():
        copies.fill(x=x[0, 0])
        with copies.take() as stage, made.write() as to:
            w.transpose(stage.x, to.y, interleaved=interleaved)
    with w.role(), made.take() as stage:
        w.store(w.load(stage.y), y[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("m, n", [(128, 64), (32, 64), (192, 64)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_bytes_are_transposed(m, n, interleaved):
    x = np.random.default_rng(0).standard_normal((m, n)).astype(E4M3)
    y = np.zeros((n, m), E4M3)
    report = transposed.emulate(x, y, m=m, n=n, interleaved=interleaved)
    assert not report.findings, report.findings[0]
    order = np.arange(m)
    if interleaved:
        order = order.reshape(-1, 2, 4, 2).swapaxes(1, 2).reshape(-1)
    assert np.array_equal(y.view(np.uint8), x.T[:, order].view(np.uint8))


@w.kernel()
def transposed_in_place(x: w.In["m n", w.e4m3], y: w.Out["n m", w.e4m3], *, n, interleaved, count=2):
    """y = x.T, of tiles of 128 rows, one after the other."""
    copies = w.ring(1, x=(128, n, x.dtype))
    made = w.ring(1, y=(n, 128, x.dtype), over=copies)
    with w.role():
        for number in w.range(count):
            copies.fill(x=x[number * 128, 0])
            block = copies.take()
            with made.write(block) as to:
                w.transpose(block.x, to.y, interleaved=interleaved)
    with w.role():
        for number in w.range(count):
            with made.take() as stage:
                w.store(w.load(stage.y), y[0, number * 128])


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("n", [128, 256])
@pytest.mark.parametrize("interleaved", [False, True])
def test_bytes_are_transposed_in_place(n, interleaved):
    x = np.random.default_rng(0).standard_normal((2 * 128, n)).astype(E4M3)
    y = np.zeros((n, 2 * 128), E4M3)
    report = transposed_in_place.emulate(x, y, n=n, interleaved=interleaved)
    assert not report.findings, report.findings[0]
    order = np.arange(2 * 128)
    if interleaved:
        order = order.reshape(-1, 2, 4, 2).swapaxes(1, 2).reshape(-1)
    assert np.array_equal(y.view(np.uint8), x.T[:, order].view(np.uint8))


@w.kernel()
def twice(
    a: w.In["64 k", w.e4m3],
    b: w.In["n k", w.e4m3],
    c: w.In["n e", w.e4m3],
    y: w.Out["64 e", w.f32],
    *,
    k,
    n,
    e,
):
    """y = e4m3(a @ b.T) @ c."""
    left, right = w.ring(1, a=(64, k, a.dtype), b=(n, k, b.dtype)), w.ring(1, c=(n, e, c.dtype))
    made = w.ring(1, c=(e, n, c.dtype))
    with w.role():
        with left.take() as stage:
            p = w.wait(w.gemm(stage.a, stage.b.T))
        with made.take() as stage:
            y_ = w.wait(w.gemm(w.interleaved(p).to(w.e4m3), stage.c.T))
        w.store(y_, y[0, 0])
    with w.role():
        left.fill(a=a[0, 0], b=b[0, 0])
        right.fill(c=c[0, 0])
        with right.take() as stage, made.write() as to:
            w.transpose(stage.c, to.c, interleaved=True)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("n", [64, 96])
def test_sums_of_8_bits_are_the_left_operand_of_a_product(n):
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-2, 3, shape).astype(E4M3) for shape in ((64, 32), (n, 32), (n, 64)))
    y = np.zeros((64, 64), np.float32)
    report = twice.emulate(a, b, c, y, k=32, n=n, e=64)
    assert not report.findings, report.findings[0]
    p = (a.astype(float) @ b.astype(float).T).astype(E4M3).astype(float)
    assert np.array_equal(y, p @ c.astype(float))


@w.kernel()
def wrong(x: w.In["m n", w.e4m3], y: w.Out["m n", w.f32], *, what):
    copies, made = w.ring(1, x=(64, 64, x.dtype)), w.ring(1, x=(64, 64, x.dtype))
    narrow, other = w.ring(1, x=(32, 32, x.dtype)), w.shared(64, 64, w.bf16)
    with w.role():
        p = w.zeros((64, 64))
        if what == "written twice":
            copies.fill(x=x[0, 0])
            with copies.write():
                pass
        if what == "filled twice":
            with copies.write():
                copies.fill(x=x[0, 0])
        if what == "in two roles":
            with made.write():
                pass
        if what == "type":
            w.transpose(other, other)
        if what == "shape":
            with copies.take() as stage, narrow.take() as to:
                w.transpose(stage.x, to.x)
        if what == "extents":
            with narrow.take() as stage:
                w.transpose(stage.x, stage.x)
        if what == "order":
            w.gemm(p.to(w.e4m3), copies.take().x.T)
        if what == "columns":
            w.interleaved(w.zeros((64, 48)))
        if what == "vector":
            w.interleaved(w.zeros(64))
    with w.role(), made.write():
        pass


MISTAKES = {
    "written twice": "ring 'x' is filled already: make another one for what is written here",
    "filled twice": "ring 'x' is written already: make another one for what is copied here",
    "in two roles": "ring 'x' is written in another role already: make another one",
    "type": "source of w.transpose must be a buffer of 8-bit elements, got a buffer of 64 x 64 w.bf16",
    "shape": "w.transpose of a buffer of 64 x 64 w.e4m3 expects .* its type and transposed shape, got .*32 x",
    "extents": "w.transpose divides a buffer into 32 x 16 for 4 warps, got a buffer of 32 x 32 w.e4m3: rows",
    "order": "must have its columns in the order of w.interleaved, got .*: write w.interleaved(x).to(w.e4m3)",
    "columns": "w.interleaved expects a multiple of 32 columns, .* got a fragment of 64 x 48 w.f32",
    "vector": "w.interleaved expects a tile of rows and columns, got a fragment of 64 w.f32",
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes(what):
    text = re.escape(MISTAKES[what]).replace(r"\.\*", ".*")
    with pytest.raises(weft.WeftError, match=text):
        wrong.compile(what=what)


@w.kernel()
def wrong_over(x: w.In["m n", w.e4m3], *, what):
    copies, other = w.ring(2, x=(64, 128, x.dtype)), w.ring(2, x=(64, 128, x.dtype))
    stages, takers, rows = (
        {"stages": 3}.get(what, 2),
        {"takers": 2}.get(what, 1),
        {"bytes": 64}.get(what, 128),
    )
    under = {"not a ring": 1, "own memory": w.ring(2, over=copies, y=(128, 64, x.dtype))}.get(what, copies)
    made = w.ring(stages, takers=takers, over=under, y=(rows, 64, x.dtype))
    with w.role():
        copies.fill(x=x[0, 0])
        other.fill(x=x[0, 0])
        block = (other if what == "another ring" else copies).take()
        if what == "released":
            block.release()
        if what == "no ring below":
            with other.write(block):
                pass
        with made.write() if what == "no stage" else made.write(block) as to:
            w.transpose(block.x, to.y)


OVER_MISTAKES = {
    "not a ring": "over must be a ring with its own memory, got 1",
    "own memory": "over must be a ring with its own memory, got Ring",
    "stages": "over ring 'x' must have its 2 stages, 1 takers, and buffers of 8192 bytes, got 3, 1 and 8192",
    "takers": "over ring 'x' must have its 2 stages, 1 takers, and buffers of 8192 bytes, got 2, 2 and 8192",
    "bytes": "over ring 'x' must have its 2 stages, 1 takers, and buffers of 8192 bytes, got 2, 1 and 4096",
    "another ring": "ring 'y' is over ring 'x': write a stage that was taken from it and isn't released",
    "released": "ring 'y' is over ring 'x': write a stage that was taken from it and isn't released",
    "no stage": "ring 'y' is over ring 'x': write a stage that was taken from it and isn't released",
    "no ring below": "ring 'x' has its own memory: write() takes no stage of another one",
    "shape": "w.transpose in place needs 128 rows and a multiple of 128 columns, got a buffer of 64 x 128",
}


@pytest.mark.parametrize("what", OVER_MISTAKES)
def test_mistakes_with_rings_over_others(what):
    with pytest.raises(weft.WeftError, match=re.escape(OVER_MISTAKES[what])):
        wrong_over.compile(what=what)


@w.kernel()
def stored(x: w.In["m n"], y: w.Out["n m"], *, via=False):
    """y = x.T: the fragment is stored transposed."""
    buffer = w.shared(128, 64, x.dtype)
    with w.role(warpgroups=2) as me:
        t = w.load(x[0, 64 * me], (64, 64))
        if via:
            w.store(t, y[0, 0], via=buffer.rows(64 * me, 64).T)
        w.store(t, buffer.rows(64 * me, 64).T)
        w.warpgroup_barrier()
        w.store(w.load(buffer.rows(64 * me, 64)), y[64 * me, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, E4M3])
def test_fragments_are_stored_transposed(dtype, arch):
    x = np.random.default_rng(0).standard_normal((64, 128)).astype(dtype)
    y = np.zeros((128, 64), dtype)
    report = stored.emulate(x, y, arch=arch)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y.view(np.uint8), np.ascontiguousarray(x.T).view(np.uint8))
    moves = stored.compile(x, y, arch=arch).ptx.count("stmatrix.sync.aligned.m8n8.x4.trans")
    assert moves == (4 if dtype == np.float16 and arch == "sm_90a" else 0)


def test_stores_through_transposed_buffers():
    x = np.zeros((64, 128), np.float16)
    with pytest.raises(weft.WeftError, match="via can't be transposed, got a buffer of 64 x 64"):
        stored.compile(x, x.T.copy(), via=True)


def test_chips_without_these_instructions():
    with pytest.raises(weft.WeftError, match=r"w.transpose needs stmatrix, which sm_89 doesn't have: sm_90"):
        transposed.compile(m=128, n=64, arch="sm_89")
    with pytest.raises(weft.WeftError, match=r"w.gemm must have 16 bits on this chip, got .*w.e4m3: convert"):
        twice.compile(k=32, n=64, e=64, arch="sm_100a")
