"""Times variants of attention's backward pass, cuDNN's and FlashAttention 4's, where it is installed, on a
GPU, and compares the results of the variants.

    python benchmarks/attention/backward_tiles.py --d 128 --s 4096 --variant N=64

Each shape has 16k tokens, and heads x d = 2048. Prints a line of JSON for each shape and variant: TFLOP/s of
the whole pass, milliseconds of each of its kernels, and the largest difference of each gradient from that of
the deterministic kernels, relative to its largest element.
"""

import argparse
import ast
import functools
import json
import statistics
import time
from typing import Any

import torch
from forward import TOKENS, WIDTH
from operators import implementations

import weft
from weft.attend import gradients, tiles
from weft.attend.launches import Call
from weft.attend.problem import Options
from weft.bench import scripts

REPEATS = 5


def parsed() -> argparse.Namespace:
    parser = scripts.parser(__doc__)
    parser.add_argument("--d", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--s", type=int, nargs="*", default=[4096])
    parser.add_argument("--causal", type=int, nargs="*", choices=[0, 1], default=[0, 1])
    parser.add_argument("--variant", action="append", default=[], help="such as N=64")
    return scripts.parsed(parser)


def variant_of(text: str) -> dict[str, Any]:
    pairs = (each.split("=") for each in text.split(",") if each)
    return {name: ast.literal_eval(value) for name, value in pairs}


_adding = tiles.adding


def chosen(variant: dict[str, Any]) -> None:
    """Lets the kernel that adds in memory have these meta-parameters."""

    def adding(*sizes: int, **options: Any) -> dict[str, Any] | None:
        found = _adding(*sizes, **options)
        return None if found is None else found | variant

    tiles.adding = adding


def milliseconds(call: Any) -> float:
    """The median time of a call on the GPU."""
    times = []
    for _ in range(REPEATS):
        time.sleep(0.01)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        call()
        start.record()
        for _ in range(4):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 4)
    return statistics.median(times)


def kernels(given: dict[str, Any], options: Options, *outs: Any) -> dict[str, float]:
    """Milliseconds of each kernel of a call."""
    events: list[tuple[str, Any, Any]] = []

    def launch(kernel: Any, *arguments: Any, **meta: Any) -> None:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        kernel(*arguments, **meta)
        start.record()
        kernel(*arguments, **meta)
        end.record()
        events.append((kernel.__name__, start, end))

    gradients.backward(Call.of(given, options, launch), *outs)
    torch.cuda.synchronize()
    return {name: round(start.elapsed_time(end), 3) for name, start, end in events}


def main() -> None:
    options = parsed()
    for d in options.d:
        for causal in map(bool, options.causal):
            for s in options.s:
                measure(d, causal, s, options.variant)


def measure(d: int, causal: bool, s: int, variants: list[str]) -> None:
    torch.manual_seed(0)
    shape = (TOKENS // s, WIDTH // d, s, d)
    q, k, v, d_out = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    work = 4 * s * TOKENS * WIDTH / (2 if causal else 1) * 2.5 / 1e9
    out, lse = weft.attention(q, k, v, causal=causal, return_lse=True)
    inputs = [each.detach().requires_grad_() for each in (q, k, v)]
    shown, others = {"d": d, "causal": causal, "s": s}, dict[str, float]()
    for name in {"cudnn", "fa4"} & implementations().keys():
        theirs = implementations()[name](*inputs, causal)
        call = functools.partial(torch.autograd.grad, theirs, inputs, d_out, retain_graph=True)
        others[name] = round(work / milliseconds(call), 1)
    print(json.dumps(shown | others), flush=True)
    given = {"q": q, "k": k, "v": v}
    plain: dict[str, Any] = {"causal": causal, "scale": None, "window": None, "softcap": None}
    wanted: Any = None
    for text in dict.fromkeys(["deterministic", "", *variants]):
        how = Options.of(**plain, layout="bhtd", deterministic=text == "deterministic")
        chosen({} if how.deterministic else variant_of(text))
        try:
            got = gradients.backward(Call.of(given, how), out, lse, d_out)[:3]
            torch.cuda.synchronize()
            wanted = wanted or got
            errors = [
                float(f"{((a.float() - b.float()).abs().max() / b.float().abs().max()).item():.2g}")
                for a, b in zip(got, wanted, strict=True)
            ]
            call = functools.partial(gradients.backward, Call.of(given, how), out, lse, d_out)
            found = {"TFLOP/s": round(work / milliseconds(call), 1), "errors": errors}
            found["ms"] = kernels(given, how, out, lse, d_out)
        except (weft.WeftError, RuntimeError) as error:
            found = {"failed": str(error)[:300]}
        print(json.dumps(shown | {"variant": text} | found), flush=True)


if __name__ == "__main__":
    main()
