"""Times single linear layers, forward and backward: PyTorch's in bf16, and Weft's in bf16 and in fp8.

Prints a line of JSON for each, in milliseconds (medians of rounds in turns), with the error of the weight's
gradient in fp8, relative to PyTorch's:

    python benchmarks/torch/fp8_layers.py
"""

import json

import torch
from llama_block import step, time

import weft.nn

TOKENS, SIZES = 8192, ((4096, 14336), (14336, 4096), (4096, 4096))


def main() -> None:
    made = {"bias": False, "device": "cuda", "dtype": torch.bfloat16}
    for k, n in SIZES:
        torch.manual_seed(0)
        theirs = torch.nn.Linear(k, n, **made)
        ours, fp8 = weft.nn.Linear(k, n, **made), weft.nn.Linear(k, n, **made, fp8="tensorwise")
        for each in (ours, fp8):
            each.load_state_dict(theirs.state_dict())
        x = torch.randn(TOKENS, k, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        gradient = torch.randn(TOKENS, n, device="cuda", dtype=torch.bfloat16)

        def run(layer, x=x, gradient=gradient):  # type: ignore[no-untyped-def]
            return lambda: step(layer, x, gradient)

        found = time([run(each) for each in (theirs, ours, fp8)])
        wanted = theirs.weight.grad.float()
        error = (fp8.weight.grad.float() - wanted).norm() / wanted.norm()
        names = ("torch_bf16", "weft_bf16", "weft_fp8")
        figures = {name: round(ms, 3) for name, ms in zip(names, found, strict=True)}
        print(json.dumps({"k": k, "n": n, **figures, "error": round(float(error), 4)}), flush=True)


if __name__ == "__main__":
    main()
