// Block scales that come as words are random powers of two, in sizes that --shape sets or the types state.
// RUN: env CUDA_VISIBLE_DEVICES= weft run %s --arch sm_100a --shape 36x36x208 --on emulator | FileCheck %s
// RUN: sed 's/!F8 = .*/!F8 = memref<36x208xf8E4M3FN>/; s/!D = .*/!D = memref<36x36xf32>/; \
// RUN:   s/!S = .*/!S = memref<2x36xi32>/' %s > %t.mlir
// RUN: env CUDA_VISIBLE_DEVICES= weft run %t.mlir --arch sm_100a --on emulator | FileCheck %s

// CHECK: product D[36,36] f32 = A[36,208] f8E4M3FN * B[36,208]ᵀ f8E4M3FN
// CHECK: PASS
!F8 = memref<?x?xf8E4M3FN, strided<[?, 1]>>
!D = memref<?x?xf32, strided<[?, 1]>>
!S = memref<?x?xi32, strided<[?, 1]>>
func.func @words(%A: !F8, %B: !F8, %D: !D, %a: !S, %b: !S) {
  "tile.matmul"(%A, %B, %D, %a, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, scale_block = 32 : i64, transpose_b = true}
    : (!F8, !F8, !D, !S, !S) -> ()
  return
}
