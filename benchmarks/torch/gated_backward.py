"""Times the gradient of a gated product in bf16, that of z = [g u] from that of y = (silu(g) * u) @ weight.T,
by one kernel, and by a product and a kernel for the gate.

    python benchmarks/torch/gated_backward.py

Prints a line of JSON for each shape: microseconds at the GPU's limit of power, in turns, and the largest
differences from f32, relative to the largest element.
"""

import json
import statistics
from collections.abc import Callable
from typing import Any

import torch

import weft.nn
from weft.bench import scripts
from weft.nn.gated_product import gradient_of_gated

SHAPES = ((8192, 14336, 4096), (8192, 11008, 4096), (2048, 14336, 4096), (4096, 28672, 8192))
ROUNDS, CALLS = 24, 6


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    for m, n, k in SHAPES:
        print(json.dumps({"m": m, "n": n, "k": k, **measured(m, n, k)}), flush=True)


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    of_y, weight, z = (
        torch.randn(m, k, **made),
        torch.randn(k, n, **made) / k**0.5,
        torch.randn(m, 2 * n, **made),
    )
    gate = torch.ops.weft.gated_backward
    of_h = weft.matmul(of_y, weight)
    calls = {
        "product": lambda: weft.matmul(of_y, weight),
        "gate": lambda: gate(of_h, z, "silu"),
        "both": lambda: gate(weft.matmul(of_y, weight), z, "silu"),
        "one kernel": lambda: gradient_of_gated(of_y, weight, z, "silu"),
    }
    exact = gate(of_y[:256].float() @ weight.float(), z[:256].float(), "silu")
    errors = {
        f"error {name}": float(f"{difference(calls[name]()[:256], exact):.2e}")
        for name in ("both", "one kernel")
    }
    return errors | in_turns(calls)


def difference(found: Any, exact: Any) -> float:
    return float(f"{float((found.float() - exact).abs().max() / exact.abs().max()):.1e}")


def in_turns(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of each call: medians of rounds."""
    marks = dict[str, list[Any]]({name: [] for name in calls})
    for turn in range(ROUNDS + 2):
        for name in sorted(calls, reverse=turn % 2 == 1):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(CALLS):
                calls[name]()
            events[1].record()
            marks[name].append(events)
        torch.cuda.synchronize()
    return {
        name: round(1000 / CALLS * statistics.median(a.elapsed_time(b) for a, b in each[2:]), 1)
        for name, each in marks.items()
    }


if __name__ == "__main__":
    main()
