"""TileLang kernels for the emulator's tests; compile_tilelang.py makes their PTX."""

import tilelang.language as T


def matmul(m, n, k, tile, stages, kind="float16", result="float16", sum_type="float32"):
    bm, bn, bk = tile

    @T.prim_func
    def main(a: T.Tensor((m, k), kind), b: T.Tensor((k, n), kind), c: T.Tensor((m, n), result)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (x, y):
            of_a, of_b = T.alloc_shared((bm, bk), kind), T.alloc_shared((bk, bn), kind)
            sums = T.alloc_fragment((bm, bn), sum_type)
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(a[y * bm, step * bk], of_a)
                T.copy(b[step * bk, x * bn], of_b)
                T.gemm(of_a, of_b, sums)
            T.copy(sums, c[y * bm, x * bn])

    return main


def softmax(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=128) as row:
            values = T.alloc_fragment((1, columns), "float32")
            most, total = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            for _, j in T.Parallel(1, columns):
                values[0, j] = x[row, j]
            T.reduce_max(values, most, dim=1)
            for _, j in T.Parallel(1, columns):
                values[0, j] = T.exp2((values[0, j] - most[0]) * 1.4426950408889634)
            T.reduce_sum(values, total, dim=1)
            for _, j in T.Parallel(1, columns):
                y[row, j] = values[0, j] / total[0]

    return main


def attention(heads, length, width, tile):
    bm, bn = tile
    scale = 1.4426950408889634 / width**0.5
    shape = (heads, length, width)

    @T.prim_func
    def main(
        q: T.Tensor(shape, "float16"),
        k: T.Tensor(shape, "float16"),
        v: T.Tensor(shape, "float16"),
        o: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, bm), heads, threads=128) as (x, head):
            of_q = T.alloc_shared((bm, width), "float16")
            of_k, of_v = T.alloc_shared((bn, width), "float16"), T.alloc_shared((bn, width), "float16")
            scores, weights = T.alloc_fragment((bm, bn), "float32"), T.alloc_fragment((bm, bn), "float16")
            out = T.alloc_fragment((bm, width), "float32")
            most, before = T.alloc_fragment((bm,), "float32"), T.alloc_fragment((bm,), "float32")
            part, total = T.alloc_fragment((bm,), "float32"), T.alloc_fragment((bm,), "float32")
            T.copy(q[head, x * bm : (x + 1) * bm, :], of_q)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, bn), num_stages=2):
                T.copy(k[head, step * bn : (step + 1) * bn, :], of_k)
                T.clear(scores)
                T.gemm(of_q, of_k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(v[head, step * bn : (step + 1) * bn, :], of_v)
                T.copy(most, before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2((scores[i, j] - most[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * T.exp2((before[i] - most[i]) * scale) + part[i]
                for i, j in T.Parallel(bm, width):
                    out[i, j] *= T.exp2((before[i] - most[i]) * scale)
                T.copy(scores, weights)
                T.gemm(weights, of_v, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, width):
                out[i, j] /= total[i]
            T.copy(out, o[head, x * bm : (x + 1) * bm, :])

    return main
