"""Times first calls of products and of attention: nothing is compiled before, in memory or on disk.

    python benchmarks/first_calls.py              # on a GPU
    python benchmarks/first_calls.py --compile    # compiles only, without a GPU

Prints a line of JSON for each: the milliseconds of the call and the wait for its result, and those of the
passes, LLVM and ptxas within. The rest is the choice of a schedule, tracing, loading and running. A backward
pass compiles three kernels at the same time, for which the milliseconds of stages are added up. Products in
bf16 are those of random sizes whose schedules are chosen most often.

Each process makes all calls once, and has multiplied before, in f16. Lines have the medians of `--runs`
processes, of which the first `--attention-runs` call attention, and the least and most of the calls. The line
"process" is of processes that haven't multiplied before: they import Weft and multiply. The line "cached" is
of those for which others have left the kernel on disk. Each call is printed to stderr when it has been timed.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

STAGES = {"llvm": "passes", "ptx": "llvm", "cubin": "ptxas"}  # what the cache's entries are the results of
CHIP, TOKENS, WIDTH = "sm_90a", 4096, 2048
FORWARD = (
    *((d, "bfloat16", causal) for d in (64, 128, 256) for causal in (False, True)),
    *((d, "float8_e4m3fn", causal) for d in (128, 256) for causal in (False, True)),
)
BACKWARD = ((64, False), (128, True), (256, True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--products", type=int, default=12, help="how many products (default: 12)")
    parser.add_argument("--runs", type=int, default=3, help="calls of each product (default: 3)")
    parser.add_argument("--attention-runs", type=int, default=1, help="calls of attention (default: 1)")
    parser.add_argument("--part", choices=("process", "cached", "products", "all"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        for line in timed_here(options):
            print(json.dumps(line), flush=True)
    elif not options.compile and (reason := without_gpu(parser.prog)) is not None:
        parser.exit(1, f"{reason}: see --compile\n")
    else:
        times: dict[str, list[dict[str, Any]]] = {}
        for line in timed_apart(options):
            print(json.dumps(line), file=sys.stderr, flush=True)
            times.setdefault(line["call"], []).append(line)
        for lines in times.values():
            print(json.dumps(medians(lines)))


def timed_apart(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What new processes measure, each with an empty cache; those of "cached" have that of "process"."""
    for run in range(max(options.runs, options.attention_runs)):
        parts = ["all" if run < options.attention_runs else "products"]
        if not options.compile:
            parts = ["process", "cached", *parts]
        with tempfile.TemporaryDirectory() as folder:
            for part in parts:
                cache = Path(folder, "process" if part == "cached" else part)
                environment = os.environ | {"WEFT_CACHE_DIR": str(cache)}
                environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed Weft has bytecode
                if cache.name != "process":
                    environment["WEFT_REUSE"] = "0"  # no kernel of another product
                command = [sys.executable, __file__, *sys.argv[1:], "--part", part]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
                    assert process.stdout is not None
                    yield from map(json.loads, process.stdout)
                if process.returncode:
                    sys.exit(process.returncode)


