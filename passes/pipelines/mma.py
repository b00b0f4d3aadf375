"""Pipelines with `mma.sync`: all warps multiply, and fill the stages by `cp.async`."""

from collections.abc import Iterator
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import GemmOp
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.isa.mma import SYNC, Sync
from weft.isa.tensor_map import ROW_BYTES
from weft.isa.wgmma import M as WGMMA_ROWS
from weft.mlir import gpu, ir, nvvm, vector
from weft.passes.builders import emit, registers
from weft.passes.kernels.fragments import load_atoms, of_atoms
from weft.passes.pipelines.loop import Load, Loop, types_of
from weft.passes.pipelines.pipeline import Pipeline

_NO_ROW = 1 << 30
_SUMS_OF_FOUR_WARPS = 128 * 128
_STEP_FROM_SUMS = 16
"""The K of the instruction whose A is as sums are: that of elements of 16 bits."""


def _form(loop: Loop) -> Sync:
    """The instruction that multiplies. Before sm_90, that of f64 has 8 rows."""
    a, b, d, k = types_of(loop.products[0])
    forms = [Sync(f"m{rows}n8k{k}", a, b, d, d) for rows in (16, 8)]
    return next((form for form in forms if SYNC.judge(form, loop.chip) is None), forms[0])


class ByWarps(Pipeline):
    """All warps multiply by `mma.sync`, and fill the stages by `cp.async`."""

    @staticmethod
    def grid(loop: Loop) -> tuple[int, int, int] | None:
        """How many warps multiply, down and across, and in how many warpgroups they are; None where
        `mma.sync` can't. Their parts have the least rows and columns together.
        """
        m, n, _ = loop.products[0].mnk
        a, b, d, k = types_of(loop.products[0])
        if SYNC.judge(_form(loop), loop.chip):
            return None
        alike = all(types_of(each) == (a, b, d, k) and each.mnk[2] % k == 0 for each in loop.products)
        loaded = all(each.a in loop.loads for each in loop.products)
        if not alike or not (loaded or k == _STEP_FROM_SUMS):
            return None
        count = WARPS if m * n <= _SUMS_OF_FOUR_WARPS else 2 * WARPS
        grids = [(down, count // down) for down in (1, 2, 4, 8) if down <= count]
        legal = [
            (down, across)
            for down, across in grids
            if m % (16 * down) == 0
            and n % (8 * across) == 0
            and loop.divides(m, n, across)
            and (loaded or across == 1)
        ]
        least = min(legal, key=lambda each: m // each[0] + n // each[1], default=None)
        return least and (*least, count // WARPS)

    @staticmethod
    def complaint(loop: Loop) -> str:
        """Why no instruction multiplies the tiles of a loop."""
        m, n, depth = loop.products[0].mnk
        k = (form := _form(loop)).mnk[2]
        if refused := SYNC.judge(form, loop.chip):
            return f"has no mma.sync on {loop.chip}: {refused}"
        if depth % k:
            return f"has a K of {depth}, which must be a multiple of {k}: {-(-depth // k) * k}"
        nearest = f"{-(-m // WGMMA_ROWS) * WGMMA_ROWS} x {-(-n // LANES) * LANES}"
        text = f"has sums of {m} x {n}, which warps can't divide together with all other tiles"
        return f"{text}; nearest legal, if all have as many rows: {nearest}"

    def write(self) -> None:
        """Divides all tiles among the warps, which copy `ahead` iterations before they multiply."""
        form = _form(self.loop)
        self.step = form.mnk[2]
        self.atom, *self.inputs, _ = form.operands
        self.ahead = self.loop.stages - 1
        loop, block, op = self.loop, self.loop.kernel.body.blocks[0], self.loop.op
        ops = [each.operation for each in block.operations]
        self.set_launch(self.warpgroups * WARPGROUP)
        with ir.InsertionPoint.at_block_begin(block):
            self.begin_part(emit.div(emit.thread(), LANES))
        with ir.InsertionPoint(loop.holder):
            self.allocate()
        with ir.InsertionPoint(op):
            if loop.around:
                gpu.barrier()  # the stages have been read
            first, end, step = op.operands[:3]
            for number in range(self.ahead):
                k = emit.add(first, emit.mul(step, number))
                with emit.when(emit.less(k, end)):
                    list(self._copies(loop.places(k, {}), emit.value(number)))
                nvvm.cp_async_commit_group()
        self.divide(ops)
        results = self.rebuild((0, self.ahead), self._begin, self._multiply, self._end)
        with ir.InsertionPoint.after(results[0].owner):
            nvvm.cp_async_wait_group(0)  # for the zeros

    def _copies(
        self, places: list[tuple[Load, list[Any]]], stage: ir.Value, has: ir.Value | None = None
    ) -> Iterator[None]:
        """Starts to copy the tiles of an iteration to a stage, one after the other; zeros unless the loop
        `has` it.
        """
        for each, (source, row, column, *_) in places:
            row = row if has is None else emit.select(has, row, _NO_ROW)
            part, (rows, columns) = each.stage(stage), each.edges
            if each.by_vectors:
                tile.copy_async(source, row, column, part, vector_bytes=ROW_BYTES, rows=rows, columns=columns)
            else:
                tile.copy(source, row, column, part)
            yield

    def _begin(self, number: ir.Value, read: ir.Value, write: ir.Value) -> None:
        nvvm.cp_async_wait_group(self.ahead - 1)
        gpu.barrier()
        _, end, step = self.loop.op.operands[:3]
        following = emit.add(number, emit.mul(step, self.ahead))
        has = emit.less(following, end)
        self.copying = self._copies(self.loop.places(emit.select(has, following, number), {}), write, has)

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """A warp's part of a product, one instruction deep after the other."""
        sums, (_, columns, depth) = product.c[0] if self.loop.adds(product) else None, product.mnk
        right, atom = self.loop.loads[product.b], self.inputs[1]
        kind = of_atoms(atom, (self.step, columns // self.across), right.element)
        for k in range(0, depth, self.step):
            a = self._left(product.a, stage, k)
            b = load_atoms(right.stage(stage), self.column, k, kind, atom, right.k_major)
            next(self.copying, None)  # one in a step, so that products hide their instructions
            sums = tile.gemm(a, b, sums, product.d.type)
        assert sums is not None
        return sums

    def _left(self, a: ir.Value, stage: ir.Value, k: int) -> ir.Value:
        """A warp's part of A at a depth, of a stage or of a tile in the layout of sums."""
        atom, _ = self.inputs
        kind = of_atoms(atom, (self.rows, self.step), a.type.element_type)
        if (load := self.loop.loads.get(a)) is not None:
            return load_atoms(load.stage(stage), self.row, k, kind, atom, load.k_major)
        held = registers.registers_of(a.type.layout, a.type.shape)
        numbers = [
            held.index((row, k + column)) for row, column in registers.registers_of(kind.layout, kind.shape)
        ]
        lane = tile.to_lane(a)
        return tile.from_lane(vector.shuffle(lane, lane, numbers), kind)

    def _end(self, read: ir.Value, write: ir.Value) -> list[ir.Value]:
        list(self.copying)
        nvvm.cp_async_commit_group()
        following = emit.add(read, 1)
        return [emit.select(emit.equal(following, self.loop.stages), 0, following), read]
