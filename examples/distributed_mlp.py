"""A layer of a transformer over all GPUs of a host: run with

    torchrun --nproc-per-node 2 examples/distributed_mlp.py

Each GPU has some of the tokens, some columns of the first matrix and the same rows of the second. The result
is compared with that of PyTorch.
"""

import argparse
import os

import torch
from torch import distributed

import weft
from weft.distributed import Team, all_gather_matmul, matmul_reduce_scatter

TOKENS, MODEL, HIDDEN = 2048, 4096, 14336


def main() -> None:
    """The program of one GPU."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl", device_id=device)
    team = Team()
    torch.manual_seed(team.rank)
    rows = torch.randn(TOKENS // team.size, MODEL, device=device).bfloat16()
    up = (torch.randn(HIDDEN // team.size, MODEL, device=device) / MODEL**0.5).bfloat16()
    down = (torch.randn(MODEL, HIDDEN // team.size, device=device) / HIDDEN**0.5).bfloat16()

    relu = weft.Epilogue(activation="relu")
    hidden = all_gather_matmul(rows, up, team=team, transpose_b=True, epilogue=relu)
    out = matmul_reduce_scatter(hidden, down, team=team, transpose_b=True)

    whole = torch.empty(TOKENS, MODEL, device=device, dtype=rows.dtype)
    torch.cuda.synchronize()
    distributed.all_gather_into_tensor(whole, rows)
    partial = torch.relu(whole @ up.T) @ down.T
    wanted = torch.empty_like(out)
    distributed.reduce_scatter_tensor(wanted, partial)
    worst = (out.float() - wanted.float()).abs().max().item()
    print(f"rank {team.rank}: {tuple(out.shape)}, differs from PyTorch by at most {worst:.3g}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    if "LOCAL_RANK" not in os.environ:
        raise SystemExit(f"start it by torchrun: torchrun --nproc-per-node 2 {__file__}")
    if not torch.cuda.is_available():
        raise SystemExit("distributed_mlp.py needs a GPU for each process")
    main()
