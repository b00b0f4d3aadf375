// RUN: weft-opt %s --select-schedule=chip=sm_90a | FileCheck %s
// RUN: weft-opt %s --select-schedule=chip=sm_89 | FileCheck %s --check-prefix=WARPS
// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90a rows=any})" | FileCheck %s --check-prefix=WARPS

// wgmma where the chip has it and rows are aligned, otherwise mma.sync.
// CHECK-LABEL: @inputs
func.func @inputs(%h: memref<?x?xf16>, %f: memref<?x?xf32>, %e4: memref<?x?xf8E4M3FN>, %e5: memref<?x?xf8E5M2>,
                  %i: memref<?x?xi8>, %d: memref<?x?xf32>, %s: memref<?x?xi32>) {
  // CHECK: warpgroups = {{[1-3]}} : i64
  // WARPS: warps = array<i64:
  // CHECK-SAME: memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>
  "tile.matmul"(%f, %f, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  // CHECK: warpgroups = {{[1-3]}} : i64
  // WARPS: warps = array<i64:
  // CHECK-SAME: memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>
  "tile.matmul"(%e4, %e5, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>, memref<?x?xf32>) -> ()
  // CHECK: warpgroups = {{[1-3]}} : i64
  // WARPS: warps = array<i64:
  // CHECK-SAME: memref<?x?xi8>
  "tile.matmul"(%i, %i, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  // CHECK: warpgroups = {{[1-3]}} : i64
  // WARPS: warps = array<i64:
  // CHECK-SAME: transpose_a = true
  "tile.matmul"(%h, %h, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  // wgmma reads only f16 and bf16 MN-major. mma.sync with TMA reads the others.
  // CHECK: consumers = array<i64: 4, 2>
  // WARPS: warps = array<i64:
  "tile.matmul"(%e4, %e5, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>, memref<?x?xf32>) -> ()
  // CHECK: consumers = array<i64: 2, 4>
  // WARPS: warps = array<i64:
  "tile.matmul"(%f, %f, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true} : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
