"""Marks for tests that need a GPU, or one of some chips."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from weft.dialects.schedule import TensorMemorySchedule, TmaMmaSchedule, Types, needed_chips
from weft.isa.conversion import FP8_ROUNDING
from weft.launch import runtime

# JAX would take three quarters of the GPU's memory, which tests of other processes need.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
_reason = runtime.available()
CHIP = "" if _reason is not None else runtime.current().chip
"""The chip of the GPU at hand, empty without one."""
_BF16 = Types("bf16", "bf16", "bf16")
_MXFP8 = Types("f8E4M3FN", "f8E4M3FN", "f32", scale="f8E8M0FNU")


def _needs(what: str, chips: frozenset[str]) -> pytest.MarkDecorator:
    reason = f"{what} needs one of {', '.join(sorted(chips))}, got {CHIP}"
    return pytest.mark.skipif(_reason is None and CHIP not in chips, reason=reason)


WGMMA = _needs("wgmma", frozenset({"sm_90a"}))
GPU = [pytest.mark.gpu, pytest.mark.skipif(_reason is not None, reason=str(_reason))]
SM_90A = [*GPU, WGMMA]
TENSOR_MEMORY = [*GPU, _needs("tensor memory", TensorMemorySchedule.chips(_BF16))]
TMA_MMA = [*GPU, _needs("mma.sync with TMA", TmaMmaSchedule.chips(_BF16) | {"sm_90a"})]
FP8 = [*GPU, _needs("rounding to fp8", FP8_ROUNDING)]
BLACKWELL = [
    *GPU,
    _needs("a block-scaled product", needed_chips(_MXFP8)),
]


def with_marks(marks: Sequence[pytest.MarkDecorator]) -> Callable[[Any], Any]:
    """Decorates one test with several marks."""

    def marked(test: Any) -> Any:
        for mark in marks:
            test = mark(test)
        return test

    return marked
