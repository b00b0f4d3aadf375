"""Gradients of `weft.attention`: as in float64, in the emulator with its sanitizer, and without spills."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.attend import gradients as call_gradients
from weft.attend import tiles
from weft.attend.gradients import backward, of_sinks
from weft.attend.kernels.backward import gradients as kernel
from weft.attend.kernels.sums import products_of_outputs
from weft.attend.launches import Call, run
from weft.attend.problem import Options, Sizes
from weft.reference.attention import attention, gradients

BF16, F16 = ml_dtypes.bfloat16, np.float16
NONE = {"causal": False, "scale": None, "window": None, "softcap": None, "layout": "bhtd"}


def found(given, d_out, d_lse=None, **options):
    """The gradients of q, k, v and the sinks."""
    call = Call.of(given, Options.of(**NONE | options))
    out, lse = run(call)
    *of_inputs, delta, shares = backward(call, out, lse, d_out, d_lse)
    if "sinks" in given:
        d_lse = np.zeros_like(lse) if d_lse is None else d_lse
        return [*of_inputs, of_sinks(delta, shares, d_lse)]
    return [*of_inputs, None]


def close(got, wanted, dtype):
    """Scores' gradients and shares are rounded before they are multiplied, and the results."""
    largest = np.abs(wanted).max(initial=0)
    assert np.abs(got.astype(float) - wanted).max(initial=0) <= 4 * ml_dtypes.finfo(dtype).eps * largest


CASES = {  # batch, heads, queries, keys, sizes, options
    "causal, shared heads": (1, (2, 1), 70, 130, (64, 64), {"causal": True, "layout": "bthd"}),
}
SLOW = {
    "no mask": (2, (2, 2), 100, 70, (64, 64), {}),
    "three tiles of keys": (1, (1, 1), 300, 300, (64, 64), {"causal": True, "dtype": BF16}),
    "three tiles of keys, no mask": (1, (2, 1), 300, 300, (64, 64), {}),
    "window": (1, (1, 1), 300, 260, (64, 40), {"window": (70, 10)}),
    "left window, softcap": (1, (2, 1), 200, 200, (72, 72), {"window": (50, None), "softcap": 5.0}),
    "queries that end in a block": (1, (1, 1), 200, 256, (64, 64), {"causal": True}),
    "fewer keys than queries": (1, (1, 1), 200, 70, (64, 64), {"causal": True}),
    "d 8": (1, (1, 1), 70, 70, (8, 8), {}),
    "d 128": (1, (2, 1), 150, 200, (128, 128), {"causal": True, "dtype": BF16}),
    "d 128, keys that no query sees": (1, (2, 1), 64, 300, (128, 128), {"window": (20, 0)}),
    "d 128 without mask": (1, (2, 1), 170, 140, (128, 128), {}),
    "d 128, softcap": (1, (1, 1), 130, 70, (128, 104), {"softcap": 5.0}),
    "d 192, 128": (1, (1, 1), 70, 130, (192, 128), {"causal": True}),
    "d 256": (1, (1, 1), 70, 80, (256, 256), {}),
}


@pytest.mark.parametrize("deterministic", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)], ids=str
)
def test_gradients(name, deterministic):
    batch, heads, queries, keys, (d, e), options = (CASES | SLOW)[name]
    options, rng = dict(options), np.random.default_rng(0)
    dtype, turned = options.pop("dtype", F16), options.get("layout") == "bthd"
    shapes = ((heads[0], queries, d), (heads[1], keys, d), (heads[1], keys, e), (heads[0], queries, e))
    q, k, v, d_out = (rng.standard_normal((batch, *shape)).astype(dtype) for shape in shapes)
    turn = (lambda x: np.ascontiguousarray(x.swapaxes(1, 2))) if turned else (lambda x: x)
    given = {"q": turn(q), "k": turn(k), "v": turn(v)}
    got = found(given, turn(d_out), **options, deterministic=deterministic)
    options.pop("layout", None)
    wanted = gradients(d_out, q, k, v, **options)
    for one, other in zip(got[:3], wanted, strict=True):
        close(turn(one), other, dtype)
    assert got[3] is None


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 128])
def test_tiles_of_keys_in_sections(monkeypatch, size):
    monkeypatch.setattr(tiles, "section", lambda keys, meta: 4)
    rng = np.random.default_rng(0)
    q, k, v, d_out = rng.standard_normal((4, 1, 3, 160, size)).astype(F16)
    got = found({"q": q, "k": k, "v": v}, d_out, causal=True)
    for one, other in zip(got[:3], gradients(d_out, q, k, v, causal=True), strict=True):
        close(one, other, F16)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [64, 96, 128])
