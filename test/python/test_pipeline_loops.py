"""Loops that --pipeline-loops pipelines, in the emulator: sizes that tiles don't divide, without findings."""

import ml_dtypes
import numpy as np
import pytest

import weft

GEMM = """
#grid = affine_map<()[m, k, k2, n, m2, n2] -> (m ceildiv {M}, n2 ceildiv {N}, 1)>
gpu.module @m [#nvvm.target<chip = "{chip}">] {{
  gpu.func @gemm(%a: memref<?x?x{T}>, %b: memref<?x?x{T}>, %d: memref<?x?xf32>) kernel attributes {{
      known_block_size = array<i32: 128, 1, 1>, weft.grid = #grid, weft.writes = array<i32: 2>}} {{
    %c0 = arith.constant 0 : i32
    %step = arith.constant {K} : i32
    %m = arith.constant {M} : i32
    %n = arith.constant {N} : i32
    %one = arith.constant 1 : index
    %x_id = gpu.block_id x
    %y_id = gpu.block_id y
    %x_i = arith.index_cast %x_id : index to i32
    %y_i = arith.index_cast %y_id : index to i32
    %row = arith.muli %x_i, %m : i32
    %col = arith.muli %y_i, %n : i32
    %dim = memref.dim %a, %one : memref<?x?x{T}>
    %depth = arith.index_cast %dim : index to i32
    %first = arith.constant dense<{first}> : tensor<{M}x{N}xf32>
    %s = scf.for %k = %c0 to %depth step %step iter_args(%acc = %first) -> (tensor<{M}x{N}xf32>) : i32 {{
      %x = "tile.load"(%a, %row, %k) : (memref<?x?x{T}>, i32, i32) -> tensor<{M}x{K}x{T}>
      %y = "tile.load"(%b, {at}) {{transpose = {transpose}}}
        : (memref<?x?x{T}>, i32, i32) -> tensor<{K}x{N}x{T}>
      %t = "tile.gemm"(%x, %y, %acc) {{beta = 1.0 : f32}}
        : (tensor<{M}x{K}x{T}>, tensor<{K}x{N}x{T}>, tensor<{M}x{N}xf32>) -> tensor<{M}x{N}xf32>
      scf.yield %t : tensor<{M}x{N}xf32>
    }} {{stages = {stages} : i64}}
    %c = "tile.load"(%d, %row, %col) : (memref<?x?xf32>, i32, i32) -> tensor<{M}x{N}xf32>
    %e = arith.addf %s, %c : tensor<{M}x{N}xf32>
    "tile.store"(%e, %d, %row, %col) : (tensor<{M}x{N}xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("chip", ["sm_90a", "sm_80", "sm_100a", "sm_120"])
@pytest.mark.parametrize(
    ("tile", "transpose", "first", "kind", "stages"),
    [
        ((128, 128, 64), False, 0.0, "bf16", 4),
        ((64, 64, 32), True, 0.0, "f16", 2),
        ((128, 256, 64), True, 2.0, "bf16", 9),  # more stages than fit
        ((64, 64, 32), True, 0.0, "f32", 3),
    ],
)
def test_products_of_any_size(chip, tile, transpose, first, kind, stages):
    m, n, k = tile
    at, transpose_text = ("%col, %k", "true") if transpose else ("%k, %col", "false")
    names = {"chip": chip, "first": first, "stages": stages, "at": at, "transpose": transpose_text}
    kernel = weft.compile(GEMM.format(M=m, N=n, K=k, T=kind, **names), arch=chip)
    rng = np.random.default_rng(0)
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[kind]
    for rows, columns, depth in ((200, 136, 152), (1, 264, 8)):
        a = rng.standard_normal((rows, depth)).astype(dtype)
        b = rng.standard_normal((depth, columns)).astype(dtype)
        c = rng.standard_normal((rows, columns)).astype(np.float32)
        d = c.copy()
        report = kernel.emulate(a, np.ascontiguousarray(b.T) if transpose else b, d)
        assert not report.findings
        expected = c + first + a.astype(np.float64) @ b.astype(np.float64)
        assert np.allclose(d, expected, atol=0.05 if kind == "f32" else 1e-3)
