// Every form of an announced diagnostic, in a split file whose later parts have places that count from its top.

// RUN: weft-opt %s --split-input-file --verify-diagnostics
// RUN: weft-opt --split-input-file --verify-diagnostics < %s
// RUN: not weft-opt %s --split-input-file 2>&1 | FileCheck %s
// CHECK:      opt-verify-diagnostics.mlir:[[# @LINE + 6]]:3: error: 'tile.matmul' op expects A to be a memref, got i32
// CHECK-NEXT:   "tile.matmul"(%a, %a, %a) {operandSegmentSizes
// CHECK-NEXT: {{^}}  ^

func.func @below(%a: i32) {
  // expected-error@+1 {{expects A to be a memref}}
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> ()
  return
}

// -----

// CHECK: opt-verify-diagnostics.mlir:[[# @LINE + 2]]:3: error: 'tile.matmul' op expects A
func.func @above(%a: i32) {
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> ()
  // expected-error @above {{'tile.matmul' op expects A}}
  return
}

// -----

func.func @note(%a: i32) { // expected-note {{prior use here}}
  // expected-error@below {{different type than prior uses}}
  return %a : i64
}

// -----

func.func @regex(%a: i32) {
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> () // expected-error-re {{got {{i[0-9]+}}}}
  return
}

// -----

// The verifier goes on to the next function after an error.
func.func @offset(%a: i32) {
  // expected-error@+1 {{'tile.matmul' op}}
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> ()
  return
}
func.func @back(%a: i32) {
  "tile.matmul"(%a, %a, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (i32, i32, i32) -> ()
  // expected-error @-1 {{'tile.matmul' op}}
  return
}
