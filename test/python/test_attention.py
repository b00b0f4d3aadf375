"""`weft.attention` forward: as in float64, in the emulator with its sanitizer, and its messages."""

import importlib.util
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.attend import tiles
from weft.attend.kernels.forward import forward
from weft.reference.attention import attention as expected

BF16, F16 = ml_dtypes.bfloat16, np.float16
RNG = np.random.default_rng


def arrays(batch, heads, queries, keys, sizes, dtype=F16, layout="bhtd", peaked=3):
    """q, k and v. Scores of larger queries differ by more than what a kernel doesn't rescale."""
    (heads, key_heads), (d, e), rng = heads, sizes, RNG(0)

    def array(h, tokens, size):
        shape = (batch, tokens, h, size) if layout == "bthd" else (batch, h, tokens, size)
        return rng.standard_normal(shape).astype(dtype)

    q, k, v = array(heads, queries, d), array(key_heads, keys, d), array(key_heads, keys, e)
    return q * dtype(peaked), k, v


def check(got, q, k, v, *, capped=False, **options):
    """Compares output and lse with float64. The kernel rounds shares and the output, and tanh.approx has 11
    bits.
    """
    (out, lse), wanted = got, expected(q, k, v, **options)
    bound = (8 if capped else 4) * ml_dtypes.finfo(q.dtype).eps * max(np.abs(wanted.out).max(initial=0), 1)
    assert np.abs(out.astype(float) - wanted.out).max(initial=0) < bound
    finite = np.isfinite(wanted.lse)
    assert np.array_equal(np.isfinite(lse), finite)
    slack = options["softcap"] * 2**-10 if capped else 1e-4
    assert np.allclose(lse[finite], wanted.lse[finite], atol=slack)


CASES = {  # batch, heads, queries, keys, sizes, options
    "no mask, fewer heads of keys": (2, (4, 2), 70, 140, (64, 64), {}),
    "causal, more keys, bf16": (
        1,
        (2, 1),
        100,
        260,
        (72, 72),
        {"causal": True, "dtype": BF16, "layout": "bthd"},
    ),
    "window, sinks": (1, (2, 2), 200, 340, (64, 64), {"window": (100, 0), "sinks": True}),
    "softcap": (1, (1, 1), 70, 300, (64, 40), {"window": (70, 30), "softcap": 15.0}),
    "one query of shared heads": (2, (4, 2), 1, 300, (64, 64), {"causal": True, "window": (99, None)}),
    "splits, sinks": (1, (2, 1), 10, 300, (64, 64), {"causal": True, "splits": 3, "sinks": True}),
}
SLOW = {
    "d 8": (1, (1, 1), 70, 70, (8, 8), {}),
    "d 96": (1, (2, 1), 130, 200, (96, 96), {"causal": True}),
    "d 128": (2, (2, 1), 200, 300, (128, 128), {"causal": True, "dtype": BF16}),
    "d 128, window": (1, (2, 1), 300, 300, (128, 128), {"window": (64, 64), "layout": "bthd"}),
    "d 192, 128": (1, (1, 1), 150, 260, (192, 128), {"causal": True, "dtype": BF16}),
    "d 256": (1, (1, 1), 130, 200, (256, 256), {"causal": True, "softcap": 30.0}),
    "d 200, 248": (1, (1, 1), 70, 100, (200, 248), {}),
    "fewer keys than queries": (1, (2, 2), 300, 70, (64, 64), {"causal": True}),
    "window of one key": (1, (1, 1), 300, 300, (64, 64), {"window": (0, 0)}),
    "window after the query": (1, (1, 1), 200, 300, (64, 64), {"window": (None, 40), "sinks": True}),
    "left window only": (1, (1, 1), 300, 500, (64, 64), {"window": (40, None)}),
    "three warpgroups, causal": (1, (1, 1), 1100, 1100, (64, 64), {"causal": True}),
    "many splits, sinks": (1, (2, 1), 10, 600, (64, 72), {"causal": True, "splits": 18, "sinks": True}),
    "splits, two tiles": (1, (2, 2), 100, 300, (64, 64), {"splits": 2, "causal": True}),
    "splits, more than blocks": (1, (2, 2), 3, 100, (128, 128), {"splits": 7}),
    "splits, one query": (2, (8, 2), 1, 700, (128, 128), {"splits": 4, "sinks": True, "dtype": BF16}),
    "splits, window": (1, (1, 1), 20, 600, (64, 64), {"splits": 3, "window": (200, 0)}),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)], ids=str
)
def test_output_and_lse(name):
    batch, heads, queries, keys, sizes, options = (CASES | SLOW)[name]
    options = dict(options)
    dtype, layout = options.pop("dtype", F16), options.get("layout", "bhtd")
    q, k, v = arrays(batch, heads, queries, keys, sizes, dtype, layout)
    if "sinks" in options:
        options["sinks"] = RNG(1).standard_normal(heads[0]).astype(np.float32)
        options["sinks"][0] = 12.0  # more than most scores
    out, lse = weft.attention(q, k, v, return_lse=True, **options)
    if options.pop("layout", None) == "bthd":
        q, k, v, out = (each.swapaxes(1, 2) for each in (q, k, v, out))
    options.pop("splits", None)
    check((out, lse), q, k, v, capped="softcap" in options, **options)