@pytest.mark.parametrize("beside", [True, False])
def test_heads_are_prepared_and_converted_beside_others(monkeypatch, size, causal, beside):
    """Tiles of a head prepare the next head's rows, and convert the sums of the one before; or they only
    clear those of the next one.
    """
    monkeypatch.setattr(tiles, "beside", lambda *_, **__: beside)
    rng = np.random.default_rng(0)
    q, d_out = rng.standard_normal((2, 2, 4, 200, size)).astype(F16)
    k, v = rng.standard_normal((2, 2, 2, 300, size)).astype(F16)
    given, of_lse = {"q": q, "k": k, "v": v}, rng.standard_normal((2, 4, 200)).astype(np.float32)
    got = found(given, d_out, of_lse, causal=causal)
    exact = found(given, d_out, of_lse, causal=causal, deterministic=True)
    for one, other in zip(got[:3], exact, strict=False):
        close(one, other.astype(float), F16)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [True, False])
def test_heads_must_be_awaited(monkeypatch, beside):
    """Of which rows are prepared, or only sums are cleared."""
    rng = np.random.default_rng(0)
    q, k, v, d_out = rng.standard_normal((4, 1, 3, 128, 64)).astype(F16)
    monkeypatch.setattr(tiles, "beside", lambda *_, **__: beside)
    monkeypatch.setattr(kernel, "_compiled", {})
    monkeypatch.setattr(w, "await_signals", lambda *_: None)
    with pytest.raises(weft.WeftError, match="global-race"):
        found({"q": q, "k": k, "v": v}, d_out)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("deterministic, size", [(False, 64), (True, 64), (False, 128)])
