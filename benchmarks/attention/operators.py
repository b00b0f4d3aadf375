"""Times `weft.attention` beside cuDNN, PyTorch's FlashAttention and, where installed, FlashAttention 3 and
4: forward, backward and decoding, in turns, each call with other arrays.

    python benchmarks/attention/operators.py forward backward fp8 decode host
    python benchmarks/attention/operators.py backward --d 128 --s 4096 --causal 1

Forward and backward have 16k tokens, and heads x d = 2048. Prints a line of JSON for each shape, in TFLOP/s
(backward: 2.5 times the work of forward), or GB/s of keys and values for decoding, and at the end the
geometric means of the ratios. Calls are in CUDA graphs; of backward also between events, which includes the
time of the CPU where it is the longer one. `host` prints microseconds of the CPU for a call.
"""

import argparse
import functools
import json
import math
import statistics
import time
from collections.abc import Callable, Collection
from typing import Any

import cudnn_fp8
import torch
from forward import BACKENDS, TOKENS, WIDTH, graph_of, replayed, turns
from torch.nn.attention import sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import weft
from weft.bench import scripts

MODULES = {"fa3": "flash_attn_interface", "fa4": "flash_attn.cute"}
SETS = 3  # of arrays, so that none is in L2 from the call before
EVENTS = " between events"

Attention = Callable[..., torch.Tensor]


def parsed() -> argparse.Namespace:
    parser = scripts.parser(__doc__)
    parser.add_argument("what", nargs="*", default=["forward"], help="forward, backward, fp8, decode, host")
    parser.add_argument("--d", type=int, nargs="*", default=[64, 128, 256])
    parser.add_argument("--s", type=int, nargs="*", default=[1024, 4096, 16384])
    parser.add_argument("--causal", type=int, nargs="*", choices=[0, 1], default=[0, 1])
    parser.add_argument("--keys", type=int, nargs="*", default=[8192, 32768, 131072])
    parser.add_argument(
        "--against", nargs="*", choices=[*BACKENDS, *MODULES], help="default: all that are there"
    )
    return scripts.parsed(parser)


def implementations(against: Collection[str] | None = None) -> dict[str, Attention]:
    """Functions of q, k, v (batch, heads, tokens, size) and causal: Weft's and those `against` it, or all."""
    found: dict[str, Attention] = {"weft": lambda q, k, v, causal: weft.attention(q, k, v, causal=causal)}
    for name, backend in BACKENDS.items():
        found[name] = functools.partial(_of_pytorch, backend)
    for name, module in MODULES.items():
        try:
            function = __import__(module, fromlist=["flash_attn_func"]).flash_attn_func
        except ImportError:
            continue
        found[name] = functools.partial(_of_flash, function)
    return {n: each for n, each in found.items() if against is None or n in ("weft", *against)}


def _of_pytorch(backend: Any, q: Any, k: Any, v: Any, causal: bool) -> torch.Tensor:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def _of_flash(function: Any, q: Any, k: Any, v: Any, causal: bool) -> torch.Tensor:
    turned = (each.transpose(1, 2) for each in (q, k, v))
    out = function(*turned, causal=causal)
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


