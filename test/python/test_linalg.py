"""Functions of linalg as kernels: what they compute in the emulator, and their mistakes."""

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.launch import libraries

EXPORTED = Path(__file__).parents[1] / "passes" / "Inputs" / "torch"
CHIP = "sm_80"


def _random(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> Any:
    return (np.random.default_rng(len(shape)).standard_normal(shape) / 4).astype(dtype)


def _wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def _gelu(z: Any) -> Any:
    return z * np.vectorize(math.erfc)(-z / math.sqrt(2)) / 2


@pytest.mark.slow
def test_several_products_run_one_after_the_other() -> None:
    program = weft.from_linalg(EXPORTED / "mlp.mlir", CHIP)
    x, w1, b1, w2, b2 = (_random(*sizes) for sizes in ((48, 32), (64, 32), (64,), (24, 64), (24,)))
    result = program(x, w1, b1, w2, b2, on="emulator")
    hidden = _gelu(_wide(x) @ _wide(w1).T + _wide(b1))
    assert [step.kernel.name for step in program.steps] == ["mlp_0", "mlp_1"]
    assert result.dtype == ml_dtypes.bfloat16
    assert np.allclose(_wide(result), hidden @ _wide(w2).T + _wide(b2), rtol=0.02, atol=0.01)


@pytest.mark.slow
def test_a_product_with_dynamic_sizes_allocates_its_result() -> None:
    program = weft.from_linalg(EXPORTED / "dynamic.mlir", CHIP)
    b = _random(32, 40)
    for rows in (3, 17):
        a = _random(rows, 32)
        result = program(a, b, on="emulator")
        assert result.shape == (rows, 40)
        assert np.allclose(_wide(result), np.maximum(_wide(a) @ _wide(b), 0), rtol=0.01, atol=0.01)


@pytest.mark.slow
def test_arguments_and_results_keep_their_shapes() -> None:
    program = weft.from_linalg(EXPORTED / "linear_3d.mlir", CHIP)
    x, w, bias = _random(3, 16, 32), _random(40, 32), _random(40)
    result = program(x, w, bias, on="emulator")
    z = _wide(x) @ _wide(w).T + _wide(bias)
    assert result.shape == (3, 16, 40)
    assert np.allclose(_wide(result), z / (1 + np.exp(-z)), rtol=0.01, atol=0.01)
    vector = weft.from_linalg(EXPORTED / "mv.mlir", CHIP)
    matrix, right = _random(48, 32), _random(32)
    assert np.allclose(
        _wide(vector(matrix, right, on="emulator")), _wide(matrix) @ _wide(right), rtol=0.01, atol=0.01
    )


TWO = """
func.func @two(%a: tensor<16x32xf16>, %b: tensor<32x16xf16>, %c: tensor<16x16xf32>)
    -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %p = linalg.matmul ins(%a, %b : tensor<16x32xf16>, tensor<32x16xf16>) outs(%f : tensor<16x16xf32>)
    -> tensor<16x16xf32>
  %q = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (k, m)>,
      affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : tensor<16x32xf16>, tensor<32x16xf16>) outs(%p : tensor<16x16xf32>) -> tensor<16x16xf32>
  %r = linalg.add ins(%p, %c : tensor<16x16xf32>, tensor<16x16xf32>) outs(%e : tensor<16x16xf32>)
    -> tensor<16x16xf32>
  return %q, %r : tensor<16x16xf32>, tensor<16x16xf32>
}"""


def test_products_that_are_added_and_several_results() -> None:
    a, b, c = _random(16, 32, dtype=np.float16), _random(32, 16, dtype=np.float16), _random(16, 16)
    c = c.astype(np.float32)
    added, second = weft.from_linalg(TWO, CHIP)(a, b, c, on="emulator")
    product = _wide(a) @ _wide(b)
    assert np.allclose(added, product + product.T, atol=1e-3)
    assert np.allclose(second, product + c, atol=1e-3)


MATRICES = """
func.func @f(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %x: memref<16x16xf32>, %y: memref<16x16xf32>,
             %d: memref<16x16xf32>) {{
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%d : memref<16x16xf32>)
  linalg.matmul ins(%a, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%d : memref<16x16xf32>)
  linalg.add ins(%d, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%d : memref<16x16xf32>)
  linalg.sub ins(%d, %y : memref<16x16xf32>, memref<16x16xf32>) outs(%d : memref<16x16xf32>)
  {}
  return
}}"""


@pytest.mark.slow
def test_two_matrices_are_c_and_residual_unless_an_activation_follows() -> None:
    kernel = weft.compile(MATRICES.format(""), CHIP)
    a, b = (_random(16, 16, dtype=np.float16) for _ in range(2))
    x, y = np.random.default_rng(1).standard_normal((2, 16, 16)).astype(np.float32)
    d = np.empty((16, 16), np.float32)
    assert not kernel.emulate(a, b, x, y, d).findings
    assert np.allclose(d, _wide(a) @ _wide(b) + x - y, atol=1e-3)
    relu = (
        "linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], "
        'iterator_types = ["parallel", "parallel"]} outs(%d : memref<16x16xf32>) {\n'
        "^bb0(%z: f32):\n %r = arith.maximumf %z, %zero : f32\n linalg.yield %r : f32 }"
    )
    with pytest.raises(WeftError, match="an epilogue has one bias, one C and one residual"):
        weft.compile(MATRICES.format(relu), CHIP)


OVERWRITTEN = """
func.func @f(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %d: memref<16x16xf16>, %e: memref<16x16xf16>) {
  %zero = arith.constant 0.0 : f16
  %p = memref.alloc() : memref<16x16xf16>
  linalg.fill ins(%zero : f16) outs(%p : memref<16x16xf16>)
  linalg.matmul ins(%d, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%p : memref<16x16xf16>)
  linalg.matmul ins(%a, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%d : memref<16x16xf16>)
  memref.copy %p, %e : memref<16x16xf16> to memref<16x16xf16>
  return
}"""


def test_one_kernel_cannot_read_an_argument_that_it_has_overwritten() -> None:
    with pytest.raises(WeftError, match="reads what an earlier product has written over"):
        weft.compile(OVERWRITTEN, CHIP)


@pytest.mark.slow
def test_products_read_arguments_before_they_are_overwritten() -> None:
    program = weft.from_linalg(OVERWRITTEN, CHIP)
    a, b, d, e = (_random(16, 16, dtype=np.float16) for _ in range(4))
    before = _wide(d)
    assert program(a, b, d, e, on="emulator") is None
    assert np.allclose(_wide(d), _wide(a) @ _wide(b) + before, atol=1e-2)
    assert np.allclose(_wide(e), before @ _wide(b), atol=1e-2)


CHAIN = """
func.func @chain(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %h: memref<16x16xf16>, %d: memref<16x16xf16>) {
  %zero = arith.constant 0.0 : f16
  linalg.fill ins(%zero : f16) outs(%h : memref<16x16xf16>)
  linalg.matmul ins(%a, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%h : memref<16x16xf16>)
  linalg.matmul ins(%h, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%d : memref<16x16xf16>)
  return
}"""


@pytest.mark.slow
def test_what_a_product_leaves_in_an_argument_is_what_the_next_one_reads() -> None:
    program = weft.from_linalg(CHAIN, CHIP)
    a, b, h, d = (_random(16, 16, dtype=np.float16) for _ in range(4))
    before = _wide(d)
    assert program(a, b, h, d, on="emulator") is None
    assert len(program.steps) == 2
    assert np.allclose(_wide(h), _wide(a) @ _wide(b), atol=1e-2)
    assert np.allclose(_wide(d), _wide(h) @ _wide(b) + before, atol=1e-2)


CONSTANT = """
func.func @f(%a: tensor<16x16xf16>) -> tensor<16x16xf32> {{
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<{}> : tensor<16x16x{}>
  %e = tensor.empty() : tensor<16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %d = linalg.matmul ins(%a, %w : tensor<16x16xf16>, tensor<16x16x{}>) outs(%f : tensor<16x16xf32>)
    -> tensor<16x16xf32>
  return %d : tensor<16x16xf32>
}}"""


def test_constant_weights_are_buffers_of_the_callable() -> None:
    w = np.arange(256).reshape(16, 16) / 64 - 2
    a = _random(16, 16, dtype=np.float16)
    program = weft.from_linalg(CONSTANT.format(w.tolist(), "f16", "f16"), CHIP)
    assert np.allclose(program(a, on="emulator"), _wide(a) @ w, atol=1e-3)
    with pytest.raises(WeftError, match="f has 1 argument; got 2"):
        program(a, a)


def test_constants_move_to_the_device_of_tensors_once() -> None:
    torch = pytest.importorskip("torch")
    w = np.arange(256).reshape(16, 16) / 64 - 2
    text = CONSTANT.format(w.tolist(), "bf16", "bf16").replace("xf16>", "xbf16>")
    a = torch.randn(16, 16, dtype=torch.bfloat16)
    program = weft.from_linalg(text, CHIP)
    rounded = torch.from_numpy(w).bfloat16().double()
    for _ in range(2):
        assert torch.allclose(program(a, on="emulator").double(), a.double() @ rounded, atol=1e-3)


def test_tensors_of_a_gpu_select_pytorchs_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    streams = []
    program = weft.from_linalg(EXPORTED / "mlp.mlir", CHIP)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    stream_of = type("Stream", (str,), {"device": torch.device("cpu")})
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream_of(f"stream of {device}"))
    monkeypatch.setattr(libraries, "keep_until", lambda stream, used: None)
    monkeypatch.setattr(
        type(program.steps[0].kernel), "__call__", lambda *_, stream, on: streams.append(stream)
    )
    x, *weights = (torch.zeros(sizes) for sizes in ((48, 32), (64, 32), (64,), (24, 64), (24,)))
    program(x, *weights)
    program(x, *weights, stream=7)
    program(x, *weights, on="emulator")
    assert streams == ["stream of cpu"] * 2 + [7] * 2 + [None] * 2


