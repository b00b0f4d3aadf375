"""The launches of the gradients of attention."""

import math
from collections.abc import Callable
from typing import Any

from weft.attend import tiles
from weft.attend.kernels.backward import LANES, ROWS, convert_queries, gradients, products_of_outputs
from weft.attend.kernels.sequences import SUMS_STEP
from weft.attend.launches import Call, batched
from weft.attend.problem import refuse

_LOG2E = math.log2(math.e)


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
    sums_q = call.added("", "f32", 4)
    if how is not None:
        rows = _blocks(call, sums, how["N"]) * how["N"] * how["width"] // LANES
        sums_q = call.empty((*sums.shape[:2], rows, LANES), "f32")
    call.launch(
        products_of_outputs,
        *(o, do, sums, call.added("", "f32", 3) if of_sums is None else of_sums),
        *(call.added("cu_seqlens_q", "i32"), base, delta, sums_q),
        _LOG2E if flags["capped"] or (how or {}).get("late") else 1 / call.scale,
        width=tiles.width(sizes.e),
        of_lse=of_sums is not None,
        packed=sizes.packed,
        adding=how is not None,
        stream=stream,
    )
    _launch(call, (do, base, delta), sums_q, (dq, dk, dv), how, stream)
    return dq, dk, dv, delta


def _adding(call: Call) -> dict[str, Any] | None:
    """The meta-parameters of the kernel that adds in memory; None where it can't compute the gradients."""
    flags = call.flags
    window = flags["lefts"] or flags["rights"]
    return tiles.adding(call.sizes.d, call.sizes.e, window=window, capped=flags["capped"])


def _blocks(call: Call, sums: Any, size: int) -> int:
    """The number of blocks of queries of one size; packed sequences may have one more each."""
    more = call.views["cu_seqlens_q"].shape[0] - 1 if call.sizes.packed else 0
    return int(-(-sums.shape[2] // size) + more)


def _launch(
    call: Call,
    computed: tuple[Any, Any, Any],
    sums_q: Any,
    results: tuple[Any, Any, Any],
    how: dict[str, Any] | None,
    stream: Any,
) -> None:
    """Launches the kernels of q, and of k and v; or `how`, that of all, which adds up those of q."""
    dq, dk, dv = (call.matrices(name, each) for name, each in zip("qkv", results, strict=True))
    added = [call.added(name, "i32") for name in ("cu_seqlens_q", "cu_seqlens_k", "lengths")]
    inputs = (*(call.matrices(name) for name in "qkv"), *computed, *added)
    options: dict[str, Any] = {**call.flags, "group": call.sizes.group, "stream": stream}
    if how is None:
        of_keys, of_queries = tiles.backward(call.sizes.d, call.sizes.e)
        none = call.added("", call.views["q"].dtype, 4)
        call.launch(gradients, *inputs, none, dk, dv, sums_q, *call.numbers, **of_keys, **options)
        call.launch(gradients, *inputs, dq, none, none, sums_q, *call.numbers, **of_queries, **options)
        return
    keys, flags = call.sizes.keys, call.flags
    causal = flags["rights"] and not (flags["lefts"] or flags["packed"])
    options |= {"ragged": keys % (2 * ROWS) > 0, "sections": causal and tiles.in_sections(keys, how)}
    call.launch(gradients, *inputs, dq, dk, dv, sums_q, *call.numbers, **how, **options)
    shape = {name: how[name] for name in ("N", "width")}
    packed = call.sizes.packed
    call.launch(convert_queries, sums_q, added[0], dq, call.scale, **shape, packed=packed, stream=stream)


def of_sinks(sinks: Any, lse: Any, delta: Any, exp: Callable[[Any], Any]) -> Any:
    """The gradient of the sinks, in f32, from what `backward` returns: their shares take from those of all
    values, and delta has a negative sign.
    """
    shares = exp(sinks[:, None] - lse)
    others = tuple(number for number in range(lse.ndim) if number != lse.ndim - 2)
    return (shares * delta).sum(others)


def unpadded(delta: Any, starts: Any, places: Any) -> Any:
    """The sums of packed sequences without the gaps between these. `places` counts the tokens."""
    number = (places[:, None] >= starts[None, 1:]).sum(1).clip(max=len(starts) - 2)
    first = starts[number]
    return delta[0][:, (first // SUMS_STEP + number) * SUMS_STEP + places - first]
