// Products with block scales are checked against random elements and scales.
// RUN: env CUDA_VISIBLE_DEVICES= weft run %s --arch sm_100a --shape 40x32x128 --on emulator | FileCheck %s

// CHECK: product D[40,32] f32 = A[40,128] f4E2M1FN * B[32,128]ᵀ f8E5M2
// CHECK: schedule block {{.*}} accumulators
// CHECK: PASS
!S = memref<?x?xf8E8M0FNU>
func.func @mx(%A: memref<?x?xf4E2M1FN>, %B: memref<?x?xf8E5M2>, %D: memref<?x?xf32>, %a: !S, %b: !S) {
  "tile.matmul"(%A, %B, %D, %a, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<?x?xf4E2M1FN>, memref<?x?xf8E5M2>, memref<?x?xf32>, !S, !S) -> ()
  return
}
