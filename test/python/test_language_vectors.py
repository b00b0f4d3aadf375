"""Vectors in buffers of one row, in `weft.language`."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", ["f32", "e4m3"])
def test_vectors_go_through_buffers_to_another_role(dtype):
    kind = getattr(w, dtype)

    @w.kernel()
    def scaled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        ring = w.ring(1, down=(1, 128, kind), across=(1, 32, kind))
        with w.role(), ring.write() as slot:
            t = [w.load(x[64 * half, 0], (64, 32)) for half in range(2)]
            for half, each in enumerate(t):
                w.store_column(w.sum(each, axis=1).to(kind), slot.down.columns(64 * half, 64))
            w.store_row(w.sum(t[0] + t[1], axis=0).to(kind), slot.across)
        with w.role(), ring.take() as slot:
            for half in range(2):
                like = w.zeros((64, 32))
                down = w.load_column(slot.down.columns(64 * half, 64), like=like).to(w.f32)
                w.store(like + down + w.load_row(slot.across, like=like).to(w.f32), y[64 * half, 0])

    x, y = np.zeros((128, 32), np.float32), np.zeros((128, 32), np.float32)
    x[::4] = np.random.default_rng(0).integers(0, 2, (32, 32))
    clean(scaled.emulate(x, y))
    down, across = (
        x.sum(axis).astype(ml_dtypes.float8_e4m3fn if dtype == "e4m3" else float) for axis in (1, 0)
    )
    assert (y == down.astype(float)[:, None] + across.astype(float)).all()


def test_stages_of_short_vectors_begin_where_tma_can_write():
    @w.kernel()
    def copied(x: w.In["m n", w.f16], y: w.Out["rows n", w.f32]):
        ring = w.ring(2, x=(1, 32, w.f16))  # of 64 bytes
        with w.role():
            for row in range(2):
                with ring.take() as slot:
                    t = w.zeros((64, 32))
                    w.store(t + w.load_row(slot.x, like=t).to(w.f32), y[64 * row, 0])
        with w.role(), w.one_thread():
            for row in range(2):
                ring.fill(x=x[row, 0])

    x, y = np.random.default_rng(0).random((2, 32)).astype(np.float16), np.zeros((128, 32), np.float32)
    clean(copied.emulate(x, y))
    assert (y == x.repeat(64, 0)).all()


@pytest.mark.parametrize("dtype", ["f32", pytest.param("e4m3", marks=pytest.mark.slow)])
def test_fewer_elements_than_rows_are_repeated(dtype):
    @w.kernel()
    def repeated(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        buffer, kind = w.shared(1, 64, getattr(w, dtype)), getattr(w, dtype)
        with w.role():
            w.store_column(w.sum(w.load(x[0, 0], (64, 32)), axis=1).to(kind), buffer)
            w.barrier()
            t = w.zeros((64, 32))
            w.store(t + w.load_column(buffer.columns(32, 32), like=t).to(w.f32), y[0, 0])

    x, y = np.zeros((64, 32), np.float32), np.ones((64, 32), np.float32)
    x[:, 3] = np.random.default_rng(0).integers(-8, 8, 64)
    clean(repeated.emulate(x, y))
    assert (y == x.sum(1)[32:].repeat(2).reshape(32, 2).T.reshape(64, 1)).all()


@pytest.mark.parametrize(
    "message, body",
    [
        (
            "expects a buffer of 1 x 64 w.f32, got a buffer of 1 x 32 w.f32",
            lambda b, _, __: w.store_column(w.zeros(64), b),
        ),
        ("a vector is stored whole to a buffer", lambda b, _, __: w.store_column(w.zeros(64), b, rows=3)),
        ("multiple of 128 bytes in a stage, since TMA", lambda _, ring, a: ring.fill(a=a[0, 0], v=a[0, 0])),
        (
            "multiple of 128 bytes in each of 2 parts, since TMA",
            lambda _, ring, a: ring.fill(v=(a[0, 0], a[1, 0]), a=None),
        ),
    ],
)
def test_mistakes(message, body):
    def kernel(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
        buffer, ring = w.shared(1, 32, w.f32), w.ring(2, a=(2, 16, w.f16), v=(1, 64, w.f16))
        with w.role():
            body(buffer, ring, a)

    with pytest.raises(weft.WeftError) as raised:
        w.kernel()(kernel).compile(arch="sm_90a")
    assert message in str(raised.value)
