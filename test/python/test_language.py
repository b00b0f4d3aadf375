"""Kernels of `weft.language` compute what their Python says, in the emulator."""

import copy
import dataclasses
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from language_kernels import add, control, nested

import weft
import weft.language as w


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.parametrize("n", [1, 255, 700])
def test_a_vector_is_added(n):
    x, y = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    z = np.zeros(n, np.float32)
    clean(add.emulate(x, y, z))
    assert np.array_equal(z, x + y)


@pytest.mark.parametrize("n", [0, 5])
def test_loops_and_branches_run_on_the_gpu(n):
    x, z, i = np.linspace(0.5, 1.5, 32, dtype=np.float32), np.zeros(32, np.float32), np.arange(32)
    clean(control.emulate(n, x, z))
    counted = np.where(i > 3, (n + 1) // 2, np.where(i == 3, 10 * n, 0))
    expected = np.where((i < 16) | (i == 20), 1, -1) * x.astype(float) ** (2 * n) + counted + -(-n // 3) * 3
    assert np.allclose(z, expected, rtol=1e-5)


def test_python_loops_unroll():
    assert str(control.module(unroll=7)).count("arith.mulf") == 7


def test_what_is_carried_through_nested_loops():
    z = np.zeros(32, np.int32)
    clean(nested.emulate(z))

    def expected(i):
        pair = (0, 1)
        for j in range(2, i, 2):
            for k in range(j):
                pair = (pair[1], pair[0] + k)
        return pair[0] + i * (i + 1) // 2 * 1000

    assert list(z) == [np.int32(expected(i) & 0xFFFFFFFF if expected(i) < 2**31 else 0) for i in range(32)]


def test_only_what_is_read_later_is_carried():
    @w.kernel(threads=32)
    def temporary(z: w.Out["n", w.f32]):
        t, total = w.f32(0), w.f32(0)
        for j in w.range(4):
            t = j * 2  # an i32: nothing reads the f32 before it
            total = total + t.to(w.f32)
        z[w.thread()] = total

    loop = next(line for line in str(temporary.module()).splitlines() if "scf.for" in line)
    assert loop.count("%cst") == 1


@pytest.mark.parametrize("n, m", [(-7, 3), (7, 3), (7, -3), (-6, 3), (0, 5)])
def test_integers_divide_as_in_python(n, m):
    @w.kernel(threads=32)
    def divide(n: w.i32, m: w.i32, z: w.Out["n", w.i32]):
        z[0], z[1] = n // m, n % m

    z = np.zeros(2, np.int32)
    divide.emulate(n, m, z, sanitize=False)
    assert list(z) == [n // m, n % m]


def test_sizes_that_are_meta_parameters_are_known():
    @w.kernel(threads=32)
    def scale(x: w.In["m D", w.f32], z: w.Out["m D", w.f32], *, D):
        for row in w.range(x.rows):
            for column in range(D):
                if w.thread() == column:
                    z[row, column] = x[row, column] * x.rows.to(w.f32)

    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    z = np.zeros_like(x)
    clean(scale.emulate(x, z))
    assert np.array_equal(z, 3 * x)
    with pytest.raises(weft.WeftError, match="don't fit together"):
        scale.emulate(x, np.zeros((4, 5), np.float32))


def test_functions_of_fragments():
    @w.kernel()
    def functions(x: w.In["m n", w.f32], y: w.Out["k m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 16))
            results = [
                w.exp2(t),
                w.log2(w.abs(t)),
                w.rcp(t),
                w.sqrt(w.abs(t)),
                w.rsqrt(w.abs(t)),
                w.tanh(t),
                w.silu(t),
                w.relu(t),
                w.minimum(t, 0.5),
                w.where(t < 0.0, t / 3.0, w.column(t).to(w.f32)),
                t - w.max(t, axis=1),
                t + w.sum(t, axis=1) * w.min(t, axis=1),
                (w.row(t) * 100 + w.column(t)).to(w.f32),
                -t,
            ]
            for number, each in enumerate(results):
                w.store(each, y[number, 0, 0])

    x = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    y = np.zeros((14, 64, 16), np.float32)
    clean(functions.emulate(x, y))
    t, column = x.astype(float), np.arange(16.0)
    expected = [
        *(np.exp2(t), np.log2(np.abs(t)), 1 / t, np.sqrt(np.abs(t)), 1 / np.sqrt(np.abs(t)), np.tanh(t)),
        *(t / (1 + np.exp(-t)), np.maximum(t, 0), np.minimum(t, 0.5), np.where(t < 0, t / 3, column)),
        t - t.max(1, keepdims=True),
        t + t.sum(1, keepdims=True) * t.min(1, keepdims=True),
        np.arange(64)[:, None] * 100 + column,
        -t,
    ]
    for number, each in enumerate(expected):
        assert np.allclose(y[number], each, rtol=1e-3, atol=1e-4), number


@pytest.mark.slow
def test_powers_of_two_by_a_polynomial():
    @w.kernel()
    def powers(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, every):
        with w.role():
            w.store(w.exp2(w.load(x[0, 0], (64, 64)), polynomial_every=every), y[0, 0])

    x = np.random.default_rng(0).uniform(-125, 127, (64, 64)).astype(np.float32)
    x[0, :4] = -125, 127, 0, 1
    y = np.zeros_like(x)
    clean(powers.emulate(x, y, every=1))
    assert np.abs(y / np.exp2(x.astype(float)) - 1).max() < 8e-5
    assert "ex2" not in powers.compile(every=1).ptx
    x[:] = -np.inf
    powers.emulate(x, y, every=2)
    assert y.max() < 2.0**-124
    assert powers.compile(every=4).ptx.count("ex2") == 24


def test_a_condition_of_a_warp():
    @w.kernel()
    def votes(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            if w.warp_any(t > 1.0):
                t = t * 2.0
            w.store(t, y[0, 0])

    x = np.zeros((64, 8), np.float32)
    x[17, 3], x[20, 1], y = 3, 1, np.zeros_like(x)
    clean(votes.emulate(x, y))
    assert (y[16:32] == 2 * x[16:32]).all()
    assert not votes.emulate(x[::-1].copy() / 4, y).findings
    assert y.max() == 0.75


def test_vectors_of_rows_and_columns():
    @w.kernel()
    def vectors(
        x: w.In["m n", w.f32],
        rows: w.In["m", w.f32],
        columns: w.In["n", w.f32],
        y: w.Out["m n", w.f32],
        sums: w.Out["m", w.f32],
    ):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            down, across = w.load_column(rows[0], like=t), w.load_row(columns[0], like=t)
            w.store(t * down + across, y[0, 0])
            w.store_column(w.sum(t, axis=1), sums[0])

    rng = np.random.default_rng(0)
    x, rows, columns = (rng.standard_normal(s).astype(np.float32) for s in ((50, 60), 50, 60))
    y, sums = np.zeros_like(x), np.zeros_like(rows)
    clean(vectors.emulate(x, rows, columns, y, sums))
    assert np.allclose(y, x * rows[:, None] + columns, atol=1e-5)
    assert np.allclose(sums, x.sum(1), atol=1e-5)


def test_a_fragment_is_carried_by_while_and_if():
    @w.kernel()
    def doubled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], n: w.i32):
        with w.role():
            t, k = w.load(x[0, 0], (64, 8)), w.i32(0)
            while k < n:
                t, k = t + t, k + 1
            if n > 2:
                t = t + 1.0
            w.store(t, y[0, 0])

    x = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    for n in (0, 3):
        y = np.zeros_like(x)
        clean(doubled.emulate(x, y, n))
        assert np.allclose(y, x * 2**n + (n > 2))


def test_types_may_be_given_by_name():
    named = add.module(x="f32", y="f32", z="f32").mlir.operation.get_asm()
    assert (
        named
        == add.module().mlir.operation.get_asm()
        == add.module("f32", "f32", "f32").mlir.operation.get_asm()
    )


def test_operations_have_the_lines_and_columns_of_the_code():
    text = add.module().mlir.operation.get_asm(enable_debug_info=True)
    lines = (Path(__file__).parent / "language_kernels.py").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "z[i] = x[i] + y[i]" in line)
    column = lines[number - 1].index("x[i] + y[i]") + 1  # MLIR counts columns from 1
    assert f'language_kernels.py":{number}:{column} to :{column + 11})' in text
    assert f'language_kernels.py":{number - 3}:1)' in text  # the kernel itself


def test_what_a_kernel_prints_and_checks():
    @w.kernel(threads=32)
    def checked(x: w.In["n", w.f32], limit: w.i32):
        i = w.thread()
        if i < 2:
            w.print("thread", i, "has", x[i], "100%")
        w.check(i < limit, "too many threads")
        w.check(x.dtype == w.f32, "Python checks this one")

    x = np.arange(32, dtype=np.float32) / 4
    assert "thread 1 has 0.25 100%" in str(checked.emulate(x, 32).printed)
    line = inspect.getsourcelines(checked.__wrapped__)[1] + 5
    with pytest.raises(weft.WeftError, match=rf"'too many threads' failed at .*test_language.py:{line}"):
        checked.emulate(x, 31)


def test_kernels_take_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = torch.randn(2, 300)
    z = torch.zeros(300)
    add(x, y, z, on="emulator")
    assert torch.equal(z, x + y)


def test_a_kernel_as_an_operator_of_pytorch():
    torch = pytest.importorskip("torch")
    operator = w.torch_op("weft_language_test::add", add)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def twice(x, y):
        z = torch.empty_like(x)
        operator(x, y, z)
        operator(z, y, z2 := torch.empty_like(x))
        return z2 * 2

    x, y = torch.randn(2, 300)
    assert torch.allclose(twice(x, y), 2 * (x + 2 * y), atol=1e-6)
    with pytest.raises(weft.WeftError, match="namespace::name"):
        w.torch_op("add", add)
    with pytest.raises(weft.WeftError, match="'N' must be a meta-parameter of kernel add, which has none"):
        w.torch_op("weft_language_test::other", add, N=3)


def test_batches_of_batches_and_limited_stores():
    @w.kernel(grid=lambda x: (w.ceil_div(x.rows, 64), x.size("h"), x.size("b")), persistent=1)
    def scaled(
        x: w.In["b h m D", w.f16],
        factors: w.In["b h D", w.f32],
        y: w.Out["b h m D", w.f16],
        z: w.Out["b h m D", w.f16],
        sums: w.Out["b h m", w.f32],
        count: w.i32,
        *,
        D,
    ):
        ring, staging = w.ring(2, x=(64, D, x.dtype)), w.shared(64, D, w.f16)
        with w.role():
            for i, h, b in w.tiles():
                with ring.take() as stage:
                    t = w.load(stage.x).to(w.f32)
                t = t * w.load_row(factors[b, h, 0], like=t)
                left = count - i * 64
                w.store(t.to(w.f16), y[b, h, i * 64], via=staging, rows=left)
                w.store(t.to(w.f16), z[b, h, i * 64], rows=left)
                w.store_column(w.sum(t, axis=1), sums[b, h, i * 64], rows=left)
        with w.role(), w.one_thread():
            for i, h, b in w.tiles():
                ring.fill(x=x[b, h, i * 64])

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 100, 3, 32)).astype(np.float16).transpose(0, 2, 1, 3)
    factors = rng.standard_normal((2, 3, 32)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros((2, 3, 100, 32), np.float16)
    sums = np.zeros((2, 3, 100), np.float32)
    assert not scaled.emulate(x, factors, y, z, sums, 97).findings
    exact = x.astype(np.float32) * factors[:, :, None]
    assert np.array_equal(y[:, :, :97], exact[:, :, :97].astype(np.float16))
    assert np.allclose(sums[:, :, :97], exact[:, :, :97].sum(3), atol=1e-5)
    assert np.array_equal(y, z)
    assert not y[:, :, 97:].any() and not sums[:, :, 97:].any()


def test_rings_of_vectors_and_waits_for_several_shapes():
    @w.kernel()
    def scaled(
        x: w.In["m k", w.f16], factors: w.In["r n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m o", w.f32]
    ):
        ring = w.ring(1, x=(64, 64, x.dtype), wide=(64, 128, x.dtype), factors=(1, 128, w.f32))
        with w.role():
            stage = ring.take()
            wide, narrow = w.wait(w.gemm(stage.x, stage.wide), w.gemm(stage.x, stage.x.T))
            w.store(wide * w.load_row(stage.factors, like=wide), y[0, 0])
            w.store(narrow, z[0, 0])
            stage.release()
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0], wide=x[0, 64], factors=factors[1, 0])

    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 192)).astype(np.float16)
    factors = rng.standard_normal((2, 128)).astype(np.float32)
    y, z = np.zeros((64, 128), np.float32), np.zeros((64, 64), np.float32)
    assert not scaled.emulate(x, factors, y, z).findings
    exact = x.astype(np.float64)
    assert np.allclose(y, exact[:, :64] @ exact[:, 64:] * factors[1], atol=1e-3)
    assert np.allclose(z, exact[:, :64] @ exact[:, :64].T, atol=1e-3)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("columns", [16, 160])  # of one panel, and of several
