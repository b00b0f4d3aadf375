// --mlir-pass-pipeline-crash-reproducer writes the input and the pipeline where a pass fails; --run-reproducer runs
// that file.

// RUN: rm -rf %t && mkdir %t
// RUN: not weft-opt %s --cse --outline-matmul -mlir-pass-pipeline-crash-reproducer=%t/out.mlir 2>&1 \
// RUN:   | FileCheck %s
// CHECK:      opt-reproducer.mlir:[[# @LINE + 41]]:3: error: 'tile.matmul' op must have a schedule
// CHECK:      note: reproducer generated at '{{.*}}out.mlir'

// RUN: FileCheck %s --check-prefix=FILE < %t/out.mlir
// FILE:      "tile.matmul"
// FILE:      {-#
// FILE-NEXT:   external_resources: {
// FILE-NEXT:     mlir_reproducer: {
// FILE-NEXT:       pipeline: "builtin.module(cse,outline-matmul)",
// FILE-NEXT:       disable_threading: true,
// FILE-NEXT:       verify_each: true
// FILE-NEXT:     }
// FILE-NEXT:   }
// FILE-NEXT: #-}

// RUN: not weft-opt --run-reproducer %t/out.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: out.mlir:3:5: error: 'tile.matmul' op must have a schedule

// A pipeline as MLIR prints it, and one with an escape that MLIR doesn't have.
// RUN: sed 's/builtin.module(cse,outline-matmul)/builtin\\2Emodule(cse)/' %t/out.mlir | weft-opt --run-reproducer
// RUN: sed 's/builtin.module(cse/builtin\\qmodule(cse/' %t/out.mlir | not weft-opt --run-reproducer 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ESCAPE
// ESCAPE: error: mlir_reproducer: an escape in the pipeline must be \n, \t, \", \\ or two hexadecimal digits; got '\q'

// A reproducer that can't be written hides no error.
// RUN: not weft-opt %s --cse --outline-matmul -mlir-pass-pipeline-crash-reproducer=/dev/full 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FULL
// FULL: error: 'tile.matmul' op must have a schedule
// FULL: error: cannot write '/dev/full': No space left on device

// RUN: weft-opt %s --cse -mlir-pass-pipeline-crash-reproducer=%t/none.mlir -o %t/ok.mlir && not cat %t/none.mlir

// RUN: not weft-opt %s --cse --mlir-pass-pipeline-crash-reproducer=%t/none/out.mlir 2>%t/log
// RUN: not weft-opt %s --run-reproducer 2>>%t/log
// RUN: not weft-opt %t/out.mlir --run-reproducer --cse 2>>%t/log
// RUN: FileCheck %s --check-prefix=MISTAKE < %t/log
// MISTAKE:      error: cannot write '{{.*}}out.mlir': No such file or directory
// MISTAKE-NEXT: error: --run-reproducer needs a file with 'mlir_reproducer' resources; {{.*}}opt-reproducer.mlir has none
// MISTAKE-NEXT: error: --run-reproducer runs the file's own pipeline: leave out passes and --pass-pipeline

func.func @matmul(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
