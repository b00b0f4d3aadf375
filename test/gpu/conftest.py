"""Settings of the tests that need a GPU."""

import contextlib

import pytest


@pytest.fixture(autouse=True)
def _tf32():
    """Weft multiplies f32 of PyTorch's tensors as tf32, which PyTorch doesn't allow by default."""
    with contextlib.suppress(ImportError):
        import torch

        torch.set_float32_matmul_precision("high")
