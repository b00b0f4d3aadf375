"""Modules that torch-mlir exports from PyTorch, with what no product takes."""

import contextlib
import math
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.launch import torch_export
from weft.launch.torch_program import TorchProgram

EXPORTED = Path(__file__).parents[1] / "passes" / "Inputs" / "torch"
CHIP = "sm_80"

pytestmark = pytest.mark.filterwarnings(
    "error::UserWarning", "error::FutureWarning", "ignore::DeprecationWarning"
)


def _random(*shape: int, dtype: Any = ml_dtypes.bfloat16, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(dtype)


def _wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def _softmax(z: Any) -> Any:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _products(program: Any) -> list[int]:
    """The numbers of the kernels that are products."""
    plain = {remark.message.split("plain kernel ")[1].split(":")[0] for remark in program.remarks}
    return [i for i, step in enumerate(program.steps) if step.kernel.name not in plain]


@pytest.mark.slow
def test_attention_of_two_heads_with_a_mask() -> None:
    program = weft.from_linalg(EXPORTED / "attention.mlir", CHIP)
    qkv, bias, out, last, x = (
        _random(*sizes, seed=i) for i, sizes in enumerate([(96, 32), (96,), (32, 32), (32,), (2, 8, 32)])
    )
    mask = np.triu(np.ones((8, 8), np.bool_), 1)
    result = program(qkv, bias, out, last, x, mask, on="emulator")
    joined = _wide(x) @ _wide(qkv).T + _wide(bias)
    q, k, v = (each.reshape(2, 8, 2, 16).transpose(0, 2, 1, 3) for each in np.split(joined, 3, -1))
    weights = _softmax(np.where(mask, -np.inf, q @ k.transpose(0, 1, 3, 2) / 4))
    expected = (weights @ v).transpose(0, 2, 1, 3).reshape(2, 8, 32) @ _wide(out).T + _wide(last)
    assert np.allclose(_wide(result), expected, rtol=0.02, atol=0.04)
    assert _products(program) == [0, 3, 9, 11]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_normalizations_between_products(name: str) -> None:
    program = weft.from_linalg(EXPORTED / f"{name}.mlir", CHIP)
    w, b, scale, shift = _random(64, 32), _random(64), 1 + _random(64, seed=1), _random(64, seed=2)
    w2, b2, x = _random(24, 64, seed=3), _random(24), _random(2, 8, 32, seed=4)
    z = _wide(x) @ _wide(w).T + _wide(b)
    if name == "layer_norm":
        given = w, b, scale, shift, w2, b2, x
        z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
        z = z * _wide(scale) + _wide(shift)
    else:
        given = w, b, scale, w2, b2, x
        z = z / np.sqrt((z**2).mean(-1, keepdims=True) + 1e-5) * _wide(scale)
    result = program(*given, on="emulator")
    assert np.allclose(_wide(result), z @ _wide(w2).T + _wide(b2), rtol=0.02, atol=0.06)
    assert _products(program) == [0, len(program.steps) - 1]


@pytest.mark.slow
def test_scores_of_any_number_of_rows() -> None:
    program = weft.from_linalg(EXPORTED / "scores.mlir", CHIP)
    for batch, rows in ((2, 5), (1, 9)):
        q, k, v = (_random(batch, rows, 16, dtype=np.float16, seed=i) for i in range(3))
        result = program(q, k, v, on="emulator")
        expected = _softmax(_wide(q) @ _wide(k).transpose(0, 2, 1) / 4) @ _wide(v)
        assert result.shape == (batch, rows, 16)
        assert np.allclose(_wide(result), expected, atol=4e-3)


def test_weights_in_resources_are_buffers_of_the_callable() -> None:
    text = (EXPORTED / "weights.mlir").read_text("utf-8")
    x = _random(3, 8)
    z = _wide(x) @ (np.arange(32).reshape(4, 8) / 16 - 1).T + np.arange(4) / 4
    expected = np.vectorize(lambda value: 1 / (1 + math.exp(-value)))(z)
    assert np.allclose(_wide(weft.from_linalg(text, CHIP)(x, on="emulator")), expected, atol=8e-3)
    for cut in (text.partition("{-#")[0], text.replace("803E003F403F", "803E003F")):
        with pytest.raises(WeftError, match=r"bytes in its resource; tensor<.*xbf16> takes") as caught:
            weft.from_linalg(cut, CHIP)
        assert caught.value.diagnostics[0].location is not None


def test_live_modules_compute_what_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    torch.manual_seed(0)
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16)
    norm = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 24))
    table = torch.nn.Sequential(torch.nn.Embedding(50, 32), torch.nn.Linear(32, 16), torch.nn.Softmax(-1))
    for model, given in ((norm, x), (table, torch.randint(0, 50, (2, 8)))):
        model = model.to(torch.bfloat16)
        program = weft.from_torch(model, given, arch=CHIP)
        assert torch.allclose(program(given, on="emulator"), model(given), rtol=0.02, atol=0.02)


