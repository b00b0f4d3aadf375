"""Times a block with the sizes of Llama 3 8B over several GPUs of one host, forward in bf16, with Weft's
products and with PyTorch's tensor parallelism:

    python benchmarks/distributed/llama_block.py --gpus 2 --out llama_block.jsonl

8192 tokens are divided among the GPUs outside of attention and the MLP, as in training and prefill. 64 are on
all GPUs, and calls are in CUDA graphs. Both sides have the same attention (`--attention torch` is PyTorch's),
one weight for Q, K and V, and one for gate and up. "async" is PyTorch's pipelining of products and
collectives in `torch.compile`, which has patterns for divided tokens.

Starts a process for each GPU. Times are in microseconds: the median over rounds, in turns, of bursts of
calls, in each round that of the slowest rank. Without GPUs, results of small sizes are compared, and nothing
is timed.

`--parts` times what a rank computes of divided tokens: each product with its collective, the same product
alone, by Weft and by cuBLAS, NCCL's collective alone, and what is between products, compiled and in CUDA
graphs. The sum of products alone and of what is between them is the least time of a block whose collectives
are all hidden.
"""

import json
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

# NVLink multicast stays off.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

import torch
from products import GRAPHED, burst, graphed
from torch import distributed
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.distributed.tensor import Shard, init_device_mesh, parallel
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

import weft
from weft.bench import scripts
from weft.distributed import Team, all_gather_matmul, interleaved, matmul_all_reduce, matmul_reduce_scatter

TOKENS = 8192, 64
DIVIDED = 1024  # tokens, at least, that are divided among the GPUs
CALLS, GRAPHS = 10, 3  # in a burst
COMPILED = "norm", "attention", "silu"  # what is between products
APART = 0.02  # of the largest element: rounding of bf16


class Sizes(NamedTuple):
    """Those of a block."""

    width: int = 4096
    inner: int = 14336
    heads: int = 32
    groups: int = 8  # heads of K and V
    head: int = 128

    def weights(self) -> dict[str, tuple[int, int]]:
        """Of the whole block."""
        qkv = (self.heads + 2 * self.groups) * self.head
        return {
            "qkv": (qkv, self.width),
            "out": (self.width, self.heads * self.head),
            "up": (2 * self.inner, self.width),
            "down": (self.width, self.inner),
        }


SMALL = Sizes(128, 256, 4, 2, 32)


class Block(torch.nn.Module):  # type: ignore[misc]
    """One rank's part of a block. `columns` multiplies by a weight whose columns are divided, `rows` by one
    whose rows are divided, and adds the result to `x`.
    """

    columns: Callable[[str, Any], Any]
    rows: Callable[[str, Any, Any], Any]

    def __init__(self, sizes: Sizes, tokens: int, made: dict[str, Any], attention: str) -> None:
        super().__init__()
        self.sizes, self.by_weft = sizes, attention == "weft" and made["device"] == "cuda"
        self.before, self.between = (torch.nn.RMSNorm(sizes.width, eps=1e-5, **made) for _ in range(2))
        rates = 500000.0 ** -(torch.arange(0, sizes.head, 2) / sizes.head)
        angles = torch.outer(torch.arange(tokens), rates).to(made["device"])
        angles = angles.repeat(1, 2)[:, None]
        self.cosines, self.sines = (f(angles).to(made["dtype"]) for f in (torch.cos, torch.sin))

    def forward(self, x: Any) -> Any:
        x = self.rows("out", self.attention(self.columns("qkv", self.before(x))), x)
        return self.rows("down", self.inner(self.between(x)), x)

    def inner(self, x: Any) -> Any:
        """Gate and up, and their product."""
        gate, up = self.columns("up", x).chunk(2, -1)
        return functional.silu(gate) * up

    def attention(self, qkv: Any) -> Any:
        """Causal attention of this rank's heads, of all tokens."""
        heads = qkv.unflatten(-1, (-1, self.sizes.head))
        groups = heads.shape[1] * self.sizes.groups // (self.sizes.heads + 2 * self.sizes.groups)
        q, k, v = heads.split([heads.shape[1] - 2 * groups, groups, groups], 1)
        q, k, v = (each[None] for each in (self.turned(q), self.turned(k), v))
        if self.by_weft:
            return weft.attention(q, k, v, causal=True, layout="bthd")[0].flatten(1)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return found[0].transpose(0, 1).flatten(1)

    def turned(self, x: Any) -> Any:
        """With rotary positions."""
        low, high = x.chunk(2, -1)
        return x * self.cosines + torch.cat((-high, low), -1) * self.sines


