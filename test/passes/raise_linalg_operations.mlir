// Each operation of linalg that multiplies, on memrefs and tensors.
// RUN: weft-opt %s --raise-linalg --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @batch_matvec(
// CHECK-NEXT: "tile.matmul"(%arg1, %arg0, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}, transpose_b = true} : (memref<3x1x32xf16>, memref<3x48x32xf16>, memref<3x1x48xf32>)
func.func @batch_matvec(%a: memref<3x48x32xf16>, %b: memref<3x32xf16>, %d: memref<3x48xf32>) {
  linalg.batch_matvec ins(%a, %b : memref<3x48x32xf16>, memref<3x32xf16>) outs(%d : memref<3x48xf32>)
  return
}

// CHECK-LABEL: func.func @batch_vecmat(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}} : (memref<3x1x32xf16>, memref<3x32x48xf16>, memref<3x1x48xf32>)
func.func @batch_vecmat(%a: memref<3x32xf16>, %b: memref<3x32x48xf16>, %d: memref<3x48xf32>) {
  linalg.batch_vecmat ins(%a, %b : memref<3x32xf16>, memref<3x32x48xf16>) outs(%d : memref<3x48xf32>)
  return
}

// With zero points of 0.
// CHECK-LABEL: func.func @quantized_matmul(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}} : (memref<48x32xi8>, memref<32x40xi8>, memref<48x40xi32>)
func.func @quantized_matmul(%a: memref<48x32xi8>, %b: memref<32x40xi8>, %d: memref<48x40xi32>) {
  %z = arith.constant 0 : i32
  linalg.quantized_matmul ins(%a, %b, %z, %z : memref<48x32xi8>, memref<32x40xi8>, i32, i32) outs(%d : memref<48x40xi32>)
  return
}

// The result is transposed: A and B change places.
// CHECK-LABEL: func.func @transposed_result(
// CHECK-NEXT: "tile.matmul"(%arg1, %arg0, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}} : (memref<40x32xf16>, memref<32x48xf16>, memref<40x48xf32>)
func.func @transposed_result(%a: memref<32x48xf16>, %b: memref<40x32xf16>, %d: memref<40x48xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (n, m)>]
    ins(%a, %b : memref<32x48xf16>, memref<40x32xf16>) outs(%d : memref<40x48xf32>)
  return
}

// A batch of transposed matrices, as a generic operation.
// CHECK-LABEL: func.func @generic(
// CHECK-NEXT: "tile.matmul"(%arg1, %arg0, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}} : (memref<2x40x32xf16>, memref<2x32x48xf16>, memref<2x40x48xf32>)
func.func @generic(%a: memref<2x32x48xf16>, %b: memref<2x40x32xf16>, %d: memref<2x40x48xf32>) {
  linalg.generic {indexing_maps = [affine_map<(z, m, n, k) -> (z, k, m)>, affine_map<(z, m, n, k) -> (z, n, k)>,
      affine_map<(z, m, n, k) -> (z, n, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<2x32x48xf16>, memref<2x40x32xf16>) outs(%d : memref<2x40x48xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %0 = arith.extf %x : f16 to f32
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  }
  return
}

// Tensors in memory of the caller, and memory of tensors.
// CHECK-LABEL: func.func @destination(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}} : (memref<48x32xf16>, memref<32x40xf16>, memref<48x40xf32>)
func.func @destination(%a: memref<48x32xf16>, %b: tensor<32x40xf16>, %d: memref<48x40xf32>) {
  %x = bufferization.to_tensor %a restrict : memref<48x32xf16> to tensor<48x32xf16>
  %m = bufferization.to_buffer %b read_only : tensor<32x40xf16> to memref<32x40xf16>
  %y = bufferization.to_tensor %m restrict : memref<32x40xf16> to tensor<32x40xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x40xf32>) -> tensor<48x40xf32>
  %p = linalg.matmul ins(%x, %y : tensor<48x32xf16>, tensor<32x40xf16>) outs(%f : tensor<48x40xf32>) -> tensor<48x40xf32>
  bufferization.materialize_in_destination %p in restrict writable %d : (tensor<48x40xf32>, memref<48x40xf32>) -> ()
  return
}

// Two results of one product: it is computed once.
// CHECK-LABEL: func.func @results_0(
// CHECK-SAME: weft.sources = ["argument 0", "argument 1", "argument 2", "result 0"]
// CHECK-NEXT: "tile.matmul"
// CHECK-LABEL: func.func @results_1(
// CHECK-SAME: weft.plain, weft.sources = ["argument 2", "result 0", "result 1"]
// CHECK-NOT: tile.matmul
func.func @results(%a: tensor<48x32xf16>, %b: tensor<32x40xf16>, %c: tensor<48x40xf32>) -> (tensor<48x40xf32>, tensor<48x40xf32>) {
  %p = linalg.matmul ins(%a, %b : tensor<48x32xf16>, tensor<32x40xf16>) outs(%c : tensor<48x40xf32>) -> tensor<48x40xf32>
  %q = linalg.add ins(%p, %c : tensor<48x40xf32>, tensor<48x40xf32>) outs(%c : tensor<48x40xf32>) -> tensor<48x40xf32>
  return %p, %q : tensor<48x40xf32>, tensor<48x40xf32>
}
