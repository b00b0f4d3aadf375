"""Products of other compilers' kernels and of Weft's, of the same random matrices, in the emulator.

Both multiply the same K slices in the same order, by instructions that sum alike, so the bits are the same
before the last rounding. CuTe DSL's and Triton's kernels are those in test/emulator.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
import test_emulator_cute as cute
import test_emulator_triton as triton
from emulator_corpus import chips, facts

import weft
from weft import emulator

NAMES = {
    np.float16: "f16",
    np.float32: "f32",
    ml_dtypes.bfloat16: "bf16",
    ml_dtypes.float8_e4m3fn: "f8E4M3FN",
}
CUTE = (
    "dense.sm_100a",
    "dense.sm_120a",
    "dynamic.sm_100a",
    "dynamic_pair_fp8.sm_100a",
    "tutorial_0.sm_100a",
    "tutorial_1_pair.sm_100a",
    "tutorial_2_roles.sm_100a",
    "tutorial_3_persistent.sm_100a",
    "tutorial_5_multicast.sm_100a",
)
SCALES = {"f8E8M0FNU": "float8_e8m0fnu", "f8E4M3FN": "float8_e4m3fn"}
SCALED = {
    "mxf8.sm_100a": ("f8E4M3FN", "f8E8M0FNU"),
    "nvf4.sm_100a": ("f4E2M1FN", "f8E4M3FN"),
    "mxf4_pair.sm_100a": ("f4E2M1FN", "f8E8M0FNU"),
    "nvf4_pair.sm_100a": ("f4E2M1FN", "f8E4M3FN"),
}
TRITON = [
    (name, chip)
    for name in ("descriptor_matmul", "descriptor_matmul_ws", "persistent_matmul", "persistent_matmul_ws")
    for chip in chips(f"triton.{name}")
    if chip in ("sm_100", "sm_120")
]


def weft_product(a, b, d, chip):
    """A * B^T in a kernel of Weft for a chip, in an array like `d`."""
    types = [f"memref<{x.shape[0]}x{x.shape[1]}x{NAMES[x.dtype.type]}>" for x in (a, b, d)]
    arguments = ", ".join(f"%{n}: {kind}" for n, kind in zip("abd", types, strict=True))
    text = f"""func.func @product({arguments}) {{
      "tile.matmul"(%a, %b, %d) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    transpose_b = true}} : ({", ".join(types)}) -> ()
      return
    }}"""
    out = np.zeros_like(d)
    report = weft.compile(text, arch=chip).emulate(a, b, out)
    assert not report.findings, report.findings
    return out


def scaled_product(a, b, d, scales, kinds, chip):
    """As `weft_product`, with block scales in tiles of 512 bytes; elements and scales have these types."""
    element, scale = kinds
    codes = getattr(ml_dtypes, SCALES[scale])
    of_a, of_b = (
        each.view(codes).reshape(-(-len(x) // 128), -1) for each, x in zip(scales, (a, b), strict=True)
    )
    types = [
        *(f"memref<?x?x{name}>" for name in (element, element, NAMES[d.dtype.type])),
        *2 * [f"memref<?x?x{scale}>"],
    ]
    names = ("%a", "%b", "%d", "%of_a", "%of_b")
    arguments = ", ".join(map(": ".join, zip(names, types, strict=True)))
    text = f"""func.func @product({arguments}) {{
      "tile.matmul"({", ".join(names)}) {{
        operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}}
        : ({", ".join(types)}) -> ()
      return
    }}"""
    if element == "f4E2M1FN":
        # An array of ml_dtypes has a byte for each element.
        a, b = (
            np.stack([x & 15, x >> 4], -1).reshape(len(x), -1).view(ml_dtypes.float4_e2m1fn) for x in (a, b)
        )
    out = np.zeros_like(d)
    report = weft.compile(text, arch=chip).emulate(a, b, out, of_a, of_b)
    assert not report.findings, report.findings
    return out


def random(shape, kind):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


@pytest.mark.each_value(1)
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CUTE)
def test_products_of_cute(name):
    record = cute.record(name)
    arrays = [cute.filled(array) for array in record["arrays"]]
    for array in arrays[:2]:
        array[...] = random(array.shape, array.dtype)
    arguments = [cute.parameter(given, arrays) for given in record["parameters"]]
    sizes = {size: record[size] for size in ("grid", "block", "cluster", "shared_bytes")}
    emulator.Module(record["ptx"]).launch("k", args=arguments, **sizes)
    a, b, d = arrays
    np.testing.assert_array_equal(d, weft_product(a, b, d, name.partition(".")[2]))


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCALED)
def test_block_scaled_products_of_cute(name):
    record = cute.record(name)
    arrays = [cute.filled(array) for array in record["arrays"]]
    arguments = [cute.parameter(given, arrays) for given in record["parameters"]]
    sizes = {size: record[size] for size in ("grid", "block", "cluster", "shared_bytes")}
    emulator.Module(record["ptx"]).launch("k", args=arguments, **sizes)
    a, b, of_a, of_b, d = arrays
    wanted = scaled_product(a, b, d, (of_a, of_b), SCALED[name], name.partition(".")[2])
    np.testing.assert_array_equal(d, wanted)


@pytest.mark.each_value(1)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "chip"), TRITON)
def test_products_of_triton(name, chip):
    m, n, k = (128, 128, 128) if name.startswith("descriptor") else (256, 128, 128)
    a, b, d = random((m, k), np.float16), random((n, k), np.float16), np.zeros((m, n), np.float16)
    if name.startswith("descriptor"):
        metas = facts(f"triton.{name}", chip)["tensordesc_meta"]
        maps = [triton.descriptor(t, meta) for t, meta in zip((a, b, d), metas, strict=True)]
        triton.launch(name, chip, [*itertools.chain(*maps), k], (1, 2))
    else:
        triton.launch(name, chip, [a, b, d, m, n, k], 2)
    np.testing.assert_array_equal(d, weft_product(a, b, d, f"{chip}a"))
