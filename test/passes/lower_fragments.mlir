// RUN: weft-opt %s --lower-fragments | FileCheck %s

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!H = tensor<16x8xf16, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!I = tensor<16x8xi32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!U = tensor<16x8xui32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!Condition = tensor<16x8xi1, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

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

// Operations on each element become those of each lane's vectors.
// CHECK-LABEL: @elements
// CHECK-SAME: (%[[V:.*]]: vector<4xf32>, %[[S:.*]]: f32)
// CHECK-NOT: tensor
func.func @elements(%v: vector<4xf32>, %s: f32) -> vector<4xf16> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  // CHECK: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : vector<4xf32>
  %1 = arith.constant dense<1.0> : !D
  // CHECK: %[[B:.*]] = vector.broadcast %[[S]] : f32 to vector<4xf32>
  %2 = tensor.splat %s : !D
  // CHECK: %[[P:.*]] = arith.mulf %[[V]], %[[B]] fastmath<contract> : vector<4xf32>
  %3 = arith.mulf %0, %2 fastmath<contract> : !D
  // CHECK: %[[E:.*]] = math.exp2 %[[P]] fastmath<afn> : vector<4xf32>
  %4 = math.exp2 %3 fastmath<afn> : !D
  // CHECK: %[[C:.*]] = arith.cmpf olt, %[[E]], %[[ONE]] : vector<4xf32>
  %5 = arith.cmpf olt, %4, %1 : !D
  // CHECK: %[[W:.*]] = arith.select %[[C]], %[[E]], %[[P]] : vector<4xi1>, vector<4xf32>
  %6 = arith.select %5, %4, %3 : !Condition, !D
  // CHECK: %[[H:.*]] = arith.truncf %[[W]] : vector<4xf32> to vector<4xf16>
  %7 = arith.truncf %6 : !D to !H
  // CHECK: return %[[H]]
  %8 = "tile.to_lane"(%7) : (!H) -> vector<4xf16>
  return %8 : vector<4xf16>
}

// CHECK-LABEL: @signs
func.func @signs(%v: vector<4xui32>) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xui32>) -> !U
  // CHECK: %[[I:.*]] = vector.bitcast %{{.*}} : vector<4xui32> to vector<4xi32>
  %1 = builtin.unrealized_conversion_cast %0 : !U to !I
  // CHECK: vector.bitcast %[[I]] : vector<4xi32> to vector<4xf32>
  %2 = arith.bitcast %1 : !I to !D
  %3 = "tile.to_lane"(%2) : (!D) -> vector<4xf32>
  return %3 : vector<4xf32>
}

// A condition that all lanes share.
// CHECK-LABEL: @chosen
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : vector<4xf32>
func.func @chosen(%v: vector<4xf32>, %u: vector<4xf32>, %c: i1) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  %1 = "tile.from_lane"(%u) : (vector<4xf32>) -> !D
  %2 = arith.select %c, %0, %1 : !D
  %3 = "tile.to_lane"(%2) : (!D) -> vector<4xf32>
  return %3 : vector<4xf32>
}
