// RUN: weft-opt %s --lower-copies --lower-gemm | FileCheck %s

// Elements of 8 and 32 bits: ldmatrix brings whole registers of K-major tiles, as it does for 16 bits.

!Sums = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!Rows8 = !tile.buffer<array<i64: 64, 64>, f8E4M3FN, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!Columns8 = !tile.buffer<array<i64: 64, 64>, f8E5M2, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!A8 = tensor<16x32xf8E4M3FN, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>
!B8 = tensor<32x8xf8E5M2, #tile.layout<"S[(2,4,4,8):(4,1@laneid,1,4@laneid)]">>
!Rows32 = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">, "shared">
!A32 = tensor<16x8xf32, #tile.layout<"S[(2,8,2,4):(1,4@laneid,2,1@laneid)]">>
!B32 = tensor<8x8xf32, #tile.layout<"S[(2,4,8):(1,1@laneid,4@laneid)]">>
!RowsInt = !tile.buffer<array<i64: 64, 64>, i8, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!AInt = tensor<16x32xi8, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>
!BInt = tensor<32x8xi8, #tile.layout<"S[(2,4,4,8):(4,1@laneid,1,4@laneid)]">>
!SumsInt = tensor<16x8xi32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m {
  // CHECK-LABEL: gpu.func @fp8
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 4 : i64, shape = "m8n8"}
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, shape = "m8n8"}
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "e4m3", b_type = "e5m2"
  // CHECK-SAME: operandSegmentSizes = array<i32: 4, 2, 4>, shape = "m16n8k32"
  gpu.func @fp8(%s: !Rows8, %t: !Columns8, %c: !Sums, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.load"(%s, %i, %i) : (!Rows8, i32, i32) -> !A8
    %b = "tile.load"(%t, %i, %i) {transpose = true} : (!Columns8, i32, i32) -> !B8
    %d = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A8, !B8, !Sums) -> !Sums
    gpu.return
  }

  // CHECK-LABEL: gpu.func @tf32
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 4 : i64, shape = "m8n8"}
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, shape = "m8n8"}
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "tf32", b_type = "tf32"
  // CHECK-SAME: shape = "m16n8k8"
  gpu.func @tf32(%s: !Rows32, %c: !Sums, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.load"(%s, %i, %i) : (!Rows32, i32, i32) -> !A32
    %b = "tile.load"(%s, %i, %i) {transpose = true} : (!Rows32, i32, i32) -> !B32
    %d = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A32, !B32, !Sums) -> !Sums
    gpu.return
  }

  // CHECK-LABEL: gpu.func @integers
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "s8", b_type = "s8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m16n8k32"
  gpu.func @integers(%s: !RowsInt, %c: !SumsInt, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.load"(%s, %i, %i) : (!RowsInt, i32, i32) -> !AInt
    %b = "tile.load"(%s, %i, %i) {transpose = true} : (!RowsInt, i32, i32) -> !BInt
    %d = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!AInt, !BInt, !SumsInt) -> !SumsInt
    gpu.return
  }

  // Accumulators aren't matrices that ldmatrix moves.
  // CHECK-LABEL: gpu.func @sums
  // CHECK-NOT: "mma.ldmatrix"
  // CHECK: llvm.load
  gpu.func @sums(%s: !Rows32, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.load"(%s, %i, %i) : (!Rows32, i32, i32) -> !Sums
    gpu.return
  }
}
