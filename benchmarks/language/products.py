"""Times the products of `examples/` in bf16: gelu(x @ w.T + bias) beside `weft.matmul` with that epilogue, or
with a function that computes the same, and PyTorch; and a gated layer beside PyTorch's two products and
elementwise kernels, two of them or one.

    python benchmarks/language/products.py

Prints a line of JSON for each shape: microseconds in CUDA graphs, in turns, each replay after a rest.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import weft
import weft.language as w
from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks" / "attention")]
from forward import in_turns, queued  # noqa: E402
from language_gated_mlp import gated  # noqa: E402
from language_gemm import gemm_gelu  # noqa: E402

SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096), (2048, 2048, 2048))


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    for m, n, k in SHAPES:
        print(json.dumps({"m": m, "n": n, "k": k, **measured(m, n, k)}), flush=True)


def measured(m: int, n: int, k: int, chosen: tuple[str, ...] = ("gelu", "gated")) -> dict[str, Any]:
    """Errors, and microseconds of all that begin with these names."""
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    x, one, two = (torch.randn(rows, k, **made) / k**0.25 for rows in (m, n, n))
    bias, d, y = torch.randn(n, device="cuda"), torch.zeros(m, n, **made), torch.zeros(m, n, **made)
    narrow, epilogue = bias.bfloat16(), weft.Epilogue(bias, "gelu")
    calls = {
        "gelu weft.language": queued(gemm_gelu.prepare(x, one, bias, d)),
        "gelu weft.matmul": lambda: weft.matmul(x, one, transpose_b=True, epilogue=epilogue, out=d),
        "gelu weft.matmul, function": lambda: weft.matmul(
            x, one, transpose_b=True, epilogue=biased_gelu, extra={"bias": bias}, out=d
        ),
        "gelu torch": lambda: functional.gelu(functional.linear(x, one, narrow)),
        "gated weft.language": queued(gated.prepare(x, one, two, y)),
        "gated torch": lambda: functional.silu(x @ one.t()) * (x @ two.t()),
        "gated torch, one kernel": lambda: activated(x @ one.t(), x @ two.t()),
    }
    found: dict[str, Any] = errors(x, one, two, bias, d, y, calls)
    calls = {name: each for name, each in calls.items() if name.startswith(chosen)}
    return found | {name: round(1000 * each, 1) for name, each in in_turns(calls).items()}


def biased_gelu(x: w.Scalar, row: w.Scalar, column: w.Scalar, bias: w.Scalar) -> object:
    """The epilogue gelu(x + bias)."""
    return w.gelu(x + bias)


@torch.compile(dynamic=True)
def activated(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """silu(a) * b, by one kernel of Triton."""
    return functional.silu(a) * b


def errors(x: Any, one: Any, two: Any, bias: Any, d: Any, y: Any, calls: dict[str, Any]) -> dict[str, float]:
    """The largest errors of the first 64 rows against float64, relative to the largest element."""
    calls["gelu weft.language"](), calls["gated weft.language"]()
    torch.cuda.synchronize()
    a, b = (x[:64].double() @ each.double().t() for each in (one, two))
    pairs = {"gelu": (d, functional.gelu(a + bias.double())), "gated": (y, functional.silu(a) * b)}
    return {
        f"error {name}": float(f"{float((got[:64].double() - want).abs().max() / want.abs().max()):.1e}")
        for name, (got, want) in pairs.items()
    }


if __name__ == "__main__":
    main()
