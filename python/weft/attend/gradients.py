"""The launches of the gradients of attention."""

from typing import Any

import numpy as np

from weft.attend import tiles
from weft.attend.kernels.backward import backward_of_keys, backward_of_queries, products_of_outputs
from weft.attend.kernels.sequences import SUMS_STEP
from weft.attend.launches import Call, batched
from weft.attend.problem import refuse


def backward(
    call: Call, out: Any, lse: Any, d_out: Any, d_lse: Any = None, stream: Any = None
) -> tuple[Any, Any, Any, Any]:
    """The gradients of q, k, v and of the sinks (None without any), from the results of a call and their
    gradients.
    """
    sizes, flags = call.sizes, call.flags
    if sizes.page:
        raise refuse("gradients must be of k and v in one piece, got pages: gather them first")
    dq, dk, dv = (call.empty(call.views[name].shape, call.views[name].dtype) for name in "qkv")
    if call.is_empty or flags["packed"] or flags["limited"]:
        for each in (dq, dk, dv):  # of which not all rows may belong to a sequence
            each[...] = 0
    if call.is_empty:
        return dq, dk, dv, _of_sinks(call, lse, None)
    o, do = (batched(each, call.options.layout, sizes.packed) for each in (out, d_out))
    sums, of_sums = (each[None] if each is not None and sizes.packed else each for each in (lse, d_lse))
    steps = -(-sums.shape[2] // SUMS_STEP)
    if sizes.packed:
        steps += call.views["cu_seqlens_q"].shape[0] - 1
    padded = (*sums.shape[:2], steps * SUMS_STEP)
    base, delta = call.empty(padded, "f32"), call.empty(padded, "f32")
    nothing = call.added("", "f32", 3)
    products_of_outputs(
        *(o, do, sums, nothing if of_sums is None else of_sums, base, delta),
        call.added("cu_seqlens_q", "i32"),
        width=tiles.width(sizes.e),
        of_lse=of_sums is not None,
        packed=sizes.packed,
        stream=stream,
    )
    _launch(call, do, base, delta, (dq, dk, dv), stream)
    return dq, dk, dv, _of_sinks(call, lse, delta)


def _launch(call: Call, do: Any, base: Any, delta: Any, results: tuple[Any, Any, Any], stream: Any) -> None:
    """Launches the kernels of queries and of keys."""
    q, k, v = (call.matrices(name) for name in "qkv")
    dq, dk, dv = (call.matrices(name, each) for name, each in zip("qkv", results, strict=True))
    added = [call.added(name, "i32") for name in ("cu_seqlens_q", "cu_seqlens_k", "lengths")]
    options: dict[str, Any] = {**call.flags, "stream": stream}
    of_queries, of_keys = tiles.backward(call.sizes.d, call.sizes.e)
    backward_of_queries(q, k, v, do, base, delta, dq, *added, *call.numbers, **of_queries, **options)
    for each in of_keys:
        backward_of_keys(q, k, v, do, base, delta, dk, dv, *added, *call.numbers, **each, **options)


def _of_sinks(call: Call, lse: Any, delta: Any) -> Any:
    """The gradient of the sinks: their shares take from those of all values."""
    if "sinks" not in call.given:
        return None
    sinks = call.given["sinks"]
    if delta is None:
        return sinks * 0
    if call.sizes.packed:
        delta = _unpadded(call, delta)
    delta = delta[..., : lse.shape[-1]]
    shares = lse * -1
    shares += sinks[:, None]
    shares = shares.exp() if hasattr(shares, "exp") else np.exp(shares)
    others = tuple(number for number in range(lse.ndim) if number != lse.ndim - 2)
    total = (shares * delta).sum(others)
    return -(total.to(sinks.dtype) if hasattr(total, "to") else total.astype(sinks.dtype))


def _unpadded(call: Call, delta: Any) -> Any:
    """The sums of packed sequences without gaps: sequence i has gaps of up to `SUMS_STEP` before it."""
    starts = call.given["cu_seqlens_q"]
    rows = call.empty((call.sizes.queries,), "i32")
    rows[...] = 0
    places = (rows + 1).cumsum(0) - 1
    number = (places[:, None] >= starts[None, 1:]).sum(1).clip(max=len(starts) - 2)
    first = starts[number]
    return delta[0][:, (first // SUMS_STEP + number) * SUMS_STEP + places - first]
