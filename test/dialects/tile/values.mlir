// RUN: weft-opt %s --mlir-print-local-scope | weft-opt --mlir-print-local-scope | FileCheck %s

#rows = #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">
!Tile = tensor<64x64xf32, #rows>
!Rows = tensor<64xf32, #tile.layout<"S[(4,2,8):(1@warpid,1,4@laneid)] + R[(4):(1@laneid)]">>

// With layouts and without.
// CHECK-LABEL: @values
func.func @values(%x: !Tile, %y: tensor<8x256xf32>) -> (!Tile, tensor<8x256xf32>) {
  // CHECK: "tile.reduce"(%{{.*}}) ({
  // CHECK: "tile.yield"
  // CHECK: {axis = 1 : i64} : (tensor<64x64xf32, {{.*}}>) -> tensor<64xf32, {{.*}}>
  %0 = "tile.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    "tile.yield"(%c) : (f32) -> ()
  }) {axis = 1} : (!Tile) -> !Rows
  // CHECK: "tile.broadcast"(%{{.*}}) {axis = 1 : i64} : (tensor<64xf32, {{.*}}>) -> tensor<64x64xf32, {{.*}}>
  %1 = "tile.broadcast"(%0) {axis = 1} : (!Rows) -> !Tile
  // CHECK: -> tensor<256xf32>
  %2 = "tile.reduce"(%y) ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    "tile.yield"(%c) : (f32) -> ()
  }) {axis = 0} : (tensor<8x256xf32>) -> tensor<256xf32>
  // CHECK: {axis = 0 : i64} : (tensor<256xf32>) -> tensor<8x256xf32>
  %3 = "tile.broadcast"(%2) {axis = 0} : (tensor<256xf32>) -> tensor<8x256xf32>
  // CHECK: "tile.coordinate"() {axis = 1 : i64} : () -> tensor<8x256xi32>
  %4 = "tile.coordinate"() {axis = 1} : () -> tensor<8x256xi32>
  // CHECK: "tile.convert_layout"(%{{.*}}) : (tensor<64x64xf32, {{.*}}>) -> tensor<64x64xf32>
  %5 = "tile.convert_layout"(%1) : (!Tile) -> tensor<64x64xf32>
  // CHECK: "tile.convert_layout"(%{{.*}}) : (tensor<64x64xf32>) -> tensor<64x64xf32, {{.*}}>
  %6 = "tile.convert_layout"(%5) : (tensor<64x64xf32>) -> !Tile
  return %6, %3 : !Tile, tensor<8x256xf32>
}

// Vectors in memory.
// CHECK-LABEL: @vectors
func.func @vectors(%m: memref<?xf32>, %i: i32) {
  // CHECK: "tile.load_row"(%{{.*}}, %{{.*}}) {vector_bytes = 16 : i64} : (memref<?xf32>, i32) -> tensor<256xf32>
  %0 = "tile.load_row"(%m, %i) {vector_bytes = 16} : (memref<?xf32>, i32) -> tensor<256xf32>
  // CHECK: "tile.store_row"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<256xf32>, memref<?xf32>, i32) -> ()
  "tile.store_row"(%0, %m, %i) : (tensor<256xf32>, memref<?xf32>, i32) -> ()
  return
}
