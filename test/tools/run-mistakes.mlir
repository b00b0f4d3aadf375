// Each mistake of a user is one message and exit status 1.

// RUN: rm -rf %t && mkdir %t
// RUN: not weft run %examples/matmul.mlir --on emulator --shape 256x256 2> %t/log
// RUN: not weft run %examples/matmul.mlir --on emulator --shape "" 2>> %t/log
// RUN: not weft run %examples/matmul.mlir --on emulator --shape 2000000000x2x2000000000 2>> %t/log
// RUN: not weft run %examples/matmul.mlir --on emulator --seed -1 2>> %t/log
// RUN: not weft run %examples/matmul.mlir --on cpu 2>> %t/log
// RUN: not weft run %s --on emulator --kernel fixed --shape 64x32x16 2>> %t/log
// RUN: not weft run %s --on emulator --kernel unused 2>> %t/log
// RUN: not weft run %s --on emulator --kernel square --shape 32x16x32 2>> %t/log
// RUN: not weft run %s --on emulator --kernel other 2>> %t/log
// RUN: not weft run %s --on emulator --kernel other --shape 8x8x8 2>> %t/log
// RUN: not weft run %s --on emulator --kernel apart --shape 40x24x33 2>> %t/log
// RUN: not weft run %s --on emulator --kernel batch --shape 8x8x8 2>> %t/log
// RUN: FileCheck %s < %t/log

// CHECK:      weft: error: --shape expects MxNxK, three sizes from 1 to 2**31 - 1 (256x256x64, say), got '256x256'
// CHECK-NEXT: weft: error: --shape expects MxNxK, three sizes from 1 to 2**31 - 1 (256x256x64, say), got {{''$}}
// CHECK-NEXT: weft: error: checking 2000000000x2x2000000000 needs {{[0-9]+}} GiB of memory, and this machine has
// CHECK-NEXT: weft: error: --seed must be at least 0; got -1
// CHECK-NEXT: weft: error: argument --on: invalid choice: 'cpu'
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 17]]:3: error: 'tile.matmul' op K must be 48, as in its types, got 16 in --shape
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 19]]:3: error: 'tile.matmul' op must use argument 2 of its function with weft run
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 22]]:3: error: 'tile.matmul' op has one matrix as A (32x32) and B (32x16)
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: weft: error: argument 0 of other is memref<?xf32>: give its sizes, --arg 0=random:64, say
// CHECK-NEXT: weft: error: --shape sets the sizes of a tile.matmul, and {{.*}}run-mistakes.mlir has none: use --arg
// CHECK-NEXT: weft: error: checking 40x24x33 needs {{[0-9]+}} GiB of memory, and this machine has
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 34]]:3: error: 'tile.matmul' op must not be a batch unless each argument is given by --arg
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^

func.func @fixed(%A: memref<?x48xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x48xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @unused(%A: memref<?x?xbf16>, %D: memref<?x?xf32>, %alpha: f32) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @square(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @apart(%A: memref<?x?xbf16, strided<[9223372036854775807, 1]>>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xbf16, strided<[9223372036854775807, 1]>>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

gpu.module @others {
  gpu.func @other(%a: memref<?xf32>) kernel {
    gpu.return
  }
}

func.func @batch(%A: memref<?x?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xf32>) -> ()
  return
}
