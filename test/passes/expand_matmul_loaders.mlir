// RUN: weft-opt %s --mlir-print-local-scope --expand-matmul --canonicalize --cse | FileCheck %s

gpu.module @m {
  // No tensor maps: each stage has aligned vectors of the tiles' rows, too, with 8 elements more in each row.
  // The four warps of a warpgroup fill a stage.
  // CHECK-LABEL: gpu.func @loaders
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 4, 64, 64>, bf16, #tile.layout<"S[(4,64,1,64):(4096,64,4096,1)] xor 128B">, "shared">
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 4, 64, 72>, bf16, #tile.layout<"S[(4,64,72):(4608,72,1)]">, "shared">
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 4, 8, 72>, bf16, #tile.layout<"S[(4,8,72):(576,72,1)]">, "shared">
  // CHECK: "tile.make_ring"() {consumers = 1 : i64, filled_by = "warps", producers = 4 : i64}
  // CHECK-NOT: "tile.tensor_map"
  // Consumers are the third warpgroup.
  // CHECK: "tile.role"
  // CHECK: "tile.gemm_async"
  // CHECK: {first = 2 : i64, registers = 0 : i64, warpgroups = 1 : i64}
  // Two K blocks are copied ahead, one by each of two warpgroups.
  // CHECK: "tile.role"
  // CHECK: nvvm.griddepcontrol wait
  // CHECK: scf.for
  // CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: scf.for
  // CHECK: nvvm.cp.async.wait.group 0
  // CHECK-NEXT: nvvm.bar.warp.sync
  // CHECK: nvvm.cp.async.shared.global
  // CHECK: nvvm.bar.warp.sync
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: "tile.acquire"
  // CHECK: llvm.intr.fshr
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 16 : i64}
  // CHECK: "tile.store"
  // CHECK: "tile.commit"
  // CHECK: {first = 0 : i64, registers = 0 : i64, warpgroups = 2 : i64}
  gpu.func @loaders(%a: memref<?x?xbf16, strided<[?, 1]>>, %b: memref<?x?xbf16, strided<[?, 1]>>, %d: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 64, 8, 64>, warpgroups = 1, stages = 4, swap = true, loaders = 2}}
      : (memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16, strided<[?, 1]>>, memref<?x?xbf16>) -> ()
    gpu.return
  }
}
