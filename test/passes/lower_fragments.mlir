// RUN: weft-opt %s --lower-fragments | FileCheck %s

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

// CHECK-LABEL: @lanes
// CHECK-SAME: (%[[V:.*]]: vector<4xf32>)
func.func @lanes(%v: vector<4xf32>) -> vector<4xf32> {
  // CHECK-NEXT: return %[[V]]
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  %1 = "tile.to_lane"(%0) : (!D) -> vector<4xf32>
  return %1 : vector<4xf32>
}

// CHECK-LABEL: @loop
// CHECK-NOT: tile.
func.func @loop(%v: vector<4xf32>, %n: index) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  // CHECK: %[[R:.*]]:5 = scf.for {{.*}} iter_args({{.*}}, %[[I:.*]] = %{{.*}}) -> (f32, f32, f32, f32, index)
  // CHECK: %[[X:.*]] = vector.from_elements {{.*}} : vector<4xf32>
  %1:2 = scf.for %k = %n to %n step %n iter_args(%x = %0, %i = %n) -> (!D, index) {
    // CHECK: %[[Y:.*]] = arith.addf %[[X]], %[[X]]
    %y = "tile.to_lane"(%x) : (!D) -> vector<4xf32>
    %z = arith.addf %y, %y : vector<4xf32>
    %w = "tile.from_lane"(%z) : (vector<4xf32>) -> !D
    // CHECK: %[[S:.*]]:4 = vector.to_elements %[[Y]] : vector<4xf32>
    // CHECK: scf.yield %[[S]]#0, %[[S]]#1, %[[S]]#2, %[[S]]#3, %[[I]] : f32, f32, f32, f32, index
    scf.yield %w, %i : !D, index
  }
  // CHECK: %[[V:.*]] = vector.from_elements %[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3 : vector<4xf32>
  // CHECK: return %[[V]]
  %2 = "tile.to_lane"(%1#0) : (!D) -> vector<4xf32>
  return %2 : vector<4xf32>
}

// A loop keeps what else it has: here that its bounds have no sign.
// CHECK-LABEL: @unsigned_loop
// CHECK: scf.for unsigned %{{.*}} -> (f32, f32, f32, f32) : i32
func.func @unsigned_loop(%v: vector<4xf32>, %n: i32) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  %1 = scf.for unsigned %k = %n to %n step %n iter_args(%x = %0) -> (!D) : i32 {
    scf.yield %x : !D
  }
  %2 = "tile.to_lane"(%1) : (!D) -> vector<4xf32>
  return %2 : vector<4xf32>
}

// CHECK-LABEL: @nested
// CHECK-NOT: tile.
func.func @nested(%v: vector<4xf32>, %n: index, %c: i1) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  // CHECK: scf.for {{.*}} -> (f32, f32, f32, f32)
  %1 = scf.for %i = %n to %n step %n iter_args(%x = %0) -> (!D) {
    // CHECK: %[[INNER:.*]]:4 = scf.for {{.*}} -> (f32, f32, f32, f32)
    %2 = scf.for %j = %n to %n step %n iter_args(%y = %x) -> (!D) {
      // CHECK: %[[IF:.*]]:4 = scf.if %{{.*}} -> (f32, f32, f32, f32)
      %3 = scf.if %c -> (!D) {
        // CHECK: scf.yield {{.*}} : f32, f32, f32, f32
        scf.yield %y : !D
      } else {
        // CHECK: scf.yield {{.*}} : f32, f32, f32, f32
        scf.yield %0 : !D
      }
      // CHECK: vector.from_elements %[[IF]]#0, %[[IF]]#1, %[[IF]]#2, %[[IF]]#3
      // CHECK: scf.yield {{.*}} : f32, f32, f32, f32
      scf.yield %3 : !D
    }
    // CHECK: vector.from_elements %[[INNER]]#0, %[[INNER]]#1, %[[INNER]]#2, %[[INNER]]#3
    // CHECK: scf.yield {{.*}} : f32, f32, f32, f32
    scf.yield %2 : !D
  }
  %4 = "tile.to_lane"(%1) : (!D) -> vector<4xf32>
  return %4 : vector<4xf32>
}

// CHECK-LABEL: @unused
// CHECK-NOT: tile.
// CHECK: return
func.func @unused(%v: vector<4xf32>) {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  return
}
