"""Control flow, atomics and warp operations as nvcc compiles them for every chip, against NumPy."""

import ml_dtypes
import numpy as np
from emulator_corpus import everywhere, launch, module, number, reals, rng, since, text, words

from weft import emulator

BF16 = ml_dtypes.bfloat16


# Control


@everywhere
def test_tables(chip):
    a = np.arange(64, dtype=np.int32)
    out = np.zeros(64, np.float32)
    launch("control", chip, "tables", [a, out, 64], 2)
    names = np.array([ord(n[0]) for n in ("zero", "one", "two")])
    np.testing.assert_array_equal(out, 2.0 ** ((a & 7) - 1) * names[(a >> 3) % 3])


@everywhere
def test_dense_switch(chip):
    a = np.arange(64, dtype=np.int32) % 10
    out = np.zeros(64, np.int32)
    launch("control", chip, "dense_switch", [a, out, 64], 2)

    def one(i, x):
        if x == 5:
            for j in range(i % 7):
                x = x * 31 + j
            return x
        low = -i ^ 0x55
        return [i * 3, i + 100, low, 3 ^ 0x55, i**3, 0, i.bit_count(), i // 3][x] if x < 8 else -1

    want = [(one(i, x) + 2**31) % 2**32 - 2**31 for i, x in enumerate(a.tolist())]
    assert out.tolist() == want


@everywhere
def test_recursion(chip):
    a = np.arange(64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    launch("control", chip, "recursion", [a, out, 64], 2)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13]
    assert out.tolist() == [
        fibonacci[i & 7] * 100 + ((i & 3) + 2 if i & 1 else (i & 3) + 1) for i in range(64)
    ]


@everywhere
def test_function_pointers(chip):
    which = np.arange(64, dtype=np.int32)
    x, y = reals(np.float32)
    out = np.zeros(64, np.float32)
    launch("control", chip, "pointers", [which, x, y, out, 64], 2)
    np.testing.assert_array_equal(out, np.choose(which % 3, [x + y, x - y, x * y]))


@everywhere
def test_virtual_functions(chip):
    x, _ = reals(np.float32)
    out = np.zeros(64, np.float32)
    launch("control", chip, "virtuals", [x, out, 64], 2)
    np.testing.assert_allclose(out, np.where(np.arange(64) & 1, x * x, 3 * x * x), rtol=1e-6)


@everywhere
def test_structs_by_value(chip):
    data = rng().standard_normal(64).astype(np.float32)
    x, y = np.zeros(64), np.zeros(64, np.int32)
    counts = np.array([3, -1, 4, 1, 5], np.int32)
    pack = emulator.Struct(48, {0: np.int8(7), 8: np.float64(2.5), 16: counts.tobytes(), 40: data})
    launch("control", chip, "by_value", [pack, x, y, 64], 2)
    np.testing.assert_array_equal(x, data.astype(np.float64) * 2.5)
    for i in range(64):
        c = counts.copy()
        c[i % 5] += 1
        assert y[i] == c[i % 3] + c[i % 3 + 2] * i + 7


@everywhere
def test_local_arrays(chip):
    a = rng().integers(-50, 50, 64, np.int32)
    out = np.zeros((64, 16), np.int32)
    launch("control", chip, "local_sort", [a, out, 64], 2)
    i, j = np.meshgrid(np.arange(64), np.arange(16), indexing="ij")
    np.testing.assert_array_equal(out, np.sort(a[(i * 7 + j * 5) % 64], axis=1))


@everywhere
def test_printf(chip):
    report = launch("control", chip, "says", [2], block=64)
    want = "thread {} of 64: {:5.2f} text x -5000000000 0x0000beef %\n"
    assert sorted(report.printed.splitlines(keepends=True)) == [want.format(t, t * 1.5) for t in (0, 1)]


@everywhere
def test_malloc(chip):
    out = np.zeros(64, np.int32)
    launch("control", chip, "heap", [out, 64], 2)
    assert out.tolist() == [5 + i * sum(range(i % 4 + 1)) for i in range(64)]


@everywhere
def test_divergent_loops(chip):
    a = np.arange(1, 97, dtype=np.int32)
    out = np.zeros(96, np.int32)
    launch("control", chip, "divergent", [a, out, 96], 3)

    def steps(x):
        count = 0
        while x != 1:
            x, count = (3 * x + 1 if x & 1 else x // 2), count + 1
        return count

    assert out.tolist() == [steps(int(x)) for x in a]


@everywhere
def test_dynamic_shared_memory(chip):
    x = rng().standard_normal((2, 40))
    out = np.zeros_like(x)
    launch("control", chip, "reversed", [x, out, 40], 2, 64, shared_bytes=320)
    np.testing.assert_array_equal(out, x[:, ::-1])


# Atomics


@everywhere
def test_atomic_integers(chip):
    a = rng().integers(-1000, 1000, 64, np.int32)
    out = np.zeros(80, np.int32)
    out[4] = -1
    start = out.copy()
    launch("atomics", chip, "integers", [a, out, 64], 2)
    assert out[0] == a.sum() and out[1] == -a.sum()
    assert out[2] == min(a.min(), 0) and out[3] == max(a.max(), 0)
    ufuncs = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    assert [u.reduce(a, initial=start[4 + i]) for i, u in enumerate(ufuncs)] == out[4:7].tolist()
    assert out[7] == 64 % 18 and out[9] == 64
    down = 0
    for _ in range(64):
        down = 17 if down == 0 or down > 17 else down - 1
    assert out[8] == down
    assert sorted(out[16:].tolist()) == sorted(a.tolist())


@everywhere
def test_atomic_longs(chip):
    a = words(64, 64)
    out = np.array([0, np.iinfo(np.uint64).max, 1 << 63, 0, 5], np.uint64)
    launch("atomics", chip, "longs", [a, out, 64], 2)
    total = sum(a.tolist()) % (1 << 64)
    want = [total, a.min(), a.view(np.int64).max(), np.bitwise_xor.reduce(a), (5 + total) % (1 << 64)]
    assert out.tolist() == [int(w) for w in want]


@everywhere
def test_histogram(chip):
    a = rng().integers(0, 256, 300, np.uint8)
    bins = np.zeros(256, np.int32)
    launch("atomics", chip, "histogram", [a, bins, 300], 2, 64)
    np.testing.assert_array_equal(bins, np.bincount(a, minlength=256))


@everywhere
def test_atomic_reals(chip):
    a = rng().integers(-8, 8, 64).astype(np.float32)
    f, d, h = np.zeros(4, np.float32), np.zeros(1), np.zeros(6, np.float16)
    found = module("atomics", chip).launch("reals", grid=2, block=32, args=[a, f, d, h, 64]).findings
    # Its atomicAdd_block is no atomic operation to the other block.
    assert [(each.rule, each.count) for each in found] == [("global-race", 32)]
    assert ".cta.add" in text("atomics", chip).splitlines()[found[0].line - 1]
    total = a.sum()
    assert f.tolist() == [total, 3.0, total, total] and d[0] == total
    assert h[:3].tolist() == [total, 64.0, total]
    if number(chip) >= 80:
        assert h[4:].view(BF16).astype(float).tolist() == [64.0, total]


@everywhere
def test_maximum_by_compare_and_swap(chip):
    a = rng().standard_normal(64).astype(np.float32)
    most = np.array([-np.inf], np.float32).view(np.int32)
    launch("atomics", chip, "float_max", [a, most, 64], 2)
    assert most.view(np.float32)[0] == a.max()


@everywhere
def test_spin_lock(chip):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch("atomics", chip, "locked", [lock, count, 3], 2, 96)
    assert count[0] == 18 and lock[0] == 0


@everywhere
def test_release_and_acquire(chip):
    o, out = np.zeros(4, np.int32), np.zeros(3, np.int32)
    launch("atomics", chip, "ordered", [o, out], 3, 32)
    assert out.tolist() == [0, 42, 42] and o[0] == 21 and o[1] == 32 << 8


@everywhere
def test_last_block(chip):
    a = rng().integers(0, 50, 300).astype(np.float32)
    parts, total = np.zeros(3, np.float32), np.zeros(1, np.float32)
    launch("atomics", chip, "last_block", [a, parts, total, 300], 3, 64)
    assert total[0] == a.sum()


@since(90)
def test_swap_of_128_bits(chip):
    out = np.zeros((33, 2), np.uint64)
    out[1:, 0] = np.arange(32) * 3
    launch("atomics", chip, "swap128", [out, 32])
    assert out[0].tolist() == [sum(range(32)), 32]
    assert out[1:].tolist() == [[i + 3 * i, 7] for i in range(32)]


@since(90)
def test_vector_atomics(chip):
    a = rng().integers(-8, 8, (64, 4)).astype(np.float32)
    out = np.zeros((2, 4), np.float32)
    launch("atomics", chip, "vectors", [a, out, 64], 2)
    total = a.sum(axis=0)
    np.testing.assert_array_equal(out, [total, [total[0], total[3], 0, 0]])


# Warps


@everywhere
def test_shuffles(chip):
    a = rng().integers(0, 100, 64, np.int32)
    out = np.zeros((64, 10), np.int32)
    launch("warps", chip, "shuffles", [a, out], block=64)
    for w in (0, 1):
        x, lane = a[32 * w : 32 * w + 32].astype(np.int64), np.arange(32)
        ballot = int(sum(int(v & 1) << i for i, v in enumerate(x)))
        alike = [sum(1 << j for j in range(32) if (x[j] & 3) == (v & 3)) for v in x]
        want = [
            x[lane * 7 % 32],
            np.where(lane >= 3, x[lane - 3], x),
            x[np.where(lane % 8 + 5 < 8, (lane + 5) % 32, lane)],
            x[lane ^ 9],
            x[lane // 4 * 4 + 2],
            np.full(32, ballot),
            np.full(32, int((x == 3).any()) + 2),
            np.array(alike),
            np.full(32, 0xFFFFFFFF + 1),
            x[lane ^ 1],
        ]
        got = out[32 * w : 32 * w + 32].view(np.uint32)
        np.testing.assert_array_equal(got, np.stack(want, axis=1) & 0xFFFFFFFF)


@everywhere
def test_scan_and_groups(chip):
    a = rng().integers(0, 100, 64, np.int32)
    out = np.zeros(64, np.int32)
    launch("warps", chip, "scan", [a, out], block=64)
    np.testing.assert_array_equal(out.reshape(2, 32), np.cumsum(a.reshape(2, 32), axis=1))
    out = np.zeros((64, 6), np.int32)
    launch("warps", chip, "groups", [a, out], block=64)
    tiles, warps = a.reshape(8, 8), a.reshape(2, 32)
    np.testing.assert_array_equal(out[:, 0], np.repeat(tiles.sum(axis=1), 8))
    np.testing.assert_array_equal(out[:, 1], np.cumsum(warps, axis=1).ravel())
    np.testing.assert_array_equal(out[:, 2], np.repeat(tiles[:, 3] + np.arange(8), 8))
    odd = warps & 1
    rank = np.cumsum(odd, axis=1) - 1
    count = odd.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(out[:, 3], np.where(odd, rank * 100 + 2 * count, -1).ravel())
    alike = [(warp & 3 == x & 3).sum() for warp in warps for x in warp]
    np.testing.assert_array_equal(out[:, 4], alike)
    np.testing.assert_array_equal(out[:, 5], np.repeat(warps.max(axis=1), 32))


@everywhere
def test_aggregated_atomics(chip):
    a = rng().integers(-50, 50, 64, np.int32)
    count, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    launch("warps", chip, "aggregated", [a, count, out, 64], 2)
    assert count[0] == (a > 0).sum()
    assert sorted(out[: count[0]].tolist()) == sorted(a[a > 0].tolist())


@since(80)
def test_reductions_of_a_warp(chip):
    a = rng().integers(-100, 100, 64, np.int32)
    out = np.zeros((64, 5), np.int32)
    launch("warps", chip, "redux", [a, out], block=64)
    for w, x in enumerate(a.reshape(2, 32)):
        want = [x.sum(), x.min(), x.view(np.uint32).max().astype(np.int32), np.bitwise_xor.reduce(x)]
        want.append(np.bitwise_or.reduce(x) ^ np.bitwise_and.reduce(x))
        assert (out[32 * w : 32 * w + 32] == want).all()


@everywhere
def test_named_barriers(chip):
    out = np.zeros(129, np.int32)
    launch("warps", chip, "named_barriers", [out], block=64)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:128].reshape(4, 32), [lane * 10 + 2 * j for j in range(4)])
    assert out[128] == 32 + 100
