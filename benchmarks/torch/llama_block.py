"""Times a block of Llama 3 8B, forward and backward in bf16: PyTorch's, one with Weft's layers, and one that
also computes attention by `weft.attention`.

    python benchmarks/torch/llama_block.py > benchmarks/torch/h200-llama-block.json

Each line is one case: milliseconds of a step (medians of rounds in turns), the median and the quartiles of
the ratios of a block with Weft to PyTorch's in one round, and the largest difference of a gradient, relative
to the largest element.
"""

import json
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

import weft
import weft.inductor
import weft.nn
from weft.bench import scripts

WIDTH, INNER, HEADS, GROUPS = 4096, 14336, 32, 8
WARM, ROUNDS, STEPS = 30, 60, 2


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention with rotary positions and grouped queries."""

    def __init__(self, tokens: int, **made: Any) -> None:
        super().__init__()
        self.size = WIDTH // HEADS
        self.qkv = torch.nn.Linear(WIDTH, WIDTH + 2 * GROUPS * self.size, bias=False, **made)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False, **made)
        rates = 500000.0 ** -(torch.arange(0, self.size, 2, device="cuda") / self.size)
        angles = torch.outer(torch.arange(tokens, device="cuda"), rates)
        self.cosines, self.sines = (f(angles).repeat(1, 2).to(torch.bfloat16) for f in (torch.cos, torch.sin))
        self.by_weft = False

    def forward(self, x: Any, residual: Any) -> Any:
        heads = self.qkv(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = heads.split([HEADS, GROUPS, GROUPS], 1)
        q, k = self.turned(q), self.turned(k)
        if self.by_weft:
            found = weft.attention(q, k, v, causal=True)
        else:
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return added(residual, self.out, found.transpose(1, 2).flatten(2))

    def turned(self, x: Any) -> Any:
        low, high = x.chunk(2, -1)
        return x * self.cosines + torch.cat((-high, low), -1) * self.sines


class MLP(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, **made: Any) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(WIDTH, INNER, bias=False, **made)
        self.up = torch.nn.Linear(WIDTH, INNER, bias=False, **made)
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False, **made)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, tokens: int) -> None:
        super().__init__()
        made = {"device": "cuda", "dtype": torch.bfloat16}
        self.attention, self.mlp = Attention(tokens, **made), MLP(**made)
        self.before, self.between = (torch.nn.RMSNorm(WIDTH, eps=1e-5, **made) for _ in range(2))

    def forward(self, x: Any) -> Any:
        x = self.attention(self.before(x), x)
        return added(x, self.mlp, self.between(x))


def added(residual: Any, layer: Any, x: Any) -> Any:
    """The sum of a residual and a layer, which layers of Weft compute themselves."""
    if isinstance(layer, weft.nn.Linear | weft.nn.GatedMLP):
        return layer(x, residual=residual)
    return residual + layer(x)


def by_weft(block: Any, attention: bool) -> Any:
    """A copy of a block with Weft's layers, and its attention."""
    made = Block(block.attention.cosines.shape[0])
    made.load_state_dict(block.state_dict())
    made.attention.by_weft = attention
    made.mlp = weft.nn.GatedMLP.of(made.mlp.gate, made.mlp.up, made.mlp.down)
    return weft.nn.convert(made)


def compiled(block: Any, x: Any, gradient: Any, *, patterns: bool) -> Any:
    """A compiled block, which has run once."""
    (weft.inductor.enable if patterns else weft.inductor.disable)()
    made = torch.compile(block)
    step(block=made, x=x, gradient=gradient)
    return made


def step(block: Any, x: Any, gradient: Any) -> None:
    block.zero_grad()
    x.grad = None
    block(x).backward(gradient)


def time(steps: list[Callable[[], None]]) -> list[list[float]]:
    """Milliseconds of each step in every round, in turns. A GPU at its limit of power changes its clock by
    up to 10 % from second to second, so that only neighbors can be compared.
    """
    for _ in range(WARM):
        for each in steps:
            each()
    torch.cuda.synchronize()
    found: list[list[float]] = [[] for _ in steps]
    for turn in range(ROUNDS):
        marks = {}
        for number in sorted(range(len(steps)), reverse=turn % 2 == 1):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(STEPS):
                steps[number]()
            end.record()
            marks[number] = start, end
        torch.cuda.synchronize()
        for number, (start, end) in marks.items():
            found[number].append(start.elapsed_time(end) / STEPS)
    return found


def difference(x: Any, y: Any) -> float:
    return float((x.float() - y.float()).abs().max() / y.float().abs().max())


def gradients(block: Any, x: Any, gradient: Any) -> list[Any]:
    step(block, x, gradient)
    return [x.grad, block.attention.qkv.weight.grad, block.mlp.down.weight.grad]


def main() -> None:
    parser = scripts.parser(__doc__)
    parser.add_argument("--patterns", action="store_true", help="Weft's blocks with weft.inductor.enable()")
    options = scripts.parsed(parser)
    for batch, tokens in ((1, 8192), (4, 2048)):
        torch.manual_seed(0)
        theirs = Block(tokens)
        blocks = {"layers": by_weft(theirs, False), "layers, attention": by_weft(theirs, True), "": theirs}
        x = torch.randn(batch, tokens, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        gradient = torch.randn_like(x)
        wanted = gradients(theirs, x, gradient)
        apart = {}
        for name, block in blocks.items():
            found = gradients(block, x, gradient)
            apart[name] = max(difference(a, b) for a, b in zip(found, wanted, strict=True))
        del wanted, found
        torch._dynamo.reset()  # the first case's sizes would make those of the second dynamic
        for mode in ("eager", "compiled"):
            if mode == "compiled":
                blocks = {
                    name: compiled(block, x, gradient, patterns=options.patterns and bool(name))
                    for name, block in blocks.items()
                }
            *ours, of_torch = time([partial(step, each, x, gradient) for each in blocks.values()])
            for name, of_weft in zip(blocks, ours, strict=False):
                ratios = sorted(a / b for a, b in zip(of_weft, of_torch, strict=True))
                line = {
                    "gpu": torch.cuda.get_device_name(),
                    "torch": torch.__version__,
                    "batch": batch,
                    "tokens": tokens,
                    "mode": mode,
                    "weft": name,
                    "weft_ms": round(statistics.median(of_weft), 3),
                    "torch_ms": round(statistics.median(of_torch), 3),
                    "ratio": round(statistics.median(ratios), 4),
                    "quartiles": [round(ratios[len(ratios) * i // 4], 4) for i in (1, 3)],
                    "difference": round(apart[name], 5),
                }
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
