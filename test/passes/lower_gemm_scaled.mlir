// RUN: weft-opt %s --lower-gemm --canonicalize --cse | FileCheck %s

// A register has four scales of a lane. The byte is the group of K, and the lanes of a quad those of 16 rows of A
// or of 8 columns of B.

!A = tensor<32x64xf8E4M3FN, #tile.layout<"S[(2,2,8,2,2,4,4):(32,4,4@laneid,16,8,1@laneid,1)]">>
!B = tensor<64x32xf8E5M2, #tile.layout<"S[(2,2,4,4,4,8):(32,4,1@laneid,1,8,4@laneid)]">>
!S = tensor<32x4xf8E8M0FNU, #tile.layout<"S[(2,2,8,4):(2@laneid,1@laneid,4@laneid,1)]">>
!T = tensor<4x32xf8E8M0FNU, #tile.layout<"S[(4,4,8):(1,1@laneid,4@laneid)]">>
!D = tensor<32x32xf32, #tile.layout<"S[(2,2,8,4,4,2):(16,2,4@laneid,4,1@laneid,1)]">>

gpu.module @m [#nvvm.target<chip = "sm_120a">] {
  // CHECK-LABEL: gpu.func @mxfp8
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i16
  // CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : i16
  // CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : i16
  // CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : i16
  // CHECK: "mma.block_scale"({{.*}}, %[[S:.*]], %[[TWO]], %[[ZERO]], %[[T:.*]], %[[TWO]], %[[ZERO]])
  // CHECK-SAME: a_type = "e4m3", b_type = "e5m2", kind = "mxf8f6f4"
  // CHECK: "mma.block_scale"({{.*}}, %[[S]], %[[THREE]], %[[ZERO]], %[[T]], %[[THREE]], %[[ZERO]])
  // CHECK: "mma.block_scale"({{.*}}, %[[S]], %[[TWO]], %[[ZERO]], %[[T]], %[[TWO]], %[[ONE]])
  // CHECK-COUNT-5: "mma.block_scale"
  // CHECK: "mma.block_scale"({{.*}}, %[[S]], %[[TWO]], %[[ONE]], %[[T]], %[[TWO]], %[[ZERO]])
  gpu.func @mxfp8(%x: vector<64xf8E4M3FN>, %y: vector<64xf8E5M2>, %c: !D, %s: !S, %t: !T, %m: memref<?x?xf32>, %i: i32) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%x) : (vector<64xf8E4M3FN>) -> !A
    %b = "tile.from_lane"(%y) : (vector<64xf8E5M2>) -> !B
    %0 = "tile.gemm_scaled"(%a, %b, %c, %s, %t) {first_group = 2 : i64} : (!A, !B, !D, !S, !T) -> !D
    "tile.store"(%0, %m, %i, %i) : (!D, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
