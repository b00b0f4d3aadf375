// RUN: weft-opt %s --select-schedule=chip=sm_86 --split-input-file --verify-diagnostics
// RUN: not weft-opt %s --select-schedule=chip=sm_72 2>&1 | FileCheck %s --check-prefix=SM72
// RUN: not weft-opt %s --select-schedule=chip=sm_99 2>&1 | FileCheck %s --check-prefix=SM99
// RUN: not weft-opt %s --select-schedule=group=4 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not weft-opt %s --select-schedule=rows=odd 2>&1 | FileCheck %s --check-prefix=ROWS

// SM72: select_schedule_invalid.mlir:{{[0-9]+}}:3: error: 'tile.matmul' op mma.sync needs sm_75 or later: sm_72 has no mma.sync.aligned.m16n8k8
// SM99: target must be a known chip (sm_70,
// OPTION: pass 'select-schedule' has no option 'group': its options are chip, rows
// ROWS: --select-schedule: rows must be aligned or any, got 'odd'
func.func @schedule_for_another_chip(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op shared memory must be at most 101376 bytes on sm_86, got 147456 (3 stages of 49152)}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warps = array<i64: 2, 4>, stages = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @inputs_for_another_chip(%f: memref<?x?xf8E4M3FN>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op has no schedule for sm_86 that multiplies f8E4M3FN and f8E4M3FN: it needs sm_89 or later, or A and B of f16}}
  "tile.matmul"(%f, %f, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_for_another_chip(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op schedule must have a legal instruction: wgmma.mma_async needs sm_90a}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @c_for_another_chip(%a: memref<?x?xf16>, %c: memref<?x?xf8E5M2>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op needs sm_89 or later to load f8E5M2 in its epilogue, got sm_86: use f16}}
  "tile.matmul"(%a, %a, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf8E5M2>) -> ()
  return
}

// -----

func.func @c_is_not_read(%a: memref<?x?xf16>, %c: memref<?x?xf8E5M2>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %a, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf8E5M2>) -> ()
  return
}