def test_rows_that_are_cleared(columns):
    @w.kernel()
    def cleared(x: w.In["m k", w.f16], y: w.Out["m k", w.f16], first: w.i32, *, columns):
        ring = w.ring(1, x=(64, columns, x.dtype))
        with w.role():
            w.clear_rows(ring.ready().x, first)
            w.barrier()
            with ring.take() as stage:
                w.store(w.load(stage.x), y[0, 0])
        with w.role(), w.one_thread():
            ring.fill(x=x[0, 0])

    x = np.random.default_rng(0).standard_normal((64, columns)).astype(np.float16)
    for first in (0, 5, 64):
        y = np.ones_like(x)
        assert not cleared.emulate(x, y, first, columns=columns).findings
        assert np.array_equal(y[:first], x[:first]) and not y[first:].any()


def test_atomic_sums():
    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 64), threads=64)
    def total(x: w.In["n", w.f32], y: w.Out["m", w.f32], counts: w.Out["m", w.i32]):
        i = w.cta() * 64 + w.thread()
        if i < x.rows:
            w.atomic_add(y[i % 2], x[i])
            w.atomic_add(counts[0], 1)

    x, y, counts = np.arange(200, dtype=np.float32), np.zeros(2, np.float32), np.zeros(2, np.int32)
    clean(total.emulate(x, y, counts))
    assert list(y) == [9900, 10000]
    assert list(counts) == [200, 0]


