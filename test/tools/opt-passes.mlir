// Passes run in the order of their flags, Weft's, upstream's and named pipelines alike.

// RUN: weft-opt %s --select-schedule=chip=sm_80 --outline-matmul -cse | FileCheck %s --check-prefix=FLAGS
// FLAGS:     gpu.func @matmul
// FLAGS:       tile.matmul
// FLAGS-NOT: tile.stage
// FLAGS:       arith.constant 7
// FLAGS-NOT:   arith.constant 7

// RUN: weft-opt %s --pass-pipeline='builtin.module(select-schedule{chip=sm_80},outline-matmul,func.func(cse))' \
// RUN:   | FileCheck %s --check-prefix=FLAGS
// RUN: weft-opt %s --pass-pipeline 'select-schedule,outline-matmul,cse' | FileCheck %s --check-prefix=FLAGS

// A flag's pass is nested below the operation that it wants, as mlir-opt nests it.
// RUN: weft-opt %s --weft-kernel=chip=sm_90a --convert-gpu-to-nvvm='index-bitwidth=32' \
// RUN:   | FileCheck %s --check-prefix=NESTED
// NESTED: tile.alloc

// RUN: weft-opt %s --weft-kernel --weft-to-instructions | FileCheck %s --check-prefix=INSTRUCTIONS
// INSTRUCTIONS: mma.sync
// RUN: weft-opt %s --weft="chip=sm_80" | FileCheck %s --check-prefix=LLVM
// LLVM: llvm.call_intrinsic "llvm.nvvm.mma

func.func @matmul(%A: memref<16x32xbf16>, %B: memref<16x32xbf16>, %D: memref<16x16xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<16x32xbf16>, memref<16x32xbf16>, memref<16x16xf32>) -> ()
  return
}

func.func @twice() -> (i32, i32) {
  %0 = arith.constant 7 : i32
  %1 = arith.constant 7 : i32
  return %0, %1 : i32, i32
}