def timed_here(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What this process measures."""
    if options.part in ("process", "cached"):
        yield {"call": options.part, **of_a_process()}
        return
    calls = compilations if options.compile else gpu_calls
    for number, (name, call) in enumerate(calls(options.products, attention=options.part == "all")):
        found = timed(call)
        if number:  # the first loads what all need
            yield {"call": name, **found}


def medians(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure of a call, and the least and most of its times."""
    figures = {name: statistics.median([line[name] for line in lines]) for name in lines[0] if name != "call"}
    times = [line["ms"] for line in lines]
    return {"call": lines[0]["call"], **figures, "least": min(times), "most": max(times), "runs": len(times)}


def without_gpu(program: str) -> str | None:
    """Why nothing can be called here."""
    from weft.bench import scripts  # not by a process that times the import

    return scripts.missing(program, 1, None)


def timed(call: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of a call, and of its stages."""
    from weft.cache import disk_cache

    spent: Counter[str] = Counter()
    original = disk_cache.Cache.get_or_make

    @functools.wraps(original)
    def measured(self: Any, kind: str, *args: Any) -> bytes:
        start = time.perf_counter()
        try:
            return original(self, kind, *args)
        finally:
            spent[STAGES.get(kind, kind)] += 1e3 * (time.perf_counter() - start)

    disk_cache.Cache.get_or_make = measured  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        call()
        took = 1e3 * (time.perf_counter() - start)
    finally:
        disk_cache.Cache.get_or_make = original  # type: ignore[method-assign]
    return {"ms": round(took), **{stage: round(spent[stage]) for stage in STAGES.values()}}


def products(count: int) -> list[tuple[Any, tuple[int, int, int]]]:
    """The schedules that are chosen most often for 300 random products, and the least product of each."""
    from weft.bench.suites import random_shapes
    from weft.dialects.schedule import Types
    from weft.schedules import choice

    types = Types("bf16", "bf16", "bf16")
    shapes: dict[Any, list[tuple[int, int, int]]] = {}
    for shape in random_shapes(7, 300):
        sizes = shape.m, shape.n, shape.k
        shapes.setdefault(choice.choose(*sizes, types, CHIP), []).append(sizes)
    often = sorted(shapes, key=lambda schedule: -len(shapes[schedule]))[:count]
    # The largest tile in bf16, which takes longest to compile, is among these in any case.
    largest = max(shapes, key=lambda schedule: schedule.block[0] * schedule.block[1])
    return [
        (schedule, min(shapes[schedule], key=lambda s: s[0] * s[1] * s[2]))
        for schedule in dict.fromkeys((*often, largest))
    ]


def named(schedule: Any, m: int, n: int, k: int) -> str:
    """What a line of output calls a product."""
    return f"{m}x{n}x{k}, tile {schedule.block[0]}x{schedule.block[1]}"


def of_a_process() -> dict[str, Any]:
    """The first product of a process, after the start of PyTorch and of the GPU."""
    import torch

    a, b = torch.randn(2, 1024, 1024, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    start = time.perf_counter()
    import weft

    imported = time.perf_counter()
    weft.matmul(a, b)
    torch.cuda.synchronize()
    end = time.perf_counter()
    return {"ms": round(1e3 * (end - start)), "import": round(1e3 * (imported - start))}


def gpu_calls(count: int, *, attention: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """First calls of products, of attention and of its gradients."""
    import torch

    import weft

    def array(*shape: int, dtype: str = "bfloat16", grad: bool = False) -> Any:
        made = torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(getattr(torch, dtype))
        return made.requires_grad_(grad)

    def waiting(call: Callable[[], Any]) -> Callable[[], Any]:
        torch.cuda.synchronize()
        return lambda: (call(), torch.cuda.synchronize())

    a, b = (array(256, 256, dtype="float16") for _ in range(2))
    yield "f16", waiting(lambda: weft.matmul(a, b))
    for schedule, (m, n, k) in products(count):
        a, b = array(m, k), array(n, k)
        yield named(schedule, m, n, k), waiting(lambda a=a, b=b: weft.matmul(a, b, transpose_b=True))
    if not attention:
        return
    for d, dtype, causal in FORWARD:
        q, k, v = (array(1, WIDTH // d, TOKENS, d, dtype=dtype) for _ in range(3))
        call = functools.partial(weft.attention, q, k, v, causal=causal)
        yield f"attention d{d} {dtype}{' causal' * causal}", waiting(call)
    q, (k, v) = array(1, 32, 1, 128), (array(1, 4, 8192, 128) for _ in range(2))
    yield "attention of one query", waiting(functools.partial(weft.attention, q, k, v))
    for d, causal in BACKWARD:
        q, k, v = (array(1, WIDTH // d, TOKENS, d, grad=True) for _ in range(3))
        out = weft.attention(q, k, v, causal=causal)
        call = functools.partial(out.backward, torch.ones_like(out))
        yield f"gradients d{d} bfloat16{' causal' * causal}", waiting(call)


def compilations(count: int, *, attention: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What the calls of `gpu_calls` compile."""
    import ml_dtypes

    from weft.attend import gradients, launches, plans
    from weft.attend.problem import Options
    from weft.dialects.schedule import Types
    from weft.multiply import product_kernel

    def product(element: str, schedule: Any) -> Any:
        types = Types(element, element, element)
        return product_kernel.plain(types, schedule, CHIP).cubin

    def compiled(kernel: Any, *args: Any, stream: Any = None, **meta: Any) -> None:
        _ = kernel.compile(*args, arch=CHIP, **meta).cubin

    def skipped(kernel: Any, *args: Any, **meta: Any) -> None:
        pass

    def forward(q: Any, k: Any, v: Any, causal: bool, launch: Any) -> Any:
        given, options = {"q": q, "k": k, "v": v}, Options.of(causal=causal)
        call = launches.Call.of(given, options, launch, 132)
        return call, *launches.run(call)

    def backward(q: Any, k: Any, v: Any, causal: bool) -> None:
        call, out, sums = forward(q, k, v, causal, skipped)
        launched: list[plans.Launched] = []
        call = launches.Call.of(call.given, call.options, plans.recorder(launched), 132)
        gradients.backward(call, out, sums, np.zeros_like(out))
        plans.compile_all(launched, CHIP)

    chosen = products(count)
    yield "f16", functools.partial(product, "f16", chosen[0][0])
    for schedule, (m, n, k) in chosen:
        yield named(schedule, m, n, k), functools.partial(product, "bf16", schedule)
    if not attention:
        return
    for d, dtype, causal in FORWARD:
        arrays = np.zeros((3, 1, WIDTH // d, TOKENS, d), getattr(ml_dtypes, dtype))
        call = functools.partial(forward, *arrays, causal, compiled)
        yield f"attention d{d} {dtype}{' causal' * causal}", call
    q, (k, v) = (
        np.zeros((1, 32, 1, 128), ml_dtypes.bfloat16),
        np.zeros((2, 1, 4, 8192, 128), ml_dtypes.bfloat16),
    )
    yield "attention of one query", functools.partial(forward, q, k, v, False, compiled)
    for d, causal in BACKWARD:
        arrays = np.zeros((3, 1, WIDTH // d, TOKENS, d), ml_dtypes.bfloat16)
        yield f"gradients d{d} bfloat16{' causal' * causal}", functools.partial(backward, *arrays, causal)


if __name__ == "__main__":
    main()
