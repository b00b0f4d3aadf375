// In a module with host code, Weft's passes and pipelines rewrite the gpu.modules alone, at any depth.

// RUN: weft-opt %s --weft-to-instructions --weft-to-llvm | FileCheck %s --check-prefixes=CHECK,LLVM
// RUN: weft-opt %s --lower-math --lower-wgmma | FileCheck %s --check-prefixes=CHECK,MATH
// Upstream's passes by their own flags still see everything.
// RUN: weft-opt %s --weft-to-instructions --canonicalize | FileCheck %s --check-prefix=CANONICAL

// A kernel is compiled without what is beside it.
// RUN: weft compile %s --arch sm_90a --kernel fences | FileCheck %s --check-prefix=PTX
// RUN: not weft compile %s --arch sm_90a 2>&1 | FileCheck %s --check-prefix=SEVERAL
// PTX:     .entry fences(
// PTX:     wgmma.fence.sync.aligned
// PTX-NOT: exponential
// SEVERAL: error: the file has several kernels: select one with --kernel: exponential, empty, fences

// CHECK-LABEL: func.func @main
// CHECK:       scf.for
// CHECK-NEXT:    math.exp
// CHECK-NEXT:    memref.store
// CHECK-NEXT:    arith.constant 3 : index
// CHECK:       arith.truncf
// CHECK:       gpu.launch_func  @first::@exponential
// CANONICAL-LABEL: func.func @main
// CANONICAL-NOT: arith.constant 3 : index
module attributes {gpu.container_module} {
  func.func @main(%m: memref<4xf32>, %x: f32) -> f16 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c0 to %c4 step %c1 {
      %y = math.exp %x : f32
      memref.store %y, %m[%i] : memref<4xf32>
      %unused = arith.constant 3 : index
    }
    %z = arith.truncf %x : f32 to f16
    gpu.launch_func @first::@exponential blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1) args(%m : memref<4xf32>)
    return %z : f16
  }

  // CHECK-LABEL: gpu.module @first
  // LLVM:          llvm.func @exponential
  // LLVM:          llvm.func @empty
  // MATH:          gpu.func @exponential
  // MATH-NOT:      math.exp
  gpu.module @first {
    gpu.func @exponential(%m: memref<4xf32>) kernel {
      %i = gpu.thread_id x
      %x = memref.load %m[%i] : memref<4xf32>
      %y = math.exp %x : f32
      memref.store %y, %m[%i] : memref<4xf32>
      gpu.return
    }
    gpu.func @empty() kernel {
      gpu.return
    }
  }

  // CHECK-LABEL: module @inner
  // CHECK-NEXT:    gpu.module @second [#nvvm.target<chip = "sm_90a">]
  // LLVM-NEXT:       llvm.func @fences
  // CHECK:             llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"
  module @inner {
    gpu.module @second [#nvvm.target<chip = "sm_90a">] {
      gpu.func @fences() kernel {
        "wgmma.fence"() : () -> ()
        gpu.return
      }
    }
    // CHECK:       func.func @beside
    // CHECK-NEXT:    math.exp
    func.func @beside(%x: f32) -> f32 {
      %y = math.exp %x : f32
      return %y : f32
    }
  }
}
