// weft lint of upstream's operations: they are judged as what they become; one that becomes nothing is a finding too.

// RUN: not weft lint %s --arch sm_90a | FileCheck %s
// RUN: not weft lint %s --arch sm_90a --json | FileCheck %s --check-prefix=JSON

llvm.func @no_constant(%i: i32, %selector: i32, %f: f32) {
  // CHECK: lint-nvvm.mlir:[[# @LINE + 2]]:8: error: 'nvvm.mma.sp.sync' op expects selector to be a constant
  // JSON: {"line": [[# @LINE + 1]], "instruction": "nvvm.mma.sp.sync", "legal": false, "rule": "operands", "reason": "expects selector to be a constant
  %0 = nvvm.mma.sp.sync A[%i, %i] B[%i, %i] C[%f, %f, %f, %f] sparseMetadata[%i] selector[%selector] {multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

llvm.func @fence() {
  // JSON-NEXT: {"line": [[# @LINE + 1]], "instruction": "wgmma.fence.sync.aligned", "legal": true
  nvvm.wgmma.fence.aligned
  llvm.return
}
// CHECK-NEXT: 2 instructions, 1 illegal on sm_90a
