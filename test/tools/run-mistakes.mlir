// Each mistake of a user is one message and exit status 1.

// RUN: rm -rf %t && mkdir %t
// RUN: not weft run %examples/matmul.mlir --on emulator --shape 256x256 2> %t/log
// RUN: not weft run %examples/matmul.mlir --on emulator --shape 2000000000x2x2000000000 2>> %t/log
// RUN: not weft run %examples/matmul.mlir --on emulator --seed -1 2>> %t/log
// RUN: not weft run %examples/matmul.mlir --on cpu 2>> %t/log
// RUN: not weft run %s --on emulator --kernel fixed --shape 64x32x16 2>> %t/log
// RUN: not weft run %s --on emulator --kernel unused 2>> %t/log
// RUN: not weft run %s --on emulator --kernel square --shape 32x16x32 2>> %t/log
// RUN: not weft run %s --on emulator --kernel other 2>> %t/log
// RUN: FileCheck %s < %t/log

// CHECK:      weft: error: --shape expects MxNxK, three sizes from 1 to 2**31 - 1 (256x256x64, say), got '256x256'
// CHECK-NEXT: weft: error: checking 2000000000x2x2000000000 takes {{[0-9]+}} GiB of memory, this machine has
// CHECK-NEXT: weft: error: --seed expects a number from 0, got -1
// CHECK-NEXT: weft: error: argument --on: invalid choice: 'cpu'
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 12]]:3: error: 'tile.matmul' op has types that fix K to 48, but --shape says 16
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 14]]:3: error: 'tile.matmul' op leaves argument 2 of its function alone
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: run-mistakes.mlir:[[# @LINE + 16]]:3: error: 'tile.matmul' op has one matrix as A (32x32) and B (32x16)
// CHECK-NEXT:   "tile.matmul"
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: weft: error: {{.*}}run-mistakes.mlir has no tile.matmul: weft run checks a product

func.func @fixed(%A: memref<?x48xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) : (memref<?x48xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @unused(%A: memref<?x?xbf16>, %D: memref<?x?xf32>, %alpha: f32) {
  "tile.matmul"(%A, %A, %D) : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @square(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %A, %D) : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

gpu.module @others {
  gpu.func @other(%a: memref<?xf32>) kernel {
    gpu.return
  }
}
