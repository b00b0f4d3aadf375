"""Runs a kernel of every kind once, at small sizes, for compute-sanitizer to watch:

    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 python test/gpu/sanitize.py

(or racecheck, or synccheck). The number of parameters of a kernel is only found by asking for one too many,
which memcheck would report. Prints what it runs; the exit status is 1 where a result is wrong, too. Run it
once without, so that the kernels are compiled and kept.
"""

import argparse
import sys
import time

from launches import complaint
from product_cases import MMA, NN, laid
from products import CHIP, Case, Product

from weft.launch import runtime

SHAPE = (200, 136, 392)  # several tiles each way in most schedules, none of them whole
FEW = (24, 200, 392)

BF16 = ("bf16", "bf16", "bf16")
TO_F32 = ("bf16", "bf16", "f32")
FP8 = ("f8E4M3FN", "f8E4M3FN", "bf16")
EVERYTHING = (("c", "f32"), ("bias", "f32"), ("residual", "bf16"))

KINDS = {
    "plain, D by TMA": (Product(*BF16, laid("two warpgroups", "bf16")), SHAPE),
    "plain, D by threads": (Product(*TO_F32, laid("three warpgroups", "bf16")), SHAPE),
    "several tiles for each CTA": (Product(*BF16, laid("one warpgroup", "bf16")), (1100, 1000, 72)),
    "tiles in turns": (Product(*BF16, laid("in turns", "bf16"), added=EVERYTHING), (1100, 1000, 200)),
    "MN-major": (Product("f16", "f16", "f16", laid("one warpgroup", "f16"), (True, False)), SHAPE),
    "swapped": (Product(*BF16, laid("swapped", "bf16")), FEW),
    "multicast": (Product(*BF16, laid("cluster of 4", "bf16")), SHAPE),
    "splits in a cluster": (Product(*BF16, laid("split in 2", "bf16")), SHAPE),
    "splits through global memory": (Product(*TO_F32, laid("3 parts", "bf16")), SHAPE),
    "both, of clusters": (Product(*BF16, laid("parts of a cluster", "bf16")), SHAPE),
    "stream-K": (Product(*BF16, laid("stream-K", "bf16")), SHAPE),
    "epilogue": (
        Product(*BF16, laid("two warpgroups", "bf16"), beta=2.0, added=EVERYTHING, activation="gelu"),
        SHAPE,
    ),
    "promoted": (Product(*FP8, laid("two warpgroups", "i8"), promote=True), SHAPE),
    "block scales": (Product(*FP8, laid("columns of no power of two", "i8"), scaled=True), SHAPE),
    "groups of rows": (
        Product(*FP8, laid("cluster across", "i8"), scaled=True, many="rows"),
        (300, 136, 392),
    ),
    "masked groups": (Product(*FP8, laid("two warpgroups", "i8"), scaled=True, many="masked"), SHAPE),
    "batch": (Product(*BF16, laid("one warpgroup", "bf16"), many="batch"), SHAPE),
    "integers": (Product("i8", "ui8", "i32", laid("two warpgroups", "i8")), SHAPE),
    "mma.sync": (Product(*BF16, MMA[2], transposed=NN), SHAPE),
    "mma.sync, rows anywhere": (
        Product(*TO_F32, laid("one warpgroup", "bf16"), rows="dense"),
        (131, 67, 203),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--on", choices=("gpu", "emulator"), default="gpu", help="where they run")
    options = parser.parse_args()
    chosen = {name: each for name, each in KINDS.items() if options.only in name}
    reason = runtime.available() if options.on == "gpu" else None
    if reason is None and options.on == "gpu" and runtime.current().chip != CHIP:
        reason = f"the kernels are {CHIP}'s, this GPU is {runtime.current().chip}"
    if reason or not chosen:
        print(reason or f"no kind has '{options.only}': there is {', '.join(KINDS)}", file=sys.stderr)
        return 1
    wrong = 0
    for name, (product, shape) in chosen.items():
        start = time.perf_counter()
        found = complaint(product, Case(shape, "integers"), product.compiled(), options.on)
        print(
            f"{name}: {product}: {'x'.join(map(str, shape))}, {time.perf_counter() - start:.1f} s", flush=True
        )
        if found:
            print(f"wrong: {found}", flush=True)
            wrong += 1
    print(f"{len(chosen)} kinds on the {options.on}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