class OfTorch(Block):
    """By PyTorch's tensor parallelism."""

    def __init__(self, sizes: Sizes, tokens: int, made: dict[str, Any], attention: str, mesh: Any) -> None:
        super().__init__(sizes, tokens, made, attention)
        for name, (n, k) in sizes.weights().items():
            setattr(self, name, torch.nn.Linear(k, n, bias=False, **made))
        plan: dict[str, Any] = {}
        layout = {}, {}
        if tokens >= DIVIDED:
            layout = {"input_layouts": Shard(0)}, {"output_layouts": Shard(0)}
            plan = {name: parallel.SequenceParallel(sequence_dim=0) for name in ("before", "between")}
        plan |= {name: parallel.ColwiseParallel(**layout[0]) for name in ("qkv", "up")}
        plan |= {name: parallel.RowwiseParallel(**layout[1]) for name in ("out", "down")}
        parallel.parallelize_module(self, mesh, plan)

    def columns(self, name: str, x: Any) -> Any:
        return getattr(self, name)(x)

    def rows(self, name: str, x: Any, residual: Any) -> Any:
        return residual + getattr(self, name)(x)


class OfWeft(Block):
    """By Weft's products, with the weights of the other block. Of divided tokens, one kernel multiplies by
    the weights of gate and up, and computes what is between them; with `apart`, it only multiplies.
    """

    def __init__(
        self,
        other: OfTorch,
        tokens: int,
        made: dict[str, Any],
        attention: str,
        team: Team,
        apart: bool = False,
    ) -> None:
        super().__init__(other.sizes, tokens, made, attention)
        self.team, self.divided = team, tokens >= DIVIDED
        for name in other.sizes.weights():
            setattr(self, name, getattr(other, name).weight.to_local())
        self.gated = None if apart or not self.divided else interleaved(*self.up.chunk(2))

    def inner(self, x: Any) -> Any:
        if self.gated is None:
            return super().inner(x)
        gate = weft.Epilogue(activation="swiglu")
        return all_gather_matmul(x, self.gated, team=self.team, transpose_b=True, epilogue=gate)

    def columns(self, name: str, x: Any) -> Any:
        weight = getattr(self, name)
        if self.divided:
            return all_gather_matmul(x, weight, team=self.team, transpose_b=True)
        return weft.matmul(x, weight, transpose_b=True)

    def rows(self, name: str, x: Any, residual: Any) -> Any:
        call = matmul_reduce_scatter if self.divided else matmul_all_reduce
        added = weft.Epilogue(residual=residual)
        return call(x, getattr(self, name), team=self.team, transpose_b=True, epilogue=added)


def variants(theirs: Block, ours: Block, compiles: bool) -> dict[str, Callable[[Any], Any]]:
    """The ways to compute a block, by name."""
    found: dict[str, Callable[[Any], Any]] = {"torch": theirs, "weft": ours}
    if compiles:
        found["torch, compiled"] = torch.compile(theirs, options={"_micro_pipeline_tp": False})
        found["torch, compiled, async"] = torch.compile(theirs, options={"_micro_pipeline_tp": True})
        found["weft, compiled"] = torch.compile(ours)
    return found


def check_pipelined(block: Any, x: Any) -> None:
    """Raises RuntimeError unless a block runs PyTorch's pipelined operators. `torch.compile` leaves products
    and collectives as they are, without a word, where it can't pipeline them.
    """
    block(x)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        block(x)
    operators = {"fused_all_gather_matmul", "fused_matmul_reduce_scatter"}
    called = {each.key.rpartition("::")[2] for each in found.key_averages()}
    if lacking := operators - called:
        raise RuntimeError(f"torch.compile has not used {' and '.join(sorted(lacking))}")


