"""Loops that --pipeline-loops pipelines, in the emulator: sizes that tiles don't divide, without findings."""

import ml_dtypes
import numpy as np
import pytest

import weft

GEMM = """
#grid = affine_map<()[m, k, k2, n, m2, n2] -> ({ctas}, n2 ceildiv {N}, 1)>
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
    %start = arith.muli %x_i, %m : i32
    %col = arith.muli %y_i, %n : i32
    %dim = memref.dim %a, %one : memref<?x?x{T}>
    %depth = arith.index_cast %dim : index to i32
    %zero = arith.constant 0 : index
    %height = memref.dim %a, %zero : memref<?x?x{T}>
    %rows = arith.index_cast %height : index to i32
    {tiles}
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
    {end}
    gpu.return
  }}
}}
"""

ATTENTION = """
!M = memref<?x?xbf16>
!S = tensor<128x{N}xf32>
!I = tensor<128x{N}xi32>
!O = tensor<128x64xf32>
!R = tensor<128xf32>
!B = memref<?x?x?xbf16>
!H = memref<?x?xbf16, strided<[?, 1], offset: ?>>
#grid = affine_map<()[m, h, n, h2, b3, n3, h3, m2, h4, m3, n4] -> (m ceildiv 128, 1, 1)>
gpu.module @m [#nvvm.target<chip = "{chip}">] {{
  gpu.func @attention(%q: !M, %k: !M, %v: !B, %d: !M, %l: memref<?xf32>, %bias: memref<?xf32>)
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>, weft.grid = #grid}} {{
    %c0 = arith.constant 0 : i32
    %step = arith.constant {N} : i32
    %m = arith.constant 128 : i32
    %zi = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %x_id = gpu.block_id x
    %x_i = arith.index_cast %x_id : index to i32
    %row = arith.muli %x_i, %m : i32
    %dim = memref.dim %k, %zi : !M
    %n = arith.index_cast %dim : index to i32
    %zero = arith.constant dense<0.0> : !O
    %none = arith.constant dense<0.0> : !R
    %low = arith.constant dense<-1.0e30> : !R
    %lows = arith.constant dense<-1.0e30> : !S
    %scale = arith.constant dense<0.125> : !S
    %x = "tile.load"(%q, %row, %c0) : (!M, i32, i32) -> tensor<128x64xbf16>
    %o:3 = scf.for %j = %c0 to %n step %step
        iter_args(%acc = %zero, %max = %low, %sum = %none) -> (!O, !R, !R) : i32 {{
      %y = "tile.load"(%k, %j, %c0) {{transpose = true}} : (!M, i32, i32) -> tensor<64x{N}xbf16>
      %rows = memref.dim %v, %one : !B
      %columns = memref.dim %v, %two : !B
      %head = memref.subview %v[%one, 0, 0] [1, %rows, %columns] [1, 1, 1] : !B to !H
      %z = "tile.load"(%head, %j, %c0) : (!H, i32, i32) -> tensor<{N}x64xbf16>
      %s = "tile.gemm"(%x, %y) : (tensor<128x64xbf16>, tensor<64x{N}xbf16>) -> !S
      %s1 = arith.mulf %s, %scale : !S
      %bv = "tile.load_row"(%bias, %j) : (memref<?xf32>, i32) -> tensor<{N}xf32>
      %bb = "tile.broadcast"(%bv) {{axis = 0 : i64}} : (tensor<{N}xf32>) -> !S
      %s2 = arith.addf %s1, %bb : !S
      %r0 = "tile.coordinate"() {{axis = 0 : i64}} : () -> !I
      %k0 = "tile.coordinate"() {{axis = 1 : i64}} : () -> !I
      %rs = tensor.splat %row : !I
      %js = tensor.splat %j : !I
      %r1 = arith.addi %r0, %rs : !I
      %k1 = arith.addi %k0, %js : !I
      %keep = arith.cmpi sle, %k1, %r1 : !I
      %t = arith.select %keep, %s2, %lows : tensor<128x{N}xi1>, !S
      %m0 = "tile.reduce"(%t) ({{
      ^bb0(%e: f32, %f: f32):
        %g = arith.maximumf %e, %f : f32
        "tile.yield"(%g) : (f32) -> ()
      }}) {{axis = 1 : i64}} : (!S) -> !R
      %m1 = arith.maximumf %m0, %max : !R
      %mb = "tile.broadcast"(%m1) {{axis = 1 : i64}} : (!R) -> !S
      %u = arith.subf %t, %mb : !S
      %p = math.exp2 %u : !S
      %p0 = "tile.reduce"(%p) ({{
      ^bb0(%e: f32, %f: f32):
        %g = arith.addf %e, %f : f32
        "tile.yield"(%g) : (f32) -> ()
      }}) {{axis = 1 : i64}} : (!S) -> !R
      %d0 = arith.subf %max, %m1 : !R
      %al = math.exp2 %d0 : !R
      %l0 = arith.mulf %sum, %al : !R
      %l1 = arith.addf %l0, %p0 : !R
      %ab = "tile.broadcast"(%al) {{axis = 1 : i64}} : (!R) -> !O
      %a1 = arith.mulf %acc, %ab : !O
      %h = arith.truncf %p : !S to tensor<128x{N}xbf16>
      %w = "tile.gemm"(%h, %z, %a1) {{beta = 1.0 : f32}}
        : (tensor<128x{N}xbf16>, tensor<{N}x64xbf16>, !O) -> !O
      scf.yield %w, %m1, %l1 : !O, !R, !R
    }}
    %lb = "tile.broadcast"(%o#2) {{axis = 1 : i64}} : (!R) -> !O
    %out = arith.divf %o#0, %lb : !O
    %h = arith.truncf %out : !O to tensor<128x64xbf16>
    "tile.store"(%h, %d, %row, %c0) : (tensor<128x64xbf16>, !M, i32, i32) -> ()
    "tile.store_row"(%o#2, %l, %row) : (!R, memref<?xf32>, i32) -> ()
    gpu.return
  }}
}}
"""


