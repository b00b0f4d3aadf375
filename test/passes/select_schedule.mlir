// RUN: weft-opt %s --select-schedule=chip=sm_80 | FileCheck %s
// RUN: weft-opt %s --select-schedule=chip=sm_86 | FileCheck %s --check-prefix=SM86
// RUN: weft-opt %s --select-schedule | FileCheck %s
// RUN: weft-opt %s --select-schedule=chip=sm_90 | FileCheck %s --check-prefix=SM90
// RUN: weft-opt %s --select-schedule=chip=sm_90a | FileCheck %s --check-prefix=SM90A
// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90a rows=any})" | FileCheck %s --check-prefix=ANY

// wgmma is of sm_90a alone. For rows of any alignment there is mma.sync, on that chip too.

// CHECK-LABEL: @unknown_sizes
// SM86-LABEL: @unknown_sizes
// SM90-LABEL: @unknown_sizes
// SM90A-LABEL: @unknown_sizes
// ANY-LABEL: @unknown_sizes
func.func @unknown_sizes(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // CHECK: "tile.matmul"
  // CHECK-SAME: schedule = {block = array<i64: 128, {{[0-9]+, [0-9]+}}>, group = {{.*}}, stages = {{.*}}, warps = {{.*}}}
  // SM86: schedule = {block = array<i64: 128, {{[0-9]+, [0-9]+}}>, group = {{.*}}, stages = {{.*}}, warps = {{.*}}}
  // SM90: schedule = {block = array<i64: {{.*}}>, {{.*}}warps = array<i64: {{.*}}>}
  // SM90A: schedule = {block = array<i64: {{.*}}>, {{.*}}warpgroups = {{[1-3]}} : i64
  // ANY: schedule = {block = array<i64: {{.*}}>, {{.*}}warps = array<i64: {{.*}}>}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// CHECK-LABEL: @small_sizes
func.func @small_sizes(%a: memref<?x?xf16>, %b: memref<?x64xf16>, %d: memref<100x?xf32>) {
  // CHECK: block = array<i64: 64, 32, {{[0-9]+}}>
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x64xf16>, memref<100x?xf32>) -> ()
  return
}

// N is B's rows where B is transposed.
// CHECK-LABEL: @small_transposed
func.func @small_transposed(%a: memref<512x32xf16>, %b: memref<64x?xf16>, %d: memref<?x?xf32>) {
  // CHECK: block = array<i64: 64, 32, {{[0-9]+}}>
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<512x32xf16>, memref<64x?xf16>, memref<?x?xf32>) -> ()
  return
}

// CHECK-LABEL: @own_schedule
// SM86-LABEL: @own_schedule
// SM90A-LABEL: @own_schedule
// ANY-LABEL: @own_schedule
func.func @own_schedule(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // CHECK: schedule = {block = array<i64: 64, 32, 32>, stages = 4 : i64, warps = array<i64: 4, 1>}
  // SM86: schedule = {block = array<i64: 64, 32, 32>, stages = 4 : i64, warps = array<i64: 4, 1>}
  // SM90A: schedule = {block = array<i64: 64, 32, 32>, stages = 4 : i64, warps = array<i64: 4, 1>}
  // ANY: schedule = {block = array<i64: 64, 32, 32>, stages = 4 : i64, warps = array<i64: 4, 1>}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 32, 32>, warps = array<i64: 4, 1>, stages = 4}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}
