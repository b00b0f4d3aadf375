// What isn't raised stays as it is, and a remark gives the reason.
// RUN: weft-opt %s --raise-linalg=plain=false --split-input-file --verify-diagnostics
// RUN: weft-opt %s --raise-linalg=plain=false --split-input-file 2>%t | FileCheck %s
// CHECK-NOT: tile.matmul

func.func @unfilled(%a: tensor<4x8xbf16>, %b: tensor<8x5xbf16>) -> tensor<4x5xf32> {
  // expected-remark @+1 {{'tensor.empty' op isn't raised to tile.matmul: it is read before it is written; fill it first}}
  %0 = tensor.empty() : tensor<4x5xf32>
  %1 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x5xbf16>) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}

// -----

func.func @other_function(%a: tensor<4x8xbf16>, %b: tensor<8x5xbf16>, %c: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = tensor.empty() : tensor<4x5xf32>
  %1 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x5xbf16>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  // expected-remark @+1 {{it is no relu, gelu, gelu_tanh or silu of a product; write the product to memory before it}}
  %2 = linalg.exp ins(%1 : tensor<4x5xf32>) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}

// -----

func.func @column(%a: memref<4x8xbf16>, %b: memref<8x5xbf16>, %v: memref<4xf32>, %d: memref<4x5xf32>) {
  linalg.broadcast ins(%v : memref<4xf32>) outs(%d : memref<4x5xf32>) dimensions = [1]
  // expected-remark @+1 {{it adds an operand at (d0) of D's 2 dimensions; a bias has an element for each column of D}}
  linalg.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x5xbf16>) outs(%d : memref<4x5xf32>)
  return
}

// -----

func.func @two_depths(%a: memref<4x8x2xbf16>, %b: memref<8x2x5xbf16>, %d: memref<4x5xf32>) {
  // expected-remark @+1 {{it adds up over 2 dimensions; collapse them to one dimension K}}
  linalg.contract indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>,
      affine_map<(m, n, k, l) -> (m, n)>]
    ins(%a, %b : memref<4x8x2xbf16>, memref<8x2x5xbf16>) outs(%d : memref<4x5xf32>)
  return
}

// -----

func.func @batch_inside(%a: memref<4x2x8xbf16>, %b: memref<2x8x5xbf16>, %d: memref<2x4x5xf32>) {
  // expected-remark @+1 {{it has A with dimensions (M, batch, K); it must have M and K in any order, or a batch before them}}
  linalg.contract indexing_maps = [affine_map<(z, m, n, k) -> (m, z, k)>, affine_map<(z, m, n, k) -> (z, k, n)>,
      affine_map<(z, m, n, k) -> (z, m, n)>]
    ins(%a, %b : memref<4x2x8xbf16>, memref<2x8x5xbf16>) outs(%d : memref<2x4x5xf32>)
  return
}

// -----

func.func @maximum(%a: memref<4x8xf32>, %d: memref<4xf32>) {
  // expected-remark @+1 {{it is a reduction, but doesn't add up products of elements of two matrices}}
  linalg.reduce ins(%a : memref<4x8xf32>) outs(%d : memref<4xf32>) dimensions = [1]
    (%x: f32, %y: f32) { %0 = arith.maximumf %x, %y : f32 linalg.yield %0 : f32 }
  return
}

// -----

func.func @rounded(%a: tensor<4x8xf32>, %b: tensor<8x5xbf16>, %c: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = tensor.empty() : tensor<4x8xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%0 : tensor<4x8xbf16>) {
  ^bb0(%x: f32, %y: bf16):
    %2 = arith.truncf %x : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<4x8xbf16>
  // expected-remark @+1 {{it multiplies elements that are computed; write them to memory in a function of its own}}
  %3 = linalg.matmul ins(%1, %b : tensor<4x8xbf16>, tensor<8x5xbf16>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}

// -----

func.func @types(%a: memref<4x8xbf16>, %b: memref<8x5xf16>, %d: memref<4x5xf32>) {
  // expected-remark @+1 {{it can't become a tile.matmul, which expects A and B of one element type}}
  linalg.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x5xf16>) outs(%d : memref<4x5xf32>)
  return
}

// -----

func.func @in_place(%a: memref<8x8xf16>, %d: memref<8x8xf16>) {
  // expected-remark @+1 {{it can't become a tile.matmul, which expects B and D to be different matrices}}
  linalg.matmul ins(%a, %d : memref<8x8xf16>, memref<8x8xf16>) outs(%d : memref<8x8xf16>)
  return
}

// -----

func.func @weights(%a: tensor<2x2xf32>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-remark @+1 {{it is a constant of the module; make it an argument of the function}}
  %b = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<2x2xf32>, tensor<2x2xf32>) outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @loop(%a: memref<4x8xbf16>, %b: memref<8x5xbf16>, %d: memref<4x5xf32>, %n: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  // expected-remark @+1 {{'scf.for' op isn't raised to tile.matmul: it isn't part of a product or of what follows it}}
  scf.for %i = %0 to %n step %1 {
    linalg.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x5xbf16>) outs(%d : memref<4x5xf32>)
  }
  return
}

// -----

