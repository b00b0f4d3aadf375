"""Kernels that TileLang and nvcc compiled from test/emulator/tilelang without a GPU, against NumPy."""

import json

import ml_dtypes
import numpy as np
import pytest
from other_compilers import DRIVER_TYPES, made, nvcc, python_with

from weft import emulator
from weft.isa import tensor_map as isa

pytestmark = pytest.mark.slow
CHIPS = ["sm_80", "sm_90a", "sm_120a"]


def tensor_map(given, arrays):
    """The map that TileLang's host code asks the driver for."""
    options = given["options"]
    return emulator.TensorMap.tiled(
        arrays[given["tensor"]],
        dtype=DRIVER_TYPES[given["kind"]],
        dims=tuple(given["dims"]),
        strides_bytes=tuple(given["strides"][1:]),
        box=tuple(given["box"]),
        element_strides=tuple(given["steps"]),
        interleave=isa.INTERLEAVES[options["interleave"]],
        swizzle=isa.SWIZZLE_NAMES[options["swizzle"]],
        l2_promotion=isa.L2_PROMOTIONS[options["l2"]],
        oob_fill=isa.OOB_FILLS[options["fill"]],
    )


def launch(name, chip, **arrays):
    """Runs a kernel. The sanitizer may only find that no proxy fence follows reads of what TMA overwrites."""
    file = made("compile_tilelang.py", name, f"{name}.{chip}.ptx", python_with("tilelang"), nvcc())
    facts = json.loads(file.with_suffix(".json").read_text())
    numbers, rank = facts["numbers"], len(facts["numbers"]) - 4
    report = emulator.Module(file.read_text()).launch(
        "main_kernel",
        grid=tuple(numbers[:rank]),
        block=tuple(numbers[rank : rank + 3]),
        args=[tensor_map(a, arrays) if isinstance(a, dict) else arrays[a] for a in facts["arguments"]],
        shared_bytes=numbers[-1],
    )
    assert {found.rule for found in report.findings} <= {"missing-proxy-fence"}, report.findings


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("name", "kind", "result"),
    [("matmul", np.float16, np.float16), ("matmul_bf16", ml_dtypes.bfloat16, np.float32)],
)
def test_products(name, kind, result, chip):
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(-1, 1, shape).astype(kind) for shape in ((328, 200), (200, 264)))
    c = np.zeros((328, 264), result)
    launch(name, chip, a=a, b=b, c=c)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=float(np.finfo(result).eps), atol=200 * 2.0**-21)


@pytest.mark.parametrize("chip", CHIPS)
def test_products_of_integers(chip):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((320, 192), (192, 256)))
    c = np.zeros((320, 256), np.int32)
    launch("matmul_int8", chip, a=a, b=b, c=c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("chip", CHIPS)
def test_softmax(chip):
    x = np.random.default_rng(6).standard_normal((37, 768)).astype(np.float32)
    y = np.zeros_like(x)
    launch("softmax", chip, x=x, y=y)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("chip", CHIPS)
def test_attention(chip):
    q, k, v = np.random.default_rng(7).standard_normal((3, 3, 320, 64)).astype(np.float16)
    o = np.zeros_like(q)
    launch("attention", chip, q=q, k=k, v=v, o=o)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    want = p / p.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(o, want, rtol=4e-3, atol=1e-3)
