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
  "tile.matmul"(%a, %b, %d) {schedule = {block = array<i64: 128, 256, 64>, warps = array<i64: 2, 4>, stages = 3}}
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
  "tile.matmul"(%a, %b, %d, %c) {transpose_b = true, beta = 1.0 : f32,
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