func.func @callee(%a: memref<4x8xbf16>, %b: memref<8x5xbf16>, %d: memref<4x5xf32>) { // expected-remark {{it is called by another function, which would have to change}}
  linalg.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x5xbf16>) outs(%d : memref<4x5xf32>)
  return
}
func.func @caller(%a: memref<4x8xbf16>, %b: memref<8x5xbf16>, %d: memref<4x5xf32>) {
  call @callee(%a, %b, %d) : (memref<4x8xbf16>, memref<8x5xbf16>, memref<4x5xf32>) -> ()
  return
}

// -----

func.func @convolution(%a: memref<1x8x8x3xf32>, %b: memref<3x3x3x4xf32>, %d: memref<1x6x6x4xf32>) {
  // expected-remark @+1 {{'linalg.conv_2d_nhwc_hwcf' op isn't raised to tile.matmul: it must be indexed by loops, not by d1 + d4}}
  linalg.conv_2d_nhwc_hwcf ins(%a, %b : memref<1x8x8x3xf32>, memref<3x3x3x4xf32>) outs(%d : memref<1x6x6x4xf32>)
  return
}

// -----

func.func @batches(%a: memref<2x2x8x8xf16>, %b: memref<2x2x8x8xf16>, %d: memref<2x2x8x8xf32>) {
  // expected-remark @+1 {{it is a product of 4 dimensions; D has up to 3: collapse those of batches}}
  linalg.contract indexing_maps = [affine_map<(x, y, m, n, k) -> (x, y, m, k)>, affine_map<(x, y, m, n, k) -> (x, y, k, n)>,
      affine_map<(x, y, m, n, k) -> (x, y, m, n)>]
    ins(%a, %b : memref<2x2x8x8xf16>, memref<2x2x8x8xf16>) outs(%d : memref<2x2x8x8xf32>)
  return
}

// -----

func.func @same(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %c: tensor<8x8xf16>) -> (tensor<8x8xf16>, tensor<8x8xf16>) {
  %0 = linalg.matmul ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf16>) -> tensor<8x8xf16>
  // expected-remark @+1 {{'func.return' op isn't raised to tile.matmul: it returns a matrix twice}}
  return %0, %0 : tensor<8x8xf16>, tensor<8x8xf16>
}

// -----

func.func @unranked(%a: memref<8x8xf16>, %d: memref<*xf16>) {
  %c = memref.cast %d : memref<*xf16> to memref<8x8xf16>
  // expected-remark @+1 {{it must leave matrices only, as tensors or memrefs of known rank}}
  linalg.matmul ins(%a, %a : memref<8x8xf16>, memref<8x8xf16>) outs(%c : memref<8x8xf16>)
  return
}

// -----

func.func @infinite(%a: memref<8x8xf16>, %b: memref<8x8xf16>, %d: memref<8x8xf32>) {
  // expected-remark @+1 {{it can't become a tile.matmul: alpha must be finite in f32, got inf}}
  linalg.matmul ins(%a, %b : memref<8x8xf16>, memref<8x8xf16>) outs(%d : memref<8x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      outs(%d : memref<8x8xf32>) {
  ^bb0(%z: f32):
    %i = arith.constant 0x7F800000 : f32
    %r = arith.mulf %z, %i : f32
    linalg.yield %r : f32
  }
  return
}

// -----

func.func @packed(%a: memref<3x4x8x16xf16>, %b: memref<5x4x8x16xf16>, %d: memref<3x5x8x8xf32>) {
  // expected-remark @+1 {{it multiplies tiles that are packed; write linalg.matmul on matrices that aren't}}
  linalg.mmt4d ins(%a, %b : memref<3x4x8x16xf16>, memref<5x4x8x16xf16>) outs(%d : memref<3x5x8x8xf32>)
  return
}

// -----

func.func @zero_points(%a: memref<8x32xi8>, %b: memref<32x8xi8>, %d: memref<8x8xi32>) {
  %z = arith.constant 3 : i32
  // expected-remark @+1 {{'linalg.quantized_matmul' op isn't raised to tile.matmul: it multiplies elements that are computed}}
  linalg.quantized_matmul ins(%a, %b, %z, %z : memref<8x32xi8>, memref<32x8xi8>, i32, i32) outs(%d : memref<8x8xi32>)
  return
}

// -----

func.func @dot(%a: memref<32xf16>, %b: memref<32xf16>, %d: memref<f32>) {
  // expected-remark @+1 {{'linalg.dot' op isn't raised to tile.matmul: it is a product without columns: the last dimension of the result must be that of one operand, N}}
  linalg.dot ins(%a, %b : memref<32xf16>, memref<32xf16>) outs(%d : memref<f32>)
  return
}

// -----

func.func @part(%a: memref<8x32xf16>, %b: memref<16x8xf16>, %d: memref<8x8xf32>) {
  // expected-remark @+1 {{'memref.subview' op isn't raised to tile.matmul: it isn't part of a product or of what follows it}}
  %x = memref.subview %a[0, 0] [8, 16] [1, 1] : memref<8x32xf16> to memref<8x16xf16, strided<[32, 1]>>
  linalg.matmul ins(%x, %b : memref<8x16xf16, strided<[32, 1]>>, memref<16x8xf16>) outs(%d : memref<8x8xf32>)
  return
}
