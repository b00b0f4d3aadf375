"""The tiles of attention's kernels, by the size of heads."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

Meta: TypeAlias = dict[str, Any]
"""Meta-parameters of a kernel, by their names."""
WARPGROUP_ROWS = 64  # of queries
_SHARED_BYTES = 227 * 1024
_HALF_BYTES = 114 * 1024  # of a multiprocessor
_SHORT, _LONG = 1024, 4096  # sequences
_NEAR_BYTES = 8 << 20
_FP8_STEP = 32  # columns of a product's step, and bytes of the narrowest swizzle


def best(d: int, queries: int, causal: bool) -> Meta:
    """The meta-parameters that were fastest on an H100 for heads of this size and this many queries."""
    if d <= 64:
        short = queries <= _SHORT
        return {"groups": 2 if causal and short else 3, "stages": 3 if causal or short else 2}
    return {"N": 80, "ahead": False} if d > 128 else {}


def width(d: int) -> int:
    """The columns of a head in shared memory: a whole number of swizzled rows."""
    return 16 if d <= 16 else -(-d // 32) * 32


def forward(
    d: int,
    e: int,
    queries: int,
    *,
    causal: bool,
    window: bool,
    capped: bool = False,
    splits: int = 1,
    page: int = 0,
) -> Meta:
    """The meta-parameters of the forward kernel for heads of `d` columns, with values of `e`."""
    wide, value = width(d), width(e)
    largest = max(wide, value)
    chosen: Meta
    if splits > 1 or queries <= WARPGROUP_ROWS:
        chosen = {"groups": 1, "N": 64, "ahead": False}
        if largest <= 64:
            chosen |= {"stages": 3} if splits > 1 else {"N": 128}
    elif largest <= 64:
        chosen = best(64, queries, causal) | {"N": 128}
    elif largest <= 128:
        chosen = {"N": 128}
    elif largest <= 192:
        chosen = {"N": 96 if window or value > 128 else 112, "ahead": False}
    else:
        chosen = {"N": 64 if window or queries <= _SHORT else 80, "ahead": False}
    chosen = {"groups": 2, "ahead": True, "stages": 2} | chosen
    if page:
        chosen["N"] = next(n for n in (chosen["N"], 64, 32, 16) if page % n == 0)
    while _bytes(wide, value, **chosen) > _SHARED_BYTES:
        if not chosen["ahead"]:
            chosen["N"] -= 16
        chosen["ahead"] = False
    return chosen | {"width": wide, "value_width": value, "apart": _apart(largest, capped)}


MOST_TOGETHER = 32
"""The heads that share keys, up to which the decode kernel is faster than the forward kernel."""


def decode(d: int, e: int, heads: int, *, page: int = 0, ahead: bool = False) -> Meta:
    """The meta-parameters of the decode kernel for heads of `d` columns, with values of `e`, of which this
    number share keys. `ahead` is whether the first blocks of each part of the keys may be prefetched.
    """
    wide, value = width(d), -(-e // 64) * 64
    n = 128 if wide + value <= 128 else 64
    pieces = n // math.gcd(n, page) if page else 1
    chosen = {"M": -(-heads // 8) * 8, "N": n, "stages": 3, "pieces": pieces}
    if ahead and max(wide, value) <= 128:
        # A multiprocessor holds one CTA: the next launch then prefetches where CTAs have ended, not before.
        chosen |= {"stages": _HALF_BYTES // (2 * n * (wide + value)) + 1, "ahead": 2}
    return chosen | {"width": wide, "value_width": value}


def causal_order(meta: Meta, queries: int, keys: int) -> dict[str, bool]:
    """The meta-parameters for the order of tiles of causal attention: by length where that was faster, for
    many tiles and heads of which several fit in L2, otherwise in pairs.
    """
    bytes_ = 2 * keys * (meta["width"] + meta["value_width"])
    long = _LONG if meta["width"] <= 64 else 4 * _LONG
    by_length = queries >= long and bytes_ <= _NEAR_BYTES
    return {"by_length": by_length, "paired": not by_length}


def forward_fp8(d: int, e: int, queries: int, *, causal: bool, window: bool, capped: bool = False) -> Meta:
    """The meta-parameters of the forward kernel of e4m3 for heads of `d` columns, with values of `e`.
    `window` is whether a query doesn't see all keys before it.
    """
    wide, value = (-(-size // _FP8_STEP) * _FP8_STEP for size in (d, e))
    largest, groups, short = max(wide, value), 2, queries <= _SHORT
    optimistic = largest > 64 and not window and not (causal and largest > 128)
    if largest <= 64:
        groups, n = (3, 128) if queries > 2 * WARPGROUP_ROWS else (2, 160)
    elif largest <= 128:
        n = 128 if window or short else 160
    else:
        n = 96 if short and not window else 128
    # A warpgroup transposes 16 columns of 32 keys with each of its warps.
    while n * value % (4 * 32 * 16):
        n += 32
    # Short sequences gain from two tiles of queries, or where these are too wide, from memory for the output.
    # Blocks of fewer keys leave registers to copies.
    small = short and largest > 64 and n == (128 if largest <= 128 else 96)
    many = small or (64 < largest <= 128 and n == 160)
    chosen: Meta = {
        "N": n,
        "groups": groups,
        "optimistic": optimistic,
        "stages": 2,
        "copier": 56 if many else 24,
    }
    chosen |= {"ahead": small and largest <= 128, "width": wide, "value_width": value}
    chosen["apart"] = _apart(largest, capped) or (short and optimistic and largest <= 128)
    # Whole panels of 128 keys and columns can be transposed in place.
    if n == 128 and value % 128 == 0 and (small or largest > 128):
        return chosen | {"copied": 0, "staged": True, "stages": 3 if small else 2}
    choices = ({"copied": 2, "staged": True}, {"copied": 1, "staged": True}, {"copied": 2, "staged": False})
    return chosen | next(each for each in choices if _bytes_fp8(chosen | each) <= _SHARED_BYTES - 1024)


def _apart(largest: int, capped: bool) -> bool:
    """Whether blocks of keys with masks have loops of their own. For wide heads, these would take up to half
    as long again to compile, and be no faster. With softcap they are: tanh would come before a branch.
    """
    return largest <= 96 or capped


def _bytes_fp8(meta: Meta) -> int:
    rows, value, stages = WARPGROUP_ROWS * meta["groups"], meta["value_width"], meta["stages"]
    queries = rows * meta["width"] * (2 if meta["ahead"] else 1)
    blocks = meta["N"] * (stages * meta["width"] + (stages + meta["copied"]) * value)
    return int(queries + blocks + (2 * rows * value if meta["staged"] else 0))


def _bytes(wide: int, value: int, *, groups: int, N: int, ahead: int, stages: int) -> int:
    rows = WARPGROUP_ROWS * groups
    tiles = rows * wide * (2 if ahead else 1) + stages * N * (wide + value) + (rows * value if ahead else 0)
    return 2 * tiles + 1024


def backward(d: int, e: int) -> tuple[Meta, Meta]:
    """The meta-parameters of the backward kernels of k and v, and of q, without additions in memory."""
    wide, value = _widths(d, e)
    common = {"width": wide, "value_width": value, "N": 64}
    queries = {"of": "q", "value_stages": 2 if wide + value <= 384 else 1}
    return common | {"of": "kv"}, common | queries | ({"N": 128} if wide <= 64 and value <= 192 else {})


def adding(d: int, e: int, *, window: bool, capped: bool) -> Meta | None:
    """The meta-parameters of the kernel that computes the gradients of queries, keys and values at once, with
    additions in memory, with causal or other windows, or with softcap; None where it doesn't fit.
    """
    wide, value = _widths(d, e)
    if max(wide, value) > 128 or (capped and wide <= 64):  # whose registers don't suffice
        return None
    narrow = wide <= 64
    common = {"width": wide, "value_width": value, "of": "qkv"}
    at_once = narrow and not window
    return common | {"N": 128 if narrow else 64, "late": narrow or capped, "at_once": at_once}


def beside(keys: int, meta: Mapping[str, object], left: bool) -> bool:
    """Whether the kernel that adds prepares rows of later heads beside its products, and converts sums of
    earlier ones, where that was faster. Otherwise it only clears sums. `left` windows hide early keys.
    """
    return bool(not meta["late"] and keys <= _LONG and not left)


def in_turns(keys: int, meta: Meta, window: bool) -> bool:
    """Whether warpgroups take turns in the kernel that adds, where that was faster."""
    return bool(meta["width"] <= 64 and keys <= _LONG and window)


def section(keys: int, meta: Meta) -> int:
    """How many causal tiles `longest_first` computes together, where that was faster; 0: head by head."""
    if keys < _LONG:
        return 0
    if meta["width"] > 64:
        return 256
    return 128 if keys < 4 * _LONG else 512


def _widths(d: int, e: int) -> tuple[int, int]:
    wide, value = (-(-size // 64) * 64 for size in (d, e))
    return (max(wide, value),) * 2 if max(wide, value) <= 128 else (wide, value)