def test_mistakes_name_what_is_legal() -> None:
    with pytest.raises(WeftError, match="function must name a function of linalg: the module has two"):
        weft.from_linalg(TWO, CHIP, "tow")
    with pytest.raises(WeftError, match=r"module must be \.mlir text, a Path or an MLIR module; got 3"):
        weft.from_linalg(3)
    program = weft.from_linalg(EXPORTED / "matmul.mlir", CHIP)
    with pytest.raises(WeftError, match="matmul has 2 arguments; got 1"):
        program(_random(48, 32))
    with pytest.raises(WeftError, match="argument 1 must be an array; got 3"):
        program(_random(48, 32), 3)
    with pytest.raises(WeftError, match="argument 0 must have the elements of 48x32; got 5"):
        program(_random(5), _random(32, 40))


def test_modules_of_pytorch_run_as_kernels() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 24)
    model = torch.nn.Sequential(*layers).to(torch.bfloat16)
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16)
    program = weft.from_torch(model, x, arch=CHIP)
    for _ in range(2):
        assert torch.allclose(program(x, on="emulator"), model(x), rtol=0.02, atol=0.02)
        with torch.no_grad():
            model[2].bias.add_(1)  # parameters are read at each call
    with pytest.raises(WeftError, match=r"module must be a torch.nn.Module; got 3"):
        weft.from_torch(3, x)
    with pytest.raises(WeftError, match="example must be tensors; got int"):
        weft.from_torch(model, 3)