def test_lengths_and_sinks(deterministic, size, causal):
    rng, lengths = np.random.default_rng(0), np.array([100, 0], np.int32)
    q, d_out = rng.standard_normal((2, 2, 2, 130, size)).astype(F16)
    k, v = rng.standard_normal((2, 2, 1, 140, size)).astype(F16)
    sinks = np.array([0.5, -1], np.float32)
    given = {"q": q, "k": k, "v": v, "lengths": lengths, "sinks": sinks}
    got, of_both = found(given, d_out, causal=causal, deterministic=deterministic), np.zeros(2)
    for number, length in enumerate(lengths):
        arrays = q[number], k[number, :, :length], v[number, :, :length]
        wanted = gradients(d_out[number], *arrays, causal=causal, sinks=sinks)
        parts = got[0][number], got[1][number, :, :length], got[2][number, :, :length]
        for one, other in zip(parts, wanted, strict=True):
            close(one, other, F16)
        assert not got[1][number, :, length:].any() and not got[2][number, :, length:].any()
        for head in range(2):  # by differences
            step = 1e-4 * np.eye(2)[head]
            ends = (attention(*arrays, causal=causal, sinks=sinks + sign * step).out for sign in (1, -1))
            more, less = (((each * d_out[number])[head]).sum() for each in ends)
            of_both[head] += (more - less) / 2e-4
    assert np.allclose(got[3], of_both, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(causal, deterministic, size):
    rng, starts = np.random.default_rng(0), np.array([3, 150, 150, 180], np.int32)
    q, d_out = rng.standard_normal((2, 190, 2, size)).astype(F16)
    k, v = rng.standard_normal((2, 190, 1, size)).astype(F16)
    sinks, of_all = np.array([0.5, -1], np.float32), np.zeros(2)
    given = {"q": q, "k": k, "v": v, "sinks": sinks, "cu_seqlens_q": starts, "cu_seqlens_k": starts}
    got = found(given, d_out, causal=causal, deterministic=deterministic)
    for first, end in itertools.pairwise(starts):
        parts = [each[first:end].swapaxes(0, 1) for each in (*got[:3], d_out, q, k, v)]
        for one, other in zip(parts[:3], gradients(*parts[3:], causal=causal, sinks=sinks), strict=True):
            close(one, other, F16)
        exact = attention(*parts[4:], causal=causal, sinks=sinks)
        of_all -= (np.exp(sinks[:, None] - exact.lse) * (parts[3] * exact.out).sum(-1)).sum(-1)
    assert np.allclose(got[3], of_all, atol=2e-2)


def test_the_gradient_of_sinks_where_no_query_sees_a_key():
    """lse is then the sink."""
    q, k, d_lse = np.zeros((2, 2, 3, 64), F16), np.zeros((2, 2, 0, 64), F16), np.ones((2, 2, 3), np.float32)
    given = {"q": q, "k": k, "v": k, "sinks": np.array([0.5, -1], np.float32)}
    assert found(given, q, d_lse)[3].tolist() == [6, 6] and found(given, q)[3].tolist() == [0, 0]


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("sizes", [(64, 256), pytest.param((64, 128, 192, 256), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "heads", [1, 16], ids=["few heads", "heads that are prepared or cleared beside others"]
)
def test_kernels_fit_into_shared_memory(heads, sizes):
    def traced(kernel, *arrays, stream=None, **meta):
        clears.add(meta.get("clears", False))
        kernel.module(*arrays, **meta)

    clears = set()
    for d, e in itertools.product(sizes, repeat=2):
        q, v = (np.zeros((1, heads, 8, size), F16) for size in (d, e))
        lse = np.zeros((1, heads, 8), np.float32)
        call = Call.of({"q": q, "k": q, "v": v}, Options(), traced, 1 if heads > 1 else 132)
        backward(call, v, lse, v)
    assert (True in clears) == (heads > 1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("queries, window", [(128, None), (70, (100, 10))])
def test_keys_after_the_last_one_have_no_shares(size, queries, window):
    """exp(0 - lse) isn't finite, for the zeros that follow keys with scores far below 0."""
    rng = np.random.default_rng(0)
    v, d_out = (rng.standard_normal((1, 1, rows, size)).astype(F16) for rows in (70, queries))
    q, k = 20 + 0 * d_out + rng.standard_normal((1, 1, queries, 1)).astype(F16), -1 + v / 16
    got = found({"q": q, "k": k, "v": v}, d_out, window=window)
    for one, other in zip(got[:3], gradients(d_out, q, k, v, window=window), strict=True):
        close(one, other, F16)


@pytest.mark.slow
def test_the_gradient_of_lse_and_repeated_calls():
    """The gradient of the sums of lse is that of scores whose shares are the output's derivatives."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 1, 64, 64)).astype(F16)
    given, of_lse = {"q": q, "k": k, "v": v}, np.ones((1, 1, 64), np.float32)
    got = found(given, np.zeros_like(q), of_lse)
    shares = attention(q, k, v).shares
    close(got[0], shares @ k.astype(float) / 8, F16)
    close(got[1], shares.swapaxes(2, 3) @ q.astype(float) / 8, F16)
    assert not got[2].any()
    again = found(given, np.zeros_like(q), of_lse)
    assert all(np.array_equal(one, other) for one, other in zip(got[:3], again[:3], strict=True))


def test_no_gradients_of_pages():
    k = np.zeros((4, 1, 64, 64), F16)
    given = {"q": np.zeros((1, 1, 1, 64), F16), "k": k, "v": k, "lengths": np.array([5], np.int32)}
    call = Call.of(given | {"page_table": np.zeros((1, 2), np.int32)}, Options.of(**NONE))
    with pytest.raises(weft.WeftError, match="gradients must be of k and v in one piece, got pages"):
        backward(call, None, None, None)


TYPES = (
    *(["bf16"] * 4 + ["f32"] * 3 + ["bf16", "f32"] + ["i32"] * 3 + ["bf16"] * 3),
    *(["f32"] * 2 + ["i32"] + ["f32"] * 2 + ["i32"] * 4),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, e, rights, most",
    [
        (128, 128, True, 80),
        pytest.param(128, 128, False, 64, marks=pytest.mark.slow),
        pytest.param(64, 64, True, 16, marks=pytest.mark.slow),
        pytest.param(96, 96, True, 80, marks=pytest.mark.slow),
        pytest.param(192, 128, True, 0, marks=pytest.mark.slow),
        pytest.param(256, 256, True, 40, marks=pytest.mark.slow),
    ],
)
def test_few_spills(d, e, rights, most):
    """At most some bytes for each thread. Products aren't one after the other for want of registers."""
    adding = tiles.adding(d, e, window=rights, capped=False)
    every = [*tiles.backward(d, e), adding]
    if adding is not None and tiles.beside(1024, adding, left=False):
        every.append(adding | {"clears": True, "beside": True})
    for meta in filter(None, every):
        resources = kernel.compile(*TYPES, arch="sm_90a", rights=rights, group=1, **meta).resources
        assert max(resources.spill_stores, resources.spill_loads) <= most


@pytest.mark.slow
def test_masks_compare_only_what_may_be_hidden():
    """Keys after the last one, and queries, are compared only where there may be such ones."""
    meta = tiles.adding(128, 128, window=True, capped=False) | {"group": 1, "arch": "sm_90a"}
    flags = {"ragged": False}, {"ragged": True}, {"packed": True}
    counts = [kernel.compile(*TYPES, rights=True, **meta, **each).ptx.count("selp.f32") for each in flags]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.slow
def test_wide_heads_share_code_that_loads_outputs():
    """A loop loads two panels of columns: the code for rows that aren't aligned takes long to compile."""
    types = ("bf16",) * 4 + ("f32",) * 2 + ("i32",) * 3 + ("f32",) * 6 + ("i32", "f32", "f32") + ("i32",) * 2
    types += ("f32", "i32", "i32")

    def loads(width):
        sizes = {"D": 64, "width": 64, "E": width, "value_width": width}
        return products_of_outputs.compile(*types, **sizes, arch="sm_90a").ptx.count("ld.global")

    assert loads(64) < loads(128) == loads(192) == loads(256)


def test_short_and_wide_heads_without_left_windows_or_softcaps_have_kernels_beside():
    meta = [tiles.adding(d, d, window=False, capped=False) for d in (64, 128)]
    cases = itertools.product(meta, (1024, 4096, 16384))
    found = {(m["width"], keys) for m, keys in cases if tiles.beside(keys, m, left=False)}
    assert found == {(128, 1024), (128, 4096)}
    assert not any(tiles.beside(1024, m, left=True) for m in meta)
    assert not tiles.beside(1024, tiles.adding(128, 128, window=False, capped=True), left=False)


def test_numbers_of_pieces_fit_in_32_bits():
    """That of the last tile's first piece, times all blocks of a triangle of tiles."""
    sizes = Sizes(1, 256, 1, 1 << 16, 4096, 128, 128, packed=False)
    call = SimpleNamespace(sizes=sizes, flags={"lefts": False})
    how = tiles.adding(128, 128, window=True, capped=False)
    assert not call_gradients._beside(call, how)
    call.sizes = replace(sizes, heads=128)
    assert call_gradients._beside(call, how)
    count, pieces = sizes.keys // 128, 128 * sizes.queries * 128 // (64 * 16)
    assert count * (count + 1) * pieces < 2**31


def test_warpgroups_take_turns_for_short_sequences_of_narrow_heads_with_windows():
    meta = [tiles.adding(d, d, window=True, capped=False) for d in (64, 128)]
    cases = itertools.product(meta, (1024, 4096, 16384), (False, True))
    found = {(m["width"], keys) for m, keys, window in cases if tiles.in_turns(keys, m, window=window)}
    assert found == {(64, 1024), (64, 4096)}
    assert not any(tiles.in_turns(1024, m, window=False) for m in meta)


@pytest.mark.parametrize(
    "size, causal, keys, ragged",
    [(128, False, 256, True), (64, False, 256, False), (128, True, 256, False), (64, False, 200, True)],
)
def test_shares_are_computed_before_a_branch_at_128_columns(size, causal, keys, ragged):
    """Masks of keys after the last one are in a branch, also where there are no such keys."""
    q = np.zeros((1, 1, keys, size), F16)
    found = []

    def launch(kernel, *arguments, **options):
        found.append(options.get("ragged"))

    call = Call.of({"q": q, "k": q, "v": q}, Options.of(**NONE | {"causal": causal}), launch)
    backward(call, q, np.zeros((1, 1, keys), np.float32), q)
    assert found == [None, ragged, None]


def test_one_function_chooses_the_kernels():
    """Heads that are too wide, and softcaps of narrow ones, have no kernel that adds in memory."""
    assert tiles.adding(256, 256, window=False, capped=False) is None
    assert tiles.adding(64, 64, window=False, capped=True) is None
    assert tiles.adding(128, 128, window=False, capped=True)["late"]
    assert [tiles.adding(d, 64, window=False, capped=False)["late"] for d in (64, 128)] == [True, False]
    assert not tiles.adding(128, 128, window=False, capped=True)["at_once"]
    assert [tiles.adding(64, 64, window=each, capped=False)["at_once"] for each in (False, True)] == [
        True,
        False,
    ]
    with pytest.raises(weft.WeftError, match="deterministic must be True or False, got 'yes'"):
        Options.of(**NONE, deterministic="yes")
