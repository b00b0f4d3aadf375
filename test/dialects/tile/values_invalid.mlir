// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @not_a_tile(%x: tensor<?x8xf32>) {
  // expected-error @below {{'tile.reduce' op expects a tile of two dimensions, got tensor<?x8xf32>}}
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 1} : (tensor<?x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @axis(%x: tensor<16x8xf32>) {
  // expected-error @below {{axis must be 0 or 1, got 2}}
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 2} : (tensor<16x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @extent(%x: tensor<8xf32>) {
  // expected-error @below {{expects a vector of 16 f32 without a layout, got tensor<8xf32>}}
  %0 = "tile.broadcast"(%x) {axis = 1} : (tensor<8xf32>) -> tensor<16x8xf32>
  return
}

// -----

!Tile = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @layout_of_one(%x: !Tile) {
  // expected-error @below {{expects a vector of 8 f32 with a layout, got tensor<8xf32>}}
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 0} : (!Tile) -> tensor<8xf32>
  return
}

// -----

func.func @region(%x: tensor<16x8xf32>) {
  // expected-error @below {{expects a region of two arguments of type f32}}
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32):
    "tile.yield"(%a) : (f32) -> ()
  }) {axis = 1} : (tensor<16x8xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @yielded(%x: tensor<16x8xf32>, %n: i32) {
  // expected-error @below {{expects its region to yield f32, got i32}}
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    "tile.yield"(%n) : (i32) -> ()
  }) {axis = 1} : (tensor<16x8xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @coordinates() {
  // expected-error @below {{expects to return a tile of i32, got tensor<16x8xf32>}}
  %0 = "tile.coordinate"() {axis = 0} : () -> tensor<16x8xf32>
  return
}

// -----

func.func @coordinate_axis() {
  // expected-error @below {{axis must be in 0..0, got 1}}
  %0 = "tile.coordinate"() {axis = 1} : () -> tensor<16xi32>
  return
}

// -----

func.func @other_shape(%x: tensor<16x8xf32>) {
  // expected-error @below {{expects equal shapes and elements, got tensor<16x8xf32> and tensor<8x16xf32>}}
  %0 = "tile.convert_layout"(%x) : (tensor<16x8xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @from_a_buffer(%t: !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(64,1)]">, "shared">, %i: i32) {
  // expected-error @below {{'tile.load' op expects to return a tensor with a #tile.layout, got tensor<64x64xf32>}}
  %0 = "tile.load"(%t, %i, %i) : (!tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(64,1)]">, "shared">, i32, i32) -> tensor<64x64xf32>
  return
}

// -----

func.func @stored_tile(%x: tensor<8x16xf32>, %m: memref<?xf32>, %i: i32) {
  // expected-error @below {{'tile.store_row' op expects a tile of one dimension, got tensor<8x16xf32>}}
  "tile.store_row"(%x, %m, %i) : (tensor<8x16xf32>, memref<?xf32>, i32) -> ()
  return
}