def enable_pipelining(mesh: Any) -> None:
    """Lets `torch.compile` pipeline products and collectives of a mesh's GPUs. PyTorch 2.11 calls this
    deprecated and not needed, but its patterns match no other group.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        symmetric_memory.enable_symm_mem_for_group(mesh.get_group().group_name)


def compare(
    tokens: int, sizes: Sizes, made: dict[str, Any], mesh: Any, arguments: Any
) -> dict[str, float | str] | None:
    """Microseconds by name, or what failed; None without GPUs. Raises AssertionError if results differ."""
    torch.manual_seed(0)
    team = Team()
    theirs = OfTorch(sizes, tokens, made, arguments.attention, mesh)
    ours, apart = (OfWeft(theirs, tokens, made, arguments.attention, team, each) for each in (False, True))
    has_gpus = made["device"] == "cuda"
    if has_gpus:
        enable_pipelining(mesh)
    x = torch.randn(tokens, sizes.width, **made)
    x = x.chunk(team.size)[team.rank].contiguous() if tokens >= DIVIDED else x
    wanted, runs = theirs(x).float(), dict[str, Callable[[], Any]]()
    times: dict[str, Any] = {}
    blocks = variants(theirs, ours, has_gpus and not arguments.eager)
    if ours.gated is not None:
        blocks["weft, gate apart"] = apart if arguments.eager or not has_gpus else torch.compile(apart)
    for name, block in blocks.items():
        try:
            if name.endswith("async") and tokens >= DIVIDED:
                check_pipelined(block, x)
            worst = (block(x).float() - wanted).abs().max().item()
            assert worst <= APART * wanted.abs().max().item(), (name, worst)
            runs[name] = partial(block, x)
            if tokens < DIVIDED and has_gpus:
                runs[name] = graphed(runs[name])
        except (RuntimeError, torch._dynamo.exc.TorchDynamoException) as error:  # what this PyTorch lacks
            runs.pop(name, None)
            times[name] = f"{type(error).__name__}: {error}"[:300]
    if not has_gpus:
        return None
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    calls = CALLS if tokens >= DIVIDED else GRAPHS
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            rounds[name].append(burst(run, calls, 1) / (1 if tokens >= DIVIDED else GRAPHED))
    return times | {name: round(statistics.median(each), 1) for name, each in rounds.items()}


def parts(tokens: int, made: dict[str, Any], mesh: Any, arguments: Any) -> dict[str, Callable[[], Any]]:
    """What is timed of a block of divided tokens, by name."""
    torch.manual_seed(0)
    team, sizes = Team(), Sizes()
    theirs = OfTorch(sizes, tokens, made, arguments.attention, mesh)
    block = OfWeft(theirs, tokens, made, arguments.attention, team)
    found: dict[str, Callable[[], Any]] = {}
    own = tokens // team.size
    for name in sizes.weights():
        weight, gathers = getattr(block, name), name in ("qkv", "up")
        n, k = weight.shape
        a, x = torch.randn(own if gathers else tokens, k, **made), torch.randn(own, n, **made)
        whole, out = torch.randn(tokens, k, **made), torch.empty(tokens, n, **made)
        call = partial(block.columns, name, a) if gathers else partial(block.rows, name, a, x)
        found[name] = call
        if name == "up":
            found["up, gated"] = partial(block.inner, a)
        found[f"{name}, weft.matmul"] = partial(weft.matmul, whole, weight, transpose_b=True, out=out)
        found[f"{name}, cuBLAS"] = partial(torch.mm, whole, weight.T, out=out)
        if gathers:
            found[f"{name}, NCCL"] = partial(distributed.all_gather_into_tensor, whole, a)
        else:
            found[f"{name}, NCCL"] = partial(distributed.reduce_scatter_tensor, x, out)
    x, qkv, up = (torch.randn(m, n, **made) for m, n in between(block, own, tokens))

    def gated(up: Any) -> Any:
        gate, rest = up.chunk(2, -1)
        return functional.silu(gate) * rest

    found["norm"] = partial(torch.compile(block.before), x)
    found["attention"] = partial(torch.compile(block.attention), qkv)
    found["silu"] = partial(torch.compile(gated), up)
    return found


def between(block: OfWeft, own: int, tokens: int) -> tuple[tuple[int, int], ...]:
    """The shapes of what comes between products: of a rank's tokens, and of its columns of two products."""
    return (own, block.sizes.width), (tokens, block.qkv.shape[0]), (tokens, block.up.shape[0])


