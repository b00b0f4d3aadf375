"""Times Weft's products in the emulator: seconds and multiply-adds a second, with the sanitizer.

    python benchmarks/emulator/products.py > benchmarks/emulator/products.json

Each line is the second call with its arguments. `numpy`: the sums of tensor cores by NumPy, on one core.
`one`: compiled sums on one core. `all`: compiled sums on all cores.
"""

import json
import os
import time

import ml_dtypes
import numpy as np

import weft
from weft.emulator import parallel
from weft.emulator.numerics import products

CASES = [
    ("sm_90a", "bfloat16", 512),
    ("sm_90a", "bfloat16", 1024),
    ("sm_90a", "bfloat16", 2048),
    ("sm_90a", "float8_e4m3fn", 1024),
    ("sm_100a", "bfloat16", 512),
    ("sm_80", "bfloat16", 512),
]
WAYS = {"numpy": (1, 1 << 60), "one": (1, 1 << 21), "all": (None, 1 << 21)}


def seconds(arch: str, dtype: str, size: int) -> float:
    rng = np.random.default_rng(size)
    kind = getattr(ml_dtypes, dtype)
    a, b = (rng.uniform(-1, 1, (size, size)).astype(kind) for _ in range(2))
    b = np.ascontiguousarray(b.T).T
    weft.matmul(a[:64], b[:, :64], arch=arch)
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        weft.matmul(a, b, arch=arch)
        times.append(time.perf_counter() - begin)
    return times[-1]


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    for arch, dtype, size in CASES:
        line: dict[str, object] = {"arch": arch, "type": dtype, "size": size, "cores": cores}
        for way, (threads, worth) in WAYS.items():
            products._WORTH = worth
            parallel._cores = lambda threads=threads: threads or cores
            took = seconds(arch, dtype, size)
            line[f"{way}_s"] = round(took, 2)
            line[f"{way}_macs"] = round(size**3 / took / 1e6)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
