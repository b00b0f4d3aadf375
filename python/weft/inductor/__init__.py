"""Weft in programs of `torch.compile`: as a choice of autotuning, and with epilogues by pattern.

Importing this package imports Inductor.
"""

from weft.errors import missing_package

try:
    import torch  # noqa: F401
except ModuleNotFoundError as failure:
    raise missing_package(failure, "weft.inductor", "torch", "gpu") from None

from torch._inductor import config

from weft.inductor.choices import weft_mm
from weft.inductor.patterns import Fusions

__all__ = ["disable", "enable"]


def enable(*, patterns: bool = True) -> None:
    """Lets Inductor choose Weft for matrix products, and fuses what follows products with them.

    With `mode="max-autotune"`, Inductor measures Weft's kernel and its own for each `mm` of bf16 and f16, and
    of f32 if `torch.set_float32_matmul_precision` allows tf32.

    With `patterns`, in all modes, operations that follow a product of two matrices become a part of Weft's
    kernel: the sum with a bias, relu, gelu (both kinds), silu, the sum with a residual, and casts to f32, f16
    and bf16. The values between them aren't rounded, and no other operation may read them. This applies to
    products of `weft.matmul`, and to `mm` and `addmm` on a GPU, which Weft then computes without measuring.

    Programs that are already compiled stay as they are.
    """
    if weft_mm not in config.external_matmul:
        config.external_matmul = [*config.external_matmul, weft_mm]
    _set_patterns(patterns)


def disable() -> None:
    """Undoes `enable`. Programs that are already compiled stay as they are."""
    config.external_matmul = [each for each in config.external_matmul if each is not weft_mm]
    _set_patterns(False)


def _set_patterns(wanted: bool) -> None:
    """Adds the fusions to the passes of the configuration, or removes them."""
    now = config.post_grad_custom_pre_pass
    if wanted and not isinstance(now, Fusions):
        config.post_grad_custom_pre_pass = Fusions(now)
    elif not wanted and isinstance(now, Fusions):
        config.post_grad_custom_pre_pass = now.before
