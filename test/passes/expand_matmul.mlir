// RUN: weft-opt %s --expand-matmul --canonicalize --cse | FileCheck %s

gpu.module @m {
  // Two stages of each operand; a block is in flight while another is multiplied.
  // CHECK-LABEL: gpu.func @transposed
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 32, 32>, f16, #tile.layout<"S[(2,32,32):(1024,32,1)] xor 64B">, "shared">
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 16, 32>, f16, #tile.layout<"S[(2,16,32):(512,32,1)] xor 64B">, "shared">
  // CHECK: scf.if
  // CHECK-COUNT-2: "tile.copy_async"
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: scf.for
  // CHECK: nvvm.cp.async.wait.group 0
  // CHECK-NEXT: gpu.barrier
  // CHECK-COUNT-2: "tile.copy_async"
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: "tile.load"
  // CHECK-SAME: !tile.fragment<array<i64: 16, 16>, f16
  // CHECK: "tile.load"
  // CHECK-SAME: {transpose = true}
  // CHECK-SAME: !tile.fragment<array<i64: 16, 16>, f16
  // CHECK: "tile.gemm"
  // CHECK-SAME: {beta = 1.000000e+00 : f32}
  // CHECK: "tile.load"
  // CHECK: "tile.load"
  // CHECK: "tile.gemm"
  // CHECK-NOT: "tile.gemm"
  // CHECK: scf.yield
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 8 : i64}
  // Rows that aren't aligned: the same product with one stage, between barriers.
  // CHECK: } else {
  // CHECK: scf.for
  // CHECK: gpu.barrier
  // CHECK-COUNT-2: "tile.copy"
  // CHECK: gpu.barrier
  // CHECK-COUNT-2: "tile.gemm"
  // CHECK: "tile.store"
  // CHECK-NOT: vector_bytes
  // CHECK: gpu.return
  gpu.func @transposed(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {transpose_b = true,
      schedule = {block = array<i64: 32, 16, 32>, warps = array<i64: 2, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // Columns that 64 don't divide lie in panels of 32, or of 16.
  // CHECK-LABEL: gpu.func @narrow
  // CHECK: "tile.alloc"
  // CHECK-DAG: #tile.layout<"S[(2,32,3,32):(3072,32,1024,1)] xor 64B">, "shared">
  gpu.func @narrow(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {schedule = {block = array<i64: 16, 96, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // B with N inside lies in panels of 64 columns; three stages leave one group of copies in flight.
  // CHECK-LABEL: gpu.func @plain
  // CHECK-DAG: #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
  // CHECK-DAG: #tile.layout<"S[(3,64,2,64):(8192,64,4096,1)] xor 128B">, "shared">
  // CHECK-COUNT-4: "tile.copy_async"
  // CHECK: scf.for
  // CHECK: nvvm.cp.async.wait.group 1
  // CHECK: "tile.load"
  // CHECK-NOT: transpose
  // CHECK: gpu.return
  gpu.func @plain(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {schedule = {block = array<i64: 64, 128, 64>, warps = array<i64: 2, 2>, stages = 3}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // D = alpha A B + beta C, in f32 up to the last rounding.
  // CHECK-LABEL: gpu.func @epilogue
  // CHECK-DAG: %[[ALPHA:.*]] = arith.constant dense<5.000000e-01> : vector<8xf32>
  // CHECK-DAG: %[[BETA:.*]] = arith.constant dense<2.000000e+00> : vector<8xf32>
  // CHECK: scf.if
  // CHECK: %[[AB:.*]] = "tile.to_lane"
  // CHECK: %[[SCALED:.*]] = arith.mulf %[[AB]], %[[ALPHA]]
  // CHECK: "tile.load"
  // CHECK-SAME: {vector_bytes = 4 : i64} : (memref<?x?xbf16>, i32, i32)
  // CHECK: %[[C:.*]] = arith.extf
  // CHECK: %[[TERM:.*]] = arith.mulf %[[C]], %[[BETA]]
  // CHECK: %[[SUM:.*]] = arith.addf %[[SCALED]], %[[TERM]]
  // CHECK: arith.truncf %[[SUM]] : vector<8xf32> to vector<8xf16>
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 4 : i64}
  gpu.func @epilogue(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>, %c: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c) {alpha = 0.5 : f32, beta = 2.0 : f32,
      schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>, memref<?x?xbf16>) -> ()
    gpu.return
  }

  // alpha 1 multiplies nothing, beta 1 adds C as it is.
  // CHECK-LABEL: gpu.func @plain_sum
  // CHECK-NOT: arith.mulf
  // CHECK: arith.addf
  // CHECK-NOT: arith.mulf
  // CHECK: gpu.return
  gpu.func @plain_sum(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %c: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c) {beta = 1.0 : f32,
      schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
    gpu.return
  }
}
