"""One product of bf16, `d = a @ b.T`, from ten plain lines to a persistent kernel with clusters: each rung
changes a few lines of the one before. docs/ladder.md explains them.

    python benchmarks/language/ladder.py [--sizes 4096x4096x4096,…]

Compares each rung with float64, and prints a table in Markdown: TFLOP/s in CUDA graphs, in turns, each replay
after a rest, of the rungs, `weft.matmul` and PyTorch.
"""

import sys
from pathlib import Path
from typing import Any

import weft
import weft.language as w
from weft.bench import scripts

SIZES = "2048x2048x2048,4096x4096x4096,8192x8192x8192,4096x14336x4096,4096x4096x14336"
TOLERANCE = 2**-8  # of the largest element: the last bit of bf16

A = w.In[w.Array[w.bf16], "m k"]
B = w.In[w.Array[w.bf16], "n k"]
D = w.Out[w.Array[w.bf16], "m n"]


def tiles(d: Any, M: int, N: int) -> Any:
    """The grid: a CTA for each tile of M x N."""
    return w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)


def pairs(d: Any, M: int, N: int) -> Any:
    """The grid of clusters of two CTAs along the rows."""
    return w.ceil_div(d.rows, 2 * M) * 2, w.ceil_div(d.columns, N)


@w.kernel(grid=tiles)
def plain(a: A, b: B, d: D, *, M=128, N=256, K=64):
    row, column = w.cta(0) * M, w.cta(1) * N
    sums = w.zeros((M, N))
    for k in w.range(0, a.columns, K):
        sums = w.gemm(w.load(a[row, k], (M, K)), w.load(b[column, k], (N, K)).T, sums)
    w.store(sums.to(w.bf16), d[row, column])


