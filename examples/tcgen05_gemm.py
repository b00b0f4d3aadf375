"""One warpgroup multiplies two tiles with one `tile.gemm_async`, built from Python and run in the emulator.

TMA copies A and B to stages 1 and 2 of buffers of three stages. On sm_100a one thread multiplies them by
`tcgen05.mma` into tensor memory: in f16, in mxfp8 and in nvfp4, by one CTA or by a pair. On sm_90a the
warpgroup multiplies the same stages by `wgmma` into registers.
"""

import argparse
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.tcgen05 import tensor_layouts
from weft.mlir import arith, gpu, ir, scf

ROWS, ROW_BYTES, STAGES, THREADS, WARPS = 128, 128, 3, 128, 4
STAGE_A, STAGE_B = 1, 2
SCALE_TILE = 512  # bytes: the scales of 128 rows and 4 groups of elements in the 128x4 layout


@dataclass(frozen=True)
class Kind:
    """Elements, and the scales of their groups along K."""

    element: str
    k: int
    scale: str = ""
    groups: int = 0


KINDS = {
    "f16": Kind("f16", 64),
    "mxfp8": Kind("f8E4M3FN", 128, "f8E8M0FNU", 4),
    "nvfp4": Kind("f4E2M1FN", 256, "f8E4M3FN", 16),
}


