"""What `weft.attention` is asked to compute: its options, and the shapes of its arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean

LAYOUTS = "bhtd", "bthd"
FP8 = "f8E4M3FN"
TYPES = "f16", "bf16", FP8
LARGEST_HEAD, HEAD_STEP, ROW_BYTES = 256, 8, 16
FP8_HEAD_STEP = 16
_PAGE_STEP = 16
_MOST = 2.0**126  # times log2(e), it is finite in f32


def refuse(message: str) -> WeftError:
    """The error of a call with a mistake."""
    return WeftError(f"weft.attention: {message}")


@dataclass(frozen=True)
class Options:
    """The options of a call that don't depend on its arrays. `left` and `right` are None for all keys."""

    left: int | None = None
    right: int | None = None
    scale: float | None = None
    softcap: float = 0.0
    layout: str = "bhtd"
    splits: int | None = None
    deterministic: bool = False

    @staticmethod
    def of(
        *,
        causal: object = False,
        scale: object = None,
        window: object = None,
        softcap: object = None,
        layout: object = "bhtd",
        splits: object = None,
        deterministic: object = False,
    ) -> "Options":
        """The options from the arguments of `weft.attention`. Raises WeftError for wrong ones."""
        if not isinstance(causal, bool):
            raise refuse(f"causal must be True or False, got {shown(causal)}")
        if not isinstance(deterministic, bool):
            raise refuse(f"deterministic must be True or False, got {shown(deterministic)}")
        if layout not in LAYOUTS:
            legal = " or ".join(map(repr, LAYOUTS))
            raise refuse(f"layout must be {legal}, got {shown(layout)}{did_you_mean(str(layout), LAYOUTS)}")
        if scale is not None and not (_is_number(scale) and 0 < scale <= _MOST):
            raise refuse(
                f"scale must be a positive number{_up_to(scale)}, or None for 1/sqrt(head size), got "
                f"{shown(scale)}"
            )
        if softcap is not None and not (_is_number(softcap) and 0 <= softcap <= _MOST):
            raise refuse(f"softcap must be a positive number{_up_to(softcap)}, or None, got {shown(softcap)}")
        if splits is not None and (not _is_integer(splits) or not 1 <= splits <= 256):
            raise refuse(f"splits must be in 1..256, or None for a choice by sizes, got {shown(splits)}")
        left, right = _window(window)
        if causal:
            right = 0 if right is None else min(right, 0)
        number = None if scale is None else float(scale)
        return Options(left, right, number, float(softcap or 0.0), layout, splits, deterministic)


OPTIONS = ("causal", "scale", "window", "softcap", "layout", "splits", "deterministic")
"""The arguments of `weft.attention` from which `Options.of` makes its options."""


def _up_to(value: object) -> str:
    return " up to 2**126" if _is_number(value) and _MOST < value < math.inf else ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _window(window: object) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    if _is_integer(window):
        raise refuse(
            f"window must be (left, right), the keys before and after a query's position, got {window}: "
            f"({max(window - 1, 0)}, 0) lets a query see {max(window, 1)} keys, its own position the last"
        )
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise refuse(f"window must be (left, right), or None, got {shown(window)}")
    for each in window:
        if each is not None and (not _is_integer(each) or each < -1 or each >= 2**30):
            raise refuse(f"left and right of window must be in 0..2**30 - 1, or None, got {shown(each)}")
    left, right = (None if each in (None, -1) else each for each in window)
    return left, right


