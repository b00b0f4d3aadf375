// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: @every_load
func.func @every_load(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %m: memref<?x?xf8E4M3FN>,
                      %row: memref<?xf16>, %column: memref<?xbf16>, %one: memref<1xf32>) {
  // CHECK: %[[E:.*]] = "tile.epilogue"() ({
  // CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // CHECK: "tile.load_element"(%{{.*}}, %[[I]], %[[J]]) : (memref<?x?xf8E4M3FN>, index, index) -> f32
    %0 = "tile.load_element"(%m, %i, %j) : (memref<?x?xf8E4M3FN>, index, index) -> f32
    // CHECK: "tile.load_element"(%{{.*}}, %[[I]]) : (memref<?xf16>, index) -> f32
    %1 = "tile.load_element"(%row, %i) : (memref<?xf16>, index) -> f32
    // CHECK: "tile.load_element"(%{{.*}}, %[[J]]) : (memref<?xbf16>, index) -> f32
    %2 = "tile.load_element"(%column, %j) : (memref<?xbf16>, index) -> f32
    // CHECK: "tile.load_element"(%{{.*}}) : (memref<1xf32>) -> f32
    %3 = "tile.load_element"(%one) : (memref<1xf32>) -> f32
    %4 = math.fma %sum, %0, %1 : f32
    %5 = arith.addf %4, %2 : f32
    %6 = nvvm.rsqrt %5 {ftz = true} : f32
    %7 = arith.mulf %6, %3 : f32
    // CHECK: "tile.yield"(%{{.*}}) : (f32) -> ()
    "tile.yield"(%7) : (f32) -> ()
  }) : () -> !tile.function
  // CHECK: "tile.matmul"(%{{.*}}, %{{.*}}, %{{.*}}, %[[E]]) {alpha = 5.000000e-01 : f32, beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>, alpha = 0.5 : f32, beta = 1.0 : f32}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// A matrix, a vector and a number for each product of a batch.
// CHECK-LABEL: @batch
func.func @batch(%a: memref<4x?x?xf16>, %b: memref<?x?xf16>, %d: memref<4x?x?xf32>, %m: memref<4x?x?xf32>,
                 %v: memref<4x?xf32>, %n: memref<4xf32>) {
  // CHECK: "tile.epilogue"
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = "tile.load_element"(%m, %i, %j) : (memref<4x?x?xf32>, index, index) -> f32
    %1 = "tile.load_element"(%v, %j) : (memref<4x?xf32>, index) -> f32
    %2 = "tile.load_element"(%n) : (memref<4xf32>) -> f32
    %3 = arith.addf %0, %1 : f32
    %4 = arith.mulf %3, %2 : f32
    "tile.yield"(%4) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<4x?x?xf16>, memref<?x?xf16>, memref<4x?x?xf32>, !tile.function) -> ()
  return
}

// The element that D had, as an integer.
// CHECK-LABEL: @of_integers
func.func @of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // CHECK: "tile.epilogue"
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: i32, %i: index, %j: index):
    %0 = "tile.load_element"(%d, %i, %j) : (memref<?x?xi32>, index, index) -> i32
    %1 = arith.maxsi %sum, %0 : i32
    "tile.yield"(%1) : (i32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>, !tile.function) -> ()
  return
}

// Further results: elements beside D, the sum of each column and the largest element of each row.
// CHECK-LABEL: @further_results
func.func @further_results(%a: memref<4x?x?xf16>, %b: memref<?x?xf16>, %d: memref<4x?x?xf16>, %x: memref<4x?x?xbf16>,
                           %sums: memref<4x?xf32>, %largest: memref<4x?xf32>) {
  // CHECK: ^bb0(%[[SUM:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // CHECK-NEXT: "tile.store_element"(%[[SUM]], %{{.*}}, %[[I]], %[[J]]) : (f32, memref<4x?x?xbf16>, index, index) -> ()
    "tile.store_element"(%sum, %x, %i, %j) : (f32, memref<4x?x?xbf16>, index, index) -> ()
    // CHECK-NEXT: "tile.store_element"(%[[SUM]], %{{.*}}, %[[J]]) {kind = #vector.kind<add>} : (f32, memref<4x?xf32>, index) -> ()
    "tile.store_element"(%sum, %sums, %j) {kind = #vector.kind<add>} : (f32, memref<4x?xf32>, index) -> ()
    // CHECK-NEXT: "tile.store_element"(%[[SUM]], %{{.*}}, %[[I]]) {kind = #vector.kind<maximumf>} : (f32, memref<4x?xf32>, index) -> ()
    "tile.store_element"(%sum, %largest, %i) {kind = #vector.kind<maximumf>} : (f32, memref<4x?xf32>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<4x?x?xf16>, memref<?x?xf16>, memref<4x?x?xf16>, !tile.function) -> ()
  return
}
