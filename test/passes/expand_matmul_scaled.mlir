// RUN: weft-opt %s --outline-matmul --expand-matmul --canonicalize --cse | FileCheck %s

// Scales of A come with each stage; those of B are read for 32 blocks of K at a time, one by each lane, which gives it to
// all a block ahead. A lane's sums are of two rows, and 64 columns share a scale of B: there are two factors. What a product's instructions have summed is added up, scaled, before the next. With two parts a way
// around begins and ends while the second's product is under way, and takes two blocks; where their number is odd, another
// loop takes the last. The next block is awaited behind the second part's sums.
// CHECK-LABEL: gpu.func @scaled
// CHECK: %[[SCALES:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 1, 256>, f32
// CHECK: "tile.tensor_map"(%{{.*}}) : (memref<?x?xf32>)
// CHECK: "tile.make_ring"() {consumers = 8 : i64, emptied_by = "warps"}
// CHECK: "tile.role"
// CHECK: %[[FIRST:.*]] = memref.load
// CHECK: "tile.await"
// CHECK-COUNT-2: "tile.load_row"
// CHECK: %[[GROUP:.*]] = "tile.gemm_async"
// CHECK: %[[DONE:.*]] = "tile.wait_gemm"(%[[GROUP]])
// CHECK: %[[LANE:.*]] = "tile.to_lane"(%[[DONE]])
// CHECK: %[[SUMS:.*]]:32 = vector.to_elements %[[LANE]]
// CHECK: llvm.intr.fma(%[[SUMS]]#0, %{{.*}}, %{{.*}})
// CHECK: "tile.pin"
// CHECK: %[[SECOND:.*]] = "tile.gemm_async"({{.*}}, %[[DONE]], %false)
// CHECK: %[[NEXT:.*]] = memref.load
// CHECK: %[[LANES:.*]] = memref.load
// CHECK: %[[LEFT:.*]]:10 = scf.for {{.*}} step %c32_i32 iter_args(%[[AHEAD:.*]] = %[[LANES]], {{.*}} = %[[SECOND]], {{.*}}, %[[OF_FIRST:[a-z0-9]+]] = %[[NEXT]])
// CHECK: %[[LATER:.*]] = memref.load
// CHECK: scf.for {{.*}} step %c2_i32 iter_args({{.*}}, %[[UNDER_WAY:[a-z0-9]+]] = %{{.*}}, %[[FACTOR:[a-z0-9]+]] = %{{.*}}, %[[FURTHER:[a-z0-9]+]] = %{{.*}}, %[[STAGE:[a-z0-9]+]] = %{{.*}}, %{{.*}}, %{{.*}}, %[[NOW:[a-z0-9]+]] = %[[OF_FIRST]])
// CHECK: %[[LAST:.*]] = "tile.wait_gemm"(%[[UNDER_WAY]])
// CHECK: "tile.release"(%{{.*}}, %[[STAGE]])
// CHECK: %[[LANE:.*]] = "tile.to_lane"(%[[LAST]])
// CHECK: %[[SUMS:.*]]:32 = vector.to_elements %[[LANE]]
// CHECK: llvm.intr.fma(%[[SUMS]]#0, %[[FACTOR]],
// CHECK: llvm.intr.fma(%[[SUMS]]#1, %[[FACTOR]],
// CHECK: llvm.intr.fma(%[[SUMS]]#2, %[[FURTHER]],
// CHECK: llvm.intr.fma(%[[SUMS]]#31, %[[FURTHER]],
// CHECK: "tile.pin"
// CHECK: "tile.await"
// CHECK: "tile.load_row"
// CHECK: arith.mulf %{{.*}}, %[[NOW]] : f32
// CHECK: %[[GROUP:.*]] = "tile.gemm_async"({{.*}}, %[[LAST]], %false)
// CHECK: %[[DONE:.*]] = "tile.wait_gemm"(%[[GROUP]])
// CHECK: "tile.gemm_async"({{.*}}, %[[DONE]], %false)
// CHECK: "tile.advance"
// CHECK: nvvm.shfl.sync idx %{{.*}}, %[[AHEAD]],
// CHECK: "tile.await"
// CHECK: %[[TOLD:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[AHEAD]],
// CHECK: scf.yield {{.*}}, %[[TOLD]] :
// CHECK: scf.for {{.*}} step %c1_i32
// CHECK: "tile.await"
// CHECK: scf.yield %[[LATER]],
// CHECK-NOT: "tile.await"
// CHECK: "tile.wait_gemm"(%[[LEFT]]#3)
// CHECK: "tile.release"
// CHECK: llvm.intr.fma(%{{.*}}, %[[LEFT]]#4,
// CHECK: "tile.role"
// CHECK: "tile.expect"{{.*}}bytes = 41984
// CHECK-COUNT-3: "tile.copy_async"
#schedule = {block = array<i64: 256, 64, 128>, warpgroups = 2, stages = 3}
func.func @scaled(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                  %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {transpose_b = true, roles = ["scale_a", "scale_b"],
    schedule = #schedule} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>,
                             memref<?x?xf32>) -> ()
  return
}

