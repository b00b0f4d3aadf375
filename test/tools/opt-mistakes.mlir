// Each mistake of a user is one message and exit status 1, and writes nothing.

// RUN: rm -rf %t && mkdir %t
// RUN: not weft-opt %t/none.mlir 2> %t/log
// RUN: not weft-opt %t 2>> %t/log
// RUN: not weft-opt %s one.mlir two.mlir 2>> %t/log
// RUN: not weft-opt %s --no-such-pass 2>> %t/log
// RUN: not weft-opt %s --cse --pass-pipeline=cse 2>> %t/log
// RUN: not weft-opt %s --select-schedule=arch=sm_80 2>> %t/log
// RUN: not weft-opt %s '--select-schedule{chip=sm_90a rows=any}' 2>> %t/log
// RUN: not weft-opt %s '--select-schedule={chip=sm_90a}' 2>> %t/log
// RUN: not weft-opt %s '--cse{}' 2>> %t/log
// RUN: not weft-opt %s --select-schedule=chip=sm_90a,rows=any 2>> %t/log
// RUN: not weft-opt %s --pass-pipeline='weft-kernel{chip=sm_90a,rows=any}' 2>> %t/log
// RUN: not weft-opt %s --cse=fast=1 2>> %t/log
// RUN: not weft-opt %s --pass-pipeline='func.func(cse' 2>> %t/log
// RUN: not weft-opt %s --mlir-timing=perhaps 2>> %t/log
// RUN: not weft-opt %s -o 2>> %t/log
// RUN: not weft-opt %s -o %t/none/out.mlir 2>> %t/log
// RUN: not weft-opt %s -o %t 2>> %t/log
// RUN: not weft-opt %s --select-schedule=chip=sm_99 -o %t/out.mlir 2>> %t/log
// RUN: not weft-opt %s --outline-matmul -o %t/out.mlir 2>> %t/log
// RUN: not weft-opt - < %S/Inputs/broken.txt 2>> %t/log
// RUN: FileCheck %s < %t/log
// RUN: not cat %t/out.mlir

// CHECK:      weft-opt: error: cannot read '{{.*}}none.mlir': No such file or directory
// CHECK-NEXT: weft-opt: error: cannot read '{{.*}}': Is a directory
// CHECK-NEXT: weft-opt: error: there must be one input file; got '{{.*}}opt-mistakes.mlir' and 'one.mlir'
// CHECK-NEXT: weft-opt: error: --no-such-pass is no option and no pass; --list-passes shows Weft's
// CHECK-NEXT: weft-opt: error: --pass-pipeline and the flag --cse both select passes: use one of them
// CHECK-NEXT: weft-opt: error: pass 'select-schedule' has no option 'arch': its options are chip
// CHECK-NEXT: weft-opt: error: braces are for --pass-pipeline; the options of a flag follow '=': '--select-schedule=chip=sm_90a rows=any'
// CHECK-NEXT: weft-opt: error: braces are for --pass-pipeline; the options of a flag follow '=': '--select-schedule=chip=sm_90a'
// CHECK-NEXT: weft-opt: error: braces are for --pass-pipeline; the options of a flag follow '=': '--cse'
// CHECK-NEXT: weft-opt: error: pass options 'chip=sm_90a,rows=any' must have spaces between them: write 'chip=sm_90a rows=any'
// CHECK-NEXT: weft-opt: error: pass options 'chip=sm_90a,rows=any' must have spaces between them: write 'chip=sm_90a rows=any'
// CHECK-NEXT: weft-opt: error: pass 'cse' has no option 'fast'
// CHECK-NEXT: weft-opt: error: pass pipeline, column 10: this parenthesis is not closed
// CHECK-NEXT:   func.func(cse
// CHECK-NEXT:            ^
// CHECK-NEXT: weft-opt: error: --{{.*}} must be true or false, got 'perhaps'
// CHECK-NEXT: weft-opt: error: argument -o: expected one argument
// CHECK-NEXT: weft-opt: error: cannot write '{{.*}}out.mlir': No such file or directory
// CHECK-NEXT: weft-opt: error: cannot write '{{.*}}': Is a directory
// CHECK-NEXT: error: target must be a known chip (sm_70,
// CHECK-NEXT: opt-mistakes.mlir:[[# @LINE + 11]]:3: error: 'tile.matmul' op must have a schedule: run --select-schedule
// CHECK-NEXT:   "tile.matmul"(%A, %B, %D)
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: <stdin>:2:10: error: use of value '%a' expects different type
// CHECK-NEXT:   return %a : i64
// CHECK-NEXT: {{^}}         ^
// CHECK-NEXT: <stdin>:1:14: note: prior use here
// CHECK-NEXT: func.func @f(%a: i32) {
// CHECK-NEXT: {{^}}             ^

func.func @matmul(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
