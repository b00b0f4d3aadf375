"""Schedules of `wgmma` whose warpgroups compute tiles in turns."""

from typing import Any

from weft.dialects.product_types import Types
from weft.dialects.tile_limits import STAGE_BARRIER_BYTES
from weft.isa.tensor_map import BOX_ALIGNMENT


def barrier_bytes(stages: Any, turns: Any) -> Any:
    """Shared memory of the barriers of so many stages, and of turns. Of numbers, or of arrays of them."""
    before = stages * STAGE_BARRIER_BYTES
    return before + (turns > 0) * (-before % BOX_ALIGNMENT + turns * STAGE_BARRIER_BYTES)


def complaint(s: Any, types: Types) -> str | None:
    """Why warpgroups can't compute tiles in turns: the first rule that a schedule breaks."""
    for what, has in (
        ("warpgroups = 1", s.warpgroups == 1),
        ("splits", s.splits * s.global_splits > 1),
        ("stream_k", s.stream_k),
        ("loaders", s.loaders > 0),
        ("skewed", s.skewed),
        ("groups", types.grouped),
        ("promoted sums", types.promoted),
    ):
        if s.alternating and has:
            return f"alternating must be false with {what}"
    return None
