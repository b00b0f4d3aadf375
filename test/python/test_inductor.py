"""Weft as a choice of Inductor."""

import pytest

torch = pytest.importorskip("torch")

import weft.inductor  # noqa: E402
from weft.launch import runtime  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"


@pytest.fixture
def enabled():
    weft.inductor.enable()
    yield
    weft.inductor.disable()
    torch._dynamo.reset()


def test_it_is_enabled_once():
    before = list(torch._inductor.config.external_matmul)
    weft.inductor.enable()
    weft.inductor.enable()
    assert torch._inductor.config.external_matmul == [*before, weft.inductor.choices.weft_mm]
    weft.inductor.disable()
    assert torch._inductor.config.external_matmul == before


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_inductor_measures_it(enabled, dtype, monkeypatch):
    calls = []
    real = weft.inductor.choices.matmul

    def counted(a, b, *, out):
        calls.append(a.dtype)
        return real(a, b, out=out)

    monkeypatch.setattr(weft.inductor.choices, "matmul", counted)
    torch._dynamo.reset()
    a, b = (torch.randn(64, 64, device=DEVICE, dtype=dtype) for _ in range(2))
    found = torch.compile(lambda a, b: (a @ b.t()).relu(), mode="max-autotune-no-cudagraphs")(a, b)
    wanted = (a.double() @ b.double().t()).relu()
    assert (found.double() - wanted).abs().max() <= 1e-2 * wanted.abs().max()
    assert bool(calls) == (dtype == torch.bfloat16)  # PyTorch multiplies f32 exactly by default