def build(name: str = "f16", ctas: int = 1) -> weft.Module:
    """The kernel of tcgen05, for one CTA or a pair. It takes A, B, the scales of both if they have some, and
    D.

    For each CTA, A has 128 rows and B has 128 columns; D has those of both.
    """
    kind, size = KINDS[name], ctas * ROWS
    with weft.Module() as module:
        matrices = [weft.memref((size, kind.k), kind.element)] * 2
        if kind.scale:
            matrices += [weft.memref((ctas, kind.groups // 4 * SCALE_TILE), kind.scale)] * 2
        arguments = [*matrices, weft.memref((size, size), "f32")]
        launch = {"block": (THREADS, 1, 1), "grid": (ctas, 1, 1), "cluster": (ctas, 1, 1)}
        launch["writes"] = [len(matrices)]
        with module.kernel("tcgen05_gemm", arguments, **launch) as (a, b, *scales, d):
            rank = arith.index_cast(i32(), gpu.block_id(gpu.Dimension.x))
            loads = Loads(ctas, "mma")
            left, right = loads.operands(a, b, kind, arith.muli(rank, number(ROWS)))
            of_a, of_b = loads.scales(scales, kind, rank) if scales else (None, None)
            multiplied = tile.make_ring(
                1, filled_by="mma", emptied_by="warps", consumers=WARPS, cta_group=ctas
            )
            with tile.tensor_memory(cta_group=ctas):
                scale_a, scale_b = (allocate_scales(each, kind) for each in (of_a, of_b))
                sums = accumulator(size, scaled=bool(scales))
                with when(first_thread()):
                    loads.start()
                    with when(equal(rank, number(0))):
                        loads.wait()
                        for shared, tensor in ((of_a, scale_a), (of_b, scale_b)):
                            if shared is not None:
                                tile.copy_tmem(shared, tensor, cta_group=ctas)
                        tile.gemm_async(
                            left,
                            right,
                            sums,
                            boolean(False),
                            transpose_b=True,
                            scale_a=scale_a,
                            scale_b=scale_b,
                            cta_group=ctas,
                        )
                        tile.commit(multiplied, number(0))
                tile.await_(multiplied, number(0), number(0))
                for column in range(0, size, ROWS):
                    rows = tile.load(sums, number(0), number(column), rows_type())
                    row = arith.muli(rank, number(ROWS))
                    tile.store(rows, d, row, number(column), vector_bytes=16)
    return module


def build_wgmma() -> weft.Module:
    """The kernel of wgmma: f16, by one CTA."""
    kind = KINDS["f16"]
    with weft.Module() as module:
        matrices = [weft.memref((ROWS, kind.k), kind.element)] * 2
        arguments = [*matrices, weft.memref((ROWS, ROWS), "f32")]
        launch = {"block": (THREADS, 1, 1), "grid": (1, 1, 1)}
        with module.kernel("wgmma_gemm", arguments, **launch) as (a, b, d):
            loads = Loads(1, "warpgroups")
            left, right = loads.operands(a, b, kind, number(0))
            gpu.barrier()  # the ring is there for all threads
            with when(first_thread()):
                loads.start()
            loads.wait()
            started = tile.gemm_async(left, right, zeros(), boolean(False), transpose_b=True)
            (sums,) = tile.wait_gemm(started)
            tile.store(sums, d, number(0), number(0), vector_bytes=8)
    return module


class Loads:
    """What TMA copies to shared memory, and the ring of one stage that signals its arrival."""

    def __init__(self, ctas: int, emptied_by: str) -> None:
        self.ctas, self.copies, self.bytes = ctas, [], 0
        self.ring = tile.make_ring(1, emptied_by=emptied_by, consumers=1, cta_group=ctas)

    def operands(self, a, b, kind: Kind, row):
        """Stages 1 and 2 of two buffers of three, for the rows of A and B from `row` on."""
        shape = (STAGES, ROWS, kind.k)
        layout = f"S[({STAGES},{ROWS},{kind.k}):({ROWS * kind.k},{kind.k},1)] xor 128B"
        stages = BufferType.of(shape, ir.Type.parse(kind.element), layout)
        buffers = [tile.stage(tile.alloc(stages), number(each)) for each in (STAGE_A, STAGE_B)]
        for matrix, buffer in zip((a, b), buffers, strict=True):
            self._copy(tile.tensor_map(matrix, buffer.type), row, buffer, ROWS * ROW_BYTES)
        return buffers

    def scales(self, matrices, kind: Kind, rank):
        """The scales of the CTA's rows of A, and those of all columns of B."""
        buffers, width = [], kind.groups // 4 * SCALE_TILE
        for matrix, tiles, row in ((matrices[0], 1, rank), (matrices[1], self.ctas, number(0))):
            element = ir.Type.parse(kind.scale)
            linear = tile.alloc(BufferType.of((tiles, width), element, f"S[({tiles},{width}):({width},1)]"))
            self._copy(tile.tensor_map(matrix, linear.type, chunk=SCALE_TILE), row, linear, tiles * width)
            shape = (tiles * ROWS, kind.groups)
            layout = f"S[({tiles},4,32,{kind.groups // 4},4):({width},4,16,{SCALE_TILE},1)]"
            buffers.append(tile.alloc(BufferType.of(shape, element, layout), over=linear))
        return buffers

    def _copy(self, tensor_map, row, buffer, size: int) -> None:
        self.copies.append((tensor_map, row, buffer))
        self.bytes += size

    def start(self) -> None:
        """One thread of each CTA starts the copies."""
        tile.expect(self.ring, number(0), self.bytes)
        full = tile.full_barrier(self.ring, number(0))
        for tensor_map, row, buffer in self.copies:
            tile.copy_async(tensor_map, row, number(0), buffer, barrier=full, cta_group=self.ctas)

    def wait(self) -> None:
        """Waits for the copies of all CTAs."""
        tile.await_(self.ring, number(0), number(0))


def allocate_scales(shared, kind: Kind):
    """A buffer in tensor memory for these scales in shared memory."""
    if shared is None:
        return None
    layout = tensor_layouts.scales(*shared.type.shape)
    return tile.alloc(BufferType.of(shared.type.shape, ir.Type.parse(kind.scale), layout, "tmem"))


def accumulator(columns: int, *, scaled: bool):
    """The accumulator: columns 256 and on of 512, or what is left beside scales."""
    total = 256 if scaled else 512
    kind = BufferType.of((ROWS, total), ir.F32Type.get(), f"S[({ROWS},{total}):(1@TLane,1@TCol)]", "tmem")
    first = 0 if scaled else 256
    return tile.slice_(tile.alloc(kind), number(0), number(first), (ROWS, columns))


def rows_type():
    """A fragment of which each thread has a row."""
    return FragmentType.of((ROWS, ROWS), ir.F32Type.get(), f"S[(4,32,{ROWS}):(1@warpid,1@laneid,1)]")


def zeros():
    """The accumulator of wgmma: registers that the product doesn't read."""
    layout = "S[(2,4,2,8,16,4,2):(64,1@warpid,2,4@laneid,4,1@laneid,1)]"
    kind = FragmentType.of((ROWS, ROWS), ir.F32Type.get(), layout)
    zero = ir.FloatAttr.get(ir.F32Type.get(), 0.0)
    return tile.from_lane(
        arith.constant(kind.lane_type, ir.DenseElementsAttr.get_splat(kind.lane_type, zero)), kind
    )


def i32():
    return ir.IntegerType.get_signless(32)


def number(value: int):
    return arith.constant(i32(), value)


def boolean(value: bool):
    return arith.constant(ir.IntegerType.get_signless(1), int(value))


def equal(a, b):
    return arith.cmpi(arith.CmpIPredicate.eq, a, b)


def first_thread():
    return equal(gpu.thread_id(gpu.Dimension.x), arith.constant(ir.IndexType.get(), 0))


@contextmanager
def when(condition):
    """In the block, ops are built for threads for which the condition is true."""
    branch = scf.IfOp(condition)
    with ir.InsertionPoint(branch.then_block):
        yield
        scf.yield_([])


def multiply(name: str = "f16", ctas: int = 1, arch: str = "sm_100a"):
    """D as the emulator computes it, what it should be, the PTX, and the report."""
    rng, kind, size = np.random.default_rng(0), KINDS[name], ctas * ROWS
    a, b = rng.standard_normal((2, size, kind.k))
    d = np.zeros((size, size), np.float32)
    kernel = weft.compile(build_wgmma() if arch == "sm_90a" else build(name, ctas), arch=arch)
    if not kind.scale:
        left, right = a.astype(np.float16), b.astype(np.float16)
        report = kernel.emulate(left, right, d)
        return d, left.astype(np.float64) @ right.astype(np.float64).T, kernel.ptx, report
    left, right = reference.quantize(a, name), reference.quantize(b, name)
    scales = left.tiled_scales, right.tiled_scales
    report = kernel.emulate(left.elements, right.elements, *scales, d)
    wanted = left.values @ right.values.T / (left.factor * right.factor)
    return d, wanted, kernel.ptx, report


def main() -> None:
    cases = [(name, ctas, "sm_100a") for name in KINDS for ctas in (1, 2)]
    for name, ctas, arch in (*cases, ("f16", 1, "sm_90a")):
        d, wanted, ptx, report = multiply(name, ctas, arch)
        assert not report.findings
        lines = (line.split()[0] for line in ptx.splitlines() if ".mma" in line)
        print(next(lines))
        print(f"  largest error: {np.abs(d - wanted).max() / np.abs(wanted).max():.2g} of the largest sum")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
