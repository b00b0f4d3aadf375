"""Times `examples/language_rmsnorm.py`, a product with RMSNorm as its prologue, beside PyTorch's rms_norm and
linear in bf16.

    python benchmarks/language/rmsnorm.py

Prints a line of JSON for each shape: the error of the first 64 rows against float64, and microseconds in CUDA
graphs, in turns, each replay after a rest.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "attention")]
from forward import in_turns, queued  # noqa: E402
from language_rmsnorm import rmsnorm_gemm  # noqa: E402

SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096), (2048, 2048, 2048))
EPSILON = 1e-6


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    for m, n, k in SHAPES:
        print(json.dumps({"m": m, "n": n, "k": k, **measured(m, n, k)}), flush=True)


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    """The error, and microseconds of both."""
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    x, b, d = torch.randn(m, k, **made), torch.randn(n, k, **made) / k**0.5, torch.zeros(m, n, **made)
    gain = torch.rand(k, device="cuda") + 0.5
    launch, narrow = rmsnorm_gemm.prepare(x, gain[None], b, d, EPSILON), gain.bfloat16()
    calls = {
        "weft.language": queued(launch),
        "torch": lambda: functional.linear(functional.rms_norm(x, (k,), narrow, EPSILON), b),
    }
    calls["weft.language"]()
    torch.cuda.synchronize()
    rows = functional.rms_norm(x[:64].double(), (k,), gain.double(), EPSILON) @ b.double().t()
    error = float((d[:64].double() - rows).abs().max() / rows.abs().max())
    times = {name: round(1000 * each, 1) for name, each in in_turns(calls).items()}
    return {"error": float(f"{error:.1e}"), **times}


if __name__ == "__main__":
    main()
