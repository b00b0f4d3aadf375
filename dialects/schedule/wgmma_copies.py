"""Why a kernel of `wgmma` can't bring A and B into shared memory as its schedule specifies."""

from typing import Any

from weft.dialects.product_types import Types, ceil_div
from weft.isa.tensor_map import ROW_BYTES

_MOST_LOADERS = 3


def complaint(s: Any, types: Types) -> str | None:
    """The first rule about copies that a schedule of `wgmma` breaks."""
    return _loader_complaint(s, types) or _skew_complaint(s, types) or _joined_complaint(s, types)


def _loader_complaint(s: Any, types: Types) -> str | None:
    """Why threads can't load A and B."""
    if s.loaders == 0:
        return "loaders must be at least 1 with copies_a, got 0" if s.copies_a else None
    if s.loaders > _MOST_LOADERS:
        return f"loaders must be in 0..{_MOST_LOADERS}, got {s.loaders}"
    for what, has in (
        ("promoted sums", types.promoted),
        ("groups", types.grouped),
        ("stream_k", s.stream_k),
        ("a cluster that shares copies", s.cluster != (1, 1)),
    ):
        if has:
            return f"loaders must be 0 with {what}, got {s.loaders}"
    if s.stages < 2 * s.loaders or s.stages % s.loaders:
        least = max(ceil_div(s.stages, s.loaders), 2) * s.loaders
        return f"stages must be a multiple of loaders {s.loaders}, at least {least}, got {s.stages}"
    return None


def _skew_complaint(s: Any, types: Types) -> str | None:
    """Why TMA can't copy matrices that begin at any element."""
    for what, has in (
        ("loaders", s.loaders > 0),
        ("stream_k", s.stream_k),
        ("groups", types.grouped),
        (f"elements of {types.a}", types.input_bits != 16),
        ("MN-major operands", any(types.transposed)),
    ):
        if s.skewed and has:
            return f"skewed must be false with {what}"
    return None


def _joined_complaint(s: Any, types: Types) -> str | None:
    """Why TMA can't copy several rows of A at a time."""
    columns = 8 * ROW_BYTES // types.input_bits
    for what, has in (
        ("a K-major A", not types.transposed[0]),
        (f"elements of {types.a}", types.input_bits != 16),
        ("loaders", s.loaders > 0),
        ("groups", types.grouped),
        (f"tiles of more than {columns} rows of A", not s.swap or s.block[1] != columns),
    ):
        if s.joined and has:
            return f"joined must be false with {what}"
    return None
