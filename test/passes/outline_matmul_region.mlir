// RUN: weft-opt %s --canonicalize --outline-matmul | FileCheck %s

// The function of the epilogue comes along, with the constants that folding moves out of it, and numbers that are
// arguments. What it loads has sizes of D, and a part for each product of a batch.
// CHECK: affine_map<{{.*}} -> (d1 - d6, d2 - d3, d4 - d7, d0 - d5, d8 - d6, d9 - d5, d10 - d7, d11 - d5)>
// CHECK-LABEL: gpu.func @region
// CHECK-SAME: %arg3: memref<?xf32>, %arg4: memref<?x?xf32>, %arg5: memref<?xf32>, %arg6: f32)
// CHECK: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT: %[[E:.*]] = "tile.epilogue"() ({
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32, %[[ROW:.*]]: index, %[[COLUMN:.*]]: index):
// CHECK-NEXT: "tile.load_element"(%arg3, %[[ROW]]) : (memref<?xf32>, index) -> f32
// CHECK-NEXT: "tile.load_element"(%arg4, %[[COLUMN]]) : (memref<?x?xf32>, index) -> f32
// CHECK-NEXT: "tile.load_element"(%arg5) : (memref<?xf32>) -> f32
// CHECK: arith.mulf %{{.*}}, %[[HALF]]
// CHECK: arith.addf %{{.*}}, %arg6
// CHECK: "tile.matmul"(%arg0, %arg1, %arg2, %[[E]])
// CHECK-NEXT: gpu.return
func.func @region(%a: memref<?x?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?x?xf32>, %rows: memref<?xf32>,
                  %columns: memref<?x?xf32>, %each: memref<?xf32>, %number: f32) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = "tile.load_element"(%rows, %i) : (memref<?xf32>, index) -> f32
    %1 = "tile.load_element"(%columns, %j) : (memref<?x?xf32>, index) -> f32
    %2 = "tile.load_element"(%each) : (memref<?xf32>) -> f32
    %half = arith.constant 0.5 : f32
    %3 = arith.mulf %sum, %half : f32
    %4 = arith.addf %3, %0 : f32
    %5 = arith.mulf %4, %1 : f32
    %6 = arith.mulf %5, %2 : f32
    %7 = arith.addf %6, %number : f32
    "tile.yield"(%7) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>, schedule = {block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 2}}
    : (memref<?x?x?xf16>, memref<?x?xf16>, memref<?x?x?xf32>, !tile.function) -> ()
  return
}
