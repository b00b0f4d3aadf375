"""Times attention, forward, by variants of `weft.attend.kernels.forward_fp8` or `forward`, beside
`weft.attention` and cuDNN in bf16, and cuDNN in e4m3 where its Python package is installed, in turns.

    python benchmarks/attention/forward_tiles.py --type e4m3 --d 128 --variant N=160 --variant N=192,slack=0
    python benchmarks/attention/forward_tiles.py --type bf16 --d 64 --causal 1 --variant groups=2

Each shape has 16k tokens, and heads x d = 2048. Prints a line of JSON for each: TFLOP/s of all, and errors as
the root of the mean square relative to that of the output, of three heads: beside float64, and of the same
computation in float32 with shares rounded to e4m3 ("plain").
"""

import ast
import json
import sys
from typing import Any

import cudnn_fp8
import torch
from forward import BACKENDS, TOKENS, WIDTH, in_turns, queued, theirs
from operators import of_dequantized

import weft
from weft.attend import tiles
from weft.attend.kernels.forward import forward
from weft.attend.kernels.forward_fp8 import forward_fp8
from weft.bench import scripts
from weft.errors import WeftError


def main() -> None:
    parser = scripts.parser(__doc__)
    parser.add_argument("--type", default="e4m3", choices=["e4m3", "bf16"])
    parser.add_argument("--d", type=int, nargs="*", default=[128])
    parser.add_argument("--s", type=int, nargs="*", default=[4096])
    parser.add_argument("--causal", type=int, nargs="*", choices=[0, 1], default=[0, 1])
    parser.add_argument("--variant", action="append", default=[], help="such as N=192,slack=0")
    options = scripts.parsed(parser)
    for d in options.d:
        for causal in map(bool, options.causal):
            for s in options.s:
                print(json.dumps(measured(options.type, d, s, causal, options.variant)), flush=True)


def measured(kind: str, d: int, s: int, causal: bool, variants: list[str]) -> dict[str, Any]:
    """TFLOP/s of every variant of one shape, and errors."""
    torch.manual_seed(0)
    batch, heads = TOKENS // s, WIDTH // d
    q, k, v = (torch.randn(batch, heads, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    inputs = [q, k, v] if kind == "bf16" else [each.to(torch.float8_e4m3fn) for each in (q, k, v)]
    found: dict[str, Any] = {"type": kind, "d": d, "s": s, "causal": causal}
    calls: dict[str, Any] = {"weft bf16": lambda: weft.attention(q, k, v, causal=causal)}
    calls["cudnn bf16"], _ = theirs(q, k, v, causal, BACKENDS["cudnn"])
    wanted, plain = of_dequantized(inputs, causal)
    if kind == "e4m3":
        found["error plain"] = difference(plain, wanted)
        others, failed = cudnn_fp8.calls([inputs], causal)
        found |= failed
        for name, call in others.items():
            call()
            calls[name], found[f"error {name}"] = call, difference(some_heads(call.output()), wanted)
    for text in variants:
        try:
            calls[text], out = ours(inputs, causal, meta_of(text))
        except WeftError as error:
            found[text] = str(error).splitlines()[0][:200]
            continue
        found[f"error {text}"] = difference(some_heads(out), wanted)
    work = 4 * s * s * d * heads * batch / (2 if causal else 1)
    for name, milliseconds in in_turns(calls).items():
        found[name] = round(work / milliseconds / 1e9, 1)
    return found


def some_heads(out: torch.Tensor) -> torch.Tensor:
    """The first, middle and last head."""
    count = out.shape[0] * out.shape[1]
    return out.reshape(count, *out.shape[2:])[sorted({0, count // 2, count - 1})]


def meta_of(text: str) -> dict[str, Any]:
    """Meta-parameters from `N=64,registers=240/24`."""
    pairs = (each.split("=") for each in text.split(",") if each)
    return {name: ast.literal_eval(value.replace("/", ",")) for name, value in pairs}


def difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(f"{((got.double() - wanted).square().mean() / wanted.square().mean()).sqrt():.2e}")


def ours(arrays: list[torch.Tensor], causal: bool, meta: dict[str, Any]) -> tuple[Any, torch.Tensor]:
    q, k, v = arrays
    d, o = q.shape[-1], torch.zeros(q.shape, device="cuda", dtype=torch.bfloat16)
    lse, none = torch.zeros(q.shape[:3], device="cuda"), torch.zeros(1, device="cuda", dtype=torch.int32)
    one = torch.ones(1, q.shape[1], device="cuda")
    numbers = (d**-0.5, 0.0, 0, 0)
    flags = {"rights": causal}
    launch: Any
    if q.dtype == torch.bfloat16:
        chosen = tiles.forward(d, d, q.shape[2], causal=causal, window=False)
        chosen |= (tiles.causal_order(chosen, q.shape[2], q.shape[2]) if causal else {}) | flags | meta
        added = (none, none, none, none[None], none.float())
        launch = forward.prepare(q, k, v, *added, o, lse, *numbers, **chosen)
    else:
        chosen = (
            tiles.forward_fp8(d, d, q.shape[2], causal=causal, window=False)
            | {"paired": causal}
            | flags
            | meta
        )
        added = (none, none, none, one, one, one, one[0])
        launch = forward_fp8.prepare(q, k, v, *added, o, lse, *numbers, **chosen)
    call = queued(launch)
    call()
    torch.cuda.synchronize()
    kept = arrays, added, o, lse  # capturing a graph unmaps freed memory, to which the launch would write
    return lambda kept=kept: call(), o


if __name__ == "__main__":
    sys.exit(main())
