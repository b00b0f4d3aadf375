"""The launches of the gradients of attention."""

import math
from typing import Any

from weft.attend import tiles
from weft.attend.kernels.backward import gradients
from weft.attend.kernels.sequences import SUMS_STEP
from weft.attend.kernels.sums import LANES, ROWS, convert_queries, products_of_outputs
from weft.attend.launches import Call, batched
from weft.attend.problem import refuse

_LOG2E = math.log2(math.e)
_ROUNDS = 1.5, 1.2
"""How many CTAs for each multiprocessor lie between those that compute something and those that need it."""

_MOST_ROWS = 1 << 23
"""Rows of q for each head of keys, up to which the kernel's numbers of pieces times tiles fit in 32 bits."""


def backward(
    call: Call, out: Any, lse: Any, d_out: Any, d_lse: Any = None, stream: Any = None
) -> tuple[Any, Any, Any, Any]:
    """The gradients of q, k and v, from the results of a call and their gradients; and the sums delta, of
    which `of_sinks` makes the gradient of sinks: None where no query sees a key.
    """
    sizes, flags = call.sizes, call.flags
    if sizes.page:
        raise refuse("gradients must be of k and v in one piece, got pages: gather them first")
    dq, dk, dv = (call.empty(call.views[name].shape, call.views[name].dtype) for name in "qkv")
    if call.is_empty or flags["packed"] or flags["limited"]:
        for each in (dq, dk, dv):  # of which not all rows may belong to a sequence
            each[...] = 0
    if call.is_empty:
        return dq, dk, dv, None
    how = None if call.options.deterministic else _adding(call)
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
    first = call.empty((cleared if beside else heads,), "i32")
    outputs = o, sums, call.added("", "f32", 3) if of_sums is None else of_sums
    unit = _LOG2E if flags["capped"] or (how or {}).get("late") else 1 / call.scale
    starts = call.added("cu_seqlens_q", "i32")
    call.launch(
        products_of_outputs,
        *(o, do, *outputs[1:], starts, first, base, delta, sums_q, done, unit, cleared),
        width=tiles.width(sizes.e),
        of_lse=of_sums is not None,
        packed=sizes.packed,
        adding=how is not None,
        stream=stream,
    )
    options = {"beside": beside, "clears": lags is not None}
    options |= {"of_lse": of_sums is not None, "stream": stream}
    added = (unit, *(lags or (0, 0))), options
    _launch(call, (do, base, delta, *outputs), (sums_q, done), (dq, dk, dv), how, added)
    return dq, dk, dv, delta


def _adding(call: Call) -> dict[str, Any] | None:
    """The meta-parameters of the kernel that adds in memory; None where it can't compute the gradients."""
    window, capped = _window(call), call.flags["capped"]
    return tiles.adding(call.sizes.d, call.sizes.e, window=window, capped=capped)


def _window(call: Call) -> bool:
    """Whether queries don't see all keys."""
    return bool(call.flags["lefts"] or call.flags["rights"])


def _lags(call: Call, how: dict[str, Any] | None) -> tuple[int, int] | None:
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


def _beside(call: Call, how: dict[str, Any] | None) -> bool:
    sizes, left = call.sizes, bool(call.flags["lefts"])
    if how is None or sizes.group * sizes.queries > _MOST_ROWS:
        return False
    return tiles.beside(sizes.keys, how, left=left)


def _section(call: Call, how: dict[str, Any]) -> int:
    """The tiles of a section of heads, in which the longest come first; 0 for tiles head by head."""
    causal = call.flags["rights"] and not (call.flags["lefts"] or call.flags["packed"])
    return tiles.section(call.sizes.keys, how) if causal else 0


def _blocks(call: Call, sums: Any, size: int) -> int:
    """The number of blocks of queries of one size; packed sequences may have one more each."""
    more = call.views["cu_seqlens_q"].shape[0] - 1 if call.sizes.packed else 0
    return int(-(-sums.shape[2] // size) + more)


def _launch(
    call: Call,
    computed: tuple[Any, ...],
    sums: tuple[Any, Any],
    results: tuple[Any, Any, Any],
    how: dict[str, Any] | None,
    extra: tuple[tuple[float, int, int], dict[str, Any]],
) -> None:
    """Launches the kernels of q, and of k and v; or `how`, that of all, which adds up those of q."""
    dq, dk, dv = (call.matrices(name, each) for name, each in zip("qkv", results, strict=True))
    added = [call.added(name, "i32") for name in ("cu_seqlens_q", "cu_seqlens_k", "lengths")]
    inputs = (*(call.matrices(name) for name in "qkv"), *computed, *added)
    options: dict[str, Any] = {**call.flags, "group": call.sizes.group, **extra[1]}
    (sums_q, done), (_, base, delta, *_), stream = sums, computed, options["stream"]
    later = (base, delta) if options["beside"] else [call.added("", "f32", 3)] * 2
    rest = (sums_q, *later, done, *call.numbers, *extra[0])
    if how is None:
        of_keys, of_queries = tiles.backward(call.sizes.d, call.sizes.e)
        none = call.added("", call.views["q"].dtype, 4)
        call.launch(gradients, *inputs, none, dk, dv, *rest, **of_keys, **options)
        call.launch(gradients, *inputs, dq, none, none, *rest, **of_queries, **options)
        return
    # The branch with masks keeps exponentials before it. Without it, ptxas moves some after a later wait.
    ragged = call.sizes.keys % (2 * ROWS) > 0 or not (how["at_once"] or _window(call))
    options |= {"ragged": ragged, "section": _section(call, how)}
    options["turns"] = tiles.in_turns(call.sizes.keys, how, window=_window(call))
    call.launch(gradients, *inputs, dq, dk, dv, *rest, **how, **options)
    shape = {"N": how["N"], "width": how["width"], "packed": call.sizes.packed}
    count = extra[0][2] * call.sizes.group if options["beside"] else math.prod(sums_q.shape[:2])
    last = call.empty((count,), "i32")
    call.launch(convert_queries, sums_q, added[0], last, dq, call.scale, **shape, stream=stream)


def of_sinks(
    sinks: Any, lse: Any, delta: Any, d_lse: Any, library: Any, starts: Any = None, places: Any = None
) -> Any:
    """The gradient of the sinks, in f32, from what `backward` returns: their shares take from those of all
    values, and delta has a negative sign. `d_lse` is the gradient of lse, or None. `library` is PyTorch or
    jax.numpy, for example. Packed sequences have `starts`, and `places`, the numbers of all tokens.
    """
    if delta is None:
        delta = library.zeros_like(lse) if d_lse is None else d_lse
    else:
        delta = delta[..., : lse.shape[-1]] if starts is None else _unpadded(delta, starts, places)
    products = library.exp(sinks[:, None] - lse) * delta
    if starts is not None:  # tokens that no sequence has have no results
        inside = (places >= starts[0]) & (places < starts[-1])
        products = library.where(inside, products, library.zeros_like(products))
    return products.sum(tuple(number for number in range(lse.ndim) if number != lse.ndim - 2))


def _unpadded(delta: Any, starts: Any, places: Any) -> Any:
    """The sums of packed sequences without the gaps between these; undefined for tokens of no sequence."""
    number = (places[:, None] >= starts[None, 1:]).sum(1).clip(max=len(starts) - 2)
    first = starts[number]
    return delta[0][:, (first // SUMS_STEP + number) * SUMS_STEP + (places - first).clip(min=0)]