@dataclasses.dataclass
class Sums:
    count: Any
    total: Any


def test_lists_and_dataclasses_are_carried():
    @w.kernel(threads=32)
    def collected(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        sums, last = Sums(w.i32(0), w.f32(0)), [w.f32(0), w.f32(0)]
        for i in w.range(x.rows):
            sums.count += 1
            if x[i] > 0:
                sums.total = sums.total + x[i]
                last[0], last[1] = x[i], last[0]
            else:
                last[1] = last[1] + 0.0
            y[i] = sums.total
        y[0], y[1], y[2], y[3] = sums.count.to(w.f32), sums.total, last[0], last[1]

    x = np.array([3, -1, 4, 1, -5, 9, 2, -6], np.float32)
    y = np.zeros_like(x)
    collected.emulate(x, y, sanitize=False)
    assert list(y) == [8, 19, 2, 9, 8, 17, 19, 19]


def test_operators_of_python_and_numbers_of_numpy():
    @w.kernel(threads=32)
    def operators(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        i = w.thread()
        y[i] = abs(x[i]) + x[i] ** 3 * np.float32(2) + np.float64(0.5) * x[i]
        y[i] += 1
        y[i] -= -x[i] / 2

    x = np.linspace(-2, 2, 32, dtype=np.float32)
    y = np.zeros_like(x)
    clean(operators.emulate(x, y))
    assert np.allclose(y, np.abs(x) + 2 * x**3 + x + 1, atol=1e-5)


@w.inline
def power(x, times):
    return power(x, times - 1) * x if times > 1 else x


@w.kernel(threads=32)
def fifth(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
    y[w.thread()] = power(x[w.thread()], 5)


def test_functions_may_call_themselves():
    y = np.zeros(32, np.float32)
    assert not fifth.emulate(np.full(32, 2, np.float32), y).findings
    assert (y == 32).all()


def test_copies_of_a_kernel_are_the_kernel():
    assert copy.deepcopy([fifth])[0] is fifth and copy.copy(fifth) is fifth
    assert pickle.loads(pickle.dumps(fifth)) is fifth

    @w.kernel(threads=32)
    def inner(x: w.Out["n", w.f32]):
        x[0] = 1.0

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(inner)


FACTOR, STEPS = 2.0, [1]


def scaled(x):
    return x * FACTOR


@w.kernel(threads=32)
def scale(x: w.Out["n", w.f32]):
    x[w.thread()] = scaled(w.f32(1)) + STEPS[0]


def test_a_kernel_is_traced_again_if_what_it_reads_changes(monkeypatch):
    x, number = np.zeros(32, np.float32), 1.0

    @w.kernel(threads=32)
    def closure(x: w.Out["n", w.f32]):
        x[w.thread()] = w.f32(number)

    closure.emulate(x)
    number = 7.0
    closure.emulate(x)
    assert x[0] == 7
    scale.emulate(x)
    assert x[0] == 3 and scale.compile() is scale.compile()
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4.0)
    scale(x, on="emulator")
    assert x[0] == 5
    monkeypatch.setattr(sys.modules[__name__], "scaled", lambda x: x)
    scale.emulate(x)
    assert x[0] == 2


def test_a_grid_is_traced_again_if_what_it_reads_changes():
    x, count = np.zeros(4, np.float32), 1

    @w.kernel(grid=lambda x: count, threads=32)
    def ones(x: w.Out["n", w.f32]):
        if w.thread() == 0:
            x[w.cta()] = 1.0

    ones.emulate(x)
    count = 3
    ones.emulate(x)
    assert x.sum() == 3