def test_activations_of_pytorch_are_part_of_the_product() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    torch.manual_seed(0)
    for activation in (torch.nn.GELU("tanh"), torch.nn.SiLU()):
        model = torch.nn.Sequential(torch.nn.Linear(32, 16), activation)
        assert len(weft.from_torch(model, torch.randn(8, 32), arch=CHIP).program.steps) == 1


def test_gelu_has_pytorchs_constants() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    x = torch.linspace(-4, 4, 1001)
    model = torch.nn.GELU("tanh")
    assert torch.allclose(weft.from_torch(model, x, arch=CHIP)(x, on="emulator"), model(x), atol=1e-6)


@pytest.mark.slow
def test_an_encoder_layer_and_a_convolution_compute_what_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0).eval()
    convolution = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 10),
    )
    images = torch.randn(2, 3, 8, 8)
    for model, given in ((encoder, torch.randn(2, 8, 32)), (convolution, images)):
        model, given = model.to(torch.bfloat16), given.to(torch.bfloat16)
        program = weft.from_torch(model, given, arch=CHIP)
        assert torch.allclose(program(given, on="emulator"), model(given), rtol=0.03, atol=0.03)


def test_threads_export_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch keeps the module that it exports in a global."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    both, together = threading.Barrier(2), []

    def lowered(*_: Any) -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
            together.append(True)
        return ""

    monkeypatch.setattr(torch_export, "_lowered", lowered)
    model = torch.nn.Linear(4, 4)
    threads = [
        threading.Thread(target=torch_export.exported, args=(model, (torch.ones(2, 4),))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together


def test_parameters_are_read_while_no_other_thread_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export gives the module other parameters, for as long as it traces it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    traced, exporting, read = torch_export._traced, [], []

    class Read(torch.nn.Linear):  # type: ignore[misc,name-defined,unused-ignore]
        def named_parameters(self, *args: Any, **options: Any) -> Any:
            read.append(exporting in ([], [threading.get_ident()]))
            return super().named_parameters(*args, **options)

    def slowly(*given: Any) -> Any:
        exporting.append(threading.get_ident())
        time.sleep(0.1)
        program = traced(*given)
        exporting.remove(threading.get_ident())
        return program

    monkeypatch.setattr(torch_export, "_traced", slowly)
    monkeypatch.setattr(torch_export, "_lowered", lambda *_: "")
    given = Read(4, 4), (torch.ones(2, 4),)
    threads = [threading.Thread(target=torch_export.exported, args=given) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) >= 2 and all(read)


def test_calls_wait_while_another_thread_exports_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir.fx")
    model, given = torch.nn.Linear(4, 4), (torch.ones(2, 4),)
    monkeypatch.setattr(torch_export, "_lowered", lambda *_: "")
    program = TorchProgram(None, model, torch_export.exported(model, given))  # type: ignore[arg-type]
    seen, forward = [], model.forward

    def called() -> None:
        seen.extend(program._weights())

    def forward_while_called(x: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=called))
            threads[0].start()
            threads[0].join(0.1)
        return forward(x)

    threads: list[threading.Thread] = []
    model.forward = forward_while_called
    torch_export.exported(model, given)
    threads[0].join()
    assert [each.data_ptr() for each in seen] == [each.data_ptr() for each in model.parameters()]
