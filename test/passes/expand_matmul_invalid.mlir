// RUN: weft-opt %s --expand-matmul --split-input-file --verify-diagnostics
// RUN: not weft-opt %s --expand-matmul=chip=sm_70 --split-input-file 2>&1 | FileCheck %s

func.func @not_outlined(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op must be in a gpu.func: run --outline-matmul before --expand-matmul}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

gpu.module @m {
  gpu.func @no_schedule(%a: memref<?x?xf16>, %d: memref<?x?xf32>) kernel {
    // expected-error @below {{'tile.matmul' op must have a schedule: run --select-schedule before --expand-matmul}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @another_block(%a: memref<?x?xf16>, %d: memref<?x?xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // expected-error @below {{'tile.matmul' op must be in a kernel with 'known_block_size' of [32, 1, 1], as its schedule needs, got [64, 1, 1]}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @an_unknown_block(%a: memref<?x?xf16>, %d: memref<?x?xf32>) kernel {
    // expected-error @below {{'tile.matmul' op must be in a kernel with 'known_block_size' of [32, 1, 1], as its schedule needs, got none}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @two_dimensions(%a: memref<?x?xf16>, %d: memref<?x?xf32>) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.matmul' op must be in a kernel with 'known_block_size' of [32, 1, 1], as its schedule needs, got [16, 2, 1]}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

// -----

// Two warpgroups multiply and one copies.
gpu.module @m {
  gpu.func @without_the_warpgroup_that_copies(%a: memref<?x?xf16>, %d: memref<?x?xf32>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    // expected-error @below {{'tile.matmul' op must be in a kernel with 'known_block_size' of [384, 1, 1], as its schedule needs, got [256, 1, 1]}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @no_workspace(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    // expected-error @below {{expects a kernel with 'weft.workspace' whose last arguments are memref<?x128xvector<4xf32>> and memref<?xi32>}}
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @no_cta_workspace(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>, %s: memref<?x128xvector<4xf32>>, %c: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, weft.workspace = array<i64: 8, 4>} {
    // expected-error @below {{expects a kernel with 'weft.cta_workspace' whose last arguments are memref<?x128xvector<4xf32>> and memref<?xi32>}}
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, stream_k = true}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
    gpu.return
  }
}

// -----

// Without a target, it is legal for the chips that have its schedule.
gpu.module @m {
  gpu.func @another_chip(%a: memref<?x?xf32>, %d: memref<?x?xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: expand_matmul_invalid.mlir:{{[0-9]+}}:5: error: 'tile.matmul' op mma.sync needs sm_80 or later: sm_70 has no {{.*}}; nearest legal:
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 2}}
      : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
    gpu.return
  }
}
