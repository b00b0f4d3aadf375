"""`weft.from_torch`: what modules may return, take and contain, and what is refused by name."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import WeftError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir.fx")

from weft.launch import torch_export  # noqa: E402
from weft.launch.torch_export import Exported, Input  # noqa: E402
from weft.launch.torch_program import TorchProgram  # noqa: E402

CHIP = "sm_80"

pytestmark = pytest.mark.filterwarnings("error::FutureWarning", "ignore::DeprecationWarning")


class Of(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _refused(module: Any, *example: Any) -> WeftError:
    with pytest.raises(WeftError) as caught:
        weft.from_torch(module, *example, arch=CHIP)
    return caught.value


def test_results_have_the_structure_of_the_modules() -> None:
    x = torch.randn(8, 8, dtype=torch.float16)
    exported = torch_export.exported(Of(lambda x: {"y": x @ x, "n": 3, "more": (None, x)}), (x,))
    assert exported.whole([1, 2]) == {"y": 1, "n": 3, "more": (None, 2)}
    assert "must return a tensor" in str(_refused(Of(lambda x: 3), x))


def test_converted_layers_are_compiled() -> None:
    import weft.nn

    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 24), weft.nn.Linear(24, 8, activation="gelu")
    model = weft.nn.convert(torch.nn.Sequential(*layers).to(torch.bfloat16))
    x = torch.randn(4, 16, dtype=torch.bfloat16)
    text = torch_export.exported(model, (x,)).text
    assert text.count("linalg.matmul") + text.count("linalg.batch_matmul") == 2
    message = str(_refused(weft.nn.Linear(16, 16, dtype=torch.bfloat16, fp8="tensorwise"), x))
    assert message.startswith("from_torch compiles only weft.matmul of Weft's operators")
    assert message.endswith("calls weft.quantize, weft.scaled_matmul: use torch.compile for it")


@pytest.mark.slow
def test_compiled_modules_compute_what_pytorch_does() -> None:
    import weft.nn

    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 24), weft.nn.Linear(24, 8, activation="gelu")
    model = weft.nn.convert(torch.nn.Sequential(*layers).to(torch.bfloat16))
    x = torch.randn(4, 16, dtype=torch.bfloat16)
    both = Of(lambda x: {"y": model(x), "x": x})
    for rows, shapes in ((4, None), (7, ({0: torch.export.Dim.DYNAMIC},))):
        program = weft.from_torch(both, x, arch=CHIP, dynamic_shapes=shapes)
        assert len(program.program.steps) == 2  # the bias and the activation are part of the products
        given = torch.randn(rows, 16, dtype=torch.bfloat16)
        result = program(given, on="emulator")
        assert torch.equal(result["x"], given)
        assert torch.allclose(result["y"], model(given), rtol=0.02, atol=0.02)


def test_every_operand_of_a_product_is_decomposed() -> None:
    from weft.torch.decomposing import DECOMPOSITIONS

    decomposed = DECOMPOSITIONS[torch.ops.weft.matmul.default]
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 6), torch.randn(2, 6, 8)
    bias, residual, c, alphas = (
        torch.randn(8),
        torch.randn(2, 4, 8),
        torch.randn(2, 4, 8),
        torch.tensor([2.0, 3]),
    )
    options = {"alpha": 0.5, "beta": 0.25, "activation": "relu"}
    z = 0.5 * alphas[:, None, None] * (a @ b) + 0.25 * c + bias
    found = decomposed(a, b, bias, residual, c, alphas, **options)
    assert torch.allclose(found, residual + z.relu(), atol=1e-5)
    assert torch.allclose(decomposed(a, b, alphas=torch.tensor([3.0])), 3 * (a @ b), atol=1e-5)
    wide = decomposed(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
    assert torch.allclose(wide, a.bfloat16().float() @ b.bfloat16().float(), atol=1e-5)
    with pytest.raises(WeftError, match="without promote and bit_op"):
        decomposed(a, b, promote=True, bit_op="xor.popc")


def test_inputs_are_those_of_the_example() -> None:
    def run(*args: Any, **_: Any) -> Any:
        return args[-1]

    exported = Exported([], "", (Input(torch.float16, (None, 4)),), lambda results: results[0])
    program = TorchProgram(run, torch.nn.ReLU(), exported)  # type: ignore[arg-type]
    for rows in (2, 3):
        assert program(torch.ones(rows, 4, dtype=torch.float16)).shape == (rows, 4)
    with pytest.raises(
        WeftError, match=r"input 0 must be \?x4 of torch.float16, .* got 2x5 of torch.float16; dyn"
    ):
        program(torch.ones(2, 5, dtype=torch.float16))
    with pytest.raises(WeftError, match=r"got 2x4 of torch.float32$"):
        program(torch.ones(2, 4))
    with pytest.raises(WeftError, match=r"takes 1 input, as in the example; got 2"):
        program(1, 2)
    for wrong, got in ((1, "1"), (np.ones((2, 4), np.float16), "ndarray")):
        with pytest.raises(WeftError, match=f"input 0 must be a tensor of PyTorch; got {got}"):
            program(wrong)


def test_sizes_may_be_dynamic() -> None:
    x = torch.randn(4, 16)
    rows = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch_export.exported(torch.nn.Linear(16, 8), (x,), rows)
    assert exported.inputs == (Input(torch.float32, (None, 16)),)
    assert "tensor<?x16xf32>" in exported.text
    for wrong in (rows * 2, {0: 1}):
        with pytest.raises(WeftError, match="must be a tuple with an element for each of the 1 inputs"):
            torch_export.exported(torch.nn.Linear(16, 8), (x,), wrong)


def test_what_cannot_be_compiled_is_named_with_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(4, 8)
    svd = str(_refused(Of(lambda x: torch.linalg.svd(x)[1]), x))
    assert "it doesn't lower the operator aten._linalg_svd" in svd
    assert "test_torch_modules.py:" in svd
    ordered = str(_refused(Of(lambda x: torch.sort(x)[0]), x))
    assert "no kernel computes 'tm_tensor.sort' op" in ordered
    assert "test_torch_modules.py:" in ordered
    assert not capfd.readouterr().err  # torch-mlir prints nothing beside the message
    branch = str(_refused(Of(lambda x: x * 2 if x.sum() > 0 else x), x))
    assert branch.startswith("torch.export can't export the module: Could not guard on data-dependent")
    assert "test_torch_modules.py:" in branch


def test_modules_that_write_are_refused() -> None:
    """Results of writes would take the places of the module's own."""
    x = torch.randn(4, 8)
    message = str(_refused(torch.nn.Sequential(torch.nn.BatchNorm1d(8)), x))
    assert "it writes to 0.running_mean" in message
    assert "in training mode: call module.eval()" in message
    written = str(_refused(Of(lambda x: x.add_(1) @ x.mT), x))
    assert "it writes to input 0" in written
    assert "training" not in written


def test_dropout_in_training_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = SimpleNamespace(diagnostics=(), text="")
    monkeypatch.setattr(torch_export, "exported", lambda *_: refused)
    with pytest.raises(WeftError, match=r"call module\.eval\(\)"):
        weft.from_torch(torch.nn.Dropout(), torch.randn(4, 8))
