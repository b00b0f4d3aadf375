"""The kernel for many rows of x: y = x @ ((q - zero) * scale).T + bias.

The weights are the left operand of `wgmma`, so that it computes y.T: two warpgroups dequantise 64 rows of
them each into registers, while the tensor cores multiply what the other one has dequantised.
"""

from typing import Any

import weft.language as w
from weft.int4.kernels.groups import loaded
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


@w.kernel(
    grid=lambda x, y, *, BM, splits: (w.ceil_div(x.rows, BM), w.ceil_div(y.columns, 2 * ROWS), splits),
    persistent=lambda *, splits: 1 if splits == 1 else None,
    cluster=lambda *, splits: (1, 1, splits) if splits > 1 else None,
)
def many_rows(
    x: w.In["m k"],
    packed: w.In["lines 32", w.i32],
    scales: w.In["tiles scales"],
    zeros: w.In["tiles_of_zeros zeros"],
    bias: w.In["b"],
    y: w.Out["m n"],
    *,
    BM: int,
    group: int,
    asymmetric: bool,
    biased: bool = False,
    splits: int = 1,
    stages: int = 4,
) -> None:
    """A tile of BM x 128 of y for each CTA. `group` columns share a scale, all of them if it is 0. `splits`
    CTAs of a cluster share K.
    """
    groups = max(DEPTH // group, 1) if group else 1  # of a stage
    kinds = dict.fromkeys(("scale", "zero")[: 1 + asymmetric], (1, 2 * ROWS * groups, x.dtype))
    ring = w.ring(stages, x=(BM, DEPTH, x.dtype), q=(2 * LINES, 32, w.i32), **kinds, takers=2)
    staging = w.shared(BM, 2 * ROWS, y.dtype if splits == 1 else w.f32)
    pairs = w.ceil_div(x.columns, 2 * DEPTH * splits)

    with w.role(warpgroups=2, registers=240) as me:

        def weights(slot: Any) -> w.Fragment:
            mine = [groups * me + n for n in range(groups)]
            scale, zero = (loaded(slot, name, mine) for name in ("scale", "zero"))
            return w.dequantize_int4(w.load_contiguous(slot.q.rows(LINES * me, LINES)), scale, zero)

        def multiplied(late: Any, sums: Any) -> tuple[Any, Any]:
            slot = ring.take()
            made = weights(slot)  # while the product before runs
            sums = w.wait(sums)
            late.release()
            return slot, w.gemm(made, slot.x.T, sums)

        for i, j, _ in w.tiles():
            slot = ring.take()
            sums = w.gemm(weights(slot), slot.x.T)
            for _ in w.range(1, pairs):
                for _ in range(2):  # so that no registers are written that a running product reads
                    slot, sums = multiplied(slot, sums)
            slot, sums = multiplied(slot, sums)
            sums = w.wait(sums)
            slot.release()
            column, mine = (2 * j + me) * ROWS, staging.columns(ROWS * me, ROWS)
            if biased and (splits == 1 or w.cluster_rank() == 0):
                sums = sums + w.load_column(bias[column], like=sums).to(w.f32)
            if splits > 1:
                add_up(sums.T, mine, y, i * BM, column, splits)
            else:
                w.store(sums.T.to(y.dtype), y[i * BM, column], via=mine if y.aligned else None)

    with w.role(registers=24):
        with w.one_thread():
            for i, j, split in w.tiles():
                first = split * (2 * pairs) if splits > 1 else 0
                for number in w.range(first, first + 2 * pairs):
                    tiles, blocks = (2 * j, 2 * j + 1), w.ceil_div(x.columns, DEPTH)
                    lines = tuple(packed[(tile * blocks + number) * LINES, 0] for tile in tiles)
                    column = (number * DEPTH // group if group else 0) * ROWS
                    of_groups = {"scale": scales, "zero": zeros} if asymmetric else {"scale": scales}
                    more = {name: tuple(of[t, column] for t in tiles) for name, of in of_groups.items()}
                    ring.fill(x=x[i * BM, number * DEPTH], q=lines, **more)
        if splits > 1:
            w.cluster_barrier()
            w.cluster_barrier()


def add_up(sums: Any, buffer: w.Buffer, y: Any, row: Any, column: Any, splits: int) -> None:
    """Adds the sums of the CTAs of a cluster. Each CTA stores some rows of y, 8 at a time."""
    w.store(sums, buffer)
    w.cluster_barrier()
    share = sums.rows // splits
    for first in range(0, share, 8):
        at, total = w.cluster_rank() * share + first, None
        for split in range(splits):
            one = w.load_contiguous(buffer.peer(split).rows(at, 8))
            total = one if total is None else total + one
        w.store(total.to(y.dtype), y[row + at, column])
    w.cluster_barrier()  # peers have read the sums
