// RUN: weft-opt %s --select-schedule=chip=sm_90a | FileCheck %s
// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90a rows=any})" | FileCheck %s --check-prefix=ANY

// A schedule with warpgroups is kept where rows are aligned as TMA wants them, else replaced.
// CHECK-LABEL: @own_schedule
// ANY-LABEL: @own_schedule
func.func @own_schedule(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // CHECK: schedule = {block = array<i64: 64, 64, 64>, splits = 2 : i64, stages = 4 : i64, warpgroups = 1 : i64}
  // ANY: schedule = {block = array<i64: {{.*}}>, {{.*}}warps = array<i64: {{.*}}>}
  // ANY-NOT: warpgroups
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4, splits = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}
