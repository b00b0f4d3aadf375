// RUN: weft-opt %s | weft-opt --mlir-print-local-scope | FileCheck %s

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

// CHECK-LABEL: @bias
func.func @bias(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %v: memref<?xbf16>) {
  // CHECK: "tile.matmul"(%{{.*}}) {activation = "gelu", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
  // CHECK-SAME: (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, memref<?xbf16>) -> ()
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, activation = "gelu"}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, memref<?xbf16>) -> ()
  return
}

// Operands after D may have different types.
// CHECK-LABEL: @every_role
func.func @every_role(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<16x8xf32>, %c: memref<?x?xf32>,
                      %v: memref<8xbf16>, %r: memref<?x?xf16>) {
  // CHECK: "tile.matmul"(%{{.*}}) {activation = "silu", beta = 5.000000e-01 : f32,
  // CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>
  // CHECK-SAME: memref<?x?xf32>, memref<8xbf16>, memref<?x?xf16>) -> ()
  "tile.matmul"(%a, %b, %d, %c, %v, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>, beta = 0.5 : f32, activation = "silu"}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<16x8xf32>, memref<?x?xf32>, memref<8xbf16>, memref<?x?xf16>) -> ()
  return
}

// CHECK-LABEL: @of_integers
func.func @of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>, %v: memref<?xi32>) {
  // CHECK: "tile.matmul"(%{{.*}}) {activation = "relu", operandSegmentSizes
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, activation = "relu"}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>, memref<?xi32>) -> ()
  return
}

// One alpha for all products of a batch, or one for each.
// CHECK-LABEL: @alpha
func.func @alpha(%a: memref<3x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<3x?x?xf32>, %one: memref<1xf32>,
                 %each: memref<3xf32>) {
  // CHECK: "tile.matmul"(%{{.*}}) {alpha = 5.000000e-01 : f32, operandSegmentSizes
  // CHECK-SAME: memref<1xf32>
  "tile.matmul"(%a, %b, %d, %one) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 0.5 : f32}
    : (memref<3x?x?xbf16>, memref<?x?xbf16>, memref<3x?x?xf32>, memref<1xf32>) -> ()
  // CHECK: "tile.matmul"(%{{.*}}) {operandSegmentSizes
  // CHECK-SAME: memref<3xf32>
  "tile.matmul"(%a, %b, %d, %each) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<3x?x?xbf16>, memref<?x?xbf16>, memref<3x?x?xf32>, memref<3xf32>) -> ()
  return
}

// CHECK-LABEL: @load_row
func.func @load_row(%v: memref<?xf32>, %i: i32) -> !D {
  // CHECK: "tile.load_row"(%{{.*}}, %{{.*}}) {vector_bytes = 8 : i64} : (memref<?xf32>, i32) -> tensor<
  %0 = "tile.load_row"(%v, %i) {vector_bytes = 8} : (memref<?xf32>, i32) -> !D
  return %0 : !D
}
