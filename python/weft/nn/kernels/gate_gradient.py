"""The gradient of Z = [G U] from that of Y = H W.T, where H = activation(G) U. The gradient of H is never in
memory.
"""

import weft.language as w
from weft.language.operations.conversions import by_parts
from weft.language.operations.maths import activated, derivative

ROWS, COLUMNS = 128, 256
"""The tile of a CTA."""
HALF = COLUMNS // 2
BK = ROWS // 2  # so that a stage has room for both halves of a block of W, or for half a tile of G or U


@w.kernel(
    grid=lambda of_y, gate: (w.ceil_div(of_y.rows, ROWS), w.ceil_div(gate.columns, COLUMNS)), persistent=1
)
def gate_gradient(
    of_y: w.In["m k"],
    weight: w.In["k n"],
    gate: w.In["m n"],
    up: w.In["m n"],
    of_gate: w.Out["m n"],
    of_up: w.Out["m n"],
    *,
    activation,
    stages=4,
    group=16,
    parts=8,
):
    """of_up = (of_y @ weight) * activation(gate), of_gate = (of_y @ weight) * up * activation'(gate).

    After the blocks of a tile, four stages hold its part of gate and up, loaded while the last blocks are
    multiplied. Tiles are computed in groups of rows, so that L2 keeps what they read.
    """
    dtype = of_y.dtype
    ring = w.ring(stages, a=(ROWS, BK, dtype), b=(2 * BK, HALF, dtype), takers=2)
    staging = w.shared(ROWS, HALF, dtype)

    def order(number, counts):
        rows, columns = counts
        first = number // (group * columns) * group
        size = w.minimum(group, rows - first)
        rest = number - first * columns
        return first + rest % size, rest // size

    def gradients(of_h, g, u):
        g, u = g.to(w.f32), u.to(w.f32)
        of_g = of_h * u * derivative(g, activation)
        return of_g.to(dtype), (of_h * activated(g, activation)).to(dtype)

    with w.role(warpgroups=2, registers=240) as me:

        def multiplied(slot, left, right):
            rows = slot.a.rows(64 * me, 64)
            return w.gemm(rows, slot.b.rows(0, BK), left), w.gemm(rows, slot.b.rows(BK, BK), right)

        mine = staging.rows(64 * me, 64)
        for i, j in w.tiles(order=order):
            slot = ring.take()
            left, right = multiplied(slot, None, None)
            for _ in w.range(1, w.ceil_div(of_y.columns, BK)):
                late, slot = slot, ring.take()
                left, right = multiplied(slot, left, right)
                w.wait(pending=2)  # the products of the block before are finished
                late.release()
            left, right = w.wait(left, right)
            slot.release()
            row = i * ROWS + 64 * me
            for half, of_h in enumerate((left, right)):
                column = j * COLUMNS + half * HALF
                with ring.take() as slot:
                    g = w.load(slot.b.rows(64 * me, 64))
                with ring.take() as slot:
                    own = slot.b.rows(64 * me, 64)
                    of_g, of_u = by_parts(gradients, of_h, g, w.load(own), count=parts)
                    w.store(of_g, of_gate[row, column], via=mine)
                    w.store(of_u, of_up[row, column], via=own)

    with w.role(registers=24), w.one_thread():
        for i, j in w.tiles(order=order):
            row, left, right = i * ROWS, j * COLUMNS, j * COLUMNS + HALF
            for k in w.range(0, of_y.columns, BK):
                ring.fill(a=of_y[row, k], b=(weight[k, left], weight[k, right]))
            for column in (left, right):
                for half in (gate, up):
                    ring.fill(a=None, b=half[row, column])
