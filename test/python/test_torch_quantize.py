"""`weft.quantize` in PyTorch: tensors, torch.compile, fake tensors and opcheck. In the emulator without a
GPU.
"""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
import weft.torch  # noqa: E402
from weft import WeftError  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
SCALES = ("tensor", "row", "column", "group", "block")


def numbers(*shape):
    rng = np.random.default_rng(shape)
    return torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, torch.bfloat16)


def same(found, want):
    for x, y in zip(found, want, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert x.dtype == y.dtype and x.shape == y.shape and torch.equal(x.float(), y.float())
            assert all(s == t for s, t, n in zip(x.stride(), y.stride(), x.shape, strict=True) if n > 1)


@pytest.mark.parametrize("scales", SCALES)
def test_fakes_have_the_shapes_and_strides_of_results(scales):
    for transpose, (values, transposed) in itertools.product((False, True), ((1, 1), (1, 0), (0, 1))):
        x = numbers(70, 133)
        x = x.t() if transpose else x
        options = {"scales": scales, "values": bool(values), "transposed": bool(transposed)}
        tests = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.weft.quantize.default, (x, "f8E5M2"), options, test_utils=tests)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("scales", SCALES)
def test_compiled_functions_cast_alike(scales, dynamic):
    def function(x):
        found = weft.quantize(x + 1, scales=scales, transposed=True)
        return tuple(found), found.values.float() * 2

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for shape in ((20, 48), (33, 130)):
        with torch.no_grad():
            x = numbers(*shape)
            (found, double), (want, of_want) = compiled(x), function(x)
        same(found, want)
        assert torch.equal(double, of_want)


def test_modes_and_autocast():
    x = numbers(20, 24)
    want = weft.quantize(x, transposed=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        same(weft.quantize(x, transposed=True), want)
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = weft.quantize(mode.from_tensor(x), transposed=True)
    assert fake.values.shape == (20, 24) and fake.values.stride() == (32, 1)
    assert fake.transposed.shape == (24, 20) and fake.scales.shape == (1,)


def test_tensors_that_require_gradients():
    x = numbers(4, 8).requires_grad_()
    with pytest.raises(WeftError, match=r"x must not require gradients.*pass x\.detach\(\)"):
        weft.quantize(x)
    same(weft.quantize(x.detach()), torch.no_grad()(weft.quantize)(x))
