// What --verify-diagnostics says where announcements and diagnostics differ.

// RUN: not weft-opt %s --split-input-file --verify-diagnostics 2>&1 | FileCheck %s

// CHECK:      fails.mlir:[[# @LINE + 2]]:4: error: expected error "nobody says this" was not produced
// CHECK-NEXT: // {{expected}}-error
// expected-error@below {{nobody says this}}
func.func @fine() {
  return
}

// -----

func.func @unannounced(%a: i32) {
  // CHECK: fails.mlir:[[# @LINE + 1]]:3: error: unexpected error: 'tile.matmul' op expects A to be a memref
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> ()
  return
}

// -----

// CHECK: fails.mlir:[[# @LINE + 3]]:10: error: unexpected error: use of value '%a'
// CHECK: fails.mlir:[[# @LINE + 3]]:6: error: expected error "use of value" was not produced
func.func @other_line(%a: i32) {
  return %a : i64
  // expected-error {{use of value}}
}
// CHECK-NOT: error:
