// RUN: weft-opt %s --mlir-print-local-scope --expand-matmul --canonicalize --cse | FileCheck %s

// Four warps multiply, and of another warpgroup a thread copies. A stage has 64 rows of A and of B, 16384 bytes, which
// two maps bring. The kernel says how many CTAs a multiprocessor has at least: without that ptxas ignores setmaxnreg.

// CHECK: nvvm.minctasm = 1 : i32, weft.stages = 2 : i32
// CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 64, 64>, f16, #tile.layout<"S[(2,64,1,64):(4096,64,4096,1)] xor 128B">, "shared">
// CHECK: "tile.make_ring"() {consumers = 4 : i64, emptied_by = "warps"}
// CHECK: "tile.role"() ({
// CHECK: nvvm.griddepcontrol wait
// CHECK: nvvm.griddepcontrol launch_dependents
// The operands of a block's first step are loaded before the loop, and in it those of the next block's first step
// before the last products of the current one.
// CHECK: "tile.await"
// CHECK-COUNT-2: "tile.load"
// CHECK: scf.for
// CHECK-COUNT-2: "tile.load"
// CHECK: "tile.gemm"
// CHECK-COUNT-2: "tile.load"
// CHECK: "tile.gemm"
// CHECK-COUNT-2: "tile.load"
// CHECK: "tile.gemm"
// CHECK: "tile.release"
// CHECK: "tile.advance"
// CHECK: "tile.await"
// CHECK-COUNT-2: "tile.load"
// CHECK: "tile.gemm"
// CHECK: scf.yield
// CHECK-COUNT-4: "tile.gemm"
// CHECK: "tile.store"
// CHECK: }) {first = 1 : i64{{.*}}warpgroups = 1 : i64}
// CHECK: "tile.role"() ({
// CHECK: nvvm.elect.sync
// CHECK: "tile.acquire"
// CHECK: "tile.expect"({{.*}}) {bytes = 16384 : i64}
// CHECK-COUNT-2: "tile.copy_async"
// CHECK: }) {first = 0 : i64{{.*}}warpgroups = 1 : i64}
gpu.module @m {
  gpu.func @product(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 64, 64, 64>, consumers = array<i64: 2, 2>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }
}
