"""Times what products over several GPUs consist of: the product alone, with the kernel that `weft.matmul`
chooses and with that of the team's product; the same bytes sent by copy engines alone, and both at once; the
product over all GPUs, by each way to send rows, and with signals but without the sums of others; calls, and
CUDA graphs of them:

    python benchmarks/distributed/breakdown.py --gpus 4 --out breakdown.jsonl

Starts a process for each GPU. Bursts of all of these take turns, so that all of them find the same clocks.
Times are in microseconds of a call: medians over rounds, in each of which that of the slowest rank.
`clocks` has the median of the SM clock in MHz during each.
"""

import concurrent.futures
import ctypes
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from products import GRAPHED, graphed, one_burst, shapes

CHIP = "sm_90a"
_SM = 1  # NVML's number of the clock
_BETWEEN = 5e-4  # seconds between readings of it
MOST_SENT = 48 << 20  # bytes that kernels send in this comparison


class Clock:
    """The SM clock of this process's GPU, by NVML."""

    def __init__(self) -> None:
        import torch

        self._nvml: Any = None
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}".encode()
            self._device = ctypes.c_void_p()
            if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByUUID(
                uuid, ctypes.byref(self._device)
            ):
                self._nvml = None
        except (OSError, AttributeError):  # of a machine without it, or of a PyTorch without `uuid`
            self._nvml = None

    def read(self) -> float:
        """In MHz; 0 if it can't be read."""
        found = ctypes.c_uint(0)
        if self._nvml is not None:
            self._nvml.nvmlDeviceGetClockInfo(self._device, _SM, ctypes.byref(found))
        return float(found.value)


class Copies:
    """Copies to the other GPUs by copy engines, as products make them."""

    def __init__(self, size: int, team: Any) -> None:
        """`size` bytes to each of them."""
        import torch

        self._devices, self._source = team.devices, torch.zeros(size, dtype=torch.uint8, device="cuda")
        memory = team.devices.shared(team.size * size)
        peers = [(team.rank - step) % team.size for step in range(1, team.size)]
        self._to = [memory[peer].part(team.rank * size, size) for peer in peers]

    def __call__(self, beside: Callable[[], Any] = lambda: None) -> None:
        """Copies while `beside` runs."""
        pushes, caller = self._devices.pushes, self._devices.caller()
        pushes.wait(caller.record())
        for each in self._to:
            pushes.copy(each, self._devices.of(self._source))
        beside()
        caller.wait(pushes.record())


def product_of(a: tuple[int, int], b: tuple[int, int]) -> Any:
    """A product of a team, by the shapes of A and B."""
    from weft.distributed.products import TeamProduct
    from weft.multiply.product import Product

    return TeamProduct("product", a, b, (b[1], 1), "bf16", (), Product(transpose_b=True))


