"""Times attention of thirty plain lines (`examples/language_plain_attention.py`) beside `weft.attention` and
PyTorch (cuDNN or FlashAttention), in bf16.

    python benchmarks/language/plain_attention.py

Prints a line of JSON for each size: TFLOP/s in CUDA graphs, in turns, of the best tile; the error of one head
against float64, relative to the largest element.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import weft
from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "attention")]
from forward import in_turns, queued  # noqa: E402
from language_plain_attention import attention  # noqa: E402

SIZES = ((64, 4096, 128, False), (64, 4096, 128, True), (16, 16384, 128, False), (64, 4096, 64, False))
TILES = ((128, 128, 2), (128, 64, 3), (192, 64, 3))


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    ratios = list[float]()
    for heads, rows, size, causal in SIZES:
        line = measured(heads, rows, size, causal)
        ratios.append(line["weft.language"] / line["weft.attention"])
        print(json.dumps({"heads": heads, "rows": rows, "D": size, "causal": causal, **line}), flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(json.dumps({"mean of weft.attention": round(mean, 3)}))


def measured(heads: int, rows: int, size: int, causal: bool) -> dict[str, Any]:
    """The error, the best tile, and TFLOP/s of each library."""
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    q, k, v = (torch.randn(heads, rows, size, **made) for _ in range(3))
    o, scale = torch.empty_like(q), size**-0.5
    calls: dict[str, Any] = {
        f"tile {M}x{N}, {stages} stages": queued(
            attention.prepare(q, k, v, o, scale, D=size, M=M, N=N, stages=stages, causal=causal)
        )
        for M, N, stages in TILES
    }
    few = slice(0, 1)
    wide = [each[few].double() for each in (q, k, v)]
    wanted, error = functional.scaled_dot_product_attention(*wide, is_causal=causal), 0.0
    for call in calls.values():
        o.zero_()
        call()
        torch.cuda.synchronize()
        error = max(error, float((o[few].double() - wanted).abs().max() / wanted.abs().max()))
    four = [each[None] for each in (q, k, v)]

    def of_torch() -> object:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            return functional.scaled_dot_product_attention(*four, is_causal=causal)

    others = {"weft.attention": lambda: weft.attention(*four, causal=causal), "torch": of_torch}
    operations = 4e-9 * heads * rows * rows * size * (0.5 if causal else 1)
    speeds = {name: operations / ms for name, ms in in_turns(calls | others).items()}
    best = max(calls, key=speeds.__getitem__)
    found = {name: round(speeds[name], 1) for name in (best, *others)}
    return {"error": float(f"{error:.1e}"), "best": best, "weft.language": found.pop(best), **found}


if __name__ == "__main__":
    main()
