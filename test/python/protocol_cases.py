"""Kernels of each protocol for tensor memory and TMA, with small operands, and the number of their steps of
each kind that other steps make redundant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import products
import test_tcgen05_block_scales as block_scales
import test_tma_mma_schedules as mma_sync
from products import Product

import weft
from weft import emulator, reference
from weft.dialects.schedule import AnySchedule, TensorMemorySchedule

DATA = Path(__file__).parent / "data"
CHIP = "sm_100a"
Operands = tuple[list[Any], Callable[[], bool]]
"""Arguments of a launch, and whether they hold the right result after it."""


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel, the operands of a small launch of it, and `redundant`: the number of steps of each kind that
    other steps make redundant, which is not found. `grid` is the number of CTAs if it isn't that of the
    tiles.
    """

    name: str
    make: Callable[[], weft.Kernel]
    operands: Callable[[], Operands]
    redundant: dict[str, int]
    grid: int | None = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def kernel(self) -> weft.Kernel:
        """The compiled kernel."""
        return self.make()

    def rules(self, text: str | None = None, seed: int | None = None) -> tuple[set[str], bool]:
        """The rules of what is found in the kernel, or in changed PTX, and whether the result is right."""
        changed = weft.Kernel(self.kernel.compiled, self.kernel.launch)
        if text is not None:
            changed._module = emulator.Module(text)
        given, is_right = self.operands()
        grid = None if self.grid is None else (self.grid, 1, 1)
        try:
            found = changed.emulate(*given, max_instructions=100_000, seed=seed, grid=grid).findings
        except (emulator.Fault, emulator.Deadlock) as error:
            found = error.findings
        return {finding.rule for finding in found}, is_right()


