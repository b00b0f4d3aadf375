"""Times the product of ten plain lines (`examples/language_plain_gemm.py`), which `--pipeline-loops` makes
fast, beside `weft.matmul`, Triton's tutorial kernel with its autotuning, and PyTorch, in bf16.

    python benchmarks/language/plain_gemm.py [square llm 4096x4096x4096 …] [--chip sm_80]

Prints a line of JSON for each size: TFLOP/s in CUDA graphs, in turns, of the best tile, and of the same loop
in persistent CTAs (`banded`); the error of 64 rows against float64, relative to the largest element. With
`--chip`, the kernels of Weft and Triton are those of that chip, assembled for this GPU.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import gemm_of_triton
import torch
from ladder import in_bands

import weft
import weft.language as w
from weft.bench import chip_kernels, scripts
from weft.bench.problem import Buffers, Problem
from weft.bench.suites import shapes

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "attention")]
from forward import graph_of, in_turns, queued, replayed  # noqa: E402
from language_plain_gemm import gemm  # noqa: E402

TILES = (
    *((128, 256, 64, 4), (128, 256, 64, 3), (256, 128, 64, 3), (256, 192, 64, 3), (192, 192, 64, 3)),
    *((128, 224, 64, 4), (128, 192, 64, 4), (128, 128, 64, 6), (128, 128, 64, 3), (128, 96, 64, 3)),
    *((64, 128, 64, 8), (64, 128, 64, 4), (64, 64, 128, 6), (64, 64, 64, 12), (64, 64, 64, 6)),
    *((64, 32, 128, 8), (64, 32, 64, 8)),
)
TILES_OF_MMA = (
    *((128, 256, 64, 3), (128, 128, 64, 4), (128, 128, 32, 4), (128, 128, 32, 5), (64, 256, 32, 4)),
    *((64, 128, 64, 4), (64, 64, 64, 5), (128, 64, 64, 4), (64, 32, 64, 6)),
)
TIMED = 5


@w.kernel(grid=lambda d, M, N: (w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)), persistent=1)
def banded(
    a: w.In[w.Array[w.bf16], "m k"],
    b: w.In[w.Array[w.bf16], "k n"],
    d: w.Out[w.Array[w.bf16], "m n"],
    *,
    M=128,
    N=256,
    K=64,
    stages=4,
):
    """The example's loop; a CTA multiplies one tile after the other."""
    for x, y in w.tiles(order=in_bands):
        sums = w.zeros((M, N))
        for k in w.range(0, a.columns, K, stages=stages):
            sums = w.gemm(w.load(a[x * M, k], (M, K)), w.load(b[k, y * N], (K, N)), sums)
        w.store(sums.to(w.bf16), d[x * M, y * N])


def main() -> None:
    options = scripts.parser(__doc__)
    options.add_argument("sizes", nargs="*", default=["square", "llm"], help="suites, or M x N x K")
    options.add_argument("--chip", help="the chip whose kernels run, such as sm_80")
    parsed = scripts.parsed(options)
    ratios = dict[str, list[float]]()
    for shape in (shape for text in parsed.sizes for shape in shapes(text)):
        line = measured(shape.m, shape.n, shape.k, parsed.chip)
        best = max(line["plain"], line["banded"])
        for name in ("weft.matmul", "triton", "torch"):
            ratios.setdefault(f"plain / {name}", []).append(line["plain"] / line[name])
            ratios.setdefault(f"best / {name}", []).append(best / line[name])
        print(json.dumps({"size": f"{shape.m}x{shape.n}x{shape.k}", **line}), flush=True)
    print(json.dumps({name: round(statistics.geometric_mean(each), 3) for name, each in ratios.items()}))


def measured(m: int, n: int, k: int, chip: str | None) -> dict[str, Any]:
    """The error, the best tiles, and TFLOP/s of each library."""
    new: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    a = torch.randn(m, k, **new)
    b = torch.randn(k, n, **new)
    d = torch.empty(m, n, **new)
    wanted, error = a[:64].double() @ b.double(), 0.0
    calls = dict[str, Any]()
    for kernel in (gemm, banded):
        tiles = dict[str, Any]()
        for M, N, K, stages in TILES_OF_MMA if chip else TILES:
            compiled = kernel.compile(a, b, d, M=M, N=N, K=K, stages=stages, arch=chip)
            ready = chip_kernels.ForGpu(compiled.compiled, compiled.launch) if chip else compiled
            call = queued(ready.prepare(a, b, d))
            d.zero_()
            call()
            torch.cuda.synchronize()
            error = max(error, float((d[:64].double() - wanted).abs().max() / wanted.abs().max()))
            tiles[f"{M}x{N}x{K}, {stages} stages"] = call
        alone = dict[str, float]()
        for name, call in tiles.items():
            graph, count = graph_of(call)
            alone[name] = min(replayed(graph) for _ in range(3)) / count
        for name in sorted(alone, key=alone.__getitem__)[:TIMED]:
            calls[f"{'plain' if kernel is gemm else 'banded'}: {name}"] = tiles[name]
    turned = b.T.contiguous() if chip else b
    calls |= libraries(a, b, turned, d, chip)
    speeds = {name: 2e-9 * m * n * k / ms for name, ms in in_turns(calls).items()}
    found: dict[str, Any] = {"error": float(f"{error:.1e}")}
    for kind in ("plain", "banded"):
        best = max((name for name in speeds if name.startswith(kind)), key=speeds.__getitem__)
        found |= {kind: round(speeds[best], 1), f"tile of {kind}": best.partition(": ")[2]}
    return found | {name: round(speeds[name], 1) for name in ("weft.matmul", "triton", "torch")}


def libraries(a: Any, b: Any, turned: Any, d: Any, chip: str | None) -> dict[str, Any]:
    """Calls of `weft.matmul`, Triton and PyTorch. Those for another chip read a `turned` copy of b."""
    calls: dict[str, Any] = {"torch": lambda: torch.mm(a, b, out=d)}
    if chip is None:
        gemm_of_triton.call(a, b, d)  # chooses a configuration
        calls["triton"] = lambda: gemm_of_triton.call(a, b, d)
        calls["weft.matmul"] = lambda: weft.matmul(a, b, out=d)
    else:
        problem = Problem(a.shape[0], b.shape[1], a.shape[1], "bf16", "bf16")
        for name, kernels in (("triton", chip_kernels.triton), ("weft.matmul", chip_kernels.weft)):
            calls[name] = kernels(chip).prepare(problem, [Buffers(a, turned, d)])[0]
    return calls


if __name__ == "__main__":
    main()
