"""`weft.attention` of e4m3 with scales: beside float64, in the emulator with its sanitizer, and messages."""

import re
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.attend import tiles
from weft.attend.kernels.forward_fp8 import forward_fp8
from weft.compiler import codegen
from weft.reference.attention import attention as expected

E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
SCALES = "q_scale", "k_scale", "v_scale"


def arrays(batch, heads, queries, keys, sizes, layout="bhtd", of_sequences=False):
    """q, k and v, and the scales of each head, or of each head of each sequence."""
    (heads, key_heads), (d, e), rng = heads, sizes, np.random.default_rng(0)

    def array(h, tokens, size):
        shape = (batch, tokens, h, size) if layout == "bthd" else (batch, h, tokens, size)
        return rng.standard_normal(shape).astype(E4M3)

    given = {"q": array(heads, queries, d), "k": array(key_heads, keys, d), "v": array(key_heads, keys, e)}
    for name, count in zip(SCALES, (heads, key_heads, key_heads), strict=True):
        shape = (batch, count) if of_sequences else count
        given[name] = rng.uniform(0.5, 2, shape).astype(np.float32)
    return given


def scaled(given):
    """q, k and v in float64, as batch, heads, tokens and size."""
    return [given[name].astype(float) * given[f"{name}_scale"][..., None, None] for name in "qkv"]


def check(out, lse, q, k, v, **options):
    """Compares results with float64. Shares have 3 bits of fraction, so that the root of the mean square of
    the error is up to 4% of that of the output; sums of wgmma lose bits of scores,
    which are up to 15 here.
    """
    wanted = expected(q, k, v, **options)
    error = np.square(out.astype(float) - wanted.out).mean() ** 0.5
    assert error <= 0.04 * np.square(wanted.out).mean() ** 0.5
    finite = np.isfinite(wanted.lse)
    assert np.array_equal(np.isfinite(lse), finite)
    assert np.allclose(lse[finite], wanted.lse[finite], atol=2e-2)


CASES = {  # batch, heads, queries, keys, sizes, options
    "fewer heads of keys": (2, (4, 2), 70, 200, (64, 64), {}),
    "causal": (1, (2, 1), 100, 400, (64, 64), {"causal": True, "layout": "bthd"}),
    "window, sinks": (1, (2, 2), 200, 500, (64, 64), {"window": (200, 0), "sinks": True}),
    "softcap": (1, (1, 1), 70, 300, (64, 48), {"window": (70, 30), "softcap": 15.0}),
}
SLOW = {
    "d 16, 32": (1, (1, 1), 70, 70, (16, 32), {}),
    "d 96": (1, (2, 1), 130, 400, (96, 96), {"causal": True}),
    "d 128": (2, (2, 1), 200, 500, (128, 128), {}),
    "d 128, causal": (1, (2, 1), 200, 500, (128, 128), {"causal": True}),
    "d 192, 128": (1, (1, 1), 150, 260, (192, 128), {"causal": True}),
    "d 256": (1, (1, 1), 130, 300, (256, 256), {"causal": True}),
    "fewer keys than queries": (1, (2, 2), 300, 70, (64, 64), {"causal": True}),
    "one query": (2, (4, 2), 1, 300, (128, 128), {"causal": True}),
    "window of one key": (1, (1, 1), 300, 300, (64, 64), {"window": (0, 0)}),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)], ids=str
)
def test_output_and_lse(name):
    batch, heads, queries, keys, sizes, options = (CASES | SLOW)[name]
    options = dict(options)
    given = arrays(batch, heads, queries, keys, sizes, options.get("layout", "bhtd"), of_sequences=batch > 1)
    if "sinks" in options:
        options["sinks"] = np.array([6, -1], np.float32)
    out, lse = weft.attention(**given, return_lse=True, **options)
    assert out.dtype == BF16
    if options.pop("layout", None) == "bthd":
        out = out.swapaxes(1, 2)
        given |= {name: given[name].swapaxes(1, 2) for name in "qkv"}
    check(out, lse, *scaled(given), **options)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("d, factor", [(128, 8), (128, 1), (64, 1)])
