// Bytecode is written and read, in files and pipes, by weft-opt and by weft.
// RUN: weft-opt %s --emit-bytecode -o %t.mlirbc
// RUN: weft-opt %t.mlirbc --select-schedule | FileCheck %s
// RUN: weft-opt --emit-bytecode < %s | weft-opt --select-schedule | FileCheck %s
// CHECK: func.func @product
// CHECK: "tile.matmul"({{.*}}schedule =
// RUN: weft run %t.mlirbc --on emulator --arch sm_80 | FileCheck %s --check-prefix=RAN
// RAN: PASS

// Locations are those of the text.
// RUN: not weft-opt %t.mlirbc --outline-matmul 2>&1 | FileCheck %s --check-prefix=LOCATED
// LOCATED: opt-bytecode.mlir:[[# @LINE + 10]]:3: error: 'tile.matmul' op must have a schedule

// RUN: not weft-opt %s --emit-bytecode --split-input-file 2>&1 | FileCheck %s --check-prefix=SPLIT
// SPLIT: weft-opt: error: --emit-bytecode writes one module: leave out --split-input-file

// RUN: head -c 60 %t.mlirbc > %t.cut
// RUN: not weft-opt %t.cut 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: error: {{.+}}

func.func @product(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %d: memref<16x16xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<16x16xf16>, memref<16x16xf16>, memref<16x16xf32>) -> ()
  return
}
