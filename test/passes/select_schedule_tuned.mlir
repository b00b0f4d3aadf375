// RUN: env WEFT_SCHEDULES=%S/Inputs/schedules.jsonl weft-opt %s --select-schedule=chip=sm_90a 2>&1 | FileCheck %s
// RUN: weft-opt %s --select-schedule=chip=sm_90a | FileCheck %s --check-prefix=MODEL

// CHECK: weft-opt: warning: {{.*}}schedules.jsonl:3: ignored: an entry must be JSON: Expecting value in column 1
// CHECK: weft-opt: warning: {{.*}}schedules.jsonl:2: ignored: stages must be at least 2, got 1

// A schedule that was tuned for a product of these types, N and K, and about as many rows, is taken.
// CHECK-LABEL: @tuned(
// CHECK: schedule = {block = array<i64: 64, 24, 64>,
// MODEL-LABEL: @tuned(
// MODEL-NOT: array<i64: 64, 24, 64>
// MODEL: return
func.func @tuned(%a: memref<60x256xbf16>, %b: memref<512x256xbf16>, %d: memref<60x512xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<60x256xbf16>, memref<512x256xbf16>, memref<60x512xf32>) -> ()
  return
}

// The entry of this one can't be used.
// CHECK-LABEL: @entry_that_is_not_legal(
// CHECK-NOT: array<i64: 64, 24, 64>
// CHECK: return
func.func @entry_that_is_not_legal(%a: memref<512x256xbf16>, %d: memref<512x512xf32>) {
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<512x256xbf16>, memref<512x256xbf16>, memref<512x512xf32>) -> ()
  return
}