def test_peaks_that_grow_rescale_the_sums(d, factor):
    """Scores grow from the last key to the first, which comes last. At d 128, no maximum is computed in most
    blocks, and shares overflow with the larger factor.
    """
    given = arrays(1, (1, 1), 64, 400, (d, d))
    given["q"] = np.abs(given["q"].astype(float)).astype(E4M3)
    ramp = np.linspace(factor, -factor, 400)[:, None] * np.ones(d)
    given["k"] = ramp.astype(E4M3)[None, None]
    out, lse = weft.attention(**given, return_lse=True)
    check(out, lse, *scaled(given))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_with_masks_in_one_loop_or_apart(monkeypatch, apart, packed):
    """Their exponents are relative to their own maxima, those of others to earlier ones. Some queries see no
    key of the first two blocks, and with `packed` some see none at all.
    """
    choose, changed = tiles.forward_fp8, {"N": 64, "copied": 2, "optimistic": True, "apart": apart}
    monkeypatch.setattr(tiles, "forward_fp8", lambda *sizes, **how: choose(*sizes, **how) | changed)
    given = arrays(1, (1, 1), 200, 330, (128, 128))
    given["q"] = (2 * given["q"].astype(np.float32)).astype(E4M3)
    if not packed:
        check(*weft.attention(**given, causal=True, return_lse=True), *scaled(given), causal=True)
        return
    starts, ends = np.array([0, 90, 200], np.int32), np.array([0, 60, 330], np.int32)
    rows = {name: each[0].swapaxes(0, 1) if name in "qkv" else each for name, each in given.items()}
    out, lse = weft.attention(**rows, cu_seqlens_q=starts, cu_seqlens_k=ends, causal=True, return_lse=True)
    for (first, end), (first_key, end_key) in zip(pairwise(starts), pairwise(ends), strict=True):
        q, k, v = scaled(given)
        parts = q[:, :, first:end], k[:, :, first_key:end_key], v[:, :, first_key:end_key]
        check(out[None, first:end].swapaxes(1, 2), lse[None, :, first:end], *parts, causal=True)


def test_the_output_of_one_key_is_its_value():
    """Its share is exact in e4m3."""
    given = arrays(1, (1, 1), 3, 1, (128, 128))
    given |= {name: np.ones_like(given[name]) for name in SCALES}
    out = weft.attention(**given, return_lse=True)[0]
    assert np.array_equal(out[0, 0], given["v"][0, 0].repeat(3, 0).astype(BF16))


def test_scales_that_are_left_out_are_1():
    given = {name: each for name, each in arrays(1, (2, 1), 64, 70, (64, 64)).items() if name in "qkv"}
    ones = {f"{name}_scale": np.ones(given[name].shape[1], np.float32) for name in "qkv"}
    out = weft.attention(**given)
    assert np.array_equal(out, weft.attention(**given, **ones))
    half = np.zeros(out.shape, np.float16)
    assert weft.attention(**given, out=half) is half
    assert np.abs(half.astype(float) - out.astype(float)).max() <= 2**-8 * np.abs(half).max()


def test_what_is_behind_a_sequence_has_no_effect():
    """A share of 0 of a NaN would be a NaN."""
    given = arrays(2, (1, 1), 20, 300, (64, 64))
    lengths = np.array([200, 0], np.int32)
    for name in "kv":
        given[name][0, :, 200:] = given[name][1] = np.nan
    out, lse = weft.attention(**given, lengths=lengths, return_lse=True)
    q, k, v = scaled(given)
    check(out[0], lse[0], q[0], k[0, :, :200], v[0, :, :200])
    assert not out[1].any() and np.all(lse[1] == -np.inf)