def test_lengths():
    q, k, v = arrays(3, (2, 2), 70, 140, (64, 64))
    lengths = np.array([100, 0, 7], np.int32)
    out, lse = weft.attention(q, k, v, lengths=lengths, causal=True, return_lse=True)
    for number, length in enumerate(lengths):
        keys, values = k[number, :, :length], v[number, :, :length]
        check((out[number], lse[number]), q[number], keys, values, causal=True)


@pytest.mark.slow
def test_what_is_behind_a_sequence_has_no_effect():
    """A share of 0 of a NaN would be a NaN."""
    q, k, v = arrays(2, (1, 1), 20, 140, (64, 64))
    lengths = np.array([70, 0], np.int32)
    k[0, :, 70:] = v[0, :, 70:] = k[1] = v[1] = np.nan
    out = weft.attention(q, k, v, lengths=lengths)
    check((out[0], expected(q[0], k[0, :, :70], v[0, :, :70]).lse), q[0], k[0, :, :70], v[0, :, :70])
    assert not out[1].any()
    starts = np.array([0, 70, 140], np.int32)
    packed = [np.ascontiguousarray(each[0].swapaxes(0, 1)) for each in (k, k, v)]
    assert np.isfinite(weft.attention(*packed, cu_seqlens_q=starts, cu_seqlens_k=starts)[:70]).all()


@pytest.mark.parametrize(
    "causal, queries, keys",
    [
        (True, [100, 0, 30, 200], [64, 10, 0, 150]),
        pytest.param(False, [1, 128, 5], [77, 0, 300], marks=pytest.mark.slow),
    ],
)
def test_packed_sequences(causal, queries, keys):
    rng, starts = RNG(0), [np.cumsum([0, *each]).astype(np.int32) for each in (queries, keys)]
    q = rng.standard_normal((sum(queries), 2, 64)).astype(F16)
    k, v = rng.standard_normal((2, sum(keys), 1, 64)).astype(F16)
    out, lse = weft.attention(
        q, k, v, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], causal=causal, return_lse=True
    )
    for number in range(len(queries)):
        mine, its = (slice(*each[number : number + 2]) for each in starts)
        parts = [each.swapaxes(0, 1) for each in (out[mine], q[mine], k[its], v[its])]
        check((parts[0], lse[:, mine]), *parts[1:], causal=causal)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.each_value(1)
