// weft lint of MLIR: each operation of Weft's is judged by its table, on the chip of its module or on --arch.

// RUN: not weft lint %s | FileCheck %s
// RUN: not weft lint - < %s | FileCheck %s
// RUN: not weft lint %s --arch sm_90a --json | FileCheck %s --check-prefix=JSON
// RUN: not weft lint %s --arch sm_72 | FileCheck %s --check-prefix=OLD

gpu.module @turing [#nvvm.target<chip = "sm_75">] {
  gpu.func @ampere(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK: {{lint-mlir.mlir|<stdin>}}:[[# @LINE + 1]]:10: error: 'mma.sync' op needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k16
    %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    // JSON: {"line": [[# @LINE - 1]], "instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "legal": true, "rule": null, "reason": null, "nearest": []}
    gpu.return
  }
  gpu.func @unknown_shape(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK-NEXT: :[[# @LINE + 1]]:10: error: 'mma.sync' op shape must be one of m8n8k4, m16n8k8, m8n8k16, m8n8k32, m8n8k128 on sm_75, got m16n8k4
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k4", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    // JSON-NEXT: {"line": [[# @LINE - 1]], "instruction": "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32", "legal": false, "rule": "shape"
    // JSON-SAME: "nearest": ["mma.sync.aligned.
    gpu.return
  }
  gpu.func @missing_register(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK-NEXT: :[[# @LINE + 1]]:10: error: 'mma.sync' op expects 4 C registers of f32, got 3 of f32
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 3>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    // JSON-NEXT: {"line": [[# @LINE - 1]], "instruction": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "legal": false, "rule": "operands"
    gpu.return
  }
}
// CHECK-NEXT: 3 instructions, 3 illegal on the chips of its modules
// OLD: 3 instructions, 3 illegal on sm_72

// What isn't MLIR, and an operation that lacks what it must have, can't be judged.
// RUN: echo '"mma.sync"() : () -> ()' > %t.mlir
// RUN: not weft lint %t.mlir --json 2>&1 | FileCheck %s --check-prefix=BROKEN
// BROKEN: error: 'mma.sync' op expects

// Whole warps execute these instructions: no pass may move one into a branch of some lanes, as upstream's does with
// operations that access no memory.
// RUN: weft-opt %S/Inputs/lint-movmatrix.mlir --control-flow-sink > %t.sunk.mlir
// RUN: weft lint %S/Inputs/lint-movmatrix.mlir --arch sm_80
// RUN: not weft lint %t.sunk.mlir --arch sm_80 | FileCheck %s --check-prefix=SUNK
// RUN: not weft compile %t.sunk.mlir --arch sm_80 -o %t.ptx 2>&1 | FileCheck %s --check-prefix=SUNK
// SUNK: error: 'mma.movmatrix' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane
