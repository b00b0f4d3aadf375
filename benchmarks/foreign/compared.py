"""Compares a function of a library with one of PyTorch, and their gradients."""

from collections.abc import Callable

import harness
import torch

Value = torch.Tensor | object


def random(
    *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, seed: int = 0
) -> torch.Tensor:
    """Normal numbers, the same in every run."""
    generator = torch.Generator().manual_seed(len(shape) + sum(shape) + seed)
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def _run(function: Callable[..., object], inputs: tuple[Value, ...], backward: bool) -> list[torch.Tensor]:
    """The results, and the gradients of their sum weighted with fixed numbers."""
    inputs = tuple(
        value.clone().requires_grad_(backward and value.is_floating_point())
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    )
    made = function(*inputs)
    results = [r for r in (made if isinstance(made, tuple | list) else [made]) if isinstance(r, torch.Tensor)]
    rooted = [r for r in results if r.requires_grad]
    kept = [r.detach().clone() for r in results]  # backward of some libraries overwrites them
    if backward and rooted:
        torch.autograd.backward(rooted, [random(*r.shape, dtype=r.dtype, seed=1) for r in rooted])
        kept += [v.grad for v in inputs if isinstance(v, torch.Tensor) and v.grad is not None]
    return kept


def both(
    theirs: Callable[..., object],
    expected: Callable[..., object],
    *inputs: Value,
    tolerance: float = 1e-4,
    backward: bool = True,
) -> Callable[[], harness.Results]:
    """A case in which `theirs` must compute what `expected` does, with the same gradients."""

    def case() -> harness.Results:
        got, want = _run(theirs, inputs, backward), _run(expected, inputs, backward)
        if len(got) != len(want):
            raise ValueError(f"{len(got)} results and gradients instead of {len(want)}")
        for one, other in zip(got, want, strict=True):
            yield one, other.to(one.dtype), tolerance

    return case