@pytest.mark.parametrize("ends", [(30, 70), (64, 128), (0, 0), (1, 200)])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"splits": 2}, {"lengths": True}, {"page": 16}], ids=str
)
def test_rows_after_the_last_sequence_are_zeros(ends, options):
    """In memory that held something else."""
    q, k, v = (each[0].swapaxes(0, 1) for each in arrays(1, (2, 1), 230, 230, (64, 64)))
    starts, options, last = np.array([0, *ends], np.int32), dict(options), ends[-1]
    lengths = np.maximum(np.diff(starts) - 3, 0).astype(np.int32)
    given = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
    if "lengths" in options:
        given["lengths"] = lengths
    if size := options.pop("page", 0):
        k, v = (x[:224].reshape(14, size, 1, 64).swapaxes(1, 2).copy() for x in (k, v))
        table = np.arange(28, dtype=np.int32).reshape(2, 14) % 14
        given = {"cu_seqlens_q": starts, "page_table": table, "lengths": lengths}
    options.pop("lengths", None)
    q[last:] = np.nan
    out = np.full(q.shape, np.nan, F16)
    found, lse = weft.attention(q, k, v, **given, **options, out=out, return_lse=True)
    assert not found[last:].any() and (lse[:, last:] == -np.inf).all()
    assert np.isfinite(found[:last]).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "page, packed", [(64, False), pytest.param(16, False, marks=pytest.mark.slow), (32, True)]
)
def test_pages(page, packed):
    rng, lengths = RNG(0), np.array([100, 37], np.int32)
    k, v = rng.standard_normal((2, 20, 2, page, 64)).astype(F16)
    table = rng.permutation(20)[:14].reshape(2, 7).astype(np.int32)
    options = {"lengths": lengths, "page_table": table, "causal": True, "return_lse": True}
    if packed:
        starts = np.array([0, 3, 70], np.int32)
        q = rng.standard_normal((70, 4, 64)).astype(F16)
        out, lse = weft.attention(q, k, v, cu_seqlens_q=starts, **options)
    else:
        q = rng.standard_normal((2, 4, 1, 64)).astype(F16)
        out, lse = weft.attention(q, k, v, **options)
    for number, length in enumerate(lengths):
        mine = slice(*starts[number : number + 2]) if packed else None
        of_q, of_out = ((x[mine].swapaxes(0, 1) if packed else x[number]) for x in (q, out))
        keys, values = (np.concatenate([*x[table[number]]], 1)[:, :length] for x in (k, v))
        check((of_out, lse[:, mine] if packed else lse[number]), of_q, keys, values, causal=True)


def test_nothing_to_see_is_zero():
    q, k, v = arrays(2, (2, 2), 3, 0, (64, 64))
    sinks = np.array([1, -2], np.float32)
    out, lse = weft.attention(q, k, v, return_lse=True)
    assert not out.any() and np.all(lse == -np.inf)
    assert np.array_equal(weft.attention(q, k, v, sinks=sinks, return_lse=True)[1][1, :, 2], sinks)
    assert weft.attention(q[:, :, :0], k, v).shape == (2, 2, 0, 64)


def test_strides_and_out():
    """Heads of one array with queries, keys and values; the output in an array of the caller."""
    qkv = RNG(0).standard_normal((2, 70, 3, 2, 64)).astype(F16)
    q, k, v = (qkv[:, :, n] for n in range(3))
    out = np.zeros((2, 70, 4, 64), F16)[:, :, ::2]
    assert weft.attention(q, k, v, layout="bthd", out=out) is out
    wanted = weft.attention(*(np.ascontiguousarray(each.swapaxes(1, 2)) for each in (q, k, v)))
    assert np.array_equal(out, wanted.swapaxes(1, 2))


@pytest.mark.slow
def test_an_equal_result_in_other_orders_of_warps_and_tiles():
    meta = tiles.forward(64, 64, 200, causal=True, window=False) | {"rights": True}
    q, k, v = arrays(1, (2, 1), 200, 200, (64, 64))
    numbers, results = np.zeros(1, np.int32), []
    for seed, order in ((0, "paired"), (1, "paired"), (0, "by_length")):
        o, lse = np.zeros_like(q), np.zeros((1, 2, 200), np.float32)
        added = (numbers, numbers, numbers, numbers[None], numbers.astype(np.float32))
        report = forward.emulate(
            q, k, v, *added, o, lse, 0.125, 0.0, 0, 0, seed=seed, **meta, **{order: True}
        )
        assert not report.findings
        results.append(o)
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


TYPES = (*["bf16"] * 3, *["i32"] * 4, "f32", "bf16", "f32", "f32", "f32", "i32", "i32")


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, e, options",
    [
        (128, 128, {"causal": True, "window": False}),
        pytest.param(128, 128, {"causal": False, "window": False}, marks=pytest.mark.slow),
        pytest.param(128, 128, {"causal": True, "window": True}, marks=pytest.mark.slow),
        pytest.param(64, 64, {"causal": False, "window": False}, marks=pytest.mark.slow),
        pytest.param(96, 96, {"causal": True, "window": False}, marks=pytest.mark.slow),
        pytest.param(192, 128, {"causal": True, "window": False}, marks=pytest.mark.slow),
    ],
)
def test_no_spills(d, e, options):
    meta = tiles.forward(d, e, 4096, **options)
    kernel = forward.compile(
        *TYPES, D=d, E=e, rights=options["causal"], lefts=options["window"], arch="sm_90a", **meta
    )
    assert kernel.resources.spill_stores == kernel.resources.spill_loads == 0


