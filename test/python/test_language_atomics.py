"""Numbers, vectors and tiles that many CTAs add to arrays, by atomics and by TMA."""

import re

import ml_dtypes
import numpy as np
import pytest
from assembling import assembles

import weft
import weft.language as w
from weft.isa.async_copy import ADD_TENSOR, AddTensor


@w.kernel(grid=lambda a, b, *, splits: (w.ceil_div(a.rows, 64), w.ceil_div(b.rows, 64), splits))
def split_k(
    a: w.In["m k", w.bf16],
    b: w.In["n k", w.bf16],
    d: w.Out["m n", w.f32],
    rows: w.Out["m", w.f32],
    columns: w.Out["one n", w.f32],
    *,
    splits=2,
):
    """d += a @ b.T, each CTA with its K blocks; and sums of d's rows and columns."""
    ring = w.ring(2, a=(64, 64, w.bf16), b=(64, 64, w.bf16))
    row, column, first, step = w.cta(0) * 64, w.cta(1) * 64, w.cta(2) * 64, 64 * splits
    with w.role():
        sums = w.zeros((64, 64))
        for _ in w.range(first, a.columns, step):
            with ring.take() as slot:
                sums = w.wait(w.gemm(slot.a, slot.b.T, sums))
        w.atomic_add(d[row, column], sums)
        w.atomic_add(rows[row], w.sum(sums, axis=1))
        w.atomic_add(columns[0, column], w.sum(sums, axis=0))
    with w.role(), w.one_thread():
        for k in w.range(first, a.columns, step):
            ring.fill(a=a[row, k], b=b[column, k])


@pytest.mark.slow
@pytest.mark.parametrize(
    "m, n, k, splits, arch",
    [
        (70, 40, 264, 2, "sm_90a"),
        pytest.param(200, 136, 520, 3, "sm_90a", marks=pytest.mark.slow),
        pytest.param(100, 72, 264, 2, "sm_100a", marks=pytest.mark.slow),
        pytest.param(100, 72, 264, 2, "sm_80", marks=pytest.mark.slow),
    ],
)
def test_ctas_that_share_k(m, n, k, splits, arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((each, k)).astype(ml_dtypes.bfloat16) for each in (m, n))
    d, rows, columns = (np.zeros(shape, np.float32) for shape in ((m, n), (m,), (1, n)))
    report = split_k.emulate(a, b, d, rows, columns, splits=splits, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    exact = a.astype(float) @ b.astype(float).T
    assert np.allclose(d, exact, atol=1e-3)
    assert np.allclose(rows, exact.sum(1), atol=1e-2)
    assert np.allclose(columns[0], exact.sum(0), atol=1e-2)


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 128), threads=128)
def compacted(x: w.In["n", w.f32], y: w.Out["n", w.f32], count: w.Out["one", w.i32]):
    """y = the positive elements of x, in any order, and how many they are."""
    own, first = w.shared(1, 8, w.i32), w.shared(1, 8, w.i32)
    if w.thread() == 0:
        own[0] = 0
    w.barrier()
    i = w.cta() * 128 + w.thread()
    mine = w.i32(-1)
    if i < x.rows and x[i] > 0.0:
        mine = w.atomic_add(own[0], 1)
    w.barrier()
    if w.thread() == 0:
        first[0] = w.atomic_add(count[0], own[0])
    w.barrier()
    if mine >= 0:
        y[first[0] + mine] = x[i]


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_additions_return_what_was_there(arch):
    x = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    y, count = np.zeros_like(x), np.zeros(1, np.int32)
    report = compacted.emulate(x, y, count, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert count[0] == (x > 0).sum()
    assert np.array_equal(np.sort(y[: count[0]]), np.sort(x[x > 0])) and not y[count[0] :].any()


@w.kernel(grid=2)
def extremes(x: w.In["m n"], high: w.Out["n"], low: w.Out["n"], one: w.Out["two"], *, shared=False):
    """The largest and smallest elements of columns, and of all, from those that the arrays have."""
    buffer = w.shared(1, 16, x.dtype)
    row = w.cta() * 64
    with w.role():
        t = w.load(x[row, 0], (64, 16))
        w.atomic_max(high[0], w.max(t, axis=0))
        w.atomic_min(low[0], w.min(t, axis=0))
        if shared:
            buffer[w.thread() % 2] = t.dtype(0)
            w.barrier()
            w.atomic_max(buffer[0], w.max(t))
            w.atomic_min(buffer[1], w.min(t))
            w.barrier()
            if w.thread() == 0:
                w.atomic_max(one[0], buffer[0] + t.dtype(0))
                w.atomic_min(one[1], buffer[1] + t.dtype(0))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32])