@w.kernel(grid=tiles)
def ring(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=4):
    stages_ = w.ring(stages, takers=M // 64, a=(M, K, w.bf16), b=(N, K, w.bf16))
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, K):
            stages_.fill(a=a[row, k], b=b[column, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        sums = w.zeros((64, N))
        for _ in w.range(0, a.columns, K):
            with stages_.take() as stage:
                sums = w.wait(w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums))
        w.store(sums.to(w.bf16), d[row + 64 * me, column])


@w.kernel(grid=tiles)
def in_flight(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=4):
    stages_ = w.ring(stages, takers=M // 64, a=(M, K, w.bf16), b=(N, K, w.bf16))
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, K):
            stages_.fill(a=a[row, k], b=b[column, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        stage = stages_.take()
        sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T)
        for _ in w.range(K, a.columns, K):
            earlier, stage = stage, stages_.take()
            sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
            sums = w.wait(sums, pending=1)
            earlier.release()
        sums = w.wait(sums)
        w.store(sums.to(w.bf16), d[row + 64 * me, column])


@w.kernel(grid=tiles)
def stored_by_tma(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=3):
    stages_ = w.ring(stages, takers=M // 64, a=(M, K, w.bf16), b=(N, K, w.bf16))
    output = w.shared(M, N, w.bf16)
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, K):
            stages_.fill(a=a[row, k], b=b[column, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        stage = stages_.take()
        sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T)
        for _ in w.range(K, a.columns, K):
            earlier, stage = stage, stages_.take()
            sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
            sums = w.wait(sums, pending=1)
            earlier.release()
        sums = w.wait(sums)
        w.store(sums.to(w.bf16), d[row + 64 * me, column], via=output.rows(64 * me, 64))


@w.kernel(grid=pairs, cluster=2)
def multicast(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=3):
    stages_ = w.ring(stages, takers=M // 64, shared={"b": 0}, a=(M, K, w.bf16), b=(N, K, w.bf16))
    output = w.shared(M, N, w.bf16)
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, K):
            stages_.fill(a=a[row, k], b=b[column, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        stage = stages_.take()
        sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T)
        for _ in w.range(K, a.columns, K):
            earlier, stage = stage, stages_.take()
            sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
            sums = w.wait(sums, pending=1)
            earlier.release()
        sums = w.wait(sums)
        stage.release()
        w.store(sums.to(w.bf16), d[row + 64 * me, column], via=output.rows(64 * me, 64))


@w.kernel(grid=pairs, cluster=2, persistent=1)
def persistent(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=3):
    stages_ = w.ring(stages, takers=M // 64, shared={"b": 0}, a=(M, K, w.bf16), b=(N, K, w.bf16))
    output = w.shared(M, N, w.bf16)
    with w.role(registers=24), w.one_thread():
        for x, y in w.tiles():
            for k in w.range(0, a.columns, K):
                stages_.fill(a=a[x * M, k], b=b[y * N, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        for x, y in w.tiles():
            stage = stages_.take()
            sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T)
            for _ in w.range(K, a.columns, K):
                earlier, stage = stage, stages_.take()
                sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
                sums = w.wait(sums, pending=1)
                earlier.release()
            sums = w.wait(sums)
            stage.release()
            w.store(sums.to(w.bf16), d[x * M + 64 * me, y * N], via=output.rows(64 * me, 64))


@w.inline
def in_bands(number: Any, counts: Any, rows: int = 8) -> Any:
    """Bands of `rows` tiles from the first column to the last: CTAs of a wave share rows of a and b in L2."""
    first = number // (rows * counts[1]) * rows
    height = w.minimum(counts[0] - first, rows)
    return first + number % (rows * counts[1]) % height, number % (rows * counts[1]) // height


@w.kernel(grid=pairs, cluster=2, persistent=1)
def l2_order(a: A, b: B, d: D, *, M=128, N=256, K=64, stages=3):
    stages_ = w.ring(stages, takers=M // 64, shared={"b": 0}, a=(M, K, w.bf16), b=(N, K, w.bf16))
    output = w.shared(M, N, w.bf16)
    with w.role(registers=24), w.one_thread():
        for x, y in w.tiles(order=in_bands):
            for k in w.range(0, a.columns, K):
                stages_.fill(a=a[x * M, k], b=b[y * N, k])
    with w.role(warpgroups=M // 64, registers=240) as me:
        for x, y in w.tiles(order=in_bands):
            stage = stages_.take()
            sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T)
            for _ in w.range(K, a.columns, K):
                earlier, stage = stage, stages_.take()
                sums = w.gemm(stage.a.rows(64 * me, 64), stage.b.T, sums)
                sums = w.wait(sums, pending=1)
                earlier.release()
            sums = w.wait(sums)
            stage.release()
            w.store(sums.to(w.bf16), d[x * M + 64 * me, y * N], via=output.rows(64 * me, 64))


RUNGS = (plain, ring, in_flight, stored_by_tma, multicast, persistent, l2_order)


def main() -> None:
    options = scripts.parser(__doc__)
    options.add_argument("--sizes", default=SIZES, help="M x N x K, with commas between them")
    sizes = scripts.parsed(options).sizes.split(",")
    columns = [measured(*map(int, size.split("x"))) for size in sizes]
    print("| rung |", *(f"{size.replace('x', ' x ')} |" for size in sizes))
    print("|---|" + "---:|" * len(sizes))
    for name in columns[0]:
        print(f"| `{name}` |", *(f"{column[name]:.0f} |" for column in columns))


def measured(m: int, n: int, k: int) -> dict[str, float]:
    """TFLOP/s of each rung and of libraries. Raises an error if a rung computes something else."""
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attention"))
    from forward import in_turns, queued

    torch.manual_seed(0)
    new: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    a, b, d = torch.randn(m, k, **new), torch.randn(n, k, **new), torch.empty(m, n, **new)
    calls: dict[str, Any] = {each.__name__: queued(each.prepare(a, b, d)) for each in RUNGS}
    rows = sorted({*range(0, m, 61), m - 1})
    wanted = a[rows].double() @ b.double().T
    for name, call in calls.items():
        d.fill_(torch.nan)
        call()
        torch.cuda.synchronize()
        error = float((d[rows].double() - wanted).abs().max() / wanted.abs().max())
        if not error < TOLERANCE:
            raise SystemExit(f"{name} computes another product of {m} x {n} x {k}: error {error}")
    calls["weft.matmul"] = lambda: weft.matmul(a, b, transpose_b=True, out=d)
    calls["torch"] = lambda: torch.mm(a, b.T, out=d)
    return {name: 2e-9 * m * n * k / ms for name, ms in in_turns(calls).items()}


if __name__ == "__main__":
    main()
