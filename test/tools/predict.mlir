// weft predict states the time of a product on a GPU that need not be there, its bound and its parts.

// RUN: weft predict %examples/matmul.mlir --arch sm_90a --shape 4096x4096x4096 | FileCheck %s
// CHECK:      product    D[4096,4096] f32 = A[4096,4096] bf16 * B[4096,4096]ᵀ bf16
// CHECK-NEXT: gpu        H200: 132 multiprocessors at 1.98 GHz
// CHECK-NEXT: schedule   block {{.*}} warpgroups
// CHECK-NEXT: predicted  {{[0-9.]+}} us, {{[0-9]+}} TFLOP/s, bound by power
// CHECK-NEXT: parts      tensor cores {{[0-9.]+}}, TMA {{[0-9.]+}}, DRAM {{.*}} us
// CHECK-NEXT: kernel     {{[0-9]+}} tiles in {{[0-9]+}} waves, {{[0-9]+}} K blocks each; {{[0-9,]+}} instructions; {{.*}} MB copied, {{.*}} MB of memory

// The chosen schedule for tensor memory.
// RUN: weft predict %examples/matmul.mlir --arch sm_100a --shape 4096x4096x4096 | FileCheck %s --check-prefix=B200
// B200:      gpu        B200: 148 multiprocessors at 1.9 GHz
// B200-NEXT: schedule   block 256x{{[0-9]+}}x64, 2 accumulators, {{[0-9]+}} stages, {{.*}}pairs
// B200-NEXT: predicted  {{[0-9.]+}} us, {{[0-9]+}} TFLOP/s, bound by power
// B200-NEXT: parts      tensor cores {{[0-9.]+}}, shared memory {{[0-9.]+}}, TMA {{.*}}, tail {{.*}}, launch {{[0-9.]+}}, power {{[0-9.]+}} us

// Two schedules, the faster one first.
// RUN: weft predict %s --kernel fixed --arch sm_90a --schedule "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2}" \
// RUN:   --schedule "{block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}" | FileCheck %s --check-prefix=TWO
// TWO: schedule   block 128x256x64
// TWO: schedule   block 64x64x64

// RUN: not weft predict %s --arch sm_90a 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: error: the file has several kernels: select one with --kernel: fixed, open
// RUN: not weft predict %s --arch sm_90a --kernel open 2>&1 | FileCheck %s --check-prefix=OPEN
// OPEN: error: 'tile.matmul' op leaves M open: set it with --shape MxNxK
// RUN: not weft predict %s --arch sm_80 --kernel fixed 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: error: arch must be a chip with a model of its GPUs (sm_100a, sm_103a, sm_110a, sm_120a, sm_121a, sm_90a), got sm_80
// RUN: not weft predict --arch sm_90a 2>&1 | FileCheck %s --check-prefix=FILE
// FILE: error: weft predict needs FILE.mlir, or --measured with files of weft bench --json

func.func @fixed(%A: memref<4096x4096xbf16>, %B: memref<4096x4096xbf16>, %D: memref<4096x4096xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<4096x4096xbf16>, memref<4096x4096xbf16>, memref<4096x4096xf32>) -> ()
  return
}

func.func @open(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
