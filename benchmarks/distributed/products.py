"""Times products over several GPUs of one host, beside NCCL and cuBLAS in turn and PyTorch's fused
operators:

    python benchmarks/distributed/products.py --gpus 2 --out products.jsonl

Starts a process for each GPU. Each time is the median over rounds of bursts of calls, and in each round that
of the slowest rank.
"""

import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# NVLink multicast stays off.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

LAYERS = {"70B MLP": (28672, 8192), "8B MLP": (14336, 4096)}
ATTENTION = {"70B attention": (8192, 8192), "8B attention": (4096, 4096)}
ROWS = (512, 2048, 8192)
DECODED = (1, 16, 64)
COLD = 256_000_000  # bytes of weights that are multiplied in turn: more than the L2 cache has
GRAPHED = 20  # calls in a graph


def shapes(kind: str, gpus: int, rows: list[int] | None) -> list[tuple[str, int, int, int]]:
    """A name, M, and the whole layer's inner and outer sizes."""
    layers = ATTENTION | LAYERS if kind == "all-reduce" else LAYERS
    default = DECODED if kind == "all-reduce" else ROWS
    found = [(f"{name} {m}", m, *sizes) for name, sizes in layers.items() for m in rows or default]
    if rows or kind == "all-reduce":
        return found
    m = {2: 2048, 4: 4096}.get(gpus, 1024 * gpus)
    return [*found, (f"square {m}", m, 4096 * gpus, 4096)]


