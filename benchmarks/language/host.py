"""Times the host's side of calls with PyTorch's tensors: a kernel of `weft.language`, and `weft.matmul`.

    python benchmarks/language/host.py

Prints a line of JSON: microseconds of a call that queues a short kernel, the least of several rounds.
"""

import json
import sys
import timeit
from pathlib import Path
from typing import Any

import torch

import weft
from weft.bench import scripts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from attention import attention
from language_gemm import gemm_gelu

CALLS, ROUNDS = 200, 20


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    q, k, v, o = torch.randn(4, 2, 64, 64, **made)
    lse = torch.zeros(2, 64, device="cuda")
    a, b, d = torch.randn(3, 128, 128, **made)
    bias = torch.zeros(128, device="cuda")
    calls = {
        "attention": lambda: attention(q, k, v, o, lse, 0.125),
        "gemm_gelu": lambda: gemm_gelu(a, b, bias, d),
        "weft.matmul": lambda: weft.matmul(a, b, out=d),
        "torch.mm": lambda: torch.mm(a, b, out=d),
    }
    found = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        rounds = []
        for _ in range(ROUNDS):
            rounds.append(timeit.timeit(call, number=CALLS) / CALLS)
            torch.cuda.synchronize()
        found[name] = round(1e6 * min(rounds), 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
