"""Times the product of ten plain lines (`examples/language_plain_gemm.py`), which `--pipeline-loops` makes
fast, beside `weft.matmul`, Triton's tutorial kernel with its autotuning, and PyTorch, in bf16.

    python benchmarks/language/plain_gemm.py [--sizes 4096x4096x4096,…]

Prints a line of JSON for each size: TFLOP/s in CUDA graphs, in turns, of the best tile; the error of 64 rows
against float64, relative to the largest element.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import gemm_of_triton
import torch

import weft
from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "attention")]
from forward import in_turns, queued  # noqa: E402
from language_plain_gemm import gemm  # noqa: E402

SIZES = "2048x2048x2048,4096x4096x4096,8192x8192x8192,4096x14336x4096,4096x4096x14336,1024x8192x4096"
TILES = ((128, 256, 64, 4), (128, 256, 64, 3), (128, 128, 64, 4), (128, 128, 64, 6), (256, 128, 64, 4))


def main() -> None:
    options = scripts.parser(__doc__)
    options.add_argument("--sizes", default=SIZES, help="M x N x K, with commas between them")
    ratios = dict[str, list[float]]()
    for size in scripts.parsed(options).sizes.split(","):
        line = measured(*map(int, size.split("x")))
        for name in ("weft.matmul", "triton", "torch"):
            ratios.setdefault(name, []).append(line["weft.language"] / line[name])
        print(json.dumps({"size": size, **line}), flush=True)
    means = {name: math.exp(sum(map(math.log, found)) / len(found)) for name, found in ratios.items()}
    print(json.dumps({f"mean of {name}": round(mean, 3) for name, mean in means.items()}))


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    """The error, the best tile, and TFLOP/s of each library."""
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    a, b, d = torch.randn(m, k, **made), torch.randn(k, n, **made), torch.empty(m, n, **made)
    calls: dict[str, Any] = {
        f"tile {M}x{N}x{K}, {stages} stages": queued(gemm.prepare(a, b, d, M=M, N=N, K=K, stages=stages))
        for M, N, K, stages in TILES
    }
    wanted, error = a[:64].double() @ b.double(), 0.0
    for call in calls.values():
        d.zero_()
        call()
        torch.cuda.synchronize()
        error = max(error, float((d[:64].double() - wanted).abs().max() / wanted.abs().max()))
    gemm_of_triton.call(a, b, d)  # chooses a configuration
    others = {
        "weft.matmul": lambda: weft.matmul(a, b, out=d),
        "triton": lambda: gemm_of_triton.call(a, b, d),
        "torch": lambda: torch.mm(a, b, out=d),
    }
    speeds = {name: 2e-9 * m * n * k / ms for name, ms in in_turns(calls | others).items()}
    best = max(calls, key=speeds.__getitem__)
    found = {"error": float(f"{error:.1e}"), "best": best, "weft.language": speeds[best]}
    found |= {name: speeds[name] for name in others}
    return found | {name: round(value, 1) for name, value in found.items() if name not in ("error", "best")}


if __name__ == "__main__":
    main()
