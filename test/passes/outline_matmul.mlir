// RUN: weft-opt %s --outline-matmul --split-input-file | FileCheck %s

// The grid follows from D's sizes, d4 and d5 of all; sizes that must agree are differences that must be 0.
// CHECK: #[[GRID:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 128, d5 ceildiv 256, 1)>
// CHECK: #[[SAME:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0 - d4, d1 - d2, d3 - d5)>
// CHECK: gpu.module @plain
// CHECK: gpu.func @plain(%{{.*}}: memref<?x?xf16>, %{{.*}}: memref<?x?xf16>, %{{.*}}: memref<?x?xf32>) kernel
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME: weft.grid = #[[GRID]], weft.requires = #[[SAME]], weft.writes = array<i32: 2>
// CHECK: "tile.matmul"
// CHECK-NEXT: gpu.return
// CHECK-NOT: func.func
func.func @plain(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warps = array<i64: 2, 4>, stages = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

// Arguments in an order of their own, with a number among them, B transposed, and a C.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0 ceildiv 32, d1 ceildiv 64, 1)>
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d4 - d0, d5 - d3, d2 - d1, d6 - d0, d7 - d1)>
// CHECK: gpu.module @other
// CHECK: known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME: weft.writes = array<i32: 1>
func.func @other(%n: i32, %d: memref<?x?xf32>, %b: memref<?x?xf16>, %a: memref<?x?xf16>, %c: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, beta = 1.0 : f32,
    schedule = {block = array<i64: 32, 64, 64>, warps = array<i64: 2, 2>, stages = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// -----

// What holds no product stays.
// CHECK: func.func @untouched
func.func @untouched(%a: memref<?x?xf16>) {
  return
}
// CHECK: func.func private @declared
func.func private @declared(memref<?x?xf16>)

// -----

// With warpgroups CTAs stay and go from tile to tile. Rows of A and B, which TMA copies, begin at multiples of 16 bytes;
// f32 is stored in pairs.
// CHECK: #[[GRID:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 128, d5 ceildiv 256, 1)>
// CHECK: gpu.module @warpgroups
// CHECK: gpu.func @warpgroups
// CHECK-SAME: known_block_size = array<i32: 384, 1, 1>
// CHECK-NOT: known_cluster_size
// CHECK-SAME: weft.aligned = array<i32: 16, 16, 1>
// CHECK-SAME: weft.grid = #[[GRID]]
// CHECK-SAME: weft.persistent = 1 : i32
// CHECK-SAME: weft.writes = array<i32: 2>
func.func @warpgroups(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

// TMA reads A and B alone: rows of D and C may begin anywhere. Arguments have an order of their own, with a number among them.
// CHECK: gpu.func @aligned
// CHECK-SAME: weft.aligned = array<i32: 1, 1, 1, 16, 16>
// CHECK-SAME: weft.writes = array<i32: 1>
func.func @aligned(%n: i32, %d: memref<?x?xbf16>, %c: memref<?x?xbf16>, %b: memref<?x?xbf16>, %a: memref<?x?xbf16>) {
  "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32, schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 3}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}

// -----

// With transpose_a A is K x M: d1 is M, and d0 must be B's K.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 64, d5 ceildiv 64, 1)>
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d1 - d4, d0 - d2, d3 - d5)>
// CHECK: gpu.func @transposed
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
func.func @transposed(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

// Swapped, a block's rows are columns of D: d5 is divided by them.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d5 ceildiv 128, d4 ceildiv 16, 1)>
// CHECK: gpu.func @swapped
func.func @swapped(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 128, 16, 64>, warpgroups = 2, stages = 3, swap = true}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

// Splits are CTAs of a cluster, four for each tile, which then don't stay; D goes from registers.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 64, d5 ceildiv 64, 4)>
// CHECK: gpu.func @splits
// CHECK-SAME: known_cluster_size = array<i32: 4, 1, 1>
// CHECK-SAME: weft.aligned = array<i32: 16, 16, 1>
// CHECK-SAME: weft.persistent = 0 : i32
func.func @splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3, splits = 4}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

// Splits through global memory are CTAs that stay, two for each tile: for the part of a tile 8 rows of sums, and room for 4
// counters 8 apart.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 64, d5 ceildiv 64, 2)>
// CHECK: gpu.func @global_splits
// CHECK-SAME: memref<?x?xf16>, %{{[a-z0-9]+}}: memref<?x128xvector<4xf32>>, %{{[a-z0-9]+}}: memref<?xi32>)
// CHECK-NOT: known_cluster_size
// CHECK-SAME: weft.aligned = array<i32: 16, 16, 1>
// CHECK-SAME: weft.persistent = 1 : i32
// CHECK-SAME: weft.workspace = array<i64: 8, 32>
func.func @global_splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3, global_splits = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

// With stream_k a tile has up to 15 CTAs, which stay; each has memory for parts of two tiles. D goes by TMA: rows of 16 bytes.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> (d4 ceildiv 64, d5 ceildiv 64, 15)>
// CHECK: gpu.func @stream_k
// CHECK-SAME: memref<?x?xf16>, %{{[a-z0-9]+}}: memref<?x128xvector<4xf32>>, %{{[a-z0-9]+}}: memref<?xi32>)
// CHECK-SAME: weft.aligned = array<i32: 16, 16, 1>
// CHECK-SAME: weft.cta_workspace = array<i64: 16, 32>
// CHECK-SAME: weft.persistent = 1 : i32
// CHECK-NOT: weft.workspace
func.func @stream_k(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3, stream_k = true}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

// A cluster that shares copies has whole blocks in each of its rows and columns: the grid has a multiple of them. The
// kernel waits itself for what was queued before it.
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5) -> ((d4 ceildiv 256) * 2, (d5 ceildiv 512) * 2, 1)>
// CHECK: gpu.func @cluster
// CHECK-SAME: known_cluster_size = array<i32: 4, 1, 1>
// CHECK-SAME: weft.dependent
// CHECK-SAME: weft.persistent = 1 : i32
func.func @cluster(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2, 2>}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

// A batch with a residual: sizes of all batches must agree.
// CHECK: affine_map<({{.*}}d11) -> (d1 - d7, d2 - d4, d5 - d8, d0 - d6, d3 - d6, d9 - d6, d10 - d7, d11 - d8)>
// CHECK: gpu.module @batch
func.func @batch(%a: memref<?x?x?xf16>, %b: memref<?x?x?xf16>, %d: memref<?x?x?xf16>, %r: memref<?x?x?xf16>) {
  "tile.matmul"(%a, %b, %d, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0>, schedule = {block = array<i64: 32, 64, 64>, warps = array<i64: 2, 2>, stages = 2}}
    : (memref<?x?x?xf16>, memref<?x?x?xf16>, memref<?x?x?xf16>, memref<?x?x?xf16>) -> ()
  return
}
