"""Pipelines with `mma.sync`: all warps multiply, and fill the stages by `cp.async`."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import GemmOp
from weft.dialects.tile_copies import BOTH, INSIDE, ZERO
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.isa.mma import SYNC, Sync
from weft.isa.tensor_map import ROW_BYTES
from weft.isa.wgmma import M as WGMMA_ROWS
from weft.mlir import gpu, ir, memref, nvvm, vector
from weft.passes.builders import emit, registers
from weft.passes.kernels.fragments import fit_ahead, load_atoms, of_atoms
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
        ahead = self._loads_ahead
        with ir.InsertionPoint(op):
            if loop.around:
                gpu.barrier()  # the stages have been read
            first, end, step = op.operands[:3]
            for number in range(self.ahead):
                k = emit.add(first, emit.mul(step, number))
                has = emit.less(k, end)
                # What is read ahead must be written, also if there are fewer iterations.
                with nullcontext() if ahead else emit.when(has):
                    list(self._copies(loop.places(k, {}), emit.value(number), has if ahead else None))
                nvvm.cp_async_commit_group()
        self.divide(ops)
        loaded = list[ir.Value]()
        if ahead:
            with ir.InsertionPoint(op):
                self._wait()
                loaded = self._operands(loop.products[0], emit.value(0), 0)
        moving = self._moving()
        results = self.rebuild((0, self.ahead, *loaded), self._begin, self._multiply, self._end)
        if moving:
            self._split(results[0].owner.opview, moving)
        with ir.InsertionPoint.after(results[0].owner):
            nvvm.cp_async_wait_group(0)  # for the zeros

    def _moving(self) -> list[tuple[ir.Value, int, int]]:
        """The matrices of the loads, the axis of each along which the loop's number is a tile's coordinate,
        and the tile's extent. Empty if another coordinate depends on the loop, a load isn't copied by
        vectors or doesn't need zeros beyond that edge, or the loop has several products.
        """
        loop = self.loop
        moving = list[tuple[ir.Value, int, int]]()
        computed = {value for op in loop.coordinates for value in op.results}
        for each in loop.loads.values() if len(loop.products) == 1 else ():
            places = [each.op.row, each.op.column]
            axes = [axis for axis in (0, 1) if places[axis] == loop.op.induction_variable]
            if len(axes) != 1 or not each.by_vectors or computed & {each.op.source, *places}:
                return []
            if each.edges[axes[0]] != ZERO:
                return []
            moving.append((each.op.source, axes[0], each.shape[axes[0]]))
        return moving

    def _split(self, rest: Any, moving: list[tuple[ir.Value, int, int]]) -> None:
        """Puts a loop before `rest`, with the iterations whose copies are inside the matrices along the axes
        of `moving`, and so don't check them.
        """
        first, end, step = rest.operands[:3]
        with ir.InsertionPoint(rest):
            distance = emit.mul(step, self.ahead)
            limit = emit.sub(end, distance)
            for matrix, axis, extent in moving:
                size = emit.as_i32(memref.dim(matrix, emit.index(axis)))
                limit = emit.minimum(limit, emit.sub(size, emit.add(distance, extent - 1)))
            count = emit.ceil_div(emit.maximum(emit.sub(limit, first), 0), step)
            middle = emit.value(emit.add(first, emit.mul(count, step)))
            whole = rest.operation.clone()
        ops = list(whole.opview.body.operations)
        has = ops[[each.operation for each in rest.body.operations].index(self.has.owner)]
        with ir.InsertionPoint(has):
            has.results[0].replace_all_uses_with(emit.constant(emit.i1(), 1))
        copies = [op for op in ops if isinstance(op, tile.CopyAsyncOp)]
        for copy, (_, axis, _) in zip(copies, moving, strict=True):
            copy.attributes[("rows", "columns")[axis]] = ir.StringAttr.get(INSIDE)
        whole.operands[1] = rest.operation.operands[0] = middle
        for number, result in enumerate(whole.results, 3):
            rest.operation.operands[number] = result

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
                tile.copy(source, row, column, part, any_start=BOTH in each.edges)
            yield

    @property
    def _loads_ahead(self) -> bool:
        """Whether the operands of a step are loaded before the product of the step before it. Both, the sums
        and the addresses of copies must then fit in registers. Coordinates are then computed for iterations
        beyond the last one, too, which must not read memory.
        """
        loop, (first, *others) = self.loop, self.loop.products
        sums = self.rows * self.columns * first.d.type.element_type.width
        operands = (self.rows + self.columns) * self.step * first.a.type.element_type.width
        fits = fit_ahead(sums, operands, loop.bytes, self.warpgroups * WARPGROUP)
        reads = any(isinstance(op.opview, memref.LoadOp) for op in loop.coordinates)
        return not others and not reads and first.a in loop.loads and fits

    def _wait(self) -> None:
        """Waits for the copies of the next iteration."""
        nvvm.cp_async_wait_group(self.ahead - 1)
        gpu.barrier()

    def _begin(self, number: ir.Value, read: ir.Value, write: ir.Value, *loaded: ir.Value) -> None:
        self.loaded = list(loaded)
        if not loaded:
            self._wait()
        _, end, step = self.loop.op.operands[:3]
        following = emit.add(number, emit.mul(step, self.ahead))
        self.has = has = emit.less(following, end)
        self.copying = self._copies(self.loop.places(emit.select(has, following, number), {}), write, has)

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """A warp's part of a product, one instruction deep after the other."""
        sums = product.c[0] if self.loop.adds(product) else None
        (*_, depth) = product.mnk
        is_ahead = bool(self.loaded)
        loaded = self.loaded or self._operands(product, stage, 0)
        for k in range(self.step, depth + self.step, self.step):
            next(self.copying, None)  # one in a step, so that products hide their instructions
            a, b = loaded
            if k < depth:
                loaded = self._operands(product, stage, k)
            elif is_ahead:
                list(self.copying)
                nvvm.cp_async_commit_group()
                self._wait()
                self.loaded = self._operands(product, self._after(stage), 0)
            sums = tile.gemm(a, b, sums, product.d.type)
        assert sums is not None
        return sums

    def _operands(self, product: GemmOp, stage: ir.Value, k: int) -> list[ir.Value]:
        """A warp's parts of A and B at a depth of a stage."""
        right, atom = self.loop.loads[product.b], self.inputs[1]
        kind = of_atoms(atom, (self.step, product.mnk[1] // self.across), right.element)
        b = load_atoms(right.stage(stage), self.column, k, kind, atom, right.k_major)
        return [self._left(product.a, stage, k), b]

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

    def _end(self, read: ir.Value, write: ir.Value, *loaded: ir.Value) -> list[ir.Value]:
        if not loaded:
            list(self.copying)
            nvvm.cp_async_commit_group()
        return [self._after(read), read, *self.loaded]

    def _after(self, stage: ir.Value) -> ir.Value:
        following = emit.add(stage, 1)
        return emit.select(emit.equal(following, self.loop.stages), 0, following)