@dataclass(frozen=True)
class Sizes:
    """The sizes of a call. Packed sequences are one batch of `queries` and `keys`."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    d: int
    e: int
    packed: bool
    page: int = 0

    @property
    def group(self) -> int:
        """The heads of queries that share a head of keys."""
        return self.heads // self.key_heads

    @property
    def decodes(self) -> bool:
        """Whether each sequence has one query."""
        return self.queries == 1 and not self.packed

    def result(self, layout: str) -> tuple[int, ...]:
        """The shape of the output."""
        if self.packed:
            return self.queries, self.heads, self.e
        if layout == "bthd":
            return self.batch, self.queries, self.heads, self.e
        return self.batch, self.heads, self.queries, self.e

    @property
    def sums(self) -> tuple[int, ...]:
        """The shape of the logarithms of sums."""
        of_heads = (self.heads, self.queries)
        return of_heads if self.packed else (self.batch, *of_heads)


def sizes_of(
    shapes: dict[str, Sequence[int]], types: dict[str, str], layout: str, *, packed: bool, paged: bool
) -> Sizes:
    """The sizes of q, k and v. Raises WeftError for those that don't fit."""
    for name in "qkv":
        if types[name] not in TYPES:
            raise refuse(f"{name} must have elements of f16, bf16 or {FP8} (e4m3), got {types[name]}")
        if types[name] != types["q"]:
            raise refuse(
                f"q, k and v must have one type, got {types['q']} and {types[name]} of {name}: convert {name}"
            )
        rank = 3 if packed and not (paged and name in "kv") else 4
        if len(shapes[name]) != rank:
            meant = "(tokens, heads, size) with cu_seqlens_q" if packed else _DIMENSIONS[layout]
            raise refuse(f"{name} must have {rank} dimensions, {meant}, got shape {tuple(shapes[name])}")
    by_name = {name: _named(shapes[name], layout, packed and not (paged and name != "q")) for name in "qkv"}
    (batch, heads, queries, d), (of_k, key_heads, keys, d_of_k) = by_name["q"], by_name["k"]
    of_v, value_heads, values, e = by_name["v"]
    if (of_k, key_heads, keys) != (of_v, value_heads, values):
        raise refuse(
            f"k and v must have equal batches, heads and tokens, got {shapes['k']} and {shapes['v']}"
        )
    if d != d_of_k:
        raise refuse(f"q and k must have heads of one size, got {d} and {d_of_k}")
    if not paged and batch != of_k:
        raise refuse(f"q and k must have one batch size, got {batch} and {of_k}: expand the smaller one")
    step = FP8_HEAD_STEP if types["q"] == FP8 else HEAD_STEP
    for name, size in (("q and k", d), ("v", e)):
        if size % step or not step <= size <= LARGEST_HEAD:
            wider = max(-(-size // step) * step, step)
            scale = ", and pass the scale" if name != "v" else ""  # its default follows from the size
            advice = f": add columns of zeros, up to {wider}{scale}" if wider <= LARGEST_HEAD else ""
            raise refuse(
                f"heads of {name} must have a multiple of {step} columns in {step}..{LARGEST_HEAD}, got "
                f"{size}{advice}"
            )
    if not key_heads or heads % key_heads:
        legal = [n for n in range(1, heads + 1) if heads % n == 0]
        nearest = min(legal, key=lambda n: (abs(n - key_heads), -n), default=1)
        raise refuse(
            f"heads of q must be a multiple of those of k, got {heads} and {key_heads}: the nearest "
            f"number of heads of k is {nearest}"
        )
    page = keys if paged else 0
    if paged and (not page or page % _PAGE_STEP):
        raise refuse(f"pages must have a multiple of {_PAGE_STEP} tokens, got {page}")
    return Sizes(batch, heads, key_heads, queries, keys, d, e, packed, page)


_DIMENSIONS = {
    "bhtd": "(batch, heads, tokens, size) in layout 'bhtd'",
    "bthd": "(batch, tokens, heads, size) in layout 'bthd'",
}


def _named(shape: Sequence[int], layout: str, packed: bool) -> tuple[int, int, int, int]:
    """Batch, heads, tokens and size."""
    if packed:
        return 1, shape[1], shape[0], shape[2]
    one, two = (2, 1) if layout == "bthd" else (1, 2)
    return shape[0], shape[one], shape[two], shape[3]
