"""Products of what TMA copies: elements of 4 and 6 bits, expanded to bytes, and swizzles of 32 bytes."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import emulator

DTYPES = {
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f32": np.float32,
}
BITS = {"f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6, "f8E4M3FN": 8, "f32": 32}
# Of rows of 128 elements: with 16 elements of 4 bits in 16 bytes, with an element of 6 bits in each byte, or
# plain.
GAPS, OCTETS = "S[({0},8,16):(256,32,1)]", "S[({0},128):(128,1)]"
K_MAJOR = {"f4E2M1FN": GAPS, "f6E2M3FN": OCTETS, "f6E3M2FN": OCTETS, "f8E4M3FN": OCTETS}
PRODUCT = (Path(__file__).parent / "data" / "copied_product.mlir").read_text()


def product(a, b, k=128, transposed=False, layouts=None, more_bytes=0):
    """A * B^T, A 128 x `k` or transposed, and B 64 x `k`, as NumPy and a kernel compute it; the findings."""
    layout_a, layout_b = layouts or (K_MAJOR[each] + " xor 128B" for each in (a, b))
    shape_a, shape_b = (k, 128) if transposed else (128, k), (64, k)
    bytes_ = (128 * BITS[a] + 64 * BITS[b]) * k // 8 + more_bytes
    words = {
        "ELEMENT_A": a,
        "ELEMENT_B": b,
        "SHAPE_A": f"{shape_a[0]}, {shape_a[1]}",
        "SHAPE_B": f"{shape_b[0]}, {shape_b[1]}",
        "LAYOUT_A": layout_a.format(shape_a[0]),
        "LAYOUT_B": layout_b.format(shape_b[0]),
        "BYTES": str(bytes_),
        "TRANSPOSED": str(transposed).lower(),
    }
    kernel = weft.compile(re.sub("[A-Z]+_?[AB]?", lambda word: words.get(word[0], word[0]), PRODUCT))
    chance = np.random.default_rng(0)
    left, right = (
        chance.integers(-2, 3, shape).astype(np.float32).astype(DTYPES[element])
        for shape, element in ((shape_a, a), (shape_b, b))
    )
    d = np.full((128, 64), np.nan, np.float32)
    findings = kernel.emulate(left, right, d).findings
    left, right = left.astype(np.float32), right.astype(np.float32)
    return (left.T if transposed else left) @ right.T, d, findings


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("a", "b"), [("f4E2M1FN", "f6E3M2FN"), ("f6E2M3FN", "f8E4M3FN"), ("f8E4M3FN", "f4E2M1FN")]
)
def test_copied_elements_of_4_and_6_bits_are_multiplied(a, b):
    wanted, d, findings = product(a, b)
    assert not findings
    np.testing.assert_array_equal(d, wanted)


def test_elements_of_32_bits_contiguous_along_m_are_multiplied():
    layouts = "S[({0},4,32):(32,1024,1)] xor 128B_32B", "S[({0},32):(32,1)] xor 128B"
    wanted, d, findings = product("f32", "f32", k=32, transposed=True, layouts=layouts)
    assert not findings
    np.testing.assert_array_equal(d, wanted)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("more_bytes", [128 * 64, -32])
def test_bytes_other_than_the_packed_ones_are_caught(more_bytes):
    """With too many the stage never becomes full; with too few it isn't full when it is read."""
    with pytest.raises((emulator.Deadlock, emulator.Fault)) as caught:
        product("f4E2M1FN", "f8E4M3FN", more_bytes=more_bytes)
    assert {finding.rule for finding in caught.value.findings} & {"deadlock", "mbarrier-count"}
