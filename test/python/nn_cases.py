"""Layers of `weft.nn` beside those of PyTorch in f64. On a GPU if there is one, else in the emulator."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

from weft.launch import runtime  # noqa: E402
from weft.torch.autograd import activated  # noqa: E402

DEVICE = "cpu" if runtime.available() is not None else "cuda"
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
# Results and gradients are rounded up to three times; the largest of them is the scale.
TOLERANCES = {BF16: 2e-2, F16: 3e-3, F32: 1e-5}
# Elements of e5m2 are wrong by up to 1/8, and by 7 % in quadratic mean; those of e4m3 by half as much. Where
# z is nearly 0, relu may go the other way.
FP8 = {None: 0.1, "relu": 0.2}


def numbers(*shape, dtype=BF16, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy(rng.standard_normal(shape)).to(DEVICE, dtype)


def close(found, wanted, dtype=None):
    scale = wanted.double().abs().max().item() or 1.0
    error = (found.double() - wanted.double()).abs().max().item()
    assert error <= TOLERANCES[dtype or found.dtype] * scale


def compare(layer, reference, x, **autocast):
    """Compares a layer and its gradients with a copy in f64."""
    weights = numbers(*reference(x.double()).shape, dtype=F64, seed=9)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    dtype = autocast.get("dtype", x.dtype)
    with torch.autocast(DEVICE, enabled=bool(autocast), **autocast):
        found = layer(ours)
    assert found.dtype == dtype
    (found * weights.to(found.dtype)).sum().backward()
    wanted = reference(theirs)
    (wanted * weights).sum().backward()
    close(found, wanted, dtype)
    close(ours.grad, theirs.grad, dtype)
    for x, y in zip(layer.parameters(), reference.parameters(), strict=True):
        close(x.grad, y.grad, dtype)
        x.grad = y.grad = None


class Reference(torch.nn.Module):
    """A linear layer and its activation, in f64."""

    def __init__(self, layer):
        super().__init__()
        self.linear = torch.nn.Linear(
            layer.in_features, layer.out_features, layer.bias is not None, DEVICE, F64
        )
        self.linear.load_state_dict({name: each.double() for name, each in layer.state_dict().items()})
        self.activation = layer.activation

    def forward(self, x):
        return activated(self.activation, self.linear(x))
