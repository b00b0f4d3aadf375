// RUN: weft-opt %s --round-tf32 --split-input-file --verify-diagnostics | FileCheck %s

!A = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">>
!B = !tile.buffer<array<i64: 2, 8, 32>, f32, #tile.layout<"S[(2,8,32):(256,32,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 8, 32>, f32, #tile.layout<"S[(8,32):(32,1)] xor 128B">, "shared">
!Sums = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
!Part = tensor<8x32xf32, #tile.layout<"S[(8,4,8):(4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // A map that fills A, which a product reads, rounds. What fills another buffer of the same type is copied as it is.
  // CHECK-LABEL: gpu.func @product
  // CHECK-DAG: %[[ROUNDS:.*]] = "tile.tensor_map"(%{{.*}}) {tf32 = true}
  // CHECK-DAG: %[[KEEPS:.*]] = "tile.tensor_map"(%{{.*}}) :
  // CHECK: "tile.copy_async"(%[[ROUNDS]],
  // CHECK: "tile.copy_async"(%[[KEEPS]],
  gpu.func @product(%m: memref<?x?xf32>, %c: !Sums, %part: !Part, %i: i32, %yes: i1, %full: !llvm.ptr<3>) kernel {
    %a = "tile.alloc"() : () -> !A
    %other = "tile.alloc"() : () -> !A
    %b = "tile.alloc"() : () -> !B
    %map = "tile.tensor_map"(%m) : (memref<?x?xf32>) -> !Map
    "tile.copy_async"(%map, %i, %i, %a, %full) : (!Map, i32, i32, !A, !llvm.ptr<3>) -> ()
    "tile.copy_async"(%map, %i, %i, %other, %full) : (!Map, i32, i32, !A, !llvm.ptr<3>) -> ()
    // So do threads that store fragments, or single elements, to a stage.
    // CHECK: %[[LANE:.*]] = "tile.to_lane"
    // CHECK: nvvm.convert.float.to.tf32 %{{.*}} {rnd = #nvvm.fp_rnd_mode<rn>}
    // CHECK: %[[ROUNDED:.*]] = "tile.from_lane"
    // CHECK: "tile.store"(%[[ROUNDED]],
    %stage = "tile.stage"(%b, %i) : (!B, i32) -> !Stage
    "tile.store"(%part, %stage, %i, %i) : (!Part, !Stage, i32, i32) -> ()
    // CHECK: %[[ELEMENT:.*]] = llvm.bitcast %{{.*}} : i32 to f32
    // CHECK: llvm.store %[[ELEMENT]], %{{.*}} : f32, !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}} : i32, !llvm.ptr<3>
    %begin = "tile.address"(%stage) : (!Stage) -> !llvm.ptr<3>
    %at = llvm.getelementptr %begin[128] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %pi = llvm.mlir.constant(3.14159274 : f32) : f32
    llvm.store %pi, %at : f32, !llvm.ptr<3>
    llvm.store %i, %at : i32, !llvm.ptr<3>
    %d = "tile.gemm_async"(%a, %stage, %c, %yes) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !Stage, !Sums, i1) -> !Sums
    gpu.return
  }

  // CHECK-LABEL: gpu.func @without_a_product
  // CHECK-NOT: tf32
  // CHECK: gpu.return
  gpu.func @without_a_product(%m: memref<?x?xf32>, %part: !Part, %i: i32, %full: !llvm.ptr<3>) kernel {
    %a = "tile.alloc"() : () -> !A
    %map = "tile.tensor_map"(%m) : (memref<?x?xf32>) -> !Map
    "tile.copy_async"(%map, %i, %i, %a, %full) : (!Map, i32, i32, !A, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // Every matrix of a batch is rounded.
  // CHECK-LABEL: gpu.func @batch
  // CHECK: %[[BATCH:.*]] = "tile.tensor_map"(%{{.*}}) {tf32 = true}
  // CHECK-NOT: tile.tensor_map
  // CHECK: %[[MEMBER:.*]] = "tile.member"(%[[BATCH]],
  // CHECK-NOT: tile.member
  // CHECK: "tile.copy_async"(%[[MEMBER]],
  gpu.func @batch(%m: memref<?x?x?xf32>, %c: !Sums, %b: !Stage, %i: i32, %yes: i1, %full: !llvm.ptr<3>) kernel {
    %a = "tile.alloc"() : () -> !A
    %map = "tile.tensor_map"(%m) : (memref<?x?x?xf32>) -> !Map
    %member = "tile.member"(%map, %i) : (!Map, i32) -> !Map
    "tile.copy_async"(%member, %i, %i, %a, %full) : (!Map, i32, i32, !A, !llvm.ptr<3>) -> ()
    %d = "tile.gemm_async"(%a, %b, %c, %yes) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !Stage, !Sums, i1) -> !Sums
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 8, 32>, f32, #tile.layout<"S[(8,32):(32,1)] xor 128B">, "shared">
!Sums = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @cp_async(%m: memref<?x?xf32>, %b: !B, %c: !Sums, %i: i32, %yes: i1) kernel {
    %a = "tile.alloc"() : () -> !A
    // expected-error @below {{'tile.copy_async' op can't round f32 to tf32 for the tile.gemm_async that reads this buffer: copy from a tile.map, or by tile.load and tile.store}}
    "tile.copy_async"(%m, %i, %i, %a) {vector_bytes = 16 : i64} : (memref<?x?xf32>, i32, i32, !A) -> ()
    %d = "tile.gemm_async"(%a, %b, %c, %yes) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !Sums, i1) -> !Sums
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">>
!B = !tile.buffer<array<i64: 8, 32>, f32, #tile.layout<"S[(8,32):(32,1)] xor 128B">, "shared">
!Sums = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @copied_out(%m: memref<?x?xf32>, %b: !B, %c: !Sums, %i: i32, %yes: i1) kernel {
    %a = "tile.alloc"() : () -> !A
    %map = "tile.tensor_map"(%m) : (memref<?x?xf32>) -> !Map
    %d = "tile.gemm_async"(%a, %b, %c, %yes) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !Sums, i1) -> !Sums
    // expected-error @below {{'tile.store_async' op would copy f32 as tf32, to which it is rounded for tile.gemm_async: use another buffer}}
    "tile.store_async"(%a, %map, %i, %i) : (!A, !Map, i32, i32) -> ()
    gpu.return
  }
}
