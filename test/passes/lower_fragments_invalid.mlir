// RUN: weft-opt %s --lower-fragments --split-input-file --verify-diagnostics

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @from_an_argument(%d: !D) -> vector<4xf32> {
  // expected-error @below {{'tile.to_lane' op expects a fragment from tile.from_lane, got one from a block argument}}
  %0 = "tile.to_lane"(%d) : (!D) -> vector<4xf32>
  return %0 : vector<4xf32>
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @from_a_branch(%v: vector<4xf32>) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  cf.br ^bb1(%0 : !D)
^bb1(%x: !D):
  // expected-error @below {{got one from a block argument}}
  %1 = "tile.to_lane"(%x) : (!D) -> vector<4xf32>
  return %1 : vector<4xf32>
}

// -----

!D = tensor<8x4xi32, #tile.layout<"S[(8,4):(4@laneid,1@laneid)]">>
func.func @different_elements() -> vector<1xi32> {
  // expected-error @below {{'arith.constant' op expects equal elements: lanes hold different ones}}
  %1 = arith.constant dense<[[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]]> : !D
  %2 = "tile.to_lane"(%1) : (!D) -> vector<1xi32>
  return %2 : vector<1xi32>
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @of_a_region(%v: vector<4xf32>) -> vector<4xf32> {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  %1 = scf.execute_region -> !D {
    scf.yield %0 : !D
  }
  // expected-error @below {{got one from 'scf.execute_region'}}
  %2 = "tile.to_lane"(%1) : (!D) -> vector<4xf32>
  return %2 : vector<4xf32>
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @stored(%v: vector<4xf32>, %m: memref<?x?xf32>, %i: i32) {
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  // expected-error @below {{'tile.store' op expects no fragment: run --lower-gemm and --lower-copies first}}
  "tile.store"(%0, %m, %i, %i) : (!D, memref<?x?xf32>, i32, i32) -> ()
  return
}
