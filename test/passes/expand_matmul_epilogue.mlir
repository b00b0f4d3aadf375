// RUN: weft-opt %s --mlir-print-local-scope --expand-matmul --canonicalize --cse | FileCheck %s

gpu.module @m {
  // 64 sums of a lane become elements of D in four pieces, each stored before the next is begun. All of C and of
  // the residual are asked for in L2 before the products, and loaded at once after these.
  // CHECK-LABEL: gpu.func @pieces
  // CHECK-COUNT-2: nvvm.cp.async.bulk.prefetch
  // CHECK-NOT: nvvm.cp.async.bulk.prefetch
  // CHECK: "tile.gemm_async"
  // CHECK: "tile.wait_gemm"
  // CHECK: %[[SUMS:.*]]:64 = vector.to_elements
  // CHECK: "tile.load"(%arg3, %{{.*}}, %{{.*}}) {vector_bytes = 8 : i64}
  // CHECK-SAME: tensor<64x128xf32, #tile.layout<"S[(4,2,8,16,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
  // CHECK: "tile.load"(%arg5, %{{.*}}, %{{.*}}) {vector_bytes = 4 : i64} : (memref<?x?xf16>
  // CHECK-SAME: tensor<64x128xf16
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<16xf32>
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<16xf32>
  // CHECK: arith.addf
  // A lane loads two of each 64 elements of the bias, and gets its pairs of columns of a piece from other lanes.
  // CHECK-COUNT-4: llvm.load %{{.*}} : !llvm.ptr<1> -> bf16
  // CHECK-NOT: llvm.load
  // CHECK-COUNT-4: nvvm.shfl.sync idx
  // CHECK-NOT: nvvm.shfl.sync
  // CHECK: arith.extf %{{.*}} : vector<16xbf16> to vector<16xf32>
  // CHECK: arith.addf
  // CHECK: arith.maximumf
  // CHECK-NOT: "tile.load"
  // CHECK: arith.addf
  // CHECK: arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
  // CHECK: nvvm.cp.async.bulk.wait_group 0
  // CHECK: nvvm.barrier
  // CHECK: "tile.store"
  // CHECK-COUNT-3: "tile.store"
  // CHECK-NOT: "tile.store"
  // CHECK: "tile.store_async"
  // CHECK: gpu.return
  gpu.func @pieces(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %c: memref<?x?xf32>,
                   %v: memref<?xbf16>, %r: memref<?x?xf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c, %v, %r) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>,
      alpha = 0.5 : f32, beta = 2.0 : f32, activation = "relu",
      schedule = {block = array<i64: 64, 128, 64>, warpgroups = 1, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, memref<?xbf16>, memref<?x?xf16>) -> ()
    gpu.return
  }

  // With the operands swapped a lane's pieces are rows of D, which share what is loaded of the bias.
  // CHECK-LABEL: gpu.func @swapped
  // CHECK: "tile.load_row"(%arg3
  // CHECK-SAME: tensor<32x64xf32, #tile.layout<"S[(4,4,2,4,2,8):(4,1@laneid,1,1@warpid,2,4@laneid)]">>
  // CHECK-NOT: "tile.load_row"
  // CHECK: gpu.return
  gpu.func @swapped(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, swap = true}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, memref<?xf32>) -> ()
    gpu.return
  }

  // A function that needs two approximations of the chip.
  // CHECK-LABEL: gpu.func @silu
  // CHECK: %[[EXPONENT:.*]] = arith.mulf %[[X:.*]], %{{.*}} : vector<8xf32>
  // CHECK: math.exp2 %{{.*}} fastmath<afn> : vector<8xf32>
  // CHECK: arith.addf
  // CHECK: arith.divf %{{.*}}, %{{.*}} fastmath<afn> : vector<8xf32>
  // CHECK: arith.mulf %[[X]], %{{.*}} : vector<8xf32>
  // CHECK-NEXT: tile.from_lane
  gpu.func @silu(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "silu",
      schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // A kernel reads the alpha of its product once for a tile, and multiplies it by the attribute first.
  // CHECK-LABEL: gpu.func @alpha
  // CHECK: %[[ONE:.*]] = memref.load %arg3[%{{.*}}] : memref<?xf32>
  // CHECK-NEXT: %[[BOTH:.*]] = arith.mulf %[[ONE]], %{{.*}} : f32
  // CHECK: %[[EVERY:.*]] = vector.broadcast %[[BOTH]] : f32 to vector<8xf32>
  // CHECK-NEXT: arith.mulf %{{.*}}, %[[EVERY]] : vector<8xf32>
  // CHECK: gpu.return
  gpu.func @alpha(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xf32>, %s: memref<?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 0.5 : f32,
      schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xf32>, memref<?xf32>) -> ()
    gpu.return
  }

  // A function of one element, on vectors of a lane's elements. What depends on no argument is computed once, what
  // matrices have is loaded first, nvvm's operations compute element by element.
  // CHECK-LABEL: gpu.func @region
  // CHECK: %[[ONE:.*]] = memref.load %arg4[%{{.*}}] : memref<1xf32>
  // CHECK-NEXT: %[[TWICE:.*]] = arith.mulf %[[ONE]], %{{.*}} : f32
  // CHECK: %[[R:.*]] = "tile.load"(%arg5
  // CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : vector<8xbf16> to vector<8xf32>
  // CHECK: "tile.load_row"(%arg3
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<8xf32>
  // CHECK-COUNT-8: nvvm.ex2 %{{.*}} {ftz = true} : f32
  // CHECK: vector.broadcast %[[TWICE]] : f32 to vector<8xf32>
  // CHECK: arith.mulf
  // CHECK: arith.addf %{{.*}}, %[[WIDE]] : vector<8xf32>
  // CHECK: arith.index_cast %{{.*}} : vector<8xindex> to vector<8xi32>
  // CHECK: "tile.store"
  gpu.func @region(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %v: memref<?xf32>,
                   %one: memref<1xf32>, %r: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.epilogue"() ({
    ^bb0(%sum: f32, %i: index, %j: index):
      %0 = "tile.load_element"(%v, %i) : (memref<?xf32>, index) -> f32
      %1 = arith.mulf %sum, %0 : f32
      %2 = "tile.load_element"(%one) : (memref<1xf32>) -> f32
      %two = arith.constant 2.0 : f32
      %3 = arith.mulf %2, %two : f32
      %4 = nvvm.ex2 %1 {ftz = true} : f32
      %5 = arith.mulf %4, %3 : f32
      %6 = "tile.load_element"(%r, %i, %j) : (memref<?x?xbf16>, index, index) -> f32
      %7 = arith.addf %5, %6 : f32
      %8 = arith.index_cast %j : index to i32
      %9 = arith.sitofp %8 : i32 to f32
      %10 = arith.addf %7, %9 : f32
      "tile.yield"(%10) : (f32) -> ()
    }) : () -> !tile.function
    "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, !tile.function) -> ()
    gpu.return
  }

  // A further result is stored before D. Sums of columns are added up in a warp, where lanes 4, 8 and 16 apart have the
  // same columns; rows beyond D don't count.
  // CHECK-LABEL: gpu.func @further_results
  // CHECK: %[[X:.*]] = arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
  // CHECK-NEXT: %[[KEPT:.*]] = "tile.from_lane"(%[[X]])
  // CHECK: "tile.store"(%[[KEPT]], %arg3
  // CHECK: %[[INSIDE:.*]] = arith.cmpi sgt
  // CHECK: %[[ELEMENTS:.*]]:8 = vector.to_elements
  // CHECK-NEXT: %[[FIRST:.*]] = arith.select %[[INSIDE]], %[[ELEMENTS]]#0, %{{.*}} : f32
  // CHECK: arith.addf %[[FIRST]], %{{.*}} : f32
  // CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c4_i32
  // CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c8_i32
  // CHECK: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c16_i32
  // CHECK: llvm.atomicrmw fadd %{{.*}}, %{{.*}} syncscope("device") monotonic : !llvm.ptr<1>, f32
  // CHECK: "tile.store"(%{{.*}}, %arg2
  gpu.func @further_results(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %x: memref<?x?xbf16>,
                            %v: memref<?xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.epilogue"() ({
    ^bb0(%sum: f32, %i: index, %j: index):
      "tile.store_element"(%sum, %x, %i, %j) : (f32, memref<?x?xbf16>, index, index) -> ()
      "tile.store_element"(%sum, %v, %j) {kind = #vector.kind<add>} : (f32, memref<?xf32>, index) -> ()
      "tile.yield"(%sum) : (f32) -> ()
    }) : () -> !tile.function
    "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>, !tile.function) -> ()
    gpu.return
  }
}