@pytest.mark.parametrize("offset, arch", [(-3, "sm_75"), (0, "sm_80"), (3, "sm_90a")])
def test_extremes_of_numbers_of_any_sign(dtype, offset, arch):
    x = (np.random.default_rng(1).standard_normal((128, 16)) * 1000 + 1000 * offset).astype(dtype)
    high, low = (np.full(16, 500 * offset, dtype) for _ in range(2))
    one = np.zeros(2, dtype)
    expected = np.maximum(x.max(0), high), np.minimum(x.min(0), low)
    report = extremes.emulate(x, high, low, one, shared=True, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.array_equal(high, expected[0]) and np.array_equal(low, expected[1])
    assert np.array_equal(one, [max(x.max(), 0), min(x.min(), 0)])


@w.kernel(threads=32)
def floats(x: w.In["n", w.f32], high: w.Out["n", w.f32], low: w.Out["n", w.f32]):
    i = w.thread()
    if i < x.rows:
        w.atomic_max(high[i], x[i])
        w.atomic_min(low[i], x[i])


@pytest.mark.parametrize("arch", ["sm_70", "sm_89", "sm_100a"])
def test_extremes_of_zeros_infinities_and_nans(arch):
    values = np.array([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], np.float32)
    x, old = (each.ravel().astype(np.float32) for each in np.meshgrid(values, values[:5]))
    high, low = old.copy(), old.copy()
    assert not floats.emulate(x, high, low, arch=arch).findings
    assert np.array_equal(high, np.maximum(old, x)) and np.array_equal(low, np.minimum(old, x))
    assert not np.signbit(high[(old == 0) & (x == 0) & ~(np.signbit(old) & np.signbit(x))]).any()
    nan = np.full(2, np.nan, np.float32)
    high, low = np.zeros(2, np.float32), np.zeros(2, np.float32)
    floats.emulate(np.copysign(nan, [1, -1]).astype(np.float32), high, low, arch=arch)
    assert np.array_equal(np.isnan(high), [True, False]) and np.array_equal(np.isnan(low), [False, True])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_additions_of_bf16_change_their_bytes_only(arch):
    """Chips before sm_90 compare and swap."""

    @w.kernel(grid=2)
    def added(x: w.In["m n", w.bf16], y: w.Out["m n", w.bf16], rows: w.Out["m", w.bf16]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.atomic_add(y[0, 0], t)
            w.atomic_add(rows[0], w.sum(t, axis=1))
            w.atomic_add(rows[0], w.sum(t, axis=1))

    whole = np.arange(36).reshape(4, 9)[:, 1:8] % 5
    x = whole.astype(ml_dtypes.bfloat16)
    y, rows = np.ones((4, 7), ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.bfloat16)
    report = added.emulate(x[:3], y[:3], rows, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.array_equal(y[:3].astype(int), 1 + 2 * whole[:3]) and np.array_equal(y[3], np.ones(7))
    assert np.array_equal(rows.astype(int), 4 * whole[:3].sum(1))


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda x, y, t: w.atomic_add(x[0, 0], t), "'x' must be a w.Out argument to be written"),
        (lambda x, y, t: w.atomic_add(y[0, 0], t.to(w.f16)), "'y' has elements of w.f32, got w.f16"),
        (lambda x, y, t: w.atomic_add(y[0], w.sum(t, axis=1)), "of a vector expects an element of an array"),
        (lambda x, y, t: w.atomic_add(y[0], 1.0), "expects an element of an array, with all its indices"),
        (lambda x, y, t: w.atomic_add(3, t), "expects an element of an array"),
    ],
)
def test_mistakes(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            body(x, y, w.load(x[0, 0], (64, 64)))

    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.compile()
    assert caught.value.diagnostics[0].location.file == __file__


def test_extremes_of_other_types_are_refused():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f16]):
        w.atomic_max(y[0], 1.0)

    message = r"w\.atomic_max changes elements of w\.f32, w\.i64, .*w\.u32, got those of w\.f16$"
    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()


