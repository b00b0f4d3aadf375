// weft run checks what is done with a product: a bias, an activation, a residual; fp8 and integers.

// RUN: weft run %s --on emulator --arch sm_90a --kernel linear --shape 40x48x64 | FileCheck %s
// CHECK: product    D[40,48] bf16 = gelu(0.5 * A[40,64] bf16 * B[48,64]ᵀ bf16 + 2 * C + bias) + residual
// CHECK: PASS
func.func @linear(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %v: memref<?xf32>, %D: memref<?x?xbf16>,
                  %r: memref<?x?xf16>, %C: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D, %C, %v, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>, activation = "gelu", transpose_b = true,
      alpha = 0.5 : f32, beta = 2.0 : f32, schedule = {block = array<i64: 64, 32, 64>, warpgroups = 1, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, memref<?xf32>, memref<?x?xf16>) -> ()
  return
}

// RUN: weft run %s --on emulator --arch sm_90a --kernel fp8 --shape 40x48x64 | FileCheck %s --check-prefix=FP8
// FP8: product    D[40,48] f8E5M2 = silu(A[40,64] f8E4M3FN * B[48,64]ᵀ f8E4M3FN)
// FP8: PASS
func.func @fp8(%A: memref<?x?xf8E4M3FN>, %B: memref<?x?xf8E4M3FN>, %D: memref<?x?xf8E5M2>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "silu", transpose_b = true,
      schedule = {block = array<i64: 64, 32, 128>, warpgroups = 1, stages = 2}}
    : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>) -> ()
  return
}

// RUN: weft run %s --on emulator --arch sm_90a --kernel bytes --shape 40x48x64 | FileCheck %s --check-prefix=BYTES
// BYTES: product    D[40,48] i32 = A[40,64] ui8 * B[48,64]ᵀ i8 + bias
// BYTES: error      0 at most (bound 0)
// BYTES: PASS
func.func @bytes(%A: memref<?x?xui8>, %B: memref<?x?xi8>, %D: memref<?x?xi32>, %v: memref<?xi32>) {
  "tile.matmul"(%A, %B, %D, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 64, 32, 128>, warpgroups = 1, stages = 2}}
    : (memref<?x?xui8>, memref<?x?xi8>, memref<?x?xi32>, memref<?xi32>) -> ()
  return
}

// RUN: weft run %s --on emulator --arch sm_90a --kernel scaled --shape 40x48x64 | FileCheck %s --check-prefix=SCALED
// SCALED: product    D[40,48] f32 = 0.5 * alpha * A[40,64] f16 * B[48,64]ᵀ f16
// SCALED: PASS
func.func @scaled(%A: memref<?x?xf16>, %B: memref<?x?xf16>, %D: memref<?x?xf32>, %s: memref<1xf32>) {
  "tile.matmul"(%A, %B, %D, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, alpha = 0.5 : f32,
      schedule = {block = array<i64: 64, 32, 64>, warpgroups = 1, stages = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<1xf32>) -> ()
  return
}

// RUN: weft run %s --on emulator --arch sm_80 --kernel number --shape 24x40x32 | FileCheck %s --check-prefix=NUMBER
// RUN: weft run %s --on emulator --arch sm_80 --kernel number --arg 0=random:24x32 --arg 3=-1.5 --arg 4=7 | FileCheck %s --check-prefix=NUMBER
// NUMBER: = epilogue(A[24,32] bf16 * B[32,{{40|256}}] bf16)
// NUMBER: PASS
func.func @number(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>, %factor: f32, %first: index) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = arith.mulf %sum, %factor : f32
    %1 = arith.cmpi sge, %i, %first : index
    %2 = arith.select %1, %0, %factor : f32
    "tile.yield"(%2) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%A, %B, %D, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// No error bound is known of all operations: such a kernel runs if each argument is given.
// RUN: not weft run %s --on emulator --arch sm_80 --kernel power --shape 24x40x32 2>&1 | FileCheck %s --check-prefix=POWER
// POWER: 'math.powf' op can't be checked by weft run: give each argument by --arg, and check the result yourself
// RUN: weft run %s --on emulator --arch sm_80 --kernel power --arg random:8x32 --arg random:32x8 --arg zeros:8x8 --arg 2 | FileCheck %s --check-prefix=RAN
// RAN: RAN; no reference is known
func.func @power(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>, %exponent: f32) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = math.powf %sum, %exponent : f32
    "tile.yield"(%0) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%A, %B, %D, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>,
      schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}
