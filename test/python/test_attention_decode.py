"""`weft.attention` of one query for each sequence: as in float64, in the emulator with its sanitizer."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from test_attention import BF16, F16, RNG, check

import weft
from weft.attend import tiles
from weft.attend.kernels.combine import combine
from weft.attend.kernels.decode import decode

LARGEST = 227 * 1024  # bytes of shared memory


def decoded(batch, heads, keys, sizes, options, dtype=F16, lengths=None, page=0):
    """Checks the output and lse of one query, with NaNs beyond the lengths of sequences."""
    options, rng = dict(options), RNG(0)
    (heads, key_heads), (d, e) = heads, sizes
    q = rng.standard_normal((batch, heads, 1, d)).astype(dtype)
    if options.get("sinks"):
        options["sinks"] = rng.standard_normal(heads).astype(np.float32)
    splits, given = options.pop("splits", None), {}
    table = np.arange(batch)[:, None]
    if page:
        table = rng.permutation(batch * -(-keys // page)).reshape(batch, -1).astype(np.int32)
        given["page_table"] = table
    shape = table.size, key_heads, page or keys
    k, v = (rng.standard_normal((*shape, size)).astype(dtype) for size in (d, e))
    parts = [[np.concatenate([*each[row]], 1) for row in table] for each in (k, v)]
    if lengths is not None:
        given["lengths"] = np.array(lengths, np.int32)
        for row, length in zip(table, lengths, strict=True):
            for number, first in zip(row, range(0, keys, shape[2]), strict=True):
                k[number, :, max(length - first, 0) :] = v[number, :, max(length - first, 0) :] = np.nan
    out, lse = weft.attention(q, k, v, return_lse=True, splits=splits, **given, **options)
    for number, length in enumerate(lengths or batch * [keys]):
        of_keys = (each[number][:, :length] for each in parts)
        check((out[number], lse[number]), q[number], *of_keys, capped="softcap" in options, **options)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "heads, sizes, options",
    [
        ((2, 2), (64, 64), {}),
        ((3, 1), (64, 64), {"splits": 5}),  # of which two have no keys
        pytest.param((6, 2), (64, 64), {"splits": 3, "sinks": True}, marks=pytest.mark.slow),
        pytest.param((20, 1), (72, 200), {"sinks": True, "causal": True}, marks=pytest.mark.slow),
        pytest.param((8, 1), (256, 256), {"splits": 7}, marks=pytest.mark.slow),
        pytest.param((70, 1), (128, 64), {"splits": 2, "sinks": True}, marks=pytest.mark.slow),
        pytest.param((4, 2), (8, 40), {"softcap": 15.0}, marks=pytest.mark.slow),
        ((8, 1), (96, 96), {"softcap": 15.0, "window": (150, None), "splits": 2}),
    ],
)
def test_one_query(heads, sizes, options):
    decoded(2, heads, 300, sizes, options)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("window", [(0, 0), (127, 0), (128, None), (200, 3)])
def test_windows(window):
    decoded(1, (2, 1), 300, (64, 64), {"window": window, "splits": 2 if window[0] == 200 else 1}, BF16)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("splits", [1, 5])
def test_lengths(splits):
    decoded(4, (3, 1), 300, (64, 64), {"splits": splits, "sinks": True}, lengths=[300, 0, 1, 129])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("page, splits", [(16, 1), (48, 3), (64, 1), (128, 2), (192, 1)])
def test_pages(page, splits):
    keys = 336 if 336 % page == 0 else 384  # the last block of 128 keys ends after the last page
    decoded(3, (4, 2), keys, (64, 64), {"splits": splits}, lengths=[0, 77, keys], page=page)


def test_a_score_far_above_the_earlier_ones():
    """The last keys come first. A later score is larger by more than what blocks leave as it is."""
    k = np.zeros((1, 1, 300, 64), F16)
    k[..., 0] = np.linspace(20, -20, 300)[:, None].T
    v = RNG(0).standard_normal((1, 1, 300, 64)).astype(F16)
    q = np.full((1, 2, 1, 64), 4, F16) * np.array([1, -1], F16)[:, None, None]
    check([each[0] for each in weft.attention(q, k, v, return_lse=True)], q[0], k[0], v[0])


@pytest.mark.slow
def test_orders_of_warps():
    bf16 = ml_dtypes.bfloat16
    q, k, v = (RNG(0).standard_normal((1, 1, n, 64)).astype(bf16) for n in (8, 500, 500))
    none, results = np.zeros(1, np.int32), []
    for seed in (None, 1, 2):
        o, lse = np.zeros((1, 1, 8, 64), bf16), np.zeros((1, 1, 8), np.float32)
        added = none, none[None], none.astype(np.float32), o, lse, 0.125, 0.0, 0, 0
        report = decode.emulate(q, k, v, *added, seed=seed, **tiles.decode(64, 64, 8))
        assert not report.findings
        results.append(o)
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_tiles_fit_into_shared_memory():
    for d in range(8, 257, 8):
        for e in range(8, 257, 8):
            for heads, ahead in itertools.product((1, 9, tiles.MOST_TOGETHER), (False, True)):
                chosen = tiles.decode(d, e, heads, page=48, ahead=ahead)
                m, n, stages = chosen["M"], chosen["N"], chosen["stages"]
                rows = n * (chosen["width"] + chosen["value_width"])
                bytes_ = 2 * (stages * rows + m * (chosen["width"] + n))
                assert bytes_ <= LARGEST - 1024
                assert stages == 3 or bytes_ > 114 * 1024  # of which a multiprocessor has twice as many
                assert chosen["pieces"] == n // math.gcd(n, 48)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("limited", [False, True])
def test_the_first_blocks_are_prefetched_before_the_wait(limited):
    """Unless the array of lengths, which an earlier launch may write, shows which these are."""
    types = *["bf16"] * 3, *["i32"] * 2, "f32", "f32", "f32", "f32", "f32", "i32", "i32"
    chosen = tiles.decode(64, 64, 8, ahead=True)
    ptx = decode.compile(*types, D=64, E=64, arch="sm_90a", **chosen, splits=4, limited=limited).ptx
    before, after = ptx.split("griddepcontrol.wait")
    assert ("prefetch.global.L2" in before) != limited and "prefetch.global.L2" not in after
    ptx = combine.compile(*["f32"] * 3, "bf16", "f32", E=64, splits=4, arch="sm_90a").ptx
    assert ptx.index("griddepcontrol.launch_dependents") < ptx.index("griddepcontrol.wait")


@pytest.mark.slow
@pytest.mark.parametrize("d, heads", [(64, 8), (128, 32), (256, 32)])
def test_no_spills(d, heads):
    types = *["bf16"] * 3, *["i32"] * 2, "f32", "f32", "f32", "f32", "f32", "i32", "i32"
    flags = {"rights": True, "lefts": True, "capped": True, "limited": True, "paged": True, "splits": 4}
    kernel = decode.compile(*types, D=d, E=d, arch="sm_90a", **tiles.decode(d, d, heads), **flags)
    assert kernel.resources.spill_stores == kernel.resources.spill_loads == 0
