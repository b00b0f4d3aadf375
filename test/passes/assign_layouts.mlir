// RUN: weft-opt %s --mlir-print-local-scope --assign-layouts | FileCheck %s

!Sums = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // A row is within a warp, whose lanes access 16 bytes at once.
  // CHECK-LABEL: gpu.func @rows
  // CHECK: "tile.load"{{.*}} {vector_bytes = 16 : i64} {{.*}} -> tensor<8x256xbf16, #tile.layout<"S[(2,4,32,8):(8,1@warpid,1@laneid,1)]">>
  // CHECK: arith.extf {{.*}} to tensor<8x256xf32, #tile.layout<"S[(2,4,32,8):(8,1@warpid,1@laneid,1)]">>
  // CHECK: -> tensor<8xf32, #tile.layout<"S[(2,4):(1,1@warpid)] + R[(32):(1@laneid)]">>
  // CHECK: "tile.store"{{.*}} {vector_bytes = 16 : i64}
  gpu.func @rows(%x: memref<?x?xbf16>, %y: memref<?x?xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : i32
    %0 = "tile.load"(%x, %i, %i) {vector_bytes = 16} : (memref<?x?xbf16>, i32, i32) -> tensor<8x256xbf16>
    %1 = arith.extf %0 : tensor<8x256xbf16> to tensor<8x256xf32>
    %2 = "tile.reduce"(%1) ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      "tile.yield"(%c) : (f32) -> ()
    }) {axis = 1} : (tensor<8x256xf32>) -> tensor<8xf32>
    %3 = "tile.broadcast"(%2) {axis = 1} : (tensor<8xf32>) -> tensor<8x256xf32>
    %4 = arith.divf %1, %3 : tensor<8x256xf32>
    "tile.store"(%4, %y, %i, %i) {vector_bytes = 16} : (tensor<8x256xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // Tiles in the layout of sums stay there, and so do those that they meet in a loop; others don't. Uses of a
  // constant have layouts of their own.
  // CHECK-LABEL: gpu.func @sums
  // CHECK-SAME: tensor<64x64xf32, [[SUMS:#tile.layout<"S.*">]]>
  // CHECK-DAG: arith.constant dense<0.000000e+00> : tensor<64x64xf32, [[SUMS]]>
  // CHECK-DAG: arith.constant dense<0.000000e+00> : tensor<64x64xf32, #tile.layout<"S[(8,4,2,16,4):(4,1@warpid,16@laneid,1@laneid,1)]">>
  // CHECK: scf.for {{.*}} -> (tensor<64x64xf32, [[SUMS]]>)
  // CHECK: "tile.load"{{.*}} {vector_bytes = 8 : i64} {{.*}} -> tensor<64x64xf32, [[SUMS]]>
  // CHECK-NOT: tile.convert_layout
  // CHECK: gpu.return
  gpu.func @sums(%s: !Sums, %x: memref<?x?xf32>, %n: i32) {
    %i = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %0 = scf.for %k = %i to %n step %one iter_args(%t = %zero) -> (tensor<64x64xf32>) : i32 {
      %1 = "tile.load"(%x, %i, %k) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<64x64xf32>
      %2 = "tile.convert_layout"(%s) : (!Sums) -> tensor<64x64xf32>
      %3 = arith.addf %1, %2 : tensor<64x64xf32>
      %4 = arith.addf %t, %3 : tensor<64x64xf32>
      scf.yield %4 : tensor<64x64xf32>
    }
    %5 = "tile.convert_layout"(%0) : (tensor<64x64xf32>) -> !Sums
    "tile.store"(%zero, %x, %i, %i) {vector_bytes = 16} : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    "tile.store"(%5, %x, %i, %i) {vector_bytes = 8} : (!Sums, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // It is loaded as it is in the matrix, by the lanes that get its elements.
  // CHECK-LABEL: gpu.func @transposed
  // CHECK: "tile.load"{{.*}} -> tensor<16x64xf32, #tile.layout<"S[(4,4,2,4,8):(1@laneid,1,4,1@warpid,4@laneid)]">>
  // CHECK: "tile.store"{{.*}}tensor<64x16xf32, #tile.layout<"S[(2,4,8,4,4):(4,1@warpid,4@laneid,1@laneid,1)]">>
  gpu.func @transposed(%x: memref<?x?xf32>, %i: i32) {
    %0 = "tile.load"(%x, %i, %i) {transpose = true, vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<64x16xf32>
    "tile.store"(%0, %x, %i, %i) {vector_bytes = 16} : (tensor<64x16xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @vector_without_tile
  // CHECK: "tile.store_row"{{.*}}tensor<12xf32, #tile.layout<"S[(3,4):(1,1@laneid)] + R[(4,8):(1@warpid,4@laneid)]">>
  gpu.func @vector_without_tile(%x: memref<?xf32>, %i: i32) {
    %0 = "tile.load_row"(%x, %i) : (memref<?xf32>, i32) -> tensor<12xf32>
    "tile.store_row"(%0, %x, %i) : (tensor<12xf32>, memref<?xf32>, i32) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @rows_and_columns
  // CHECK: [[R:%.*]] = arith.mulf {{.*}} tensor<64xf32, #tile.layout<"S[(8,4,2):(1,1@warpid,16@laneid)] + R[(16):(1@laneid)]">>
  // CHECK: [[C:%.*]] = arith.mulf {{.*}} tensor<64xf32, #tile.layout<"S[(16,4):(1@laneid,1)] + R[(4,2):(1@warpid,16@laneid)]">>
  // CHECK: "tile.broadcast"([[C]]) {axis = 0 : i64}
  // CHECK: "tile.broadcast"([[R]]) {axis = 1 : i64}
  gpu.func @rows_and_columns(%x: memref<?x?xf32>, %v: memref<?xf32>, %i: i32) {
    %0 = "tile.load_row"(%v, %i) : (memref<?xf32>, i32) -> tensor<64xf32>
    %1 = arith.mulf %0, %0 : tensor<64xf32>
    %2 = "tile.broadcast"(%1) {axis = 0} : (tensor<64xf32>) -> tensor<64x64xf32>
    %3 = "tile.broadcast"(%1) {axis = 1} : (tensor<64xf32>) -> tensor<64x64xf32>
    %4 = arith.addf %2, %3 : tensor<64x64xf32>
    "tile.store"(%4, %x, %i, %i) {vector_bytes = 16} : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // A lane has the same columns of tiles with one vector, whatever the elements.
  // CHECK-LABEL: gpu.func @elements_of_two_sizes
  // CHECK-COUNT-2: "tile.broadcast"{{.*}} -> tensor<8x256xf{{16|32}}, #tile.layout<"S[(2,4,32,8):(8,1@warpid,1@laneid,1)]">>
  gpu.func @elements_of_two_sizes(%x: memref<?x?xf16>, %y: memref<?x?xf32>, %v: memref<?xf16>, %i: i32) {
    %0 = "tile.load_row"(%v, %i) : (memref<?xf16>, i32) -> tensor<256xf16>
    %1 = "tile.broadcast"(%0) {axis = 0} : (tensor<256xf16>) -> tensor<8x256xf16>
    %2 = arith.extf %0 : tensor<256xf16> to tensor<256xf32>
    %3 = "tile.broadcast"(%2) {axis = 0} : (tensor<256xf32>) -> tensor<8x256xf32>
    "tile.store"(%1, %x, %i, %i) {vector_bytes = 16} : (tensor<8x256xf16>, memref<?x?xf16>, i32, i32) -> ()
    "tile.store"(%3, %y, %i, %i) {vector_bytes = 16} : (tensor<8x256xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
