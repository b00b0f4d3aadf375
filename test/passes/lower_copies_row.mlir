// RUN: weft-opt %s --lower-copies | FileCheck %s

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!Turned = tensor<8x16xf32, #tile.layout<"S[(4,2,2,8):(1@laneid,1,2,4@laneid)]">>
!Row = !tile.buffer<array<i64: 1, 64>, f32, #tile.layout<"S[(1,64):(64,1)]">, "shared">

gpu.module @m {
  // A lane has two columns in two rows: two elements, at once where both lie inside and aligned.
  // CHECK-LABEL: gpu.func @pairs
  // CHECK: %[[PAIR:.*]]:2 = scf.if
  // CHECK: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xf32>
  // CHECK-NOT: llvm.load
  // CHECK: } else {
  // CHECK-COUNT-2: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
  // CHECK-NOT: llvm.load
  // CHECK: vector.from_elements %[[PAIR]]#0, %[[PAIR]]#1, %[[PAIR]]#0, %[[PAIR]]#1 : vector<4xf32>
  gpu.func @pairs(%v: memref<?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load_row"(%v, %i) {vector_bytes = 8} : (memref<?xf32>, i32) -> !D
    gpu.return
  }

  // Of a buffer, whose row holds them all.
  // CHECK-LABEL: gpu.func @of_a_buffer
  // CHECK: "tile.address"
  // CHECK: %[[A:.*]] = llvm.load %{{.*}} : !llvm.ptr<3> -> f32
  // CHECK: %[[B:.*]] = llvm.load %{{.*}} : !llvm.ptr<3> -> f32
  // CHECK-NOT: llvm.load
  // CHECK: vector.from_elements %[[A]], %[[B]], %[[A]], %[[B]] : vector<4xf32>
  gpu.func @of_a_buffer(%b: !Row, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load_row"(%b, %i) : (!Row, i32) -> !D
    gpu.return
  }

  // What lies outside is 0, and the first element is read in its stead.
  // CHECK-LABEL: gpu.func @turned
  // CHECK: %[[INSIDE:.*]] = arith.cmpi slt
  // CHECK: %[[FROM:.*]] = arith.select %[[INSIDE]], %{{.*}}, %{{.*}} : !llvm.ptr<1>
  // CHECK: %[[LOADED:.*]] = llvm.load %[[FROM]]
  // CHECK: %[[A:.*]] = arith.select %[[INSIDE]], %[[LOADED]], %{{.*}} : f32
  // CHECK: llvm.load
  // CHECK: %[[B:.*]] = arith.select
  // CHECK-NOT: llvm.load
  // CHECK: vector.from_elements %[[A]], %[[A]], %[[B]], %[[B]]
  gpu.func @turned(%v: memref<?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load_row"(%v, %i) : (memref<?xf32>, i32) -> !Turned
    gpu.return
  }
}