def test_packed_sequences():
    queries, keys = [100, 0, 30], [64, 10, 200]
    rng, starts = (
        np.random.default_rng(0),
        [np.cumsum([0, *each]).astype(np.int32) for each in (queries, keys)],
    )
    q = rng.standard_normal((sum(queries) + 40, 2, 64)).astype(E4M3)
    k, v = rng.standard_normal((2, sum(keys), 1, 64)).astype(E4M3)
    scales = {"q_scale": rng.uniform(0.5, 2, (3, 2)).astype(np.float32)}
    out, lse = weft.attention(
        q, k, v, cu_seqlens_q=starts[0], cu_seqlens_k=starts[1], causal=True, return_lse=True, **scales
    )
    for number in (0, 2):
        mine, its = (slice(*each[number : number + 2]) for each in starts)
        parts = [each.swapaxes(0, 1).astype(float) for each in (q[mine], k[its], v[its])]
        parts[0] *= scales["q_scale"][number][:, None, None]
        check(out[mine].swapaxes(0, 1), lse[:, mine], *parts, causal=True)
    assert not out[130:].any() and (lse[:, 130:] == -np.inf).all()


def test_tiles_fit_into_shared_memory():
    for d in range(16, 257, 16):
        for e in range(16, 257, 16):
            for queries, window in ((1, False), (1024, False), (1024, True), (4096, False), (4096, True)):
                meta = tiles.forward_fp8(d, e, queries, causal=False, window=window)
                rows, wide, value = 64 * meta["groups"], meta["width"], meta["value_width"]
                blocks = meta["stages"] * wide + (meta["stages"] + meta["copied"]) * value
                needed = rows * wide * (2 if meta["ahead"] else 1) + meta["N"] * blocks
                assert needed + (2 * rows * value if meta["staged"] else 0) <= 226 * 1024
                assert meta["N"] * value % 2048 == 0
                assert meta["copied"] or (meta["N"] == 128 and value % 128 == 0)


@pytest.mark.parametrize(
    "d, queries, expected",
    [
        (128, 1024, {"N": 128, "ahead": True, "copied": 0, "stages": 3}),
        (128, 2048, {"N": 160, "ahead": False, "copied": 2}),
        (256, 1024, {"N": 96, "copied": 1, "staged": True}),
        (256, 2048, {"N": 128, "copied": 0, "staged": True}),
    ],
)
def test_chosen_tiles(d, queries, expected):
    assert expected.items() <= tiles.forward_fp8(d, d, queries, causal=False, window=False).items()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("copied, N", [(0, 128), (1, 96), pytest.param(2, 96, marks=pytest.mark.slow)])
@pytest.mark.parametrize("limited", [False, True])
def test_blocks_of_values_are_transposed(copied, N, limited):
    """In place, and with one or two blocks of copies."""
    given = arrays(1, (1, 1), 70, 300, (32, 128))
    keys, (q, k, v) = 200 if limited else 300, (given[name] for name in "qkv")
    if limited:
        k[:, :, keys:] = v[:, :, keys:] = np.nan
    out, lse, none = np.zeros((1, 1, 70, 128), BF16), np.zeros((1, 1, 70), np.float32), np.zeros(1, np.int32)
    chosen = tiles.forward_fp8(32, 128, 1024, causal=False, window=False) | {"stages": 2, "ahead": False}
    meta = chosen | {"N": N, "copied": copied, "limited": limited, "scaled": "qkv"}
    scales = (given[name][None] for name in SCALES)
    arguments = (q, k, v, none, none, none + keys, *scales, np.zeros(1, np.float32), out, lse)
    report = forward_fp8.emulate(*arguments, 32**-0.5, 0.0, 0, 0, **meta)
    assert not report.findings, report.findings[0]
    q, k, v = scaled(given)
    check(out, lse, q, k[:, :, :keys], v[:, :, :keys])


TYPES = ("e4m3",) * 3 + ("i32",) * 3 + ("f32",) * 4 + ("bf16", "f32", "f32", "f32", "i32", "i32")


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1024, 4096])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_products_are_not_serialized(d, queries, causal):
    """Where registers don't suffice, ptxas waits for each product before the next."""
    meta = tiles.forward_fp8(d, d, queries, causal=causal, window=False)
    kernel = forward_fp8.compile(*TYPES, D=d, E=d, rights=causal, paired=causal, arch="sm_90a", **meta)
    products, waits = kernel.sass.count("QGMMA"), kernel.sass.count("WARPGROUP.DEPBAR")
    assert waits <= 7 < products


