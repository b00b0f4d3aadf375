"""Memory orders and scopes of atomics, fences and signals, as PTX has them."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=2, threads=64)
def each_atomic(
    y: w.Out["n", w.i32],
    f: w.Out["n", w.f32],
    u: w.Out["n", w.u64],
    b: w.Out["n", w.bf16],
    h: w.Out["n", w.f16],
    *,
    order,
    scope,
):
    own, i, how = w.shared(1, 8, w.i32), w.thread(), {"order": order, "scope": scope}
    if i < 8:
        own[i] = 0
    w.barrier()
    w.atomic_add(y[0], 1, **how)
    w.atomic_max(y[1], i - 5, **how)
    w.atomic_min(y[2], 3 - i, **how)
    w.atomic_or(y[3], 1 << (i % 8), **how)
    w.atomic_xchg(y[4], 7, **how)
    w.atomic_cas(y[5], 0, 7, **how)
    w.atomic_add(f[0], 1.0, **how)
    w.atomic_max(f[1], i.to(w.f32), **how)
    w.atomic_add(u[0], 2, **how)
    w.atomic_max(u[1], i.to(w.u64), **how)
    w.atomic_add(b[0], 1.0, **how)
    w.atomic_add(h[0], 1.0, **how)
    w.atomic_add(own[0], 1, **how)
    w.fence(order="sc", scope=scope)
    w.barrier()
    if i == 0:
        w.atomic_add(y[6], own[0], **how)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("order", "scope"), [("relaxed", "sys"), ("acquire", None), ("release", "gpu"), (None, "sys")]
)
def test_atomics_of_each_order(arch, order, scope):
    types = (np.int32, np.float32, np.uint64, ml_dtypes.bfloat16, np.float16)
    y, f, u, b, h = arrays = [np.zeros(8, each) for each in types]
    assert not each_atomic.emulate(*arrays, order=order, scope=scope, arch=arch).findings
    assert [*y] == [128, 58, -60, 255, 7, 7, 128, 0] and [*f[:2]] == [128, 63]
    assert [*u[:2]] == [256, 63] and b[0] == h[0] == 128
    ptx = each_atomic.compile(order=order, scope=scope, arch=arch).ptx
    spelled = f".{order or 'acq_rel'}.{scope or 'gpu'}."
    atomics = [line for line in ptx.splitlines() if "\tatom." in line]
    assert len(atomics) >= 14 and all(spelled in line for line in atomics)
    assert f"fence.sc.{scope or 'gpu'};" in ptx


@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_the_emulator_finds_scopes_that_are_too_small(scope):
    @w.kernel(grid=2, threads=32)
    def counted(y: w.Out["n", w.i32]):
        w.atomic_add(y[0], 1, scope=scope)

    found = counted.emulate(np.zeros(1, np.int32), arch="sm_90a").findings
    assert {each.rule for each in found} == {"global-race"} and "scopes" in str(found[0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("order", "scope"), [("acq_rel", "gpu"), ("relaxed", "gpu"), ("release", "sys")])
def test_the_last_cta_sees_what_others_stored_before_they_counted(order, scope):
    @w.kernel(grid=4, threads=32)
    def kernel(
        x: w.In["m n", w.f32], part: w.Out["m n", w.f32], y: w.Out["n", w.f32], count: w.Out["n", w.i32]
    ):
        i = w.thread()
        part[w.cta(), i] = x[w.cta(), i] * 2.0
        if order == "relaxed":
            w.fence(scope=scope)
        last = w.atomic_add(count[i], 1, order=order, scope=scope) == 3
        if order != "acq_rel":
            w.fence(order="acq_rel", scope=scope)
        if last:
            y[i] = part[0, i] + part[1, i] + part[2, i] + part[3, i]

    x = np.random.default_rng(0).integers(0, 9, (4, 32)).astype(np.float32)
    y = np.zeros(32, np.float32)
    for seed in range(2):
        report = kernel.emulate(x, np.zeros_like(x), y, np.zeros(32, np.int32), seed=seed)
        assert not report.findings and np.array_equal(y, 2 * x.sum(0))


def test_relaxed_atomics_order_nothing():
    @w.kernel(grid=2, threads=32)
    def kernel(part: w.Out["m n", w.f32], y: w.Out["n", w.f32], count: w.Out["n", w.i32]):
        i = w.thread()
        part[w.cta(), i] = 1.0
        if w.atomic_add(count[i], 1, order="relaxed") == 1:
            y[i] = part[0, i] + part[1, i]

    report = kernel.emulate(np.zeros((2, 32), np.float32), *(np.zeros(32, t) for t in (np.float32, np.int32)))
    assert {each.rule for each in report.findings} == {"global-race"}


@w.kernel(grid=2)
def signalled(x: w.In["m n", w.f32], y: w.Out["rows n", w.f32], done: w.Out["1", w.i32], *, order, scope):
    """The second CTA doubles what the first one stored."""
    with w.role():
        if w.cta() == 0:
            w.store(w.load(x[0, 0], (64, 32)), y[0, 0])
            w.signal(done[0], order=order, scope=scope)
        else:
            w.await_signals(done[0], 1, scope=scope)
            w.store(w.load(y[0, 0], (64, 32)) * 2.0, y[64, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_signals_to_other_gpus(arch):
    x = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    y = np.zeros((128, 32), np.float32)
    report = signalled.emulate(x, y, np.zeros(1, np.int32), order="release", scope="sys", arch=arch)
    assert not report.findings and np.array_equal(y, np.concatenate([x, 2 * x]))
    ptx = signalled.compile(order="release", scope="sys", arch=arch).ptx
    assert all(each in ptx for each in ("fence.acq_rel.sys", "atom.relaxed.sys", "ld.acquire.sys"))


def test_relaxed_signals_publish_nothing():
    x, y = np.ones((64, 32), np.float32), np.zeros((128, 32), np.float32)
    report = signalled.emulate(x, y, np.zeros(1, np.int32), order="relaxed", scope="gpu")
    assert {each.rule for each in report.findings} == {"global-race"}


@pytest.mark.parametrize(
    ("change", "arch", "message"),
    [
        (
            lambda y, _: w.atomic_add(y[0], 1, order="seq_cst"),
            "sm_90a",
            "w.atomic_add must be one of",
        ),
        (
            lambda y, _: w.atomic_add(y[0], 1, scope="grid"),
            "sm_90a",
            "must be one of cta, cluster, gpu",
        ),
        (
            lambda y, _: w.fence(scope="cluster"),
            "sm_80",
            "scope cluster needs sm_90 or later, got sm_80: use gpu",
        ),
        (lambda y, _: w.fence(order="acquire"), "sm_90a", "order of w.fence must be one of acq_rel, sc"),
        (
            lambda y, _: w.atomic_add(y[0], w.load(y[0], 512), order="release"),
            "sm_90a",
            "order of w.atomic_add of a tile or vector must be one of relaxed, got 'release'",
        ),
        (
            lambda y, buffer: w.atomic_add(y[0], w.load(y[0], 512), via=buffer, scope="sys"),
            "sm_90a",
            "TMA adds without order= and scope=",
        ),
        (
            lambda y, _: w.signal(y[0], order="acquire"),
            "sm_90a",
            "order of w.signal must be one of relaxed, release",
        ),
    ],
)
def test_mistakes(change, arch, message):
    @w.kernel
    def kernel(y: w.Out["n", w.i32]):
        buffer = w.shared(64, 8, w.i32)
        with w.role():
            change(y, buffer)

    with pytest.raises(weft.WeftError, match=re.escape(message)):
        kernel.compile(arch=arch)
