// A gpu.module becomes a gpu.binary with an object for each chip; the host's lowering goes on from there.

// RUN: weft-opt %s --weft-to-binary=chips=sm_90a,sm_100a | FileCheck %s
// RUN: weft-opt %s --weft-to-binary="format=bin chips=sm_90a" | weft-opt | FileCheck %s --check-prefix=BIN
// RUN: weft-opt %s --weft-to-binary=chips=sm_90a --gpu-to-llvm | FileCheck %s --check-prefix=HOST
// RUN: not weft-opt %s --weft-to-binary 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not weft-opt %s --weft-to-binary=format=sass 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not weft-opt %s --weft-to-binary=chips=sm_80 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not weft-opt %s --weft-to-binary=chips=sm_90b 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not weft-opt %s --pass-pipeline="builtin.module(gpu.module(weft-to-binary{chips=sm_90a}))" 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: error: 'gpu.module' op is replaced by --weft-to-binary, which must run on what holds it
// NONE: weft_to_binary.mlir:{{[0-9]+}}:3: error: 'gpu.module' op has no chip: give it an #nvvm.target, or use --weft-to-binary=chips=sm_90a
// FORMAT: error: pass 'weft-to-binary': format must be isa or bin; got sass
// CHIP: error: 'nvvm.cluster.wait' op is not supported on sm_80
// UNKNOWN: error: target must be a known chip (sm_70,

// CHECK-LABEL: func.func @main
// CHECK:       gpu.launch_func  @kernels::@scale clusters in
// CHECK:       gpu.binary @kernels <#gpu.select_object<1 : i64>> [
// CHECK-SAME:    #gpu.object<#nvvm.target<O = 3, chip = "sm_90a", features = "+ptx84">, properties = {O = 3 : i32},
// CHECK-SAME:      kernels = <[#gpu.kernel_metadata<"scale", !llvm.func<void (ptr, ptr, i64, i64, i64)>,
// CHECK-SAME:        gpu.known_block_size = array<i32: 32, 1, 1>
// CHECK-SAME:        nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK-SAME:        weft.shared_bytes = 256 : i32
// CHECK-SAME:      #gpu.kernel_metadata<"second", !llvm.func<void (i32)>
// CHECK-SAME:      assembly = "
// CHECK-SAME:        .target sm_90a
// CHECK-SAME:        .entry scale(
// CHECK-SAME:        .entry second(
// CHECK-SAME:    #gpu.object<#nvvm.target<O = 3, chip = "sm_100a"
// CHECK-SAME:        .target sm_100a
// CHECK:       module @inner
// CHECK:         gpu.binary @named {{.*}}[#gpu.object<#nvvm.target<O = 1, chip = "sm_90a">, properties = {O = 1 : i32},

// BIN:       gpu.binary @kernels
// BIN-SAME:    bin = "\7FELF

// HOST-LABEL: llvm.func @main
// HOST:       gpu.launch_func @kernels::@scale clusters in
// HOST:       gpu.binary @kernels
module attributes {gpu.container_module} {
  func.func @main(%m: memref<64xf32>) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %bytes = arith.constant 256 : i32
    gpu.launch_func @kernels::@scale clusters in (%c2, %c1, %c1) blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1)
      dynamic_shared_memory_size %bytes args(%m : memref<64xf32>)
    return
  }

  gpu.module @kernels <#gpu.select_object<1 : i64>> {
    gpu.func @scale(%m: memref<64xf32>) kernel attributes {
      known_block_size = array<i32: 32, 1, 1>, nvvm.cluster_dim = array<i32: 2, 1, 1>, weft.shared_bytes = 256 : i32
    } {
      %two = arith.constant 2.0 : f32
      %i = gpu.global_id x
      %x = memref.load %m[%i] : memref<64xf32>
      %y = arith.mulf %x, %two : f32
      memref.store %y, %m[%i] : memref<64xf32>
      nvvm.cluster.arrive {aligned}
      nvvm.cluster.wait {aligned}
      gpu.return
    }
    gpu.func @second(%n: i32) kernel {
      gpu.return
    }
  }
  module @inner {
    gpu.module @named [#nvvm.target<O = 1, chip = "sm_90a">] {
      gpu.func @empty() kernel {
        gpu.return
      }
    }
  }
}