def _of_file(name: str, sizes: Sequence[int], redundant: dict[str, int]) -> Case:
    """A kernel of `data`; without sizes, it does the work of each CTA once."""

    def operands() -> Operands:
        if not sizes:
            done = np.zeros((3, 32), np.int32)
            return [done], lambda: bool((done == 1).all())
        m, n, k = sizes
        chance = np.random.default_rng(0)
        a, b = (chance.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
        d, wanted = np.full((m, n), np.nan, np.float32), a.astype(np.float32) @ b.T.astype(np.float32)
        return [a, b, d], lambda: np.array_equal(d, wanted)

    return Case(
        name, lambda: weft.compile((DATA / f"{name}.mlir").read_text(), arch=CHIP), operands, redundant
    )


def _of_product(
    name: str,
    schedule: AnySchedule,
    sizes: tuple[int, int, int],
    redundant: dict[str, int],
    grid: int | None = None,
    chip: str = CHIP,
    **how: Any,
) -> Case:
    """A product of `tile.matmul`, of f16 unless `how` has other types."""
    types = {"a": "f16", "b": "f16", "d": "f32"}
    made = Product(**{**types, **how}, schedule=schedule)
    case = products.Case(sizes, "integers")

    def operands() -> Operands:
        placed = made.operands(case)
        wanted = made.wanted(case, placed).values
        return [each.values for each in placed.values()], lambda: np.array_equal(placed["d"].values, wanted)

    return Case(name, lambda: weft.compile(made.module(), arch=chip), operands, redundant, grid)


def _of_block_scales(
    name: str, made: block_scales.Case, redundant: dict[str, int], grid: int | None = None
) -> Case:
    """A product with block scales."""

    def operands() -> Operands:
        a, b = made.operands()
        d = np.full(made.shape[:2], np.nan, np.float32)
        tiles = a.tiled_scales, b.tiled_scales
        scales = dict(zip(("scale_a", "scale_b"), tiles, strict=True))
        wanted = reference.product(a.elements, b.elements, transpose_b=True, **scales)
        return [a.elements, b.elements, d, *tiles], lambda: bool(wanted.compare(d).passed)

    return Case(name, lambda: made.kernel(*made.operands()), operands, redundant, grid)


def _tiles(m: int, n: int, k: int = 64, **fields: Any) -> TensorMemorySchedule:
    return TensorMemorySchedule((m, n, k), 2, 2, **fields)


# The loads of the sums and their wait already need the whole warp. Of the waits for an accumulator and for a
# stage, one fence is enough; dealloc needs none. Of two fences of inits, the later one is enough.
OF_SUMS = {"no barrier of a warp": 1, "no fence after": 3, "no fence before": 1, "no fence of inits": 1}
# A producer waits at its end until its stages are empty: the last commit for an accumulator, which the
# epilogue waits for before the barrier at the end, completes after those for stages. The epilogue runs after
# a warp that has waited for the previous launch.
OF_PRODUCTS = {**OF_SUMS, "a wait that always passes": 1, "no wait for the previous launch": 1}
# Where the last products are late, the other phase of the stages has passed at the producer's end.
OF_LATE = {**OF_PRODUCTS, "a wait for the other phase": 1}
# Between the two waits for loads there are only copies of registers. The epilogue's loads of scales need its
# own wait for the previous launch.
OF_PROMOTED = {**OF_LATE, "no wait for tcgen05.ld or st": 1, "no wait for the previous launch": 0}
# As in launch_control. The third ring has a fence of inits, too. Requests of tiles wait for the previous
# launch for its sake, not for their own. Second slots of the rings of tiles and accumulators are used once.
OF_DYNAMIC = {
    **OF_PRODUCTS,
    "another count": 2,
    "no proxy fence": 6,
    "no fence of inits": 2,
    "no wait for the previous launch": 2,
}
MXFP8 = block_scales.PAIRS[1]
CASES = [
    # The second accumulator is used once: nothing waits until it is empty, so one arrival may be too much.
    _of_file("tcgen05_gemm", (384, 64, 128), {**OF_SUMS, "another count": 1}),
    _of_file("tcgen05_pair", (512, 64, 192), {**OF_SUMS, "a wait that always passes": 1}),
    # Between reads and a later write by an asynchronous unit, the arrival and the wait are enough.
    _of_file("launch_control", (), {"no proxy fence": 4}),
    _of_product("single CTAs", _tiles(128, 32), (256, 64, 192), OF_PRODUCTS, grid=1),
    _of_product("pairs", _tiles(256, 32, cta_group=2), (512, 64, 192), OF_PRODUCTS, grid=2),
    _of_product(
        "clusters of pairs",
        _tiles(256, 32, cta_group=2, cluster=(2, 1)),
        (1024, 64, 192),
        {**OF_PRODUCTS, "no barrier of a cluster": 1},  # of two at the end
        grid=4,
    ),
    _of_product("dynamic pairs", _tiles(256, 32, cta_group=2, dynamic=True), (1024, 64, 128), OF_DYNAMIC),
    _of_product("split K", _tiles(128, 32, global_splits=2), (512, 32, 256), OF_LATE, grid=2),
    _of_product(
        "promoted sums",
        _tiles(128, 32, 128),
        (256, 64, 384),
        OF_PROMOTED,
        grid=1,
        a="f8E4M3FN",
        b="f8E4M3FN",
        scaled=True,
    ),
    _of_block_scales(
        "block scales",
        block_scales.Case(MXFP8, "f32", _tiles(128, 32, 128), (256, 64, 384)),
        OF_PRODUCTS,
        grid=1,
    ),
    _of_block_scales(
        "shared accumulators",
        block_scales.Case(MXFP8, "f32", _tiles(128, 256, 128), (260, 208, 256)),
        OF_LATE,
        grid=1,
    ),
    _of_product(
        "mma.sync",
        mma_sync.of(64, 64, 64),
        (128, 128, 192),
        {"no wait for the previous launch": 1},  # as the epilogue's above
        grid=1,
        chip="sm_120a",
    ),
]