@pytest.mark.parametrize("d", [64, 256])
@pytest.mark.slow
def test_spills_outside_of_loops_only(d):
    """Of numbers that a tile needs at its beginning or end; a loop loads one of them again."""
    meta = tiles.forward(d, d, 4096, causal=True, window=False)
    kernel = forward.compile(*TYPES, D=d, E=d, rights=True, paired=True, arch="sm_90a", **meta)
    assert kernel.resources.spill_stores <= 64


@pytest.mark.each_value(2)
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "d, flags, loops",
    [
        (64, {}, 2),
        (256, {}, 1),
        (256, {"lefts": True}, 1),
        (256, {"capped": True}, 2),
        (128, {}, 1),
        pytest.param(96, {}, 2, marks=pytest.mark.slow),
        pytest.param(192, {}, 1, marks=pytest.mark.slow),
        pytest.param(64, {"lefts": True}, 3, marks=pytest.mark.slow),
    ],
)
def test_wide_heads_have_one_loop(d, flags, loops):
    """Otherwise, another for blocks with masks, and with a window one more for those at its end."""
    meta, ptx = causal_ptx(d, **flags)
    products = re.findall(rf"wgmma\.\S+m64n{meta['N']}k16\S+ {{[^}}]*}}, %rd", ptx)  # of queries in memory
    assert len(products) == (1 + loops) * d // 16


def causal_ptx(d, **flags):
    """The meta-parameters and PTX of a causal kernel for 4096 queries."""
    window, capped = (flags.get(each, False) for each in ("lefts", "capped"))
    meta = tiles.forward(d, d, 4096, causal=True, window=window, capped=capped)
    return meta, forward.compile(*TYPES, D=d, E=d, rights=True, arch="sm_90a", **flags, **meta).ptx


@pytest.mark.each_value(1)
@pytest.mark.parametrize("d", [128, 256])
def test_masks_take_one_selection_for_each_score(d):
    """Whether a key exists and isn't too late is one comparison. The first block and the loop have masks."""
    meta, ptx = causal_ptx(d)
    selections = 2 * meta["N"] * 64 // 128
    assert selections <= ptx.count("selp.f32") <= selections + 10


def test_warpgroups_share_the_code_that_stores_through_values():
    """Each takes the stages that are lent to all, and stores through its own."""
    columns = 256
    assert causal_ptx(columns)[1].count("stmatrix") == 64 * columns // (4 * 8 * 8) // 4


@pytest.mark.each_value(1)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("window", [None, (100, 40), (100, None), (None, 40)])
def test_blocks_with_masks_in_one_loop_or_apart(monkeypatch, apart, window):
    forward, changed = tiles.forward, {"N": 64, "apart": apart}
    monkeypatch.setattr(tiles, "forward", lambda *sizes, **how: forward(*sizes, **how) | changed)
    q, k, v = arrays(1, (1, 1), 130, 260, (32, 32))
    check(weft.attention(q, k, v, window=window, return_lse=True), q, k, v, window=window)


