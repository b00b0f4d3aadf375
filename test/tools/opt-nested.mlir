// Weft's passes run on the operations that a pipeline nests them in, beside upstream's, and leave others alone.

// RUN: weft-opt %s --pass-pipeline='builtin.module(gpu.module(lower-mma,canonicalize),func.func(cse))' | FileCheck %s
// RUN: not weft-opt %s --pass-pipeline='gpu.module(lower-mma,no-such)' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: 'no-such' does not refer to a registered pass

// CHECK-LABEL: gpu.func @kernel
// CHECK:       movmatrix.sync.aligned.m8n8.trans.b16
// CHECK-LABEL: func.func @host
// CHECK-NEXT:  "mma.movmatrix"
// CHECK-NEXT:  arith.addi
// CHECK-NEXT:  return
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @kernel(%a: i32, %p: !llvm.ptr<3>) kernel {
    %0 = "mma.movmatrix"(%a) : (i32) -> i32
    llvm.store %0, %p : i32, !llvm.ptr<3>
    gpu.return
  }
}
func.func @host(%a: i32) -> i32 {
  %0 = "mma.movmatrix"(%a) : (i32) -> i32
  %1 = "mma.movmatrix"(%a) : (i32) -> i32
  %2 = arith.addi %0, %1 : i32
  return %2 : i32
}
