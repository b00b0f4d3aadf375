// A function on tensors that upstream's passes bufferize first.
// RUN: weft-opt %s "--one-shot-bufferize=bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --raise-linalg | FileCheck %s

// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[A:.*]]: memref<8x16xf16>, %[[B:.*]]: memref<16x24xf16>, %[[D:.*]]: memref<8x24xf32>)
// CHECK: "tile.matmul"(%[[A]], %[[B]], %[[D]])
func.func @product(%a: tensor<8x16xf16>, %b: tensor<16x24xf16>) -> tensor<8x24xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x24xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x24xf32>) -> tensor<8x24xf32>
  %d = linalg.matmul ins(%a, %b : tensor<8x16xf16>, tensor<16x24xf16>) outs(%zeros : tensor<8x24xf32>) -> tensor<8x24xf32>
  return %d : tensor<8x24xf32>
}
