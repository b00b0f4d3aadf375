"""Writes the PTX of every kind of kernel into a folder, a file each. No GPU is needed.

    python test/gpu/kernel_ptx.py before
    …change the code…
    python test/gpu/kernel_ptx.py after
    diff -r before after

The kernels are the products of `product_cases.py` for sm_90a, those that suit `mma.sync` for four more chips,
the schedules that each chip gets by default, and the kernels in examples/. Debug information, which names
lines of Weft's own source, is left out.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from product_cases import MMA, products
from products import CHIP, Product

from weft import mlir, passes
from weft.compiler import stages
from weft.dialects import context
from weft.dialects.schedule import Schedule
from weft.errors import WeftError
from weft.target import Target

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ("sm_80", "sm_86", "sm_89", "sm_120a")


def kernels() -> Iterator[tuple[str, str, Product | Path]]:
    """A name, a chip, and the source of each kernel."""
    every = products()
    for number, product in enumerate(every):
        yield f"{CHIP}-{number:03}", CHIP, product
    shared = [product for product in every if isinstance(product.schedule, Schedule)]
    for chip in CHIPS:
        given = [*shared, *_for_mma(every, chip)]
        for number, product in enumerate(given):
            yield f"{chip}-{number:03}", chip, product
    for path in sorted((ROOT / "examples").glob("*.mlir")):
        for chip in ("sm_80", CHIP):
            yield f"{path.stem}-{chip}", chip, path


def _for_mma(every: list[Product], chip: str) -> Iterator[Product]:
    """Products of each type and epilogue with schedules of `mma.sync`, given ones and the chip's default."""
    schedules = [*MMA, None]
    seen = set()
    for product in every:
        kind = product.a, product.b, product.d, product.transposed, product.activation, product.many
        if kind in seen or product.scaled or product.promote:
            continue
        schedule = schedules[len(seen) % len(schedules)]
        if schedule and schedule.complaint(product.types, Target.of(chip)):
            schedule = None
        seen.add(kind)
        yield replace(product, schedule=schedule)


def _write(folder: Path, name: str, chip: str, source: Product | Path) -> bool:
    """Writes one kernel; returns whether the chip has it."""
    try:
        text = _ptx(source, chip)
    except WeftError:
        return False
    (folder / f"{name}.ptx").write_text(f"// {source.name if isinstance(source, Path) else source}\n{text}")
    return True


def _ptx(source: Product | Path, chip: str) -> str:
    if isinstance(source, Path):
        module = mlir.parse(source.read_text("utf-8"), context(), source.name)
    else:
        module = source.module().finished()
    passes.manager("strip-debuginfo", module.context).run(module.operation)
    return re.sub(r"(?m)^\s*\.(loc|file)\b.*\n", "", stages.compile_module(module, chip).ptx)


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the PTX of every kind of kernel into a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for old in options.folder.glob("*.ptx"):
        old.unlink()
    os.environ["WEFT_SCHEDULES"] = ""  # defaults, whatever was tuned here
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        written = [pool.submit(_write, options.folder, *each) for each in kernels()]
        count = sum(each.result() for each in written)
    print(f"{count} kernels in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
