"""The launches of the gradients of attention."""

import math
from collections.abc import Mapping
from typing import Any

from weft.attend import tiles
from weft.attend.kernels.backward import gradients
from weft.attend.kernels.sequences import SUMS_STEP
from weft.attend.kernels.sums import LANES, ROWS, convert_queries, products_of_outputs
from weft.attend.launches import Call, batched
from weft.attend.problem import refuse
from weft.launch.arrays import Array

_LOG2E = math.log2(math.e)
_ROUNDS = 1.5, 1.2
"""How many CTAs for each multiprocessor lie between those that compute something and those that need it."""

_SMALL_CAP = 1000
"""A cap of scores up to which an lse beyond 1024 can only be that of a sink: shares are almost 0 then."""

_MOST_ROWS = 1 << 23
"""Rows of q for each head of keys, up to which the kernel's numbers of pieces times tiles fit in 32 bits."""


def backward(
    call: Call, out: Any, lse: Any, d_out: Any, d_lse: Any = None, stream: Any = None
) -> tuple[Any, ...]:
    """The gradients of q, k and v, from the results of a call and their gradients; and what `of_sinks` makes
    the gradient of sinks of: None where no query sees a key.
    """
    sizes, flags = call.sizes, call.flags
    if sizes.page:
        raise refuse("gradients must be of k and v in one piece, got pages: gather them first")
    dq, dk, dv = (call.empty(call.views[name].shape, call.views[name].dtype) for name in "qkv")
    if call.is_empty or flags["packed"] or flags["limited"]:
        for each in (dq, dk, dv):  # of which not all rows may belong to a sequence
            each[...] = 0
    if call.is_empty:
        return dq, dk, dv, None, None
    how = None
    if not call.options.deterministic:
        how = tiles.adding(sizes.d, sizes.e, window=_window(call), capped=flags["capped"])
    o, do = (batched(each, call.options.layout, sizes.packed) for each in (out, d_out))
    sums, of_sums = (each[None] if each is not None and sizes.packed else each for each in (lse, d_lse))
    padded = (*sums.shape[:2], _blocks(call, sums, SUMS_STEP) * SUMS_STEP)
    base, delta = call.empty(padded, "f32"), call.empty(padded, "f32")
    sums_q, done = call.added("", "f32", 4), call.added("", "i32")
    if how is not None:
        rows = _blocks(call, sums, how["N"]) * how["N"] * how["width"] // LANES
        sums_q = call.empty((*sums.shape[:2], rows, LANES), "f32")
    lags = _lags(call, how)
    heads = base.shape[0] * base.shape[1]
    if lags is not None:
        done = call.empty((2 * heads // sizes.group,), "i32")
    beside = lags is not None and _beside(call, how)
    cleared = heads if lags is None else lags[0] * sizes.group
    begins = not (flags["capped"] or (how or {}).get("late"))
    of_rows = {"begins": begins, "any_size": not 0 < call.options.softcap <= _SMALL_CAP}
    of_rows["of_lse"] = of_sums is not None
    sinking = "sinks" in call.given
    peaks = call.empty((2 * padded[0], *padded[1:]), "f32")
    shares = call.empty(padded, "f32") if sinking else call.added("", "f32", 3)
    arrays = {"o": o, "do": do, "base": base, "delta": delta, "peaks": peaks, "sums_q": sums_q, "done": done}
    arrays["d_lse"] = call.added("", "f32", 3) if of_sums is None else of_sums
    numbers = {"unit": 1 / call.scale if begins else _LOG2E, "cleared": cleared}
    numbers["first"] = cleared if beside else heads
    widths = {"width": tiles.width(sizes.d), "value_width": tiles.width(sizes.e)}
    own = {**arrays, **numbers, "lse": sums, "shares": shares, "sinks": call.added("sinks", "f32")}
    call.start(products_of_outputs, own, stream, **widths, **of_rows, sinking=sinking, adding=how is not None)
    arrays["later_delta"] = delta if beside else call.added("", "f32", 3)
    arrays |= dict(zip(("before", "after"), lags or (0, 0), strict=True))
    options = of_rows | {"beside": beside, "clears": lags is not None, "group": sizes.group}
    _launch(call, arrays, (dq, dk, dv), how, options, stream)
    return dq, dk, dv, delta, shares if sinking else None


def _window(call: Call) -> bool:
    """Whether queries don't see all keys."""
    return bool(call.flags["lefts"] or call.flags["rights"])


def _lags(call: Call, how: tiles.Meta | None) -> tuple[int, int] | None:
    """How many heads of keys ahead the kernel that adds prepares rows beside its products or clears sums, and
    how many heads behind it converts sums: all heads if it doesn't. None for neither. CTAs of heads so far
    away have begun, or have ended, so that few CTAs wait.
    """
    if how is None or call.sizes.packed:
        return None
    count = -(-call.sizes.keys // (2 * ROWS))
    section = _section(call, how) // count
    lags = [1 + section + math.ceil(rounds * call.multiprocessors / count) for rounds in _ROUNDS]
    heads = math.prod(call.matrices("k").shape[:2])
    return None if lags[0] >= heads else (lags[0], min(lags[1], heads) if _beside(call, how) else heads)


def _beside(call: Call, how: Mapping[str, object] | None) -> bool:
    sizes, left = call.sizes, bool(call.flags["lefts"])
    if how is None or sizes.group * sizes.queries > _MOST_ROWS:
        return False
    return tiles.beside(sizes.keys, how, left=left)


def _section(call: Call, how: tiles.Meta) -> int:
    """The tiles of a section of heads, in which the longest come first; 0 for tiles head by head."""
    causal = call.flags["rights"] and not (call.flags["lefts"] or call.flags["packed"])
    return tiles.section(call.sizes.keys, how) if causal else 0


def _blocks(call: Call, sums: Array, size: int) -> int:
    """The number of blocks of queries of one size; packed sequences may have one more each."""
    more = call.views["cu_seqlens_q"].shape[0] - 1 if call.sizes.packed else 0
    return int(-(-sums.shape[2] // size) + more)


def _launch(
    call: Call,
    arrays: Mapping[str, Any],
    results: tuple[Array, Array, Array],
    how: tiles.Meta | None,
    options: tiles.Meta,
    stream: object,
) -> None:
    """Launches the kernels of q, and of k and v; or `how`, that of all, which adds up those of q."""
    dq, dk, dv = (call.matrices(name, each) for name, each in zip("qkv", results, strict=True))
    if how is None:
        of_keys, of_queries = tiles.backward(call.sizes.d, call.sizes.e)
        none = call.added("", call.views["q"].dtype, 4)
        call.start(gradients, {**arrays, "dq": none, "dk": dk, "dv": dv}, stream, **of_keys, **options)
        call.start(gradients, {**arrays, "dq": dq, "dk": none, "dv": none}, stream, **of_queries, **options)
        return
    # The branch with masks keeps exponentials before it. Without it, ptxas moves some after a later wait.
    ragged = call.sizes.keys % (2 * ROWS) > 0 or not (how["at_once"] or _window(call))
    options = options | {"ragged": ragged, "section": _section(call, how)}
    options["turns"] = tiles.in_turns(call.sizes.keys, how, window=_window(call))
    call.start(gradients, {**arrays, "dq": dq, "dk": dk, "dv": dv}, stream, **how, **options)
    sums_q = arrays["sums_q"]
    count = arrays["after"] * call.sizes.group if options["beside"] else math.prod(sums_q.shape[:2])
    own = {"sums_q": sums_q, "last": call.empty((count,), "i32"), "dq": dq}
    call.start(convert_queries, own, stream, N=how["N"], width=how["width"])


def of_sinks(delta: Array, shares: Array, d_lse: Array) -> Array:
    """The gradient of the sinks, from what `backward` returns: their shares take from those of all values,
    and delta has a negative sign. `d_lse` is the gradient of lse, or None.
    """
    products = d_lse if delta is None else shares * delta
    return products.sum(tuple(number for number in range(products.ndim) if number != products.ndim - 2))
