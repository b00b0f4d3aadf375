"""Times Weft's products in the emulator: seconds and multiply-adds a second, with the sanitizer.

    python benchmarks/emulator/products.py > benchmarks/emulator/products.json
    python benchmarks/emulator/products.py --large

Each line is the median of several calls after a first one, in seconds and in seconds of CPU. `interpreter`:
nothing is compiled, on one core; one call, and only up to size 512. `one`: one core. `all`: all cores.
`ratio` compares the multiply-adds a second of `all` with those of bf16 of the same chip and size, and those
of bf16 with sm_90a. `--large` times 4096 alone; `--only sm_100a` selects lines by a part of their name.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager

import ml_dtypes
import numpy as np

import weft
from weft import reference
from weft.emulator import parallel

CASES = [
    *(("sm_90a", "bf16", size) for size in (512, 1024, 2048)),
    ("sm_90a", "e4m3", 512),
    ("sm_90a", "e4m3-block", 512),
    ("sm_90a", "s8", 512),
    ("sm_100a", "bf16", 512),
    ("sm_100a", "bf16", 1024),
    ("sm_100a", "e4m3", 512),
    ("sm_100a", "s8", 512),
    ("sm_100a", "mxfp8", 512),
    ("sm_100a", "mxfp4", 512),
    ("sm_100a", "nvfp4", 512),
    ("sm_80", "bf16", 512),
    ("sm_80", "s8", 512),
]
LARGE = [("sm_90a", "bf16", 4096), ("sm_100a", "bf16", 4096)]
_INTERPRETED = 512
_CALLS = 3
_ELEMENTS = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e4m3-block": ml_dtypes.float8_e4m3fn,
}
_BLOCK = 128


def product(arch: str, kind: str, size: int) -> Callable[[], object]:
    """A function that multiplies two matrices of a kind."""
    rng = np.random.default_rng(size)
    shape = size, size
    if kind == "s8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for _ in range(2))
        return lambda: weft.matmul(a, b, transpose_b=True, arch=arch)
    if kind not in _ELEMENTS:
        left, right = (reference.quantize(rng.standard_normal(shape), kind) for _ in range(2))
        scales = left.tiled_scales, right.tiled_scales
        packed = left.packed, right.packed
        return lambda: weft.matmul(
            *packed, transpose_b=True, scales=scales, kind=kind, out_dtype="f32", arch=arch
        )
    a, b = (rng.uniform(-1, 1, shape).astype(_ELEMENTS[kind]) for _ in range(2))
    if kind != "e4m3-block":
        return lambda: weft.matmul(a, b, transpose_b=True, arch=arch)
    of_a = rng.uniform(0.5, 2, (size // _BLOCK, size)).astype(np.float32).T
    of_b = rng.uniform(0.5, 2, (size // _BLOCK, size // _BLOCK)).astype(np.float32)
    return lambda: weft.matmul(a, b, transpose_b=True, scales=(of_a, of_b), out_dtype="f32", arch=arch)


@contextmanager
def way(name: str):
    """Runs launches by the interpreter, on one core, or on all."""
    alone = parallel.alone
    if name != "all":
        parallel.alone = lambda: False
    if name == "interpreter":
        os.environ["WEFT_EMULATOR_COMPILED"] = "0"
    try:
        yield
    finally:
        parallel.alone = alone
        os.environ.pop("WEFT_EMULATOR_COMPILED", None)


def _cpu() -> float:
    """The CPU time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def seconds(run: Callable[[], object], calls: int) -> tuple[float, float]:
    """The median time and CPU time of some calls."""
    times = []
    for _ in range(calls):
        begin, used = time.perf_counter(), _cpu()
        run()
        times.append((time.perf_counter() - begin, _cpu() - used))
    took, used = zip(*times, strict=True)
    return statistics.median(took), statistics.median(used)


def measured(arch: str, kind: str, size: int) -> dict[str, object]:
    """One line."""
    line: dict[str, object] = {"arch": arch, "type": kind, "size": size}
    line["cores"] = len(os.sched_getaffinity(0))
    run, large = product(arch, kind, size), size > LARGE[0][2] // 2
    for name in ("interpreter", "one", "all"):
        if (name == "interpreter" and size > _INTERPRETED) or (large and name == "one"):
            continue
        with way(name):
            if name != "interpreter" and not large:
                run()
            took, used = seconds(run, 1 if large or name == "interpreter" else _CALLS)
        line[f"{name}_s"], line[f"{name}_cpu_s"] = round(took, 3), round(used, 3)
        line[f"{name}_macs"] = round(size**3 / took / 1e6)
    return line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    speeds: dict[tuple[object, ...], float] = {}
    for case in LARGE if options.large else CASES:
        if options.only not in "-".join(map(str, case)):
            continue
        line = measured(*case)
        arch, kind, size = case
        speeds[case] = float(str(line["all_macs"]))
        base = speeds.get(("sm_90a", "bf16", size) if kind == "bf16" else (arch, "bf16", size))
        if base and base != speeds[case]:
            line["ratio"] = round(speeds[case] / base, 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
