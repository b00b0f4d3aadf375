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

// One pass alone: --mlir-print-ir-before and -after, or without "mlir-".
// RUN: weft-opt %s --cse --canonicalize --mlir-print-ir-before=canonicalize 2>&1 >%t | FileCheck %s --check-prefix=BEFORE-ONE
// BEFORE-ONE-NOT: CSE
// BEFORE-ONE:     IR Dump Before Canonicalizer
// BEFORE-ONE-NOT: IR Dump
// RUN: weft-opt %s --cse --select-schedule --canonicalize --print-ir-after=cse,select-schedule 2>&1 >%t | FileCheck %s --check-prefix=AFTER-TWO
// AFTER-TWO:     IR Dump After CSE
// AFTER-TWO:     IR Dump After select-schedule
// AFTER-TWO-NOT: IR Dump
// RUN: weft compile %examples/matmul.mlir --arch sm_80 --print-ir-after=lower-gemm 2>&1 >%t | FileCheck %s --check-prefix=COMPILE
// COMPILE:     IR Dump After lower-gemm
// COMPILE:     "mma.sync"
// COMPILE-NOT: IR Dump
// RUN: not weft-opt %s --cse --print-ir-after=csee 2>%t
// RUN: not weft-opt %s --cse --canonicalize --print-ir-before=lower-gemm 2>>%t
// RUN: not weft-opt %s --cse --print-ir-after= 2>>%t
// RUN: not weft-opt %s --print-ir-after=raise-linalg 2>>%t
// RUN: FileCheck %s --check-prefix=NO-PASS < %t
// NO-PASS:      error: --mlir-print-ir-after: no pass 'csee' runs; did you mean 'cse'?
// NO-PASS-NEXT: error: --mlir-print-ir-before: no pass 'lower-gemm' runs; those that run are cse, canonicalize
// NO-PASS-NEXT: error: --mlir-print-ir-after must be names of passes with ',' between them; got ''
// NO-PASS-NEXT: error: --mlir-print-ir-after: no pass 'raise-linalg' runs: add --raise-linalg

// The pipeline, which runs.
// RUN: weft-opt %s --weft-kernel=chip=sm_90a --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=DUMP
// DUMP:      Pass Manager with 6 passes:
// DUMP-NEXT: builtin.module(outline-linalg,select-schedule{chip=sm_90a rows=aligned},outline-matmul,expand-matmul{chip=sm_90a},canonicalize{top-down=false},cse)
// DUMP:      func.func @twice
// RUN: weft compile %examples/matmul.mlir --arch sm_80 --dump-pass-pipeline 2>&1 >%t | FileCheck %s --check-prefix=DUMP-ALL
// DUMP-ALL: Pass Manager with
// DUMP-ALL: lower-gemm,
// DUMP-ALL: Pass Manager with

// RUN: weft-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// DIALECTS: Available Dialects: acc,{{.*}},mma,{{.*}},tcgen05,tensor,tile,{{.*}},wgmma,wmma,

// RUN: weft-opt %s --cse --mlir-timing 2>&1 >%t | FileCheck %s --check-prefix=TIMING
// TIMING:     Execution time report
// TIMING-NOT: Execution time report
// TIMING:     CSEPass
// TIMING-NOT: Execution time report

func.func @twice() -> (i32, i32) {
  %0 = arith.constant 7 : i32
  %1 = arith.constant 7 : i32
  return %0, %1 : i32, i32
}

gpu.module @m {
}
