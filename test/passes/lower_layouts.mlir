// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-layouts --canonicalize | FileCheck %s

!Tile = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Ints = tensor<64x16xi32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Bits = tensor<64x16xi1, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Rows = tensor<64xf32, #tile.layout<"S[(4,2,8):(1@warpid,1,4@laneid)] + R[(4):(1@laneid)]">>
!Other = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,4,4@laneid,2,1@laneid,1)]">>

// Nothing moves between lanes.
// CHECK-LABEL: @moves
func.func @moves(%v: vector<2xf32>) -> vector<8xf32> {
  %0 = "tile.from_lane"(%v) : (vector<2xf32>) -> !Rows
  // CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 0, 1, 1, 0, 0, 1, 1] : vector<2xf32>, vector<2xf32>
  %1 = "tile.broadcast"(%0) {axis = 1} : (!Rows) -> !Tile
  // CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 1, 4, 5, 2, 3, 6, 7] : vector<8xf32>, vector<8xf32>
  %2 = "tile.convert_layout"(%1) : (!Tile) -> !Other
  %3 = "tile.to_lane"(%2) : (!Other) -> vector<8xf32>
  return %3 : vector<8xf32>
}

// Comparisons of coordinates compare constants: the lane's own part is subtracted from the limit once.
// CHECK-LABEL: @compared
// CHECK-SAME: (%[[N:.*]]: i32, %[[M:.*]]: i32)
func.func @compared(%n: i32, %m: i32) -> vector<8xi1> {
  %0 = "tile.coordinate"() {axis = 1} : () -> !Ints
  %1 = tensor.splat %n : !Ints
  %2 = arith.addi %0, %1 : !Ints
  %3 = tensor.splat %m : !Ints
  // CHECK: %[[OFFSETS:.*]] = arith.constant dense<[0, 1, 0, 1, 8, 9, 8, 9]> : vector<8xi32>
  // CHECK: %[[LIMIT:.*]] = vector.broadcast %{{.*}} : i32 to vector<8xi32>
  // CHECK: arith.cmpi sgt, %[[LIMIT]], %[[OFFSETS]] : vector<8xi32>
  %4 = arith.cmpi slt, %2, %3 : !Ints
  %5 = "tile.to_lane"(%4) : (!Bits) -> vector<8xi1>
  return %5 : vector<8xi1>
}

// -----

!Tile = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Memory = tensor<64x16xf32, #tile.layout<"S[(2,4,8,4,4):(4,1@warpid,4@laneid,1@laneid,1)]">>
func.func @other_lanes(%x: !Tile) {
  // expected-error @below {{'tile.convert_layout' op can't bring a tile in S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)] to S[(2,4,8,4,4):(4,1@warpid,4@laneid,1@laneid,1)]: other lanes hold its elements}}
  %0 = "tile.convert_layout"(%x) : (!Tile) -> !Memory
  return
}

// -----

func.func @without_a_layout() {
  // expected-error @below {{'tile.coordinate' op expects a tile with a layout: run --assign-layouts first}}
  %0 = "tile.coordinate"() {axis = 0} : () -> tensor<16xi32>
  return
}
