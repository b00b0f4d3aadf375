"""Arrays with block scales in `weft.matmul`: every library's types, packed and not, and what is refused."""

import ctypes
import re

import ml_dtypes
import numpy as np
import pytest
from test_arrays import capsule

import weft
from weft import reference
from weft.dialects.schedule import Types
from weft.errors import WeftError
from weft.launch import arrays
from weft.multiply.operands import Operands
from weft.multiply.product import Product

M, N, K = 130, 40, 256


def quantized(kind, rows, batch=(), **options):
    values = np.random.default_rng(rows).standard_normal((*batch, rows, K))
    return reference.quantize(values, kind, **options)


def operands(a, b, scales, kind=None, *, transpose_b=True):
    added = {} if scales is None else dict(zip(("scale_a", "scale_b"), scales, strict=True))
    return Operands.of(a, b, None, added, Product(tuple(added), transpose_b=transpose_b, kind=kind))


def refused(*args, **options):
    with pytest.raises(WeftError) as caught:
        operands(*args, **options)
    return str(caught.value)


KINDS = {
    "nvfp4": ("f4E2M1FN", "f8E4M3FN", {}),
    "mxfp4": ("f4E2M1FN", "f8E8M0FNU", {}),
    "mxfp6_e2m3": ("f6E2M3FN", "f8E8M0FNU", {"element": "e2m3"}),
    "mxfp6_e3m2": ("f6E3M2FN", "f8E8M0FNU", {"element": "e3m2"}),
    "mxfp8_e4m3": ("f8E4M3FN", "f8E8M0FNU", {"element": "e4m3"}),
    "mxfp8_e5m2": ("f8E5M2", "f8E8M0FNU", {"element": "e5m2"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_elements_and_bytes_are_seen_alike(kind):
    element, scale, options = KINDS[kind]
    name = kind.partition("_")[0]
    a, b = (quantized(name, rows, **options) for rows in (M, N))
    packed = [each.packed.view(np.uint8) for each in (a, b)]
    tiles = [each.tiled_scales for each in (a, b)]
    plain = [tile.view(np.uint8).reshape(-1) for tile in tiles]  # as PyTorch has them
    for found in (
        operands(a.elements, b.elements, tiles),
        operands(a.elements, b.elements, plain, name),
        operands(*packed, tiles, kind),
        operands(*packed, plain, (kind, kind)),
    ):
        assert found.types == Types(element, element, "bf16", scale=scale)
        assert found.result.dtype == ml_dtypes.bfloat16 and found.result.shape == (M, N)
        views = dict(zip(found.names, found.views, strict=True))
        assert views["a"].shape == (M, K) and views["b"].shape == (N, K)
        assert views["a"].packed == (element in arrays.PACKED_BITS)
        assert np.array_equal(views["a"].numpy().view(np.uint8), packed[0])
        for role, each, tile in zip(("scale_a", "scale_b"), (a, b), tiles, strict=True):
            assert (views[role].shape, views[role].dtype) == (tile.shape, scale)
            assert np.array_equal(
                reference.plain_scales(views[role].numpy(), *each.scales.shape), each.scales
            )


def test_two_formats_at_once():
    a, b = quantized("mxfp8", M), quantized("mxfp4", N)
    scales = a.tiled_scales, b.tiled_scales
    wanted = Types("f8E4M3FN", "f4E2M1FN", "bf16", scale="f8E8M0FNU")
    assert operands(a.elements, b.elements, scales).types == wanted
    assert operands(a.elements, b.packed, scales, ("mxfp8", "mxfp4")).types == wanted


def exported(pairs):
    """Pairs of e2m1 as PyTorch exports them by DLPack."""
    shape, strides = ((ctypes.c_int64 * 2)(*numbers) for numbers in (pairs.shape, pairs.strides))
    fields = {"shape": shape, "strides": strides, "data": pairs.ctypes.data, "device_type": 1}
    return capsule(b"dltensor_versioned", code=17, bits=4, lanes=2, **fields)


def test_pairs_of_dlpack_are_read_in_place():
    a, b = quantized("nvfp4", M), quantized("nvfp4", N)
    scales, pairs = [each.tiled_scales for each in (a, b)], [each.packed.view(np.uint8) for each in (a, b)]
    for b_pairs, transpose_b in ((pairs[1], True), (pairs[1].T, False)):
        given = exported(pairs[0]), exported(b_pairs)
        found = operands(*given, scales, "nvfp4", transpose_b=transpose_b)
        view_a, view_b, *_ = found.views
        assert (view_a.address, view_b.address) == tuple(each.ctypes.data for each in pairs)
        assert (view_a.shape, view_b.shape, found.transposed) == ((M, K), (N, K), (False, True))
        assert found.types == Types("f4E2M1FN", "f4E2M1FN", "bf16", scale="f8E4M3FN")


def test_pytorchs_tensors_are_read_in_place():
    torch = pytest.importorskip("torch")
    a, b = quantized("nvfp4", M), quantized("nvfp4", N)
    pairs = [torch.from_numpy(each.packed).view(torch.float4_e2m1fn_x2) for each in (a, b)]
    scales = [torch.from_numpy(each.tiled_scales.view(np.uint8)).view(torch.float8_e4m3fn) for each in (a, b)]
    for given, transpose_b in ((pairs, True), ((pairs[0], pairs[1].t()), False)):
        found = operands(*given, [s.flatten() for s in scales], "nvfp4", transpose_b=transpose_b)
        view_a, view_b, *_ = found.views
        assert (view_a.address, view_b.address) == (pairs[0].data_ptr(), pairs[1].data_ptr())
        assert (view_a.shape, view_b.shape, found.transposed) == ((M, K), (N, K), (False, True))
        assert found.result.dtype == torch.bfloat16
    powers = [torch.ones(512 * 2 * rows, dtype=torch.uint8).view(torch.float8_e8m0fnu) for rows in (2, 1)]
    assert operands(*pairs, powers).types.scale == "f8E8M0FNU"


def test_batches_have_scales_of_their_own_or_share_them():
    a, b = quantized("mxfp8", M, (3,)), quantized("mxfp8", N)
    found = operands(a.elements, b.elements, (a.tiled_scales, b.tiled_scales), "mxfp8")
    shapes = {name: view.shape for name, view in zip(found.names, found.views, strict=True)}
    assert shapes["out"] == (3, M, N) and shapes["scale_a"] == (3, 2, 1024) and shapes["scale_b"] == (1, 1024)
    shared = operands(a.elements, b.elements, (a.tiled_scales[0], b.tiled_scales), "mxfp8")
    assert shared.views[3].shape == (2, 1024)


FOUR, EIGHT = quantized("nvfp4", 64), quantized("mxfp8", 64)
SIX = quantized("mxfp6", 64)
TILES = FOUR.tiled_scales, FOUR.tiled_scales
POWERS = EIGHT.tiled_scales, EIGHT.tiled_scales


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: refused(FOUR.elements, FOUR.elements, TILES, "fp4"),
            "kind must be one of mxfp8, mxfp8_e4m3",
        ),
        (
            lambda: refused(FOUR.elements, FOUR.elements, TILES, 4),
            "must be a name, or a pair of them for a and",
        ),
        (
            lambda: refused(EIGHT.elements, FOUR.packed, TILES, ("mxfp8", "nvfp4")),
            "kind must have one type of scales for a and b, or none, got mxfp8 and nvfp4",
        ),
        (
            lambda: refused(FOUR.elements, FOUR.elements, None, "nvfp4"),
            "scales must be given with kind nvfp4",
        ),
        (lambda: refused(FOUR.packed, FOUR.packed, TILES), "kind must be given with scales and a of uint8"),
        (
            lambda: refused(EIGHT.elements, EIGHT.elements, [s.view(np.uint8) for s in POWERS]),
            "kind must be given with scale_a of uint8",
        ),
        (
            lambda: refused(EIGHT.elements, EIGHT.elements, TILES, "nvfp4"),
            "a must have elements of float4_e2m1fn or uint8 with kind nvfp4, got f8E4M3FN",
        ),
        (
            lambda: refused(FOUR.elements, FOUR.elements, TILES, "mxfp4"),
            "scale_a must have elements of float8_e8m0fnu or uint8 with kind mxfp4, got f8E4M3FN",
        ),
        (
            lambda: refused(SIX.packed, SIX.packed, POWERS, "mxfp6"),
            "kind must be mxfp6_e2m3 or mxfp6_e3m2 for a of uint8, got mxfp6",
        ),
        (
            lambda: refused(FOUR.elements, FOUR.elements, (FOUR.scales, FOUR.scales), "nvfp4"),
            "scale_a must have the 2048 scales of 1 x 2048 in the 128x4 layout, got 64 x 16",
        ),
        (
            lambda: refused(EIGHT.elements, EIGHT.elements, [np.repeat(s, 2, 1)[:, ::2] for s in POWERS]),
            r"scale_a must be contiguous, got strides \(2048, 2\)",
        ),
        (
            lambda: refused(SIX.elements[:, :192], SIX.elements[:, :192], POWERS),
            "K must be a multiple of 128 for a and b of f6E2M3FN and f6E2M3FN, got 192",
        ),
        (
            lambda: refused(FOUR.elements[:, :33], FOUR.elements[:, :33], TILES),
            "a: rows of packed elements of 4 bits must have a multiple of 2, got 33",
        ),
        (
            lambda: refused(SIX.packed[:, :-1], SIX.packed[:, :-1], POWERS, "mxfp6_e2m3"),
            "a: rows of packed f6E2M3FN must have a multiple of 3 bytes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, said):
    found = call()
    assert found.startswith("weft.matmul: ")
    assert re.search(said, found), found


def test_a_byte_for_each_element_is_refused_on_a_gpu():
    on_gpu = [
        arrays.ArrayView(1 << 40, (64, K), (K, 1), "f4E2M1FN", "cuda", 0, False, None) for _ in range(2)
    ]
    assert "a must have packed elements of f4E2M1FN on a GPU" in refused(*on_gpu, TILES, "nvfp4")


def test_a_chip_without_such_products_is_named():
    with pytest.raises(WeftError, match=r"got one of wgmma"):
        schedule = "{block = array<i64: 64, 64, 128>, warpgroups = 1, stages = 2}"
        weft.matmul(EIGHT.elements, EIGHT.elements, transpose_b=True, scales=POWERS, schedule=schedule)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 8), (0, 5, 8)], ids=str)
def test_scales_of_no_rows_have_no_tiles(shape):
    tiled = weft.tiled_scales(np.ones(shape, ml_dtypes.float8_e8m0fnu), 256)
    *batch, rows, _ = shape
    assert tiled.shape == (*batch, -(-rows // 128), 1024)
