"""Times attention, forward, of `examples/attention.py` beside PyTorch's backends of
`scaled_dot_product_attention`, in turns, in CUDA graphs, each replay after a rest.

    python benchmarks/attention/forward.py        # bf16, d64 and d128, s 512 to 16k, causal and not
    python benchmarks/attention/forward.py --d 128 --s 4096 --variant N=176 --variant alternate=False

Each shape has 16k tokens, and heads x d = 2048. Prints a line of JSON for each: TFLOP/s of all, Weft's error
against float64 and that of PyTorch's in the same precision, relative to the largest element, and at the end
the geometric means of the ratios.
"""

import argparse
import ast
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from weft.bench import scripts
from weft.errors import WeftError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from attention import attention, best

TOKENS, WIDTH = 16384, 2048
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
REST, REPLAYS = 0.012, 9


def parsed() -> argparse.Namespace:
    parser = scripts.parser(__doc__)
    parser.add_argument("--d", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--s", type=int, nargs="*", default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--causal", type=int, nargs="*", choices=[0, 1], default=[0, 1])
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16"])
    parser.add_argument("--variant", action="append", default=[], help="such as N=64,groups=3")
    parser.add_argument("--skip-check", action="store_true")
    return scripts.parsed(parser)


def main() -> None:
    options = parsed()
    variants = ["", *options.variant]
    ratios: dict[str, list[float]] = {}
    for d in options.d:
        for causal in map(bool, options.causal):
            for s in options.s:
                found = measured(
                    d, s, causal, getattr(torch, options.dtype), variants, not options.skip_check
                )
                print(json.dumps(found), flush=True)
                for name in BACKENDS:
                    if name in found and "weft" in found:
                        ratios.setdefault(name, []).append(found["weft"] / found[name])
    for name, each in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, each)))
        print(json.dumps({"to": name, "mean": round(mean, 3), "least": round(min(each), 3)}), flush=True)


def measured(
    d: int, s: int, causal: bool, dtype: torch.dtype, variants: list[str], checks: bool
) -> dict[str, Any]:
    """TFLOP/s of every implementation of one shape, and errors."""
    torch.manual_seed(0)
    batch, heads = TOKENS // s, WIDTH // d
    q, k, v = (torch.randn(batch, heads, s, d, device="cuda", dtype=dtype) for _ in range(3))
    calls: dict[str, Any] = {}
    outputs: dict[str, torch.Tensor] = {}
    found: dict[str, Any] = {"d": d, "s": s, "causal": causal}
    for text in variants:
        name = f"weft {text}".strip()
        try:
            calls[name], outputs[name] = ours(q, k, v, causal, meta_of(text))
        except WeftError as error:
            found[name] = str(error).splitlines()[0][:200]
    for name, backend in BACKENDS.items():
        try:
            calls[name], outputs[name] = theirs(q, k, v, causal, backend)
        except RuntimeError as error:
            found[name] = str(error).splitlines()[0][:200]
    work = 4 * s * s * d * heads * batch / (2 if causal else 1)
    for name, milliseconds in in_turns(calls).items():
        found[name] = round(work / milliseconds / 1e9, 1)
    if checks:
        found |= errors(q, k, v, causal, outputs)
    return found


def meta_of(text: str) -> dict[str, Any]:
    """Meta-parameters from `N=64,groups=3`."""
    pairs = (each.split("=") for each in text.split(",") if each)
    return {name: ast.literal_eval(value) for name, value in pairs}


def ours(q: Any, k: Any, v: Any, causal: bool, meta: dict[str, Any]) -> tuple[Any, torch.Tensor]:
    o = torch.zeros_like(q)
    lse = torch.zeros(q.shape[:3], device="cuda")
    flat = [each.view(-1, *each.shape[2:]) for each in (q, k, v, o)]
    meta = best(q.shape[-1], q.shape[-2], causal) | meta
    launch = attention.prepare(*flat, lse.view(-1, lse.shape[-1]), q.shape[-1] ** -0.5, causal=causal, **meta)

    def call(kept: Any = (o, lse)) -> None:  # arrays must outlive their launches
        launch.launch(torch.cuda.current_stream().cuda_stream)

    call()
    torch.cuda.synchronize()
    return call, o


def theirs(q: Any, k: Any, v: Any, causal: bool, backend: Any) -> tuple[Any, torch.Tensor]:
    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call, call()


def in_turns(calls: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of each call in a graph: medians of replays in turns."""
    graphs = {name: graph_of(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for name in turns(graphs):
        graph, count = graphs[name]
        times[name].append(replayed(graph) / count)
    return {name: statistics.median(each) for name, each in times.items()}


def turns(names: Iterable[str]) -> Iterator[str]:
    """All names, `REPLAYS` times, each time in another random order: what runs before a call changes its time
    by up to 5%, since the GPU lowers its clock after calls that need much power.
    """
    generator, each = random.Random(0), list(names)
    for _ in range(REPLAYS):
        yield from generator.sample(each, len(each))


def queued(launch: Any) -> Any:
    """A call of a prepared launch on PyTorch's current stream."""
    return lambda: launch.launch(torch.cuda.current_stream().cuda_stream)


def graph_of(call: Any, stream: Any = None) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of calls that takes about 1.5 ms, and the number of its calls, captured from a stream: PyTorch
    queues gradients on that of their outputs.
    """
    stream = stream or torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    count = max(2, math.ceil(1.5 / max(start.elapsed_time(end), 0.01)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


def replayed(graph: torch.cuda.CUDAGraph) -> float:
    """Milliseconds of a replay, after a rest and an untimed one."""
    time.sleep(REST)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def errors(q: Any, k: Any, v: Any, causal: bool, outputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The largest errors of the first, middle and last head against float64, relative to its largest element;
    that of PyTorch's own operations in the same precision as "plain".
    """
    count = q.shape[0] * q.shape[1]
    chosen = sorted({0, count // 2, count - 1})
    flat = [each.reshape(count, *each.shape[2:])[chosen] for each in (q, k, v)]
    wanted, plain = (
        reference(*(each.to(kind) for each in flat), causal) for kind in (torch.float64, q.dtype)
    )
    largest = wanted.abs().max()
    result = {"error plain": float((plain - wanted).abs().max() / largest)}
    for name, output in outputs.items():
        got = output.reshape(count, *output.shape[2:])[chosen].double()
        result[f"error {name}"] = float((got - wanted).abs().max() / largest)
    return {name: float(f"{value:.2e}") for name, value in result.items()}


def reference(q: Any, k: Any, v: Any, causal: bool) -> torch.Tensor:
    s = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    if causal:
        s = s.masked_fill(torch.ones(s.shape[1:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
    return torch.softmax(s, 2) @ v


if __name__ == "__main__":
    main()
