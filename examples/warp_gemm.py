"""One warp computes D = A @ B + C with one `tile.gemm`, built from Python and run in the emulator.

M, N and K may be any multiples of 16, 8 and 8: the gemm becomes one `mma.sync` for each 16x8 of D and 16
(or 8) of K.
"""

import argparse

import numpy as np

import weft
from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.layout import Layout
from weft.mlir import arith, gpu, ir, memref, vector

# Where mma.sync m16n8k8 has its operands: A and D of shape (16, 8), B of shape (8, 8).
A = D = Layout.parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
B = Layout.parse("S[(4,2,8):(1@laneid,1,4@laneid)]")


def build(
    m: int = 16, n: int = 8, k: int = 16, element: str = "f16", accumulate: bool = False
) -> weft.Module:
    """The module; its kernel takes A, B, D, all row-major, and C too where it accumulates onto one."""
    with weft.Module() as module:
        inputs, f32 = ir.Type.parse(element), ir.F32Type.get()
        a_type = FragmentType.of((m, k), inputs, A.tile_to((m, k), (16, 8)))
        b_type = FragmentType.of((k, n), inputs, B.tile_to((k, n), (8, 8)))
        d_type = FragmentType.of((m, n), f32, D.tile_to((m, n), (16, 8)))
        matrices = [(m, k, element), (k, n, element), (m, n, "f32")] + [(m, n, "f32")] * accumulate
        arguments = [weft.memref((rows, columns), kind) for rows, columns, kind in matrices]
        with module.kernel("warp_gemm", arguments, block=(32, 1, 1), grid=(1, 1, 1)) as (a, b, d, *c):
            lane = gpu.thread_id(gpu.Dimension.x)
            group = arith.divui(lane, index(4))
            pair = arith.muli(arith.remui(lane, index(4)), index(2))
            left = load(a, a_type, group, pair)
            right = load(b, b_type, pair, group)
            start = load(c[0], d_type, group, pair) if accumulate else None
            total = tile.gemm(left, right, start, d_type)
            store(total, d, group, pair)
    return module


def index(number: int):
    return arith.constant(ir.IndexType.get(), number)


def coordinates(fragment, row, column):
    """Where a lane's elements are, in register order: as far from its first as lane 0's from (0, 0)."""
    for down, right in fragment.layout.lane_elements(0, fragment.shape):
        yield arith.addi(row, index(down)), arith.addi(column, index(right))


def load(matrix, fragment, row, column):
    """The fragment of a whole matrix, of which this lane's first element is at (`row`, `column`)."""
    elements = [memref.load(matrix, list(indices)) for indices in coordinates(fragment, row, column)]
    return tile.from_lane(vector.from_elements(fragment.lane_type, elements), fragment)


def store(fragment, matrix, row, column):
    elements = vector.to_elements(tile.to_lane(fragment))
    for element, indices in zip(elements, coordinates(fragment.type, row, column), strict=True):
        memref.store(element, matrix, list(indices))


def main() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, 16)).astype(np.float16)
    b = rng.standard_normal((16, 8)).astype(np.float16)
    d = np.zeros((16, 8), np.float32)
    kernel = weft.compile(build())
    kernel(a, b, d, on="emulator")
    error = np.abs(d - a.astype(np.float64) @ b.astype(np.float64)).max()
    print(next(line.strip() for line in kernel.ptx.splitlines() if "mma.sync" in line))
    print(f"largest error: {error:.2g}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
