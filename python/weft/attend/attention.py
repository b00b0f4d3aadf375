"""`weft.attention`: softmax(scale * q @ k.T) @ v for each head, by the kernels of `weft.attend.kernels`."""

from collections.abc import Mapping
from typing import Never

from weft.attend import plans
from weft.attend.problem import OPTIONS, Options, refuse
from weft.errors import shown
from weft.isa.suggest import no_parameter
from weft.launch import arrays, libraries, torch_tensors
from weft.launch.arrays import Array
from weft.system import upper


def _watched(
    q: object,
    k: object,
    v: object,
    *,
    return_lse: bool = False,
    out: object = None,
    stream: object = None,
    **others: object,
) -> Array:
    """`attention` by an operator of PyTorch, which computes the same for plain tensors."""
    chosen = {name: others.pop(name) for name in OPTIONS if name in others}
    return _by_operator({"q": q, "k": k, "v": v, **others}, Options.of(**chosen), return_lse, out, stream)


_OTHER_NAMES = {
    "is_causal": "pass causal, where the last query has the position of the last key",
    **dict.fromkeys(("attn_mask", "mask"), "masks are causal, window and lengths"),
    "dropout_p": "there is no dropout",
    "enable_gqa": "leave it out: q may have more heads than k and v",
    **dict.fromkeys(("softmax_scale", "sm_scale"), "pass scale"),
    "window_size": "pass window",
    "learnable_sink": "pass sinks",
    "block_table": "pass page_table",
    **dict.fromkeys(("cache_seqlens", "seqused_k"), "pass lengths"),
    **dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), "leave it out: cu_seqlens_q and cu_seqlens_k suffice"),
    "num_splits": "pass splits",
}
"""Parameters of PyTorch's and FlashAttention's functions, and what to pass to this one."""


@torch_tensors.traced_as(_watched)
def attention(
    q: object,
    k: object,
    v: object,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    sinks: object = None,
    lengths: object = None,
    cu_seqlens_q: object = None,
    cu_seqlens_k: object = None,
    page_table: object = None,
    q_scale: object = None,
    k_scale: object = None,
    v_scale: object = None,
    layout: str = "bhtd",
    splits: int | None = None,
    deterministic: bool = False,
    return_lse: bool = False,
    out: object = None,
    stream: object = None,
    **others: Never,
) -> Array:
    """`softmax(scale * q @ k.T) @ v`, for each head of a batch.

    `q`, `k` and `v` are NumPy, PyTorch, CuPy or JAX arrays of f16, bf16 or e4m3. With `layout` "bhtd", their
    dimensions are batch, heads, tokens and head size, as in PyTorch's `scaled_dot_product_attention`; with
    "bthd", batch, tokens, heads and head size, as in FlashAttention. They are read without copies if rows are
    contiguous and begin at multiples of 16 bytes. Head sizes are multiples of 8 up to 256; that of `v` may
    differ from that of `q` and `k`. The number of heads of `q` must be a multiple of that of `k` and `v`
    (grouped-query attention).

    - `causal`: a query sees the keys up to its own position. The last query has the position of the last key,
      as in FlashAttention. (In PyTorch's `is_causal`, query 0 has the position of key 0.) The output of a
      query that sees no key is 0.
    - `scale` is 1/sqrt(size) by default.
    - `window` = (left, right): a query sees only this number of keys before and after its position; None
      means no limit.
    - `softcap`: scores become `softcap * tanh(score / softcap)`.
    - `sinks`: one additional score for each head of q, which counts in the denominator of the softmax, and
      has no value.
    - `lengths` (int32): the number of valid keys of each sequence; the last query has the position of the
      last valid key. For gradients, the keys and values after them must be finite.
    - `cu_seqlens_q`, `cu_seqlens_k` (int32): sequences of different lengths, one after the other. The arrays
      then have the dimensions tokens, heads and size, and sequence i has the tokens from `cu_seqlens[i]` on
      and before `cu_seqlens[i + 1]`.
    - `page_table` (int32): k and v are batches of pages, whose number of tokens is a multiple of 16. Row i
      has the numbers of the pages of sequence i, which has `lengths[i]` valid keys.
    - `q_scale`, `k_scale`, `v_scale` (f32), for e4m3: one scale for each head, or for each head of each
      sequence. The output is bf16, or f16 if `out` has this type. With e4m3, gradients, pages and `splits`
      aren't supported, and head sizes must be multiples of 16.
    - `splits`: the number of parts into which the keys are divided, for few queries. By default it is chosen
      from the sizes; in the emulator it is 1.
    - `deterministic`: gradients are bit-identical in each run. Without it, gradients of q are added in any
      order for head sizes up to 128, which is faster. The output is always bit-identical.

    Returns the output, with the shape of q and the head size of v. With `return_lse`, also returns the
    log-sum-exp of the scores in f32, with the dimensions batch, heads and tokens, or heads and tokens. `out`
    is an array for the output.

    The first call for PyTorch tensors of certain types, sizes, strides, alignment (modulo 32 bytes) and
    options plans the launches. Later calls only fill in addresses. Up to 1024 plans are kept.

    Arrays on the CPU are copied to the GPU; without a GPU, the emulator runs the kernels. docs/attention.md
    has examples, and lists what is supported.
    """
    if others:
        raise refuse(no_parameter(attention, next(iter(others)), _OTHER_NAMES))
    arrays_of_call = (
        *(q, k, out, v, sinks, lengths, cu_seqlens_q, cu_seqlens_k, page_table),
        *(q_scale, k_scale, v_scale),
    )
    known = plans.found(arrays_of_call, (causal, scale, softcap, layout, splits), window)
    if (results := plans.queued(known, arrays_of_call, stream)) is not None:
        return results if return_lse else results[0]
    options = Options.of(
        causal=causal,
        scale=scale,
        window=window,
        softcap=softcap,
        layout=layout,
        splits=splits,
        deterministic=deterministic,
    )
    given = {"q": q, "k": k, "v": v, "sinks": sinks, "lengths": lengths, "page_table": page_table}
    given |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    given |= {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
    for name in "qkv":
        if given[name] is None:
            raise refuse(f"{name} must be an array, got None")
    if libraries.TORCH.is_watching((*given.values(), out)):
        return _by_operator(given, options, return_lse, out, stream)
    if arrays.library(type(q)) == "jax" or libraries.JAX.is_traced(given.values()):
        _refuse_places(out, stream, "arrays are JAX's", "use the result")
        result, lse = upper.jax().attention.attention(given, options)  # XLA queues it on its own stream
        return (result, lse) if return_lse else result
    result, lse = plans.run(known, given, options, out, stream)
    library = libraries.of(q)
    result = result if out is not None else library.handed_over(result, q)
    return (result, library.handed_over(lse, q)) if return_lse else result


def _by_operator(
    given: Mapping[str, object], options: Options, return_lse: bool, out: object, stream: object
) -> Array:
    """The result of `torch.ops.weft.attention`."""
    _refuse_places(out, stream, "PyTorch differentiates or traces a call", "call it under torch.no_grad()")
    result, lse = upper.torch().attention.attention(given, options)
    return (result, lse) if return_lse else result


def _refuse_places(out: object, stream: object, where: str, advice: str) -> None:
    for name, each in (("out", out), ("stream", stream)):
        if each is not None:
            raise refuse(f"{name} must be None where {where}, got {shown(each)}: {advice}")
