"""Trains a small transformer whose layers are divided among the GPUs of a host: run with

    torchrun --nproc-per-node 2 examples/distributed_training.py

Without GPUs, the processes meet through gloo and the emulator multiplies; use few steps then. Each rank has
some of the positions of all sequences, and within a block some of the heads and features of all positions.
"""

import argparse
import os
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional

from weft.distributed import Team
from weft.nn import ColumnParallelLinear, RowParallelLinear

TOKENS = 64  # different ones
CLASSES = 4  # of a token, as far as the token after the next one depends on it
NOISE = 0.1  # of tokens that don't depend on others


class Block(nn.Module):
    """Attention and an MLP. Tensors are positions x sequences x features."""

    def __init__(self, features: int, heads: int, team: Team) -> None:
        super().__init__()
        self.heads = heads // team.size
        self.before_attention, self.before_mlp = nn.LayerNorm(features), nn.LayerNorm(features)
        self.queries_keys_values = ColumnParallelLinear(features, 3 * features, team=team)
        self.projection = RowParallelLinear(features, features, team=team)
        self.up = ColumnParallelLinear(features, 4 * features, team=team, activation="relu")
        self.down = RowParallelLinear(4 * features, features, team=team)

    def forward(self, x: Any) -> Any:
        """Some positions, to the same."""
        # All positions and this rank's heads, each with its query, key and value.
        qkv = self.queries_keys_values(self.before_attention(x)).unflatten(-1, (self.heads, 3, -1))
        q, k, v = (each.permute(1, 2, 0, 3) for each in qkv.unbind(3))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.permute(2, 0, 1, 3).flatten(2))
        return x + self.down(self.up(self.before_mlp(x)))


class Model(nn.Module):
    """Predicts the token that follows each one."""

    def __init__(self, length: int, features: int, heads: int, blocks: int, team: Team) -> None:
        super().__init__()
        self.team = team
        self.tokens, self.positions = nn.Embedding(TOKENS, features), nn.Embedding(length, features)
        self.blocks = nn.Sequential(*[Block(features, heads, team) for _ in range(blocks)])
        self.head = nn.Linear(features, TOKENS)

    def forward(self, tokens: Any) -> Any:
        """Logits of this rank's positions, from their tokens."""
        own = torch.arange(len(tokens), device=tokens.device) + len(tokens) * self.team.rank
        return self.head(self.blocks(self.tokens(tokens) + self.positions(own)[:, None]))

    def undivided(self) -> list[Any]:
        """The parameters that are the same on all ranks, and see only this rank's positions. The biases of
        `RowParallelLinear` have the gradient of all positions already.
        """
        divided = (ColumnParallelLinear, RowParallelLinear)
        modules = [each for each in self.modules() if not isinstance(each, divided)]
        return [parameter for each in modules for parameter in each.parameters(recurse=False)]


def batch(table: Any, length: int, sequences: int) -> tuple[Any, Any]:
    """Sequences, and what follows each of their tokens: mostly what a table has for the last two tokens."""
    device, classes = table.device, len(table)
    tokens = torch.randint(TOKENS, (2, sequences), device=device)
    for _ in range(length - 1):
        following = table[tokens[-2] % classes, tokens[-1]]
        others = torch.randint(TOKENS, (sequences,), device=device)
        is_other = torch.rand(sequences, device=device) < NOISE
        tokens = torch.cat([tokens, torch.where(is_other, others, following)[None]])
    return tokens[:-1], tokens[1:]


def train(options: argparse.Namespace, device: Any) -> None:
    """The program of one rank."""
    team = Team()
    torch.manual_seed(0)  # the same numbers on all ranks, of which layers keep their parts
    model = Model(options.length, options.features, options.heads, options.blocks, team).to(device)
    run = torch.compile(model, fullgraph=True) if options.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    table = torch.randint(TOKENS, (CLASSES, TOKENS), device=device)
    for step in range(options.steps):
        tokens, following = batch(table, options.length, options.sequences)
        own = slice(*(options.length * rank // team.size for rank in (team.rank, team.rank + 1)))
        with torch.autocast(device.type, torch.bfloat16):
            logits = run(tokens[own])
        loss = functional.cross_entropy(
            logits.flatten(0, 1).float(), following[own].flatten(), reduction="sum"
        )
        loss = loss / following.numel()  # the losses of all ranks add up to the mean of all tokens
        optimizer.zero_grad()
        loss.backward()
        whole = loss.detach().clone()
        for each in (whole, *[parameter.grad for parameter in model.undivided()]):
            distributed.all_reduce(each)
        optimizer.step()
        if team.rank == 0:
            print(f"step {step}: loss {whole.item():.4f}", flush=True)


def main() -> None:
    """Reads the options, and trains."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description="Trains a small transformer on all GPUs of a host.")
    sizes = {"steps": (100, 3), "length": (1024, 16), "sequences": (8, 4)}
    sizes |= {"features": (1024, 32), "heads": (16, 4), "blocks": (4, 1)}
    for name, of_device in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=of_device[not on_gpu])
    parser.add_argument("--rate", type=float, default=3e-4 if on_gpu else 1e-2)
    parser.add_argument("--compile", action="store_true", help="run the model by torch.compile")
    options = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        parser.exit(1, f"start it by torchrun: torchrun --nproc-per-node 2 {__file__}\n")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        distributed.init_process_group("nccl", device_id=device)
    else:
        distributed.init_process_group("gloo")
    train(options, device)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
