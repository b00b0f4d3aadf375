"""Gated linear attention, chunk by chunk: the state of each head stays in registers. The products of a
chunk's queries with it, and of its scores with its values, are the results.
"""

import argparse

import ml_dtypes
import numpy as np

import weft.language as w


@w.kernel(grid=lambda q, v, *, E: (w.ceil_div(v.columns, E), q.matrices))
def linear_attention(
    q: w.In[w.Array[w.bf16], "heads tokens D"],
    k: w.In[w.Array[w.bf16], "heads tokens D"],
    v: w.In[w.Array[w.bf16], "heads tokens values"],
    gates: w.In[w.Array[w.f32], "heads tokens"],
    o: w.Out[w.Array[w.bf16], "heads tokens values"],
    final: w.Out[w.Array[w.f32], "heads D values"],
    *,
    D,
    E=64,
    stages=2,
):
    """S = exp(gates[t]) S + k[t]ᵀ v[t], o[t] = q[t] S for each token t. The gates must not be positive."""
    C = 64  # tokens of a chunk
    ring = w.ring(stages, q=(C, D, q.dtype), k=(C, D, k.dtype), v=(C, E, v.dtype))
    keys, before = w.shared(C, D, k.dtype), w.shared(D, E, v.dtype)
    column, head = w.cta(0) * E, w.cta(1)

    with w.role():
        state, tile = w.zeros((D, E)), w.zeros((C, C))
        for t in w.range(0, q.rows, C):
            decay = w.cumsum(w.load_column(gates[head, t], like=tile))  # from the chunk's beginning
            total = w.min(decay)
            with ring.take() as chunk:
                scaled = w.load(chunk.k).to(w.f32) * w.exp(total - decay)
                w.store(scaled.to(k.dtype), keys)
                w.store(state.to(v.dtype), before)
                w.fence()
                w.barrier()
                scores = w.wait(w.gemm(chunk.q, chunk.k.T))
                between = w.exp(tile + decay - decay.T)
                scores = w.where(w.column(tile) <= w.row(tile), scores * between, 0.0)
                queries = (w.load(chunk.q).to(w.f32) * w.exp(decay)).to(q.dtype)
                out = w.gemm(queries, before)
                out = w.gemm(scores.to(v.dtype), chunk.v, out)
                state = w.gemm(keys.T, chunk.v, state * w.exp(total))
                out, state = w.wait(out, state)
            w.store(out.to(o.dtype), o[head, t, column])
            w.barrier()  # all warps have read the buffers
        w.store(state, final[head, 0, column])

    with w.role(), w.one_thread():
        for t in w.range(0, q.rows, C):
            ring.fill(q=q[head, t], k=k[head, t], v=v[head, t, column])


def reference(q, k, v, gates):
    """The results and the last state in float64, token by token."""
    q, k, v = (each.astype(float) for each in (q, k, v))
    state, o = np.zeros((q.shape[0], q.shape[2], v.shape[2])), np.zeros(v.shape)
    for t in range(q.shape[1]):
        state *= np.exp(gates[:, t, None, None].astype(float))
        state += k[:, t, :, None] * v[:, t, None, :]
        o[:, t] = np.einsum("hd,hde->he", q[:, t], state)
    return o, state


def arguments(heads, tokens, depth, values):
    """Random arrays for the kernel."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, heads, tokens, depth)) / np.sqrt(depth)).astype(ml_dtypes.bfloat16)
    v = rng.standard_normal((heads, tokens, values)).astype(ml_dtypes.bfloat16)
    gates = np.log(rng.uniform(0.8, 1.0, (heads, tokens))).astype(np.float32)
    return q, k, v, gates, np.zeros_like(v), np.zeros((heads, depth, values), np.float32)


def main():
    """Computes a small one, on the GPU or in the emulator, and prints the largest error."""
    q, k, v, gates, o, final = arguments(2, 150, 64, 72)
    linear_attention(q, k, v, gates, o, final)
    exact, state = reference(q, k, v, gates)
    errors = (np.abs(x.astype(float) - y).max() / np.abs(y).max() for x, y in ((o, exact), (final, state)))
    print(f"largest error: {max(errors):.1e}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
