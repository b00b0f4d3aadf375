// RUN: weft-opt %s --outline-matmul --expand-matmul --canonicalize --cse | FileCheck %s

// A tile's group is searched from that of the tile before on, by numbers of tiles of 64 rows. Threads store tiles
// that end after their group, and TMA the others.
// CHECK-LABEL: gpu.func @rows
// CHECK: "tile.role"
// CHECK: scf.while
// CHECK: scf.while
// CHECK: memref.load %{{.*}} : memref<?xi32>
// CHECK: arith.minsi
// CHECK: %[[UP:.*]] = arith.addi %{{.*}}, %c63_i32
// CHECK: arith.divui %[[UP]], %c64_i32
// CHECK: scf.condition
// CHECK: "tile.gemm_async"
// CHECK: memref.load %{{.*}} : memref<?xi32>
// CHECK: %[[END:.*]] = arith.minsi
// CHECK: arith.cmpi slt, %[[END]],
// CHECK: scf.if
// CHECK: "tile.copy_out"
// CHECK: else
// CHECK: "tile.store_async"
func.func @rows(%a: memref<?x?xbf16>, %b: memref<?x?x?xbf16>, %d: memref<?x?xbf16>, %ends: memref<?xi32>) {
  "tile.matmul"(%a, %b, %d, %ends) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1,
    stages = 3}} : (memref<?x?xbf16>, memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?xi32>) -> ()
  return
}

// A tile has the K blocks of its part of K, at least one. What is outside of the part is set to zero.
// CHECK-LABEL: gpu.func @parts
// CHECK: "tile.role"
// CHECK: %[[HAS:.*]] = arith.cmpi slt
// CHECK: %[[COUNT:.*]] = arith.select %[[HAS]], %{{.*}}, %c0_i32
// CHECK: %[[UP:.*]] = arith.addi %[[COUNT]], %c63_i32
// CHECK: %[[BLOCKS:.*]] = arith.divui %[[UP]], %c64_i32
// CHECK: %[[END:.*]] = arith.maxsi %[[BLOCKS]], %c1_i32
// CHECK: %[[LAST:.*]] = arith.maxsi %[[END]], %c1_i32
// CHECK: scf.for {{.*}} = %c0_i32 to %[[LAST]]
// CHECK: "tile.await"
// CHECK: %[[LEFT:.*]] = arith.subi %[[COUNT]], %{{.*}}
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %[[LEFT]], %c64_i32
// CHECK: scf.if
// CHECK: llvm.store
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.barrier
// CHECK: "tile.gemm_async"
func.func @parts(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xf32>, %ends: memref<?xi32>) {
  "tile.matmul"(%a, %b, %d, %ends) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0>, transpose_a = true, beta = 1.0 : f32, schedule = {
    block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xf32>, memref<?xi32>) -> ()
  return
}