def test_an_attention_without_softmax_is_two_batches() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")

    class Attention(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return (q @ k.transpose(-1, -2) * 0.125) @ v

    q, k, v = (torch.randn(2, 16, 32, dtype=torch.float16) for _ in range(3))
    program = weft.from_torch(Attention(), q, k, v, arch=CHIP)
    assert len(program.program.steps) == 2
    assert torch.allclose(program(q, k, v, on="emulator"), Attention()(q, k, v), rtol=0.01, atol=0.01)


def test_no_way_is_named_for_what_no_kernel_computes() -> None:
    loop = """
func.func @f(%a: memref<16x16xf16>, %d: memref<16x16xf32>, %n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    linalg.matmul ins(%a, %a : memref<16x16xf16>, memref<16x16xf16>) outs(%d : memref<16x16xf32>)
  }
  return
}"""
    with pytest.raises(WeftError, match="isn't part of a product") as caught:
        weft.compile(loop, CHIP)
    assert not caught.value.diagnostics[0].notes


@pytest.mark.parametrize(
    ("module", "function", "said"),
    [
        (TWO, 3, "function must be the name of a function, got 3"),
        (TWO, "other", "function must name a function of linalg: the module has"),
        ("func.func @f() { return }", None, "must have a function with operations of linalg, got none"),
        ("two.mlir", None, r"module must be .mlir text or a Path, got a file name: pass Path\('two.mlir'\)"),
        (None, None, "module must be .mlir text, a Path or an MLIR module; got None"),
    ],
)
def test_arguments_of_from_linalg(module: Any, function: Any, said: str) -> None:
    with pytest.raises(WeftError, match=said):
        weft.from_linalg(module, CHIP, function)
