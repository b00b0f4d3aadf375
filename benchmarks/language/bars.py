"""Times three kernels in `weft.language` beside PyTorch and cuBLAS in bf16, and states the ratios that they
shall reach: a gated layer, weights of 4 bits for few and for many rows of x, and a product with RMSNorm.

    python benchmarks/language/bars.py

Prints a line of JSON for each product, in microseconds, and at the end one for each bar, with the geometric
mean of the ratios and the least one.
"""

import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

import int4
import products
import rmsnorm

from weft.bench import scripts

FEW, MANY = (1, 4, 16), 4096  # rows of x
BARS = {"gated": 1.1, "int4, few rows": 2.5, "int4, many rows": 0.8, "rmsnorm": None}


def main() -> None:
    scripts.parsed(scripts.parser(__doc__))
    ratios: dict[str, list[float]] = {name: [] for name in BARS}
    for name, theirs, ours, line in measured():
        ratios[name].append(theirs / ours)
        print(json.dumps({"what": name, "ratio": round(theirs / ours, 3), **line}), flush=True)
    for name, each in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, each)))
        line = {"what": name, "mean": round(mean, 3), "least": round(min(each), 3), "bar": BARS[name]}
        print(json.dumps(line), flush=True)


def measured() -> Iterator[tuple[str, float, float, dict[str, Any]]]:
    """The name of a bar, cuBLAS' time, that of the kernel, and all figures."""
    for m, n, k in products.SHAPES:
        sizes = {"m": m, "n": n, "k": k}
        found = products.measured(m, n, k, ("gated",))
        # The faster one of PyTorch's two kernels and a single one.
        theirs = min(each for name, each in found.items() if name.startswith("gated torch"))
        yield "gated", theirs, found["gated weft.language"], sizes | found
        found = rmsnorm.measured(m, n, k)
        yield "rmsnorm", found["torch"], found["weft.language"], sizes | found
    for shape in int4.SHAPES:
        n, k = map(int, shape.split("x"))
        for m in (*FEW, MANY):
            found = int4.measured(m, n, k, [""], True)
            name = "int4, many rows" if m == MANY else "int4, few rows"
            yield name, found["torch"], found["weft "], {"m": m, "n": n, "k": k} | found


if __name__ == "__main__":
    main()