def compile_kernels(kind: str, m: int, n: int, k: int, gpus: int) -> None:
    """Compiles the kernels of a shape, which the processes of all GPUs then find in the cache."""
    from weft.distributed import gather, scatter
    from weft.multiply import product_kernel
    from weft.schedules import choice

    if kind == "all-gather":
        product = product_of((m // gpus, k), (n // gpus, k))
        for make in (gather.Gather, gather.SendingGather):
            make.kernel_of(product, gpus, CHIP)
        schedule = product.schedule_of(CHIP, product.sizes(gpus))
        size = m, n // gpus, k
    else:
        product, size = product_of((m, k // gpus), (n, k // gpus)), (m, n, k // gpus)
        sizes = gpus, m // gpus, n, k // gpus
        for kind_ in (scatter.Scatter, scatter.CopiedScatter):
            kind_.kernel_of(product, CHIP, sizes)
        with without_sums():
            scatter.Scatter.kernel_of(product, CHIP, sizes)
        schedule = scatter.schedule_of(product, CHIP, sizes)
    for each in (schedule, choice.choose(*size, product.types, CHIP)):
        product_kernel.plain(product.types, each, CHIP)


def gathers(m: int, n: int, k: int, team: Any) -> dict[str, Callable[[], Any]]:
    """The parts of `all_gather_matmul`."""
    import torch
    from torch import distributed

    from weft.distributed import all_gather_matmul, gather

    size = team.size
    a = torch.randn(m // size, k, device="cuda").bfloat16()
    b = torch.randn(n // size, k, device="cuda").bfloat16()
    whole = torch.randn(m, k, device="cuda").bfloat16()
    out = torch.empty(m, n // size, device="cuda", dtype=torch.bfloat16)
    all_gather_matmul(a, b, team=team, transpose_b=True)
    plan = next(reversed(team.plans.values()))
    sent = a.numel() * a.element_size()
    parts = alone(whole, b, out, plan, Copies(sent, team))

    def in_turn() -> None:
        distributed.all_gather_into_tensor(whole, a)
        torch.mm(whole, b.T, out=out)

    parts["in turn"] = in_turn
    parts["weft"] = lambda: all_gather_matmul(a, b, team=team, transpose_b=True)
    ways: dict[str, Any] = {"by copy engines": gather.Gather}
    if sent * (size - 1) <= MOST_SENT:
        ways |= {"by a kernel before": gather.PushedGather, "by the product": gather.SendingGather}
    for name, make in ways.items():
        if type(plan) is not make:
            other = make(plan.product, team)
            parts[f"weft, {name}"] = lambda other=other: other.run((a, b))
    return parts


def scatters(m: int, n: int, k: int, team: Any) -> dict[str, Callable[[], Any]]:
    """The parts of `matmul_reduce_scatter`."""
    import torch
    from torch import distributed

    from weft.distributed import matmul_reduce_scatter, scatter

    size = team.size
    a = torch.randn(m, k // size, device="cuda").bfloat16()
    b = torch.randn(n, k // size, device="cuda").bfloat16()
    partial = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(m // size, n, device="cuda", dtype=torch.bfloat16)
    matmul_reduce_scatter(a, b, team=team, transpose_b=True)
    plan = next(reversed(team.plans.values()))
    parts = alone(a, b, partial, plan, Copies(m // size * n * 2, team))

    def in_turn() -> None:
        torch.mm(a, b.T, out=partial)
        distributed.reduce_scatter_tensor(out, partial)

    parts["in turn"] = in_turn
    parts["weft"] = lambda: matmul_reduce_scatter(a, b, team=team, transpose_b=True)
    ways = {"by copy engines": scatter.CopiedScatter, "by the product": scatter.Scatter}
    for name, make in ways.items():
        if type(plan) is not make:
            other = make(plan.product, team)
            parts[f"weft, {name}"] = lambda other=other: other.run((a, b))
    with without_sums():
        unsent = scatter.Scatter(plan.product, team)
    parts["weft, without sums"] = lambda: unsent.run((a, b))
    return parts


@contextmanager
def without_sums() -> Iterator[None]:
    """Kernels are compiled that send no sums, and only raise their flags: their results are wrong, and their
    time shows what sending costs.
    """
    from weft.dialects import tile
    from weft.multiply import product_kernel

    send = tile.send_async
    tile.send_async = lambda *_: None
    product_kernel.compiled.cache_clear()
    try:
        yield
    finally:
        tile.send_async = send
        product_kernel.compiled.cache_clear()


def alone(a: Any, b: Any, out: Any, plan: Any, copies: Copies) -> dict[str, Callable[[], Any]]:
    """The product alone, the copies alone, and both at once."""
    import torch

    import weft

    def same() -> None:
        weft.matmul(a, b, transpose_b=True, out=out, schedule=plan.schedule)

    return {
        "cuBLAS": lambda: torch.mm(a, b.T, out=out),
        "weft.matmul": lambda: weft.matmul(a, b, transpose_b=True, out=out),
        "same schedule": same,
        "copies": copies,
        "same schedule beside copies": lambda: copies(same),
    }


def measured(
    parts: dict[str, Callable[[], Any]],
    of_graphs: dict[str, Callable[[], Any]],
    calls: int,
    rounds: int,
    clock: Clock,
) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of a call and the SM clock of each part, in turns; some also in CUDA graphs, whose calls
    are those of another team: after a capture, eager calls begin with a barrier.
    """
    runs = {name: (run, calls) for name, run in parts.items()}
    for name, run in of_graphs.items():
        if name.startswith(("weft", "in turn", "same")):
            runs[f"{name}, graph"] = graphed(run), max(calls // GRAPHED, 1)
    times: dict[str, list[float]] = {name: [] for name in runs}
    clocks: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds):
        first = turn * len(names) // rounds
        for name in names[first:] + names[:first]:
            run, count = runs[name]
            took, mhz = burst(run, count, clock)
            times[name].append(took / (GRAPHED if name.endswith("graph") else 1))
            clocks[name] += mhz
    middle = {name: statistics.median(each) for name, each in clocks.items() if each}
    return {name: round(statistics.median(each), 1) for name, each in times.items()}, middle


def burst(run: Callable[[], Any], calls: int, clock: Clock) -> tuple[float, list[float]]:
    """Microseconds of a call on the slowest rank, and the clock meanwhile."""
    found = list[float]()

    def read(end: Any) -> None:
        while not end.query():
            found.append(clock.read())
            time.sleep(_BETWEEN)

    for _ in range(calls):  # as many as are timed, so that graphs and calls begin with GPUs as warm
        run()
    return one_burst(run, calls, read), found


def measure(rank: int, arguments: Any) -> None:
    """The process of one GPU."""
    import torch
    from torch import distributed

    from weft.distributed import Team

    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", rank=rank, world_size=arguments.gpus, device_id=device)
    team, of_graphs, clock = Team(), Team(), Clock()
    for kind, name, m, n, k in chosen(arguments):
        flops = 2 * m * n * k / arguments.gpus
        calls = max(GRAPHED, min(60, round(arguments.milliseconds * 600e9 / flops)))
        parts, graphs = (PARTS[kind](m, n, k, each) for each in (team, of_graphs))
        times, clocks = measured(parts, graphs, calls, arguments.rounds, clock)
        if rank == 0:
            row = {"product": kind, "shape": name, "gpus": arguments.gpus, **times, "clocks": clocks}
            row["gpu"] = torch.cuda.get_device_name()
            print(json.dumps(row), flush=True)
            if arguments.out:
                with Path(arguments.out).open("a") as file:
                    file.write(json.dumps(row) + "\n")
    distributed.destroy_process_group()


PARTS = {"all-gather": gathers, "reduce-scatter": scatters}


def chosen(arguments: Any) -> list[tuple[str, str, int, int, int]]:
    """The products: kind, name, M, N and K of all GPUs together."""
    return [
        (kind, name, m, *((inner, outer) if kind == "all-gather" else (outer, inner)))
        for kind in arguments.kinds
        for name, m, inner, outer in shapes(kind, arguments.gpus, arguments.rows)
        if any(name.startswith(each) for each in arguments.shapes)
    ]


def main() -> int:
    """The command."""
    import torch

    from weft.bench import scripts

    parser = scripts.parser(__doc__)
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--kinds", nargs="+", default=["all-gather", "reduce-scatter"])
    parser.add_argument("--rows", nargs="+", type=int, help="M of the layers")
    parser.add_argument("--shapes", nargs="+", default=[""], help="the beginnings of the names of shapes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--milliseconds", type=float, default=10, help="of a burst, about")
    parser.add_argument("--out")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29535")
    arguments = scripts.parsed(parser, 2)
    with concurrent.futures.ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        made = [
            pool.submit(compile_kernels, kind, *size, arguments.gpus) for kind, _, *size in chosen(arguments)
        ]
        for each in made:
            each.result()
    torch.multiprocessing.spawn(measure, (arguments,), nprocs=arguments.gpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
