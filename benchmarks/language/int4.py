"""Times products with weights of 4 bits beside PyTorch's products (cuBLAS) with weights of bf16.

    python benchmarks/language/int4.py
    python benchmarks/language/int4.py --m 1 --shape 4096x4096 --variant parts=2,splits=4,stages=12

Each call in a CUDA graph reads other weights, together more than L2 holds. Prints a line of JSON for each
size: microseconds of a call, in turns, each replay after a rest, and the speedup of each variant.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from weft.bench import scripts
from weft.errors import WeftError
from weft.int4 import tiles
from weft.int4.kernels.few_rows import few_rows
from weft.int4.kernels.many_rows import many_rows

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "attention")]
from forward import meta_of, queued, replayed, turns  # noqa: E402

SHAPES = ("4096x4096", "14336x4096", "4096x14336", "28672x8192")
BYTES = 400 << 20  # of all copies of a matrix of weights
GROUP = 128


def parsed() -> argparse.Namespace:
    parser = scripts.parser(__doc__)
    parser.add_argument("--m", type=int, nargs="*", default=[1, 4, 16, 64, 4096])
    parser.add_argument("--shape", nargs="*", default=SHAPES, help="N x K")
    parser.add_argument("--variant", action="append", default=[], help="such as parts=2,splits=4")
    parser.add_argument("--symmetric", action="store_true")
    return scripts.parsed(parser)


def main() -> None:
    options = parsed()
    for shape in options.shape:
        n, k = map(int, shape.split("x"))
        for m in options.m:
            found = measured(m, n, k, options.variant or [""], not options.symmetric)
            print(json.dumps({"m": m, "n": n, "k": k, **found}), flush=True)


def measured(m: int, n: int, k: int, variants: list[str], asymmetric: bool) -> dict[str, Any]:
    """Microseconds of all."""
    torch.manual_seed(0)
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    x, y = torch.randn(m, k, **made), torch.zeros(m, n, **made)
    wide = [torch.randn(n, k, **made) / k**0.5 for _ in range(copies(2 * n * k))]
    narrow = [weights(n, k) for _ in range(copies(n * k // 2))]
    bodies: dict[str, Any] = {"torch": [lambda b=b: torch.mm(x, b.t(), out=y) for b in wide]}
    found: dict[str, Any] = {}
    for variant in variants:
        kernel, meta = chosen(m, n, k, asymmetric)
        try:
            launches = [kernel.prepare(x, *each, x[0], y, **meta | meta_of(variant)) for each in narrow]
        except WeftError as error:
            found[f"weft {variant}"] = str(error).splitlines()[0][:160]
            continue
        bodies[f"weft {variant}"] = [queued(each) for each in launches]
    graphs = {name: graph_of(each) for name, each in bodies.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for name in turns(graphs):
        graph, count = graphs[name]
        times[name].append(1000 * replayed(graph) / count)
    medians = {name: statistics.median(each) for name, each in times.items()}
    found |= {name: round(each, 2) for name, each in medians.items()}
    return found | {
        f"speedup {name}": round(medians["torch"] / each, 2)
        for name, each in medians.items()
        if name != "torch"
    }


def chosen(m: int, n: int, k: int, asymmetric: bool) -> tuple[Any, dict[str, Any]]:
    """The kernel of `weft.matmul_int4` and its meta-parameters."""
    cores = torch.cuda.get_device_properties(0).multi_processor_count
    options = {"group": GROUP, "asymmetric": asymmetric}
    if m <= tiles.FEW_ROWS:
        return few_rows, options | tiles.of_few_rows(m, n, k, GROUP, asymmetric, cores)
    return many_rows, options | tiles.of_many_rows(m, n, k, GROUP, asymmetric, cores)


def copies(bytes_: int) -> int:
    return max(2, math.ceil(BYTES / bytes_))


def weights(n: int, k: int) -> tuple[torch.Tensor, ...]:
    """Random packed weights, scales and zeros: all words are legal."""
    rows, groups = math.ceil(n / 64), math.ceil(k / GROUP)
    packed = torch.randint(-(2**31), 2**31, (rows * math.ceil(k / 64) * 16, 32), device="cuda").int()
    scales = torch.rand(rows, groups * 64, device="cuda").bfloat16() / 64
    zeros = torch.randint(0, 16, (rows, groups * 64), device="cuda").bfloat16()
    return packed, scales, zeros


def graph_of(calls: list[Any]) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of at least 40 calls in turn, and of all of them once, and the number of its calls."""
    count = max(40, len(calls)) if len(calls) > 2 else len(calls) * 4
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in itertools.islice(itertools.cycle(calls), count):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


if __name__ == "__main__":
    main()
