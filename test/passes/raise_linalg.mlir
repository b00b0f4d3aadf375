// Products on memrefs: named operations, generic ones with any order of dimensions, and what is folded into them.
// RUN: weft-opt %s --raise-linalg | FileCheck %s
// RUN: weft-opt %s --linalg-generalize-named-ops --raise-linalg | FileCheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nm = affine_map<(m, n, k) -> (n, m)>

// CHECK-LABEL: func.func @filled(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
// CHECK-NEXT: return
func.func @filled(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%d : memref<?x?xf32>)
  linalg.matmul ins(%a, %b : memref<?x?xbf16>, memref<?x?xbf16>) outs(%d : memref<?x?xf32>)
  return
}

// What isn't filled is C.
// CHECK-LABEL: func.func @accumulated(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}, transpose_a = true, transpose_b = true}
func.func @accumulated(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  linalg.matmul indexing_maps = [#km, #nk, #mn]
    ins(%a, %b : memref<?x?xf16>, memref<?x?xf16>) outs(%d : memref<?x?xf32>)
  return
}

// D transposed: B's columns are its rows.
// CHECK-LABEL: func.func @contracted(
// CHECK-NEXT: "tile.matmul"(%arg1, %arg0, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}, transpose_a = true, transpose_b = true}
func.func @contracted(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  linalg.contract indexing_maps = [#mk, #kn, #nm]
    ins(%a, %b : memref<?x?xf16>, memref<?x?xf16>) outs(%d : memref<?x?xf32>)
  return
}

// CHECK-LABEL: func.func @batch(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}} : (memref<4x?x?xi8>, memref<4x?x?xi8>, memref<4x?x?xi32>)
func.func @batch(%a: memref<4x?x?xi8>, %b: memref<4x?x?xi8>, %d: memref<4x?x?xi32>) {
  %zero = arith.constant 0 : i32
  linalg.fill ins(%zero : i32) outs(%d : memref<4x?x?xi32>)
  linalg.batch_matmul ins(%a, %b : memref<4x?x?xi8>, memref<4x?x?xi8>) outs(%d : memref<4x?x?xi32>)
  return
}

// One B for all products of a batch.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}, transpose_b = true} : (memref<4x?x?xf16>, memref<?x?xf16>, memref<4x?x?xf32>)
func.func @shared(%a: memref<4x?x?xf16>, %b: memref<?x?xf16>, %d: memref<4x?x?xf32>) {
  linalg.contract indexing_maps = [affine_map<(z, m, n, k) -> (z, m, k)>, affine_map<(z, m, n, k) -> (n, k)>,
      affine_map<(z, m, n, k) -> (z, m, n)>]
    ins(%a, %b : memref<4x?x?xf16>, memref<?x?xf16>) outs(%d : memref<4x?x?xf32>)
  return
}

// A vector is a matrix of one row.
// CHECK-LABEL: func.func @matvec(%arg0: memref<64x32xf16>, %arg1: memref<1x32xf16>, %arg2: memref<1x64xf32>)
// CHECK-NEXT: "tile.matmul"(%arg1, %arg0, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}, transpose_b = true}
func.func @matvec(%a: memref<64x32xf16>, %x: memref<32xf16>, %y: memref<64xf32>) {
  linalg.matvec ins(%a, %x : memref<64x32xf16>, memref<32xf16>) outs(%y : memref<64xf32>)
  return
}

// CHECK-LABEL: func.func @vecmat(%arg0: memref<1x?xf16>, %arg1: memref<?x?xf16>, %arg2: memref<1x?xf32>)
// CHECK-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {beta = 1.000000e+00 : f32, operandSegmentSizes = {{.*}}} :
func.func @vecmat(%x: memref<?xf16>, %b: memref<?x?xf16>, %y: memref<?xf32>) {
  linalg.vecmat ins(%x, %b : memref<?xf16>, memref<?x?xf16>) outs(%y : memref<?xf32>)
  return
}

// D = residual + silu(0.5 * A @ B + 2 * C + bias), through memory that the function allocates.
#two = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (n)>
// CHECK-LABEL: func.func @epilogue(
// CHECK: "tile.matmul"(%arg0, %arg1, %arg5, %arg2, %arg3, %arg4)
// CHECK-SAME: activation = "silu", alpha = 5.000000e-01 : f32, beta = 2.000000e+00 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>
// CHECK-NEXT: return
func.func @epilogue(%a: memref<8x16xbf16>, %b: memref<16x24xbf16>, %c: memref<8x24xf32>, %bias: memref<24xbf16>,
                    %r: memref<8x24xf16>, %d: memref<8x24xbf16>) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %2 = arith.constant 2.0 : f32
  %sums = memref.alloc() : memref<8x24xf32>
  linalg.fill ins(%zero : f32) outs(%sums : memref<8x24xf32>)
  linalg.matmul ins(%a, %b : memref<8x16xbf16>, memref<16x24xbf16>) outs(%sums : memref<8x24xf32>)
  linalg.generic {indexing_maps = [#two, #row, #two], iterator_types = ["parallel", "parallel"]}
      ins(%c, %bias : memref<8x24xf32>, memref<24xbf16>) outs(%sums : memref<8x24xf32>) {
  ^bb0(%x: f32, %v: bf16, %s: f32):
    %scaled = arith.mulf %half, %s : f32
    %doubled = arith.mulf %x, %2 : f32
    %wide = arith.extf %v : bf16 to f32
    %sum = arith.addf %scaled, %doubled : f32
    %z = arith.addf %sum, %wide : f32
    linalg.yield %z : f32
  }
  linalg.generic {indexing_maps = [#two, #two, #two], iterator_types = ["parallel", "parallel"]}
      ins(%sums, %r : memref<8x24xf32>, memref<8x24xf16>) outs(%d : memref<8x24xbf16>) {
  ^bb0(%z: f32, %old: f16, %ignored: bf16):
    %one = arith.constant 1.0 : f32
    %negative = arith.negf %z : f32
    %power = math.exp %negative : f32
    %below = arith.addf %one, %power : f32
    %silu = arith.divf %z, %below : f32
    %wide = arith.extf %old : f16 to f32
    %sum = arith.addf %silu, %wide : f32
    %rounded = arith.truncf %sum : f32 to bf16
    linalg.yield %rounded : bf16
  }
  memref.dealloc %sums : memref<8x24xf32>
  return
}

// A bias of one row, with a dimension that is broadcast; unsigned bytes.
// CHECK-LABEL: func.func @row(%arg0: memref<8x8xf16>, %arg1: memref<8x8xf16>, %arg2: memref<8xf32>, %arg3: memref<8x8xf32>, %arg4: memref<8x8xf32>)
// CHECK: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>
// CHECK-LABEL: func.func @unsigned(%arg0: memref<8x32xui8>, %arg1: memref<32x8xui8>, %arg2: memref<8x8xi32>)
func.func @row(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %v: tensor<1x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [#two, affine_map<(m, n) -> (0, n)>, #two], iterator_types = ["parallel", "parallel"]}
      ins(%0, %v : tensor<8x8xf32>, tensor<1x8xf32>) outs(%c : tensor<8x8xf32>) {
  ^bb0(%z: f32, %w: f32, %o: f32):
    %r = arith.addf %z, %w : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func @unsigned(%a: memref<8x32xi8>, %b: memref<32x8xi8>, %d: memref<8x8xi32>) {
  linalg.matmul {cast = #linalg.type_fn<cast_unsigned>}
    ins(%a, %b : memref<8x32xi8>, memref<32x8xi8>) outs(%d : memref<8x8xi32>)
  return
}
