// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-reductions | FileCheck %s

!Tile = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Rows = tensor<64xf32, #tile.layout<"S[(4,2,8):(1@warpid,1,4@laneid)] + R[(4):(1@laneid)]">>

// A lane's four elements of a row, then those of four lanes; two rows.
// CHECK-LABEL: @rows
// CHECK-COUNT-3: arith.addf
// CHECK: nvvm.shfl.sync
// CHECK: arith.addf
// CHECK: nvvm.shfl.sync
// CHECK-COUNT-4: arith.addf
// CHECK-COUNT-2: nvvm.shfl.sync
// CHECK: vector.from_elements {{.*}} : vector<2xf32>
// CHECK-NOT: tile.reduce
func.func @rows(%v: vector<8xf32>) -> vector<2xf32> {
  %0 = "tile.from_lane"(%v) : (vector<8xf32>) -> !Tile
  %1 = "tile.reduce"(%0) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "tile.yield"(%c) : (f32) -> ()
  }) {axis = 1} : (!Tile) -> !Rows
  %2 = "tile.to_lane"(%1) : (!Rows) -> vector<2xf32>
  return %2 : vector<2xf32>
}

// -----

!Tile = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Columns = tensor<16xf32, #tile.layout<"S[(2,4,2):(2,1@laneid,1)] + R[(8):(4@laneid)]">>
func.func @of_several_warps(%x: !Tile) {
  // expected-error @below {{'tile.reduce' op can't reduce along axis 0 from S[}}
  %1 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 0} : (!Tile) -> !Columns
  return
}

// -----

func.func @without_a_layout(%x: tensor<16x8xf32>) {
  // expected-error @below {{'tile.reduce' op expects a tile with a layout: run --assign-layouts first}}
  %1 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 0} : (tensor<16x8xf32>) -> tensor<8xf32>
  return
}
