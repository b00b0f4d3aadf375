"""Trains a small GPT for 200 steps in bf16, with PyTorch's linear layers and with Weft's: the losses, and
times of a step.

    python benchmarks/torch/train_gpt.py > benchmarks/torch/h200-gpt.json

The text is the source of Python's standard library, by bytes. Parameters are of f32; `torch.autocast` casts
them.
Each line is one case. The noise of a loss is that between two runs of PyTorch with other initial weights.
"""

import json
import statistics
import sysconfig
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import weft.inductor
import weft.nn
from weft.bench import scripts

LAYERS, WIDTH, HEADS, STEPS = 4, 512, 8, 200
SIZES = (
    (32, 512),
    (64, 1024),
)  # sequences of a step and their tokens: the first keeps the host busier than the GPU
LAST = 20  # steps whose mean loss counts


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))


class GPT(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(tokens, WIDTH)
        self.layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 256, bias=False)

    def forward(self, text: Any) -> Any:
        x = self.tokens(text) + self.places.weight
        return self.head(self.norm(self.layers(x)))


def corpus() -> Any:
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in paths)), dtype=torch.uint8)


def train(
    text: Any,
    batch: int,
    tokens: int,
    *,
    weft_layers: bool,
    compiled: bool,
    seed: int = 0,
    patterns: bool = False,
) -> tuple[list[float], float]:
    """The losses, and the median milliseconds of the later half of the steps."""
    torch._dynamo.reset()  # a second case's sizes would be dynamic
    (weft.inductor.enable if weft_layers and patterns else weft.inductor.disable)()
    torch.manual_seed(seed)
    model = GPT(tokens).cuda()
    if weft_layers:
        weft.nn.convert(model)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    draw = torch.Generator().manual_seed(1)
    starts = torch.randint(len(text) - tokens - 1, (STEPS, batch), generator=draw)
    losses, times = [], []
    for start in starts:
        piece = torch.stack([text[i : i + tokens + 1] for i in start.tolist()]).cuda().long()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = run(piece[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), piece[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) * 1e3)
        losses.append(loss.item())
    return losses, statistics.median(times[STEPS // 2 :])


def main() -> None:
    parser = scripts.parser(__doc__)
    parser.add_argument("--patterns", action="store_true", help="Weft's runs with weft.inductor.enable()")
    parser.add_argument("--first", action="store_true", help="the first size only")
    options = scripts.parsed(parser)
    text, mean = corpus(), statistics.mean
    for batch, tokens in SIZES[:1] if options.first else SIZES:
        other, _ = train(text, batch, tokens, weft_layers=False, compiled=False, seed=1)
        for compiled in (False, True):
            runs: dict[bool, list[Any]] = {False: [], True: []}
            for weft_layers in (False, True, True, False):
                which = {"weft_layers": weft_layers, "compiled": compiled, "patterns": options.patterns}
                runs[weft_layers].append(train(text, batch, tokens, **which))
            (ours, of_weft), (theirs, of_torch) = (
                (runs[each][0][0], min(run[1] for run in runs[each])) for each in (True, False)
            )
            line = {
                "gpu": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "batch": batch,
                "tokens": tokens,
                "mode": "compiled" if compiled else "eager",
                "weft_ms": round(of_weft, 3),
                "torch_ms": round(of_torch, 3),
                "ratio": round(of_weft / of_torch, 4),
                "weft_loss": round(mean(ours[-LAST:]), 4),
                "torch_loss": round(mean(theirs[-LAST:]), 4),
                "noise": round(abs(mean(other[-LAST:]) - mean(theirs[-LAST:])), 4),
                "losses": [[round(a, 4), round(b, 4)] for a, b in zip(ours, theirs, strict=True)][::10],
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
