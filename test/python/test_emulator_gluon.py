"""Kernels that Gluon compiled from test/emulator/gluon without a GPU, against NumPy, in odd sizes."""

import json

import numpy as np
import pytest
from other_compilers import made, python_with

from weft import emulator

pytestmark = pytest.mark.slow
TILES = {"wgmma_matmul": 64, "wgmma_roles": 64, "tcgen05_matmul": 128, "tcgen05_roles": 128}


def launch(name, chip, args, grid, **options):
    """Runs a kernel with the two scratch pointers that Triton adds; the sanitizer must find nothing."""
    file = made("compile_gluon.py", name, f"{name}.{chip}.ptx", python_with("triton"))
    facts = json.loads(file.with_suffix(".json").read_text())
    report = emulator.Module(file.read_text()).launch(
        facts["name"],
        grid=grid,
        block=32 * facts["warps"],
        args=[*args, np.zeros(256, np.uint8), 0],
        shared_bytes=facts["shared"],
        **options,
    )
    assert not report.findings, report.findings
    return report


def descriptor(array, rows, columns):
    """The map, shape and strides of an argument that is a descriptor of tiles with a swizzle of 128 bytes."""
    made_map = emulator.TensorMap.tiled(
        array,
        dtype="FLOAT16",
        dims=array.shape[::-1],
        strides_bytes=(array.strides[0],),
        box=(min(columns, 64), rows),
        swizzle="128B",
    )
    return [made_map, *array.shape, array.shape[1], 1]


@pytest.mark.parametrize("chip", ["sm_90", "sm_100", "sm_120"])
def test_softmax(chip):
    x = np.random.default_rng(1).standard_normal((37, 777)).astype(np.float32)
    y = np.zeros_like(x)
    launch("softmax", chip, [x, y, 777], 37)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("chip", ["sm_90", "sm_100", "sm_120"])
def test_transpose(chip):
    x = np.random.default_rng(2).standard_normal((101, 77)).astype(np.float16)
    y = np.zeros((77, 101), np.float16)
    launch("transpose", chip, [x, y, 101, 77], (4, 3))
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", TILES)
def test_products(name, seed):
    m, n, k = 328, 264, 424
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c, tile = np.zeros((m, n), np.float16), TILES[name]
    args = [*descriptor(a, tile, 64), *descriptor(b, 128, 64), *descriptor(c, tile, 128), k]
    chip = "sm_100" if "tcgen05" in name else "sm_90"
    launch(name, chip, args, (-(-m // tile), -(-n // 128)), seed=seed)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, want, rtol=2e-3, atol=k * 2.0**-21)


@pytest.mark.parametrize("seed", [None, 1])
def test_programs_do_the_work_of_those_that_they_cancel(seed):
    x = np.arange(300 * 128 - 5, dtype=np.int32)
    report = launch("cancelled", "sm_100", [x, x.size], 300, seed=seed)
    np.testing.assert_array_equal(x, np.arange(1, x.size + 1))
    assert report.counters["mbarrier.init"] < 300