def timed_parts(tokens: int, made: dict[str, Any], mesh: Any, arguments: Any) -> dict[str, float]:
    """Microseconds by name, and the least time of a block."""
    runs = parts(tokens, made, mesh, arguments)
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    # Alone, short parts take as long as their host.
    counts = {name: GRAPHED if name in COMPILED else 1 for name in runs}
    runs |= {name: graphed(runs[name]) for name in COMPILED}
    for turn in range(arguments.rounds):
        names = list(runs)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            rounds[name].append(burst(runs[name], max(CALLS // counts[name], 1), 1) / counts[name])
    times = {name: statistics.median(each) for name, each in rounds.items()}
    alone = sum(min(times[f"{name}, {by}"] for by in ("weft.matmul", "cuBLAS")) for name in Sizes().weights())
    times["least"] = alone + 2 * times["norm"] + times["attention"] + times["silu"]
    return {name: round(each, 1) for name, each in times.items()}


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(rank: int, arguments: Any) -> None:
    """The process of one rank."""
    has_gpus = torch.cuda.is_available()
    device, sizes = ("cuda", Sizes()) if has_gpus else ("cpu", SMALL)
    options: dict[str, Any] = {"rank": rank, "world_size": arguments.gpus}
    if has_gpus:
        torch.cuda.set_device(rank)
        options["device_id"] = torch.device("cuda", rank)
    distributed.init_process_group("nccl" if has_gpus else "gloo", **options)
    mesh = init_device_mesh(device, (arguments.gpus,))
    if arguments.parts:
        times = timed_parts(TOKENS[0], {"device": device, "dtype": torch.bfloat16}, mesh, arguments)
        if rank == 0:
            _write({"gpus": arguments.gpus, "gpu": torch.cuda.get_device_name(), "parts": times}, arguments)
    for tokens in arguments.tokens if not arguments.parts else ():
        times = compare(tokens, sizes, {"device": device, "dtype": torch.bfloat16}, mesh, arguments)
        if rank == 0:
            _report(tokens, times, arguments)
    distributed.destroy_process_group()


def _report(tokens: int, times: dict[str, Any] | None, arguments: Any) -> None:
    if times is None:
        print(f"{tokens} tokens: the results are the same", flush=True)
        return

    def best(of: str) -> float:
        return min(x for name, x in times.items() if name.startswith(of) and not isinstance(x, str))

    row: dict[str, Any] = {"tokens": tokens, "gpus": arguments.gpus, "attention": arguments.attention}
    row["gpu"] = torch.cuda.get_device_name()
    row |= {"torch version": torch.__version__, **times, "ratio": round(best("weft") / best("torch"), 3)}
    _write(row, arguments)


def _write(row: dict[str, Any], arguments: Any) -> None:
    print(json.dumps(row), flush=True)
    if arguments.out:
        with Path(arguments.out).open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> int:
    """The command."""
    parser = scripts.parser(__doc__)
    parser.add_argument("--gpus", type=int, default=max(torch.cuda.device_count(), 2))
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--attention", choices=("weft", "torch"), default="weft")
    parser.add_argument("--parts", action="store_true", help="times of the parts of a block instead")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--out")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29534")
    arguments = parser.parse_args()
    torch.multiprocessing.spawn(measure, (arguments,), nprocs=arguments.gpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
