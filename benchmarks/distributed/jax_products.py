"""Times products over the GPUs of one process in JAX: Weft's kernels that send and multiply at the same time,
beside XLA's collectives and JAX's or Weft's product in turn:

    python benchmarks/distributed/jax_products.py --gpus 4 --out jax_products.jsonl

A program has several products of different matrices, each of which begins after the one before, and returns
all results, since XLA leaves out and merges what it can. Each time is that of a product, the median over
rounds of bursts of programs.
"""

import functools
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast stays off
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.6")  # the rest is for Weft's own memory
# XLA would make one collective of several.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_gpu_all_gather_combine_threshold_bytes=0",
        "--xla_gpu_all_reduce_combine_threshold_bytes=0",
        "--xla_gpu_reduce_scatter_combine_threshold_bytes=0",
    ]
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from products import shapes

import weft.jax
from weft.bench import scripts

PRODUCTS = 10  # in a program
ROWS, COLUMNS, ALL = P("x", None), P(None, "x"), P()
# The sharding of A, of B (N x K), and of the result.
SPECS = {
    "all-gather": (ROWS, ROWS, COLUMNS),
    "reduce-scatter": (COLUMNS, COLUMNS, ROWS),
    "all-reduce": (COLUMNS, COLUMNS, ALL),
}


def rivals(kind: str) -> dict[str, Callable[[Any, Any], Any]]:
    """What multiplies, of one device."""
    if kind == "all-gather":
        return {
            "jnp": lambda a, b: a @ b.T,
            "XLA, jnp": lambda a, b: jax.lax.all_gather(a, "x", tiled=True) @ b.T,
            "XLA, weft": lambda a, b: fused(weft.jax.all_gather_matmul, False)(a, b),
            "weft": lambda a, b: fused(weft.jax.all_gather_matmul, True)(a, b),
        }
    if kind == "reduce-scatter":
        return {
            "jnp": lambda a, b: a @ b.T,
            "XLA, jnp": lambda a, b: jax.lax.psum_scatter(a @ b.T, "x", tiled=True),
            "XLA, weft": lambda a, b: fused(weft.jax.matmul_reduce_scatter, False)(a, b),
            "weft": lambda a, b: fused(weft.jax.matmul_reduce_scatter, True)(a, b),
        }
    return {
        "jnp": lambda a, b: a @ b.T,
        "XLA, jnp": lambda a, b: jax.lax.psum(a @ b.T, "x"),
        "XLA, weft": lambda a, b: fused(weft.jax.matmul_all_reduce, False)(a, b),
        "weft": lambda a, b: fused(weft.jax.matmul_all_reduce, True)(a, b),
    }


def fused(function: Callable[..., Any], whether: bool) -> Callable[[Any, Any], Any]:
    """A function of `weft.jax` with B as it is stored."""
    return lambda a, b: function(a, b, "x", transpose_b=True, fused=whether)


def program(
    one: Callable[[Any, Any], Any], kind: str, which: str, mesh: Any, sizes: tuple[tuple[int, int], ...]
) -> Callable[[], Any]:
    """Several products of matrices of these sizes, one after the other."""
    a_spec, b_spec, out_spec = SPECS[kind]
    if which == "jnp":  # the product alone: of all rows, or of this device's part of K
        a_spec, out_spec = (ALL, COLUMNS) if kind == "all-gather" else (a_spec, P("x", None))

    def local(each_a: list[Any], each_b: list[Any]) -> list[Any]:
        results = list[Any]()
        for a, b in zip(each_a, each_b, strict=True):
            if results:
                a, results[-1] = jax.lax.optimization_barrier((a, results[-1]))
            results.append(one(a, b))
        return results

    each = jax.shard_map(local, mesh=mesh, in_specs=(a_spec, b_spec), out_specs=out_spec, check_vma=False)
    given = list(map(partial(put, mesh), sizes, (a_spec, b_spec)))
    compiled = jax.jit(each).lower(*given).compile()
    text = compiled.as_text()
    collectives = len(re.findall(r" (all-gather|reduce-scatter|all-reduce)(-start)?\(", text))
    if which == "XLA, jnp" and collectives != PRODUCTS:
        raise RuntimeError(f"XLA has made {collectives} collectives of {PRODUCTS}")
    return partial(compiled, *given)


def timed(run: Callable[[], Any], calls: int, rounds: int) -> float:
    """Microseconds of a product."""
    for _ in range(2):
        jax.block_until_ready(run())
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            result = run()
        jax.block_until_ready(result)
        times.append((time.perf_counter() - start) / calls / PRODUCTS * 1e6)
    return statistics.median(times)


@functools.lru_cache(maxsize=3)  # B is that of all rivals
def put(mesh: Any, shape: tuple[int, int], spec: Any) -> Any:
    """Matrices of random numbers: zeros would be multiplied faster."""
    keys = jax.random.split(jax.random.key(0), PRODUCTS)
    make = partial(jax.random.normal, shape=shape, dtype=jnp.bfloat16)
    sharding = NamedSharding(mesh, spec)
    return [jax.jit(make, out_shardings=sharding)(key) for key in keys]


def main() -> int:
    """The command."""
    parser = scripts.parser(__doc__)
    parser.add_argument("--gpus", type=int, default=jax.device_count())
    parser.add_argument("--kinds", nargs="+", default=list(SPECS))
    parser.add_argument("--rows", nargs="+", type=int, help="M of the layers")
    parser.add_argument("--only", nargs="+", help="the names of what is measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    seen = sum(device.platform == "gpu" for device in jax.devices())
    arguments = scripts.parsed(parser, 2, seen)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: arguments.gpus]), ("x",), axis_types=(AxisType.Auto,))
    for kind in arguments.kinds:
        for name, m, inner, outer in shapes(kind, arguments.gpus, arguments.rows):
            n, k = (inner, outer) if kind == "all-gather" else (outer, inner)
            work = 2 * m * n * k // arguments.gpus
            calls = max(2, min(20, 20_000_000_000_000 // work // PRODUCTS))
            row: dict[str, Any] = {"product": kind, "shape": name, "gpus": arguments.gpus, "from": "jax"}
            for which, one in rivals(kind).items():
                if not arguments.only or which in arguments.only:
                    try:
                        run = program(one, kind, which, mesh, ((m, k), (n, k)))
                        row[which] = round(timed(run, calls, arguments.rounds), 1)
                    except RuntimeError as error:
                        row[which] = f"{error}"[:200]
            print(json.dumps(row), flush=True)
            if arguments.out:
                with Path(arguments.out).open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
