// weft run checks a product in the emulator against float64.

// RUN: weft run %examples/matmul.mlir --on emulator --arch sm_80 | FileCheck %s
// CHECK:      product    D[256,256] f32 = A[256,256] bf16 * B[256,256]ᵀ bf16
// CHECK-NEXT: kernel     matmul for sm_80 in the emulator
// CHECK-NEXT: schedule   block {{.*}} stages
// CHECK-NEXT: launch     grid {{[0-9]+x[0-9]+}}x1, {{[0-9]+}} threads ({{[0-9]+}} warps) each
// CHECK-NEXT: resources  {{[0-9]+}} registers, {{.*}}spills{{.*}}, {{[0-9]+}} bytes of shared memory
// CHECK-NEXT: emulated   {{[0-9,]+}} warp instructions in {{.*}} s
// CHECK-NEXT: error      {{.*}} at most (bound {{.*}}); {{.*}} of the bound at most
// CHECK-NEXT: PASS

// Rows that TMA can't copy: what is said is of the kernel that ran.
// RUN: weft run %examples/matmul.mlir --on emulator --arch sm_90a --shape 37x53x71 | FileCheck %s --check-prefix=ODD
// ODD: kernel {{ +}}matmul for sm_90a in the emulator, for rows of any alignment
// ODD-NEXT: schedule {{ +}}block {{.*}} warps 2x2
// ODD-NEXT: launch {{.*}}, 128 threads
// ODD: PASS

// Sizes that the types fix, rows with gaps, alpha, and a beta whose C stays apart from D.
// RUN: weft run %s --on emulator --arch sm_90a --kernel fixed --shape 40x48x33 --seed 7 | FileCheck %s --check-prefix=FIXED
// FIXED: product {{ +}}D[40,48] f16 = 0.5 * A[40,33] f16 * B[33,48] f16 + 2 * C
// FIXED: kernel {{ +}}fixed for sm_90a in the emulator
// FIXED: schedule {{ +}}block {{.*}} warpgroups
// FIXED: PASS
func.func @fixed(%A: memref<40x?xf16, strided<[72, 1]>>, %B: memref<?x?xf16>, %C: memref<?x?xbf16>,
                 %D: memref<?x48xf16, strided<[64, 1]>>) {
  "tile.matmul"(%A, %B, %D, %C) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 0.5 : f32, beta = 2.0 : f32,
      schedule = {block = array<i64: 64, 32, 64>, warpgroups = 1, stages = 2}} : (memref<40x?xf16, strided<[72, 1]>>, memref<?x?xf16>, memref<?x48xf16, strided<[64, 1]>>, memref<?x?xbf16>) -> ()
  return
}

// D is read and updated, one matrix is both A and B, and ptxas isn't needed to emulate.
// RUN: env WEFT_PTXAS=%t/none weft run - --on emulator --arch sm_80 --kernel update --shape 24x24x24 < %s \
// RUN:   | FileCheck %s --check-prefix=UPDATE
// UPDATE: product {{ +}}D[24,24] bf16 = A[24,24] bf16 * B[24,24]ᵀ bf16 + 1 * D
// UPDATE: registers {{ +}}unknown: WEFT_PTXAS is
// UPDATE: PASS
func.func @update(%A: memref<?x?xbf16>, %D: memref<?x?xbf16>) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, beta = 1.0 : f32,
      schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}
