// RUN: weft-opt %s --weft-kernel=chip=sm_80 | FileCheck %s --check-prefix=KERNEL
// RUN: weft-opt %s --weft-kernel --weft-to-instructions | FileCheck %s --check-prefix=INSTRUCTIONS
// RUN: weft-opt %s --weft-kernel --weft-to-instructions --weft-to-llvm | FileCheck %s --check-prefix=LLVM
// RUN: weft-opt %s --weft=chip=sm_80 | weft-opt | FileCheck %s --check-prefix=LLVM
// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90},outline-matmul,cse)" | FileCheck %s --check-prefix=TEXT
// RUN: not weft-opt %s --weft=chips=sm_80 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not weft-opt %s --pass-pipeline="weft,nonsense" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not weft-opt %s --pass-pipeline="weft{chip=sm_80" 2>&1 | FileCheck %s --check-prefix=BRACE
// RUN: not weft-opt %s --pass-pipeline="gpu.module(cse" 2>&1 | FileCheck %s --check-prefix=PARENTHESIS
// RUN: not weft-opt %s --pass-pipeline="cse,,cse" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: weft-opt %s --pass-pipeline="builtin.module()" | FileCheck %s --check-prefix=NOTHING
// RUN: not weft-opt %s --pass-pipeline="weft{chip}" 2>&1 | FileCheck %s --check-prefix=VALUE

// OPTION: pipeline 'weft' has no option 'chips': its options are chip
// UNKNOWN: nonsense
// BRACE: pass pipeline, column 5: this brace is not closed
// PARENTHESIS: pass pipeline, column 11: this parenthesis is not closed
// EMPTY: pass pipeline, column 5: expected the name of a pass
// VALUE: pass option 'chip' has no value: write chip=VALUE

// NOTHING: tile.matmul

// KERNEL: gpu.func @small
// KERNEL: "tile.copy_async"
// KERNEL: "tile.gemm"
// KERNEL-NOT: tile.matmul

// INSTRUCTIONS-NOT: tile.
// INSTRUCTIONS: nvvm.cp.async.shared.global
// INSTRUCTIONS-NOT: tile.
// INSTRUCTIONS: "mma.ldmatrix"
// INSTRUCTIONS-NOT: tile.
// INSTRUCTIONS: "mma.sync"
// INSTRUCTIONS-NOT: tile.

// LLVM: gpu.module @small
// LLVM: llvm.func @small
// LLVM-SAME: nvvm.kernel
// LLVM-NOT: {{(mma|tile|scf|arith|vector|memref)\.[a-z]}}
// LLVM: llvm.call_intrinsic "llvm.nvvm.ldmatrix
// LLVM: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"

// TEXT: gpu.func @small
// TEXT: "tile.matmul"
func.func @small(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}
