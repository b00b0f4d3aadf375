// An array of shared memory without elements is dynamic shared memory, whose size a launch gives. All of them begin
// at the same address, so they have the same alignment.

// RUN: weft-opt %s --mark-dynamic-memory | FileCheck %s
// RUN: weft compile %s | FileCheck %s --check-prefix=PTX
// PTX-DAG: .extern .shared .align 1024 .b8 empty[];
// PTX-DAG: .extern .shared .align 1024 .b8 tiles[];
// PTX:     .entry k(
// PTX:     .shared .align {{[0-9]+}} .b8 fixed[16];
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // CHECK: llvm.mlir.global external @empty() {addr_space = 3 : i32
  llvm.mlir.global internal @empty() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  // CHECK: llvm.mlir.global internal @full() {addr_space = 3 : i32}
  llvm.mlir.global internal @full() {addr_space = 3 : i32} : !llvm.array<4 x i8>
  // CHECK: llvm.mlir.global internal @elsewhere() {addr_space = 1 : i32}
  llvm.mlir.global internal @elsewhere() {addr_space = 1 : i32} : !llvm.array<0 x i8>

  memref.global "private" @tiles : memref<0xf32, 3> {alignment = 1024 : i64}
  memref.global "private" @fixed : memref<4xf32, 3>
  gpu.func @k(%m: memref<4xf32>) kernel {
    %zero = arith.constant 0 : index
    %i = gpu.thread_id x
    %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %room = memref.view %bytes[%zero][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<4xf32, #gpu.address_space<workgroup>>
    %tiles = memref.get_global @tiles : memref<0xf32, 3>
    %tile = memref.reinterpret_cast %tiles to offset: [0], sizes: [4], strides: [1] : memref<0xf32, 3> to memref<4xf32, 3>
    %fixed = memref.get_global @fixed : memref<4xf32, 3>
    %x = memref.load %m[%i] : memref<4xf32>
    memref.store %x, %room[%i] : memref<4xf32, #gpu.address_space<workgroup>>
    memref.store %x, %fixed[%i] : memref<4xf32, 3>
    gpu.barrier
    %y = memref.load %tile[%zero] : memref<4xf32, 3>
    %z = memref.load %fixed[%zero] : memref<4xf32, 3>
    %t = arith.addf %y, %z : f32
    memref.store %t, %m[%i] : memref<4xf32>
    gpu.return
  }
}