def arrays(shapes: list[tuple[int, ...]], grad: bool) -> list[list[torch.Tensor]]:
    """Several sets of random arrays."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16, "requires_grad": grad}
    return [[torch.randn(shape, **options) for shape in shapes] for _ in range(SETS)]


def timed(
    calls: dict[str, Callable[[int], Any]], graphs: bool = True, stream: Any = None
) -> dict[str, float | str]:
    """Milliseconds of each call with a number, in turns, in graphs of `stream`; or why it failed."""
    found: dict[str, float | str] = {}
    runs = dict[str, Callable[[], float]]()
    for name, call in calls.items():
        try:
            call(0)
            runs[name] = _replays(call, stream) if graphs else functools.partial(_between_events, call)
        except (RuntimeError, weft.WeftError, AssertionError, TypeError, ValueError) as error:
            found[name] = str(error).splitlines()[0][:160]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for name in turns(runs):
        times[name].append(runs[name]())
    return found | {name: statistics.median(each) for name, each in times.items()}


def _replays(call: Callable[[int], Any], stream: Any) -> Callable[[], float]:
    def all_sets() -> None:
        for number in range(SETS):
            call(number)

    graph, count = graph_of(all_sets, stream)
    return lambda: replayed(graph) / count / SETS


def _between_events(call: Callable[[int], Any]) -> float:
    time.sleep(0.012)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call(0)
    start.record()
    for number in range(2 * SETS):
        call(number % SETS)
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / (2 * SETS)


def forward(options: argparse.Namespace, d: int, causal: bool, s: int) -> dict[str, Any]:
    sets = arrays([(TOKENS // s, WIDTH // d, s, d)] * 3, False)
    calls = {
        name: lambda number, each=each: each(*sets[number], causal)
        for name, each in implementations(options.against).items()
    }
    with torch.no_grad():
        return timed(calls)


def backward(options: argparse.Namespace, d: int, causal: bool, s: int) -> dict[str, Any]:
    """The backward pass alone, of outputs that are kept."""
    shape = (TOKENS // s, WIDTH // d, s, d)
    sets, gradients = arrays([shape] * 3, True), arrays([shape], False)
    calls: dict[str, Callable[[int], Any]] = {}
    failed: dict[str, str] = {}
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for name, each in implementations(options.against).items():
        try:
            with torch.cuda.stream(stream):
                outs = [each(*inputs, causal) for inputs in sets]
        except (RuntimeError, weft.WeftError, AssertionError) as error:
            failed[name] = str(error).splitlines()[0][:160]
            continue

        def call(number: int, outs: Any = outs) -> Any:
            gradient = gradients[number][0]
            return torch.autograd.grad(outs[number], sets[number], gradient, retain_graph=True)

        calls[name] = call
    torch.cuda.synchronize()
    found = failed | timed(calls, stream=stream)
    with torch.cuda.stream(stream):
        between = timed(calls, graphs=False)
    return found | {f"{name}{EVENTS}": time_ for name, time_ in between.items()}


def fp8(options: argparse.Namespace, d: int, causal: bool, s: int) -> dict[str, Any]:
    """Forward of e4m3, with a scale of each head, beside all implementations in bf16, and beside cuDNN's of
    e4m3 where its Python package is installed: PyTorch has no others.
    """
    shape = (TOKENS // s, WIDTH // d, s, d)
    sets = arrays([shape] * 3, False)
    bytes_ = [[each.to(torch.float8_e4m3fn) for each in inputs] for inputs in sets]
    scales = {f"{name}_scale": torch.ones(WIDTH // d, device="cuda") for name in "qkv"}
    calls: dict[str, Callable[[int], Any]] = {
        f"{name} bf16": lambda number, each=each: each(*sets[number], causal)
        for name, each in implementations(options.against).items()
    }
    calls["weft"] = lambda number: weft.attention(*bytes_[number], **scales, causal=causal)
    others, failed = cudnn_fp8.calls(bytes_, causal)
    with torch.no_grad():
        return timed(calls | others) | failed


def of_dequantized(arrays: Any, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the first, middle and last head of arrays of e4m3: in float64, and in float32 with shares
    rounded to e4m3.
    """
    count = arrays[0].shape[0] * arrays[0].shape[1]
    chosen = sorted({0, count // 2, count - 1})
    results = []
    for dtype in (torch.float64, torch.float32):
        q, k, v = (each.reshape(count, *each.shape[2:])[chosen].to(dtype) for each in arrays)
        scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
        if causal:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        shares = (scores - scores.amax(2, keepdim=True)).exp()
        total = shares.sum(2, keepdim=True)
        if dtype == torch.float32:
            shares = (shares * 256).to(torch.float8_e4m3fn).to(dtype) / 256
        results.append(shares @ v / total)
    return results[0], results[1]


def decode(options: argparse.Namespace, d: int, keys: int) -> dict[str, Any]:
    """One query of 32 heads and 4 heads of keys, for 4 sequences."""
    sets = arrays([(4, 32, 1, d), (4, 4, keys, d), (4, 4, keys, d)], False)
    calls = {
        name: lambda number, each=each: each(*sets[number], False)
        for name, each in implementations(options.against).items()
    }
    calls["copy"] = lambda number: [each.clone() for each in sets[number][1:]]
    with torch.no_grad():
        found = timed(calls)
    amount = 2 * 4 * 4 * keys * d * 2 / 1e6
    rates = {name: each if isinstance(each, str) else round(amount / each) for name, each in found.items()}
    if not isinstance(rates["copy"], str):
        rates["copy"] *= 2  # which reads and writes
    return rates


def host(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds that the CPU spends in a call that is queued after others, forward and backward."""
    (inputs, *_), result = arrays([(1, 4, 128, 64)] * 3, True), {}
    for name, each in implementations(options.against).items():
        try:
            with torch.no_grad():
                result[name] = _microseconds(functools.partial(each, *inputs, True))
            out = each(*inputs, True)
            of_out = torch.ones_like(out)
            grad = functools.partial(torch.autograd.grad, retain_graph=True)
            result[f"{name} backward"] = _microseconds(functools.partial(grad, out, inputs, of_out))
        except (RuntimeError, weft.WeftError, AssertionError, TypeError, ValueError):
            continue
    return result


def _microseconds(call: Callable[[], Any]) -> float:
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(300):
        call()
    found = round((time.perf_counter() - start) / 300 * 1e6, 1)
    torch.cuda.synchronize()
    return found


def main() -> None:
    options = parsed()
    ratios: dict[str, list[float]] = {}
    for what in options.what:
        if what == "host":
            print(json.dumps({"what": what, "us": host(options)}), flush=True)
        if what == "decode":
            for d in options.d:
                for keys in options.keys:
                    found = decode(options, d, keys)
                    print(json.dumps({"what": what, "d": d, "keys": keys, "GB/s": found}), flush=True)
        if what not in ("forward", "backward", "fp8"):
            continue
        for d in options.d:
            for causal in map(bool, options.causal):
                for s in options.s:
                    times = globals()[what](options, d, causal, s)
                    work = 4 * s * TOKENS * WIDTH / (2 if causal else 1) * (2.5 if what == "backward" else 1)
                    found = {
                        n: t if isinstance(t, str) else round(work / t / 1e9, 1) for n, t in times.items()
                    }
                    print(json.dumps({"what": what, "d": d, "causal": causal, "s": s} | found), flush=True)
                    numbers = {n: t for n, t in found.items() if not isinstance(t, str) and EVENTS not in n}
                    for name in numbers.keys() - {"weft"}:
                        if "weft" in numbers:
                            ratio = numbers["weft"] / numbers[name]
                            ratios.setdefault(f"{what} to {name}", []).append(ratio)
    for name, each in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, each)))
        print(json.dumps({name: round(mean, 3), "least": round(min(each), 3)}), flush=True)


if __name__ == "__main__":
    main()
