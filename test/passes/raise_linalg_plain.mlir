// What no product takes becomes plain functions, each with the reason.
// RUN: weft-opt %s --raise-linalg --split-input-file --verify-diagnostics | FileCheck %s
// RUN: weft-opt %s --raise-linalg --split-input-file --remarks-filter='kernel (before|sizes)' 2>&1 >%t | FileCheck %s --check-prefix=FILTER
// FILTER-NOT: kernel elementwise
// FILTER: remark: {{.*}}plain kernel before_0
// FILTER: remark: {{.*}}plain kernel sizes
// FILTER-NOT: kernel memrefs

// The exponential function is none of the activations. Its operand is a product with a bias.
// CHECK-LABEL: func.func @elementwise_0(
// CHECK-SAME: weft.sources = ["argument 0", "argument 1", "argument 2", "product 0"]
// CHECK: "tile.matmul"(%arg0, %arg1, %arg3, %arg2) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
// CHECK-LABEL: func.func @elementwise_1(
// CHECK-SAME: weft.plain, weft.sources = ["product 0", "result 0"]
// CHECK: linalg.exp
// CHECK-NEXT: bufferization.materialize_in_destination {{.*}} in restrict writable %arg1
func.func @elementwise(%a: tensor<4x8xbf16>, %b: tensor<8x5xbf16>, %v: tensor<5xf32>) -> tensor<4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x5xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  %2 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x5xbf16>) outs(%1 : tensor<4x5xf32>) -> tensor<4x5xf32>
  %w = linalg.broadcast ins(%v : tensor<5xf32>) outs(%0 : tensor<4x5xf32>) dimensions = [0]
  %3 = linalg.add ins(%2, %w : tensor<4x5xf32>, tensor<4x5xf32>) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  // expected-remark @+1 {{'linalg.exp' op becomes the plain kernel elementwise_1: it is no relu, gelu, gelu_tanh or silu of a product}}
  %4 = linalg.exp ins(%3 : tensor<4x5xf32>) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %4 : tensor<4x5xf32>
}

// -----

// What a later product reads is computed before it. A view of it is computed where it is read.
// CHECK-LABEL: func.func @before_0(
// CHECK-SAME: weft.plain, weft.sources = ["argument 0", "tensor 0"]
// CHECK: linalg.exp
// CHECK: tensor.pad
// CHECK: bufferization.materialize_in_destination
// CHECK-LABEL: func.func @before_1(
// CHECK-SAME: weft.sources = ["argument 1", "argument 2", "tensor 0", "result 0"]
// CHECK: "tile.matmul"(%arg2, %arg0, %arg3, %arg1)
func.func @before(%a: tensor<4x7xf16>, %b: tensor<8x5xf16>, %c: tensor<4x5xf16>) -> tensor<4x5xf16> {
  %zero = arith.constant 0.0 : f16
  %0 = tensor.empty() : tensor<4x7xf16>
  %1 = linalg.exp ins(%a : tensor<4x7xf16>) outs(%0 : tensor<4x7xf16>) -> tensor<4x7xf16>
  // expected-remark @+1 {{'tensor.pad' op becomes the plain kernel before_0: it isn't part of a product or of what follows it}}
  %2 = tensor.pad %1 low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<4x7xf16> to tensor<4x8xf16>
  %3 = linalg.matmul ins(%2, %b : tensor<4x8xf16>, tensor<8x5xf16>) outs(%c : tensor<4x5xf16>) -> tensor<4x5xf16>
  return %3 : tensor<4x5xf16>
}

// -----

// A number of the host: the size of a tensor that the kernel doesn't read.
// CHECK-LABEL: func.func @sizes(
// CHECK-SAME: %arg0: memref<?x?xf32>, %arg1: f32, %arg2: memref<?xf32>
// CHECK-SAME: weft.sources = ["argument 0", "argument 1", "result 0"]
// CHECK: tensor.dim
// CHECK: linalg.fill ins(%arg1 : f32)
func.func @sizes(%a: tensor<?x?xf32>, %first: f32) -> tensor<?xf32> {
  %0 = arith.constant 0 : index
  %m = tensor.dim %a, %0 : tensor<?x?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %f = linalg.fill ins(%first : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  // expected-remark @+1 {{'linalg.reduce' op becomes the plain kernel sizes: it is a reduction, but doesn't add up products}}
  %r = linalg.reduce ins(%a : tensor<?x?xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
    (%x: f32, %y: f32) { %1 = arith.maximumf %x, %y : f32 linalg.yield %1 : f32 }
  return %r : tensor<?xf32>
}

// -----

// Memrefs: both read %d before it is written, so the first product goes to other memory.
// CHECK-LABEL: func.func @memrefs_0(
// CHECK-SAME: weft.sources = ["argument 0", "argument 1", "product 0"]
// CHECK-LABEL: func.func @memrefs_1(
// CHECK-SAME: weft.plain, weft.sources = ["product 0", "argument 1"]
func.func @memrefs(%a: memref<8x8xf16>, %d: memref<8x8xf16>) {
  %zero = arith.constant 0.0 : f16
  %t = memref.alloc() : memref<8x8xf16>
  linalg.fill ins(%zero : f16) outs(%t : memref<8x8xf16>)
  linalg.matmul ins(%a, %d : memref<8x8xf16>, memref<8x8xf16>) outs(%t : memref<8x8xf16>)
  // expected-remark @+1 {{'linalg.exp' op becomes the plain kernel memrefs_1: it is no relu, gelu, gelu_tanh or silu of a product}}
  linalg.exp ins(%t : memref<8x8xf16>) outs(%d : memref<8x8xf16>)
  return
}

// -----

// No kernel computes this.
func.func @loop(%a: tensor<4x8xbf16>, %b: tensor<8x5xbf16>, %d: tensor<4x5xf32>, %n: index) -> tensor<4x5xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  // expected-remark @+1 {{'scf.for' op isn't raised to tile.matmul: it isn't part of a product, and no plain kernel computes it}}
  %r = scf.for %i = %0 to %n step %1 iter_args(%c = %d) -> tensor<4x5xf32> {
    %2 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x5xbf16>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
    scf.yield %2 : tensor<4x5xf32>
  }
  return %r : tensor<4x5xf32>
}

// -----

// expected-remark @+1 {{'func.func' op isn't raised to tile.matmul: it needs dimension 7 of a tensor<?x?xf32>}}
func.func @dimension(%a: tensor<?x?xf32>, %first: f32) -> tensor<?xf32> {
  %0 = arith.constant 7 : index
  %m = tensor.dim %a, %0 : tensor<?x?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %f = linalg.fill ins(%first : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.reduce { arith.maximumf } ins(%a : tensor<?x?xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
  return %r : tensor<?xf32>
}
