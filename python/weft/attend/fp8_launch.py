"""Attention for q, k and v of e4m3, each with a scale for each head."""

from collections.abc import Mapping
from typing import Any

from weft.attend.problem import FP8, Sizes, refuse
from weft.launch.arrays import ArrayView

SCALES = {"q_scale": "heads", "k_scale": "key_heads", "v_scale": "key_heads"}
"""The arrays of scales, each with the heads that it is for."""
RESULTS = "bf16", "f16"
"""The types that the output may have, the default first."""


def check(views: Mapping[str, ArrayView], sizes: Sizes, sequences: int, splits: int | None) -> None:
    """Raises WeftError for scales that don't fit, and for what e4m3 is not computed with."""
    given = [name for name in SCALES if name in views]
    if views["q"].dtype != FP8:
        if given:
            raise refuse(
                f"{given[0]} must be None for elements of {views['q'].dtype}: scales are for {FP8} (e4m3)"
            )
        return
    if sizes.page:
        raise refuse(f"page_table must be None for elements of {FP8}: gather the pages first")
    if splits not in (None, 1):
        raise refuse(f"splits must be 1 or None for elements of {FP8}, got {splits}")
    for name in given:
        heads, view = getattr(sizes, SCALES[name]), views[name]
        if view.dtype != "f32":
            raise refuse(f"{name} must have elements of f32, got {view.dtype}: convert it")
        if view.shape not in ((heads,), (sequences, heads)):
            raise refuse(
                f"{name} must have shape ({heads}) or ({sequences}, {heads}), a scale for each head, got "
                f"{tuple(view.shape)}"
            )
        if view.strides[-1] != 1 and heads > 1:
            raise refuse(f"{name} must be contiguous, got strides {view.strides}: pass a contiguous copy")


def refuse_gradients(call: Any) -> None:
    """Raises WeftError for a call with e4m3."""
    if call.is_fp8:
        raise refuse(f"gradients must be of elements of f16 or bf16, got {FP8}: multiply by the scales first")
