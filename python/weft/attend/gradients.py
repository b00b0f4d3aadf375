"""The launches of the gradients of attention."""

from collections.abc import Callable
from typing import Any

from weft.attend import tiles
from weft.attend.kernels.backward import backward_of_keys, backward_of_queries, products_of_outputs
from weft.attend.kernels.sequences import SUMS_STEP
from weft.attend.launches import Call, batched
from weft.attend.problem import refuse


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
    o, do = (batched(each, call.options.layout, sizes.packed) for each in (out, d_out))
    sums, of_sums = (each[None] if each is not None and sizes.packed else each for each in (lse, d_lse))
    steps = -(-sums.shape[2] // SUMS_STEP)
    if sizes.packed:
        steps += call.views["cu_seqlens_q"].shape[0] - 1
    padded = (*sums.shape[:2], steps * SUMS_STEP)
    base, delta = call.empty(padded, "f32"), call.empty(padded, "f32")
    nothing = call.added("", "f32", 3)
    call.launch(
        products_of_outputs,
        *(o, do, sums, nothing if of_sums is None else of_sums),
        *(call.added("cu_seqlens_q", "i32"), base, delta),
        width=tiles.width(sizes.e),
        of_lse=of_sums is not None,
        packed=sizes.packed,
        stream=stream,
    )
    _launch(call, do, base, delta, (dq, dk, dv), stream)
    return dq, dk, dv, delta


def _launch(call: Call, do: Any, base: Any, delta: Any, results: tuple[Any, Any, Any], stream: Any) -> None:
    """Launches the kernels of queries and of keys."""
    q, k, v = (call.matrices(name) for name in "qkv")
    dq, dk, dv = (call.matrices(name, each) for name, each in zip("qkv", results, strict=True))
    added = [call.added(name, "i32") for name in ("cu_seqlens_q", "cu_seqlens_k", "lengths")]
    options: dict[str, Any] = {**call.flags, "stream": stream}
    of_queries, of_keys = tiles.backward(call.sizes.d, call.sizes.e)
    inputs = (q, k, v, do, base, delta, *added)
    call.launch(backward_of_queries, *inputs, dq, *call.numbers, **of_queries, **options)
    for each in of_keys:
        none = call.added("", call.views["q"].dtype, 4)
        of_k, of_v = dk if each.get("of_k", True) else none, dv if each.get("of_v", True) else none
        call.launch(backward_of_keys, *inputs, of_k, of_v, *call.numbers, **each, **options)


def of_sinks(sinks: Any, lse: Any, delta: Any, exp: Callable[[Any], Any]) -> Any:
    """The gradient of the sinks, in f32, from what `backward` returns: their shares take from those of all
    values.
    """
    shares = exp(sinks[:, None] - lse)
    others = tuple(number for number in range(lse.ndim) if number != lse.ndim - 2)
    return -(shares * delta).sum(others)


def unpadded(delta: Any, starts: Any, places: Any) -> Any:
    """The sums of packed sequences without the gaps between these. `places` counts the tokens."""
    number = (places[:, None] >= starts[None, 1:]).sum(1).clip(max=len(starts) - 2)
    first = starts[number]
    return delta[0][:, (first // SUMS_STEP + number) * SUMS_STEP + places - first]
