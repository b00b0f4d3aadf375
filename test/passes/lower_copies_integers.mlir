// RUN: weft-opt %s --lower-copies | FileCheck %s

!T = !tile.buffer<array<i64: 8, 16>, i8, #tile.layout<"S[(8,16):(16,1)]">, "shared">
!D = !tile.fragment<array<i64: 16, 8>, i32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
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
}