@pytest.mark.slow
def test_products_of_256_columns_are_halved():
    """ptxas takes three times as long for an instruction of 256 columns as for one of 128. As in bf16, LLVM
    runs few passes.
    """
    meta = tiles.forward_fp8(256, 256, 4096, causal=False, window=False)
    kernel = forward_fp8.compile(*TYPES, D=256, E=256, arch="sm_90a", **meta)
    assert ".m64n256k" not in kernel.ptx
    assert kernel.ptx.count(".m64n128k32") == 3 * 256 // 32 + 2 * 2 * 128 // 32
    assert kernel.compiled._llvm_passes == codegen.FEW
    given = arrays(1, (1, 1), 70, 100, (256, 256))
    check(*weft.attention(**given, return_lse=True), *scaled(given))


@pytest.mark.slow
def test_exponentials_come_before_the_wait_for_the_sums():
    """What needs them is a vote, which ptxas doesn't move. It moved them when only their sum came before."""
    meta = tiles.forward_fp8(256, 256, 1024, causal=False, window=False)
    ptx = forward_fp8.compile(*TYPES, D=256, E=256, arch="sm_90a", **meta).ptx
    assert meta["optimistic"]
    (overlapping,) = re.findall(
        r"wait_group.sync.aligned \t1;.*?wait_group.sync.aligned \t0;", ptx, re.DOTALL
    )
    assert overlapping.count("ex2.approx") == meta["N"] // 2 and "vote.sync.any" in overlapping


MISTAKES = [
    ({"q_scale": np.ones(3, np.float32)}, r"q_scale must have shape \(4\) or \(2, 4\), .* got \(3,\)"),
    ({"v_scale": np.ones(2)}, "v_scale must have elements of f32, got f64: convert it"),
    ({"splits": 2}, r"splits must be 1 or None for elements of f8E4M3FN, got 2"),
    (
        {"out": np.zeros((2, 4, 70, 64), np.float32)},
        "out must have .* elements of bf16 or f16, got .* of f32",
    ),
    ({"q": np.zeros((2, 4, 70, 72), E4M3), "k": np.zeros((2, 2, 80, 72), E4M3)}, "a multiple of 16 columns"),
    (
        {name: np.zeros((2, 2, 80, 64), BF16) for name in "qkv"} | {"k_scale": np.ones(2, np.float32)},
        "k_scale must be None for elements of bf16: scales are for f8E4M3FN",
    ),
    (
        {"page_table": np.zeros((2, 2), np.int32), "lengths": np.ones(2, np.int32)},
        "page_table must be None for elements of f8E4M3FN: gather the pages first",
    ),
]


@pytest.mark.parametrize("changes, message", MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
def test_mistakes(changes, message):
    given = {"q": np.zeros((2, 4, 70, 64), E4M3), "k": np.zeros((2, 2, 80, 64), E4M3)}
    given |= {"v": np.zeros((2, 2, 80, 64), E4M3)} | changes
    with pytest.raises(weft.WeftError, match=f"weft.attention: .*{message}"):
        weft.attention(**given)


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    given = arrays(1, (2, 1), 70, 200, (64, 64))
    wanted = weft.attention(**given, causal=True).astype(np.float32)
    tensors = {name: torch.from_numpy(each.view(np.uint8)) for name, each in given.items() if name in "qkv"}
    tensors = {name: each.view(torch.float8_e4m3fn) for name, each in tensors.items()}
    tensors |= {name: torch.from_numpy(given[name]) for name in SCALES}

    def function(**given):
        return weft.attention(**given, causal=True)

    out = function(**tensors)
    assert out.dtype == torch.bfloat16 and np.array_equal(out.float().numpy(), wanted)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(function(**tensors), out)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(**tensors), out)
    sinks = torch.zeros(2, requires_grad=True)
    with pytest.raises(weft.WeftError, match="gradients must be of elements of f16 or bf16, got f8E4M3FN"):
        function(**tensors, sinks=sinks).float().sum().backward()


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    given = arrays(1, (2, 1), 70, 200, (64, 64))
    wanted = weft.attention(**given, causal=True)
    out = jax.jit(lambda given: weft.attention(**given, causal=True))(given)
    assert np.array_equal(np.asarray(out), wanted)
    given["q"] = jax.numpy.asarray(given["q"])[:, :, :0]
    assert weft.attention(**given).dtype == BF16