// With one part a block is awaited where its products begin, the last one too.
// CHECK-LABEL: gpu.func @one_part
// CHECK: "tile.role"
// CHECK: memref.load
// CHECK-NOT: "tile.await"
// CHECK: scf.for {{.*}} step %c32_i32
// CHECK: scf.for
// CHECK-NEXT: "tile.await"
// CHECK: "tile.gemm_async"
// CHECK: "tile.release"
// CHECK-NOT: "tile.await"
// CHECK: scf.yield
// CHECK: scf.yield
// CHECK-NOT: "tile.gemm_async"
// CHECK: "tile.role"
#one_part = {block = array<i64: 128, 192, 128>, warpgroups = 2, stages = 3}
func.func @one_part(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                    %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {transpose_b = true, roles = ["scale_a", "scale_b"],
    schedule = #one_part} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>,
                             memref<?x?xf32>) -> ()
  return
}

// Of 64 rows two products fit beside the sums: a block is added up while the next one's product is under way, and
// its stage released then. A way around the loop takes two blocks, so that each product keeps its registers.
// CHECK-LABEL: gpu.func @in_flight
// CHECK: "tile.role"
// CHECK: "tile.await"
// CHECK: %[[FIRST:.*]] = "tile.gemm_async"
// CHECK: scf.for {{.*}} step %c2_i32 iter_args({{.*}}, %[[ONE:.*]] = %[[FIRST]], %[[STAGE:.*]] = %{{.*}}, %[[OF_B:.*]] = %{{.*}})
// CHECK: "tile.await"({{.*}}, %[[NEXT_STAGE:.*]], %{{.*}})
// CHECK: %[[TWO:.*]] = "tile.gemm_async"
// CHECK: %[[FACTOR:.*]] = arith.mulf %{{.*}}, %[[OF_B]] : f32
// CHECK: %[[DONE:.*]] = "tile.wait_gemm"(%[[ONE]]) {pending = 1
// CHECK: "tile.release"(%{{.*}}, %[[STAGE]])
// CHECK: %[[LANE:.*]] = "tile.to_lane"(%[[DONE]])
// CHECK: %[[SUMS:.*]]:32 = vector.to_elements %[[LANE]]
// CHECK: llvm.intr.fma(%[[SUMS]]#0, %[[FACTOR]],
// CHECK: "tile.await"
// CHECK: %[[THREE:.*]] = "tile.gemm_async"({{.*}}, %[[DONE]], %false)
// CHECK: "tile.wait_gemm"(%[[TWO]]) {pending = 1
// CHECK: "tile.release"(%{{.*}}, %[[NEXT_STAGE]])
// CHECK: llvm.intr.fma
// CHECK: scf.yield {{.*}}, %[[THREE]],
// CHECK: scf.if
// CHECK: %[[LAST:.*]] = "tile.gemm_async"
// CHECK: "tile.wait_gemm"(%{{.*}}) {pending = 1
// CHECK: "tile.wait_gemm"(%[[LAST]]) :
// CHECK: } else {
// CHECK-NOT: "tile.gemm_async"
// CHECK: "tile.wait_gemm"(%{{.*}}) :
#beside = {block = array<i64: 64, 64, 128>, warpgroups = 1, stages = 6}
func.func @in_flight(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                     %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {transpose_b = true, roles = ["scale_a", "scale_b"],
    schedule = #beside} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>,
                           memref<?x?xf32>) -> ()
  return
}
