"""Times products of groups of any size, as in a mixture of experts, against PyTorch's grouped_mm in bf16.

    python benchmarks/grouped/ragged.py > benchmarks/grouped/h200-ragged.jsonl

Each line is one product: microseconds of a call (medians of rounds in turns), how many times as long PyTorch
takes in the same round (the median and the quartiles), and both errors, relative to float64. The products are
those of gate and up (`forward`), and of their gradients (`inputs`, `weights`), for the first layer of experts
of four models, with a prefill of 8192 tokens and with 128 tokens of a decoding step. The last line has the
geometric mean of the speeds.
"""

import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import weft
from weft.bench import scripts
from weft.torch import grouped_mm

#           experts, experts of a token, K, N
MODELS = {
    "mixtral": (8, 2, 4096, 28672),
    "qwen3": (128, 8, 2048, 1536),
    "deepseek": (256, 8, 7168, 4096),
    "gpt-oss": (128, 4, 2880, 5760),
}
TOKENS = {"prefill": 8192, "decode": 128}
PRODUCTS = ("forward", "inputs", "weights")
WARM, ROUNDS, CALLS, CHECKED = 5, 40, 5, 4


def ends_of(rows: int, experts: int, seed: int) -> torch.Tensor:
    """Where the rows of each expert end: more for some than for others."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(rows, rng.dirichlet(np.full(experts, 4.0)))
    return torch.from_numpy(counts.cumsum().astype(np.int32)).cuda()


def operands(
    model: str, phase: str, product: str, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The operands of a product, as grouped_mm has them. Weights are N x K, as layers keep them."""
    experts, chosen, k, n = MODELS[model]
    offs = ends_of(rows := TOKENS[phase] * chosen, experts, seed)
    made = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    if product == "weights":
        return made(rows, n).mT, made(rows, k), offs
    weights = made(experts, n, k)
    return (made(rows, k), weights.mT, offs) if product == "forward" else (made(rows, n), weights, offs)


def error(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> float:
    """The norm of the error of some groups, relative to that of their products in float64."""
    apart = size = 0.0
    spans = list(zip([0, *offs.tolist()], offs.tolist(), strict=False))
    for group in np.linspace(0, len(spans) - 1, CHECKED).astype(int):
        part = slice(*spans[group])
        of_rows = b.dim() == 3
        wanted = a[part].double() @ b[group].double() if of_rows else a[:, part].double() @ b[part].double()
        apart += float((found[part if of_rows else group].double() - wanted).square().sum())
        size += float(wanted.square().sum())
    return (apart / size) ** 0.5


def times(calls: list[Callable[[], Any]]) -> list[list[float]]:
    """Microseconds of each call in every round, in turns: a GPU changes its clock from second to second."""
    found: list[list[float]] = [[] for _ in calls]
    for turn in range(WARM + ROUNDS):
        marks = {}
        for number in sorted(range(len(calls)), reverse=turn % 2 == 1):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(CALLS):
                calls[number]()
            end.record()
            marks[number] = start, end
        torch.cuda.synchronize()
        if turn >= WARM:
            for number, (start, end) in marks.items():
                found[number].append(1e3 * start.elapsed_time(end) / CALLS)
    return found


def lines(options: Any) -> Iterator[dict[str, Any]]:
    theirs = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    for model in options.models:
        for phase in options.phases:
            for product in options.products:
                a, b, offs = operands(model, phase, product, options.seed)
                both = [partial(each, a, b, offs=offs) for each in (grouped_mm, theirs)]
                of_weft, of_torch = (error(each(), a, b, offs) for each in both)
                ours, others = times(both)
                ratios = sorted(y / x for x, y in zip(ours, others, strict=True))
                yield {
                    "gpu": torch.cuda.get_device_name(),
                    "torch": torch.__version__,
                    "weft": weft.__version__,
                    "model": model,
                    "phase": phase,
                    "product": product,
                    "experts": len(offs),
                    "rows": int(offs[-1]),
                    "weft_us": round(statistics.median(ours), 2),
                    "torch_us": round(statistics.median(others), 2),
                    "speed": round(statistics.median(ratios), 4),
                    "quartiles": [round(ratios[len(ratios) * i // 4], 4) for i in (1, 3)],
                    "error": of_weft,
                    "torch_error": of_torch,
                }
                del a, b, both


def main() -> None:
    parser = scripts.parser(__doc__)
    for name, each in (("models", MODELS), ("phases", TOKENS), ("products", PRODUCTS)):
        parser.add_argument(f"--{name}", nargs="+", choices=list(each), default=list(each))
    parser.add_argument("--seed", type=int, default=1, help="of the numbers of rows")
    speeds = []
    with torch.no_grad():
        for line in lines(scripts.parsed(parser)):
            speeds.append(line["speed"])
            print(json.dumps(line), flush=True)
    print(json.dumps({"geometric mean": round(statistics.geometric_mean(speeds), 4), "least": min(speeds)}))


if __name__ == "__main__":
    main()