@w.kernel(grid=lambda keys: w.ceil_div(keys.rows, 64), threads=64)
def inserted(keys: w.In["n"], table: w.Out["slots"], at: w.Out["n", w.i32]):
    """A set of numbers in a hash table."""
    i = w.cta() * 64 + w.thread()
    if i < keys.rows:
        key, slot, searches = keys[i].loaded(), keys[i].to(w.i32) * 7 % table.rows, w.i32(1)
        while searches != 0:
            old = w.atomic_cas(table[slot], -1, key)
            if old == -1 or old == key:
                at[i] = slot
                searches = 0
            else:
                slot = (slot + 1) % table.rows


@pytest.mark.parametrize("chip, dtype", [("sm_80", np.int32), ("sm_90a", np.int64)])
@pytest.mark.parametrize("seed", [None, 1])
def test_keys_are_inserted_by_swaps(chip, dtype, seed):
    keys = np.random.default_rng(0).integers(0, 40, 150).astype(dtype)
    table, at = np.full(48, -1, dtype), np.zeros(150, np.int32)
    assert not inserted.emulate(keys, table, at, arch=chip, seed=seed).findings
    assert np.array_equal(table[at], keys)
    assert sorted(table[table >= 0]) == sorted(set(keys))


@w.kernel(grid=lambda x: x.rows, threads=64)
def one_after_another(x: w.In["m n", w.f32], y: w.Out["n", w.f32], lock: w.Out["1", w.i32], *, release):
    if w.thread() == 0:
        while w.atomic_cas(lock[0], 0, 1) != 0:
            pass
    w.barrier()
    for i in w.range(w.thread(), x.columns, 64):
        y[i] += x[w.cta(), i]
    w.barrier()
    if w.thread() == 0:
        if release:
            w.atomic_xchg(lock[0], 0)
        else:
            w.atomic_add(lock[0], -1)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_swaps_order_other_accesses(seed):
    x, y = np.random.default_rng(0).integers(0, 9, (7, 100)).astype(np.float32), np.zeros(100, np.float32)
    lock = np.zeros(1, np.int32)
    assert not one_after_another.emulate(x, y, lock, release=True, seed=seed).findings
    assert np.array_equal(y, x.sum(0)) and not lock.any()
    # An addition whose result isn't used orders nothing.
    report = one_after_another.emulate(x, y, lock, release=False, seed=seed)
    assert {each.rule for each in report.findings} == {"global-race"}