MISTAKES = [
    ({"causal": 1}, "causal must be True or False, got 1"),
    ({"layout": "bhdt"}, "layout must be 'bhtd' or 'bthd', got 'bhdt'; did you mean 'bthd'"),
    ({"scale": -1.0}, "scale must be a positive number, or None for 1/sqrt.*got -1.0"),
    ({"softcap": float("inf")}, "softcap must be a positive number, or None, got inf"),
    ({"window": 128}, r"window must be \(left, right\).*got 128: \(127, 0\) lets a query see 128 keys"),
    ({"window": (3, -2)}, r"left and right of window must be in 0..2\*\*30 - 1, or None, got -2"),
    ({"splits": 0}, "splits must be in 1..256, or None for a choice by sizes, got 0"),
    ({"sinks": np.zeros(3, np.float32)}, r"sinks must have shape \(4\), got \(3,\)"),
    ({"lengths": np.zeros(2)}, "lengths must have elements of i32, got f64: convert it"),
    ({"cu_seqlens_k": np.zeros(2, np.int32)}, "cu_seqlens_k must come with cu_seqlens_q"),
    ({"page_table": np.zeros((2, 2), np.int32)}, "page_table must come with lengths|pages must have"),
    ({"out": np.zeros((2, 4, 70, 64))}, "out must have shape .2, 4, 70, 64. and elements of f16, got .*f64"),
    ({"q": np.zeros((2, 4, 70, 60), F16)}, "q and k must have heads of one size, got 60 and 64"),
    ({"q": np.zeros((2, 3, 70, 64), F16)}, "heads of q must be a multiple of those of k, got 3 and 2: .* 3"),
    ({"q": np.zeros((1, 4, 70, 64), F16)}, "q and k must have one batch size, got 1 and 2"),
    (
        {"q": np.zeros((4, 70, 64), F16)},
        r"q must have 4 dimensions, \(batch, heads, tokens, size\) in layout",
    ),
    ({"q": np.zeros((2, 4, 70, 64), BF16)}, "q, k and v must have one type, got bf16 and f16 of k"),
    (
        {"q": np.zeros((2, 4, 70, 64), np.float32)},
        "q must have elements of f16, bf16 or f8E4M3FN .e4m3., got f32",
    ),
    ({"v": np.zeros((2, 2, 80, 4), F16)}, "heads of v must .*, got 4: add columns of zeros, up to 8$"),
    ({"v": np.zeros((2, 2, 80, 264), F16)}, "heads of v must have a multiple of 8 columns.*, got 264$"),
    (
        {"q": np.zeros((2, 4, 70, 60), F16), "k": np.zeros((2, 2, 80, 60), F16)},
        "heads of q and k must .*, got 60: add columns of zeros, up to 64, and pass the scale",
    ),
    ({"is_causal": True}, "has no parameter 'is_causal': pass causal, where the last query has"),
    ({"softmax_scale": 1.0}, "has no parameter 'softmax_scale': pass scale$"),
    ({"enable_gqa": True}, "has no parameter 'enable_gqa': leave it out: q may have more heads than k and v"),
    ({"causl": True}, "has no parameter 'causl'; did you mean 'causal'"),
    ({"dropout_p": 0.1}, "has no parameter 'dropout_p': there is no dropout$"),
    ({"v": np.zeros((2, 2, 81, 64), F16)}, "k and v must have equal batches, heads and tokens"),
    ({"v": np.zeros((2, 2, 64, 80), F16).swapaxes(2, 3)}, "the last dimension of v must be contiguous"),
    ({"v": np.zeros((2, 2, 80, 65), F16)[..., :64]}, "rows of v must begin at multiples of 16 bytes"),
    ({"k": np.zeros(10241 * 2, F16)[1:20481].reshape(2, 2, 80, 64)}, "rows of k .* an address 2 bytes after"),
    ({"out": np.zeros((2, 4, 70, 65), F16)[..., :64]}, "rows of out must begin at multiples of 16 bytes"),
]


@pytest.mark.slow
def test_outputs_with_rows_of_any_alignment():
    """Split keys are combined by stores of single elements."""
    q, k, v = arrays(2, (2, 1), 3, 80, (64, 64))
    out = np.zeros((2, 2, 3, 67), F16)[..., 1:65]
    weft.attention(q, k, v, splits=2, out=out)
    assert np.array_equal(out, weft.attention(q, k, v, splits=2))


@pytest.mark.parametrize("changes, message", MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
def test_mistakes(changes, message):
    given = {"q": np.zeros((2, 4, 70, 64), F16), "k": np.zeros((2, 2, 80, 64), F16)}
    given |= {"v": np.zeros((2, 2, 80, 64), F16)} | changes
    with pytest.raises(weft.WeftError, match=f"weft.attention: .*({message})"):
        weft.attention(**given)


def test_tiles_fit_into_shared_memory():
    for d in range(8, 257, 8):
        for e in range(8, 257, 8):
            for page in (0, 16, 64, 192):
                chosen = tiles.forward(d, e, 4096, causal=True, window=True, page=page)
                assert chosen["N"] % 16 == 0 and chosen["N"] >= 16
                assert not page or page % chosen["N"] == 0


@pytest.mark.slow
def test_the_example_is_the_kernel_without_options():
    path = Path(__file__).resolve().parents[2] / "examples" / "attention.py"
    spec = importlib.util.spec_from_file_location("attention", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    q, k, v = (each[0] for each in arrays(1, (1, 1), 200, 300, (64, 64)))
    o, lse = np.zeros_like(q), np.zeros((1, 200), np.float32)
    example.attention.emulate(q, k, v, o, lse, 0.125, causal=True, groups=2)
    out, sums = weft.attention(q[None], k[None], v[None], causal=True, return_lse=True)
    assert np.array_equal(out[0], o) and np.allclose(sums[0], lse, atol=1e-6)
