// Parts of a split file are modules of their own; one that fails keeps the others from being written.

// RUN: weft-opt %s --split-input-file | FileCheck %s
// RUN: not weft-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: opt-split.mlir:[[# @LINE + 10]]:1: error: redefinition of symbol named 'f'

// CHECK:      module {
// CHECK:        func.func @f()
// CHECK:      // -----
// CHECK-NEXT: module {
// CHECK:        func.func @f()
func.func @f() { return }

// -----
func.func @f() { return }

// RUN: not weft-opt %s --split-input-file --lower-gemm --select-schedule=chip=sm_80 --allow-unregistered-dialect=0 --outline-matmul --foo -o %t.out 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: weft-opt: error: --foo is no option and no pass; --list-passes shows Weft's
// RUN: not cat %t.out
