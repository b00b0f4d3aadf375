// RUN: weft-opt %s --outline-matmul | FileCheck %s

// Sizes are numbered over all arguments, in order; a bias has one. Nothing is asked of where it begins. Bias and
// residual are short for a region.
// CHECK: #[[EQUAL:.*]] = affine_map<{{.*}} -> (d0 - d4, d1 - d3, d2 - d5, d7 - d4, d8 - d5, d6 - d5)>
// CHECK-LABEL: gpu.func @epilogue
// CHECK-SAME: weft.aligned = array<i32: 16, 16, 1, 1, 1>
// CHECK-SAME: weft.requires = #[[EQUAL]], weft.writes = array<i32: 2>
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[ROW:.*]]: index, %[[COLUMN:.*]]: index):
// CHECK-NEXT: %[[RESIDUAL:.*]] = "tile.load_element"(%arg4, %[[ROW]], %[[COLUMN]])
// CHECK-NEXT: %[[BIAS:.*]] = "tile.load_element"(%arg3, %[[COLUMN]])
// CHECK-NEXT: %[[BIASED:.*]] = arith.addf %[[SUM]], %[[BIAS]]
// CHECK-NEXT: %[[ELEMENT:.*]] = arith.addf %[[BIASED]], %[[RESIDUAL]]
// CHECK-NEXT: "tile.yield"(%[[ELEMENT]])
// CHECK: "tile.matmul"(%arg0, %arg1, %arg2, %{{.*}})
// CHECK-NEXT: gpu.return
func.func @epilogue(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %v: memref<?xf32>,
                    %r: memref<?x?xbf16>) {
  "tile.matmul"(%a, %b, %d, %v, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>, transpose_b = true,
    schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?xf32>, memref<?x?xbf16>) -> ()
  return
}