@w.kernel(grid=lambda x, *, warps: x.rows // warps, threads=lambda warps: 32 * warps)
def last_of_each(
    x: w.In["m n", w.f32], part: w.Out["m n", w.f32], y: w.Out["n", w.f32], count: w.Out["n", w.i32], *, warps
):
    """The last thread of each column adds what the others have stored: threads of CTAs, or of one CTA."""
    i, row, own = w.thread() % 32, w.cta() * warps + w.thread() // 32, w.shared(1, 32, w.i32)
    if row == 0:
        own[i] = 0
    w.barrier()
    part[row, i] = x[row, i] * 2.0
    if w.atomic_add(own[i] if warps > 1 else count[i], 1) == 3:
        total = w.f32(0)
        for r in w.range(4):
            total += part[r, i]
        y[i] = total


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("warps", [1, 4])
def test_an_addition_whose_result_is_used_orders_other_accesses(arch, warps):
    x = np.random.default_rng(0).integers(0, 9, (4, 32)).astype(np.float32)
    for seed in (None, 1):
        y, count = np.zeros(32, np.float32), np.zeros(32, np.int32)
        report = last_of_each.emulate(x, np.zeros_like(x), y, count, warps=warps, arch=arch, seed=seed)
        assert not report.findings and np.array_equal(y, 2 * x.sum(0))


def test_additions_without_a_result_have_no_fences():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f32], z: w.Out["n", w.u32], *, used):
        own = w.shared(1, 8, w.u32)
        old = [w.atomic_add(y[0], 1.0), w.atomic_max(z[0], 1), w.atomic_or(own[0], 1)]
        if used:
            y[1], z[1], z[2] = old

    without, with_results = (kernel.compile(used=used).ptx.count("fence.acq_rel") for used in (False, True))
    assert without == 0 and with_results >= 3  # LLVM makes one of two fences next to each other


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a", "sm_120a"])
def test_elements_of_shared_memory_are_swapped(arch):
    @w.kernel
    def kernel(y: w.Out["n", w.f32], z: w.Out["n", w.i32]):
        last, first = w.shared(1, 8, w.f32), w.shared(1, 8, w.i32)
        with w.role():
            i = w.thread()
            if i == 0:
                last[3] = 0.5
                first[0] = -1
            w.barrier()
            y[i] = w.atomic_xchg(last[3], i.to(w.f32) + 1.0)
            z[i] = w.atomic_cas(first[0], -1, i)
            w.barrier()
            if i == 0:
                y[128] = last[3]
                z[128] = first[0]

    y, z = np.zeros(129, np.float32), np.zeros(129, np.int32)
    assert not kernel.emulate(y, z, arch=arch).findings
    assert sorted(y) == [0.5, *range(1, 129)]
    assert (z[:128] == -1).sum() == 1 and {*z[:128]} == {-1, z[128]}


@pytest.mark.parametrize(
    "swap, message",
    [
        (lambda x, t: w.atomic_cas(x[0], 0.0, 1.0), r"atomic_cas changes elements of w\.i64, w\.i32, w\.u64"),
        (lambda x, t: w.atomic_xchg(x[t], 1.0), "atomic_xchg expects one element, with all its indices, got"),
        (lambda x, t: w.atomic_xchg(x, 1.0), "atomic_xchg expects one element, with all its indices, got"),
        (lambda x, t: w.atomic_xchg(x[0], 1), "'x' must be a w.Out argument to be written, got w.In"),
    ],
)
def test_swaps_need_one_element(swap, message):
    @w.kernel
    def kernel(x: w.In["n", w.f32]):
        with w.role():
            swap(x, w.row(w.zeros(64)))

    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()


