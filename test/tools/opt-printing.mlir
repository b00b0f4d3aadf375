// IR between passes and times go to stderr.

// RUN: weft-opt %s --cse --canonicalize --mlir-print-ir-before-all 2>&1 >%t | FileCheck %s --check-prefix=BEFORE
// BEFORE:     IR Dump Before CSE
// BEFORE-NEXT: module
// BEFORE:     IR Dump Before Canonicalizer

// RUN: weft-opt %s --cse --canonicalize --mlir-print-ir-after-all 2>&1 >%t | FileCheck %s --check-prefix=AFTER
// AFTER-NOT: Before
// AFTER:     IR Dump After CSE
// AFTER:     IR Dump After Canonicalizer

// RUN: weft-opt %s --cse --cse --mlir-print-ir-after-change 2>&1 >%t | FileCheck %s --check-prefix=CHANGE
// CHANGE:     IR Dump After CSE
// CHANGE-NOT: IR Dump

// RUN: not weft-opt %s --cse --transform-interpreter --mlir-print-ir-after-failure 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FAILURE
// FAILURE-NOT: IR Dump After CSE
// FAILURE:     IR Dump After InterpreterPass Failed

// RUN: weft-opt %s --pass-pipeline='func.func(cse)' --mlir-print-ir-after-all --mlir-print-ir-module-scope 2>&1 >%t \
// RUN:   | FileCheck %s --check-prefix=SCOPE
// SCOPE:      IR Dump After CSE{{.*}}'func.func' operation: @twice
// SCOPE-NEXT: module

// RUN: weft-opt %s --cse --mlir-timing 2>&1 >%t | FileCheck %s --check-prefix=TIMING
// TIMING:     Execution time report
// TIMING:     CSEPass
// TIMING-NOT: Execution time report

func.func @twice() -> (i32, i32) {
  %0 = arith.constant 7 : i32
  %1 = arith.constant 7 : i32
  return %0, %1 : i32, i32
}

gpu.module @m {
}