@pytest.mark.each_value
@pytest.mark.parametrize("chip", ["sm_90a", "sm_80", "sm_100a", "sm_120"])
@pytest.mark.parametrize(
    ("tile", "transpose", "first", "kind", "stages", "persistent"),
    [
        ((128, 128, 64), False, 0.0, "bf16", 4, True),
        ((64, 64, 32), True, 0.0, "f16", 2, False),
        ((192, 64, 32), False, 0.0, "f16", 3, True),
        ((128, 256, 64), True, 2.0, "bf16", 9, False),  # more stages than fit
        ((64, 64, 32), True, 0.0, "f32", 3, True),
        ((64, 32, 32), False, 0.0, "f32", 4, False),  # more stages than iterations, without ldmatrix
    ],
)
def test_products_of_any_size(chip, tile, transpose, first, kind, stages, persistent):
    m, n, k = tile
    at, transpose_text = ("%col, %k", "true") if transpose else ("%k, %col", "false")
    # One CTA goes through all tiles of its columns, or each has one.
    loop = ("1", "scf.for %row = %start to %rows step %m : i32 {", "}")
    single = (f"m ceildiv {m}", "%row = arith.addi %start, %c0 : i32", "")
    ctas, tiles, end = loop if persistent else single
    names = {
        "ctas": ctas,
        "tiles": tiles,
        "end": end,
        "chip": chip,
        "first": first,
        "stages": stages,
        "at": at,
        "transpose": transpose_text,
    }
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


@pytest.mark.each_value
@pytest.mark.parametrize("chip", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("columns", [64, 128])
def test_attention_with_a_mask_and_a_bias(chip, columns):
    kernel = weft.compile(ATTENTION.format(chip=chip, N=columns), arch=chip)
    rng = np.random.default_rng(1)
    q, k = (rng.standard_normal((200, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    v = rng.standard_normal((2, 200, 64)).astype(ml_dtypes.bfloat16)  # of which the second one counts
    bias, sums = rng.standard_normal(200).astype(np.float32), np.zeros(200, np.float32)
    d = np.zeros((200, 64), ml_dtypes.bfloat16)
    assert not kernel.emulate(q, k, v, d, sums, bias).findings
    scores = q.astype(np.float64) @ k.astype(np.float64).T / 8 + bias
    scores[np.triu_indices(200, 1)] = -np.inf
    p = np.exp2(scores - scores.max(1, keepdims=True))
    assert np.allclose(sums, p.sum(1), atol=1e-4)
    assert np.allclose(d.astype(np.float64), p / p.sum(1, keepdims=True) @ v[1].astype(np.float64), atol=0.02)
