// RUN: weft-opt %s --record-arguments | FileCheck %s

gpu.module @m {
  // CHECK: gpu.func @kernel
  // CHECK-SAME: weft.arguments = [memref<?x4xf16>, i32, !llvm.ptr]
  gpu.func @kernel(%a: memref<?x4xf16>, %n: i32, %p: !llvm.ptr) kernel {
    gpu.return
  }

  // CHECK: gpu.func @function
  // CHECK-NOT: weft.arguments
  gpu.func @function(%a: memref<?x4xf16>) {
    gpu.return
  }
}
