"""Times a product of bf16 in `weft.language` whose CTAs copy tiles for each other, by the shape of the
cluster, and the same source for sm_90, where warps multiply by `mma.sync`.

    python benchmarks/language/clusters.py

Prints a line of JSON for each shape: microseconds in CUDA graphs, in turns, each replay after a rest.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

import weft.language as w
from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "attention"))
from forward import in_turns, queued  # noqa: E402

SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192))
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1))


def _grid(a: Any, b: Any, *, BM: int, BN: int, cluster: tuple[int, int]) -> Any:
    x, y = cluster
    return w.ceil_div(a.rows, BM * x) * x, w.ceil_div(b.rows, BN * y) * y


@w.kernel(grid=_grid, cluster=lambda cluster: cluster)
def product(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "n k"],
    d: w.Out[w.Array[w.bf16], "m n"],
    *,
    BM=128,
    BN=256,
    BK=64,
    stages=3,
    cluster=(1, 1),
):
    """d = a @ b.T."""
    buffers = {"a": (BM, BK, a.dtype), "b": (BN, BK, b.dtype)}
    ring = w.ring(stages, takers=BM // 64, shared={"a": 1, "b": 0}, **buffers)
    staging = w.shared(BM, BN, d.dtype)
    row, column = w.cta(0) * BM, w.cta(1) * BN
    with w.role(warpgroups=BM // 64, registers=240) as me:
        slot = ring.take()
        sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, BK)):
            late, slot = slot, ring.take()
            sums = w.gemm(slot.a.rows(64 * me, 64), slot.b.T, sums)
            sums = w.wait(sums, pending=1)
            late.release()
        sums = w.wait(sums)
        slot.release()
        w.store(sums.to(d.dtype), d[row + 64 * me, column], via=staging.rows(64 * me, 64))
    with w.role(registers=24), w.one_thread():
        for k in w.range(0, a.columns, BK):
            ring.fill(a=a[row, k], b=b[column, k])


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    for m, n, k in SHAPES:
        print(json.dumps({"m": m, "n": n, "k": k, **measured(m, n, k)}), flush=True)


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    """Microseconds of each cluster, and the largest errors of the first 64 rows against float64."""
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    a, b = (torch.randn(rows, k, **made) / k**0.25 for rows in (m, n))
    d, want = torch.zeros(m, n, **made), a[:64].double() @ b.double().t()
    calls: dict[str, Any] = {"torch": lambda: torch.mm(a, b.t(), out=d)}
    for cluster in CLUSTERS:
        calls[f"{cluster[0]}x{cluster[1]}"] = queued(product.prepare(a, b, d, cluster=cluster))
    warps = product.compile(a, b, d, arch="sm_90", BN=128)
    calls["mma.sync"] = queued(warps.prepare(a, b, d))
    found = dict[str, Any]()
    for name, call in calls.items():
        d.zero_()
        call()
        torch.cuda.synchronize()
        found[f"error {name}"] = float(
            f"{float((d[:64].double() - want).abs().max() / want.abs().max()):.1e}"
        )
    return found | {name: round(1000 * each, 1) for name, each in in_turns(calls).items()}


if __name__ == "__main__":
    main()