def timed(run: Callable[[], Any], calls: int, rounds: int) -> float:
    """Microseconds of a call on the slowest rank. A graph has `GRAPHED` calls."""
    if getattr(run, "is_graph", False):
        run = graphed(run)
        return timed(run, max(calls // GRAPHED, 1), rounds) / GRAPHED
    return burst(run, calls, rounds)


def graph(run: Callable[[], Any]) -> Callable[[], Any]:
    """Marks calls that are measured in a CUDA graph."""

    def marked() -> Any:
        return run()

    marked.is_graph = True  # type: ignore[attr-defined]
    return marked


def graphed(run: Callable[[], Any]) -> Callable[[], Any]:
    """The replay of a graph of calls."""
    import torch

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(GRAPHED):
            run()
    return lambda: captured.replay()


def burst(run: Callable[[], Any], calls: int, rounds: int) -> float:
    """Microseconds of a call on the slowest rank: the median of several bursts."""
    for _ in range(max(calls, 3)):  # so that graphs of calls and calls begin with GPUs as warm
        run()
    return statistics.median(one_burst(run, calls) for _ in range(rounds))


def one_burst(
    run: Callable[[], Any], calls: int, meanwhile: Callable[[Any], None] = lambda end: None
) -> float:
    """Microseconds of a call on the slowest rank. After the calls are queued, `meanwhile` gets the event at
    their end.
    """
    import torch
    from torch import distributed

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    distributed.barrier()
    start.record()
    for _ in range(calls):
        run()
    end.record()
    meanwhile(end)
    torch.cuda.synchronize()
    return slowest(start.elapsed_time(end) * 1000 / calls)


def slowest(microseconds: float) -> float:
    """The longest time of all ranks."""
    import torch
    from torch import distributed

    took = torch.tensor([microseconds], device="cuda")
    distributed.all_reduce(took, distributed.ReduceOp.MAX)
    return float(took.item())


def gathers(m: int, n: int, k: int, team: Any) -> dict[str, Callable[[], Any]]:
    """What multiplies gathered rows: the shard of A is M/P x K, that of B N/P x K."""
    import torch
    from torch import distributed

    import weft
    from weft.distributed import all_gather_matmul

    size, group = team.size, distributed.group.WORLD.group_name
    a = torch.randn(m // size, k, device="cuda").bfloat16()
    b = torch.randn(n // size, k, device="cuda").bfloat16()
    whole = torch.randn(m, k, device="cuda").bfloat16()  # zeros would be multiplied faster
    out = torch.empty(m, n // size, device="cuda", dtype=torch.bfloat16)

    def one_after_the_other() -> None:
        distributed.all_gather_into_tensor(whole, a)
        torch.mm(whole, b.T, out=out)

    return {
        "cuBLAS": lambda: torch.mm(whole, b.T, out=out),
        "weft.matmul": lambda: weft.matmul(whole, b, transpose_b=True, out=out),
        "NCCL": lambda: distributed.all_gather_into_tensor(whole, a),
        "NCCL, cuBLAS": one_after_the_other,
        "torch fused": lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [b.T], 0, group, return_A=False),
        "weft": lambda: all_gather_matmul(a, b, team=team, transpose_b=True),
        "NCCL, cuBLAS, graph": graph(one_after_the_other),
        "weft, graph": graph(lambda: all_gather_matmul(a, b, team=team, transpose_b=True)),
    }


def scatters(m: int, n: int, k: int, team: Any) -> dict[str, Callable[[], Any]]:
    """What adds up partial products: A is M x K/P, B is N x K/P, the result M/P x N."""
    import torch
    from torch import distributed

    import weft
    from weft.distributed import matmul_reduce_scatter

    size, group = team.size, distributed.group.WORLD.group_name
    a = torch.randn(m, k // size, device="cuda").bfloat16()
    b = torch.randn(n, k // size, device="cuda").bfloat16()
    partial = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(m // size, n, device="cuda", dtype=torch.bfloat16)

    def one_after_the_other() -> None:
        torch.mm(a, b.T, out=partial)
        distributed.reduce_scatter_tensor(out, partial)

    return {
        "cuBLAS": lambda: torch.mm(a, b.T, out=partial),
        "weft.matmul": lambda: weft.matmul(a, b, transpose_b=True, out=partial),
        "NCCL": lambda: distributed.reduce_scatter_tensor(out, partial),
        "NCCL, cuBLAS": one_after_the_other,
        "torch fused": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b.T, "sum", 0, group),
        "weft": lambda: matmul_reduce_scatter(a, b, team=team, transpose_b=True),
        "weft, f32 partials": lambda: matmul_reduce_scatter(
            a, b, team=team, transpose_b=True, partials="f32"
        ),
        "NCCL, cuBLAS, graph": graph(one_after_the_other),
        "weft, graph": graph(lambda: matmul_reduce_scatter(a, b, team=team, transpose_b=True)),
    }


def reductions(m: int, n: int, k: int, team: Any) -> dict[str, Callable[[], Any]]:
    """What adds up partial products on all ranks: A is M x K/P, B is N x K/P, the result M x N. Weights come
    from memory: calls multiply several of them in turn.
    """
    import torch
    from torch import distributed
    from torch.distributed import _symmetric_memory

    import weft
    from weft.distributed import matmul_all_reduce

    size, group = team.size, distributed.group.WORLD.group_name
    count = max(COLD // (n * k // size * 2), 1)
    a = torch.randn(m, k // size, device="cuda").bfloat16()
    weights = [torch.randn(n, k // size, device="cuda").bfloat16() for _ in range(count)]
    turns = itertools.cycle(weights)
    partial = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    shared = _symmetric_memory.empty((m, n), device="cuda", dtype=torch.bfloat16)
    _symmetric_memory.rendezvous(shared, group)

    def one_after_the_other() -> None:
        torch.mm(a, next(turns).T, out=partial)
        distributed.all_reduce(partial)

    def one_shot() -> Any:
        torch.mm(a, next(turns).T, out=shared)
        return torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", group)

    def weft_() -> Any:
        return matmul_all_reduce(a, next(turns), team=team, transpose_b=True)

    return {
        "cuBLAS": lambda: torch.mm(a, next(turns).T, out=partial),
        "weft.matmul": lambda: weft.matmul(a, next(turns), transpose_b=True, out=partial),
        "NCCL": lambda: distributed.all_reduce(partial),
        "NCCL, cuBLAS": one_after_the_other,
        "torch one-shot, cuBLAS": one_shot,
        "weft": weft_,
        "cuBLAS, graph": graph(lambda: torch.mm(a, next(turns).T, out=partial)),
        "weft.matmul, graph": graph(lambda: weft.matmul(a, next(turns), transpose_b=True, out=partial)),
        "NCCL, cuBLAS, graph": graph(one_after_the_other),
        "torch one-shot, cuBLAS, graph": graph(one_shot),
        "weft, graph": graph(weft_),
    }


def measure(rank: int, arguments: Any) -> None:
    """The process of one GPU."""
    import torch
    from torch import distributed
    from torch.distributed import _symmetric_memory

    from weft.distributed import Team

    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", rank=rank, world_size=arguments.gpus, device_id=device)
    _symmetric_memory.enable_symm_mem_for_group(distributed.group.WORLD.group_name)
    team = Team()
    kinds = {"all-gather": gathers, "reduce-scatter": scatters, "all-reduce": reductions}
    for kind in arguments.kinds:
        for name, m, inner, outer in shapes(kind, arguments.gpus, arguments.rows):
            n, k = (inner, outer) if kind == "all-gather" else (outer, inner)
            calls = max(
                4,
                min(
                    100 if kind == "all-reduce" else 50,
                    20_000_000_000_000 // (m * inner * outer // arguments.gpus * 2),
                ),
            )
            row: dict[str, Any] = {"product": kind, "shape": name, "gpus": arguments.gpus}
            for which, run in kinds[kind](m, n, k, team).items():
                if arguments.only and which not in arguments.only:
                    continue
                try:
                    row[which] = round(timed(run, calls, arguments.rounds), 1)
                except (RuntimeError, AttributeError) as error:  # of fused products that this PyTorch lacks
                    row[which] = f"{type(error).__name__}: {error}"[:200]
            if rank == 0:
                _report(row, arguments.out)
    distributed.destroy_process_group()


def _report(row: dict[str, Any], path: str | None) -> None:
    print(json.dumps(row), flush=True)
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps(row) + "\n")


def main() -> int:
    """The command."""
    import torch

    from weft.bench import scripts

    parser = scripts.parser(__doc__)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--kinds", nargs="+", default=["all-gather", "reduce-scatter", "all-reduce"])
    parser.add_argument("--rows", nargs="+", type=int, help="M of the layers")
    parser.add_argument("--only", nargs="+", help="the names of what is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    arguments = scripts.parsed(parser, 2)
    torch.multiprocessing.spawn(measure, (arguments,), nprocs=arguments.gpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
