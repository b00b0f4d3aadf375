"""Times single linear layers, forward and backward: PyTorch's in bf16, and Weft's in bf16 and in fp8, with
scales of tensors and of rows.

Prints a line of JSON for each, in milliseconds (medians of rounds in turns), with the errors of the weight's
gradients in fp8, relative to PyTorch's:

    python benchmarks/torch/fp8_layers.py
"""

import json
import statistics

import torch
from llama_block import step, time

import weft.nn
from weft.bench import scripts

RECIPES = ("tensorwise", "rowwise")
TOKENS, SIZES = 8192, ((4096, 14336), (14336, 4096), (4096, 4096))


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    made = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
    for k, n in SIZES:
        torch.manual_seed(0)
        theirs = torch.nn.Linear(k, n, **made)
        ours = weft.nn.Linear(k, n, **made)
        fp8 = [weft.nn.Linear(k, n, **made, fp8=recipe) for recipe in RECIPES]
        for each in (ours, *fp8):
            each.load_state_dict(theirs.state_dict())
        x = torch.randn(TOKENS, k, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        gradient = torch.randn(TOKENS, n, device="cuda", dtype=torch.bfloat16)

        def run(layer, x=x, gradient=gradient):  # type: ignore[no-untyped-def]
            return lambda: step(layer, x, gradient)

        found = time([run(each) for each in (theirs, ours, *fp8)])
        wanted = theirs.weight.grad.float()
        names = ("torch_bf16", "weft_bf16", *(f"weft_{recipe}" for recipe in RECIPES))
        figures = {name: round(statistics.median(ms), 3) for name, ms in zip(names, found, strict=True)}
        for recipe, layer in zip(RECIPES, fp8, strict=True):
            error = (layer.weight.grad.float() - wanted).norm() / wanted.norm()
            figures[f"error_{recipe}"] = round(float(error), 4)
        print(json.dumps({"k": k, "n": n, **figures}), flush=True)


if __name__ == "__main__":
    main()
