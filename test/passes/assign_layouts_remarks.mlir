// What the pass chose, and why.
// RUN: weft-opt %s --assign-layouts --tile-explain-dispatch --verify-diagnostics

!Sums = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @chosen(%s: !Sums, %x: memref<?x?xf32>, %i: i32) {
    // expected-remark @below {{'tile.load' op gets the layout S[(8,4,2,16,4):(4,1@warpid,16@laneid,1@laneid,1)]}}
    // expected-note @below {{for memory: a row is in one warp}}
    %0 = "tile.load"(%x, %i, %i) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<64x64xf32>
    // expected-remark @below {{'tile.load' op gets the layout S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]}}
    // expected-note @below {{that of a tile that it meets}}
    %1 = "tile.load"(%x, %i, %i) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<64x64xf32>
    %2 = "tile.convert_layout"(%1) : (tensor<64x64xf32>) -> !Sums
    %3 = arith.addf %2, %s : !Sums
    "tile.store"(%3, %x, %i, %i) : (!Sums, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