@w.kernel(grid=lambda x: (w.ceil_div(x.rows, 64), 3))
def three_times(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], flat: w.Out["r c", w.f32], *, staged=True):
    """y += x by each of three CTAs, and flat += x in the order of lanes."""
    buffer, lanes = w.shared(64, 64, w.f32), w.shared(128, 32, w.f32)
    row = w.cta(0) * 64
    with w.role():
        for column in w.range(0, x.columns, 64):
            t = w.load(x[row, column], (64, 64))
            w.atomic_add(y[row, column], t, via=buffer if staged else None)
            if column == 0:
                w.atomic_add(flat[w.cta(0) * 128, 0], w.by_lanes(t), via=lanes)


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_additions_of_many_ctas(arch):
    """What is outside of the array is left out."""
    x = np.arange(70 * 68, dtype=np.float32).reshape(70, 68)
    y, flat = np.ones((70, 68), np.float32), np.zeros((256, 32), np.float32)
    report = three_times.emulate(x, y, flat, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.array_equal(y, 1 + 3 * x)
    first = flat[:128].reshape(8, 128, 4)  # of each lane 16 bytes, eight times
    pair = x[[0, 0, 8, 8], [0, 1, 0, 1]]
    assert np.array_equal(first[0, 0], 3 * pair) and np.array_equal(first.sum(), 3 * x[:64, :64].sum())


@w.kernel()
def kept(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    """y = x, by way of lanes."""
    with w.role():
        t = w.by_lanes(w.load(x[0, 0], (64, 80)))
        w.store(w.from_lanes(t, (64, 80)), y[0, 0])


def test_fragments_in_the_order_of_lanes():
    x = np.random.default_rng(0).standard_normal((64, 80)).astype(np.float16)
    y = np.zeros_like(x)
    assert not kept.emulate(x, y).findings
    assert np.array_equal(x, y)


@w.kernel()
def through_lanes(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, parts):
    """y = x, by way of shared memory in the order of lanes."""
    buffer = w.shared(128, 32, w.f32)
    with w.role():
        t = w.load(x[0, 0], (64, 64))
        for number, each in enumerate(w.lane_parts(t) if parts else [w.by_lanes(t)]):
            w.store(each, buffer.rows(number * each.rows, each.rows))
        t = w.load(buffer, like=w.by_lanes(w.zeros((64, 64))))
        w.store(w.from_lanes(t, (64, 64)), y[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("parts", [False, True])
def test_parts_in_the_order_of_lanes_have_one_address(parts):
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    y = np.zeros_like(x)
    assert not through_lanes.emulate(x, y, parts=parts).findings
    assert np.array_equal(x, y)
    ptx = through_lanes.compile(x, y, parts=parts).ptx
    stores = re.findall(r"st\.shared\.v4\.\w+\s+\[(%rd\d+)", ptx)
    assert len(stores) == 8 and len(set(stores)) == (1 if parts else 8)
    loads = re.findall(r"ld\.shared\.\S+", ptx)
    assert loads and all(each.startswith("ld.shared.v4") for each in loads)


def test_parts_of_any_type():
    @w.kernel()
    def kernel(y: w.Out["m n", w.f64]):
        with w.role():
            parts = w.lane_parts(w.zeros((64, 32), w.f64))
            assert [(part.shape, part.dtype) for part in parts] == [((16, 16), w.f64)] * 8
            assert len(w.lane_parts(w.zeros((64, 32), w.i8))) == 1

    kernel.compile()


def _by_lanes_of_few(x, y, t):
    w.by_lanes(w.sum(t, axis=1))


@pytest.mark.parametrize(
    "body, message",
    [
        (_by_lanes_of_few, "a lane must hold a multiple of 16 bytes of the fragment, got a fragment of 64"),
        (lambda x, y, t: w.lane_parts(t > 0), "a lane must hold a multiple of 16 bytes of the fragment, got"),
        (lambda x, y, t: w.by_lanes(3), "w.by_lanes expects a fragment, got 3"),
        (
            lambda x, y, t: w.from_lanes(t, (64, 64)),
            "w.from_lanes expects what w.by_lanes makes",
        ),
        (
            lambda x, y, t: w.atomic_add(y[0, 0], 1.0, via=x),
            "via is for tiles of an array, got 1.0 and .*: leave it out",
        ),
        (
            lambda x, y, t: w.atomic_add(y[0, 0], w.sum(t, axis=0), via=x),
            "via is for tiles, got a fragment of 64",
        ),
    ],
)
def test_mistakes_of_additions(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            body(x, y, w.load(x[0, 0], (64, 64)))

    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()


def test_types_that_tma_cannot_add():
    @w.kernel()
    def kernel(x: w.In["m n", w.f64], y: w.Out["m n", w.f64]):
        buffer = w.shared(64, 64, w.f64)
        with w.role():
            w.atomic_add(y[0, 0], w.load(x[0, 0], (64, 64)), via=buffer)

    with pytest.raises(weft.WeftError, match=r"TMA adds elements of w\.f32, .*, w\.u32, got a"):
        kernel.compile()


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100a"])
@pytest.mark.parametrize("form", [*ADD_TENSOR.forms(), AddTensor(6)], ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    numbers = ", ".join(["%r"] * form.rank)
    made = form.assembly.format(map="%p", coordinates=numbers, source="%r", policy="%p")
    text = (
        f".version 8.6\n.target {chip}\n.address_size 64\n.visible .entry k() {{\n"
        f".reg .b64 %p; .reg .b32 %r; {form.ptx} {made}; ret; }}\n"
    )
    assert (ADD_TENSOR.judge(form, chip) is None) == assembles(text, chip)
    assert AddTensor.parse(form.ptx) == (form if form.rank < 6 else None)
