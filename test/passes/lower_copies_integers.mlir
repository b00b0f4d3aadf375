// RUN: weft-opt %s --lower-copies | FileCheck %s

!T = !tile.buffer<array<i64: 8, 16>, i8, #tile.layout<"S[(8,16):(16,1)]">, "shared">
!D = tensor<16x8xi32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!Bytes = tensor<16x16xi8, #tile.layout<"S[(2,8,4,4):(4,4@laneid,1@laneid,1)]">>
gpu.module @m {
  // What lies outside of a matrix of integers is 0.
  // CHECK-LABEL: gpu.func @copy
  // CHECK: arith.constant 0 : i8
  gpu.func @copy(%m: memref<?x?xi8>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    "tile.copy"(%m, %i, %i, %t) : (memref<?x?xi8>, i32, i32, !T) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @load
  // CHECK: arith.constant dense<0> : vector<2xi32>
  gpu.func @load(%m: memref<?x?xi32>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%m, %i, %i) {vector_bytes = 8} : (memref<?x?xi32>, i32, i32) -> !D
    gpu.return
  }

  // Bytes that lie together are stored as one word.
  // CHECK-LABEL: gpu.func @store
  // CHECK: %[[WORDS:.*]] = vector.bitcast %{{.*}} : vector<8xi8> to vector<2xi32>
  // CHECK: %[[W:.*]]:2 = vector.to_elements %[[WORDS]] : vector<2xi32>
  // CHECK: llvm.store %[[W]]#0, %{{.*}} : i32, !llvm.ptr<1>
  // CHECK: %[[X:.*]]:2 = vector.to_elements %{{.*}} : vector<2xi32>
  // CHECK: llvm.store %[[X]]#1, %{{.*}} : i32, !llvm.ptr<1>
  gpu.func @store(%f: !Bytes, %m: memref<?x?xi8>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.store"(%f, %m, %i, %i) {vector_bytes = 4} : (!Bytes, memref<?x?xi8>, i32, i32) -> ()
    gpu.return
  }
}
